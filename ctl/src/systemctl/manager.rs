//! What is asked of the manager and not of a unit: `daemon-reload`, `get-default`, power,
//! the environment.

use super::snapshot::session;
use super::words::Asked;
use super::{FAILED, Outcome, complain};
use crate::exit::{Exit, Trouble};
use crate::policy_file;
use crate::session::{self, Session};
use groundstate_units::control::answer::{Cause, Changed, Pong, Status};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::name::Name;
use groundstate_units::settings_file;
use std::os::unix::fs::MetadataExt;

/// The verbs, in short.
pub(super) fn help() -> Outcome {
    session::print(
        "systemctl [OPTIONS…] COMMAND [UNIT…]: systemd's words for Groundstate's init.\n\n\
         is-active is-failed is-enabled is-system-running status show cat list-units\n\
         list-unit-files list-dependencies list-jobs start stop restart try-restart reload\n\
         reload-or-restart kill reset-failed isolate enable disable mask unmask preset\n\
         daemon-reload daemon-reexec get-default set-default poweroff reboot halt\n\n\
         start and stop change the overlay of the goal (`initctl status` shows it);\n\
         `initctl --help` says what else there is.\n",
    )?;
    Ok(0)
}

/// `--version`: programs read a number here, so it says which systemd's command line this is.
pub(super) fn version() -> Outcome {
    session::print(&format!("systemd 252 (groundstate {})\n", env!("CARGO_PKG_VERSION")))?;
    Ok(0)
}

/// `daemon-reload`. Without an init, in a tree that is being built, there is nothing to tell.
pub(super) fn reload(asked: &Asked) -> Outcome {
    let session = session();
    if is_offline(&session, asked)? {
        return Ok(0);
    }
    let (before, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    told(&session, Verb::Reload { no_restart: true })?;
    again(&session, &before)?;
    Ok(0)
}

/// `daemon-reexec`: init goes on as the binary that is installed now, and reads its files anew.
pub(super) fn reexec(asked: &Asked) -> Outcome {
    let session = session();
    if is_offline(&session, asked)? {
        return Ok(0);
    }
    session.ask(Verb::Upgrade { binary: None })?;
    reload(asked)
}

/// A unit comes up as soon as its link is read, which may be before its package has made its
/// user or its files. The reload at the end of the package's installation is its next try.
fn again(session: &Session, before: &Status) -> Result<(), Trouble> {
    for unit in before.units.iter().filter(|unit| unit.needed && unit.state == State::Failed) {
        if let (Some(Cause::Exit { .. } | Cause::Signal { .. } | Cause::Exec { .. }), Ok(name)) =
            (unit.reason.as_ref().map(|why| &why.cause), Name::new(&unit.unit))
        {
            // One that went with the reload has nothing to try.
            let _ = session.ask(Verb::Retry { targets: vec![name] });
        }
    }
    Ok(())
}

/// A reload; what was found in the files goes to stderr.
pub(super) fn told(session: &Session, verb: Verb) -> Result<Changed, Trouble> {
    match session.ask_as::<Changed>(verb) {
        Ok((changed, _)) => Ok(changed),
        Err(Trouble::Failed(exit, mut failure)) => {
            for said in failure.report.iter().flat_map(|report| &report.diagnostics) {
                complain(&format!("{}:{}: {}", said.file, said.line, said.message));
            }
            failure.hint.clear();
            Err(Trouble::Failed(exit, failure))
        }
        Err(other) => Err(other),
    }
}

/// There is no init to ask and none is meant: `--root`, `SYSTEMD_OFFLINE`, or a chroot.
/// Says so where something is left undone.
pub(super) fn is_offline(session: &Session, asked: &Asked) -> Result<bool, Trouble> {
    if asked.root.is_some() {
        return Ok(true);
    }
    let told =
        std::env::var("SYSTEMD_OFFLINE").is_ok_and(|word| matches!(word.as_str(), "1" | "yes"));
    if session.init()?.is_some() && !told {
        return Ok(false);
    }
    if told || in_chroot() {
        if !asked.quiet {
            complain(&format!("Running in chroot, ignoring request: {}", asked.verb));
        }
        return Ok(true);
    }
    Ok(false)
}

/// The root directory is not that of PID 1.
fn in_chroot() -> bool {
    let id = |path: &str| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    match (id("/"), id("/proc/1/root/")) {
        (Some(own), Some(first)) => own != first,
        // No /proc: a tree that is being built.
        (_, None) => !std::path::Path::new("/proc/self").exists(),
        (None, _) => false,
    }
}

/// `get-default`.
pub(super) fn get_default(asked: &Asked) -> Outcome {
    let name = default_target(&session(), asked)?;
    session::print(&if name.contains('.') { name } else { format!("{name}.target") })?;
    Ok(0)
}

/// What the settings say.
pub(super) fn default_target(session: &Session, asked: &Asked) -> Result<String, Trouble> {
    let path = config(session, asked)?;
    let text = std::fs::read(&path).unwrap_or_default();
    let (settings, _) = settings_file::read(&path.as_str().into(), &text);
    Ok(settings.default_target.to_string())
}

/// `set-default`.
pub(super) fn set_default(asked: &Asked) -> Outcome {
    let session = session();
    let Some(name) = asked.names.first() else {
        complain("Too few arguments.");
        return Ok(FAILED);
    };
    let mut wanted = name.clone();
    if session.init()?.is_some() && asked.root.is_none() {
        let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
        let known = |name: &str| status.targets.iter().any(|target| target.target == name);
        if !known(&wanted) {
            wanted = wanted.strip_suffix(".target").unwrap_or(&wanted).to_string();
        }
    }
    let name = Name::new(&wanted).map_err(|error| Trouble::usage(format!("{error}"), ""))?;
    let path = config(&session, asked)?;
    policy_file::set_default_target(&path, &name)?;
    complain(&format!("{path}: default-target: {name}"));
    Ok(0)
}

fn config(session: &Session, asked: &Asked) -> Result<String, Trouble> {
    if let Some(root) = &asked.root {
        return Ok(format!("{root}/etc/groundstate/init.yaml"));
    }
    let init: Option<Pong> = session.init()?;
    Ok(init.map_or_else(|| session.places.config.clone(), |init| init.paths.config))
}

/// `poweroff` and its kin.
pub(super) fn power(asked: &Asked) -> Outcome {
    let code = asked.names.first().and_then(|word| word.parse().ok()).unwrap_or(0);
    let verb = match asked.verb.as_str() {
        "reboot" | "kexec" | "soft-reboot" => Verb::Reboot {},
        "halt" => Verb::Halt {},
        "exit" => Verb::Exit { code },
        _ => Verb::Poweroff {},
    };
    session().ask(verb)?;
    Ok(0)
}

/// `show-environment`: what init gives its services is a matter of its configuration.
pub(super) fn environment() -> Outcome {
    session::print("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")?;
    Ok(0)
}

/// What only systemd has a use for.
pub(super) fn ignored(asked: &Asked) -> Outcome {
    let message = format!("systemctl {}: there is no such thing here", asked.verb);
    Err(Trouble::Failed(
        Exit::Usage,
        groundstate_units::control::answer::Failure::new("usage", message, ""),
    ))
}

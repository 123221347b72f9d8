//! Verbs about the manager instead of a unit: `daemon-reload`, `get-default`, power, environment.

use super::enablement::Enablement;
use super::snapshot::{session_of, with_suffix};
use super::wait::{Aim, Awaited, Watch, names};
use super::words::Asked;
use super::{FAILED, Outcome, complain};
use crate::exit::Error;
use crate::files::Rooted;
use crate::policy_file;
use crate::report::Digest;
use crate::session::{self, Session};
use groundstate_units::control::answer::{
    Cause, Changed, Failure, Plan, Pong, Said, Status, UnitStatus,
};
use groundstate_units::control::request::Verb;
use groundstate_units::load::{Options, load};
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use groundstate_units::unit::settings_file;
use std::os::unix::fs::MetadataExt;

/// Prints a short list of the verbs.
pub(super) fn help() -> Outcome {
    session::print(
        "systemctl [OPTIONS…] COMMAND [UNIT…]: systemd's words for Groundstate's init.\n\n\
         is-active is-failed is-enabled is-system-running status show cat list-units\n\
         list-unit-files list-dependencies list-jobs start stop restart try-restart reload\n\
         reload-or-restart kill reset-failed isolate enable disable mask unmask preset edit\n\
         daemon-reload daemon-reexec get-default set-default poweroff reboot halt\n\n\
         start and stop change the overlay of the goal (`initctl status` shows it);\n\
         `initctl --help` lists the native commands.\n",
    )?;
    Ok(0)
}

/// `--version`: programs parse a number here, so it names the systemd version whose command line
/// this is.
pub(super) fn version() -> Outcome {
    session::print(&format!("systemd 252 (groundstate {})\n", env!("CARGO_PKG_VERSION")))?;
    Ok(0)
}

/// The unit of the boot set that runs generators of packages.
const GENERATORS: &str = "generators";

/// `daemon-reload`. In a tree without an init it does nothing.
pub(super) fn reload(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    if is_offline(&session, asked)? {
        return Ok(0);
    }
    let status = || session.ask_as::<Status>(Verb::Status { targets: Vec::new() });
    let (known, _) = status()?;
    // The generators make init reload, too.
    forget_deleted(&session, &known, &known.overlay.want)?;
    run_generators(&session)?;
    let (before, _) = status()?;
    forget_deleted(&session, &before, &before.overlay.want)?;
    reload_init(&session, Verb::Reload { no_restart: true })?;
    let (now, _) = status()?;
    forget_deleted(&session, &now, &now.overlay.drop)?;
    retry_failed(&session, &before)?;
    Ok(0)
}

/// Runs the generators, because their output depends on files that a package may have changed. As with
/// systemd, the reload goes ahead if a generator fails.
fn run_generators(session: &Session) -> Result<(), Error> {
    let watch = Watch::begin(session)?;
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    let is_runner = |unit: &&UnitStatus| unit.unit == GENERATORS && unit.needed;
    let Some(unit) = status.units.iter().find(is_runner) else { return Ok(()) };
    let targets = names(std::slice::from_ref(&unit.unit));
    let verb = if unit.state == State::Failed {
        Verb::Retry { targets }
    } else {
        Verb::Restart { targets }
    };
    session.ask(verb)?;
    let (unit, attempt, aim) = (unit.unit.clone(), unit.attempt, Aim::Up(unit.run));
    for (_, why) in watch.until(session, &[Awaited { unit, attempt, aim }])? {
        complain(&format!("{GENERATORS}: {why}; `journalctl -u {GENERATORS}` shows the output"));
    }
    Ok(())
}

/// Removes units from the overlay whose unit file was deleted. init would refuse a reload with such
/// a wanted unit. A dropped one would be dropped again when its package returns.
fn forget_deleted(session: &Session, now: &Status, names: &[String]) -> Result<(), Error> {
    if names.is_empty() {
        return Ok(());
    }
    let enablement = Enablement::of(session, None)?;
    for name in names {
        let provided = now.targets.iter().find(|target| target.target == *name);
        let unit = provided.and_then(|target| target.unit.as_ref()).unwrap_or(name);
        let unit = now.units.iter().find(|one| one.unit == *unit || one.provides.contains(name));
        let is_there = match unit {
            Some(unit) => unit.file.is_empty() || std::fs::metadata(&unit.file).is_ok(),
            None => enablement.find(&with_suffix(name)).is_some(),
        };
        if let (false, Ok(target)) = (is_there, Name::new(name)) {
            session.ask(Verb::Unwant { target })?;
        }
    }
    Ok(())
}

/// `daemon-reexec`: upgrades init to the installed binary, which reads its files again.
pub(super) fn reexec(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    if is_offline(&session, asked)? {
        return Ok(0);
    }
    session.ask(Verb::Upgrade { binary: None })?;
    reload(asked)
}

/// Retries units that failed before the reload. A unit starts as soon as its link is read, which
/// may be before its package has created its user or files.
fn retry_failed(session: &Session, before: &Status) -> Result<(), Error> {
    let has_failed = |unit: &&UnitStatus| unit.needed && unit.state == State::Failed;
    let others = before.units.iter().filter(has_failed).filter(|unit| unit.unit != GENERATORS);
    for unit in others {
        if let (Some(Cause::Exit { .. } | Cause::Signal { .. } | Cause::Exec { .. }), Ok(name)) =
            (unit.reason.as_ref().map(|why| &why.cause), Name::new(&unit.unit))
        {
            // A unit that the reload removed cannot be retried.
            let _ = session.ask(Verb::Retry { targets: vec![name] });
        }
    }
    Ok(())
}

/// Reloads init. If init refuses, prints the diagnostics to stderr.
pub(super) fn reload_init(session: &Session, verb: Verb) -> Result<Changed, Error> {
    match session.ask_as::<Changed>(verb) {
        Ok((changed, _)) => Ok(changed),
        Err(Error::Failed(exit, mut failure)) => {
            let diagnostics = failure.report.as_ref().map_or(&[][..], |report| &report.diagnostics);
            let digest = Digest::of(diagnostics);
            let line = |said: &&Said| format!("{}:{}: {}", said.file, said.line, said.message);
            let advice = digest.advice.iter().map(line).chain(digest.left_out.clone());
            advice.chain(digest.errors.iter().map(line)).for_each(|line| complain(&line));
            failure.hint.clear();
            Err(Error::Failed(exit, failure))
        }
        Err(other) => Err(other),
    }
}

/// Returns true if no init should be asked: `--root`, `SYSTEMD_OFFLINE`, or a chroot. Warns if the
/// request is ignored.
pub(super) fn is_offline(session: &Session, asked: &Asked) -> Result<bool, Error> {
    if asked.root.is_some() {
        return Ok(true);
    }
    let is_requested =
        std::env::var("SYSTEMD_OFFLINE").is_ok_and(|word| matches!(word.as_str(), "1" | "yes"));
    if session.init()?.is_some() && !is_requested {
        return Ok(false);
    }
    if is_requested || in_chroot() {
        if !asked.quiet {
            complain(&format!("Running in chroot, ignoring request: {}", asked.verb));
        }
        return Ok(true);
    }
    Ok(false)
}

/// Returns true if the root directory differs from that of PID 1.
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
    let name = default_target(&session_of(asked.user), asked)?;
    session::print(&if name.contains('.') { name } else { format!("{name}.target") })?;
    Ok(0)
}

/// Returns the default target from the settings.
pub(super) fn default_target(session: &Session, asked: &Asked) -> Result<String, Error> {
    let path = settings_path(session, asked)?;
    let text = std::fs::read(&path).unwrap_or_default();
    let (settings, _) = settings_file::read(&path.as_str().into(), &text);
    Ok(settings.default_target.to_string())
}

/// `set-default`.
pub(super) fn set_default(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let Some(name) = asked.names.first() else {
        complain("Too few arguments.");
        return Ok(FAILED);
    };
    let bare = name.strip_suffix(".target").unwrap_or(name);
    let tried = [name.clone(), bare.to_string(), format!("{bare}.target")];
    let tried: Vec<Name> = tried.iter().filter_map(|name| Name::new(name).ok()).collect();
    let path = settings_path(&session, asked)?;
    let found = match session.init()?.filter(|_| asked.root.is_none()) {
        Some(_) => usable_goal(&session, &tried)?,
        None => Ok(offline_target(asked.root.as_deref().unwrap_or_default(), &tried)),
    };
    let name = match found {
        Ok(Some(name)) => name,
        Ok(None) => {
            complain(&format!("Failed to set default target: no unit provides {bare}.target."));
            return Ok(FAILED);
        }
        Err(why) => {
            complain(&format!("Failed to set default target: {why}"));
            return Ok(FAILED);
        }
    };
    policy_file::set_default_target(&path, &name)?;
    complain(&format!("{path}: default-target: {name}"));
    Ok(0)
}

/// Returns the first of these targets that exists, or the reason why it cannot be init's goal.
fn usable_goal(session: &Session, tried: &[Name]) -> Result<Result<Option<Name>, String>, Error> {
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    for name in tried {
        let (want, drop) = (Vec::new(), Vec::new());
        let plan = Verb::Plan { targets: vec![name.clone()], want, drop, reload: false };
        match session.ask_as::<Plan>(plan) {
            Ok((plan, _)) => {
                let mut targets = status.targets.iter();
                let target = targets.find(|target| target.target == name.as_str());
                let unit =
                    target.and_then(|target| target.unit.as_deref()).unwrap_or(name.as_str());
                let mut up = plan.start.iter().flatten().chain(&plan.keep);
                if !up.any(|up| up == unit) {
                    return Ok(Err(format!("{unit} cannot start (initctl why {name})")));
                }
                return Ok(Ok(Some(name.clone())));
            }
            Err(Error::Failed(_, why)) if why.kind == Failure::UNKNOWN_TARGET => {}
            Err(Error::Failed(_, why)) => return Ok(Err(why.message)),
            Err(other) => return Err(other),
        }
    }
    Ok(Ok(None))
}

/// Like [`usable_goal`], in a tree of files.
fn offline_target(root: &str, tried: &[Name]) -> Option<Name> {
    let options = Options { wanted: tried.to_vec(), ..Options::system(0) };
    let generation = load(&Rooted(root), &options, None).generation;
    let is_provided = |name: &&Name| {
        let target = generation.find_target(name.as_str()).and_then(|id| generation.target(id));
        target.is_some_and(|target| !target.candidates.is_empty())
            || generation.find_unit(name.as_str()).is_some()
    };
    tried.iter().find(is_provided).cloned()
}

fn settings_path(session: &Session, asked: &Asked) -> Result<String, Error> {
    if let Some(root) = &asked.root {
        return Ok(Rooted(root).at("/etc/groundstate/init.yaml"));
    }
    let init: Option<Pong> = session.init()?;
    Ok(init.map_or_else(|| session.places.config.clone(), |init| init.paths.config))
}

/// `poweroff`, `reboot`, `halt`, `exit`.
pub(super) fn power(asked: &Asked) -> Outcome {
    let verb = match (asked.verb.as_str(), asked.names.as_slice()) {
        ("reboot", []) => Verb::Reboot {},
        ("halt", []) => Verb::Halt {},
        ("poweroff", []) => Verb::Poweroff {},
        ("exit", []) => Verb::Exit { code: 0 },
        ("exit", [code]) => match code.parse() {
            Ok(code) => Verb::Exit { code },
            Err(_) => {
                return Ok(not_done(asked, &format!("{code} is not an exit code from 0 to 255")));
            }
        },
        ("reboot", [_]) => {
            return Ok(not_done(asked, "init passes no argument to the boot loader"));
        }
        _ => {
            complain("Too many arguments.");
            return Ok(FAILED);
        }
    };
    match asked.when.as_deref() {
        None | Some("" | "now") => {}
        Some("cancel") => return Ok(not_done(asked, "`shutdown -c` cancels a planned shutdown")),
        Some(when) => {
            let why = format!(
                "--when={when} is not supported: `shutdown +5` or `shutdown 23:00` plans a shutdown"
            );
            return Ok(not_done(asked, &why));
        }
    }
    if asked.dry_run {
        complain(&format!("{}: init would stop all units; nothing was done", asked.verb));
        return Ok(0);
    }
    let session = session_of(asked.user);
    session.ask(verb)?;
    if asked.force > 0 {
        session.ask(Verb::Hasten { at_once: asked.force > 1 })?;
    }
    Ok(0)
}

/// Prints `Failed to VERB: …`.
fn not_done(asked: &Asked, why: &str) -> u8 {
    complain(&format!("Failed to {}: {why}", asked.verb));
    FAILED
}

/// `switch-root ROOT [INIT]`.
pub(super) fn switch_root(asked: &Asked) -> Outcome {
    let (root, init) = match asked.names.as_slice() {
        [root] => (root.clone(), None),
        [root, init] => (root.clone(), Some(init.clone())),
        _ => {
            complain("Usage: systemctl switch-root ROOT [INIT]");
            return Ok(FAILED);
        }
    };
    session_of(asked.user).ask(Verb::SwitchRoot { root, init })?;
    Ok(0)
}

/// Verbs of systemctl(1) without a counterpart in init, with a replacement.
const REFUSED: [(&str, &str); 21] = [
    (
        "soft-reboot",
        "init cannot restart user space alone: `systemctl reboot` restarts the machine, \
         `systemctl daemon-reexec` replaces init and keeps the services",
    ),
    (
        "kexec",
        "init does not boot a kernel that kexec has loaded: `systemctl reboot` goes through the \
         firmware",
    ),
    ("suspend", NO_SLEEP),
    ("hibernate", NO_SLEEP),
    ("hybrid-sleep", NO_SLEEP),
    ("suspend-then-hibernate", NO_SLEEP),
    ("set-environment", NO_ENVIRONMENT),
    ("unset-environment", NO_ENVIRONMENT),
    ("import-environment", NO_ENVIRONMENT),
    (
        "set-property",
        "resource limits belong in the unit: `systemctl edit`, then `systemctl daemon-reload`",
    ),
    ("freeze", "init does not freeze units; the cgroup.freeze file of the unit's cgroup does"),
    ("thaw", "init does not freeze units; the cgroup.freeze file of the unit's cgroup does"),
    ("clean", "init removes no state of units: remove the directories by hand"),
    ("bind", "init mounts nothing into a service"),
    ("mount-image", "init mounts no images into services"),
    ("cancel", "init has no jobs that could be cancelled: `systemctl stop` undoes a start"),
    ("log-level", "the level of init's own messages is fixed"),
    ("log-target", "init's own messages go to the console and the kernel log"),
    ("service-watchdogs", "watchdogs of services cannot be switched off as a whole"),
    ("list-machines", "init knows no containers"),
    ("daemon", "not a verb of systemctl"),
];
const NO_SLEEP: &str = "init does not put the machine to sleep: write to /sys/power/state";
const NO_ENVIRONMENT: &str = "init has no environment block that changes at run time: use Environment= or \
     EnvironmentFile= in a unit or a drop-in, or `env:` in init.yaml for all units";

/// Returns why a verb of systemctl(1) is refused.
pub(super) fn refusal(verb: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(refused, _)| *refused == verb).map(|(_, why)| *why)
}

/// Prints the refusal.
pub(super) fn refused(asked: &Asked, why: &str) -> Outcome {
    Ok(not_done(asked, why))
}

/// `show-environment`: the variables that init gives to every unit.
pub(super) fn environment(asked: &Asked) -> Outcome {
    let path = settings_path(&session_of(asked.user), asked)?;
    let text = std::fs::read(&path).unwrap_or_default();
    let (settings, _) = settings_file::read(&path.as_str().into(), &text);
    let mut lines = vec![];
    if !settings.env.iter().any(|(name, _)| name == "PATH") {
        lines.push("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_string());
    }
    lines.extend(settings.env.iter().map(|(name, value)| format!("{name}={value}")));
    session::print(&lines.join("\n"))?;
    Ok(0)
}

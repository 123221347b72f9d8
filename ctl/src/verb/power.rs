//! `poweroff`, `reboot`, `halt`, `exit`, `upgrade`, `switch-root`: end or replace init.

use crate::arguments::{ExitWith, Power, PowerAt, SwitchRoot, Upgrade};
use crate::exit::{Error, Exit};
use crate::machine::planned_shutdown::{self, Plan};
use crate::session::{self, Session};
use groundstate_units::control::answer::{Failure, Pong, SCHEMA, Told};
use groundstate_units::control::request::Verb;
use groundstate_units::text::name::Name;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot as reboot_now};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, stdin};
use std::os::fd::AsFd;
use std::path::Path;

/// Seconds in which a user at a terminal can cancel.
const GRACE: u32 = 5;
/// The kind of init's refusal of `unwant` for a unit that is not wanted.
const NOT_WANTED: &str = "not-wanted";

/// `poweroff`.
pub(crate) fn poweroff(session: &Session, asked: &PowerAt) -> Result<Exit, Error> {
    now_or_later(session, asked, Verb::Poweroff {}, "the machine powers off")
}

/// `reboot`.
pub(crate) fn reboot(session: &Session, asked: &PowerAt) -> Result<Exit, Error> {
    now_or_later(session, asked, Verb::Reboot {}, "the machine reboots")
}

/// `halt`.
pub(crate) fn halt(session: &Session, asked: &PowerAt) -> Result<Exit, Error> {
    now_or_later(session, asked, Verb::Halt {}, "the machine halts")
}

fn now_or_later(session: &Session, asked: &PowerAt, verb: Verb, last: &str) -> Result<Exit, Error> {
    match &asked.at {
        Some(at) => plan(session, at, &verb, asked.message.as_deref().unwrap_or_default()),
        None if asked.cancel => cancel(session),
        None => end(session, asked.power, verb, last),
    }
}

/// The unit that carries a plan out.
fn unit() -> Result<Name, Error> {
    Name::new(planned_shutdown::UNIT).map_err(|error| Error::local(error.to_string(), ""))
}

/// Plans a shutdown, in place of one that was planned before.
fn plan(session: &Session, at: &str, verb: &Verb, message: &str) -> Result<Exit, Error> {
    let Some((at, clock)) = planned_shutdown::point(at, planned_shutdown::now) else {
        let hint = "a time is HH:MM, or +M for minutes from now, up to a year";
        return Err(Error::usage(format!("`{at}` is no time for a shutdown"), hint));
    };
    let file = planned_shutdown::file(&session.socket);
    let fault = |error: std::io::Error| Error::file(&file.to_string_lossy(), &error);
    let before = Plan::read(&file).ok();
    let plan = Plan { at, clock, verb: verb.word().to_string(), message: message.to_string() };
    plan.write(&file).map_err(fault)?;
    let unit = unit()?;
    let value = session.ask(Verb::Want { target: unit.clone(), for_ms: None });
    let value = value.inspect_err(|_| match &before {
        Some(before) => _ = before.write(&file),
        None => _ = std::fs::remove_file(&file),
    });
    let value = value.map_err(|error| without_unit(error, verb))?;
    // A unit of an earlier plan must read the new one. Without an earlier plan, the unit may still
    // be wanted and have failed; then `want` starts nothing.
    session.ask(match before {
        Some(_) => Verb::Restart { targets: vec![unit] },
        None => Verb::Retry { targets: vec![unit] },
    })?;
    session.show(&value, || {
        format!("{}\n`shutdown -c` cancels it.\n", plan.sentence(planned_shutdown::now))
    })?;
    Ok(Exit::Done)
}

/// Replaces the error about an unknown target by one about planned shutdowns.
fn without_unit(error: Error, verb: &Verb) -> Error {
    let is_it =
        matches!(&error, Error::Failed(_, failure) if failure.kind == Failure::UNKNOWN_TARGET);
    if !is_it {
        return error;
    }
    let unit = planned_shutdown::UNIT;
    let message =
        format!("planned shutdowns need the unit {unit}, which the boot set of a machine has");
    let hint = format!("`initctl {}` works without it", verb.word());
    Error::Failed(Exit::Refused, Failure::new(Failure::UNKNOWN_TARGET, message, hint))
}

/// Cancels the planned shutdown.
fn cancel(session: &Session) -> Result<Exit, Error> {
    let file = planned_shutdown::file(&session.socket);
    if !file.exists() {
        let hint = "`initctl poweroff --at +5` plans one";
        return Err(Error::local("no shutdown is planned", hint));
    }
    std::fs::remove_file(&file).map_err(|error| Error::file(&file.to_string_lossy(), &error))?;
    let ended = session.ask(Verb::Unwant { target: unit()? });
    planned_shutdown::tell_users("The planned shutdown is cancelled.");
    let text = || "the planned shutdown is cancelled\n".to_string();
    match ended {
        // Another goal has ended the unit.
        Err(Error::Failed(_, failure)) if failure.kind == NOT_WANTED => {
            session.show(&Told { schema: SCHEMA, ..Told::default() }, text)?;
        }
        ended => session.show(&ended?, text)?,
    }
    Ok(Exit::Done)
}

/// `exit`.
pub(crate) fn exit(session: &Session, asked: &ExitWith) -> Result<Exit, Error> {
    let last = format!("init exits with {}", asked.code);
    end(session, asked.power, Verb::Exit { code: asked.code }, &last)
}

/// `upgrade`.
pub(crate) fn upgrade(session: &Session, asked: &Upgrade) -> Result<Exit, Error> {
    let binary = asked.binary.as_deref().map(canonical).transpose()?;
    let value = session.ask(Verb::Upgrade { binary })?;
    session.show(&value, || "init continues as the new binary\n".to_string())?;
    Ok(Exit::Done)
}

/// `switch-root`.
pub(crate) fn switch_root(session: &Session, asked: SwitchRoot) -> Result<Exit, Error> {
    let root = canonical(&asked.root)?;
    let value = session.ask(Verb::SwitchRoot { root, init: asked.init })?;
    session.show(&value, || "init continues in the other root\n".to_string())?;
    Ok(Exit::Done)
}

/// Returns the absolute path without links.
fn canonical(path: &Path) -> Result<String, Error> {
    let shown = path.to_string_lossy();
    let path = std::fs::canonicalize(path).map_err(|error| Error::file(&shown, &error))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Runs a shutdown; `last` describes the final action on a machine.
fn end(session: &Session, asked: Power, verb: Verb, last: &str) -> Result<Exit, Error> {
    let pong = session.ping();
    if let Err(error @ Error::Failed(Exit::NoInit | Exit::TimedOut, _)) = pong {
        return without_init(session, asked, &verb, error);
    }
    // A failed ping must not block the shutdown.
    let mode = pong.and_then(|said| session::read::<Pong>(&said));
    let mode = mode.map(|init| init.mode).unwrap_or_default();
    let doing = &format!("all units are stopped, then {}", final_action(&verb, &mode, last));
    if !asked.yes && !session.json && session::is_interactive() && !is_confirmed(doing)? {
        session.remark("cancelled");
        return Err(Error::Printed(Exit::Bad));
    }
    let value = session.ask(verb)?;
    if asked.force > 0 {
        session.ask(Verb::Hasten { at_once: asked.force > 1 })?;
    }
    session.show(&value, || format!("{doing}\n"))?;
    Ok(Exit::Done)
}

/// Handles a socket without a server, for example if init has crashed and only reaps processes now.
/// `--force` signals PID 1; twice, it acts without PID 1.
fn without_init(session: &Session, asked: Power, verb: &Verb, error: Error) -> Result<Exit, Error> {
    let ways = [
        (Verb::Poweroff {}, Signal::SIGPWR, RebootMode::RB_POWER_OFF),
        (Verb::Reboot {}, Signal::SIGINT, RebootMode::RB_AUTOBOOT),
        (Verb::Halt {}, Signal::SIGTERM, RebootMode::RB_HALT_SYSTEM),
    ];
    let way = ways.into_iter().find(|(of, ..)| of == verb);
    // If another init was meant, PID 1 must not be stopped in its place.
    let Some((_, signal, mode)) = way.filter(|_| session.is_of_this_machine()) else {
        return Err(error);
    };
    if asked.force == 0 {
        return Err(with_force(error));
    }
    let done = if asked.force > 1 {
        reboot_now(mode).map(|never| match never {})
    } else {
        kill(Pid::from_raw(1), signal)
    };
    let fault = |errno: Errno| Error::file("PID 1", &errno.into());
    done.map_err(fault)?;
    session.remark(&format!("no answer at {}: sent {signal} to PID 1", session.socket));
    Ok(Exit::Done)
}

/// Adds the commands that still work to an error.
fn with_force(error: Error) -> Error {
    let Error::Failed(exit, mut failure) = error else { return error };
    failure
        .hint
        .push_str("\n--force signals PID 1; --force --force acts at once without stopping units");
    Error::Failed(exit, failure)
}

/// Returns the final action; an init that does not run a machine only exits.
fn final_action<'a>(verb: &Verb, mode: &str, last: &'a str) -> &'a str {
    let here = matches!(mode, "container" | "supervisor") && !matches!(verb, Verb::Exit { .. });
    if here { "init exits with 0" } else { last }
}

/// Asks the user and takes silence as yes: a script on a terminal must not hang here.
fn is_confirmed(doing: &str) -> Result<bool, Error> {
    for left in (1..=GRACE).rev() {
        session::redraw(&format!("{doing}, in {left} s. Enter: now, n or Ctrl-C: not at all "));
        let stdin = stdin();
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(1000u16)) {
            Ok(0) | Err(nix::errno::Errno::EINTR) => {}
            Ok(_) => {
                let mut answer = [0u8; 64];
                let read = stdin.lock().read(&mut answer)?;
                let said = answer.get(..read).unwrap_or_default().first();
                return Ok(!matches!(said, Some(b'n' | b'N' | b'q' | b'Q')));
            }
            Err(_) => return Ok(true),
        }
    }
    session::warn("");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_without_its_unit_names_the_unit_and_the_command_that_works() {
        let failed = |kind| {
            let failure = Failure::new(kind, "no unit provides planned-shutdown", "");
            Error::Failed(Exit::Refused, failure)
        };
        let said = |kind, verb| {
            let error = without_unit(failed(kind), &verb);
            let Error::Failed(Exit::Refused, failure) = error else { panic!("{error:?}") };
            (failure.message, failure.hint)
        };
        let message =
            "planned shutdowns need the unit planned-shutdown, which the boot set of a machine has";
        for (verb, hint) in [
            (Verb::Poweroff {}, "`initctl poweroff` works without it"),
            (Verb::Reboot {}, "`initctl reboot` works without it"),
            (Verb::Halt {}, "`initctl halt` works without it"),
        ] {
            let expected = (message.to_string(), hint.to_string());
            assert_eq!(said(Failure::UNKNOWN_TARGET, verb), expected);
        }
        let other = said("masked", Verb::Poweroff {});
        assert_eq!(other.0, "no unit provides planned-shutdown");
    }

    #[test]
    fn final_message_of_a_shutdown_depends_on_the_mode_of_init() {
        let said = |verb, mode| final_action(&verb, mode, "the machine powers off");
        assert_eq!(said(Verb::Poweroff {}, "machine"), "the machine powers off");
        assert_eq!(said(Verb::Poweroff {}, "container"), "init exits with 0");
        assert_eq!(said(Verb::Halt {}, "supervisor"), "init exits with 0");
        let exit = final_action(&Verb::Exit { code: 7 }, "container", "init exits with 7");
        assert_eq!(exit, "init exits with 7");
    }
}

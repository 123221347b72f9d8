//! Verbs that change what runs. init has no start and stop: the state follows from the goal.
//! `start` makes a unit wanted until the next boot, and `stop` drops it until then; both tell the
//! user. `restart`, `reload` and `kill` act on a run and leave the goal alone.

use super::enablement::Enablement;
use super::instance;
use super::manager::{default_target, is_offline};
use super::overlay::{notice, report_left_out, report_wanted, set_overlay};
use super::snapshot::{Found, Snapshot, session_of};
use super::wait::{Aim, Awaited, Watch, names};
use super::words::Asked;
use super::{FAILED, NOT_INSTALLED, Outcome, complain, rival};
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::answer::{Settled, Status, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use groundstate_units::text::signal;

/// The operation on one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Start,
    Stop,
    Restart,
    Reload,
    ReloadOrRestart,
    Nothing,
    /// A reload of an inactive unit.
    Refused,
}

/// Runs `start`, `stop` and similar verbs.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    if is_offline(&session, asked)? {
        return Ok(0);
    }
    if asked.names.is_empty() {
        complain("Too few arguments.");
        return Ok(FAILED);
    }
    if asked.verb == "isolate" {
        return goal(asked);
    }
    apply(&session, asked, &asked.verb, &asked.names)
}

/// Applies the verb to units; also for `--now`.
pub(super) fn apply(session: &Session, asked: &Asked, verb: &str, units: &[String]) -> Outcome {
    instance::load_instances(session, asked, verb, units)?;
    let snapshot = Snapshot::take(session)?;
    let watch = Watch::begin(session)?;
    let mut awaited = Vec::new();
    let mut exit = 0;
    for found in snapshot.chosen(units) {
        let unit = match found {
            Found::Unit(unit) => unit,
            Found::Unknown(name) => {
                let file = Enablement::of(session, None)?.find(&name);
                let masked = file.is_some_and(|file| file.masked);
                let what = if masked { "is masked" } else { "not found" };
                complain(&format!("Failed to {verb} {name}: Unit {name} {what}."));
                exit = if masked { FAILED } else { NOT_INSTALLED };
                continue;
            }
        };
        let shown = snapshot.shown(unit);
        let operation = operation(verb, unit, shown.active);
        if shown.load == "masked" && matches!(operation, Operation::Start | Operation::Restart) {
            complain(&format!("Failed to {verb} {0}: Unit {0} is masked.", shown.name));
            exit = FAILED;
            continue;
        }
        match act(session, asked, unit, operation) {
            Ok(aim) => awaited.extend(aim.map(|aim| Awaited {
                unit: unit.unit.clone(),
                attempt: unit.attempt,
                aim,
            })),
            Err(Error::Failed(_, failure)) => {
                complain(&format!("Failed to {verb} {}: {}", shown.name, failure.message));
                exit = FAILED;
            }
            Err(other) => return Err(other),
        }
    }
    if asked.no_block {
        return Ok(exit);
    }
    for (unit, why) in watch.until(session, &awaited)? {
        let name = snapshot.shown(&unit).name;
        complain(&format!("Job for {name} failed: {why}."));
        complain(&format!(
            "See \"systemctl status {name}\" and \"journalctl -xeu {name}\" for details."
        ));
        exit = FAILED;
    }
    Ok(exit)
}

fn operation(verb: &str, unit: &UnitStatus, active: &str) -> Operation {
    let up = matches!(
        unit.state,
        State::Running | State::Reloading | State::Exited | State::Starting | State::Stopping
    );
    // A unit without `remain` is inactive after a success: only a start runs it again.
    let over = unit.state == State::Exited && active == "inactive";
    match (verb, up) {
        ("start" | "restart" | "reload-or-restart" | "force-reload", true) if over => {
            Operation::Restart
        }
        ("try-restart" | "condrestart", true) if over => Operation::Nothing,
        ("reload-or-try-restart" | "try-reload-or-restart", true) if over => Operation::Nothing,
        ("reload" | "condreload", true) if over => Operation::Refused,
        ("start", _) | ("restart" | "reload-or-restart" | "force-reload", false) => {
            Operation::Start
        }
        ("stop" | "condstop", _) => Operation::Stop,
        ("restart" | "try-restart" | "condrestart", true) => Operation::Restart,
        ("reload" | "condreload", _) if unit.state.is_active() => Operation::Reload,
        ("reload", _) => Operation::Refused,
        ("reload-or-restart" | "force-reload", true) => Operation::ReloadOrRestart,
        ("reload-or-try-restart" | "try-reload-or-restart", true) => Operation::ReloadOrRestart,
        _ => Operation::Nothing,
    }
}

/// Sends the request. Returns what to wait for, if anything.
fn act(
    session: &Session,
    asked: &Asked,
    unit: &UnitStatus,
    operation: Operation,
) -> Result<Option<Aim>, Error> {
    let targets = names(std::slice::from_ref(&unit.unit));
    match operation {
        Operation::Nothing => Ok(None),
        Operation::Refused => {
            let message = "the unit is not active and cannot reload".to_string();
            Err(Error::local(message, ""))
        }
        Operation::Start => {
            start(session, asked, unit)?;
            Ok(Some(Aim::Up(None)))
        }
        Operation::Stop => {
            stop(session, asked, unit)?;
            Ok(Some(Aim::Down))
        }
        Operation::Restart => {
            // A unit that was stopped becomes wanted before its restart.
            start(session, asked, unit)?;
            session.ask(Verb::Restart { targets })?;
            Ok(Some(Aim::Up(unit.run)))
        }
        Operation::Reload => {
            session.ask(Verb::ReloadUnit { targets })?;
            Ok(Some(Aim::Reloaded))
        }
        Operation::ReloadOrRestart => {
            match session.ask(Verb::ReloadUnit { targets: targets.clone() }) {
                Ok(_) => Ok(Some(Aim::Reloaded)),
                Err(_) => {
                    session.ask(Verb::Restart { targets })?;
                    Ok(Some(Aim::Up(unit.run)))
                }
            }
        }
    }
}

fn start(session: &Session, asked: &Asked, unit: &UnitStatus) -> Result<(), Error> {
    let name = Name::new(&unit.unit).map_err(|error| Error::local(error.to_string(), ""))?;
    let mut now = status(session)?;
    for dropped in rival::blocking_drops(session, &now, &unit.unit)? {
        for target in names(std::slice::from_ref(&dropped)) {
            session.ask(Verb::Unwant { target })?;
        }
        notice(asked, &format!("{dropped} is no longer left out of the goal"));
        now = status(session)?;
    }
    // Dropped units have no conflicts, so conflicts are checked only now.
    if rival::replace_rivals(session, asked, &now, &name)? {
        report_wanted(asked, name.as_str());
        return Ok(());
    }
    let is_needed = now.units.iter().any(|one| one.unit == unit.unit && one.needed);
    // `unit` is the state before this call. A unit that was left out has been started above, and
    // needs no retry even if it has failed since.
    let has_failed = unit.needed
        && (unit.state == State::Failed || (unit.state == State::Waiting && unit.attempt > 0));
    if !is_needed {
        session.ask(Verb::Want { target: name.clone(), for_ms: None })?;
        report_wanted(asked, name.as_str());
    } else if has_failed {
        session.ask(Verb::Retry { targets: vec![name] })?;
    }
    Ok(())
}

fn stop(session: &Session, asked: &Asked, unit: &UnitStatus) -> Result<(), Error> {
    let name = Name::new(&unit.unit).map_err(|error| Error::local(error.to_string(), ""))?;
    let mut now = status(session)?;
    let named = |want: &&String| **want == unit.unit || unit.provides.contains(want);
    let wanted: Vec<String> = now.overlay.want.iter().filter(named).cloned().collect();
    for target in names(&wanted) {
        session.ask(Verb::Unwant { target })?;
        notice(asked, &format!("{name} is no longer wanted"));
        now = status(session)?;
    }
    let needed = now.units.iter().find(|one| one.unit == unit.unit).is_some_and(|one| one.needed);
    if !needed {
        return Ok(());
    }
    let followers = rival::followers(session, &now, &unit.unit)?;
    let stopped = followers.iter().chain([&name]).cloned();
    let drop = names(&now.overlay.drop).into_iter().chain(stopped).collect();
    let mut want = names(&now.overlay.want);
    want.retain(|want| !followers.contains(want));
    set_overlay(session, &now, want, drop)?;
    report_left_out(asked, name.as_str());
    followers.iter().for_each(|follower| report_left_out(asked, follower.as_str()));
    Ok(())
}

fn status(session: &Session) -> Result<Status, Error> {
    Ok(session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?.0)
}

/// `isolate X`, `default`, `rescue`, `emergency`: sets a new goal without an overlay.
pub(super) fn goal(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    let name = match asked.verb.as_str() {
        "isolate" => asked.names.first().cloned().unwrap_or_default(),
        "default" => default_target(&session, asked)?,
        other => format!("{other}.target"),
    };
    let name = if name.contains('.') { name } else { format!("{name}.target") };
    let Some(unit) = snapshot.find(&name) else {
        complain(&format!("Failed to start {name}: Unit {name} not found."));
        return Ok(NOT_INSTALLED);
    };
    let targets = names(std::slice::from_ref(&unit.unit));
    session.ask(Verb::SetTarget { targets, want: Vec::new(), drop: Vec::new() })?;
    notice(asked, &format!("the goal is {} now", unit.unit));
    if !asked.no_block {
        session.connect()?.ask_within::<Settled>(&Verb::Wait {}, None)?;
    }
    Ok(0)
}

/// `kill`: to every process unless `--kill-who=main`.
pub(super) fn kill(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let word = asked.signal.as_deref().unwrap_or("TERM");
    let Some(signal) = signal::number(word) else {
        complain(&format!("Failed to parse signal string {word}."));
        return Ok(FAILED);
    };
    let all = !matches!(asked.kill_who.as_deref(), Some("main" | "control"));
    let snapshot = Snapshot::take(&session)?;
    let mut exit = 0;
    for found in snapshot.chosen(&asked.names) {
        match found {
            Found::Unit(unit) => {
                let targets = names(std::slice::from_ref(&unit.unit));
                match session.ask(Verb::Kill { targets, signal: Some(signal), all }) {
                    // Signalling all processes of a stopped unit is no error: log rotation does
                    // that.
                    Err(Error::Failed(_, why)) if all && why.kind == "not-running" => {}
                    Err(Error::Failed(_, why)) => {
                        complain(&format!("Failed to kill unit {}: {}", unit.unit, why.message));
                        exit = FAILED;
                    }
                    told => _ = told?,
                }
            }
            Found::Unknown(name) => {
                complain(&format!("Failed to kill unit {name}: Unit {name} not loaded."));
                exit = FAILED;
            }
        }
    }
    Ok(exit)
}

/// `reset-failed`: makes a failed unit inactive. init retries a needed unit as soon as its failure
/// is forgotten, but `reset-failed` of systemd starts nothing. So the unit is dropped from the goal.
pub(super) fn reset_failed(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    let mut units: Vec<&UnitStatus> = Vec::new();
    let mut exit = 0;
    if asked.names.is_empty() {
        units.extend(&snapshot.status.units);
    }
    for found in snapshot.chosen(&asked.names) {
        match found {
            Found::Unit(unit) => units.push(unit),
            Found::Unknown(name) => {
                complain(&format!(
                    "Failed to reset failed state of unit {name}: Unit {name} not loaded."
                ));
                exit = FAILED;
            }
        }
    }
    for unit in units.into_iter().filter(|unit| snapshot.shown(unit).active == "failed") {
        if unit.needed {
            stop(&session, asked, unit)?;
            continue;
        }
        let targets = names(std::slice::from_ref(&unit.unit));
        // A unit with an error in its file stays failed.
        if let Err(Error::Failed(_, why)) = session.ask(Verb::Retry { targets }) {
            let name = snapshot.shown(unit).name;
            complain(&format!("Failed to reset failed state of unit {name}: {}", why.message));
            exit = FAILED;
        }
    }
    Ok(exit)
}

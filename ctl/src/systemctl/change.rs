//! Verbs that change what runs. init has no start and stop: the state follows from the goal.
//! `start` makes a unit wanted until the next boot, and `stop` drops it until then; both tell the
//! user. `restart`, `reload` and `kill` act on a run and leave the goal alone.

use super::enablement::Enablement;
use super::instance;
use super::manager::{default_target, is_offline};
use super::overlay::{aloud, left_out, overlay, wanted};
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
enum Deed {
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
    tell(&session, asked, &asked.verb, &asked.names)
}

/// Applies the verb to units; also for `--now`.
pub(super) fn tell(session: &Session, asked: &Asked, verb: &str, units: &[String]) -> Outcome {
    instance::known(session, asked, verb, units)?;
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
        let deed = deed(verb, unit, shown.active);
        if shown.load == "masked" && matches!(deed, Deed::Start | Deed::Restart) {
            complain(&format!("Failed to {verb} {0}: Unit {0} is masked.", shown.name));
            exit = FAILED;
            continue;
        }
        match act(session, asked, unit, deed) {
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

fn deed(verb: &str, unit: &UnitStatus, active: &str) -> Deed {
    let up = matches!(
        unit.state,
        State::Running | State::Reloading | State::Exited | State::Starting | State::Stopping
    );
    // A unit without `remain` is inactive after a success: only a start runs it again.
    let over = unit.state == State::Exited && active == "inactive";
    match (verb, up) {
        ("start" | "restart" | "reload-or-restart" | "force-reload", true) if over => Deed::Restart,
        ("try-restart" | "condrestart", true) if over => Deed::Nothing,
        ("reload-or-try-restart" | "try-reload-or-restart", true) if over => Deed::Nothing,
        ("reload" | "condreload", true) if over => Deed::Refused,
        ("start", _) | ("restart" | "reload-or-restart" | "force-reload", false) => Deed::Start,
        ("stop" | "condstop", _) => Deed::Stop,
        ("restart" | "try-restart" | "condrestart", true) => Deed::Restart,
        ("reload" | "condreload", _) if unit.state.is_active() => Deed::Reload,
        ("reload", _) => Deed::Refused,
        ("reload-or-restart" | "force-reload", true) => Deed::ReloadOrRestart,
        ("reload-or-try-restart" | "try-reload-or-restart", true) => Deed::ReloadOrRestart,
        _ => Deed::Nothing,
    }
}

/// Sends the request. Returns what to wait for, if anything.
fn act(
    session: &Session,
    asked: &Asked,
    unit: &UnitStatus,
    deed: Deed,
) -> Result<Option<Aim>, Error> {
    let targets = names(std::slice::from_ref(&unit.unit));
    match deed {
        Deed::Nothing => Ok(None),
        Deed::Refused => {
            let message = "the unit is not active and cannot reload".to_string();
            Err(Error::local(message, ""))
        }
        Deed::Start => {
            start(session, asked, unit)?;
            Ok(Some(Aim::Up(None)))
        }
        Deed::Stop => {
            stop(session, asked, unit)?;
            Ok(Some(Aim::Down))
        }
        Deed::Restart => {
            // A unit that was stopped becomes wanted before its restart.
            start(session, asked, unit)?;
            session.ask(Verb::Restart { targets })?;
            Ok(Some(Aim::Up(unit.run)))
        }
        Deed::Reload => {
            session.ask(Verb::ReloadUnit { targets })?;
            Ok(Some(Aim::Reloaded))
        }
        Deed::ReloadOrRestart => match session.ask(Verb::ReloadUnit { targets: targets.clone() }) {
            Ok(_) => Ok(Some(Aim::Reloaded)),
            Err(_) => {
                session.ask(Verb::Restart { targets })?;
                Ok(Some(Aim::Up(unit.run)))
            }
        },
    }
}

fn start(session: &Session, asked: &Asked, unit: &UnitStatus) -> Result<(), Error> {
    let name = Name::new(&unit.unit).map_err(|error| Error::local(error.to_string(), ""))?;
    let mut now = status(session)?;
    for dropped in rival::dropped(session, &now, &unit.unit)? {
        for target in names(std::slice::from_ref(&dropped)) {
            session.ask(Verb::Unwant { target })?;
        }
        aloud(asked, &format!("{dropped} is no longer left out of the goal"));
        now = status(session)?;
    }
    // Dropped units have no conflicts, so conflicts are checked only now.
    if rival::stopped(session, asked, &now, &name)? {
        wanted(asked, name.as_str());
        return Ok(());
    }
    let is_needed = now.units.iter().any(|one| one.unit == unit.unit && one.needed);
    // A unit that was left out has started above, and may have failed since.
    let has_failed = unit.needed
        && (unit.state == State::Failed || (unit.state == State::Waiting && unit.attempt > 0));
    if !is_needed {
        session.ask(Verb::Want { target: name.clone(), for_ms: None })?;
        wanted(asked, name.as_str());
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
        aloud(asked, &format!("{name} is no longer wanted"));
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
    overlay(session, &now, want, drop)?;
    left_out(asked, name.as_str());
    followers.iter().for_each(|follower| left_out(asked, follower.as_str()));
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
    aloud(asked, &format!("the goal is {} now", unit.unit));
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

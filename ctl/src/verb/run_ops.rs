//! `restart`, `reload-unit`, `kill`, `retry`: operations on a run. None changes the goal.

use crate::arguments::{Kill, UnitOperation, Wait};
use crate::exit::{Error, Exit};
use crate::session::Session;
use crate::waiting::{self, Ended, Waiting};
use groundstate_units::control::answer::{Status, Told};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use groundstate_units::text::signal;

/// `restart`.
pub(crate) fn restart(session: &Session, asked: UnitOperation) -> Result<Exit, Error> {
    let verb = Verb::Restart { targets: asked.targets.clone() };
    run_operation(session, verb, &asked.targets, asked.wait, "restarting")
}

/// `reload-unit`.
pub(crate) fn reload_unit(session: &Session, asked: UnitOperation) -> Result<Exit, Error> {
    let verb = Verb::ReloadUnit { targets: asked.targets.clone() };
    run_operation(session, verb, &asked.targets, asked.wait, "reloading")
}

/// `retry`.
pub(crate) fn retry(session: &Session, asked: UnitOperation) -> Result<Exit, Error> {
    let verb = Verb::Retry { targets: asked.targets.clone() };
    run_operation(session, verb, &asked.targets, asked.wait, "retrying")
}

/// `kill`.
pub(crate) fn kill(session: &Session, asked: Kill) -> Result<Exit, Error> {
    let doing = format!("sent {} to", signal::name(asked.signal));
    let verb =
        Verb::Kill { targets: asked.targets.clone(), signal: Some(asked.signal), all: asked.all };
    let wait = Wait { no_wait: true, ..Wait::default() };
    run_operation(session, verb, &asked.targets, wait, &doing)
}

fn run_operation(
    session: &Session,
    verb: Verb,
    targets: &[Name],
    wait: Wait,
    doing: &str,
) -> Result<Exit, Error> {
    let waiting = Waiting::prepare(session, wait)?;
    let (told, value) = session.ask_as::<Told>(verb)?;
    session.show(&value, || summary(doing, &told))?;
    match waiting.finish(session, &told.units)? {
        // Only the result for these units counts, not other failures.
        Some(Ended::Settled(_)) => verdict(session, targets),
        ended => waiting::conclude(session, ended),
    }
}

/// Formats `restarting web`. Units that were not running have lines of their own.
fn summary(doing: &str, told: &Told) -> String {
    let units = told.units.iter();
    let up: Vec<&str> =
        units.filter(|unit| !told.idle.contains(unit)).map(String::as_str).collect();
    let mut text = String::new();
    if !up.is_empty() {
        text.push_str(&format!("{doing} {}\n", up.join(", ")));
    }
    for unit in &told.idle {
        text.push_str(&format!("{unit} was not running; it starts when its dependencies allow\n"));
    }
    text
}

fn verdict(session: &Session, targets: &[Name]) -> Result<Exit, Error> {
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: targets.to_vec() })?;
    let bad: Vec<_> = status
        .units
        .iter()
        .filter(|unit| {
            unit.state == State::Failed || unit.verdict || unit.degraded || unit.reload_failed
        })
        .collect();
    for unit in &bad {
        session.remark(&waiting::failure(session, unit));
    }
    Ok(if bad.is_empty() { Exit::Done } else { Exit::Bad })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inactive_unit_is_not_reported_as_restarted() {
        let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let mut told = Told { schema: 1, units: list(&["web", "db"]), idle: list(&["db"]) };
        let want = "restarting web\ndb was not running; it starts when its dependencies allow\n";
        assert_eq!(summary("restarting", &told), want);
        told.idle.clear();
        assert_eq!(summary("restarting", &told), "restarting web, db\n");
    }
}

//! `set-target`, `want`, `unwant`, `reload`: print the plan, then apply it.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::policy_file;
use crate::report;
use crate::session::Session;
use crate::verb::plan;
use crate::waiting::{self, Ended, Waiting};
use groundstate_units::control::answer::{Changed, Plan, Said, Status, System};
use groundstate_units::control::request::Verb;
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::name::Name;

/// `set-target`.
pub(crate) fn set_target(session: &Session, asked: arguments::SetTarget) -> Result<Exit, Error> {
    let arguments::Goal { targets, want, drop } = asked.goal;
    if targets.is_empty() && want.is_empty() && drop.is_empty() {
        let hint = "initctl set-target TARGET [+WANT] [-DROP]";
        return Err(Error::usage("no target", hint));
    }
    if asked.dry_run {
        let verb = Verb::Plan { targets, want, drop, reload: false };
        let (made, value) = session.ask_as::<Plan>(verb)?;
        session.show(&value, || plan::render(&made, &session.style))?;
        return Ok(Exit::Done);
    }
    let before = if asked.or_rollback || targets.is_empty() { Some(goal(session)?) } else { None };
    let targets = match &before {
        Some(goal) if targets.is_empty() => goal.targets.clone(),
        _ => targets,
    };
    let default = if asked.persist { Some(only(&targets)?) } else { None };
    let waiting = Waiting::prepare(session, asked.wait)?;
    let changed = change(session, Verb::SetTarget { targets: targets.clone(), want, drop })?;
    if let Some(target) = default {
        persist(session, target)?;
    }
    let ended = waiting.finish(session, &changed)?;
    let bad =
        matches!(ended, Some(Ended::TimedOut | Ended::Settled(System::Failed | System::Degraded)));
    let exit = waiting::conclude(session, ended)?;
    if let (true, true, Some(goal)) = (bad, asked.or_rollback, before) {
        session.remark("restoring the previous goal:");
        let verb = Verb::SetTarget { targets: goal.targets, want: goal.want, drop: goal.drop };
        let waiting = Waiting::prepare(session, asked.wait)?;
        // One command prints one document; the exit code tells the result.
        let changed = match session.json {
            true => session.ask(verb).map(|_| Vec::new())?,
            false => change(session, verb)?,
        };
        waiting.finish(session, &changed)?;
    }
    Ok(exit)
}

/// `want`.
pub(crate) fn want(session: &Session, asked: arguments::Want) -> Result<Exit, Error> {
    let for_ms = asked.for_.map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
    change_and_wait(session, Verb::Want { target: asked.target, for_ms }, asked.wait)
}

/// `unwant`.
pub(crate) fn unwant(session: &Session, asked: arguments::Unwant) -> Result<Exit, Error> {
    change_and_wait(session, Verb::Unwant { target: asked.target }, asked.wait)
}

/// `reload`.
pub(crate) fn reload(session: &Session, asked: &arguments::Reload) -> Result<Exit, Error> {
    if asked.plan {
        let nothing = Vec::new;
        let verb =
            Verb::Plan { targets: nothing(), want: nothing(), drop: nothing(), reload: true };
        let (made, value) = session.ask_as::<Plan>(verb)?;
        session.show(&value, || plan::render(&made, &session.style))?;
        return Ok(Exit::Done);
    }
    change_and_wait(session, Verb::Reload { no_restart: asked.no_restart }, asked.wait)
}

fn change_and_wait(session: &Session, verb: Verb, wait: arguments::Wait) -> Result<Exit, Error> {
    let waiting = Waiting::prepare(session, wait)?;
    let changed = change(session, verb)?;
    let ended = waiting.finish(session, &changed)?;
    waiting::conclude(session, ended)
}

/// Sends the request and prints the plan. Returns the units that stop or start.
fn change(session: &Session, verb: Verb) -> Result<Vec<String>, Error> {
    let (changed, value) = session.ask_as::<Changed>(verb)?;
    session.show(&value, || {
        let is_printed = |said: &Said| said.severity != Severity::Note;
        let diagnostics: Vec<Said> =
            changed.diagnostics.iter().filter(|said| is_printed(said)).cloned().collect();
        let mistakes = report::render_digest(&diagnostics, &session.style);
        let plan = plan::render(&changed.plan, &session.style);
        let accepted = accepted_with_errors(&changed.diagnostics);
        format!("{mistakes}generation {}: {plan}{accepted}", changed.generation)
    })?;
    Ok(changed.plan.stop.into_iter().chain(changed.plan.start).flatten().collect())
}

/// Explains why a set with errors was accepted.
fn accepted_with_errors(diagnostics: &[Said]) -> &'static str {
    match diagnostics.iter().any(|said| said.severity == Severity::Error) {
        true => {
            "no needed unit has an error; units with errors cannot start until they are fixed\n"
        }
        false => "",
    }
}

struct Goal {
    targets: Vec<Name>,
    want: Vec<Name>,
    drop: Vec<Name>,
}

fn goal(session: &Session) -> Result<Goal, Error> {
    let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
    let names = |texts: &[String]| texts.iter().filter_map(|text| Name::new(text).ok()).collect();
    Ok(Goal {
        targets: names(&status.goal),
        want: names(&status.overlay.want),
        drop: names(&status.overlay.drop),
    })
}

/// Returns the target if it is the only one: a default target is one target.
fn only(targets: &[Name]) -> Result<&Name, Error> {
    let [target] = targets else {
        let hint = "a virtual unit that waits-for them all can be the default target";
        return Err(Error::usage("only one target can be the default target", hint));
    };
    Ok(target)
}

/// Writes `default-target` into init.yaml.
fn persist(session: &Session, target: &Name) -> Result<(), Error> {
    let init = session.init()?;
    let path = init.map_or_else(|| session.places.config.clone(), |init| init.paths.config);
    policy_file::set_default_target(&path, target)?;
    session.remark(&format!("{path}: default-target: {target}"));
    Ok(())
}

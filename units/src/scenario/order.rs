//! Parses and carries out the event of one step.

use super::clock::{Clock, Seen};
use super::{Set, Step};
use crate::machine::Machine;
use crate::machine::event::{Event, ExecFailure, Goal, RunId, Shutdown, Stage};
use crate::machine::reason::{Reason, State};
use crate::spec::{Exit, Kind, value};
use crate::text::name::Name;
use crate::text::signal;
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use crate::unit::policy::Policy;
use std::sync::Arc;
use std::time::Duration;

type Result<T> = std::result::Result<T, String>;

/// Advances time, applies the event, and fires the timers of the moment after it.
pub(super) fn carry_out(step: &Step, set: &mut Set, clock: &mut Clock) -> Result<Seen> {
    let mut seen = Seen::default();
    clock.approach(time(&step.at)?, &mut seen)?;
    let mut words = step.event.split_whitespace();
    let verb = words.next().ok_or("no event")?;
    let words: Vec<&str> = words.collect();
    let is_reload = verb == "reload";
    let brings = !step.units.is_empty() || !step.remove.is_empty() || !step.sources.is_empty();
    if !is_reload && brings {
        return Err("only `reload` takes units, remove and sources".to_string());
    }
    match verb {
        "boot" => {
            let generation = Arc::new(set.generation()?);
            clock.event(Event::Boot { generation, targets: names(&words)? }, &mut seen)?;
        }
        "reload" => reload(step, &words, set, clock, &mut seen)?,
        "tick" => none(&words)?,
        "goal" | "want" | "unwant" | "restart" | "retry" | "reload-unit" | "mask" | "unmask"
        | "enable" | "disable" | "prefer" | "shutdown" | "fire" => {
            let event = wish(verb, &words, set, clock)?;
            clock.event(event, &mut seen)?;
            if seen.refused.is_some() {
                set.policy = clock.policy.clone();
            } else {
                clock.policy = set.policy.clone();
            }
        }
        "ready" | "gone" if words.len() > 1 => {
            for unit in &words {
                let event = fact(verb, &[unit], clock)?;
                clock.event(event, &mut seen)?;
            }
        }
        _ => {
            let event = fact(verb, &words, clock)?;
            clock.event(event, &mut seen)?;
        }
    }
    clock.strike(&mut seen)?;
    Ok(seen)
}

/// Parses a time since the start of the clock, written as a duration.
fn time(text: &str) -> Result<Time> {
    Ok(Time::ZERO.after(span(text)?))
}

fn none(words: &[&str]) -> Result<()> {
    match words {
        [] => Ok(()),
        [word, ..] => Err(format!("`{word}` is one word too many")),
    }
}

fn name(word: &str) -> Result<Name> {
    Name::new(word).map_err(|error| error.to_string())
}

fn names(words: &[&str]) -> Result<Vec<Name>> {
    words.iter().map(|word| name(word)).collect()
}

fn reload(
    step: &Step,
    words: &[&str],
    set: &mut Set,
    clock: &mut Clock,
    seen: &mut Seen,
) -> Result<()> {
    let no_restart = match words {
        [] => false,
        ["no-restart"] => true,
        [word, ..] => return Err(format!("`{word}` is not known here")),
    };
    let (units, sources) = (set.units.clone(), set.sources.clone());
    for gone in &step.remove {
        set.units.remove(gone).ok_or_else(|| format!("there is no unit {gone} to remove"))?;
    }
    set.replace(&step.units)?;
    set.sources.extend(step.sources.clone());
    let generation = Arc::new(set.generation()?);
    clock.event(Event::Reload { generation, no_restart, tolerant: false }, seen)?;
    if seen.refused.is_some() {
        (set.units, set.sources) = (units, sources);
    }
    Ok(())
}

fn wish(verb: &str, words: &[&str], set: &mut Set, clock: &Clock) -> Result<Event> {
    let mut edit = |change: &dyn Fn(&mut Policy, Name)| -> Result<Event> {
        for word in words {
            change(&mut set.policy, name(word)?);
        }
        Ok(Event::SetPolicy(set.policy.clone()))
    };
    match (verb, words) {
        ("goal", _) => goal(words),
        ("want", [target]) => Ok(Event::Want { target: name(target)?, until: None }),
        ("want", [target, "for", seconds]) => {
            let until = clock.now.after(span(seconds)?);
            Ok(Event::Want { target: name(target)?, until: Some(until) })
        }
        ("unwant", [target]) => Ok(Event::Unwant(name(target)?)),
        ("restart", _) => Ok(Event::Restart(names(words)?)),
        ("retry", _) => Ok(Event::Retry(names(words)?)),
        ("reload-unit", _) => Ok(Event::ReloadUnit(names(words)?)),
        ("mask", _) => edit(&|policy, name| {
            policy.mask.insert(name);
        }),
        ("unmask", _) => edit(&|policy, name| {
            policy.mask.remove(&name);
        }),
        ("enable", _) => edit(&|policy, name| {
            policy.disable.remove(&name);
            policy.enable.insert(name);
        }),
        ("disable", _) => edit(&|policy, name| {
            policy.enable.remove(&name);
            policy.disable.insert(name);
        }),
        ("prefer", [pair]) => {
            let (target, unit) = pair.split_once('=').ok_or("prefer wants TARGET=UNIT")?;
            set.policy.prefer.insert(name(target)?, name(unit)?);
            Ok(Event::SetPolicy(set.policy.clone()))
        }
        ("shutdown", []) => Ok(Event::Shutdown(Shutdown::Poweroff)),
        ("fire", [trigger]) => Ok(Event::Fire(name(trigger)?)),
        _ => Err("these words do not fit the event".to_string()),
    }
}

fn goal(words: &[&str]) -> Result<Event> {
    let mut goal = Goal::default();
    for word in words {
        if let Some(wanted) = word.strip_prefix('+') {
            goal.want.push((name(wanted)?, None));
        } else if let Some(dropped) = word.strip_prefix('-') {
            goal.drop.push(name(dropped)?);
        } else {
            goal.targets.push(name(word)?);
        }
    }
    Ok(Event::SetGoal(goal))
}

fn span(seconds: &str) -> Result<Duration> {
    value::duration(seconds).map_err(|mistake| mistake.message)
}

/// Returns the present run of a unit and its type.
fn run(machine: &Machine, unit: &str) -> Result<(RunId, Option<Kind>)> {
    let generation = machine.generation();
    if let Some(id) = generation.find_unit(unit) {
        let run = machine.run(id).ok_or_else(|| format!("{unit} has no run"))?;
        return Ok((run, generation.unit(id).map(|unit| unit.kind)));
    }
    let removed = machine.removed();
    let found = removed.iter().find(|(name, _, _)| name.as_str() == unit);
    found.map(|(_, run, _)| (*run, None)).ok_or_else(|| format!("there is no unit {unit}"))
}

fn exit(word: &str) -> Result<Exit> {
    if let Ok(code) = word.parse::<u8>() {
        return Ok(Exit::Code(code));
    }
    let signal = signal::number(word).ok_or_else(|| format!("`{word}` is no exit status"))?;
    Ok(Exit::Signal { signal, core: false })
}

fn state(machine: &Machine, unit: &str) -> Option<State> {
    let id: UnitId = machine.generation().find_unit(unit)?;
    Some(machine.state(id))
}

/// Returns the event of a report about the present run of a unit.
fn fact(verb: &str, words: &[&str], clock: &Clock) -> Result<Event> {
    let machine = &clock.machine;
    let [unit, rest @ ..] = words else { return Err(format!("`{verb}` wants a unit")) };
    let (id, kind) = run(machine, unit)?;
    Ok(match (verb, rest) {
        ("ready", []) => ready(machine, unit, id, kind)?,
        ("ready-empty", []) => Event::Ended(id, Exit::Code(0)),
        ("exit", [status]) => {
            let scripted = kind == Some(Kind::BackgroundScripted);
            let status = exit(status)?;
            if scripted && state(machine, unit) == Some(State::Running) {
                Event::Gone(id)
            } else {
                Event::Ended(id, status)
            }
        }
        ("leave", [status]) => Event::Exited(id, exit(status)?),
        ("gone", []) => Event::Gone(id),
        ("executed", []) => Event::Executed(id),
        ("reloading", []) => Event::Reloading(id),
        ("reloaded", []) => Event::Reloaded(id, true),
        ("reload-failed", []) => Event::Reloaded(id, false),
        ("stopping", []) => Event::Stopping(id),
        ("extend", [seconds]) => Event::ExtendTimeout(id, span(seconds)?),
        ("watchdog", [seconds]) => Event::WatchdogEvery(id, span(seconds)?),
        ("ping", []) => Event::WatchdogPing(id),
        ("protocol", []) => Event::Protocol(id, "broken".to_string()),
        ("out-of-memory", []) => Event::OutOfMemory(id),
        ("stop-failed", []) => Event::StopFailed(id, Reason::Exit(Exit::Code(1))),
        ("skip", [condition]) => Event::Skipped(id, (*condition).to_string()),
        ("no-assert", []) => {
            let path = "assert-path-exists: /x".to_string();
            Event::StartFailed(id, ExecFailure { stage: Stage::Assert, errno: 0, path })
        }
        ("no-exec", []) => Event::StartFailed(id, start_failure(2)),
        ("no-fork", []) => Event::StartFailed(id, start_failure(11)),
        _ => return Err("this event is not known, or has words too few or too many".to_string()),
    })
}

fn start_failure(errno: i32) -> ExecFailure {
    ExecFailure { stage: Stage::Execve, errno, path: "/x".to_string() }
}

/// Returns the event that makes a run ready: a oneshot exits 0, a script exits 0 and leaves a
/// process.
fn ready(machine: &Machine, unit: &str, id: RunId, kind: Option<Kind>) -> Result<Event> {
    let is = state(machine, unit);
    let is_starting = is == Some(State::Starting) || is == Some(State::Stopping);
    if !is_starting && is != Some(State::Reloading) {
        return Err(format!("{unit} is not starting"));
    }
    Ok(match kind {
        Some(Kind::Oneshot) => Event::Ended(id, Exit::Code(0)),
        Some(Kind::BackgroundScripted) => Event::Exited(id, Exit::Code(0)),
        _ => Event::Ready(id),
    })
}

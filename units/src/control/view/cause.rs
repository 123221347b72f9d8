//! Converts a [`reason::Reason`] into its answer: sentence, kind and values.

use super::Facts;
use crate::control::answer::{Cause, Reason};
use crate::machine::{Machine, reason};
use crate::spec::Exit;
use crate::text::name::Name;

/// Converts a reason of the present machine. It distinguishes masked names from names that the goal
/// leaves out.
pub(super) fn present(
    machine: &Machine,
    why: &reason::Reason,
    facts: &Facts,
    pid: Option<u32>,
) -> Reason {
    let mut told = reason(why, facts, pid);
    if let Cause::Masked { target, dropped } = &mut told.cause {
        *dropped =
            Name::new(target).ok().and_then(|name| machine.dropped(&name)).map(Name::to_string);
        if let Some(name) = dropped {
            told.text = format!("{target} is dropped from the goal (-{name})");
        }
    }
    told
}

/// Converts a reason. `pid` is the pid of the unit's process, if known.
pub fn reason(reason: &reason::Reason, facts: &Facts, pid: Option<u32>) -> Reason {
    Reason { text: reason.to_string(), cause: cause(reason, facts, pid) }
}

fn cause(reason: &reason::Reason, facts: &Facts, pid: Option<u32>) -> Cause {
    use reason::Reason as R;
    match reason {
        R::Exit(Exit::Code(code)) => Cause::Exit { code: *code },
        R::Exit(Exit::Signal { signal, core }) => Cause::Signal { signal: *signal, core: *core },
        R::StartTimeout => Cause::StartTimeout,
        R::StopTimeout => Cause::StopTimeout,
        R::Watchdog => Cause::Watchdog,
        R::Exec(failure) => Cause::Exec {
            stage: failure.stage.as_str().to_string(),
            errno: failure.errno,
            path: failure.path.clone(),
        },
        R::RunTimeout => Cause::RunTimeout,
        R::Dependency { target, unit } | R::Inactive { target, unit, .. } => {
            Cause::Dependency { target: target.to_string(), unit: unit.to_string() }
        }
        R::Masked { target } => Cause::Masked { target: target.to_string(), dropped: None },
        R::Missing { target } => Cause::Missing { target: target.to_string() },
        R::Config { at, message } => Cause::Config {
            file: at.file.to_string(),
            line: at.line,
            column: at.column,
            message: message.clone(),
        },
        R::Conflict { target } => Cause::Conflict { target: target.to_string() },
        R::Skipped { condition } => Cause::Skipped { condition: condition.clone() },
        R::OutOfMemory => Cause::Oom,
        R::Protocol { message } => Cause::Protocol { message: message.clone() },
        R::Slot => Cause::Slot,
        R::Backoff { attempt, at } => Cause::Backoff { attempt: *attempt, at: facts.wall_of(*at) },
        R::On { targets } => Cause::On { targets: targets.iter().map(Name::to_string).collect() },
        R::Unkillable => Cause::Unkillable { pid },
        R::Internal => Cause::Internal,
    }
}

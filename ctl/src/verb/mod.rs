//! The verbs, one file per group. A verb that prints more than a line has a pure `render`, which
//! can be tested without an init.

pub(crate) mod check;

mod blame;
mod cat;
mod completions;
mod convert;
mod doctor;
mod events;
mod explain;
mod goal;
mod graph;
mod logs;
mod plan;
mod policy;
mod power;
mod run_ops;
pub(crate) mod runlevel;
mod source;
mod stats;
mod status;
mod tree;
mod trigger;
mod why;

#[cfg(test)]
mod screens;

use crate::arguments::Command;
use crate::exit::{Error, Exit};
use crate::session::Session;

/// Runs a verb.
pub(crate) fn run(session: &Session, command: Command) -> Result<Exit, Error> {
    match command {
        Command::Status(asked) => status::run(session, &asked),
        Command::SetTarget(asked) => goal::set_target(session, asked),
        Command::Plan(asked) => plan::run(session, asked),
        Command::Why(asked) => why::run(session, asked),
        Command::Want(asked) => goal::want(session, asked),
        Command::Unwant(asked) => goal::unwant(session, asked),
        Command::Mask(asked) => policy::edit(session, asked, policy::Edit::Mask),
        Command::Unmask(asked) => policy::edit(session, asked, policy::Edit::Unmask),
        Command::Enable(asked) => policy::edit(session, asked, policy::Edit::Enable),
        Command::Disable(asked) => policy::edit(session, asked, policy::Edit::Disable),
        Command::Prefer(asked) => policy::prefer(session, asked),
        Command::Reload(asked) => goal::reload(session, &asked),
        Command::Restart(asked) => run_ops::restart(session, asked),
        Command::ReloadUnit(asked) => run_ops::reload_unit(session, asked),
        Command::Kill(asked) => run_ops::kill(session, asked),
        Command::Retry(asked) => run_ops::retry(session, asked),
        Command::Logs(asked) => logs::run(session, &asked),
        Command::Events(asked) => events::run(session, &asked),
        Command::Tree(asked) => tree::run(session, &asked),
        Command::Graph(asked) => graph::run(session, &asked),
        Command::Timers => trigger::timers(session),
        Command::Sockets => trigger::sockets(session),
        Command::Blame => blame::blame(session),
        Command::CriticalChain(asked) => blame::critical_chain(session, &asked),
        Command::Plot => blame::plot(session),
        Command::Cat(asked) => cat::cat(session, asked),
        Command::Whose(asked) => cat::whose(session, &asked),
        Command::Doctor(asked) => doctor::run(session, &asked),
        Command::Check(asked) => check::run(session, &asked),
        Command::Convert(asked) => convert::run(session, &asked),
        Command::Explain(asked) => explain::run(session, &asked),
        Command::Source(asked) => source::run(session, asked),
        Command::Upgrade(asked) => power::upgrade(session, &asked),
        Command::SwitchRoot(asked) => power::switch_root(session, asked),
        Command::Ping => stats::ping(session),
        Command::Stats => stats::stats(session),
        Command::Poweroff(asked) => power::poweroff(session, &asked),
        Command::Reboot(asked) => power::reboot(session, &asked),
        Command::Halt(asked) => power::halt(session, &asked),
        Command::Exit(asked) => power::exit(session, &asked),
        Command::Completions { shell } => completions::completions(shell),
        Command::Man => completions::man(),
        Command::Targets => completions::targets(session),
    }
}

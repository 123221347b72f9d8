//! The arguments of the verbs that change the goal, and how to wait for it.

use super::value::{duration, positive_duration};
use clap::Args;
use groundstate_units::text::name::Name;
use std::time::Duration;

/// The goal of a request.
#[derive(Debug, Default, Args)]
pub(crate) struct Goal {
    /// The targets
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<Name>,
    /// As +NAME
    #[arg(long = "want", value_name = "NAME", hide = true)]
    pub(crate) want: Vec<Name>,
    /// As -NAME
    #[arg(long = "drop", value_name = "NAME", hide = true)]
    pub(crate) drop: Vec<Name>,
}

/// `set-target`.
#[derive(Debug, Args)]
pub(crate) struct SetTarget {
    /// The goal.
    #[command(flatten)]
    pub(crate) goal: Goal,
    /// The options for waiting.
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// With --wait: restore the previous goal on failure or timeout
    #[arg(long, requires = "wait")]
    pub(crate) or_rollback: bool,
    /// Also make it the default target of the next boot
    #[arg(long)]
    pub(crate) persist: bool,
    /// Only print the plan
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The options for waiting.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Wait {
    /// Wait until no unit is starting, stopping or waiting
    #[arg(long)]
    pub(crate) wait: bool,
    /// Return at once. On a terminal, the default is to wait for the units that change
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// With --wait: exit 2 after this time
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

/// `want`.
#[derive(Debug, Args)]
pub(crate) struct Want {
    /// The target
    pub(crate) target: Name,
    /// Remove the target from the goal after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) for_: Option<Duration>,
    /// The options for waiting.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `unwant`.
#[derive(Debug, Args)]
pub(crate) struct Unwant {
    /// The target
    pub(crate) target: Name,
    /// The options for waiting.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

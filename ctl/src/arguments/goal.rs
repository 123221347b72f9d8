//! The arguments of the verbs that change the goal, and how to wait for it.

use super::value::{duration, lasting};
use clap::Args;
use groundstate_units::text::name::Name;
use std::time::Duration;

/// What is asked about a goal.
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
    /// How to wait.
    #[command(flatten)]
    pub(crate) wait: Wait,
    /// With --wait: go back to the goal of before when it ends badly or times out
    #[arg(long, requires = "wait")]
    pub(crate) or_rollback: bool,
    /// Make it the default target of the next boot too
    #[arg(long)]
    pub(crate) persist: bool,
    /// Only print the plan
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// How to wait.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Wait {
    /// Return when nothing is starting, stopping or waiting
    #[arg(long)]
    pub(crate) wait: bool,
    /// With --wait: give up after this long, exit 2
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

/// `want`.
#[derive(Debug, Args)]
pub(crate) struct Want {
    /// The target
    pub(crate) target: Name,
    /// For this long only
    #[arg(long = "for", value_name = "DURATION", value_parser = lasting)]
    pub(crate) for_: Option<Duration>,
    /// How to wait.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `unwant`.
#[derive(Debug, Args)]
pub(crate) struct Unwant {
    /// The target
    pub(crate) target: Name,
    /// How to wait.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

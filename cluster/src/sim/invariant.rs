//! The invariants of the cluster, C1 to C20, one function each.
//! Their inputs are etcd's contents and each init's source and runs ([`crate::sim::world`]), the
//! history ([`crate::sim::book`]), and a naive restatement of the rules ([`crate::sim::rules`]).
//! `simulate-cluster --mutants` shows that each kind of bug is found.

mod agent;
mod engine;
mod exclusive;
mod leaderless;
mod registry;
mod signed;

pub use exclusive::AFTER_A_LEASE;

pub(in crate::sim) use engine::is_fenced;
pub(in crate::sim) use registry::is_member;

use crate::sim::client::Asked;
use crate::sim::world::World;
use crate::snapshot::Snapshot;
use crate::transaction::{Change, Transaction};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time until a change in etcd takes effect on a machine without faults.
pub const LAG: Duration = Duration::from_secs(8);

/// When the invariants are checked.
pub enum Moment<'m> {
    /// After a write.
    Landed {
        /// etcd's contents before.
        before: &'m Snapshot,
        /// The changes.
        changes: &'m [Change],
        /// The write, or `None` if a lease has expired.
        transaction: Option<&'m Transaction>,
    },
    /// Before an init acts on a new source.
    Put {
        /// The machine.
        machine: usize,
        /// New roots.
        added: &'m [UnitName],
        /// Removed roots.
        dropped: &'m [UnitName],
        /// Its new files.
        files: &'m BTreeMap<String, String>,
    },
    /// A machine requests a lease.
    Asked {
        /// The machine.
        machine: usize,
        /// The requested duration.
        ttl: Duration,
    },
    /// A process started, or a machine resumed.
    Live,
    /// Once a second.
    Tick,
    /// All consequences of the last fault have happened.
    Converged,
    /// A while after that without changes.
    Quiet,
    /// A client was answered.
    Answered(&'m Asked),
}

/// The result of a check; the error describes the violation.
pub type Verdict = Result<(), String>;
/// An invariant.
pub type Check = fn(&World, &Moment<'_>) -> Verdict;

/// All invariants by name, in order.
pub const ALL: &[(&str, Check)] = &[
    ("C1 exclusivity", exclusive::c01_exclusivity),
    ("C2 claim first", exclusive::c02_claim_first),
    ("C3 constraints", engine::c03_constraints),
    ("C4 followers", engine::c04_followers),
    ("C5 globals", agent::c05_globals),
    ("C6 fencing", engine::c06_fencing),
    ("C7 placement", engine::c07_placement),
    ("C8 no flapping", engine::c08_no_flapping),
    ("C9 no time travel", agent::c09_no_time_travel),
    ("C10 no stop by ignorance", agent::c10_no_stop_by_ignorance),
    ("C11 guard", agent::c11_guard),
    ("C12 states", registry::c12_states),
    ("C13 no leak", registry::c13_no_leak),
    ("C14 API", registry::c14_api),
    ("C15 state truth", agent::c15_state_truth),
    ("C16 determinism", engine::c16_determinism),
    ("C17 identity", registry::c17_identity),
    ("C18 signed", signed::c18_signed),
    ("C19 mass stop", agent::c19_mass_stop),
    ("C20 without an engine", leaderless::c20_without_an_engine),
];

/// Returns the first violated invariant.
pub fn broken(world: &World, moment: &Moment<'_>) -> Option<(&'static str, String)> {
    ALL.iter().find_map(|(name, check)| Some((*name, check(world, moment).err()?)))
}

/// Fails with this message if the condition is false.
fn must(so: bool, words: impl FnOnce() -> String) -> Verdict {
    if so { Ok(()) } else { Err(words()) }
}

/// Returns the machines that must have applied everything: they have had no recent faults and no
/// recent changes.
fn settled(world: &World) -> impl Iterator<Item = usize> + '_ {
    (0..world.machines.len()).filter(|number| is_settled(world, *number, LAG))
}

/// Like [`settled`], for one machine and duration.
fn is_settled(world: &World, number: usize, time: Duration) -> bool {
    let changed = world.book.changed.get(&world.machines[number].id).copied().unwrap_or_default();
    is_member(world, number) && changed + time <= world.now && world.is_calm(number, time)
}

/// Returns true if all machines must have applied everything, because the last fault is long past.
fn all_settled(world: &World) -> bool {
    let patience = LAG * 2 + world.plan.ttl + world.plan.grace;
    let calm = (0..world.machines.len()).all(|number| {
        let machine = &world.machines[number];
        machine.is_clone && machine.fleetd.is_none() || world.is_calm(number, patience)
    });
    calm && world.book.last_write + patience <= world.now
}

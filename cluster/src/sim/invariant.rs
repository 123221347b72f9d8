//! The invariants of the cluster, C1 to C20, one function each. They judge by what stands
//! in etcd, what inits were told and what runs ([`crate::sim::world`]), by what was so before
//! ([`crate::sim::book`]) and by the rules said once more ([`crate::sim::rules`]). That each
//! kind of mistake is found is shown by `simulate-cluster --mutants`.

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

/// What is true in etcd is true on a machine with which nothing is wrong, so much later.
pub const LAG: Duration = Duration::from_secs(8);

/// When they look.
pub enum Moment<'m> {
    /// Something was written.
    Landed {
        /// What etcd held before.
        before: &'m Snapshot,
        /// What is new.
        changes: &'m [Change],
        /// The write; `None`: a lease has ended.
        transaction: Option<&'m Transaction>,
    },
    /// An init is told something, and has not acted yet.
    Put {
        /// Which.
        machine: usize,
        /// Roots it did not have.
        added: &'m [UnitName],
        /// Roots it has no more.
        dropped: &'m [UnitName],
        /// Its files from now on.
        files: &'m BTreeMap<String, String>,
    },
    /// A machine asks for a lease of that length.
    Asked {
        /// Which.
        machine: usize,
        /// How long it is to last.
        ttl: Duration,
    },
    /// A process began, or a machine goes on.
    Live,
    /// Once a second.
    Tick,
    /// All that follows from the last fault has come.
    Converged,
    /// And since then nothing has happened.
    Quiet,
    /// A client was answered.
    Answered(&'m Asked),
}

/// Whether it holds, and why not.
pub type Verdict = Result<(), String>;
/// One of them.
pub type Check = fn(&World, &Moment<'_>) -> Verdict;

/// By name, in order.
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

/// The first that does not hold.
pub fn broken(world: &World, moment: &Moment<'_>) -> Option<(&'static str, String)> {
    ALL.iter().find_map(|(name, check)| Some((*name, check(world, moment).err()?)))
}

/// Fails with those words unless it is so.
fn must(so: bool, words: impl FnOnce() -> String) -> Verdict {
    if so { Ok(()) } else { Err(words()) }
}

/// Machines with which nothing is wrong, and about which nothing was written lately: what
/// they were told is done.
fn settled(world: &World) -> impl Iterator<Item = usize> + '_ {
    (0..world.machines.len()).filter(|number| is_settled(world, *number, LAG))
}

/// The same of one, for that long.
fn is_settled(world: &World, number: usize, time: Duration) -> bool {
    let changed = world.book.changed.get(&world.machines[number].id).copied().unwrap_or_default();
    is_member(world, number) && changed + time <= world.now && world.is_calm(number, time)
}

/// Nothing is wrong with anything, for so long that all is done.
fn all_settled(world: &World) -> bool {
    let patience = LAG * 2 + world.plan.ttl + world.plan.grace;
    let calm = (0..world.machines.len()).all(|number| {
        let machine = &world.machines[number];
        machine.is_clone && machine.fleetd.is_none() || world.is_calm(number, patience)
    });
    calm && world.book.stirred + patience <= world.now
}

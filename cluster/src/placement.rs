//! Decides whether a machine may have a unit: compares its [`crate::requirement`] with the machine
//! and its units. [`crate::scheduler`] chooses among the machines that may, and decides when a unit
//! moves.

use crate::desired::Desired;
use crate::machine::{Machine, MachineId};
use crate::mutant::{Mutant, planted};
use crate::requirement::Requirement;
use crate::unit_name::UnitName;
use groundstate_units::text::glob;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The engine's view of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its requirements.
    pub asks: Arc<Requirement>,
    /// Its desired state.
    pub desired: Desired,
    /// The machine where the registry has it.
    pub machine: Option<MachineId>,
    /// Revision at which a global unit became wanted; 0 for other units.
    pub since: i64,
}

impl Unit {
    /// Returns true if the engine places the unit on a machine.
    pub fn is_wanted(&self, name: &UnitName) -> bool {
        self.desired != Desired::Inactive && !self.asks.global && !name.is_template()
    }
}

/// A machine and the units on it.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// The machine.
    pub machine: Machine,
    /// Units that the engine placed there.
    pub scheduled: BTreeMap<UnitName, Arc<Requirement>>,
    /// Global units that run there.
    pub globals: BTreeMap<UnitName, Arc<Requirement>>,
}

/// Why a machine cannot have a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The machine's id differs from MachineID.
    MachineId {
        /// The id asked for.
        wanted: String,
    },
    /// The machine's metadata has none of the required values.
    Metadata {
        /// The metadata key.
        key: String,
        /// The accepted values.
        wanted: Vec<String>,
        /// The machine's value.
        has: Option<String>,
    },
    /// A unit of MachineOf is not on the machine.
    Peer {
        /// The missing unit.
        peer: String,
    },
    /// The unit conflicts with a unit on the machine.
    Conflict {
        /// The unit on the machine.
        with: UnitName,
        /// The matching pattern.
        pattern: String,
        /// True if the pattern belongs to the unit on the machine.
        theirs: bool,
    },
    /// A unit on the machine replaces it.
    Replaced {
        /// The replacing unit.
        by: UnitName,
    },
    /// The machine is being drained.
    Draining,
    /// The machine does not answer.
    Away,
    /// The machine's record or an override of its metadata is unreadable.
    Unread {
        /// The unreadable key.
        key: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::MachineId { wanted } if wanted.len() == crate::machine::SHORT => {
                write!(f, "MachineID={wanted} is not its id; MachineID takes the full id")
            }
            Refusal::MachineId { wanted } => write!(f, "MachineID={wanted} is not its id"),
            Refusal::Metadata { key, wanted, has } => {
                let wanted = wanted.join(" or ");
                match has {
                    Some(has) => write!(f, "its metadata has {key}={has}, not {wanted}"),
                    None => write!(f, "its metadata has no {key}={wanted}"),
                }
            }
            Refusal::Peer { peer } => write!(f, "{peer} is not on it (MachineOf)"),
            Refusal::Conflict { with, pattern, theirs: false } => {
                write!(f, "{with} is on it (Conflicts={pattern})")
            }
            Refusal::Conflict { with, pattern, theirs: true } => {
                write!(f, "{with} is on it, which has Conflicts={pattern}")
            }
            Refusal::Replaced { by } => write!(f, "{by} is on it, which replaces it"),
            Refusal::Draining => f.write_str("it is being drained"),
            Refusal::Away => f.write_str("it does not answer"),
            Refusal::Unread { key } => write!(f, "the value of {key} cannot be read"),
        }
    }
}

impl Host {
    /// The load of the machine: its number of units.
    pub fn load(&self) -> usize {
        self.scheduled.len() + self.globals.len()
    }

    /// Returns true if the unit is on the machine.
    pub fn has(&self, name: &str) -> bool {
        self.scheduled.contains_key(name) || self.globals.contains_key(name)
    }

    /// Checks whether machine `id` may have the unit.
    ///
    /// # Errors
    /// The first requirement that the machine does not meet.
    pub fn takes(
        &self,
        id: &MachineId,
        name: &UnitName,
        asks: &Requirement,
    ) -> Result<(), Refusal> {
        if self.machine.draining && !planted(Mutant::DrainIgnored) {
            return Err(Refusal::Draining);
        }
        if self.machine.away && !self.scheduled.contains_key(name) {
            let unread = self.machine.unread.clone().map(|key| Refusal::Unread { key });
            return Err(unread.unwrap_or(Refusal::Away));
        }
        if let Some(wanted) = asks.machine_id.as_ref().filter(|wanted| *wanted != id.as_str()) {
            return Err(Refusal::MachineId { wanted: wanted.clone() });
        }
        // This engine may never have received the metadata of a machine that does not answer.
        if !self.machine.away || planted(Mutant::AwayIsUnknown) {
            self.meets_metadata(asks)?;
        }
        if let Some(peer) = asks.peers.iter().find(|peer| !self.has(peer)) {
            return Err(Refusal::Peer { peer: peer.clone() });
        }
        let others = self.scheduled.iter().chain(&self.globals);
        for (other, theirs) in others.filter(|(other, _)| *other != name) {
            conflict(name, asks, other, theirs)?;
            // Two units that replace each other would move forever, so neither pattern counts.
            if theirs.drives_away(name.as_str()) && !asks.drives_away(other.as_str()) {
                return Err(Refusal::Replaced { by: other.clone() });
            }
        }
        Ok(())
    }

    /// Checks the metadata requirements.
    ///
    /// # Errors
    /// The first key of MachineMetadata that does not match.
    pub fn meets_metadata(&self, asks: &Requirement) -> Result<(), Refusal> {
        for (key, wanted) in &asks.metadata {
            let has = self.machine.metadata.get(key);
            let kept = has.is_some_and(|has| wanted.contains(has));
            if kept && planted(Mutant::AnyMetadata) {
                return Ok(());
            }
            if !kept {
                return Err(Refusal::Metadata {
                    key: key.clone(),
                    wanted: wanted.iter().cloned().collect(),
                    has: has.cloned(),
                });
            }
        }
        Ok(())
    }

    /// Checks whether the machine may have a global unit.
    ///
    /// # Errors
    /// A key of MachineMetadata that does not match, or a unit there that conflicts with it.
    pub fn takes_global(&self, name: &UnitName, asks: &Requirement) -> Result<(), Refusal> {
        self.meets_metadata(asks)?;
        let mut others = self.scheduled.iter().chain(&self.globals);
        others.try_for_each(|(other, theirs)| match other == name {
            true => Ok(()),
            false => conflict(name, asks, other, theirs),
        })
    }

    /// Chooses the `globals` of the cluster that run here. A global unit must match the metadata.
    /// It must not conflict with a unit that the engine placed, nor with an earlier unit of the
    /// list. The list starts with the oldest wanted unit, so a newcomer goes only to machines
    /// without a conflict. For a silent machine with unknown metadata, only conflicts with placed
    /// units count.
    pub fn choose_globals<'g>(
        &self,
        globals: impl Iterator<Item = (&'g UnitName, &'g Arc<Requirement>)>,
    ) -> BTreeMap<UnitName, Arc<Requirement>> {
        let mut chosen: BTreeMap<UnitName, Arc<Requirement>> = BTreeMap::new();
        let unknown = self.machine.away && self.machine.metadata.is_empty();
        for (name, asks) in globals {
            let free = |(other, theirs): (&UnitName, &Arc<Requirement>)| {
                conflict(name, asks, other, theirs).is_ok()
            };
            let fits = unknown || self.meets_metadata(asks).is_ok();
            if (fits || planted(Mutant::GlobalEverywhere))
                && self.scheduled.iter().all(free)
                && (unknown || chosen.iter().all(free))
            {
                chosen.insert(name.clone(), asks.clone());
            }
        }
        chosen
    }
}

fn conflict(
    name: &UnitName,
    asks: &Requirement,
    other: &UnitName,
    theirs: &Requirement,
) -> Result<(), Refusal> {
    let refusal = |pattern: &str, theirs| Refusal::Conflict {
        with: other.clone(),
        pattern: pattern.to_string(),
        theirs,
    };
    if let Some(pattern) = asks.conflict_with(other.as_str()) {
        return Err(refusal(pattern, false));
    }
    if planted(Mutant::OneSidedConflict) {
        return Ok(());
    }
    match theirs.conflicts.iter().find(|pattern| glob::matches(pattern, name.as_str())) {
        Some(pattern) => Err(refusal(pattern, true)),
        None => Ok(()),
    }
}

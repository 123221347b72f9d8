//! May this unit be on that machine? The one place where the requirements of
//! [`crate::requirement`] meet what is on a machine. Which of the machines that may is
//! taken, and when a unit is moved, is [`crate::scheduler`]'s.

use crate::desired::Desired;
use crate::machine::{Machine, MachineId};
use crate::mutant::{Mutant, planted};
use crate::requirement::Requirement;
use crate::unit_name::UnitName;
use groundstate_units::text::glob;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A unit as the engine needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// What it asks of a machine.
    pub asks: Arc<Requirement>,
    /// What is wished.
    pub desired: Desired,
    /// Where it is, by the registry.
    pub machine: Option<MachineId>,
    /// Of a global unit that is wished for: the revision of that wish. Else 0.
    pub since: i64,
}

impl Unit {
    /// The engine puts it on a machine.
    pub fn is_wanted(&self, name: &UnitName) -> bool {
        self.desired != Desired::Inactive && !self.asks.global && !name.is_template()
    }
}

/// A machine with what is on it.
#[derive(Clone, Debug, Default)]
pub struct Seat {
    /// What it publishes.
    pub machine: Machine,
    /// Units the engine put there.
    pub scheduled: BTreeMap<UnitName, Arc<Requirement>>,
    /// Global units that run there.
    pub globals: BTreeMap<UnitName, Arc<Requirement>>,
}

/// Why a machine can not have a unit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// Not the machine of MachineID.
    MachineId {
        /// The id asked for.
        wanted: String,
    },
    /// Its metadata has none of the values asked for.
    Metadata {
        /// Which key.
        key: String,
        /// Any of these would do.
        wanted: Vec<String>,
        /// What the machine says.
        has: Option<String>,
    },
    /// A unit of MachineOf is not there.
    Peer {
        /// Which.
        peer: String,
    },
    /// It and a unit there may not be together.
    Conflict {
        /// The unit that is there.
        with: UnitName,
        /// The pattern that says so.
        pattern: String,
        /// The pattern is that unit's own.
        theirs: bool,
    },
    /// A unit there has it go elsewhere.
    Replaced {
        /// Which.
        by: UnitName,
    },
    /// The machine is being drained.
    Draining,
    /// The machine does not answer.
    Away,
    /// Nobody can read what it says.
    Unread {
        /// Where it says that.
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
            Refusal::Unread { key } => write!(f, "what stands in {key} can not be read"),
        }
    }
}

impl Seat {
    /// Units there, its load.
    pub fn load(&self) -> usize {
        self.scheduled.len() + self.globals.len()
    }

    /// That unit is there.
    pub fn has(&self, name: &str) -> bool {
        self.scheduled.contains_key(name) || self.globals.contains_key(name)
    }

    /// # Errors
    /// The first requirement the machine `id` does not keep.
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
        // What a machine that is away says of itself may never have been heard here.
        if !self.machine.away || planted(Mutant::AwayIsUnknown) {
            self.keeps_metadata(asks)?;
        }
        if let Some(peer) = asks.peers.iter().find(|peer| !self.has(peer)) {
            return Err(Refusal::Peer { peer: peer.clone() });
        }
        let others = self.scheduled.iter().chain(&self.globals);
        for (other, theirs) in others.filter(|(other, _)| *other != name) {
            conflict(name, asks, other, theirs)?;
            // Each driving the other away would move both for ever: then neither counts.
            if theirs.drives_away(name.as_str()) && !asks.drives_away(other.as_str()) {
                return Err(Refusal::Replaced { by: other.clone() });
            }
        }
        Ok(())
    }

    /// # Errors
    /// The first key of MachineMetadata the machine does not have as asked.
    pub fn keeps_metadata(&self, asks: &Requirement) -> Result<(), Refusal> {
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

    /// # Errors
    /// Why the machine cannot have this global unit: a key of MachineMetadata, or a unit there that
    /// conflicts with it.
    pub fn takes_global(&self, name: &UnitName, asks: &Requirement) -> Result<(), Refusal> {
        self.keeps_metadata(asks)?;
        let mut others = self.scheduled.iter().chain(&self.globals);
        others.try_for_each(|(other, theirs)| match other == name {
            true => Ok(()),
            false => conflict(name, asks, other, theirs),
        })
    }

    /// Which of the `globals` of the cluster run here: those whose metadata the machine has and that
    /// conflict with nothing the engine put there, nor with an earlier one of the list. The list has the
    /// oldest wish first, so a newcomer goes only to machines without a unit it conflicts with. Of a
    /// machine that is away and said nothing that is known here: all that may be there.
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
            let fits = unknown || self.keeps_metadata(asks).is_ok();
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
    let told = |pattern: &str, theirs| Refusal::Conflict {
        with: other.clone(),
        pattern: pattern.to_string(),
        theirs,
    };
    if let Some(pattern) = asks.conflict_with(other.as_str()) {
        return Err(told(pattern, false));
    }
    if planted(Mutant::OneSidedConflict) {
        return Ok(());
    }
    match theirs.conflicts.iter().find(|pattern| glob::matches(pattern, name.as_str())) {
        Some(pattern) => Err(told(pattern, true)),
        None => Ok(()),
    }
}

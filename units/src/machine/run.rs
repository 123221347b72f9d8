//! One life of one unit, as the machine remembers it: by which definition it was
//! started, what was promised to it, and what has been decided about it. Its phase
//! is in [`super::phase`]; its process is known to the shell only.

use crate::machine::event::RunId;
use crate::spec::{Kind, Live, Readiness};
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::Unit;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What a run was started as. Keys of class *live* follow the generation for as long as the run
/// is not to stop; the rest stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Definition {
    pub(super) name: Name,
    pub(super) kind: Kind,
    pub(super) readiness: Readiness,
    pub(super) has_exec_stop: bool,
    pub(super) has_exec_reload: bool,
    pub(super) remains: bool,
    pub(super) run_hash: u64,
    pub(super) live: Arc<Live>,
}

impl Definition {
    pub(super) fn of(unit: &Unit) -> Definition {
        Definition {
            name: unit.name.clone(),
            kind: unit.kind,
            readiness: unit.readiness,
            has_exec_stop: unit.has_exec_stop,
            has_exec_reload: unit.has_exec_reload,
            remains: unit.remains,
            run_hash: unit.run_hash,
            live: unit.live.clone(),
        }
    }
}

/// See [`super::held_targets`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Hold {
    /// The targets it provides, where they are not those that it is selected for.
    pub(super) targets: Option<Vec<Name>>,
    /// The targets it conflicts with, where its definition says otherwise now.
    pub(super) against: Option<Vec<Name>>,
}

/// A run that is up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) definition: Arc<Definition>,
    /// The depends-on target whose provider left active. Never cleared.
    pub(super) lost: Option<Name>,
    /// The operator asked for a restart, or a unit it restarts with was told to stop.
    pub(super) restart: bool,
    /// The generation has another definition, which is to replace this run.
    pub(super) changed: bool,
    /// The generation has another definition, and this run is kept all the same.
    pub(super) stale: bool,
    /// How long it had been active when it left that.
    pub(super) active_for: Option<Duration>,
    /// A process of it may be left.
    pub(super) alive: bool,
    /// The kernel killed one of its processes for want of memory.
    pub(super) out_of_memory: bool,
    /// Its last reload of itself failed or timed out.
    pub(super) reload_failed: bool,
    /// The last STATUS= it sent.
    pub(super) status: String,
    /// It has asked for time: its `run-timeout` does not strike before.
    pub(super) extended: Option<Time>,
    /// How often it has promised to ping.
    pub(super) watchdog: Option<Duration>,
    /// The providers its start waited for, once the present graph says otherwise.
    pub(super) order: Option<Arc<[Name]>>,
    /// What it has until it is gone, once the present graph says otherwise.
    pub(super) hold: Option<Box<Hold>>,
    /// depends-ms targets of this run that nobody provides any more.
    pub(super) milestones_lost: Vec<Name>,
}

impl Run {
    pub(super) fn new(id: RunId, unit: &Unit) -> Run {
        Run {
            id,
            definition: Arc::new(Definition::of(unit)),
            lost: None,
            restart: false,
            changed: false,
            stale: false,
            active_for: None,
            alive: unit.kind.has_process(),
            out_of_memory: false,
            reload_failed: false,
            status: String::new(),
            extended: None,
            watchdog: None,
            order: None,
            hold: None,
            milestones_lost: Vec::new(),
        }
    }

    /// When an active run that is active since then has been so for too long.
    pub(super) fn run_by(&self, since: Time) -> Option<Time> {
        let limit = since.after(self.definition.live.run_timeout?);
        Some(self.extended.map_or(limit, |later| later.max(limit)))
    }
}

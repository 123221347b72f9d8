//! A run in the machine: the definition it was started with, the stop order and targets that it
//! keeps from an earlier graph, and the decisions about it. [`super::phase`] has its phase; only
//! init knows its processes.

use crate::machine::event::RunId;
use crate::spec::{Kind, Live, Readiness};
use crate::text::fields::is_default;
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::Unit;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::sync::Arc;
use std::time::Duration;

/// The definition a run was started with. Keys of class *live* follow the generation until the run
/// has to stop; the others stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Definition {
    pub(super) kind: Kind,
    pub(super) readiness: Readiness,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) has_exec_stop: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) has_exec_reload: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) remains: bool,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) run_hash: u64,
    #[serde(default)]
    pub(super) live: Arc<Live>,
}

impl Definition {
    /// Returns true for the definition of this unit.
    pub(super) fn is_of(&self, unit: &Unit) -> bool {
        let Definition { kind, readiness, has_exec_stop, has_exec_reload, remains, run_hash, live } =
            self;
        *run_hash == unit.run_hash
            && (*kind, *readiness) == (unit.kind, unit.readiness)
            && [*has_exec_stop, *has_exec_reload, *remains]
                == [unit.has_exec_stop, unit.has_exec_reload, unit.remains]
            && *live == unit.live
    }

    pub(super) fn of(unit: &Unit) -> Definition {
        Definition {
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

/// Targets a run holds until it is gone, see [`super::held_targets`].
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Hold {
    /// The targets the run provides, if it is selected for others now.
    pub(super) targets: Option<Vec<Name>>,
    /// The targets the run conflicts with, if its definition names others now.
    pub(super) against: Option<Vec<Name>>,
}

/// One run that is up.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    #[serde_with(skip_apply)]
    pub(super) id: RunId,
    /// A field of [`super::record::UnitRecord`], not of the phase's record.
    #[serde(skip)]
    #[serde_with(skip_apply)]
    pub(super) definition: Arc<Definition>,
    /// The depends-on target whose provider left active. Never cleared.
    pub(super) lost: Option<Name>,
    /// The operator requested a restart, or a unit this one restarts with was told to stop.
    pub(super) restart: bool,
    /// The generation has another definition, which replaces this run.
    pub(super) changed: bool,
    /// The generation has another definition, but this run is kept.
    pub(super) stale: bool,
    /// How long the run was active; set when it leaves the active state.
    pub(super) active_for: Option<Duration>,
    /// A process of the run may exist.
    pub(super) alive: bool,
    /// The kernel killed a process of the run because memory ran out.
    pub(super) out_of_memory: bool,
    /// The last reload failed or timed out.
    pub(super) reload_failed: bool,
    /// The last STATUS= of the run.
    pub(super) status: String,
    /// EXTEND_TIMEOUT_USEC: `run-timeout` does not end the run before this time.
    pub(super) extended: Option<Time>,
    /// The interval of watchdog pings that the run promised.
    pub(super) watchdog: Option<Duration>,
    /// The providers the start waited for, recorded when the present graph differs.
    pub(super) order: Option<Arc<[Name]>>,
    /// The held targets, recorded when the present graph differs.
    pub(super) hold: Option<Box<Hold>>,
    /// depends-ms targets of this run that have no provider any more.
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

    /// Returns the deadline of `run-timeout` for a run that is active since `since`.
    pub(super) fn run_by(&self, since: Time) -> Option<Time> {
        let limit = since.after(self.definition.live.run_timeout?);
        Some(self.extended.map_or(limit, |later| later.max(limit)))
    }
}

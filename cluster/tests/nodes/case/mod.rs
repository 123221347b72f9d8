//! The cases, as a table. Those of fleet's own functional tests name theirs.

mod anew;
mod answers;
mod apart;
mod by_ssh;
mod etcd;
mod logs;
mod moving;
mod outage;
mod page;
mod placing;
mod unit_actions;
mod wires;

use crate::stand::Cluster;
use std::time::Duration;

/// One of them.
pub(crate) struct Case {
    /// What holds.
    pub(crate) name: &'static str,
    /// How many nodes it needs.
    pub(crate) nodes: u8,
    /// Lines of fleet.conf besides the usual ones.
    pub(crate) conf: &'static str,
    /// Run by `tests/run`; the others need longer.
    pub(crate) sample: bool,
    /// Fleet's own functional tests whose matter it is.
    pub(crate) fleet: &'static [&'static str],
    /// Leaves what [`Cluster::mend`] can put right.
    pub(crate) run: fn(&mut Cluster),
}

impl Case {
    const fn like(self, fleet: &'static [&'static str]) -> Case {
        Case { fleet, ..self }
    }

    const fn with(self, conf: &'static str) -> Case {
        Case { conf, ..self }
    }

    const fn on(self, nodes: u8) -> Case {
        Case { nodes, ..self }
    }
}

/// On three nodes, in `tests/run`.
const fn sample(name: &'static str, run: fn(&mut Cluster)) -> Case {
    Case { name, nodes: 3, conf: "", sample: true, fleet: &[], run }
}

/// On three nodes, at leisure.
const fn soak(name: &'static str, run: fn(&mut Cluster)) -> Case {
    Case { name, nodes: 3, conf: "", sample: false, fleet: &[], run }
}

/// All of them.
pub(crate) const CASES: [&[Case]; 12] = [
    &unit_actions::CASES,
    &answers::CASES,
    &placing::CASES,
    &moving::CASES,
    &anew::CASES,
    &outage::CASES,
    &by_ssh::CASES,
    &logs::CASES,
    &page::CASES,
    &etcd::CASES,
    &wires::CASES,
    &apart::CASES,
];

/// Fleet's functional tests, all of them.
const OF_FLEET: [&str; 43] = [
    "TestUnitRunnable",
    "TestUnitSubmit",
    "TestUnitLoad",
    "TestUnitStart",
    "TestUnitSubmitReplace",
    "TestUnitLoadReplace",
    "TestUnitStartReplace",
    "TestUnitRestart",
    "TestUnitSSHActions",
    "TestUnitCat",
    "TestUnitStatus",
    "TestListUnitFilesOrder",
    "TestScheduleMachineOf",
    "TestScheduleConflicts",
    "TestScheduleOneWayConflict",
    "TestScheduleMultipleConflicts",
    "TestScheduleReplace",
    "TestScheduleCircularReplace",
    "TestScheduleConditionMachineID",
    "TestScheduleGlobalUnits",
    "TestScheduleGlobalConflicts",
    "TestDynamicClusterNewMemberUnitMigration",
    "TestDynamicClusterMemberReboot",
    "TestSingleNodeConnectivityLoss",
    "TestShutdown",
    "TestShutdownVsMonitor",
    "TestNodeShutdown",
    "TestDetectMachineId",
    "TestReconfigureServer",
    "TestTemplatesWithSpecifiersInMetadata",
    "TestInstallUnit",
    "TestMachinesList",
    "TestMachinesListBadNextPageToken",
    "TestMachinesPatchAddModify",
    "TestMachinesPatchDelete",
    "TestMachinesPatchBad",
    "TestKnownHostsVerification",
    "TestFleetctlWithEnv",
    "TestClientVersionFlag",
    "TestClientVersionHelpOutput",
    "TestClientHelpFlag",
    "TestTunnelScheduleBatchUnits",
    "TestSystemdUnitFlow",
];

/// Those of fleet's tests that no case is like, and names that are none of them.
pub(crate) fn strays() -> Vec<&'static str> {
    let named: Vec<&str> =
        CASES.iter().copied().flatten().flat_map(|case| case.fleet).copied().collect();
    let missing = OF_FLEET.iter().filter(|name| !named.contains(name));
    let unknown = named.iter().filter(|name| !OF_FLEET.contains(name));
    missing.chain(unknown).copied().collect()
}

/// The lease of a machine in the stand: what ends it takes that long.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A service that runs until it is stopped.
pub(crate) const SLEEPS: &str = "[Service]\nExecStart=/bin/sleep 100000\n";

/// The same, with lines of [X-Fleet].
pub(crate) fn sleeps_with(fleet: &str) -> String {
    format!("{SLEEPS}\n[X-Fleet]\n{fleet}\n")
}

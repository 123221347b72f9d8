//! The table of cases. A case that corresponds to functional tests of fleet names them.

mod answers;
mod apart;
mod by_ssh;
mod etcd;
mod logs;
mod moving;
mod outage;
mod page;
mod placing;
mod reboot;
mod unit_actions;
mod wires;

use crate::stand::Cluster;
use std::time::Duration;

/// A case.
pub(crate) struct Case {
    /// The checked behaviour.
    pub(crate) name: &'static str,
    /// The number of nodes it needs.
    pub(crate) nodes: u8,
    /// Extra lines of fleet.conf.
    pub(crate) conf: &'static str,
    /// Run by `tests/run`; the other cases take longer.
    pub(crate) sample: bool,
    /// The corresponding functional tests of fleet.
    pub(crate) fleet: &'static [&'static str],
    /// Leaves a cluster that [`Cluster::mend`] can restore.
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

/// A case on three nodes, run by `tests/run`.
const fn sample(name: &'static str, run: fn(&mut Cluster)) -> Case {
    Case { name, nodes: 3, conf: "", sample: true, fleet: &[], run }
}

/// A case on three nodes, for long runs.
const fn soak(name: &'static str, run: fn(&mut Cluster)) -> Case {
    Case { name, nodes: 3, conf: "", sample: false, fleet: &[], run }
}

/// All cases.
pub(crate) const CASES: [&[Case]; 12] = [
    &unit_actions::CASES,
    &answers::CASES,
    &placing::CASES,
    &moving::CASES,
    &reboot::CASES,
    &outage::CASES,
    &by_ssh::CASES,
    &logs::CASES,
    &page::CASES,
    &etcd::CASES,
    &wires::CASES,
    &apart::CASES,
];

/// All functional tests of fleet.
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

/// Returns fleet's tests without a case, and unknown names in cases.
pub(crate) fn unmatched_tests() -> Vec<&'static str> {
    let named: Vec<&str> =
        CASES.iter().copied().flatten().flat_map(|case| case.fleet).copied().collect();
    let missing = OF_FLEET.iter().filter(|name| !named.contains(name));
    let unknown = named.iter().filter(|name| !OF_FLEET.contains(name));
    missing.chain(unknown).copied().collect()
}

/// The lease of a machine in the stand.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// A service that runs until it is stopped.
pub(crate) const SLEEPS: &str = "[Service]\nExecStart=/bin/sleep 100000\n";

/// The same, with lines of [X-Fleet].
pub(crate) fn sleeps_with(fleet: &str) -> String {
    format!("{SLEEPS}\n[X-Fleet]\n{fleet}\n")
}

//! `[Unit]` and `[Install]`.

use super::How::{ByDesign, Lines, Lost, Silent, Special, Text};
use super::{Directive, Grade, out, row};

const CLOSURE: &str = "the goal decides which units are up, not the last command";
const ISOLATE: &str = "a change of goal stops units that the goal does not need";

/// Dependencies: dependency.rs. `[Install]`: install.rs. Limits of starts: restart.rs.
#[rustfmt::skip]
pub(super) const ROWS: &[Directive] = &[
    row("Unit", "Description", "description", Text),
    Directive { grade: Grade::Free, ..row("Unit", "Documentation", "documentation", Silent) },
    row("Unit", "After", "after", Special),
    row("Unit", "Before", "before", Special),
    row("Unit", "Requires", "depends-ms", Special),
    row("Unit", "RequiresOverridable", "depends-ms", Special),
    row("Unit", "Requisite", "requires-active", Special),
    row("Unit", "RequisiteOverridable", "requires-active", Special),
    row("Unit", "Wants", "wants", Special),
    row("Unit", "BindsTo", "depends-on", Special),
    row("Unit", "BindTo", "depends-on", Special),
    row("Unit", "PartOf", "restart-with", Special),
    row("Unit", "Upholds", "wants", Special),
    row("Unit", "Conflicts", "conflicts", Special),
    row("Unit", "OnFailure", "on-failure", Special),
    row("Unit", "OnSuccess", "on-success", Special),
    row("Unit", "ReloadPropagatedFrom", "reload-with", Special),
    row("Unit", "PropagateReloadFrom", "reload-with", Special),
    row("Unit", "StopPropagatedFrom", "restart-with", Special),
    row("Unit", "RequiresMountsFor", "needs-path", Special),
    row("Unit", "WantsMountsFor", "waits-for", Special),
    row("Unit", "DefaultDependencies", "", Special),
    row("Unit", "StartLimitIntervalSec", "restart-limit", Special),
    row("Unit", "StartLimitInterval", "restart-limit", Special),
    row("Unit", "StartLimitBurst", "restart-limit", Special),
    out("Unit", "PropagatesReloadTo", Lost("a reload of this unit does not reload others")),
    out("Unit", "PropagateReloadTo", Lost("a reload of this unit does not reload others")),
    out("Unit", "PropagatesStopTo", Lost("a stop of this unit does not stop others")),
    out("Unit", "JoinsNamespaceOf", Lost("the units do not share /tmp or a network")),
    out("Unit", "StopWhenUnneeded", ByDesign(CLOSURE)),
    out("Unit", "RefuseManualStart", ByDesign(CLOSURE)),
    out("Unit", "RefuseManualStop", ByDesign(CLOSURE)),
    out("Unit", "AllowIsolate", ByDesign(CLOSURE)),
    out("Unit", "IgnoreOnIsolate", ByDesign(ISOLATE)),
    out("Unit", "IgnoreOnSnapshot", ByDesign("there are no snapshots")),
    row("Unit", "OnFailureJobMode", "", Special),
    out("Unit", "OnFailureIsolate", Lost("the target joins the goal and replaces nothing")),
    row("Unit", "OnSuccessJobMode", "", Special),
    out("Unit", "CollectMode", ByDesign("init keeps no unit that is not needed")),
    out("Unit", "SurviveFinalKillSignal", Lost("the last kill of a shutdown also kills its processes")),
    out("Unit", "SourcePath", Silent),
    out("Unit", "JobTimeoutSec", Lost("a waiting start has no timeout")),
    out("Unit", "JobRunningTimeoutSec", Lost("only the unit's own start timeout limits a start")),
    out("Unit", "JobTimeoutAction", Lost("a waiting start has no timeout")),
    out("Unit", "JobTimeoutRebootArgument", Lost("a waiting start has no timeout")),
    out("Unit", "SuccessAction", Lost("the end of this unit does not end the system")),
    out("Unit", "FailureAction", Lost("a failure of this unit does not end the system")),
    out("Unit", "SuccessActionExitStatus", Lost("the end of this unit does not end the system")),
    out("Unit", "FailureActionExitStatus", Lost("a failure of this unit does not end the system")),
    out("Unit", "StartLimitAction", Special),
    out("Unit", "RebootArgument", ByDesign("no unit reboots the machine")),
    row("Install", "WantedBy", "wanted-by", Special),
    row("Install", "RequiredBy", "required-by", Special),
    row("Install", "UpheldBy", "wanted-by", Special),
    row("Install", "Alias", "provides", Special),
    out("Install", "Also", Special),
    row("Install", "DefaultInstance", "default-instance", Special),
];

macro_rules! conditions {
    ($($name:literal $key:literal,)*) => {
        /// The conditions, and the assertions of the same things.
        #[rustfmt::skip]
        pub(super) const CONDITIONS: &[Directive] = &[
            $(row("Unit", concat!("Condition", $name), concat!("condition-", $key), Lines),)*
            $(row("Unit", concat!("Assert", $name), concat!("assert-", $key), Lines),)*
        ];
    };
}

conditions! {
    "PathExists" "path-exists",
    "PathExistsGlob" "path-exists-glob",
    "PathIsDirectory" "path-is-directory",
    "PathIsSymbolicLink" "path-is-symlink",
    "PathIsMountPoint" "path-is-mount-point",
    "PathIsReadWrite" "path-writable",
    "PathIsEncrypted" "path-is-encrypted",
    "PathIsSocket" "path-is-socket",
    "DirectoryNotEmpty" "directory-not-empty",
    "FileNotEmpty" "file-not-empty",
    "FileIsExecutable" "file-executable",
    "KernelCommandLine" "kernel-cmdline",
    "KernelVersion" "kernel-version",
    "Virtualization" "virtualization",
    "Capability" "capability",
    "Security" "security",
    "ACPower" "ac-power",
    "FirstBoot" "first-boot",
    "Host" "host",
    "Architecture" "architecture",
    "Firmware" "firmware",
    "User" "user",
    "Group" "group",
    "CPUs" "cpus",
    "CPUFeature" "cpu-feature",
    "Memory" "memory",
    "MemoryPressure" "memory-pressure",
    "CPUPressure" "cpu-pressure",
    "IOPressure" "io-pressure",
    "Environment" "environment",
    "OSRelease" "os-release",
    "ControlGroupController" "cgroup-controller",
    "NeedsUpdate" "needs-update",
    "Credential" "credential",
}

//! Rows of directives that restrict processes. Without the native key the unit runs with more
//! rights than its author requested, so the importer reports each.

use super::How::{Boolean, Inverted, Lines, Special, Text, Words};
use super::{Directive, Grade, row};

const fn box_(name: &'static str, key: &'static str, how: super::How) -> Directive {
    Directive { grade: Grade::Sandbox, ..row("Process", name, key, how) }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Directive] = &[
    box_("NoNewPrivileges", "no-new-privileges", Boolean),
    box_("CapabilityBoundingSet", "capabilities-bound", Special),
    box_("AmbientCapabilities", "capabilities-ambient", Special),
    box_("SecureBits", "secure-bits", Words),
    box_("PrivateTmp", "private-tmp", Text),
    box_("PrivateDevices", "private-devices", Boolean),
    box_("PrivateNetwork", "private-network", Boolean),
    box_("PrivateUsers", "private-users", Text),
    box_("PrivateMounts", "private-mounts", Boolean),
    box_("PrivateIPC", "private-ipc", Boolean),
    box_("PrivatePIDs", "private-pids", Boolean),
    box_("NetworkNamespacePath", "network-namespace-path", Text),
    box_("IPCNamespacePath", "ipc-namespace-path", Text),
    box_("ProtectSystem", "protect-system", Text),
    box_("ProtectHome", "protect-home", Text),
    box_("ProtectKernelTunables", "protect-kernel-tunables", Boolean),
    box_("ProtectKernelModules", "protect-kernel-modules", Boolean),
    box_("ProtectKernelLogs", "protect-kernel-logs", Boolean),
    box_("ProtectControlGroups", "protect-control-groups", Text),
    box_("ProtectClock", "protect-clock", Boolean),
    box_("ProtectHostname", "protect-hostname", Text),
    box_("ProtectProc", "protect-proc", Text),
    box_("ProcSubset", "proc-subset", Text),
    box_("ReadOnlyPaths", "read-only-paths", Words),
    box_("ReadOnlyDirectories", "read-only-paths", Words),
    box_("ReadWritePaths", "read-write-paths", Words),
    box_("ReadWriteDirectories", "read-write-paths", Words),
    box_("InaccessiblePaths", "inaccessible-paths", Words),
    box_("InaccessibleDirectories", "inaccessible-paths", Words),
    box_("ExecPaths", "exec-paths", Words),
    box_("NoExecPaths", "no-exec-paths", Words),
    box_("BindPaths", "bind-paths", Words),
    box_("BindReadOnlyPaths", "bind-read-only-paths", Words),
    box_("TemporaryFileSystem", "tmp-fs", Words),
    box_("MountFlags", "mount-flags", Text),
    box_("MountAPIVFS", "mount-api-vfs", Boolean),
    box_("BindLogSockets", "bind-log-sockets", Boolean),
    box_("DeviceAllow", "device-allow", Lines),
    box_("DevicePolicy", "device-policy", Text),
    box_("RestrictAddressFamilies", "restrict-address-families", Inverted),
    box_("RestrictFileSystems", "restrict-file-systems", Inverted),
    box_("RestrictNamespaces", "restrict-namespaces", Inverted),
    box_("RestrictRealtime", "restrict-realtime", Boolean),
    box_("RestrictSUIDSGID", "restrict-suid-sgid", Boolean),
    box_("MemoryDenyWriteExecute", "memory-deny-write-execute", Boolean),
    box_("LockPersonality", "lock-personality", Boolean),
    box_("SystemCallFilter", "syscall-filter", Inverted),
    box_("SystemCallArchitectures", "syscall-architectures", Words),
    box_("SystemCallErrorNumber", "syscall-errno", Text),
    box_("SystemCallLog", "syscall-log", Inverted),
    box_("RemoveIPC", "remove-ipc", Boolean),
    box_("KeyringMode", "keyring-mode", Text),
    box_("AppArmorProfile", "apparmor-profile", Text),
    box_("SELinuxContext", "selinux-context", Text),
    box_("SmackProcessLabel", "smack-label", Text),
    box_("Capabilities", "", Special),
];

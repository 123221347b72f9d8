//! Names of systemd's own units. Native units replace most of them, under the same names where other
//! units name them; a few services are imported.

/// The goal of a boot, under each name systemd has for it.
const GOALS: [&str; 7] = [
    "default.target",
    "multi-user.target",
    "graphical.target",
    "runlevel2.target",
    "runlevel3.target",
    "runlevel4.target",
    "runlevel5.target",
];

/// Targets of systemd.special(7) that units name.
const TARGETS: [&str; 73] = [
    "basic.target",
    "blockdev@.target",
    "bluetooth.target",
    "boot-complete.target",
    "cryptsetup-pre.target",
    "cryptsetup.target",
    "ctrl-alt-del.target",
    "emergency.target",
    "exit.target",
    "factory-reset.target",
    "final.target",
    "first-boot-complete.target",
    "getty-pre.target",
    "getty.target",
    "halt.target",
    "hibernate.target",
    "hybrid-sleep.target",
    "imports-pre.target",
    "imports.target",
    "initrd-fs.target",
    "initrd-root-device.target",
    "initrd-root-fs.target",
    "initrd-switch-root.target",
    "initrd-usr-fs.target",
    "initrd.target",
    "integritysetup-pre.target",
    "integritysetup.target",
    "kexec.target",
    "local-fs-pre.target",
    "local-fs.target",
    "machines.target",
    "network-online.target",
    "network-pre.target",
    "network.target",
    "nss-lookup.target",
    "nss-user-lookup.target",
    "paths.target",
    "poweroff.target",
    "printer.target",
    "reboot.target",
    "remote-cryptsetup.target",
    "remote-fs-pre.target",
    "remote-fs.target",
    "remote-veritysetup.target",
    "rescue.target",
    "rpcbind.target",
    "runlevel0.target",
    "runlevel1.target",
    "runlevel6.target",
    "shutdown.target",
    "sigpwr.target",
    "sleep.target",
    "slices.target",
    "smartcard.target",
    "sockets.target",
    "soft-reboot.target",
    "sound.target",
    "ssh-access.target",
    "storage-target-mode.target",
    "suspend-then-hibernate.target",
    "suspend.target",
    "swap.target",
    "sysinit.target",
    "system-update-pre.target",
    "system-update.target",
    "time-set.target",
    "time-sync.target",
    "timers.target",
    "tpm2.target",
    "umount.target",
    "usb-gadget.target",
    "veritysetup-pre.target",
    "veritysetup.target",
];

/// Other units of the systemd package whose names do not start with `systemd-`.
const OTHERS: [&str; 55] = [
    "-.slice",
    "autovt@.service",
    "capsule.slice",
    "capsule@.service",
    "console-getty.service",
    "container-getty@.service",
    "dbus-org.freedesktop.home1.service",
    "dbus-org.freedesktop.hostname1.service",
    "dbus-org.freedesktop.import1.service",
    "dbus-org.freedesktop.locale1.service",
    "dbus-org.freedesktop.login1.service",
    "dbus-org.freedesktop.machine1.service",
    "dbus-org.freedesktop.network1.service",
    "dbus-org.freedesktop.oom1.service",
    "dbus-org.freedesktop.portable1.service",
    "dbus-org.freedesktop.resolve1.service",
    "dbus-org.freedesktop.timedate1.service",
    "dbus-org.freedesktop.timesync1.service",
    "debug-shell.service",
    "dev-hugepages.mount",
    "dev-mqueue.mount",
    "emergency.service",
    "getty-static.service",
    "getty@.service",
    "halt-local.service",
    "initrd-cleanup.service",
    "initrd-parse-etc.service",
    "initrd-switch-root.service",
    "initrd-udevadm-cleanup-db.service",
    "kmod-static-nodes.service",
    "kmod.service",
    "ldconfig.service",
    "machine.slice",
    "modprobe@.service",
    "proc-sys-fs-binfmt_misc.automount",
    "proc-sys-fs-binfmt_misc.mount",
    "quotaon-root.service",
    "quotaon.service",
    "quotaon@.service",
    "rc-local.service",
    "rc.service",
    "rcS.service",
    "rescue.service",
    "serial-getty@.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "syslog.socket",
    "system-update-cleanup.service",
    "system.slice",
    "tmp.mount",
    "user-runtime-dir@.service",
    "user.slice",
    "var-lib-machines.mount",
];

/// Services of systemd that run without systemd as PID 1. Each unit whose name starts with one of
/// these names is imported.
const IMPORTED: [&str; 5] = [
    "systemd-network-generator",
    "systemd-networkd",
    "systemd-resolved",
    "systemd-time-wait-sync",
    "systemd-timesyncd",
];

/// Names of these services on the bus.
const IMPORTED_ALIASES: [&str; 3] = [
    "dbus-org.freedesktop.network1.service",
    "dbus-org.freedesktop.resolve1.service",
    "dbus-org.freedesktop.timesync1.service",
];

/// Returns the native goal of that name, if it is one of the boot's goals.
pub fn goal(name: &str) -> Option<&'static str> {
    GOALS.contains(&name).then_some("multi-user")
}

/// Returns true for one of systemd's own units, which may be missing here.
pub fn is_own(name: &str) -> bool {
    GOALS.contains(&name)
        || TARGETS.contains(&name)
        || OTHERS.contains(&name)
        || name.starts_with("systemd-")
        || name.starts_with("user@")
        || name.ends_with(".slice")
            && (name.starts_with("user-") || name.starts_with("system-systemd\\x2d"))
        || matches!(name, "udev.service" | "procps.service" | "x11-common.service")
}

/// Returns true for one of systemd's own units that is not imported.
pub(crate) fn is_replaced(name: &str) -> bool {
    let is_imported = IMPORTED.iter().any(|service| name.starts_with(service));
    is_own(name) && !is_imported && !IMPORTED_ALIASES.contains(&name)
}

/// Targets whose stand-in the boot's goal pulls in. A target gets a stand-in if no unit here
/// provides it. The stand-in pulls in the units that are installed into the target.
pub const GATHERING: [&str; 9] = [
    "basic.target",
    "getty.target",
    "local-fs.target",
    "paths.target",
    "remote-fs.target",
    "sockets.target",
    "swap.target",
    "sysinit.target",
    "timers.target",
];

/// Returns true for parts of the journal, which the logger replaces.
pub(super) fn is_of_journal(name: &str) -> bool {
    name.starts_with("systemd-journald") || name == "systemd-journal-flush.service"
}

/// Returns true for targets of the shutdown, for which no unit waits here.
pub(super) fn is_of_shutdown(name: &str) -> bool {
    matches!(
        name,
        "shutdown.target"
            | "umount.target"
            | "final.target"
            | "reboot.target"
            | "poweroff.target"
            | "halt.target"
            | "kexec.target"
            | "exit.target"
            | "soft-reboot.target"
            | "runlevel0.target"
            | "runlevel6.target"
            | "initrd-switch-root.target"
            | "initrd-switch-root.service"
            | "systemd-reboot.service"
            | "systemd-poweroff.service"
            | "systemd-halt.service"
    )
}

/// Returns true for a target reached only at shutdown or sleep, when init starts no units.
pub(crate) fn starts_nothing(name: &str) -> bool {
    is_of_shutdown(name)
        || matches!(
            name,
            "sleep.target"
                | "suspend.target"
                | "hibernate.target"
                | "hybrid-sleep.target"
                | "suspend-then-hibernate.target"
        )
}

/// Conflicts with these only mean that the unit stops when the goal changes.
pub(super) fn ends_the_goal(name: &str) -> bool {
    is_of_shutdown(name)
        || matches!(
            name,
            "rescue.target"
                | "rescue.service"
                | "emergency.target"
                | "emergency.service"
                | "sleep.target"
                | "multi-user.target"
                | "graphical.target"
                | "getty@tty1.service"
                | "console-shell.service"
                | "system-update.target"
        )
        || name.starts_with("initrd-")
        || name.starts_with("plymouth-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_goals_map_to_one_and_the_lists_are_sorted_without_duplicates() {
        assert_eq!(goal("graphical.target"), Some("multi-user"));
        assert_eq!(goal("nginx.target"), None);
        for list in [&TARGETS[..], &OTHERS[..]] {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert!(GATHERING.iter().all(|name| is_own(name)));
    }
}

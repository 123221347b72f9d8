//! Keys that are known but not implemented: isolation of a unit. A native unit with such a key is
//! refused, because it would run without the isolation. An imported unit runs, and a warning names
//! the missing isolation.

/// The names of the keys, sorted.
pub const SANDBOX: [&str; 49] = [
    "bind-paths",
    "bind-read-only-paths",
    "device-allow",
    "device-policy",
    "dynamic-user",
    "exec-paths",
    "inaccessible-paths",
    "ip-address-allow",
    "ip-address-deny",
    "keyring-mode",
    "lock-personality",
    "memory-deny-write-execute",
    "no-exec-paths",
    "private-devices",
    "private-ipc",
    "private-mounts",
    "private-network",
    "private-pids",
    "private-tmp",
    "private-users",
    "proc-subset",
    "protect-clock",
    "protect-control-groups",
    "protect-home",
    "protect-hostname",
    "protect-kernel-logs",
    "protect-kernel-modules",
    "protect-kernel-tunables",
    "protect-proc",
    "protect-system",
    "read-only-paths",
    "read-write-paths",
    "remove-ipc",
    "restrict-address-families",
    "restrict-file-systems",
    "restrict-namespaces",
    "restrict-network-interfaces",
    "restrict-realtime",
    "restrict-suid-sgid",
    "root-image",
    "se-linux-context",
    "smack-process-label",
    "socket-bind-allow",
    "socket-bind-deny",
    "syscall-architectures",
    "syscall-errno",
    "syscall-filter",
    "syscall-log",
    "tmp-fs",
];

#[cfg(test)]
mod tests {
    use super::SANDBOX;

    #[test]
    fn unimplemented_sandbox_key_is_listed_once_and_is_no_real_key() {
        assert!(SANDBOX.is_sorted_by(|a, b| a < b));
        for name in SANDBOX {
            assert!(crate::unit::key_table::find(name).is_none(), "{name}");
        }
    }
}

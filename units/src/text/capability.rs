//! The names of capabilities(7), by their numbers.

/// The names; number n is at index n.
const NAMES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// Returns the number of `CAP_NET_ADMIN`, `cap_net_admin` or `net-admin`.
pub fn number(name: &str) -> Option<u8> {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    let plain = plain.strip_prefix("cap_").unwrap_or(&plain);
    let index = NAMES.iter().position(|known| *known == plain)?;
    u8::try_from(index).ok()
}

/// Returns the name of a number, as in `CAP_NET_ADMIN`.
pub fn name(number: u8) -> Option<String> {
    NAMES.get(usize::from(number)).map(|name| format!("CAP_{}", name.to_ascii_uppercase()))
}

/// Returns the numbers of all known capabilities.
pub fn all() -> std::collections::BTreeSet<u8> {
    (0u8..).zip(NAMES).map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn capabilities_have_the_numbers_of_the_kernel() {
        for (name, expected) in [
            ("CAP_CHOWN", 0),
            ("cap_net_bind_service", 10),
            ("CAP_SYS_ADMIN", 21),
            ("net-admin", 12),
            ("CAP_CHECKPOINT_RESTORE", 40),
        ] {
            assert_eq!(number(name), Some(expected), "{name}");
        }
        for bad in ["", "CAP_", "CAP_NET", "21", "CAP_SYS_ADMIN "] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }
}

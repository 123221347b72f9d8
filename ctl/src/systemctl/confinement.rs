//! Sandbox properties of `show`. init applies the capability sets, the securebits and
//! `NoNewPrivileges=`. It applies no other restriction, and `show` prints those as absent whatever
//! the unit file requests, so that every printed value holds for the run.

use super::property_value::{Properties, yes};
use groundstate_units::spec::Privileges;
use groundstate_units::text::capability;

/// Restrictions that init does not apply, with systemd's value for their absence.
const ABSENT: [(&str, &str); 40] = [
    ("ProtectSystem", "no"),
    ("ProtectHome", "no"),
    ("PrivateTmp", "no"),
    ("PrivateDevices", "no"),
    ("PrivateNetwork", "no"),
    ("PrivateUsers", "no"),
    ("PrivateIPC", "no"),
    ("PrivateMounts", "no"),
    ("ProtectKernelTunables", "no"),
    ("ProtectKernelModules", "no"),
    ("ProtectKernelLogs", "no"),
    ("ProtectControlGroups", "no"),
    ("ProtectClock", "no"),
    ("ProtectHostname", "no"),
    ("ProtectProc", "default"),
    ("ProcSubset", "all"),
    ("MemoryDenyWriteExecute", "no"),
    ("RestrictRealtime", "no"),
    ("RestrictSUIDSGID", "no"),
    ("RestrictNamespaces", "no"),
    ("LockPersonality", "no"),
    ("DynamicUser", "no"),
    ("RemoveIPC", "no"),
    ("MountAPIVFS", "no"),
    ("ReadWritePaths", ""),
    ("ReadOnlyPaths", ""),
    ("InaccessiblePaths", ""),
    ("ExecPaths", ""),
    ("NoExecPaths", ""),
    ("BindPaths", ""),
    ("BindReadOnlyPaths", ""),
    ("TemporaryFileSystem", ""),
    ("SystemCallFilter", ""),
    ("SystemCallArchitectures", ""),
    ("RestrictAddressFamilies", ""),
    ("DevicePolicy", "auto"),
    ("DeviceAllow", ""),
    ("IPAddressAllow", ""),
    ("IPAddressDeny", ""),
    ("AppArmorProfile", ""),
];

/// The capability sets, the securebits and the restrictions.
pub(super) fn properties(privileges: &Privileges) -> Properties {
    let known = capability::all().into_iter().fold(0, |set: u64, number| set | 1 << number);
    let bound = names(privileges.bound.unwrap_or(known) & known);
    let mut all = vec![
        ("NoNewPrivileges", yes(privileges.no_new)),
        ("CapabilityBoundingSet", bound),
        ("AmbientCapabilities", names(privileges.ambient)),
        ("SecureBits", privileges.secure_bits.to_string()),
    ];
    all.extend(ABSENT.map(|(name, value)| (name, value.to_string())));
    all
}

/// `cap_chown cap_kill`, in the order of their numbers.
fn names(set: u64) -> String {
    let numbers = (0..64).filter(|number| set >> number & 1 == 1);
    let names = numbers.map(|number| {
        capability::name(number).map_or_else(|| number.to_string(), |name| name.to_lowercase())
    });
    names.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_listed_in_lower_case_by_number() {
        assert_eq!(names(1 << 5 | 1 << 10), "cap_kill cap_net_bind_service");
        assert_eq!(names(0), "");
        let all = properties(&Privileges::default());
        let value = |name: &str| all.iter().find(|(known, _)| *known == name).unwrap().1.clone();
        assert!(value("CapabilityBoundingSet").starts_with("cap_chown cap_dac_override "));
        assert_eq!(value("AmbientCapabilities"), "");
        let none = properties(&Privileges { bound: Some(0), ..Privileges::default() });
        assert!(none.contains(&("CapabilityBoundingSet", String::new())));
    }
}

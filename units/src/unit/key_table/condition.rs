//! Keys: conditions that must hold before a unit starts. Each kind of condition has two keys: an
//! unmet `condition-*` skips the unit, an unmet `assert-*` fails it.

use super::{NONE, PROCESS, key};
use crate::unit::key::{Class::Run, Key, Shape};

const SHAPE: Shape =
    Shape::Forms("a value; `!value` must not hold; of several `|value`, one is enough");

macro_rules! conditions {
    ($($kind:literal $what:literal $example:literal;)*) => {
        #[rustfmt::skip]
        pub(super) const KEYS: &[Key] = &[
            $(
                key(concat!("condition-", $kind), SHAPE, Run, PROCESS, NONE, "none",
                    concat!($what, " init checks it just before the start. If it does not hold, the unit is skipped: it counts as exited, and satisfies all dependencies but depends-on. Quote a value that starts with `!` or `|`. A list means all of its values."),
                    concat!("condition-", $kind, ": ", $example)),
                key(concat!("assert-", $kind), SHAPE, Run, PROCESS, NONE, "none",
                    concat!($what, " As condition-", $kind, ", but the unit fails if it does not hold."),
                    concat!("assert-", $kind, ": ", $example)),
            )*
        ];
    };
}

conditions! {
    "path-exists" "This path exists." "\"!/etc/ssh/sshd_not_to_be_run\"";
    "path-exists-glob" "A path matches this pattern with `*`, `?` and `[…]` within names." "/etc/web/*.conf";
    "path-is-directory" "This path is a directory." "/srv/web";
    "path-is-symlink" "This path is a symbolic link." "/etc/localtime";
    "path-is-mount-point" "This path is a mount point." "/srv";
    "path-writable" "This path is on a writable file system." "/etc";
    "directory-not-empty" "This path is a directory that is not empty." "/etc/web/sites";
    "file-not-empty" "This path is a regular file that is not empty." "/etc/web/key.pem";
    "file-executable" "This path is an executable regular file." "/usr/bin/web";
    "kernel-cmdline" "The kernel's command line has this word or `name=value`; in a container, the command line of PID 1." "\"!noweb\"";
    "virtualization" "init runs on this kind of machine: yes (vm or container), vm, container, or a name. Names are kvm, qemu, vmware, oracle, microsoft, xen, docker, podman, lxc and others." "\"!container\"";
    "capability" "init's bounding set has this capability." "CAP_NET_ADMIN";
    "security" "This is enabled: selinux, apparmor, tomoyo, smack, ima, audit, uefi-secureboot, tpm2 or cvm." "apparmor";
    "ac-power" "The machine is on mains power. yes: it is, or this is unknown. no: it is not." "yes";
    "first-boot" "This is the first boot. yes: /etc/machine-id was missing or not set at the boot. no: it was set." "no";
    "host" "The machine's name matches this pattern, or its machine id is this value." "web-*";
    "architecture" "The machine has this architecture: x86-64, arm64, riscv64 and others, or native." "x86-64";
    "user" "init runs as this user, by name, number, or `@system`." "root";
    "group" "init runs in this group, by name or number." "0";
    "cpus" "This number of processors can be used. It may have a prefix `<`, `<=`, `=`, `!=`, `>=` or `>`." "\">= 2\"";
    "memory" "The machine has this amount of memory, with the prefixes of condition-cpus." "\">= 512M\"";
    "kernel-version" "The kernel's release satisfies all these comparisons and patterns." "\">= 5.10\"";
    "environment" "init's own environment has this variable or `NAME=value`." "container";
}

#[cfg(test)]
mod tests {
    use super::KEYS;
    use crate::spec::ConditionKind;

    #[test]
    fn each_kind_of_condition_has_two_keys() {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        let kinds = ConditionKind::ALL.iter().map(|kind| kind.as_str());
        let expected: Vec<String> = kinds
            .flat_map(|kind| [format!("condition-{kind}"), format!("assert-{kind}")])
            .collect();
        assert_eq!(names, expected);
    }
}

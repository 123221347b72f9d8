//! Keys: conditions that must hold before a unit starts. Each kind of condition has two keys: an
//! unmet `condition-*` skips the unit, an unmet `assert-*` fails it.

use super::{NONE, PROCESS, key};
use crate::unit::key::{Class::Run, Key, Shape};

const SHAPE: Shape =
    Shape::Forms("a value; `!` before it: it must not hold; `|`: one so marked is enough");

macro_rules! conditions {
    ($($kind:literal $what:literal $example:literal;)*) => {
        #[rustfmt::skip]
        pub(super) const KEYS: &[Key] = &[
            $(
                key(concat!("condition-", $kind), SHAPE, Run, PROCESS, NONE, "none",
                    concat!($what, " Looked at just before the start; where it does not hold the unit is skipped: it counts as exited, and satisfies all but depends-on. Quote a value that begins with `!` or `|`; a list means all of them."),
                    concat!("condition-", $kind, ": ", $example)),
                key(concat!("assert-", $kind), SHAPE, Run, PROCESS, NONE, "none",
                    concat!($what, " As condition-", $kind, ", but where it does not hold the unit has failed."),
                    concat!("assert-", $kind, ": ", $example)),
            )*
        ];
    };
}

conditions! {
    "path-exists" "Something is at this path." "\"!/etc/ssh/sshd_not_to_be_run\"";
    "path-exists-glob" "Something matches this pattern: `*`, `?` and `[…]` within names." "/etc/web/*.conf";
    "path-is-directory" "A directory is at this path." "/srv/web";
    "path-is-symlink" "A symbolic link is at this path." "/etc/localtime";
    "path-is-mount-point" "Something is mounted at this path." "/srv";
    "path-writable" "This path is on a file system that can be written to." "/etc";
    "directory-not-empty" "A directory with something in it is at this path." "/etc/web/sites";
    "file-not-empty" "A regular file with something in it is at this path." "/etc/web/key.pem";
    "file-executable" "A regular file that may be executed is at this path." "/usr/bin/web";
    "kernel-cmdline" "The kernel's command line (in a container: that of PID 1) has this word, or this `name=value`." "\"!noweb\"";
    "virtualization" "yes: this is a virtual machine or a container; vm; container; or the name of one: kvm, qemu, vmware, oracle, microsoft, xen, docker, podman, lxc and others." "\"!container\"";
    "capability" "init's bounding set has this capability." "CAP_NET_ADMIN";
    "security" "This is switched on: selinux, apparmor, tomoyo, smack, ima, audit, uefi-secureboot, tpm2, cvm." "apparmor";
    "ac-power" "yes: the machine is on mains power, or nothing tells; no: it is not." "yes";
    "first-boot" "yes: /etc/machine-id was not there or not set as the machine booted; no: it was." "no";
    "host" "The machine's name matches this pattern, or its machine id is this." "web-*";
    "architecture" "The machine is of this kind: x86-64, arm64, riscv64 and others, or native." "x86-64";
    "user" "init runs as this user, by name, number, or `@system`." "root";
    "group" "init runs in this group, by name or number." "0";
    "cpus" "So many processors can be used; `<`, `<=`, `=`, `!=`, `>=`, `>` may stand before the number." "\">= 2\"";
    "memory" "The machine has so much memory; compared as cpus." "\">= 512M\"";
    "kernel-version" "The kernel's release fits each of these comparisons and patterns." "\">= 5.10\"";
    "environment" "init's own environment has this variable, or this `NAME=value`." "container";
}

#[cfg(test)]
mod tests {
    use super::KEYS;
    use crate::spec::ConditionKind;

    #[test]
    fn each_kind_of_condition_is_two_keys() {
        let names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        let kinds = ConditionKind::ALL.iter().map(|kind| kind.as_str());
        let expected: Vec<String> = kinds
            .flat_map(|kind| [format!("condition-{kind}"), format!("assert-{kind}")])
            .collect();
        assert_eq!(names, expected);
    }
}

//! Checks the conditions of a unit, in the child that runs its first command, because a check may
//! block on a dead file system. See systemd.unit(5), "Conditions and Asserts". A condition that
//! cannot be checked on this machine is false.

use crate::base::mount_table;
use crate::base::own_limits::processors;
use crate::process_tracking::machine_memory;
use groundstate_units::spec::{Condition, ConditionKind, value};
use groundstate_units::text::comparison::{Comparison, release_fits};
use groundstate_units::text::{capability, glob};
use groundstate_units::unit::account::Accounts;
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::sys::utsname::uname;
use nix::unistd::{Uid, getgid, getgroups};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The index of the first unmet condition. All without the mark `|` must hold, and at least one of
/// those with it. Conditions come before asserts.
pub(super) fn unmet(conditions: &[Condition]) -> Option<usize> {
    for assert in [false, true] {
        let of_class = || conditions.iter().enumerate().filter(move |(_, c)| c.assert == assert);
        if let Some((index, _)) = of_class().find(|(_, c)| !c.any && !holds(c)) {
            return Some(index);
        }
        let mut any = of_class().filter(|(_, c)| c.any).peekable();
        if let Some((index, _)) = any.peek().copied()
            && !any.any(|(_, condition)| holds(condition))
        {
            return Some(index);
        }
    }
    None
}

fn holds(condition: &Condition) -> bool {
    ask(condition.kind, &condition.argument) != condition.negated
}

fn ask(kind: ConditionKind, argument: &str) -> bool {
    let path = Path::new(argument);
    match kind {
        ConditionKind::PathExists => path.exists(),
        ConditionKind::PathExistsGlob => matches_a_path(argument),
        ConditionKind::PathIsDirectory => path.is_dir(),
        ConditionKind::PathIsSymlink => path.is_symlink(),
        ConditionKind::PathIsMountPoint => is_mount_point(path),
        ConditionKind::PathWritable => {
            statvfs(path).is_ok_and(|fs| !fs.flags().contains(FsFlags::ST_RDONLY))
        }
        ConditionKind::DirectoryNotEmpty => {
            path.read_dir().is_ok_and(|mut entries| entries.next().is_some())
        }
        ConditionKind::FileNotEmpty => path.metadata().is_ok_and(|f| f.is_file() && f.len() > 0),
        ConditionKind::FileExecutable => {
            path.metadata().is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0)
        }
        ConditionKind::KernelCmdline => is_on_command_line(&command_line(), argument),
        ConditionKind::Virtualization => is_virtual(argument),
        ConditionKind::Capability => has_capability(argument),
        ConditionKind::Security => has_security(argument),
        ConditionKind::AcPower => value::boolean(argument) == Ok(is_on_mains()),
        ConditionKind::FirstBoot => value::boolean(argument) == Ok(is_first_boot()),
        ConditionKind::Host => is_host(argument),
        ConditionKind::Architecture => is_architecture(argument),
        ConditionKind::User => is_user(argument),
        ConditionKind::Group => is_in_group(argument),
        ConditionKind::Cpus => compares(argument, processors() as u64, |n| n.parse().ok()),
        ConditionKind::Memory => {
            compares(argument, machine_memory().unwrap_or_default(), |n| value::size(n).ok())
        }
        ConditionKind::KernelVersion => is_release(argument),
        ConditionKind::Environment => match argument.split_once('=') {
            Some((name, value)) => std::env::var(name).is_ok_and(|found| found == value),
            None => std::env::var_os(argument).is_some(),
        },
    }
}

/// The content of a file, or an empty text.
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn is_mount_point(path: &Path) -> bool {
    let (Ok(path), Ok(table)) = (path.canonicalize(), mount_table::table()) else { return false };
    mount_table::mounts(&table).any(|mount| mount.at == path)
}

/// The kernel command line; in a container the arguments of PID 1, because the former is the
/// host's.
fn command_line() -> Vec<String> {
    if container().is_some() {
        let line = std::fs::read("/proc/1/cmdline").unwrap_or_default();
        let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        return words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    }
    words_of_kernel_line(&text("/proc/cmdline"))
}

/// Splits the line at blanks outside of quotes, like the kernel.
fn words_of_kernel_line(line: &str) -> Vec<String> {
    let mut is_quoted = false;
    let between = |character: char| {
        is_quoted ^= character == '"';
        character.is_whitespace() && !is_quoted
    };
    let words = line.split(between).filter(|word| !word.is_empty());
    words.map(|word| word.replace('"', "")).collect()
}

/// Returns true if the argument is a word of the line, or the name of an assignment.
fn is_on_command_line(line: &[String], argument: &str) -> bool {
    line.iter().any(|word| {
        word == argument
            || (!argument.contains('=')
                && word.split_once('=').is_some_and(|(name, _)| name == argument))
    })
}

/// The name of the container manager, from the traces it leaves.
fn container() -> Option<String> {
    if let Ok(name) = std::env::var("container")
        && !name.is_empty()
    {
        return Some(name);
    }
    let traces = [("/run/.containerenv", "podman"), ("/.dockerenv", "docker")];
    traces.iter().find(|(path, _)| Path::new(path).exists()).map(|(_, name)| (*name).to_string())
}

fn hypervisor() -> Option<&'static str> {
    let tables = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];
    let vendors = [
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("KubeVirt", "kvm"),
        ("Amazon EC2", "amazon"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VMW", "vmware"),
        ("innotek GmbH", "oracle"),
        ("VirtualBox", "oracle"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("BHYVE", "bhyve"),
        ("Hyper-V", "microsoft"),
        ("Virtual Machine", "microsoft"),
        ("Apple Virtualization", "apple"),
        ("Google Compute Engine", "google"),
    ];
    for table in tables {
        let said = text(&format!("/sys/class/dmi/id/{table}"));
        if let Some((_, name)) = vendors.iter().find(|(vendor, _)| said.starts_with(vendor)) {
            return Some(name);
        }
    }
    if Path::new("/proc/xen").exists() {
        return Some("xen");
    }
    let flags = text("/proc/cpuinfo");
    let flags = flags.lines().find(|line| line.starts_with("flags"));
    flags.filter(|line| line.split(' ').any(|flag| flag == "hypervisor")).map(|_| "vm-other")
}

fn is_virtual(argument: &str) -> bool {
    let (container, hypervisor) = (container(), hypervisor());
    if let Ok(any) = value::boolean(argument) {
        return any == (container.is_some() || hypervisor.is_some());
    }
    match argument {
        "vm" => container.is_none() && hypervisor.is_some(),
        "container" => container.is_some(),
        "private-users" => {
            let map = text("/proc/self/uid_map");
            map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
        }
        name => container.as_deref().or(hypervisor) == Some(name),
    }
}

fn has_capability(argument: &str) -> bool {
    let status = text("/proc/self/status");
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
    capability::number(argument).is_some_and(|number| set & (1 << (number & 63)) != 0)
}

fn has_security(argument: &str) -> bool {
    let there = |path: &str| Path::new(path).exists();
    match argument {
        "selinux" => there("/sys/fs/selinux/enforce"),
        "apparmor" => text("/sys/module/apparmor/parameters/enabled").starts_with('Y'),
        "tomoyo" => there("/sys/kernel/security/tomoyo/version"),
        "smack" => there("/sys/fs/smackfs/load2"),
        "ima" => there("/sys/kernel/security/ima"),
        "audit" => there("/proc/self/sessionid"),
        "uefi-secureboot" => {
            let path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
            std::fs::read(path).is_ok_and(|bytes| bytes.last() == Some(&1))
        }
        "tpm2" => Path::new("/sys/class/tpmrm").read_dir().is_ok_and(|mut d| d.next().is_some()),
        "cvm" => there("/dev/sev-guest") || there("/dev/tdx_guest"),
        _ => false,
    }
}

/// Without a power supply that reports its state, the machine has no battery.
fn is_on_mains() -> bool {
    let Ok(supplies) = std::fs::read_dir("/sys/class/power_supply") else { return true };
    let mut any_mains = false;
    let mut discharging = false;
    for supply in supplies.flatten() {
        let read = |name: &str| {
            std::fs::read_to_string(supply.path().join(name)).unwrap_or_default().trim().to_string()
        };
        match read("type").as_str() {
            "Mains" | "USB" if read("online") == "1" => return true,
            "Mains" => any_mains = true,
            "Battery" if read("scope") != "Device" => {
                discharging |= read("status") == "Discharging"
            }
            _ => {}
        }
    }
    !any_mains && !discharging
}

fn is_first_boot() -> bool {
    let id = text("/etc/machine-id");
    matches!(id.trim(), "" | "uninitialized")
}

fn is_host(argument: &str) -> bool {
    let id = argument.replace('-', "");
    let is_id = matches!(argument.len(), 32 | 36) && id.len() == 32;
    if is_id && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return text("/etc/machine-id").trim().eq_ignore_ascii_case(&id);
    }
    let name = uname().ok().and_then(|name| name.nodename().to_str().map(str::to_ascii_lowercase));
    name.is_some_and(|name| glob::matches(&argument.to_ascii_lowercase(), &name))
}

/// Translates machine names of uname(2) into systemd's.
fn is_architecture(argument: &str) -> bool {
    const NAMES: [(&str, &str); 14] = [
        ("x86_64", "x86-64"),
        ("i386", "x86"),
        ("i486", "x86"),
        ("i586", "x86"),
        ("i686", "x86"),
        ("aarch64", "arm64"),
        ("aarch64_be", "arm64-be"),
        ("ppc64le", "ppc64-le"),
        ("s390x", "s390x"),
        ("riscv64", "riscv64"),
        ("loongarch64", "loongarch64"),
        ("armv7l", "arm"),
        ("armv6l", "arm"),
        ("mips64", "mips64"),
    ];
    let Ok(name) = uname() else { return false };
    let machine = name.machine().to_str().unwrap_or_default().to_string();
    let known = NAMES.iter().find(|(uname, _)| *uname == machine).map(|(_, name)| *name);
    argument == "native" || argument == machine || known == Some(argument)
}

fn accounts() -> Accounts {
    Accounts::parse(&text("/etc/passwd"), &text("/etc/group"))
}

fn is_user(argument: &str) -> bool {
    let own = Uid::current().as_raw();
    if argument == "@system" {
        return own < 1000 || own == 65534;
    }
    match argument.parse::<u32>() {
        Ok(uid) => uid == own,
        Err(_) => accounts().user(argument).is_some_and(|user| user.uid == own),
    }
}

fn is_in_group(argument: &str) -> bool {
    let gid = match argument.parse::<u32>() {
        Ok(gid) => Some(gid),
        Err(_) => accounts().group(argument).map(|group| group.gid),
    };
    let own = getgroups().unwrap_or_default();
    gid.is_some_and(|gid| getgid().as_raw() == gid || own.iter().any(|own| own.as_raw() == gid))
}

/// Compares with the argument; a bare number means at least.
fn compares(argument: &str, there: u64, read: impl FnOnce(&str) -> Option<u64>) -> bool {
    let (comparison, number) = Comparison::parse(argument);
    let comparison = comparison.unwrap_or(Comparison::AtLeast);
    read(number).is_some_and(|asked| comparison.holds(there.cmp(&asked)))
}

fn is_release(argument: &str) -> bool {
    let name = uname().ok();
    let release = name.as_ref().and_then(|name| name.release().to_str());
    release.is_some_and(|release| release_fits(argument, release))
}

// Glob patterns of whole paths, resolved component by component; [`groundstate_units::text::glob`]
// matches one component.

/// Returns true if a path matches the pattern.
pub(super) fn matches_a_path(pattern: &str) -> bool {
    let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let mut found = vec![std::path::PathBuf::from("/")];
    for name in names {
        if !name.contains(['*', '?', '[', '\\']) {
            found.iter_mut().for_each(|path| path.push(name));
            found.retain(|path| path.symlink_metadata().is_ok());
            continue;
        }
        found = found.iter().flat_map(|path| below(path, name)).take(MOST).collect();
    }
    !found.is_empty()
}

/// Limit of candidate paths at each level.
const MOST: usize = 4096;

fn below(path: &Path, pattern: &str) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let fits = |name: &str| glob::matches_file(pattern, name);
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: ConditionKind, argument: &str) -> Condition {
        let argument = argument.to_string();
        Condition { kind, argument, negated: false, any: false, assert: false }
    }

    #[test]
    fn all_plain_conditions_and_one_alternative_condition_must_hold() {
        let yes = condition(ConditionKind::PathExists, "/proc");
        let no = condition(ConditionKind::PathExists, "/no/such");
        let any = |of: &Condition| Condition { any: true, ..of.clone() };
        let not = |of: &Condition| Condition { negated: true, ..of.clone() };
        let assert = |of: &Condition| Condition { assert: true, ..of.clone() };
        for (list, expected) in [
            (vec![], None),
            (vec![yes.clone(), not(&no)], None),
            (vec![yes.clone(), no.clone()], Some(1)),
            (vec![any(&no), any(&yes)], None),
            (vec![any(&no), any(&not(&yes))], Some(0)),
            (vec![any(&yes), no.clone()], Some(1)),
            (vec![assert(&no), no.clone()], Some(1)),
            (vec![assert(&no), yes.clone()], Some(0)),
            (vec![any(&yes), assert(&any(&no))], Some(1)),
        ] {
            assert_eq!(unmet(&list), expected, "{list:?}");
        }
    }

    #[test]
    fn each_kind_of_condition_is_checked_on_this_machine() {
        for (kind, argument, expected) in [
            (ConditionKind::PathIsDirectory, "/proc", true),
            (ConditionKind::PathIsDirectory, "/proc/self/status", false),
            (ConditionKind::PathIsSymlink, "/proc/self", true),
            (ConditionKind::PathIsMountPoint, "/proc", true),
            (ConditionKind::PathIsMountPoint, "/proc/self/status", false),
            (ConditionKind::PathWritable, "/no/such", false),
            (ConditionKind::DirectoryNotEmpty, "/proc", true),
            (ConditionKind::FileNotEmpty, "/etc/passwd", true),
            (ConditionKind::FileNotEmpty, "/dev/null", false),
            (ConditionKind::FileExecutable, "/bin/sh", true),
            (ConditionKind::FileExecutable, "/etc/passwd", false),
            (ConditionKind::KernelVersion, ">= 2.6", true),
            (ConditionKind::KernelVersion, "< 2.6", false),
            (ConditionKind::KernelVersion, "*.*", true),
            (ConditionKind::Cpus, "1", true),
            (ConditionKind::Cpus, "> 8192", false),
            (ConditionKind::Memory, ">= 1M", true),
            (ConditionKind::Memory, "< 1M", false),
            (ConditionKind::Architecture, "native", true),
            (ConditionKind::Architecture, "vax", false),
            (ConditionKind::Host, "*", true),
            (ConditionKind::Host, "no-such-host", false),
            (ConditionKind::Security, "no-such", false),
            (ConditionKind::Environment, "PATH", true),
            (ConditionKind::Environment, "PATH=", false),
            (ConditionKind::User, "no-such-user", false),
            (ConditionKind::Group, "no-such-group", false),
            (ConditionKind::Virtualization, "no-such", false),
        ] {
            assert_eq!(ask(kind, argument), expected, "{kind:?} {argument}");
        }
        let (yes, no) = (is_virtual("yes"), is_virtual("no"));
        assert_ne!(yes, no);
    }

    #[test]
    fn kernel_command_line_condition_matches_a_word_or_an_exact_assignment() {
        let line = words_of_kernel_line("ro quiet root=/dev/a note=\"a b\" \"say=c d\"\n");
        for (argument, expected) in [
            ("quiet", true),
            ("root", true),
            ("root=/dev/a", true),
            ("note=a b", true),
            ("say=c d", true),
            ("root=/dev", false),
            ("qui", false),
            ("b", false),
        ] {
            assert_eq!(is_on_command_line(&line, argument), expected, "{argument}");
        }
    }

    #[test]
    fn path_condition_follows_links() {
        let holds = |kind, argument: &str| ask(kind, argument);
        // /proc/self is a link to a directory.
        assert!(holds(ConditionKind::PathIsDirectory, "/proc/self"));
        assert!(holds(ConditionKind::PathExists, "/proc/self"));
        assert!(holds(ConditionKind::PathIsSymlink, "/proc/self"));
        assert!(!holds(ConditionKind::PathIsSymlink, "/proc"));
    }

    #[test]
    fn path_pattern_is_matched_component_by_component() {
        assert!(matches_a_path("/proc/self/stat*"));
        assert!(matches_a_path("/pro[c]/self/status"));
        assert!(!matches_a_path("/proc/self/status/*"));
        assert!(!matches_a_path("/no/such/*"));
    }
}

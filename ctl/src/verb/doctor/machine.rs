//! Checks of the machine around the units: programs, consoles, usual services, containers, the
//! kernel, and the init of the next boot.

use super::facts::Facts;
use super::finding;
use groundstate_units::control::answer::{Finding, Level};
use groundstate_units::spec::{ExecLine, Piece};
use std::collections::BTreeSet;

/// Our init, as the packages install it.
const INIT: &str = "/usr/lib/groundstate/init";

/// Programs that scripts of the boot set and login prompts run, and their packages.
const PROGRAMS: [(&str, &str); 3] = [("login", "login"), ("modprobe", "kmod"), ("mount", "mount")];

/// Parts of a machine. Each has its units, of which one is enough, the effect without them, and a
/// remedy.
const SERVICES: [(&str, &[&str], &str, &str); 4] = [
    (
        "udev",
        &["udevd", "udev", "systemd-udevd.service", "eudev", "mdev"],
        "no unit runs it: links of disks are missing, and a new device loads no driver",
        "install udev and the boot set",
    ),
    (
        "network",
        &[
            "networking.service",
            "networking",
            "systemd-networkd.service",
            "NetworkManager.service",
            "connman.service",
            "dhcpcd.service",
            "wicked.service",
        ],
        "no enabled unit configures it",
        "install ifupdown",
    ),
    (
        "time",
        &[
            "chrony.service",
            "systemd-timesyncd.service",
            "ntpsec.service",
            "ntp.service",
            "openntpd.service",
        ],
        "no enabled unit sets the clock",
        "install chrony",
    ),
    (
        "logs",
        &[
            "rsyslog.service",
            "syslog-ng.service",
            "syslog.service",
            "busybox-syslogd.service",
            "syslog",
            "dev-log",
        ],
        "no enabled unit makes /dev/log, so messages of syslog(3) are lost",
        "enable the syslog daemon, or remove it: the unit dev-log takes its place",
    ),
];

/// Checks the programs that no exec line names.
pub(super) fn programs(facts: &Facts<'_>) -> Vec<Finding> {
    let missing = PROGRAMS.iter().filter(|(name, _)| facts.is_machine && !facts.has_program(name));
    let found = missing.map(|(name, package)| {
        let message = "the boot set runs this program, which is not installed";
        finding(Level::Warning, name, message, &format!("install {package}"))
    });
    found.collect()
}

/// Checks the parts of a machine that packages provide.
pub(super) fn services(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (part, units, effect, hint) in SERVICES.iter().filter(|_| facts.is_machine) {
        let unit = units.iter().find(|unit| facts.needs(unit)).and_then(|unit| facts.unit(unit));
        let unit = unit.filter(|unit| facts.lacks_excluding_path(unit));
        found.push(match unit {
            Some(unit) => finding(Level::Ok, part, unit.name.as_str(), ""),
            None => finding(Level::Warning, part, *effect, hint),
        });
    }
    found
}

/// Checks that a unit shows a login prompt on each console that the kernel's command line names.
pub(super) fn consoles(facts: &Facts<'_>) -> Vec<Finding> {
    let Some(kernel) = facts.kernel.as_ref().filter(|_| facts.is_machine) else {
        return Vec::new();
    };
    let words = kernel.command_line.split_whitespace();
    let named = words.filter_map(|word| word.strip_prefix("console="));
    let named = named.map(|console| console.split(',').next().unwrap_or(console));
    let mut consoles: BTreeSet<&str> = named
        .filter(|name| name.starts_with("tty") || name.starts_with("hvc"))
        .map(|name| if matches!(name, "tty" | "tty0") { "tty1" } else { name })
        .collect();
    if consoles.is_empty() {
        consoles.insert("tty1");
    }
    let emergency = facts.unit(facts.generation.settings.emergency_target.as_str());
    let ordinary = facts.runs().filter(|(unit, _, _)| Some(*unit) != emergency);
    let terminals = ordinary.filter_map(|(_, _, run)| {
        let stdio = run.particular?.stdio;
        stdio.has_terminal().then_some(stdio.tty.path)
    });
    let terminals: BTreeSet<String> = terminals.collect();
    let found = consoles.into_iter().map(|console| {
        if terminals.contains(&format!("/dev/{console}")) || terminals.contains("") {
            return finding(Level::Ok, console, "login prompt", "");
        }
        let message = "the kernel uses this console, and no unit shows a login prompt on it";
        let kind = if console.starts_with("ttyS") { "serial-getty" } else { "getty" };
        let hint = format!("add a unit with `waits-for: {kind}@{console}`");
        finding(Level::Warning, console, message, &hint)
    });
    found.collect()
}

/// Checks the password of root: sulogin(8) opens no shell for a locked account.
pub(super) fn root_account(facts: &Facts<'_>) -> Vec<Finding> {
    let shadow = facts.text("/etc/shadow");
    let is_locked = shadow
        .lines()
        .any(|line| line.strip_prefix("root:").is_some_and(|rest| rest.starts_with(['!', '*'])));
    let found = (facts.is_machine && is_locked).then(|| {
        let message = "its password is locked, so the emergency shell opens for no user";
        finding(Level::Warning, "root", message, "`passwd root`")
    });
    found.into_iter().collect()
}

/// Checks that dbus starts services itself. With systemd's activation it waits 25 s for systemd,
/// for example at each login.
pub(super) fn bus(facts: &Facts<'_>) -> Vec<Finding> {
    let mut runs = facts.runs().filter(|(unit, _, _)| unit.name.as_str() == "dbus.service");
    let Some((_, _, run)) = runs.next() else { return Vec::new() };
    let waits = run.exec_start.iter().any(|line| has_word(line, "--systemd-activation"));
    vec![match waits {
        true => {
            let message = "it waits 25 s for systemd, for example at each login";
            let hint = "install the drop-in dbus.service.d/groundstate.conf of the boot set";
            finding(Level::Warning, "dbus", message, hint)
        }
        false => finding(Level::Ok, "dbus", "it starts services itself", ""),
    }]
}

fn has_word(line: &ExecLine, text: &str) -> bool {
    let is = |piece: &Piece| matches!(piece, Piece::Literal(literal) if literal.contains(text));
    line.words.iter().flatten().any(is)
}

/// Checks the cgroup drivers of docker and containerd. The directory /run/systemd/system makes docker
/// choose systemd's driver, which calls systemd over the bus.
pub(super) fn containers(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let driver = "native.cgroupdriver=cgroupfs";
    let runs = facts.runs().filter(|(unit, _, _)| unit.name.as_str() == "docker.service");
    for (_, _, run) in runs {
        let told = run.exec_start.iter().any(|line| has_word(line, driver));
        if !told && !facts.text("/etc/docker/daemon.json").contains(driver) {
            let message = "it uses the cgroup driver of systemd, so no container starts";
            let hint =
                format!("write {{\"exec-opts\": [\"{driver}\"]}} into /etc/docker/daemon.json");
            found.push(finding(Level::Warning, "docker", message, &hint));
        }
    }
    let settings = facts.text("/etc/containerd/config.toml");
    let uses_systemd = settings.lines().any(|line| {
        line.split_once('=').is_some_and(|(key, value)| {
            key.trim() == "SystemdCgroup" && value.trim().starts_with("true")
        })
    });
    if uses_systemd && facts.needs("containerd.service") {
        let message = "it uses the cgroup driver of systemd, so no container starts";
        let hint = "set `SystemdCgroup = false` in /etc/containerd/config.toml";
        found.push(finding(Level::Warning, "containerd", message, hint));
    }
    found
}

/// Checks what init needs of the kernel.
pub(super) fn kernel(facts: &Facts<'_>) -> Vec<Finding> {
    let known = facts.kernel.iter().map(|kernel| kernel.filesystems.as_str());
    let found = known.filter(|known| !known.is_empty()).map(|known| {
        match known.split_whitespace().any(|kind| kind == "cgroup2") {
            true => finding(Level::Ok, "kernel", "cgroup v2", ""),
            false => {
                let message = "no cgroup v2: init tracks processes by process group and descent";
                finding(Level::Warning, "kernel", message, "boot a kernel with CONFIG_CGROUPS")
            }
        }
    });
    found.collect()
}

/// Finds out which init the next boot starts.
pub(super) fn next_boot(facts: &Facts<'_>) -> Vec<Finding> {
    let path = "/sbin/init";
    if !facts.is_machine {
        return Vec::new();
    }
    if !facts.has(path) {
        let hint = "install groundstate-sysv-compat, or boot with init=/usr/lib/groundstate/init";
        return vec![finding(Level::Error, path, "it does not exist", hint)];
    }
    if facts.is_same(path, INIT) {
        return vec![finding(Level::Ok, path, "each boot starts Groundstate", "")];
    }
    let other = facts.link(path).unwrap_or_else(|| "another program".to_string());
    let selected = facts.text("/boot/grub/grubenv");
    if selected.lines().any(|line| line == "next_entry=groundstate") {
        let message = "the next boot starts Groundstate, and later ones another init";
        return vec![finding(Level::Ok, "GRUB", message, "")];
    }
    let message = format!("the next boot starts {other}");
    vec![match facts.status {
        Some(_) => {
            let message = format!("{message}: this boot is a trial");
            finding(Level::Warning, path, message, "`groundstate-confirm` keeps Groundstate")
        }
        None => finding(Level::Ok, path, message, "`groundstate-try` prepares a trial"),
    }]
}

//! Checks of /etc/fstab: its text, and the devices and programs that its lines need.

use super::facts::{FSTAB, Facts};
use super::{finding, style};
use groundstate_units::control::answer::{Finding, Level};
use groundstate_units::import::fstab::Entry;
use groundstate_units::text::diagnostic::Severity;

/// Types of file systems, each with the package of its checker.
const CHECKERS: [(&str, &str); 10] = [
    ("btrfs", "btrfs-progs"),
    ("exfat", "exfatprogs"),
    ("ext2", "e2fsprogs"),
    ("ext3", "e2fsprogs"),
    ("ext4", "e2fsprogs"),
    ("f2fs", "f2fs-tools"),
    ("jfs", "jfsutils"),
    ("msdos", "dosfstools"),
    ("vfat", "dosfstools"),
    ("xfs", "xfsprogs"),
];
/// Types of file systems that mount(8) mounts with another program, each with its package.
const MOUNTERS: [(&str, &str); 6] = [
    ("cifs", "cifs-utils"),
    ("glusterfs", "glusterfs-client"),
    ("nfs", "nfs-common"),
    ("nfs4", "nfs-common"),
    ("ntfs-3g", "ntfs-3g"),
    ("smb3", "cifs-utils"),
];

/// Checks the file and each line.
pub(super) fn lines(facts: &Facts<'_>) -> Vec<Finding> {
    let is_mounted_by_init = |entry: &&Entry| entry.place != "/" && entry.at_boot;
    if !facts.is_machine {
        let mut ignored = facts.fstab.iter().filter(is_mounted_by_init);
        return match ignored.next().filter(|_| !facts.is_container) {
            Some(first) => {
                let message =
                    format!("init does not read this file and does not mount {}", first.place);
                let hint = "write `import-dirs: systemd, fstab` in /etc/groundstate/init.yaml";
                vec![finding(Level::Warning, FSTAB, message, hint)]
            }
            None => Vec::new(),
        };
    }
    let mut found: Vec<Finding> = loader_findings(facts).collect();
    for entry in &facts.fstab {
        found.extend(device(facts, entry));
        found.extend(checker(facts, entry));
        found.extend(mounter(facts, entry));
    }
    if found.is_empty() && !facts.fstab.is_empty() {
        let lines = style::count(facts.fstab.len(), "line");
        let message = format!("{lines}, with all programs and devices");
        found.push(finding(Level::Ok, FSTAB, message, ""));
    }
    found
}

/// The loader's diagnostics of the file. Another check names missing programs.
fn loader_findings<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = Finding> + 'f {
    let all = facts.generation.diagnostics.iter().filter(|said| &*said.at.file == FSTAB);
    all.filter(|said| said.code != "missing-executable").filter_map(|said| {
        let level = match said.severity {
            Severity::Error => Level::Error,
            Severity::Warning => Level::Warning,
            Severity::Note => return None,
        };
        let place = format!("{FSTAB}:{}", said.at.line);
        Some(finding(level, &place, said.message.clone(), &said.hint))
    })
}

fn place(entry: &Entry) -> String {
    format!("{FSTAB}:{}", entry.line)
}

/// Checks a device that a boot waits for: that of a line which is mounted at boot without the
/// network.
fn device(facts: &Facts<'_>, entry: &Entry) -> Option<Finding> {
    let path = entry.node.as_ref().filter(|_| entry.at_boot && !entry.remote)?;
    let in_dev = path.starts_with("/dev/");
    // A tree has no devices, and only udev makes links in /dev/disk.
    if in_dev && (facts.kernel.is_none() || !facts.has("/dev/disk")) || facts.has(path) {
        return None;
    }
    // mount(8) does not look for the device when it changes the options of the root file system.
    if entry.place == "/" && entry.spec.starts_with('/') {
        return None;
    }
    // A path on another file system exists only after that file system is mounted.
    let is_swap = entry.kind == "swap";
    if !in_dev && !is_swap {
        return None;
    }
    let level = if entry.soft || is_swap { Level::Warning } else { Level::Error };
    let hint = if in_dev { "`lsblk -f` lists the devices" } else { "`mkswap` makes swap space" };
    Some(finding(level, &place(entry), format!("{} does not exist", entry.spec), hint))
}

fn checker(facts: &Facts<'_>, entry: &Entry) -> Option<Finding> {
    let (kind, package) = CHECKERS.iter().find(|(kind, _)| *kind == entry.kind)?;
    if !entry.check || !entry.at_boot || facts.has_program(&format!("fsck.{kind}")) {
        return None;
    }
    let message = format!("fsck.{kind} is missing and cannot check {}", entry.place);
    Some(finding(Level::Error, &place(entry), message, &format!("install {package}")))
}

fn mounter(facts: &Facts<'_>, entry: &Entry) -> Option<Finding> {
    let soft = entry.soft || !entry.at_boot;
    let (program, package) = match entry.kind.strip_prefix("fuse.") {
        Some(_) => ("fuse", "fuse3"),
        None => *MOUNTERS.iter().find(|(kind, _)| *kind == entry.kind)?,
    };
    if facts.has_program(&format!("mount.{program}")) {
        return None;
    }
    let level = if soft { Level::Warning } else { Level::Error };
    let message = format!("mount.{program} is missing and cannot mount {}", entry.place);
    Some(finding(level, &place(entry), message, &format!("install {package}")))
}

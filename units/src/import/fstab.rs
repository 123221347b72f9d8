//! Imports fstab(5): the units of each line, as systemd-fstab-generator(8) makes them. Data flow:
//!
//! text → [`line`] (fields and options with places, and the options for mount(8)) → here (a
//! manifest for each mount, swap space, check and device). A line with an error becomes a broken
//! unit if its name is known, so that a reload keeps the mount of an earlier text. Otherwise the
//! line is left out.
//!
//! References: fstab(5), systemd.mount(5) "FSTAB", systemd.swap(5), systemd-fsck@.service(8).

mod line;

use super::systemd::unit_name::{Suffix, escape_path, unescape_path};
use super::systemd::{quote, target_of_link};
use crate::spec::Kind;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::text::yaml::{Node, Spot, Value};
use crate::unit::key_table;
use crate::unit::manifest::Manifest;
use crate::unit::mount_name;
use line::{Field, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Mount points that init itself mounts before any unit.
const OF_INIT: [&str; 7] =
    ["/dev", "/dev/pts", "/dev/shm", "/proc", "/run", "/sys", "/sys/fs/cgroup"];
/// Mount points in use until the end; the last step of a shutdown unmounts them.
const HELD: [&str; 4] = ["/etc", "/usr", "/var", "/var/log"];
/// fsck(8) of util-linux refuses a type without a checker. busybox's fsck passes its options to the
/// checker, where they mean something else. Words of the kernel's command line mean the same as for
/// systemd-fsck. Status 1 says that errors are repaired. Bits 2 and 4 ask for a reboot and for a
/// repair by hand. The others are no errors of the file system. 128 and more
/// is a signal that ended the check.
const CHECK: &str = "t=$1; [ $t != auto ] || { t=$(blkid \"$0\"); t=${t##* TYPE=?}; t=${t%%[!0-9A-Za-z_]*}; }; \
    command -v fsck.$t >/dev/null || exit 0; \
    o=-a f=; for w in $(cat /proc/cmdline); do case $w in fsck.repair=preen) o=-a ;; fsck.repair=yes) o=-y ;; \
    fsck.repair=no) o=-n ;; fsck.mode=force) f=-f ;; esac; done; \
    case $(readlink -f \"$(command -v fsck)\") in \"\" | *busybox*) grep -q \"^$0 \" /proc/mounts || fsck.$t $o $f \"$0\" ;; \
    *) fsck $o $f -l -T -M -C0 \"$0\" ;; esac; s=$?; [ $s -lt 128 ] && [ $((s & 6)) = 0 ] || exit $s";
/// The goal of a boot. [`super::set`] replaces it by the default target if no unit provides it.
const GOAL: &str = "multi-user";
const LEFT_OUT: &str = "the line is left out";

/// Returns true for a file that is read as fstab(5).
pub(crate) fn is_fstab(path: &str) -> bool {
    path.rsplit('/').next() == Some("fstab")
}

/// Reads all lines. The diagnostics belong to lines without a unit.
pub fn read(file: &Arc<str>, bytes: &[u8]) -> (Vec<Manifest>, Vec<Diagnostic>) {
    let mut table = Table { file, units: Vec::new(), known: BTreeMap::new(), found: Vec::new() };
    let mut lines = Vec::new();
    for (number, bytes) in (1u32..).zip(bytes.split(|byte| *byte == b'\n')) {
        match Line::read(number, bytes) {
            Ok(line) => lines.extend(line),
            Err((_, at, message, hint)) => table.error(at, "malformed", message, &hint),
        }
    }
    let needed: BTreeSet<String> = lines.iter().flat_map(Line::paths_above).collect();
    for mut line in lines {
        if line::normal(&line.place.text).is_some_and(|path| needed.contains(&path)) {
            line.require();
        }
        if line.kind.text == "swap" { table.swap(&line) } else { table.mount(&line) }
    }
    (table.units, table.found)
}

/// A line as a check of the machine needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub line: u32,
    /// The first field as written.
    pub spec: String,
    /// The path of the file or device that the first field names.
    pub node: Option<String>,
    /// The mount point.
    pub place: String,
    /// The type of the file system.
    pub kind: String,
    /// The last field asks for a check.
    pub check: bool,
    /// A boot mounts it.
    pub at_boot: bool,
    /// The boot continues without it.
    pub soft: bool,
    /// The mount needs the network.
    pub remote: bool,
}

/// Returns the readable lines. [`read`] has the diagnostics of the others.
pub fn entries(bytes: &[u8]) -> Vec<Entry> {
    let lines = (1u32..).zip(bytes.split(|byte| *byte == b'\n'));
    let entry = |(number, bytes)| {
        let line = Line::read(number, bytes).ok()??;
        Some(Entry {
            line: number,
            node: line.node(),
            check: line.check,
            at_boot: line.is_at_boot(),
            soft: line.is_soft(),
            remote: line.is_remote(),
            spec: line.spec.text,
            place: line.place.text,
            kind: line.kind.text,
        })
    };
    lines.filter_map(entry).collect()
}

struct Table<'a> {
    file: &'a Arc<str>,
    units: Vec<Manifest>,
    /// Index of each unit, by its name.
    known: BTreeMap<Name, usize>,
    found: Vec<Diagnostic>,
}

impl Table<'_> {
    fn error(&mut self, at: Spot, code: &str, message: String, hint: &str) {
        self.found.push(Diagnostic::error(code, at.of(self.file), message).with_hint(hint));
    }

    /// Creates a unit, unless one of that name exists.
    fn unit(&mut self, name: &Name, at: Spot, description: &str) -> Option<Manifest> {
        if self.known.contains_key(name) {
            return None;
        }
        let mut unit = Manifest::imported(self.file.clone(), at);
        unit.name = Some(name.clone());
        put(&mut unit, at, "type", Kind::Oneshot.as_str());
        put(&mut unit, at, "description", description);
        // A changed line keeps its run, because a file system in use cannot be mounted a second
        // time.
        put(&mut unit, at, "on-change", "keep");
        Some(unit)
    }

    fn keep(&mut self, name: Name, unit: Manifest) {
        self.known.insert(name, self.units.len());
        self.units.push(unit);
    }

    /// Creates the unit of a line, with the relations that its options name.
    fn unit_of(&mut self, line: &Line, path: &Field, suffix: &str) -> Option<(Name, Manifest)> {
        let (at, text) = (path.at, format!("{}.{suffix}", escape_path(&path.text)));
        let Ok(name) = Name::new(&text) else {
            self.error(at, "name", format!("`{text}` is not a unit's name"), LEFT_OUT);
            return None;
        };
        let what = if suffix == "swap" { "swap space " } else { "" };
        let description = format!("{what}{} of {}", path.text, self.file);
        let Some(mut unit) = self.unit(&name, at, &description) else {
            let first = self.known.get(&name).and_then(|index| self.units.get(*index));
            let first = first.map(|unit| unit.at.line).unwrap_or_default();
            let message = format!("{} is in line {first} already", path.text);
            self.error(at, "double-unit", message, LEFT_OUT);
            return None;
        };
        for (severity, at, message, hint) in &line.said {
            unit.tell_at(*severity, "fstab", *at, message, hint);
        }
        self.relate(line, &mut unit);
        Some((name, unit))
    }

    fn mount(&mut self, line: &Line) {
        let at = line.place.at;
        let Some(path) = line::normal(&line.place.text) else {
            let message = format!("`{}` is not an absolute path", line.place.text);
            let hint = "a mount point is the path of a directory; the type `swap` has none";
            return self.error(at, "malformed", message, hint);
        };
        let options = line.for_mount();
        if path == "/" || OF_INIT.contains(&path.as_str()) {
            if path != "/" && !options.is_empty() {
                let message = format!(
                    "init mounts {path}; only the unit root-rw of a machine's boot set applies `{options}`"
                );
                let note = Diagnostic::note("fstab", at.of(self.file), message);
                let hint =
                    format!("without root-rw, write a unit that runs mount -o remount {path}");
                self.found.push(note.with_hint(hint));
            }
            return;
        }
        let place = Field { at, text: path.clone() };
        let Some((name, mut unit)) = self.unit_of(line, &place, "mount") else { return };
        let remote = line.is_remote();
        if remote {
            online(&mut unit, at);
        }
        let group = if remote { "remote-fs" } else { "local-fs" };
        put(&mut unit, at, "after", &format!("{group}-pre.target"));
        let spec = self.source(line, &mut unit);
        alarm(line, &mut unit);
        install(line, &format!("{group}.target"), &mut unit);
        put(&mut unit, at, "needs-path", &path);
        // An initramfs may have mounted it already, such as /usr.
        put(&mut unit, at, "condition-path-is-mount-point", &format!("!{path}"));
        // On a read-only file system the error of mount(8) is clearer, so this failure is ignored.
        put(&mut unit, at, "exec-start-pre", &format!("-/bin/mkdir -p {}", word(&path)));
        let mut start = vec!["/bin/mount".to_string()];
        if line.has("x-systemd.rw-only") {
            start.push("-w".to_string());
        }
        for (flag, value) in [("-t", &line.kind.text), ("-o", &options)] {
            if !matches!(value.as_str(), "" | "auto") {
                start.extend([flag.to_string(), word(value)]);
            }
        }
        start.extend([word(&spec), word(&path)]);
        let stop = (!HELD.contains(&path.as_str())).then(|| format!("/bin/umount {}", word(&path)));
        self.keep(name, with_commands(unit, line, &start.join(" "), stop));
    }

    fn swap(&mut self, line: &Line) {
        let at = line.spec.at;
        let Some(path) = line.node() else {
            let message = format!("`{}` is not a path of swap space", line.spec.text);
            return self.error(at, "malformed", message, "a device, a file, or UUID=…");
        };
        let place = Field { at, text: path };
        let Some((name, mut unit)) = self.unit_of(line, &place, "swap") else { return };
        let path = word(&self.source(line, &mut unit));
        install(line, "swap.target", &mut unit);
        put(&mut unit, at, "after", "local-fs-pre.target");
        put(&mut unit, at, "condition-virtualization", "!container");
        let mut start = "/sbin/swapon".to_string();
        for option in &line.options {
            match option.text.split_once('=').unwrap_or((&option.text, "")) {
                ("pri", number) => start += &format!(" -p {}", word(number)),
                ("discard", policy) => start += &format!(" {}", word(&format!("-d{policy}"))),
                _ => {}
            }
        }
        start += &format!(" {path}");
        let stop = format!("/sbin/swapoff {path}");
        self.keep(name, with_commands(unit, line, &start, Some(stop)));
    }

    /// Adds the dependencies on the source: its path, or its device and check. Returns the path of
    /// the source.
    fn source(&mut self, line: &Line, unit: &mut Manifest) -> String {
        let at = line.spec.at;
        let Some(path) = line.node().filter(|path| path.starts_with("/dev/")) else {
            line.node().into_iter().for_each(|path| put(unit, at, "needs-path", &path));
            if line.check {
                let message = "this is not a device, and not checked";
                unit.tell_at(Severity::Note, "fstab", at, message, "write 0 in the last field");
            }
            return line.spec.text.clone();
        };
        let mut name = self.device(line, &path, at);
        if line.check && line.kind.text != "swap" {
            name = self.check(line, &path, name);
        }
        name.into_iter().for_each(|name| put(unit, at, "depends-ms", name.as_str()));
        path
    }

    /// Returns the unit that waits for a device. A check has no timeout, so the wait needs a unit
    /// of its own.
    fn device(&mut self, line: &Line, path: &str, at: Spot) -> Option<Name> {
        let name = Name::new(&format!("{}.device", escape_path(path))).ok()?;
        if let Some(unit) = self.part(line, &name, at, &format!("device {path}")) {
            put(unit, at, "wait-file", path);
            put(unit, at, "exec-start", "/bin/true");
            // The timeout counts from the time at which udev has started to handle the devices of the
            // boot, and the passphrases of encrypted disks are typed.
            put(unit, at, "after", "systemd-udev-trigger.service");
            put(unit, at, "after", "local-fs-pre.target");
            if line.is_remote() {
                online(unit, at);
            }
            put(unit, at, "start-timeout", line.device_timeout.as_deref().unwrap_or("90s"));
        }
        Some(name)
    }

    fn check(&mut self, line: &Line, path: &str, device: Option<Name>) -> Option<Name> {
        let at = line.spec.at;
        let name = Name::new(&format!("systemd-fsck@{}.service", escape_path(path))).ok()?;
        if let Some(unit) = self.part(line, &name, at, &format!("check of {path}")) {
            device.into_iter().for_each(|device| put(unit, at, "depends-ms", device.as_str()));
            put(unit, at, "after", "systemd-fsck-root.service");
            put(unit, at, "after", "local-fs-pre.target");
            put(unit, at, "condition-kernel-cmdline", "!fsck.mode=skip");
            put(unit, at, "condition-kernel-cmdline", "!fastboot");
            put(unit, at, "start-timeout", "none");
            put(unit, at, "log", "console");
            let (script, kind) = (CHECK.replace('$', "$$"), word(&line.kind.text));
            put(unit, at, "exec-start", &format!("/bin/sh -c '{script}' {} {kind}", word(path)));
        }
        Some(name)
    }

    /// Returns a new unit that several lines may share, or `None` if it exists already.
    fn part(&mut self, line: &Line, name: &Name, at: Spot, what: &str) -> Option<&mut Manifest> {
        let new = self.unit(name, at, what);
        let is_new = new.is_some();
        new.into_iter().for_each(|unit| self.keep(name.clone(), unit));
        let unit = self.known.get(name).and_then(|index| self.units.get_mut(*index))?;
        alarm(line, unit);
        is_new.then_some(unit)
    }

    /// Adds the dependencies that `x-systemd.…` options name.
    fn relate(&mut self, line: &Line, unit: &mut Manifest) {
        for (option, key) in [("requires", "depends-ms"), ("after", "after"), ("before", "before")]
        {
            for other in line.all(option) {
                if let Some(name) = other_unit(&other, unit) {
                    if key == "depends-ms"
                        && let Some(stem) = name.as_str().strip_suffix(".device")
                        && let Some(path) = unescape_path(stem)
                    {
                        self.device(line, &path, other.at);
                    }
                    put(unit, other.at, key, name.as_str());
                }
            }
        }
        for path in line.all("requires-mounts-for") {
            put(unit, path.at, "needs-path", &path.text);
        }
        for path in line.all("wants-mounts-for") {
            for target in mount_name::names(&path.text) {
                put(unit, path.at, "waits-for", &format!("{target}?"));
            }
        }
    }
}

/// Returns the unit that an option names, by its name or by its path.
fn other_unit(other: &Field, unit: &mut Manifest) -> Option<Name> {
    let text = match line::normal(&other.text) {
        Some(path) if path.starts_with("/dev/") => format!("{}.device", escape_path(&path)),
        Some(path) => format!("{}.mount", escape_path(&path)),
        None => target_of_link(&other.text),
    };
    let name = Name::new(&text).ok().filter(|_| Suffix::of(&text).is_some());
    if name.is_none() {
        let message = format!("`{}` names no unit", other.text);
        unit.tell_at(Severity::Warning, "dropped", other.at, &message, "it has no effect");
    }
    name
}

/// Adds an `on-failure` that starts a shell to a unit that the boot needs. The boot's own target
/// cannot have it, because there the failure is only a failed dependency.
fn alarm(line: &Line, unit: &mut Manifest) {
    if line.kind.text != "swap" && !line.is_remote() && !line.is_soft() && line.is_at_boot() {
        put(unit, unit.at, "on-failure", "emergency.target");
    }
}

/// Adds the targets that want this unit: the target of a boot, unless options name others.
fn install(line: &Line, target: &str, unit: &mut Manifest) {
    for key in ["required-by", "wanted-by"] {
        for other in line.all(key) {
            if let Some(name) = other_unit(&other, unit) {
                put(unit, other.at, key, name.as_str());
            }
        }
    }
    let broken = unit.diagnostics.iter().any(|said| said.severity == Severity::Error);
    if line.is_at_boot() && !broken {
        // The goal wants a `nofail` line, so that its failure degrades no other unit.
        let (key, target) =
            if line.is_soft() { ("wanted-by", GOAL) } else { ("required-by", target) };
        put(unit, line.spec.at, key, target);
    }
    if !line.is_soft() {
        put(unit, line.spec.at, "before", target);
    }
}

/// Adds the commands of a mount or of swap space.
fn with_commands(mut unit: Manifest, line: &Line, start: &str, stop: Option<String>) -> Manifest {
    let at = unit.at;
    put(&mut unit, at, "exec-start", start);
    stop.into_iter().for_each(|stop| put(&mut unit, at, "exec-stop", &stop));
    let timeout = if line.is_in_background() { "none" } else { "90s" };
    put(&mut unit, at, "start-timeout", line.mount_timeout.as_deref().unwrap_or(timeout));
    put(&mut unit, at, "stop-timeout", "90s");
    unit
}

/// Makes the unit wait for the network.
fn online(unit: &mut Manifest, at: Spot) {
    put(unit, at, "after", "network.target");
    put(unit, at, "waits-for", "network-online.target?");
}

/// Quotes a word of an exec line.
fn word(text: &str) -> String {
    quote(text).replace('$', "$$")
}

/// Sets a key, or adds to its list.
fn put(unit: &mut Manifest, at: Spot, key: &str, text: &str) {
    let Some(key) = key_table::find(key) else { return };
    let node = Node::quoted(at, text);
    match unit.value_mut(key.name) {
        None => unit.enter(key, &at.of(&unit.file), node),
        Some(Value::List(list)) if list.iter().all(|known| known.value != node.value) => {
            list.push(node);
        }
        Some(first @ Value::Scalar(_)) if *first != node.value => {
            let first_node = Node { at, value: first.clone() };
            *first = Value::List(vec![first_node, node]);
        }
        Some(_) => {}
    }
}

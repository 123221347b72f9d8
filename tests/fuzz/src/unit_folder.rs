//! Checks of the fuzz target `unit_folder` for any files in the directories of a machine: they are
//! loaded without a panic; the order of directory entries changes neither the generation nor its
//! first plan; a second load gives the same.
//!
//! The bytes choose files and their contents: lines with short names, so that units refer to each
//! other, or any text.

use super::composed::Composed;
use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::load::{Options, load};
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::Event;
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::{Generation, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The loaded generation, if nothing is wrong. Panics if a promise is broken.
pub fn unit_folder(bytes: &[u8]) -> Option<Generation> {
    let mut folder = Folder::composed(bytes);
    let options = Options { sources: None, ..Options::system(0) };
    let loaded = load(&folder, &options, None);
    assert_eq!(loaded.generation.prove(), Ok(()));
    folder.backwards = true;
    let other = load(&folder, &options, None);
    assert_eq!(loaded.generation, other.generation, "the order of names counts");
    assert_eq!(loaded.refused, other.refused);
    assert_eq!(first_plan(&loaded.generation), first_plan(&other.generation));
    let again = load(&folder, &options, Some(&loaded.generation));
    assert_eq!(loaded.generation, again.generation, "loaded again, it is another");
    let fine = loaded.generation.units.iter().any(|unit| unit.fault.is_none());
    (!loaded.refused && fine).then_some(loaded.generation)
}

/// The orders of a boot, as text.
fn first_plan(generation: &Generation) -> String {
    let mut machine = Machine::new(Duration::from_secs(90));
    let boot = Event::Boot { generation: Arc::new(generation.clone()), targets: Vec::new() };
    let orders = machine.step(Time::from_nanos(1), boot);
    assert_eq!(machine.audit(), Ok(()));
    format!("{orders:?}")
}

/// Files by path.
#[derive(Default)]
struct Folder {
    files: BTreeMap<String, Vec<u8>>,
    backwards: bool,
}

const PATHS: [&str; 13] = [
    "/etc/groundstate/units/a.yaml",
    "/etc/groundstate/units/b.yaml",
    "/etc/groundstate/units/c.yaml",
    "/etc/groundstate/units/d.yaml",
    "/usr/lib/groundstate/units/a.yaml",
    "/usr/lib/groundstate/units/e.yaml",
    "/run/groundstate/units/b.yaml",
    "/etc/groundstate/units/a.yaml.d/1.yaml",
    "/etc/groundstate/units/t@.yaml",
    "/etc/groundstate/policy.yaml",
    "/etc/groundstate/init.yaml",
    "/etc/systemd/system/s.service",
    "/etc/fstab",
];
const LINES: [&str; 22] = [
    "type: oneshot",
    "type: virtual",
    "provides: x",
    "provides: a, y",
    "depends-on: a",
    "depends-on: b?",
    "depends-ms: c",
    "waits-for: x",
    "wants: b, c",
    "wants: t@1",
    "after: a, b",
    "before: c",
    "conflicts: b",
    "wanted-by: multi-user",
    "required-by: a",
    "restart-with: a",
    "on-failure: c",
    "exec-start: /bin/x %i",
    "unit: a",
    "unit: multi-user",
    "...",
    "---",
];
const FOREIGN: [&str; 8] = [
    "[Unit]",
    "[Service]",
    "[Install]",
    "ExecStart=/bin/x",
    "WantedBy=multi-user.target",
    "After=a.service b.service",
    "Requires=c.service",
    "Type=oneshot",
];
const POLICY: [&str; 5] = ["mask: [a]", "mask: b", "prefer: {x: b}", "enable: [c]", "disable: [a]"];
const FSTAB: [&str; 8] = [
    "/dev/a /b ext4 defaults 0 2",
    "LABEL=x\\040y /b/c ext4 nofail,x-systemd.requires=/b",
    "/b /d none bind,x-systemd.wanted-by=a.service",
    "nas:/x /b nfs _netdev,bg 0 0",
    "UUID=z none swap pri=1,noauto",
    "/f swap swap x-systemd.after=c,x-systemd.before=d.mount",
    "t /d tmpfs x-systemd.mount-timeout=1min,context=\"a,b\" 0 x",
    "/dev/a",
];
const SETTINGS: [&str; 4] = [
    "import-dirs: systemd, fstab",
    "default-target: a",
    "max-starting: 1",
    "default-policy: disable",
];

/// The lines of a file, mostly valid.
fn lines(path: &str, from: &mut Composed<'_>) -> Vec<u8> {
    let all: &[&str] = match path {
        path if path.ends_with(".service") => &FOREIGN,
        path if path.ends_with("fstab") => &FSTAB,
        path if path.ends_with("policy.yaml") => &POLICY,
        path if path.ends_with("init.yaml") => &SETTINGS,
        _ => &LINES,
    };
    let mut text = Vec::new();
    let stem = path.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or_default();
    if all == LINES && !path.contains(".d/") && !from.one_in(16) {
        let own = if from.one_in(4) { "type: virtual" } else { "exec-start: /bin/x" };
        text.extend_from_slice(format!("unit: {stem}\n{own}\n").as_bytes());
    }
    let mut used: Vec<&str> = vec!["unit", "type", "exec-start"];
    for _ in 0..from.byte() % 12 {
        let line = from.pick(all);
        let key = line.split(':').next().unwrap_or_default();
        if from.one_in(64) {
            text.extend_from_slice(from.raw(24));
        } else if !line.contains(':') || !used.contains(&key) || from.one_in(32) {
            text.extend_from_slice(line.as_bytes());
            match line {
                "---" | "..." => used.clear(),
                _ => used.push(key),
            }
        }
        text.push(b'\n');
    }
    text
}

impl Folder {
    fn composed(bytes: &[u8]) -> Folder {
        let mut from = Composed::of(bytes);
        let mut folder = Folder::default();
        folder.put("/etc/passwd", b"root:x:0:0:r:/root:/bin/sh\n");
        folder.put("/etc/group", b"root:x:0:\n");
        folder.put("/bin/x", b"\x7fELF");
        for path in PATHS {
            if from.one_in(2) {
                continue;
            }
            let text = lines(path, &mut from);
            folder.put(path, &text);
        }
        folder
    }

    fn put(&mut self, path: &str, bytes: &[u8]) {
        self.files.insert(path.to_string(), bytes.to_vec());
    }

    fn children(&self, directory: &str) -> BTreeSet<String> {
        let below = format!("{}/", directory.trim_end_matches('/'));
        let names = self.files.keys().filter_map(|path| path.strip_prefix(&below));
        names.filter_map(|rest| rest.split('/').next()).map(str::to_string).collect()
    }

    fn stat_of(&self, path: &str, bytes: &[u8]) -> Stat {
        let inode = path.bytes().fold(7, |sum: u64, byte| sum * 31 % 65_521 + u64::from(byte));
        let stamp = Stamp { device: 1, inode, size: bytes.len() as u64, modified: 1, changed: 1 };
        Stat { kind: FileKind::Regular, mode: 0o644, uid: 0, gid: 0, stamp }
    }
}

impl Files for Folder {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        let mut names: Vec<String> = self.children(directory).into_iter().collect();
        if names.is_empty() {
            return Err(Problem::Missing);
        }
        if self.backwards {
            names.reverse();
        }
        if names.len() > limit { Err(Problem::TooLarge) } else { Ok(names) }
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        match self.files.get(path) {
            Some(bytes) => Ok(self.stat_of(path, bytes)),
            None if self.children(path).is_empty() => Err(Problem::Missing),
            None => {
                let stamp = Stamp::default();
                Ok(Stat { kind: FileKind::Directory, mode: 0o755, uid: 0, gid: 0, stamp })
            }
        }
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        let stat = self.stat(path)?;
        let Some(bytes) = self.files.get(path) else { return Err(Problem::Kind(stat.kind)) };
        if bytes.len() > limit { Err(Problem::TooLarge) } else { Ok((bytes.clone(), stat)) }
    }
}

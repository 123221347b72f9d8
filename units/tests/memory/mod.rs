//! A file system in memory for tests of the loader. It maps paths to files and records what is
//! read. A directory exists if a file is in it.

#![allow(dead_code, reason = "each file of tests uses a part of it")]

pub(crate) mod card;

use groundstate_units::load::files::{FileKind, Files, Problem, Stat};
use groundstate_units::load::{Loaded, Options, load};
use groundstate_units::unit::generation::{Generation, Stamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

#[derive(Clone)]
struct File {
    bytes: Vec<u8>,
    stat: Stat,
}

/// The state of a changing file at one access, stat or read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// This text.
    Is(&'static str),
    /// This text; a reader gets its first half.
    Half(&'static str),
    /// The file does not exist.
    Gone,
}

#[derive(Default)]
pub(crate) struct Memory {
    files: BTreeMap<String, File>,
    clock: i64,
    pub(crate) backwards: bool,
    pub(crate) read: Mutex<Vec<String>>,
    /// A path that changes at each access.
    pub(crate) restless: Option<String>,
    /// A directory whose contents the loader must not ask for.
    pub(crate) far: Option<String>,
    /// A path and its states at successive accesses; the last state remains.
    pub(crate) moving: Option<(String, Vec<Look>)>,
    looks: Mutex<i64>,
    links: BTreeMap<String, String>,
}

impl Memory {
    pub(crate) fn new(files: &[(&str, &str)]) -> Memory {
        let mut memory = Memory::default();
        memory
            .put("/etc/passwd", "root:x:0:0:r:/root:/bin/sh\nwww:x:33:33:w:/var/www:/bin/false\n");
        memory.put("/etc/group", "root:x:0:\nwww:x:33:\nadm:x:4:www\n");
        memory.program("/bin/x");
        for (path, text) in files {
            memory.put(path, text);
        }
        memory
    }

    pub(crate) fn put(&mut self, path: &str, text: impl AsRef<[u8]>) {
        self.clock += 1;
        let bytes = text.as_ref().to_vec();
        let stamp = Stamp {
            device: 1,
            inode: 7,
            size: bytes.len() as u64,
            modified: self.clock,
            changed: self.clock,
        };
        let stat = Stat { kind: FileKind::Regular, mode: 0o644, uid: 0, gid: 0, stamp };
        self.files.insert(path.to_string(), File { bytes, stat });
    }

    pub(crate) fn program(&mut self, path: &str) {
        self.put(path, "\x7fELF");
        self.change(path, |stat| stat.mode = 0o755);
    }

    pub(crate) fn change(&mut self, path: &str, change: impl FnOnce(&mut Stat)) {
        change(&mut self.files.get_mut(path).unwrap().stat);
    }

    /// Creates a link. One to a path that does not exist, as /dev/null, is a special file.
    pub(crate) fn link(&mut self, path: &str, target: &str) {
        let there = self.files.get(target).cloned();
        self.links.insert(path.to_string(), target.to_string());
        match there {
            Some(file) => drop(self.files.insert(path.to_string(), file)),
            None => self.special(path),
        }
    }

    pub(crate) fn remove(&mut self, path: &str) {
        self.files.remove(path);
    }

    pub(crate) fn special(&mut self, path: &str) {
        self.put(path, "");
        self.change(path, |stat| stat.kind = FileKind::Special);
    }

    fn children(&self, directory: &str) -> BTreeSet<String> {
        let prefix = format!("{}/", directory.trim_end_matches('/'));
        let inside = self.files.keys().filter_map(|path| path.strip_prefix(&prefix));
        inside.map(|rest| rest.split('/').next().unwrap_or(rest).to_string()).collect()
    }

    /// Returns the content and stat of the next access to a changing path. Returns `None` for other
    /// paths.
    fn look(&self, path: &str) -> Option<Result<(Vec<u8>, Stat), Problem>> {
        let (_, looks) = self.moving.as_ref().filter(|(moving, _)| moving == path)?;
        let mut at = self.looks.lock().unwrap();
        let now = usize::try_from(*at).unwrap().min(looks.len() - 1);
        *at += 1;
        let (text, part) = match looks[now] {
            Look::Is(text) => (text, text),
            Look::Half(text) => (text, &text[..text.len() / 2]),
            Look::Gone => return Some(Err(Problem::Missing)),
        };
        // The modification time is the number of the access since which the text is the same.
        let same = |look: &Look| matches!(look, Look::Is(it) | Look::Half(it) if *it == text);
        let since = looks[..now].iter().rposition(|look| !same(look)).map_or(0, |at| at + 1);
        let mut stat = self.files[path].stat;
        stat.stamp.size = text.len() as u64;
        stat.stamp.modified = i64::try_from(since).unwrap();
        Some(Ok((part.into(), stat)))
    }

    /// Returns the number of accesses to the changing path.
    pub(crate) fn looks(&self) -> i64 {
        *self.looks.lock().unwrap()
    }

    pub(crate) fn load(&self, previous: Option<&Generation>) -> Loaded {
        load(self, &Options::system(0), previous)
    }

    pub(crate) fn check(&self, directory: &str) -> Generation {
        load(self, &Options::directories(vec![directory.to_string()], 0), None).generation
    }
}

impl Files for Memory {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        let mut names: Vec<String> = self.children(directory).into_iter().collect();
        if names.len() > limit {
            return Err(Problem::TooLarge);
        }
        if self.backwards {
            names.reverse();
        }
        Ok(names)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        if let Some(found) = self.look(path) {
            return found.map(|(_, stat)| stat);
        }
        if self.restless.as_deref() == Some(path) {
            let mut looks = self.looks.lock().unwrap();
            *looks += 1;
            let mut stat = self.files.get(path).unwrap().stat;
            stat.stamp.modified += *looks;
            return Ok(stat);
        }
        match self.files.get(path) {
            Some(file) => Ok(file.stat),
            None if !self.children(path).is_empty() => {
                let stamp = Stamp::default();
                Ok(Stat { kind: FileKind::Directory, mode: 0o755, uid: 0, gid: 0, stamp })
            }
            None => Err(Problem::Missing),
        }
    }

    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        let is_far = self.far.as_ref().is_some_and(|far| path.starts_with(far));
        (!is_far).then(|| self.stat(path))
    }

    fn link(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        if let Some(found) = self.look(path) {
            return found;
        }
        let stat = self.stat(path)?;
        if stat.kind != FileKind::Regular {
            return Err(Problem::Kind(stat.kind));
        }
        self.read.lock().unwrap().push(path.to_string());
        let bytes = &self.files[path].bytes;
        if bytes.len() > limit {
            return Err(Problem::TooLarge);
        }
        Ok((bytes.clone(), stat))
    }
}

/// Returns `line:column code` of each diagnostic.
pub(crate) fn told(generation: &Generation) -> Vec<String> {
    let tell = |d: &groundstate_units::text::diagnostic::Diagnostic| {
        let file = d.at.file.rsplit('/').next().unwrap_or_default();
        format!("{file}:{}:{} {} {}", d.at.line, d.at.column, d.severity, d.code)
    };
    generation.diagnostics.iter().map(tell).collect()
}

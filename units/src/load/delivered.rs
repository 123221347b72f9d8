//! The files of a source, from a request or from their store. They are overlaid on the file system,
//! so that they are read, checked and recorded like the files of a directory.
//!
//! `SOURCES/NAME/current` is a link to the directory of the present revision. That directory holds
//! the files under their own names, and [`STATE`] with the revision and the roots. Only init's
//! loader writes it. Each revision writes all files again, so a file counts as unchanged if its
//! text is the same, whatever its inode.

use crate::control::source_set::SourceSet;
use crate::limit;
use crate::load::files::{FileKind, Files, Problem, Stat};
use crate::load::folder::{self, Trust};
use crate::load::unit_file::read_still;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::unit::assembly::hash;
use crate::unit::generation::Stamp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The hidden file of a revision: `revision N`, then `root TARGET` a line.
pub const STATE: &str = ".source";

/// One source with its files.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the source.
    pub name: Name,
    /// The revision.
    pub revision: u64,
    /// Targets that should be up.
    pub roots: Vec<Name>,
    /// The files by path.
    texts: BTreeMap<Arc<str>, Text>,
}

#[derive(Clone, Debug)]
struct Text {
    bytes: Vec<u8>,
    stat: Stat,
}

/// The directory of the files of a source.
pub fn directory(sources: &str, name: &Name) -> String {
    format!("{sources}/{name}/current")
}

/// The text of [`STATE`].
pub fn state(revision: u64, roots: &[Name]) -> String {
    let mut text = format!("revision {revision}\n");
    for root in roots {
        let _ = writeln!(text, "root {root}");
    }
    text
}

fn parse_state(text: &str) -> Option<(u64, Vec<Name>)> {
    let mut lines = text.lines();
    let revision = lines.next()?.strip_prefix("revision ")?.parse().ok()?;
    let root = |line: &str| Name::new(line.strip_prefix("root ")?).ok();
    let roots: Option<Vec<Name>> = lines.map(root).take(limit::SOURCE_ROOTS).collect();
    Some((revision, roots?))
}

impl Source {
    /// Creates the source of a request. `sources` is the directory of all sources.
    pub fn of(name: Name, revision: u64, set: SourceSet, sources: &str, trust: Trust) -> Source {
        let directory = directory(sources, &name);
        let mut source = Source { name, revision, roots: set.roots, texts: BTreeMap::new() };
        for (file, text) in set.files {
            source.add(format!("{directory}/{file}"), text.into_bytes(), trust.uid);
        }
        source
    }

    /// Reads the stored source. Returns `None` if it was never put.
    ///
    /// # Errors
    /// The stored source cannot be read.
    pub(crate) fn kept(
        files: &dyn Files,
        sources: &str,
        name: &Name,
        trust: Trust,
    ) -> Result<Option<Source>, Box<Diagnostic>> {
        let directory = directory(sources, name);
        let failed = |message: String| {
            Box::new(Diagnostic::of_file(Severity::Error, "source", &directory, message))
        };
        let mut untrusted = Vec::new();
        let names = match folder::listing(files, &directory, trust, &mut untrusted) {
            Ok(names) => names,
            Err(Problem::Missing) => return Ok(None),
            Err(problem) => {
                return Err(failed(format!("cannot be listed: {}", problem.words())));
            }
        };
        if let Some(first) = untrusted.into_iter().find(|d| d.severity == Severity::Error) {
            return Err(Box::new(first));
        }
        let (state, _) = read_still(files, &format!("{directory}/{STATE}"), limit::SOURCE_BYTES)?;
        let state = String::from_utf8(state).ok().and_then(|text| parse_state(&text));
        let (revision, roots) = state.ok_or_else(|| failed(format!("{STATE} is damaged")))?;
        let mut source = Source { name: name.clone(), revision, roots, texts: BTreeMap::new() };
        let files_of = names.iter().filter(|name| !name.starts_with('.'));
        for file in files_of.take(limit::SOURCE_FILES) {
            let path = format!("{directory}/{file}");
            let (bytes, stat) = read_still(files, &path, limit::SOURCE_BYTES)?;
            if let Some((Severity::Error, complaint)) = trust.complaint(&stat) {
                return Err(failed(format!("{file}: {complaint}")));
            }
            source.add(path, bytes, trust.uid);
        }
        Ok(Some(source))
    }

    fn add(&mut self, path: String, bytes: Vec<u8>, uid: u32) {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Two 64-bit hashes take the place of the times.
        let modified = hash(&bytes).cast_signed();
        let changed = bytes.iter().rev().fold(modified, |sum, byte| {
            sum.rotate_left(5).wrapping_mul(0x27d4_eb2f_1656_67c5).wrapping_add(i64::from(*byte))
        });
        let stamp = Stamp { device: 0, inode: 0, size, modified, changed };
        let stat = Stat { kind: FileKind::Regular, mode: 0o600, uid, gid: 0, stamp };
        self.texts.insert(path.into(), Text { bytes, stat });
    }

    /// Returns the paths of its files, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.texts.keys()
    }
}

/// The file system overlaid with the files of sources.
pub(crate) struct Overlaid<'a> {
    pub(crate) below: &'a dyn Files,
    pub(crate) sources: &'a [Source],
}

impl Overlaid<'_> {
    fn text(&self, path: &str) -> Option<&Text> {
        self.sources.iter().find_map(|source| source.texts.get(path))
    }
}

impl Files for Overlaid<'_> {
    fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, Problem> {
        self.below.list(directory, limit)
    }

    fn stat(&self, path: &str) -> Result<Stat, Problem> {
        self.text(path).map_or_else(|| self.below.stat(path), |text| Ok(text.stat))
    }

    fn stat_outside(&self, path: &str) -> Option<Result<Stat, Problem>> {
        self.below.stat_outside(path)
    }

    fn each(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        self.below.each(count, work);
    }

    fn work_on(&self, what: &str, work: &mut dyn FnMut()) -> Option<String> {
        self.below.work_on(what, work)
    }

    fn link(&self, path: &str) -> Option<String> {
        if self.text(path).is_some() { None } else { self.below.link(path) }
    }

    fn read(&self, path: &str, limit: usize) -> Result<(Vec<u8>, Stat), Problem> {
        match self.text(path) {
            None => self.below.read(path, limit),
            Some(text) if text.bytes.len() > limit => Err(Problem::TooLarge),
            Some(text) => Ok((text.bytes.clone(), text.stat)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_of_a_revision_is_read_back_from_its_file() {
        let roots = vec![Name::new("web").unwrap(), Name::new("db").unwrap()];
        assert_eq!(parse_state(&state(7, &roots)), Some((7, roots)));
        assert_eq!(parse_state("revision x\n"), None);
        assert_eq!(parse_state("revision 7\nroot ../x\n"), None);
        assert_eq!(parse_state(""), None);
    }
}

//! Handles `source-put` in the loader child: reads the controller's files from its memfd, validates
//! them with the present generation, and stores them for a restart.

use super::disk::Disk;
use super::failed_load::Progress;
use super::transfer::read_memory;
use groundstate_units::control::answer::Failure;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::load::delivered::{STATE, Source, state};
use groundstate_units::load::{Loaded, Options};
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use groundstate_units::{limit, load};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::io::Write;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

fn refusal(kind: &str, message: String, hint: &str) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint: hint.to_string() }
}

/// The generation with the new content of the source; without a `body` the source becomes empty.
pub(super) fn run(
    progress: &Progress<'_>,
    options: &Options,
    previous: &Generation,
    name: &Name,
    body: Option<BorrowedFd<'_>>,
) -> Result<Generation, Refusal> {
    let set = match body {
        Some(body) => wanted(body)?,
        None => SourceSet::default(),
    };
    let at = previous.revision(name);
    if let Some(expected) = set.expected.filter(|expected| *expected != at) {
        let message = format!("source {name} is at revision {at}, not {expected}");
        return Err(refusal(
            Failure::REVISION,
            message,
            "`initctl source list` shows what it holds",
        ));
    }
    let kept = |error: &io::Error| {
        let message = format!("cannot store source {name}: {error}");
        refusal("file", message, "free some space in the runtime directory")
    };
    let sources = options.sources.as_deref().unwrap_or_default();
    let store = Store::of(sources, name);
    // A loader that was killed may have stored a revision without returning it.
    let revision = at.max(store.latest()).saturating_add(1);
    store.write(revision, &set).map_err(|error| kept(&error))?;
    let source = Source::of(name.clone(), revision, set, sources, options.trust);
    let Loaded { generation, refused, .. } =
        load::put(&Disk::new(progress), options, previous, source);
    if refused {
        store.forget(revision);
        let message = format!("source {name} exceeds the limit of {} units", limit::UNITS);
        return Err(refusal("too-large", message, "nothing has changed"));
    }
    store.flip(revision).map_err(|error| kept(&error))?;
    Ok(generation)
}

fn wanted(body: BorrowedFd<'_>) -> Result<SourceSet, Refusal> {
    let unreadable =
        |error: io::Error| refusal("protocol", format!("cannot read the memfd: {error}"), "");
    let memory = File::from(body.try_clone_to_owned().map_err(unreadable)?);
    SourceSet::parse(&read_memory(&memory, limit::SOURCE_BYTES).map_err(unreadable)?)
}

// Storage of sources until the next boot: a directory for each revision, and a link to the present
// one that changes atomically. Only the loader child uses it. `groundstate_units::load::delivered`
// describes the format.

/// The directory of one source.
pub(super) struct Store(PathBuf);

impl Store {
    /// The store of a source below the directory of all sources. Creates nothing.
    pub(super) fn of(sources: &str, name: &Name) -> Store {
        Store(Path::new(sources).join(name.as_str()))
    }

    fn revision(&self, revision: u64) -> PathBuf {
        self.0.join(revision.to_string())
    }

    /// The highest stored revision, or 0.
    pub(super) fn latest(&self) -> u64 {
        self.revisions().into_iter().max().unwrap_or(0)
    }

    fn revisions(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Writes all files of a revision, which becomes valid with [`Store::flip`]. Only root can read
    /// them, because units may contain secrets.
    pub(super) fn write(&self, revision: u64, set: &SourceSet) -> io::Result<()> {
        let directory = self.revision(revision);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let state = state(revision, &set.roots);
        let files = set.files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let written = files.chain([(STATE, state.as_str())]).try_for_each(|(name, text)| {
            let path = directory.join(name);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            file.write_all(text.as_bytes())
        });
        if written.is_err() {
            self.forget(revision);
        }
        written
    }

    /// Makes this the present revision and removes the others.
    pub(super) fn flip(&self, revision: u64) -> io::Result<()> {
        let fresh = self.0.join("current.new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(revision.to_string(), &fresh)?;
        std::fs::rename(&fresh, self.0.join("current"))?;
        self.revisions()
            .into_iter()
            .filter(|old| *old != revision)
            .for_each(|old| self.forget(old));
        Ok(())
    }

    /// Best effort: leftover revisions are never read.
    pub(super) fn forget(&self, revision: u64) {
        let _ = std::fs::remove_dir_all(self.revision(revision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_revision_counts_from_its_flip_on_and_a_failed_one_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("groundstate-store.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let store = Store::of(dir.to_str().unwrap(), &Name::new("fleet").unwrap());
        let set = |text: &str| SourceSet {
            files: BTreeMap::from([("web.yaml".to_string(), text.to_string())]),
            ..SourceSet::default()
        };
        let present = || std::fs::read_to_string(store.0.join("current/web.yaml")).ok();
        assert_eq!(store.latest(), 0);
        store.write(1, &set("one")).unwrap();
        assert_eq!(present(), None);
        store.flip(1).unwrap();
        assert_eq!(present().as_deref(), Some("one"));
        store.write(2, &set("two")).unwrap();
        assert_eq!((present().as_deref(), store.latest()), (Some("one"), 2));
        store.flip(2).unwrap();
        assert_eq!((present().as_deref(), store.revisions()), (Some("two"), vec![2]));
        assert!(store.write(2, &set("three")).is_err(), "a name that is taken is not written over");
        let _ = std::fs::remove_dir_all(&dir);
    }
}

//! Loads that fail or take too long: the file that killed a loader, and sources that must wait
//! before they are loaded again.

use crate::base::limit;
use crate::base::own_limits::processors;
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use nix::sys::uio::pwrite;
use nix::unistd::alarm;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The number of SIGALRM: signal(7).
const ALARM: u8 = 14;

/// Sources that took too long to load. The settings name all sources, so the map is small.
#[derive(Default)]
pub(crate) struct SlowSources(BTreeMap<Name, (Time, Duration)>);

impl SlowSources {
    /// Forgets a source that was loaded.
    pub(crate) fn forget(&mut self, source: &Name) {
        self.0.remove(source);
    }

    pub(crate) fn until(&self, source: &Name) -> Option<Time> {
        self.0.get(source).map(|(until, _)| *until)
    }

    pub(crate) fn add(&mut self, source: &Name, now: Time) {
        let before = self.0.get(source).map(|(_, pause)| pause.saturating_mul(2));
        let pause = before.unwrap_or(limit::SOURCE_PAUSE).min(limit::SOURCE_PAUSE_LONGEST);
        self.0.insert(source.clone(), (now.after(pause), pause));
    }
}

/// Why a loader exited without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// No further file was started for too long while one was being read.
    File,
    /// The whole load took longer than this.
    Load(Duration),
    /// A crash, or a kill by another process.
    Other(String),
}

impl Death {
    pub(crate) fn of(exit: Exit, killed: bool, patience: Duration) -> Death {
        match exit {
            Exit::Signal { .. } if killed => Death::Load(patience),
            Exit::Signal { signal: ALARM, .. } => Death::File,
            Exit::Signal { signal, .. } => {
                Death::Other(format!("the loader was killed by signal {signal}"))
            }
            Exit::Code(code) => Death::Other(format!("the loader exited with {code}")),
        }
    }

    /// The message about a file that the loader was reading.
    fn of_file(&self) -> String {
        match self {
            Death::File => {
                format!("loading it took longer than {} s", limit::LOADER_FILE.as_secs())
            }
            Death::Load(patience) => format!(
                "the loader was reading it when loading took longer than {} s",
                patience.as_secs()
            ),
            Death::Other(how) => format!("{how} while reading it"),
        }
    }

    /// The message about the load.
    pub(crate) fn of_load(&self, files: &[String]) -> String {
        match (self, files.first()) {
            (_, Some(file)) => format!("{file}: {}", self.of_file()),
            (Death::File, None) => {
                format!("loading a file took longer than {} s", limit::LOADER_FILE.as_secs())
            }
            (Death::Load(patience), None) => {
                format!("loading took longer than {} s", patience.as_secs())
            }
            (Death::Other(how), None) => how.clone(),
        }
    }
}

impl LeftOut {
    /// Changes the next load after the death of a loader. Returns false if it would not differ.
    pub(crate) fn learn(&mut self, death: &Death, files: Vec<String>) -> bool {
        if files.is_empty() || self.rounds >= limit::LOADER_ROUNDS {
            return false;
        }
        self.rounds += 1;
        // The kill may have come from outside, or only one of the files is the cause. So the load
        // is repeated with all files, by one thread.
        if matches!(death, Death::Other(_)) && !self.repeated {
            self.repeated = true;
            return true;
        }
        let why = death.of_file();
        self.files.extend(files.into_iter().map(|file| (file, why.clone())));
        true
    }
}

// The files in progress
//
// Each thread of the child writes the name of the file that it is reading to the memory for the
// result. Init can read the names after the child's death. The next loader skips these files, so
// that a broken file breaks its own units only.

/// Size of an entry: a length of two bytes, and a path with a few words.
const ENTRY: usize = 4096 + 64;

/// The files that a load skips, and other changes from the previous attempt.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// The files, each with the reason.
    pub(super) files: BTreeMap<String, String>,
    /// Number of loads that failed because of such files.
    pub(super) rounds: u8,
    /// True if a load was repeated after a death that may have come from outside. From then on the
    /// loader has one thread, so that the file in progress is the cause of its death.
    repeated: bool,
}

/// The child's side.
pub(crate) struct Progress<'a> {
    memory: &'a OwnedFd,
    left_out: &'a LeftOut,
    /// True for each entry in use.
    used: Mutex<[bool; limit::LOADER_THREADS]>,
}

impl<'a> Progress<'a> {
    /// Starts without a file in progress.
    pub(super) fn new(memory: &'a OwnedFd, left_out: &'a LeftOut) -> Progress<'a> {
        Progress { memory, left_out, used: Mutex::default() }
    }

    /// The number of threads that read files: one for each processor, up to
    /// [`limit::LOADER_THREADS`].
    pub(super) fn threads(&self) -> usize {
        if self.left_out.repeated { 1 } else { processors().min(limit::LOADER_THREADS) }
    }

    /// See [`groundstate_units::load::files::Files::work_on`]. SIGALRM kills the child if no file
    /// was started for [`limit::LOADER_FILE`] and one is in progress. All files in progress are then
    /// too slow.
    pub(super) fn work_on(&self, what: &str, work: &mut dyn FnMut()) -> Option<String> {
        if let Some(why) = self.left_out.files.get(what) {
            return Some(why.clone());
        }
        let entry = self.begin(what);
        #[cfg(debug_assertions)]
        crate::base::crash_test::strike_in_file(what);
        work();
        self.finish(entry);
        None
    }

    /// Returns the number of the file's entry.
    fn begin(&self, what: &str) -> usize {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        alarm::set(u32::try_from(limit::LOADER_FILE.as_secs()).unwrap_or(u32::MAX));
        let entry = used.iter().position(|used| !used).unwrap_or(0);
        used.get_mut(entry).into_iter().for_each(|used| *used = true);
        // Without the entry, the death of the child does not implicate this file.
        let _ = self.write(entry, what);
        entry
    }

    fn finish(&self, entry: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.get_mut(entry).into_iter().for_each(|used| *used = false);
        if !used.contains(&true) {
            alarm::cancel();
        }
        let _ = self.write(entry, "");
    }

    fn write(&self, entry: usize, what: &str) -> nix::Result<usize> {
        let text = what.as_bytes().get(..ENTRY - 2).unwrap_or(what.as_bytes());
        let length = u16::try_from(text.len()).unwrap_or(0).to_le_bytes();
        let at = i64::try_from(entry * ENTRY).unwrap_or(i64::MAX);
        pwrite(self.memory, &[&length, text].concat(), at)
    }
}

/// The files in progress when the child exited without a result.
pub(super) fn files_at_work(memory: &OwnedFd) -> Vec<String> {
    let Ok(memory) = memory.try_clone().map(File::from) else { return Vec::new() };
    (0..limit::LOADER_THREADS).filter_map(|entry| entry_of(&memory, entry)).collect()
}

fn entry_of(memory: &File, entry: usize) -> Option<String> {
    let at = u64::try_from(entry * ENTRY).ok()?;
    let mut length = [0; 2];
    memory.read_exact_at(&mut length, at).ok()?;
    let mut text = vec![0; usize::from(u16::from_le_bytes(length)).min(ENTRY - 2)];
    memory.read_exact_at(&mut text, at + 2).ok()?;
    String::from_utf8(text).ok().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memfd;

    #[test]
    fn slow_file_is_left_out_at_once_and_deadly_file_after_a_second_death() {
        let mut left_out = LeftOut::default();
        let files = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(left_out.learn(&Death::File, files(&["slow", "slow too"])));
        assert_eq!(left_out.files.len(), 2);
        let death = Death::Other("the loader was killed by signal 6".to_string());
        assert!(left_out.learn(&death, files(&["innocent", "deadly"])));
        assert_eq!((left_out.files.len(), left_out.repeated), (2, true));
        assert!(left_out.learn(&death, files(&["deadly"])));
        assert!(left_out.files.contains_key("deadly") && left_out.files.len() == 3);
        assert!(!left_out.learn(&death, Vec::new()), "without a file there is nothing to learn");
    }

    #[test]
    fn number_of_loads_without_failed_files_is_limited() {
        let mut left_out = LeftOut::default();
        let rounds = (0..1000).take_while(|n| left_out.learn(&Death::File, vec![n.to_string()]));
        assert_eq!(rounds.count(), usize::from(limit::LOADER_ROUNDS));
    }

    #[test]
    fn pause_of_a_slow_source_doubles_up_to_a_limit() {
        let (mut slow, now) = (SlowSources::default(), Time::default());
        let source = Name::new("fleet").unwrap();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            slow.add(&source, now);
            pauses.push(slow.until(&source).unwrap().since(now));
        }
        assert_eq!(pauses[..2], [limit::SOURCE_PAUSE, limit::SOURCE_PAUSE * 2]);
        assert_eq!(pauses.last(), Some(&limit::SOURCE_PAUSE_LONGEST));
        slow.forget(&source);
        assert_eq!(slow.until(&source), None);
    }

    #[test]
    fn files_in_progress_are_those_started_and_not_finished() {
        let memory = memfd::create(c"progress").unwrap();
        let left_out = LeftOut::default();
        let progress = Progress::new(&memory, &left_out);
        assert!(files_at_work(&memory).is_empty());
        let long = "x".repeat(2 * ENTRY);
        let entries = ["/a.yaml", "/b.yaml", &long].map(|path| progress.begin(path));
        progress.finish(entries[0]);
        assert_eq!(files_at_work(&memory), ["/b.yaml", &long[..ENTRY - 2]]);
        assert_eq!(progress.begin("/c.yaml"), entries[0]);
        entries.into_iter().for_each(|entry| progress.finish(entry));
        assert!(files_at_work(&memory).is_empty());
    }

    #[test]
    fn skipped_file_is_not_parsed() {
        let files = BTreeMap::from([("/a.yaml".to_string(), "it is slow".to_string())]);
        let left_out = LeftOut { files, ..LeftOut::default() };
        let memory = memfd::create(c"progress").unwrap();
        let progress = Progress::new(&memory, &left_out);
        let mut worked = 0;
        let why = progress.work_on("/a.yaml", &mut || worked += 1);
        assert_eq!((why.as_deref(), worked), (Some("it is slow"), 0));
        let mut worked = 0;
        assert_eq!(progress.work_on("/b.yaml", &mut || worked += 1), None);
        assert_eq!(worked, 1);
    }
}

//! The unit files that the loader is at work on. The child writes them to the memory that will
//! hold its generation, so that init can read them there after the child was killed or died.
//! The next loader leaves these files out: a file that cannot be loaded breaks its own units only.

use super::transfer::Parcel;
use crate::base::limit;
use nix::unistd::alarm;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of one entry: a length of two bytes, and a path with a few words.
const ENTRY: usize = 4096 + 64;
/// One for each thread of the child.
const ENTRIES: usize = limit::LOADER_HANDS;

/// The files that a load leaves out, and what is different in it from the load before.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeftOut {
    /// Each with the reason.
    pub(super) files: BTreeMap<String, String>,
    /// Loads that came to nothing because of files like these.
    pub(super) rounds: u8,
    /// The child reads one file at a time: if it dies again, its file is known.
    pub(super) one_hand: bool,
}

/// The child's side.
pub(crate) struct Progress<'a> {
    memory: Option<File>,
    left_out: &'a LeftOut,
    taken: Mutex<[bool; ENTRIES]>,
}

impl<'a> Progress<'a> {
    /// No file is at work yet. Without `memory` init learns nothing of them.
    pub(super) fn new(memory: Option<BorrowedFd<'_>>, left_out: &'a LeftOut) -> Progress<'a> {
        let memory = memory.and_then(|fd| fd.try_clone_to_owned().ok()).map(File::from);
        Progress { memory, left_out, taken: Mutex::default() }
    }

    /// Threads that read files.
    pub(super) fn hands(&self, most: usize) -> usize {
        if self.left_out.one_hand { 1 } else { most }
    }

    /// See [`groundstate_units::load::files::Files::work_on`]. SIGALRM ends the child when no file was
    /// started or finished for [`limit::LOADER_FILE`]: each file at work is then too slow.
    pub(super) fn work_on(&self, what: &str, work: &mut dyn FnMut()) -> Option<String> {
        if let Some(why) = self.left_out.files.get(what) {
            return Some(why.clone());
        }
        let at = self.begin(what);
        #[cfg(debug_assertions)]
        crate::base::crash_test::strike_in_file(what);
        work();
        self.finish(at);
        None
    }

    fn begin(&self, what: &str) -> Option<usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let at = taken.iter().position(|taken| !taken)?;
        if let Some(taken) = taken.get_mut(at) {
            *taken = true;
        }
        alarm::set(u32::try_from(limit::LOADER_FILE.as_secs()).unwrap_or(u32::MAX));
        // Without the entry a death of the child says nothing of this file.
        let _ = self.write(at, what);
        Some(at)
    }

    fn finish(&self, at: Option<usize>) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = at.and_then(|at| taken.get_mut(at)) {
            *taken = false;
        }
        if taken.contains(&true) {
            alarm::set(u32::try_from(limit::LOADER_FILE.as_secs()).unwrap_or(u32::MAX));
        } else {
            alarm::cancel();
        }
        let _ = at.map(|at| self.write(at, ""));
    }

    fn write(&self, at: usize, what: &str) -> io::Result<()> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let text = what.as_bytes().get(..ENTRY - 2).unwrap_or(what.as_bytes());
        let length = u16::try_from(text.len()).unwrap_or(0).to_le_bytes();
        let at = u64::try_from(at * ENTRY).unwrap_or(u64::MAX);
        memory.write_all_at(&[&length, text].concat(), at)
    }
}

impl Parcel {
    /// The files that the child was at work on when it ended without having filled the parcel.
    pub(super) fn files_at_work(&self) -> Vec<String> {
        let Parcel::Memory(memory) = self else { return Vec::new() };
        let Ok(memory) = memory.try_clone().map(File::from) else { return Vec::new() };
        (0..ENTRIES).filter_map(|at| entry(&memory, at)).collect()
    }
}

fn entry(memory: &File, at: usize) -> Option<String> {
    let at = u64::try_from(at * ENTRY).ok()?;
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
    use std::os::fd::AsFd;

    #[test]
    fn files_at_work_are_those_begun_and_not_finished() {
        let memory = memfd::create(c"progress").unwrap();
        let left_out = LeftOut::default();
        let progress = Progress::new(Some(memory.as_fd()), &left_out);
        let parcel = Parcel::Memory(memory.try_clone().unwrap().into());
        assert!(parcel.files_at_work().is_empty());
        let long = "x".repeat(2 * ENTRY);
        let mut entries: Vec<_> = ["/a.yaml", "/b.yaml"].map(|path| progress.begin(path)).into();
        entries.push(progress.begin(&long));
        progress.finish(entries[0]);
        assert_eq!(parcel.files_at_work(), ["/b.yaml", &long[..ENTRY - 2]]);
        entries[1..].iter().for_each(|at| progress.finish(*at));
        assert!(parcel.files_at_work().is_empty());
    }

    #[test]
    fn a_file_that_is_left_out_is_not_worked_on() {
        let files = BTreeMap::from([("/a.yaml".to_string(), "it is slow".to_string())]);
        let left_out = LeftOut { files, ..LeftOut::default() };
        let progress = Progress::new(None, &left_out);
        let mut worked = 0;
        let why = progress.work_on("/a.yaml", &mut || worked += 1);
        assert_eq!((why.as_deref(), worked), (Some("it is slow"), 0));
        let mut worked = 0;
        assert_eq!(progress.work_on("/b.yaml", &mut || worked += 1), None);
        assert_eq!(worked, 1);
    }
}

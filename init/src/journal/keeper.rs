//! The state, kept while init is at work: two memfds in turn, so that a whole one is there at
//! every moment. It is written between two turns, as often as it costs little: one part in
//! [`limit::KEEPING`] of the time at most. A crash goes back to the last one.
//!
//! A child writes it: a fork is a picture of the whole state at one moment, takes a fraction of the
//! time that writing takes, and what writing needs of memory and of the program is never
//! PID 1's. Where no child can be had init writes it itself.
//!
//! A memfd holds `GS-KEPT` and a version, an epoch, the length of what follows, the number of the
//! last note it knows of ([`super::notes`]) and a CRC; the highest epoch that is whole counts. What is in it is [`super::state`]'s.
//!
//! When one can not be kept, the one before it stands, for it is never written over: with all that
//! was noted since, it is the present. Once something could not be noted, or another generation is
//! in force, going back to it would be going back in time, which is worse than not going on: then
//! both are emptied, and a crash ends nothing.

use super::frame::crc;
use super::notes::{self as noted, Past};
use crate::limit;
use crate::sys::bell::Bell;
use crate::sys::{Pid, memfd, notes};
use groundstate_units::spec::Exit;
use groundstate_units::time::Time;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

const MAGIC: [u8; 8] = *b"GS-KEPT\x02";
/// Magic, epoch, length, last note, CRC.
const HEAD: usize = 36;

/// See the module.
pub(crate) struct Keeper {
    memory: [File; 2],
    /// What happens meanwhile; signal and signals not dealt with, by the handler of a fault.
    notes: File,
    epoch: u64,
    /// The last note that what is being written knows of.
    known: u64,
    /// The generation of what was written last: another one is kept soon.
    generation: u32,
    /// That of what is being written.
    written: u32,
    /// No sooner is it kept again.
    rests_until: Time,
    /// Something may have happened since.
    is_behind: bool,
    /// Who writes it now.
    writer: Option<Writer>,
    /// Who was killed while at that, and has not ended: no other is forked.
    stuck: Option<Pid>,
    /// The generation of the one a crash goes back to. None: there is none.
    stands: Option<u32>,
    /// It could not be kept the last time.
    has_failed: bool,
    /// It is not to be kept yet, however much has happened.
    is_put_off: bool,
}

/// A child that writes the state as it was when the child was forked.
struct Writer {
    child: Pid,
    begun: Time,
    /// Then it takes too long.
    until: Time,
    /// It has taken too long, and is to end at once.
    is_killed: bool,
}

/// What became of an attempt to keep the state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is kept, as before.
    Kept,
    /// It is kept, and was not before.
    KeptAgain,
    /// It is not: a crash goes back to the one before, and to what was noted since.
    Behind(String),
    /// Nothing is kept any more.
    Lost(String),
    /// As the last time, it is not.
    Still,
}

/// What an image that crashed has left.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The last that is whole.
    pub(crate) state: Vec<u8>,
    /// What has happened since.
    pub(crate) past: Past,
    /// Of the fault; 0: a panic.
    pub(crate) signal: u64,
    /// Bit n-1: signal n was not dealt with.
    pub(crate) rung: u64,
}

impl Keeper {
    /// Nothing is kept yet. ENOSYS, EPERM: there are no memfds here.
    pub(crate) fn new(now: Time) -> io::Result<Keeper> {
        Keeper::with(memfd::create(c"notes")?.into(), now)
    }

    /// The same; what happens is noted there.
    pub(crate) fn with(notes: File, now: Time) -> io::Result<Keeper> {
        Ok(Keeper {
            memory: fresh()?,
            notes,
            epoch: 0,
            known: 0,
            generation: 0,
            written: 0,
            rests_until: now.after(limit::KEEPING_BEGINS),
            is_behind: true,
            writer: None,
            stuck: None,
            stands: None,
            has_failed: false,
            is_put_off: false,
        })
    }

    /// Numbers of what an image after a crash has to be handed.
    pub(crate) fn numbers(&self) -> [RawFd; 3] {
        let [one, other] = &self.memory;
        [one.as_raw_fd(), other.as_raw_fd(), self.notes.as_raw_fd()]
    }

    /// Where the state is kept.
    pub(crate) fn memory(&self) -> &[File; 2] {
        &self.memory
    }

    /// Where the handler of a fault writes.
    pub(crate) fn notes(&self) -> &File {
        &self.notes
    }

    /// Something may have happened: it is kept anew after this pause at the earliest.
    pub(crate) fn falls_behind(&mut self, now: Time, pause: std::time::Duration) {
        if !std::mem::replace(&mut self.is_behind, true) {
            self.rests_until = self.rests_until.max(now.after(pause));
        }
    }

    /// This generation is in force. What was noted under one means nothing under another.
    pub(crate) fn is_of(&mut self, generation: u32, now: Time) {
        if std::mem::replace(&mut self.generation, generation) != generation {
            (self.is_behind, self.rests_until) = (true, now);
        }
    }

    /// An image before this one has left a state, of this generation, that stands until one is kept.
    pub(crate) fn goes_on_from(&mut self, generation: u32) {
        (self.generation, self.stands) = (generation, Some(generation));
    }

    /// When it is to be kept, if anything has happened; or when who writes it takes too long.
    pub(crate) fn due(&self) -> Option<Time> {
        match &self.writer {
            Some(writer) => Some(writer.until),
            None if self.is_behind && !self.is_put_off && notes::are_many() => Some(Time::ZERO),
            None => self.is_behind.then_some(self.rests_until),
        }
    }

    /// Who takes too long to write it, once: it is to be killed.
    pub(crate) fn late_writer(&mut self, now: Time) -> Option<Pid> {
        let is_late = |writer: &&mut Writer| !writer.is_killed && writer.until <= now;
        let writer = self.writer.as_mut().filter(is_late)?;
        (writer.is_killed, writer.until) = (true, now.after(limit::KEEPING_KILLED));
        Some(writer.child)
    }

    /// One that was killed and does not end (its memory is on a dead disk, its cgroup is frozen)
    /// may write into what it has at any time: that is left to it. What is given is where the
    /// state was kept; nothing is until it is written anew, by init itself. `goes_further`: until then a crash goes
    /// back to what an image before this one has left, and not to that.
    pub(crate) fn abandon_writer(&mut self, now: Time, goes_further: bool) -> Option<[File; 2]> {
        let writer = self.writer.as_mut().filter(|w| w.is_killed && w.until <= now)?;
        let Ok(fresh) = fresh() else {
            writer.until = now.after(limit::KEEPING_AGAIN);
            return None;
        };
        self.stuck = self.writer.take().map(|writer| writer.child);
        self.stands = self.stands.filter(|_| goes_further);
        Some(std::mem::replace(&mut self.memory, fresh))
    }

    /// A child that wrote it can not be killed: init does it, or they would become ever more.
    pub(crate) fn has_stuck_writer(&self) -> bool {
        self.stuck.is_some()
    }

    /// Somebody writes it.
    pub(crate) fn is_being_written(&self) -> bool {
        self.writer.is_some()
    }

    /// Of the state a crash goes back to, and of the one that is being written, which may be whole any moment.
    pub(crate) fn generations(&self) -> [Option<u32>; 2] {
        [self.stands, self.writer.as_ref().map(|_| self.written)]
    }

    /// What there is can not be gone back to: it is kept later, or with the next generation.
    pub(crate) fn put_off(&mut self, now: Time) {
        (self.is_put_off, self.rests_until) = (true, now.after(limit::KEEPING_AGAIN));
    }

    /// What is written next is the state of now.
    pub(crate) fn begin(&mut self) {
        self.is_put_off = false;
        (self.known, self.written) = (notes::begin_state(), self.generation);
        Bell::is_being_kept();
    }

    /// A child was forked that writes it.
    pub(crate) fn begun(&mut self, child: Pid, now: Time) {
        let until = now.after(limit::KEEPING_LONGEST);
        self.writer = Some(Writer { child, begun: now, until, is_killed: false });
        self.is_behind = false;
    }

    /// Writes this state in the place of the last but one. Called by whoever writes it; it is kept
    /// from [`Keeper::kept`] on.
    pub(crate) fn write(&self, state: &[u8]) -> io::Result<()> {
        let epoch = self.epoch.saturating_add(1);
        let [one, other] = &self.memory;
        let memory = if epoch.is_multiple_of(2) { one } else { other };
        // Not whole until its head is there again.
        memory.write_all_at(&[0; HEAD], 0)?;
        memory.write_all_at(state, HEAD as u64)?;
        let length = u64::try_from(state.len()).unwrap_or(u64::MAX);
        memory.set_len(length.saturating_add(HEAD as u64))?;
        let mut head = MAGIC.to_vec();
        head.extend(epoch.to_le_bytes());
        head.extend(length.to_le_bytes());
        head.extend(self.known.to_le_bytes());
        head.extend(sum(state, self.known));
        memory.write_all_at(&head, 0)
    }

    /// A child was reaped. None: it is another's.
    pub(crate) fn ended(&mut self, pid: Pid, exit: Exit, now: Time) -> Option<Outcome> {
        self.stuck.take_if(|stuck| *stuck == pid);
        let writer = self.writer.take_if(|writer| writer.child == pid)?;
        let written = match exit {
            Exit::Code(0) => Ok(()),
            Exit::Code(errno) => Err(io::Error::from_raw_os_error(errno.into()).to_string()),
            Exit::Signal { signal, .. } => Err(format!("signal {signal} ended its writer")),
        };
        Some(self.kept(written, writer.begun, now))
    }

    /// It was written, or not, between these times.
    pub(crate) fn kept(&mut self, written: Result<(), String>, begun: Time, now: Time) -> Outcome {
        match written {
            Ok(()) => {
                self.epoch = self.epoch.saturating_add(1);
                self.stands = Some(self.written);
                notes::known(self.known);
                Bell::is_dealt_with();
                let took = now.since(begun);
                let rest = took.saturating_mul(limit::KEEPING).min(limit::KEEPING_REST);
                let rest = now.after(rest);
                self.rests_until = if self.written == self.generation { rest } else { now };
                let failed = std::mem::take(&mut self.has_failed);
                if failed { Outcome::KeptAgain } else { Outcome::Kept }
            }
            Err(why) => {
                self.is_behind = true;
                self.rests_until = now.after(limit::KEEPING_AGAIN);
                let stood = self.stands.is_some();
                let failed = std::mem::replace(&mut self.has_failed, true);
                match (self.empties(), failed) {
                    (true, _) => Outcome::Lost(why),
                    (false, false) if stood => Outcome::Behind(why),
                    (false, false) => Outcome::Lost(why),
                    (false, true) => Outcome::Still,
                }
            }
        }
    }

    /// The state that stands while none can be kept is too old by now.
    pub(crate) fn outlived(&mut self) -> Option<Outcome> {
        let is_over = self.has_failed && self.empties();
        is_over.then(|| Outcome::Lost("too much has happened since".to_string()))
    }

    /// What is not the present any more, with all that was noted since, goes. False: nothing does.
    fn empties(&mut self) -> bool {
        let Some(generation) = self.stands else { return false };
        if generation == self.generation && notes::are_whole() {
            return false;
        }
        for memory in &self.memory {
            // A memfd can always be made shorter.
            let _ = memory.set_len(0);
        }
        self.stands = None;
        true
    }
}

fn fresh() -> io::Result<[File; 2]> {
    Ok([memfd::create(c"state")?.into(), memfd::create(c"state")?.into()])
}

/// Says whether a state and the number of its last note are what was written.
fn sum(state: &[u8], known: u64) -> [u8; 4] {
    (crc(state) ^ crc(&known.to_le_bytes())).to_le_bytes()
}

/// What an image that crashed has left. Total: any bytes may be there.
pub(crate) fn read(memory: &[File; 2], notes: &File) -> Result<Found, String> {
    let states = memory.each_ref().map(whole);
    let latest = states.into_iter().flatten().max_by_key(|(epoch, ..)| *epoch);
    let (_, known, state) = latest.ok_or("nothing whole was kept")?;
    let mut bytes = vec![0; noted::BYTES];
    // Less than there is room for: not all of it was ever noted.
    let length = notes.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(length);
    let (signal, rung) = (number_at(notes, noted::FAULT), not_dealt_with(notes));
    Ok(Found { state, past: Past::read(&bytes, known), signal, rung })
}

/// Bit n-1: the image that crashed had not dealt with signal n.
pub(crate) fn not_dealt_with(notes: &File) -> u64 {
    number_at(notes, noted::FAULT + 8)
}

fn number_at(notes: &File, at: usize) -> u64 {
    let mut word = [0; 8];
    let read = notes.read_exact_at(&mut word, at as u64);
    read.map_or(0, |()| u64::from_ne_bytes(word))
}

fn whole(memory: &File) -> Option<(u64, u64, Vec<u8>)> {
    let mut head = [0; HEAD];
    memory.read_exact_at(&mut head, 0).ok()?;
    let rest = head.strip_prefix(&MAGIC)?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (known, written) = rest.split_first_chunk::<8>()?;
    let (length, known) = (u64::from_le_bytes(*length), u64::from_le_bytes(*known));
    if length > limit::STATE || length > memory.metadata().ok()?.len() {
        return None;
    }
    let mut state = vec![0; usize::try_from(length).ok()?];
    memory.read_exact_at(&mut state, HEAD as u64).ok()?;
    let is_whole = sum(&state, known) == *written;
    is_whole.then_some((u64::from_le_bytes(*epoch), known, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{process, wait};
    use std::os::fd::AsFd;
    use std::time::Duration;

    fn state_of(keeper: &Keeper) -> Result<Found, String> {
        read(&keeper.memory, &keeper.notes)
    }

    fn keep(keeper: &mut Keeper, state: &[u8]) -> Outcome {
        let written = keeper.write(state).map_err(|error| error.to_string());
        keeper.kept(written, Time::ZERO, Time::ZERO)
    }

    #[test]
    fn the_latest_that_is_whole_counts() {
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        assert!(state_of(&keeper).is_err());
        for state in ["one", "two, which is longer", "three"] {
            assert_eq!(keep(&mut keeper, state.as_bytes()), Outcome::Kept);
            assert_eq!(state_of(&keeper).unwrap().state, state.as_bytes());
        }
        // The one that is being written when it ends is not whole.
        let [one, other] = &keeper.memory;
        let latest = if keeper.epoch.is_multiple_of(2) { one } else { other };
        latest.write_all_at(b"x", HEAD as u64).unwrap();
        assert_eq!(state_of(&keeper).unwrap().state, b"two, which is longer");
        for memory in &keeper.memory {
            memory.set_len(5).unwrap();
        }
        assert!(state_of(&keeper).is_err());
    }

    #[test]
    fn it_is_kept_as_often_as_it_costs_little() {
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        let at = Time::from_nanos;
        keeper.begun(Pid::from_raw(7), at(1000));
        assert!(keeper.is_being_written());
        assert_eq!(keeper.ended(Pid::from_raw(8), Exit::Code(0), at(1005)), None, "another's");
        let ended = keeper.ended(Pid::from_raw(7), Exit::Code(0), at(1010));
        assert_eq!((ended, keeper.due()), (Some(Outcome::Kept), None), "nothing has happened");
        let rest = at(1010 + 10 * u64::from(limit::KEEPING));
        keeper.falls_behind(at(1011), Duration::from_nanos(1));
        assert_eq!(keeper.due(), Some(rest));
        keeper.begun(Pid::from_raw(9), rest);
        keeper.falls_behind(rest, Duration::from_secs(9));
        assert_eq!(keeper.late_writer(rest), None);
        let late = rest.after(limit::KEEPING_LONGEST);
        assert_eq!(keeper.due(), Some(late));
        assert_eq!(keeper.late_writer(late), Some(Pid::from_raw(9)));
        assert_eq!(keeper.late_writer(late), None, "it is killed once");
        let killed = late.after(limit::KEEPING_KILLED);
        assert_eq!(
            (keeper.due(), keeper.abandon_writer(late, false).is_some()),
            (Some(killed), false)
        );
        // Where writing takes long (a load, a machine that slept) it does not rest long.
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        let slow = Time::ZERO.after(limit::KEEPING_REST);
        keeper.kept(Ok(()), Time::ZERO, slow);
        assert_eq!(keeper.due(), Some(slow.after(limit::KEEPING_REST)));
    }

    #[test]
    fn a_writer_that_can_not_be_killed_neither_ends_the_keeping_nor_writes_into_it() {
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        keep(&mut keeper, b"one");
        keeper.begun(Pid::from_raw(9), Time::ZERO);
        let late = Time::ZERO.after(limit::KEEPING_LONGEST);
        assert_eq!(keeper.late_writer(late), Some(Pid::from_raw(9)));
        let killed = late.after(limit::KEEPING_KILLED);
        let before = keeper.abandon_writer(killed, false).unwrap();
        assert_eq!(keeper.generations(), [None; 2]);
        assert!(!keeper.is_being_written() && keeper.has_stuck_writer());
        assert!(state_of(&keeper).is_err(), "an ever older state is none");
        // What it has is not what the next image is handed.
        assert!(
            keeper.numbers()[..2].iter().all(|new| before.iter().all(|f| f.as_raw_fd() != *new))
        );
        assert_eq!(keep(&mut keeper, b"two"), Outcome::Kept);
        assert_eq!(state_of(&keeper).unwrap().state, b"two");
        assert_eq!(keeper.ended(Pid::from_raw(9), Exit::Code(0), killed), None);
        assert!(!keeper.has_stuck_writer());
        assert_eq!(state_of(&keeper).unwrap().state, b"two");
    }

    #[test]
    fn what_is_gone_back_to_is_not_what_a_writer_that_can_not_be_killed_has() {
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        keeper.goes_on_from(7);
        keeper.is_of(8, Time::ZERO);
        keeper.begin();
        keeper.begun(Pid::from_raw(9), Time::ZERO);
        let late = Time::ZERO.after(limit::KEEPING_LONGEST);
        assert_eq!(keeper.late_writer(late), Some(Pid::from_raw(9)));
        assert!(keeper.abandon_writer(late.after(limit::KEEPING_KILLED), true).is_some());
        assert_eq!(keeper.generations(), [Some(7), None]);
    }

    #[test]
    fn another_generation_is_kept_at_once() {
        let (mut keeper, at) = (Keeper::new(Time::ZERO).unwrap(), Time::from_nanos);
        keeper.begun(Pid::from_raw(7), at(1000));
        keeper.ended(Pid::from_raw(7), Exit::Code(0), at(2000));
        keeper.is_of(0, at(2001));
        assert_eq!(keeper.due(), None);
        keeper.begun(Pid::from_raw(7), at(2002));
        keeper.is_of(1, at(2003));
        keeper.ended(Pid::from_raw(7), Exit::Code(0), at(3000));
        assert_eq!(keeper.due(), Some(at(3000)));
    }

    #[test]
    fn what_was_kept_stands_as_long_as_all_that_happened_since_is_noted() {
        // The notes are one for a process.
        let child = process::fork_whole(|| {
            let mut keeper = Keeper::new(Time::ZERO).unwrap();
            notes::begin(keeper.notes().as_fd()).unwrap();
            let fail = |keeper: &mut Keeper| {
                keeper.begin();
                keeper.kept(Err(String::new()), Time::ZERO, Time::ZERO)
            };
            assert!(matches!(fail(&mut keeper), Outcome::Lost(_)), "there was none");
            keeper.begin();
            assert_eq!(keep(&mut keeper, b"one"), Outcome::KeptAgain);
            notes::put_text(noted::Kind::Seen, &7u64.to_ne_bytes());
            assert!(matches!(fail(&mut keeper), Outcome::Behind(_)));
            assert_eq!((fail(&mut keeper), keeper.outlived()), (Outcome::Still, None));
            let found = state_of(&keeper).unwrap();
            assert_eq!((&found.state[..], found.past.notes.len()), (&b"one"[..], 1));
            for run in 0..noted::ENTRIES {
                notes::put_text(noted::Kind::Seen, &run.to_ne_bytes());
            }
            assert!(matches!(keeper.outlived(), Some(Outcome::Lost(_))), "one was not noted");
            assert!(state_of(&keeper).is_err() && keeper.outlived().is_none());
            // Of another generation it would be the past too.
            keeper.begin();
            assert_eq!(keep(&mut keeper, b"two"), Outcome::KeptAgain);
            assert!(matches!(fail(&mut keeper), Outcome::Behind(_)));
            keeper.is_of(1, Time::ZERO);
            assert!(matches!(keeper.outlived(), Some(Outcome::Lost(_))));
            0
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(0));
    }

    #[test]
    fn what_can_not_be_kept_is_not_gone_back_to_where_nothing_is_noted() {
        let mut keeper = Keeper::new(Time::ZERO).unwrap();
        keep(&mut keeper, b"one");
        keep(&mut keeper, b"two");
        let killed = Exit::Signal { signal: 9, core: false };
        keeper.begun(Pid::from_raw(7), Time::ZERO);
        let lost = keeper.ended(Pid::from_raw(7), killed, Time::ZERO);
        assert!(matches!(lost, Some(Outcome::Lost(_))), "{lost:?}");
        assert!(state_of(&keeper).is_err());
        assert_eq!(keeper.due(), Some(Time::ZERO.after(limit::KEEPING_AGAIN)));
        assert_eq!(keeper.kept(Err(String::new()), Time::ZERO, Time::ZERO), Outcome::Still);
        assert_eq!(keep(&mut keeper, b"three"), Outcome::KeptAgain);
        assert_eq!(state_of(&keeper).unwrap().state, b"three");
    }
}

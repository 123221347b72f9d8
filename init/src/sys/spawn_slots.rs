//! Memory that PID 1 and a child share between clone and exec: a row of slots where the
//! child writes how far it came, and stacks for children that have none of their own.
//!
//! A slot or a stack is given out again only when no child can touch it any more; who knows
//! when that is, is [`crate::spawn::Spawner`].

use super::child_setup::Step;
use super::memfd;
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Children between clone and exec at one time.
pub(crate) const SLOTS: usize = 4096;
/// Bytes of the row.
const BYTES: usize = SLOTS * size_of::<Slot>();
/// Slots that rest before one of them is given out again: a state that was kept meanwhile still
/// has them as its children's, and after a crash would read of one child what another has told.
const RESTING: usize = 1024;
/// Bytes of a child's stack; the child in [`super::child`] needs less than 4 KiB of it.
const STACK: usize = 64 * 1024;
/// Bytes below the stack that fault when touched.
const GUARD: usize = 4096 * 4;

/// What a child tells. Written by the child, read by PID 1; no order between the fields but
/// that `errno` is written last.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// 1 from before the clone; the kernel writes 0 when the child no longer uses our memory
    /// (CLONE_CHILD_CLEARTID). Of use only where memory is shared.
    pub(super) alive: AtomicU32,
    /// The [`Step`] under way.
    pub(super) step: AtomicU32,
    /// Why it broke off; 0: it did not.
    pub(super) errno: AtomicU32,
    /// Which of several, where the step has several.
    pub(super) detail: AtomicU32,
    /// The serial number of the start, written before the clone; 0: it has none.
    serial: AtomicU64,
    /// The child's pid, written by the kernel as it clones (CLONE_PARENT_SETTID); 0: there is none.
    pub(super) pid: AtomicI32,
}

/// How far a child came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The step it was last at.
    pub step: Step,
    /// Why it broke off there; None: it did not (so far).
    pub errno: Option<i32>,
    /// Which of several (env-file, limit, descriptor), from 0.
    pub detail: u32,
}

/// The row of slots: one shared mapping, inherited by every child. It is a file's, so that an
/// init that goes on as another image still sees what its children write.
#[derive(Debug)]
pub(crate) struct SpawnSlots {
    slots: NonNull<Slot>,
    /// Never given out so far.
    free: Vec<u32>,
    /// Given back, oldest first.
    resting: VecDeque<u32>,
    /// None: there are no memfds here.
    memory: Option<OwnedFd>,
}

/// Index of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SlotId(u32);

impl SpawnSlots {
    /// Maps it. ENOMEM.
    pub(crate) fn new() -> io::Result<SpawnSlots> {
        let memory = memfd::create(c"children").and_then(|memory| {
            ftruncate(&memory, i64::try_from(BYTES).unwrap_or(0))?;
            Ok(memory)
        });
        SpawnSlots::on(memory.ok(), &[])
    }

    /// The one of an earlier image; these slots are in use.
    pub(crate) fn again(memory: OwnedFd, used: &[SlotId]) -> io::Result<SpawnSlots> {
        let size = fstat(&memory)?.st_size;
        if usize::try_from(size) != Ok(BYTES) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        SpawnSlots::on(Some(memory), used)
    }

    fn on(memory: Option<OwnedFd>, used: &[SlotId]) -> io::Result<SpawnSlots> {
        let slots = match &memory {
            Some(memory) => map_file(BYTES, memory)?.cast(),
            None => map(BYTES, libc::MAP_SHARED)?.cast(),
        };
        Ok(SpawnSlots::over(slots, memory, used))
    }

    /// `slots`: [`SLOTS`] of them, which stay there.
    fn over(slots: NonNull<Slot>, memory: Option<OwnedFd>, used: &[SlotId]) -> SpawnSlots {
        let last = u32::try_from(SLOTS).unwrap_or(0);
        let free = (0..last).rev().filter(|slot| !used.contains(&SlotId(*slot))).collect();
        let mut board = SpawnSlots { slots, free, resting: VecDeque::new(), memory };
        // Perhaps of a child nobody knows of, and which tells something still.
        let free = std::mem::take(&mut board.free).into_iter();
        let (free, resting): (Vec<u32>, Vec<u32>) =
            free.partition(|slot| board.has_left(SlotId(*slot)));
        (board.free, board.resting) = (free, resting.into());
        board
    }

    /// What it is in.
    pub(crate) fn memory(&self) -> Option<&OwnedFd> {
        self.memory.as_ref()
    }

    /// Its child does no longer use our memory; of one that shares it only.
    pub(crate) fn has_left(&self, id: SlotId) -> bool {
        self.slot(id).alive.load(Ordering::SeqCst) == 0
    }

    /// A clean slot for the start with this serial number. None: all are in use.
    pub(crate) fn take(&mut self, serial: u64) -> Option<SlotId> {
        let rested = (self.resting.len() > RESTING).then(|| self.resting.pop_front()).flatten();
        let next = rested.or_else(|| self.free.pop()).or_else(|| self.resting.pop_front());
        let id = SlotId(next?);
        let slot = self.slot(id);
        slot.alive.store(1, Ordering::SeqCst);
        slot.step.store(0, Ordering::SeqCst);
        slot.errno.store(0, Ordering::SeqCst);
        slot.detail.store(0, Ordering::SeqCst);
        slot.pid.store(0, Ordering::SeqCst);
        slot.serial.store(serial, Ordering::SeqCst);
        Some(id)
    }

    /// The child that a crashed image has cloned for the start with this serial number, and its slot, which
    /// is in use from now on.
    pub(crate) fn find_child(&mut self, serial: u64) -> Option<(SlotId, i32)> {
        let mut ids = (0..u32::try_from(SLOTS).unwrap_or(0)).map(SlotId);
        let id = ids.find(|id| self.slot(*id).serial.load(Ordering::SeqCst) == serial)?;
        let pid = self.slot(id).pid.load(Ordering::SeqCst);
        if serial == 0 || pid <= 0 {
            return None;
        }
        self.free.retain(|free| *free != id.0);
        self.resting.retain(|resting| *resting != id.0);
        Some((id, pid))
    }

    /// Gives a slot back. No child may use it any more.
    pub(crate) fn give_back(&mut self, id: SlotId) {
        self.slot(id).alive.store(0, Ordering::SeqCst);
        self.resting.push_back(id.0);
    }

    /// What its child has told so far.
    pub(crate) fn progress(&self, id: SlotId) -> Progress {
        let slot = self.slot(id);
        let errno = i32::try_from(slot.errno.load(Ordering::SeqCst)).ok().filter(|e| *e != 0);
        Progress {
            step: Step::from_number(slot.step.load(Ordering::SeqCst)),
            errno,
            detail: slot.detail.load(Ordering::SeqCst),
        }
    }

    pub(super) fn slot(&self, id: SlotId) -> &Slot {
        let index = (id.0 as usize).min(SLOTS - 1);
        // SAFETY: the mapping holds SLOTS slots and is never unmapped; a Slot is atomics only, so
        // any bytes are a value of it and writing by a child is no race.
        unsafe { self.slots.add(index).as_ref() }
    }
}

/// The stack of one child, with a guard below it.
#[derive(Debug)]
pub(crate) struct Stack(NonNull<u8>);

impl Stack {
    /// Maps one. ENOMEM.
    pub(crate) fn new() -> io::Result<Stack> {
        let base = map(GUARD + STACK, libc::MAP_PRIVATE | libc::MAP_STACK)?;
        // SAFETY: the guard lies within the mapping just made.
        super::check(unsafe { libc::mprotect(base.as_ptr().cast(), GUARD, libc::PROT_NONE) })?;
        Ok(Stack(base))
    }

    /// Lowest address and length, as clone3(2) wants them.
    pub(super) fn span(&self) -> (*mut u8, usize) {
        // SAFETY: the mapping is of GUARD and STACK bytes.
        (unsafe { self.0.as_ptr().add(GUARD) }, STACK)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; whoever drops a Stack knows that no child
        // runs on it (see the file's head).
        unsafe {
            libc::munmap(self.0.as_ptr().cast(), GUARD + STACK);
        }
    }
}

fn map_file(bytes: usize, file: &OwnedFd) -> io::Result<NonNull<u8>> {
    let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
    // SAFETY: a new mapping where the kernel likes; the file is our own and never gets shorter.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping where the kernel likes.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::any::Any;
    use std::mem::ManuallyDrop;
    use std::sync::Mutex;

    /// Never freed, and no leak either: somebody knows of it.
    fn kept<T: Send + 'static>(mut memory: Vec<T>) -> NonNull<T> {
        static ALL: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
        let first = NonNull::new(memory.as_mut_ptr()).unwrap();
        ALL.lock().unwrap().push(Box::new(memory));
        first
    }

    impl SpawnSlots {
        /// In memory of this process alone, which stays: all that is there before a child is made.
        pub(in crate::sys) fn plain() -> SpawnSlots {
            SpawnSlots::over(kept((0..SLOTS).map(|_| Slot::default()).collect()), None, &[])
        }
    }

    impl Stack {
        /// The same; never to be dropped.
        pub(in crate::sys) fn plain() -> ManuallyDrop<Stack> {
            let memory = vec![0u128; (GUARD + STACK) / size_of::<u128>()];
            ManuallyDrop::new(Stack(kept(memory).cast()))
        }
    }

    #[test]
    fn a_slot_is_not_given_out_again_soon() {
        let mut board = SpawnSlots::plain();
        let first = board.take(0).unwrap();
        board.give_back(first);
        let next: Vec<SlotId> = (0..RESTING).map(|_| board.take(0).unwrap()).collect();
        assert!(!next.contains(&first));
        next.into_iter().for_each(|slot| board.give_back(slot));
        assert_eq!(board.take(0), Some(first), "it has rested");
        assert_eq!(std::iter::from_fn(|| board.take(0)).count(), SLOTS - 1, "none is lost");
    }

    #[test]
    fn what_a_child_tells_is_read_while_it_tells_it() {
        let mut board = SpawnSlots::plain();
        let id = board.take(0).unwrap();
        std::thread::scope(|scope| {
            let slot = board.slot(id);
            scope.spawn(|| {
                slot.detail.store(2, Ordering::SeqCst);
                slot.step.store(Step::Limits as u32, Ordering::SeqCst);
                slot.errno.store(libc::EPERM as u32, Ordering::SeqCst);
                slot.alive.store(0, Ordering::SeqCst);
            });
            while !board.has_left(id) {
                let so_far = board.progress(id);
                assert!(so_far.step <= Step::Limits && so_far.detail <= 2);
                std::thread::yield_now();
            }
        });
        let told = Progress { step: Step::Limits, errno: Some(libc::EPERM), detail: 2 };
        assert_eq!(board.progress(id), told);
    }

    #[test]
    fn whatever_stands_in_a_slot_is_read_and_a_number_of_none_is_of_the_last() {
        let mut board = SpawnSlots::plain();
        let id = std::iter::from_fn(|| board.take(0)).last().unwrap();
        let slot = board.slot(id);
        slot.step.store(u32::MAX, Ordering::SeqCst);
        slot.errno.store(u32::MAX, Ordering::SeqCst);
        slot.detail.store(u32::MAX, Ordering::SeqCst);
        let told = Progress { step: Step::Begin, errno: None, detail: u32::MAX };
        assert_eq!(board.progress(id), told);
        assert_eq!(board.take(0), None);
        board.progress(SlotId(u32::MAX));
    }

    #[test]
    fn a_stack_can_be_written_from_its_first_to_its_last_byte() {
        let stack = Stack::plain();
        let (base, size) = stack.span();
        assert_eq!((base.addr() % 16, size % 16), (0, 0));
        // SAFETY: it is nobody else's.
        unsafe {
            base.write(1);
            base.add(size - 1).write(2);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn after_a_crash_the_slots_of_children_nobody_knows_of_rest() {
        let mut board = SpawnSlots::new().unwrap();
        let (known, unknown) = (board.take(0).unwrap(), board.take(0).unwrap());
        let memory = board.memory().unwrap().try_clone().unwrap();
        let mut again = SpawnSlots::again(memory, &[known]).unwrap();
        let next: Vec<SlotId> = (0..RESTING).map(|_| again.take(0).unwrap()).collect();
        assert!(!next.contains(&known) && !next.contains(&unknown));
    }
}

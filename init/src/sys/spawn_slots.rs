//! Memory shared between PID 1 and a child from clone to exec: slots where the child writes its
//! progress, and stacks for children that share PID 1's memory.
//!
//! A slot or a stack is reused only when no child can touch it any more; [`crate::spawn::Spawner`]
//! knows when.

use super::child_setup::Step;
use super::memfd;
use nix::sys::stat::fstat;
use nix::unistd::ftruncate;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Children between clone and exec at one time.
pub(crate) const SLOTS: usize = 4096;
/// Size of all slots.
const BYTES: usize = SLOTS * size_of::<Slot>();
/// Released slots that wait before one of them is reused. The committed state may still assign them
/// to earlier children. After a crash, init would read another child's progress there.
const RESTING: usize = 1024;
/// Size of a child's stack; the child in [`super::child`] needs less than 4 KiB.
const STACK: usize = 64 * 1024;
/// Size of the guard area below the stack.
const GUARD: usize = 4096 * 4;

/// The progress of a child. The child writes it and PID 1 reads it. `errno` is written last; the
/// other fields have no order.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// 1 from before the clone; the kernel writes 0 when the child no longer uses our memory
    /// (CLONE_CHILD_CLEARTID). Meaningful only for shared memory.
    pub(super) alive: AtomicU32,
    /// The current [`Step`].
    pub(super) step: AtomicU32,
    /// The errno of a failed step, or 0.
    pub(super) errno: AtomicU32,
    /// The index within the step.
    pub(super) detail: AtomicU32,
    /// The serial number of the start, written before the clone; 0 if it has none.
    serial: AtomicU64,
    /// The child's pid, written by the kernel at the clone (CLONE_PARENT_SETTID); 0 without a
    /// child.
    pub(super) pid: AtomicI32,
}

/// The progress of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The last step.
    pub step: Step,
    /// The errno of the step, or `None` if it has not failed (so far).
    pub errno: Option<i32>,
    /// The index within the step (env-file, limit, descriptor), from 0.
    pub detail: u32,
}

/// All slots: one shared mapping that every child inherits. It is backed by a file, so that a new
/// image of init still sees the writes of its children.
#[derive(Debug)]
pub(crate) struct SpawnSlots {
    slots: NonNull<Slot>,
    /// Slots never used so far.
    free: Vec<u32>,
    /// Released slots, oldest first.
    resting: VecDeque<u32>,
    /// `None` if the kernel has no memfds.
    memory: Option<OwnedFd>,
}

/// Index of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SlotId(u32);

impl SpawnSlots {
    /// Maps the slots. Fails with ENOMEM.
    pub(crate) fn new() -> io::Result<SpawnSlots> {
        let memory = memfd::create(c"children").and_then(|memory| {
            ftruncate(&memory, i64::try_from(BYTES).unwrap_or(0))?;
            Ok(memory)
        });
        SpawnSlots::on(memory.ok(), &[])
    }

    /// Maps the slots of an earlier image; `used` are in use.
    pub(crate) fn restored(memory: OwnedFd, used: &[SlotId]) -> io::Result<SpawnSlots> {
        let size = fstat(&memory)?.st_size;
        if usize::try_from(size) != Ok(BYTES) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        SpawnSlots::on(Some(memory), used)
    }

    fn on(memory: Option<OwnedFd>, used: &[SlotId]) -> io::Result<SpawnSlots> {
        let slots = match &memory {
            Some(memory) => super::map(BYTES, libc::MAP_SHARED, Some(memory.as_fd()))?,
            None => super::map(BYTES, libc::MAP_SHARED | libc::MAP_ANONYMOUS, None)?,
        };
        Ok(SpawnSlots::over(slots.cast(), memory, used))
    }

    /// `slots` points at [`SLOTS`] slots, which are never moved.
    fn over(slots: NonNull<Slot>, memory: Option<OwnedFd>, used: &[SlotId]) -> SpawnSlots {
        let last = u32::try_from(SLOTS).unwrap_or(0);
        let free = (0..last).rev().filter(|slot| !used.contains(&SlotId(*slot))).collect();
        let mut all = SpawnSlots { slots, free, resting: VecDeque::new(), memory };
        // A child that the state does not know may still write to a slot that is not in `used`.
        let free = std::mem::take(&mut all.free).into_iter();
        let (free, resting): (Vec<u32>, Vec<u32>) =
            free.partition(|slot| all.has_left(SlotId(*slot)));
        (all.free, all.resting) = (free, resting.into());
        all
    }

    /// The memfd of the slots.
    pub(crate) fn memory(&self) -> Option<&OwnedFd> {
        self.memory.as_ref()
    }

    /// Returns true if the child, which shares our memory, no longer uses it.
    pub(crate) fn has_left(&self, id: SlotId) -> bool {
        self.slot(id).alive.load(Ordering::SeqCst) == 0
    }

    /// Takes a cleared slot for the start with this serial number. Returns `None` if all are in
    /// use.
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

    /// Finds the child that a crashed image cloned for the start with this serial number. Its slot
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

    /// Releases a slot. No child may use it any more.
    pub(crate) fn give_back(&mut self, id: SlotId) {
        self.slot(id).alive.store(0, Ordering::SeqCst);
        self.resting.push_back(id.0);
    }

    /// The progress of its child so far.
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

/// The stack of one child, with a guard area below it.
#[derive(Debug)]
pub(crate) struct Stack(NonNull<u8>);

impl Stack {
    /// Maps a stack. Fails with ENOMEM.
    pub(crate) fn new() -> io::Result<Stack> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let base = super::map(GUARD + STACK, flags, None)?;
        // SAFETY: the guard lies within the mapping just made.
        super::check(unsafe { libc::mprotect(base.as_ptr().cast(), GUARD, libc::PROT_NONE) })?;
        Ok(Stack(base))
    }

    /// Lowest address and length, as clone3(2) takes them.
    pub(super) fn span(&self) -> (*mut u8, usize) {
        // SAFETY: the mapping is of GUARD and STACK bytes.
        (unsafe { self.0.as_ptr().add(GUARD) }, STACK)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; the owner drops a Stack only when no child
        // runs on it (see the module's comment).
        unsafe {
            libc::munmap(self.0.as_ptr().cast(), GUARD + STACK);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::any::Any;
    use std::mem::ManuallyDrop;
    use std::sync::Mutex;

    /// Keeps memory for ever. `ALL` refers to it, so it is no leak.
    fn kept<T: Send + 'static>(mut memory: Vec<T>) -> NonNull<T> {
        static ALL: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
        let first = NonNull::new(memory.as_mut_ptr()).unwrap();
        ALL.lock().unwrap().push(Box::new(memory));
        first
    }

    impl SpawnSlots {
        /// Slots in ordinary memory that is never freed, for tests without children.
        pub(in crate::sys) fn plain() -> SpawnSlots {
            SpawnSlots::over(kept((0..SLOTS).map(|_| Slot::default()).collect()), None, &[])
        }
    }

    impl Stack {
        /// A stack in ordinary memory, for tests without children; never to be dropped.
        pub(in crate::sys) fn plain() -> ManuallyDrop<Stack> {
            let memory = vec![0u128; (GUARD + STACK) / size_of::<u128>()];
            ManuallyDrop::new(Stack(kept(memory).cast()))
        }
    }

    #[test]
    fn released_slot_rests_before_it_is_reused() {
        let mut all = SpawnSlots::plain();
        let first = all.take(0).unwrap();
        all.give_back(first);
        let next: Vec<SlotId> = (0..RESTING).map(|_| all.take(0).unwrap()).collect();
        assert!(!next.contains(&first));
        next.into_iter().for_each(|slot| all.give_back(slot));
        assert_eq!(all.take(0), Some(first), "it has rested");
        assert_eq!(std::iter::from_fn(|| all.take(0)).count(), SLOTS - 1, "none is lost");
    }

    #[test]
    fn progress_is_read_while_the_child_writes_it() {
        let mut all = SpawnSlots::plain();
        let id = all.take(0).unwrap();
        std::thread::scope(|scope| {
            let slot = all.slot(id);
            scope.spawn(|| {
                slot.detail.store(2, Ordering::SeqCst);
                slot.step.store(Step::Limits as u32, Ordering::SeqCst);
                slot.errno.store(libc::EPERM as u32, Ordering::SeqCst);
                slot.alive.store(0, Ordering::SeqCst);
            });
            while !all.has_left(id) {
                let so_far = all.progress(id);
                assert!(so_far.step <= Step::Limits && so_far.detail <= 2);
                std::thread::yield_now();
            }
        });
        let told = Progress { step: Step::Limits, errno: Some(libc::EPERM), detail: 2 };
        assert_eq!(all.progress(id), told);
    }

    #[test]
    fn invalid_slot_content_and_invalid_slot_number_are_read_without_panic() {
        let mut all = SpawnSlots::plain();
        let id = std::iter::from_fn(|| all.take(0)).last().unwrap();
        let slot = all.slot(id);
        slot.step.store(u32::MAX, Ordering::SeqCst);
        slot.errno.store(u32::MAX, Ordering::SeqCst);
        slot.detail.store(u32::MAX, Ordering::SeqCst);
        let told = Progress { step: Step::Begin, errno: None, detail: u32::MAX };
        assert_eq!(all.progress(id), told);
        assert_eq!(all.take(0), None);
        all.progress(SlotId(u32::MAX));
    }

    #[test]
    fn stack_is_writable_from_its_first_to_its_last_byte() {
        let stack = Stack::plain();
        let (base, size) = stack.span();
        assert_eq!((base.addr() % 16, size % 16), (0, 0));
        // SAFETY: only this test uses it.
        unsafe {
            base.write(1);
            base.add(size - 1).write(2);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn slots_of_unknown_children_stay_taken_after_a_crash() {
        let mut all = SpawnSlots::new().unwrap();
        let (known, unknown) = (all.take(0).unwrap(), all.take(0).unwrap());
        let memory = all.memory().unwrap().try_clone().unwrap();
        let mut again = SpawnSlots::restored(memory, &[known]).unwrap();
        let next: Vec<SlotId> = (0..RESTING).map(|_| again.take(0).unwrap()).collect();
        assert!(!next.contains(&known) && !next.contains(&unknown));
    }
}

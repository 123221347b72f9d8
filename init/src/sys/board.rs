//! Memory that PID 1 and a child share between clone and exec: a row of slots where the
//! child writes how far it came, and stacks for children that have none of their own.
//!
//! A slot or a stack is given out again only when no child can touch it any more; who knows
//! when that is, is [`crate::spawn::Spawner`].

use super::child::Step;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Children between clone and exec at one time.
pub(crate) const SLOTS: usize = 4096;
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

/// The row of slots: one shared anonymous mapping, inherited by every child.
#[derive(Debug)]
pub(crate) struct Board {
    slots: NonNull<Slot>,
    free: Vec<u32>,
}

/// Index of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotId(u32);

impl Board {
    /// Maps it. ENOMEM.
    pub(crate) fn new() -> io::Result<Board> {
        let bytes = SLOTS * size_of::<Slot>();
        let slots = map(bytes, libc::MAP_SHARED)?.cast();
        let last = u32::try_from(SLOTS).unwrap_or(0);
        Ok(Board { slots, free: (0..last).rev().collect() })
    }

    /// A clean slot. None: all are in use.
    pub(crate) fn take(&mut self) -> Option<SlotId> {
        let id = SlotId(self.free.pop()?);
        let slot = self.slot(id);
        slot.alive.store(1, Ordering::SeqCst);
        slot.step.store(0, Ordering::SeqCst);
        slot.errno.store(0, Ordering::SeqCst);
        slot.detail.store(0, Ordering::SeqCst);
        Some(id)
    }

    /// Gives a slot back. No child may use it any more.
    pub(crate) fn give_back(&mut self, id: SlotId) {
        self.free.push(id.0);
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
        (self.0.as_ptr().wrapping_add(GUARD), STACK)
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

fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, flags | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping where the kernel likes.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

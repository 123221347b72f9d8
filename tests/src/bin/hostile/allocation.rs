//! How much memory some work asks for: the allocator of this program counts, by thread. What the
//! numbers must not be above is [`super::decoder`]'s to say.
#![allow(unsafe_code, reason = "an allocator can not be written otherwise")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes this thread has had more than it gave back.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that was since it was set.
    static MOST: Cell<isize> = const { Cell::new(0) };
    /// All that was asked for.
    static ASKED: Cell<usize> = const { Cell::new(0) };
}

/// The system's, counted.
pub struct Counting;

fn count(more: usize, less: usize) {
    let (more_held, less_held) = (more.cast_signed(), less.cast_signed());
    let held = HELD.get().wrapping_add(more_held).wrapping_sub(less_held);
    HELD.set(held);
    MOST.set(MOST.get().max(held));
    ASKED.set(ASKED.get().wrapping_add(more));
}

// SAFETY: all is the system's; what is counted allocates nothing and is dropped with no thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller has it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller has it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller has it.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as the caller has it.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// What some work has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// The most at one time, beyond what there was.
    pub at_once: usize,
    /// In all.
    pub in_all: usize,
}

/// What the work gives, and what it has asked for.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, Asked) {
    let (held, asked) = (HELD.get(), ASKED.get());
    MOST.set(held);
    let result = work();
    let at_once = usize::try_from(MOST.get().wrapping_sub(held)).unwrap_or(0);
    (result, Asked { at_once, in_all: ASKED.get().wrapping_sub(asked) })
}

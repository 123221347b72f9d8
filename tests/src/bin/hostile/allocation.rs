//! How much memory some work asks for: the allocator of this program counts, for all of it, so there is
//! one thread. What the number must not be above is [`super::decoder`]'s to say.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What the work gives, and the bytes it has asked for, in all: as many as it can have had at one time,
/// or more.
pub fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let region = Region::new(ALLOCATOR);
    let result = work();
    (result, region.change().bytes_allocated)
}

//! Plain values and readers that every component uses: limits, clocks, paths, /proc, retries.

pub(crate) mod clock;
#[cfg(debug_assertions)]
pub(crate) mod crash_test;
pub(crate) mod credentials;
pub(crate) mod limit;
pub(crate) mod mount_table;
pub(crate) mod paths;
pub(crate) mod procfs;
pub(crate) mod retry;

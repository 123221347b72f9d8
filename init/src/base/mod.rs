//! Plain values and readers that every component uses: limits, clocks, paths, /proc, retries.

pub(crate) mod clock;
#[cfg(debug_assertions)]
pub(crate) mod crash_test;
pub(crate) mod credentials;
pub(crate) mod kernel_cmdline;
pub(crate) mod limit;
pub(crate) mod log_level;
pub(crate) mod mode;
pub(crate) mod mount_table;
pub(crate) mod own_limits;
pub(crate) mod paths;
pub(crate) mod procfs;
pub(crate) mod reexec;
pub(crate) mod retry;
pub(crate) mod signals;
pub(crate) mod token;

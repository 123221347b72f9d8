//! Log lines and messages of init itself, and its records of past events.

pub(crate) mod boot_timings;
pub(crate) mod console_log;
pub(crate) mod event_log;
pub(crate) mod oom_score;
pub(crate) mod parent_notify;

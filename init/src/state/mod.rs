//! The state that survives an image of init: records in shared memory.
//!
//! [`store`] keeps one record for each unit, run and component. [`table`] has a map and a value
//! that track changes since the last commit. [`kind`] names the records.

pub(crate) mod carried;
pub(crate) mod event_in_progress;
pub(crate) mod kind;
pub(crate) mod store;
pub(crate) mod table;

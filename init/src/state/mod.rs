//! The state that outlives an image of init: records in shared memory.
//!
//! [`store`] keeps them: one record for each unit, run and component. [`table`] has a map, a queue and a value
//! that know what of them changed since the last commit. [`kind`] names the records.

pub(crate) mod carried;
pub(crate) mod event_in_progress;
pub(crate) mod kind;
pub(crate) mod store;
pub(crate) mod table;

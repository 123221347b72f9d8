//! The state that outlives an image of init: records in shared memory.
//!
//! [`store`] keeps them: one record for each unit, run and component. [`table`] is a map that
//! knows which of its entries changed since the last commit, and [`table`] a value that knows
//! whether it did. [`kind`] names the records.

pub(crate) mod carried;
pub(crate) mod event_in_progress;
pub(crate) mod kind;
pub(crate) mod store;
pub(crate) mod table;

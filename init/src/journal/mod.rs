//! The records of live components: [`state`] writes and reads them, [`carried`] has the form of the descriptors
//! and processes in them. The store of the records is [`crate::state`].

pub(crate) mod carried;
pub(crate) mod state;

//! The way back into init from its records: after a crash, an upgrade or a change of the root.
//! [`from_records`] reads the state, [`reconcile`] settles what the state does not say.

pub(crate) mod from_records;
pub(crate) mod reconcile;
pub(crate) mod records;

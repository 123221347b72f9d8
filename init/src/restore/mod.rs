//! The way back into init from its records: after a crash, an upgrade or a change of the root.
//! [`from_records`] reads the state, [`from_records`] settles what the state does not say.

pub(crate) mod from_records;
pub(crate) mod records;

//! Unit files of other init systems as native manifests, so that everything behind the
//! manifest (meaning, graph, diagnostics) is the same code for both. Nothing here reads a
//! file; the loader and `initctl convert` bring the text.

pub mod form;
pub mod import_outcome;
pub mod openrc;
pub(crate) mod set;
pub mod systemd;
pub mod sysv;

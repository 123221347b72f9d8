//! Imports unit files of other init systems as native manifests, so that the interpretation, the
//! graph and the diagnostics are the same code for both. Nothing here reads files; the loader and
//! `initctl convert` pass the text.

pub mod form;
pub mod fstab;
pub mod import_outcome;
pub mod openrc;
pub(crate) mod set;
pub mod systemd;
pub mod sysv;

use crate::text::unit_name::Suffix;

/// Returns true for the name of a systemd unit file, of fstab, or of a systemd drop-in. Native
/// files end in `.yaml`.
pub fn is_foreign(path: &str) -> bool {
    Suffix::of(path).is_some() || fstab::is_fstab(path) || path.ends_with(".conf")
}

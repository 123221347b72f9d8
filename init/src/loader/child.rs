//! What the loader child does: read everything, say what was found, hand it over. It is
//! alone in its process and may block, fail or be killed; nothing here runs in PID 1.

use super::disk::Disk;
use super::parcel::Delivery;
use crate::boot::identity;
use crate::paths::Paths;
use groundstate_units::control::place;
use groundstate_units::folder::Trust;
use groundstate_units::generation::Generation;
use groundstate_units::load::{Options, load};
use std::sync::Arc;

/// What the child is sent for.
pub(crate) struct Errand {
    /// Where the files are.
    pub(crate) paths: Paths,
    /// Files that have not changed since are not parsed again.
    pub(crate) previous: Option<Arc<Generation>>,
    /// The machine's names come first: this is its boot.
    pub(crate) identity: bool,
    /// Files that others own or can write are refused. Not in a container, whose files are
    /// often made under other ids than they are read with.
    pub(crate) strict: bool,
}

/// All of it.
pub(super) fn run(errand: &Errand) -> Delivery {
    let notes = if errand.identity { identity::establish() } else { Vec::new() };
    let paths = &errand.paths;
    let runtime = paths.runtime();
    let options = Options {
        settings: Some(paths.config.0.clone()),
        settings_named: paths.config.1,
        policy: Some(paths.policy.clone()),
        runtime_policy: Some(place::runtime_policy(runtime)),
        units: paths.units.clone(),
        standard_units: paths.standard_units(),
        runtime_units: Some(place::runtime_units(runtime)),
        trust: Trust { uid: nix::unistd::geteuid().as_raw(), strict: errand.strict },
        ..Options::system(nix::unistd::geteuid().as_raw())
    };
    let loaded = load(&Disk, &options, errand.previous.as_deref());
    Delivery { notes, refused: loaded.refused, generation: loaded.generation }
}

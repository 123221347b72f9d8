//! What the loader child does: read everything, say what was found, hand it over. It is
//! alone in its process and may block, fail or be killed; nothing here runs in PID 1.

use super::disk::Disk;
use super::failed_load::{LeftOut, Progress};
use super::source_put;
use super::transfer::LoadResult;
use crate::base::Mode;
use crate::base::paths::Paths;
use crate::loader::identity;
use groundstate_units::control::place;
use groundstate_units::load::folder::Trust;
use groundstate_units::load::{self, Loaded, Options};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What of the generation in force is made anew.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Everything.
    Whole,
    /// Only the files of this source are new: they are in the sealed memfd. None: it is to hold
    /// nothing.
    Source(&'a Name, Option<BorrowedFd<'a>>),
    /// Only the instances of templates.
    Instances,
}

/// What the child is sent for.
pub(crate) struct LoadRequest<'a> {
    /// Where the files are.
    pub(crate) paths: Paths,
    /// Files that have not changed since are not parsed again.
    pub(crate) previous: Option<Arc<Generation>>,
    /// The machine's names come first: this is its boot.
    pub(crate) identity: bool,
    /// Files that others own or can write are refused. Not in a container, whose files are
    /// often made under other ids than they are read with.
    pub(crate) strict: bool,
    /// What is to be made anew.
    pub(crate) part: Part<'a>,
    /// What the operator asks for, which may be instances of templates.
    pub(crate) wanted: Vec<Name>,
    /// Files that earlier loaders did not come past.
    pub(crate) left_out: LeftOut,
}

impl LoadRequest<'_> {
    /// To read everything, for an init of this kind.
    pub(crate) fn of(paths: &Paths, mode: Mode) -> LoadRequest<'static> {
        let strict = mode != Mode::Container;
        LoadRequest {
            paths: paths.clone(),
            previous: None,
            identity: false,
            strict,
            part: Part::Whole,
            wanted: Vec::new(),
            left_out: LeftOut::default(),
        }
    }
}

/// All of it.
pub(super) fn run(errand: &LoadRequest<'_>, progress: &Progress<'_>) -> LoadResult {
    let notes = if errand.identity { identity::establish() } else { Vec::new() };
    let paths = &errand.paths;
    let runtime = paths.runtime();
    let options = Options {
        settings: Some(paths.config.0.clone()),
        settings_named: paths.config.1,
        policy: Some(paths.policy.clone()),
        runtime_policy: Some(paths.runtime_policy()),
        units: paths.units.clone(),
        standard_units: paths.standard_units(),
        runtime_units: Some(place::runtime_units(runtime)),
        sources: Some(place::sources(runtime)),
        wanted: errand.wanted.clone(),
        trust: Trust { uid: nix::unistd::geteuid().as_raw(), strict: errand.strict },
        ..Options::system(nix::unistd::geteuid().as_raw())
    };
    let previous = errand.previous.as_deref().map(Generation::unpacked);
    let changed = match (errand.part, &previous) {
        (Part::Source(source, body), Some(previous)) => {
            Some(source_put::run(progress, &options, previous, source, body))
        }
        (Part::Instances, Some(previous)) => {
            let loaded = load::instances(&Disk::new(progress), &options, previous);
            Some(loaded.map(|loaded| loaded.generation))
        }
        (Part::Whole | Part::Source(_, _) | Part::Instances, _) => None,
    };
    match changed {
        Some(Ok(generation)) => return LoadResult { generation, ..LoadResult::default() },
        Some(Err(refusal)) => {
            return LoadResult { refusal: Some(refusal), ..LoadResult::default() };
        }
        None => {}
    }
    let disk = Disk::new(progress);
    let Loaded { refused, generation, .. } = load::load(&disk, &options, previous.as_ref());
    LoadResult { notes, refused, refusal: None, generation, memory: None }
}

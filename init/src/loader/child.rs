//! The loader child: reads all unit files and writes the result. It may block, fail or be killed;
//! nothing here runs in PID 1.

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

/// The part of the present generation that is loaded again.
#[derive(Clone, Copy)]
pub(crate) enum Part<'a> {
    /// Everything.
    Whole,
    /// Only the files of this source, from the sealed memfd; `None` empties the source.
    Source(&'a Name, Option<BorrowedFd<'a>>),
    /// Only the instances of templates.
    Instances,
}

/// The task of the child.
pub(crate) struct LoadRequest<'a> {
    /// The locations of the files.
    pub(crate) paths: Paths,
    /// The previous generation: unchanged files are not parsed again.
    pub(crate) previous: Option<Arc<Generation>>,
    /// True at a machine's boot, to set the host name and machine-id first.
    pub(crate) identity: bool,
    /// True to refuse files that other users own or can write. Not in a container, whose files
    /// often have other owners.
    pub(crate) strict: bool,
    /// The part to load.
    pub(crate) part: Part<'a>,
    /// Names requested by the operator, which may be instances of templates.
    pub(crate) wanted: Vec<Name>,
    /// Files on which earlier loaders failed.
    pub(crate) left_out: LeftOut,
}

impl LoadRequest<'_> {
    /// A request to read everything, for an init of this kind.
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

/// Carries out the task.
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

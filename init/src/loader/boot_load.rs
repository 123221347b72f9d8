//! The first load, which the boot waits for.

use super::child::LoadRequest;
use super::failed_load::LeftOut;
use super::send;
use super::transfer::Parcel;
use crate::base::Mode;
use crate::base::paths::Paths;
use crate::sys::Pid;
use groundstate_units::text::name::Name;
use mio::Registry;
use std::io;

/// Forks the loader for the boot; `targets` may be instances of templates.
pub(crate) fn send_first(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
) -> io::Result<(Pid, Parcel)> {
    send_without(registry, paths, mode, targets, LeftOut::default())
}

/// Repeats it without the files on which earlier loaders failed.
pub(crate) fn send_without(
    registry: &Registry,
    paths: &Paths,
    mode: Mode,
    targets: [Option<&Name>; 2],
    left_out: LeftOut,
) -> io::Result<(Pid, Parcel)> {
    let wanted: Vec<Name> = targets.into_iter().flatten().cloned().collect();
    let identity = mode == Mode::Machine;
    send(registry, &LoadRequest { identity, wanted, left_out, ..LoadRequest::of(paths, mode) })
}

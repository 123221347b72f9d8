//! `source-put`, `source-drop`, `source-list`: what controllers own. The files are never
//! looked at here: the memfd goes to the loader, and what comes back is flipped to.

use super::client::Caller;
use crate::fd;
use crate::fd::Foreign;
use groundstate_units::control::request::{Malformed, Request, Verb};
use groundstate_units::unit::settings::Settings;

/// The settings name this uid for the source in question; of a list, for any.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other verb is a source's")]
pub(crate) fn is_owner(settings: &Settings, caller: Caller, verb: &Verb) -> bool {
    match verb {
        Verb::SourcePut { source, .. } | Verb::SourceDrop { source, .. } => {
            settings.sources.get(source).is_some_and(|owner| caller.is_user(*owner))
        }
        Verb::SourceList {} => settings.sources.values().any(|owner| caller.is_user(*owner)),
        _ => false,
    }
}

/// Descriptors that came with a request that has no use for them.
pub(crate) fn count_unused(request: &Result<Request, Malformed>, passed: &[Foreign]) {
    let verb = request.as_ref().map(|request| &request.verb);
    if !matches!(verb, Ok(Verb::SourcePut { .. })) {
        fd::dropped(passed.len());
    }
}

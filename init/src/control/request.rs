//! Questions about a request: who may make it, and what it names.

use super::client::Caller;
use crate::fd::{self, Foreign};
use groundstate_units::control::request::{Malformed, Request, Verb};
use groundstate_units::import::systemd::UnitName;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
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

/// What a wish names that may be an instance of a template.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other wish brings a target in")]
pub(crate) fn instances_of(wish: &Event) -> impl Iterator<Item = &Name> {
    let named: Vec<&Name> = match wish {
        Event::SetGoal(goal) => {
            goal.targets.iter().chain(goal.want.iter().map(|(name, _)| name)).collect()
        }
        Event::Want { target, .. } => vec![target],
        Event::SetPolicy(policy) => policy.enable.iter().collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter(|name| UnitName::of(name.as_str()).is_instance())
}

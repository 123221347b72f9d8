//! Maps paths to resources and checks rights; no other module knows the paths. Each resource
//! answers in its own module.

use super::answer::{Answer, Outcome};
use super::caller::{Action, Role};
use super::page::List;
use super::request::{Request, cleaned, unescape};
use super::view::View;
use super::{discovery, machines, states, units, why};

/// Equivalent prefixes.
pub const PREFIXES: [&str; 2] = ["/fleet/v1", "/v1-alpha"];

/// The resource of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
    /// `/`, or a prefix alone.
    Root,
    /// `/units`
    Units,
    /// `/units/NAME`
    Unit(String),
    /// `/state`
    States,
    /// `/state/NAME`
    State(String),
    /// `/machines`
    Machines,
    /// `/discovery`
    Discovery,
    /// `/why/NAME`; an extension.
    Why(String),
    /// `/drain/ID`; an extension.
    Drain(String),
    /// `/events`; an extension.
    Events,
    /// `/logs/NAME`; an extension.
    Logs(String),
    /// `/metrics`
    Metrics,
    /// `/healthz`; an extension.
    Health,
    /// `/ui`; an extension.
    Page,
    /// An unknown path.
    Unknown,
}

impl Resource {
    /// The list of a paged resource.
    pub fn list(&self) -> Option<List> {
        match self {
            Resource::Units => Some(List::Units),
            Resource::States => Some(List::States),
            Resource::Machines => Some(List::Machines),
            Resource::Root
            | Resource::Unit(_)
            | Resource::State(_)
            | Resource::Discovery
            | Resource::Why(_)
            | Resource::Drain(_)
            | Resource::Events
            | Resource::Logs(_)
            | Resource::Metrics
            | Resource::Health
            | Resource::Page
            | Resource::Unknown => None,
        }
    }
}

/// Returns the resource of a clean path.
pub fn resource(path: &str) -> Resource {
    match path {
        "/" => return Resource::Root,
        "/metrics" => return Resource::Metrics,
        "/healthz" => return Resource::Health,
        "/ui" | "/ui/" => return Resource::Page,
        _ => {}
    }
    let Some(rest) = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix)) else {
        return Resource::Unknown;
    };
    if rest.is_empty() {
        return Resource::Root;
    }
    let Some(rest) = rest.strip_prefix('/') else { return Resource::Unknown };
    let (kind, item) = rest.split_once('/').map_or((rest, None), |(kind, item)| (kind, Some(item)));
    let item = item.map(|item| unescape(item, false).unwrap_or_default());
    if item.as_ref().is_some_and(|item| item.is_empty() || item.contains('/')) {
        return Resource::Unknown;
    }
    match (kind, item) {
        ("units", None) => Resource::Units,
        ("units", Some(name)) => Resource::Unit(name),
        ("state", None) => Resource::States,
        ("state", Some(name)) => Resource::State(name),
        ("machines", None) => Resource::Machines,
        ("discovery", None) => Resource::Discovery,
        ("events", None) => Resource::Events,
        ("why", Some(name)) => Resource::Why(name),
        ("drain", Some(id)) => Resource::Drain(id),
        ("logs", Some(name)) => Resource::Logs(name),
        _ => Resource::Unknown,
    }
}

/// Decides a request. The server answers [`Resource::Events`], [`Resource::Logs`],
/// [`Resource::Metrics`], [`Resource::Health`] and [`Resource::Page`], for which a snapshot is not
/// enough.
pub fn decide(request: &Request, view: &View<'_>) -> Outcome {
    if let Some(mut path) = cleaned(&request.path) {
        if !request.query.is_empty() {
            path = format!("{path}?{}", request.query);
        }
        return Answer::moved(path).into();
    }
    let resource = resource(&request.path);
    if let Some(refusal) = forbidden(request, &resource) {
        return refusal.into();
    }
    match resource {
        Resource::Root => Answer::refusal(405, "").into(),
        Resource::Units => units::list(request, view).into(),
        Resource::Unit(name) => units::item(request, &name, view.now),
        Resource::States => states::list(request, view).into(),
        Resource::State(name) => states::item(request, &name, view.now).into(),
        Resource::Machines => machines::collection(request, view),
        Resource::Drain(id) => machines::drain(request, &id, view.now),
        Resource::Discovery => discovery::answer(request).into(),
        Resource::Why(name) => why::item(request, &name, view.now).into(),
        Resource::Events
        | Resource::Logs(_)
        | Resource::Metrics
        | Resource::Health
        | Resource::Page
        | Resource::Unknown => Answer::refusal(404, "").into(),
    }
}

/// Returns 403 if the caller's role does not allow the request.
pub fn forbidden(request: &Request, resource: &Resource) -> Option<Answer> {
    let reads = matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    let action = match resource {
        _ if reads && !matches!(resource, Resource::Logs(_)) => Action::Read,
        Resource::Logs(_) => Action::Logs,
        Resource::Machines | Resource::Drain(_) => Action::ChangeMachine,
        Resource::Root
        | Resource::Units
        | Resource::Unit(_)
        | Resource::States
        | Resource::State(_)
        | Resource::Discovery
        | Resource::Why(_)
        | Resource::Events
        | Resource::Metrics
        | Resource::Health
        | Resource::Page
        | Resource::Unknown => Action::ChangeUnit,
    };
    let caller = &request.caller;
    if caller.role == Role::Nothing {
        return Some(Answer::refusal(403, "the name in your certificate has no role"));
    }
    if !caller.may(action) {
        return Some(Answer::refusal(403, "your role does not permit this"));
    }
    if let Resource::Unit(name) | Resource::State(name) | Resource::Why(name) | Resource::Logs(name) =
        resource
        && !caller.sees(name)
    {
        return Some(Answer::refusal(403, "your role does not cover this unit"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_the_same_resources_as_in_fleet() {
        let unit = |name: &str| Resource::Unit(name.to_string());
        let table = [
            ("/", Resource::Root),
            ("/fleet/v1", Resource::Root),
            ("/v1-alpha", Resource::Root),
            ("/fleet/v1/", Resource::Unknown),
            ("/fleet", Resource::Unknown),
            ("/fleet/v1x", Resource::Unknown),
            ("/bogus", Resource::Unknown),
            ("/v1-alpha/units", Resource::Units),
            ("/fleet/v1/units/", Resource::Unknown),
            ("/fleet/v1/units/x/", Resource::Unknown),
            ("/fleet/v1/units/x/y", Resource::Unknown),
            ("/fleet/v1/units/foo%2Fbar.service", Resource::Unknown),
            ("/fleet/v1/units/a%401.service", unit("a@1.service")),
            ("/fleet/v1/machines/m1", Resource::Unknown),
            ("/fleet/v1/state", Resource::States),
        ];
        for (path, expected) in table {
            assert_eq!(resource(path), expected, "{path}");
        }
    }
}

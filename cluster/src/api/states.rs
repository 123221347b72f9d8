//! `/state`: states of units, as their machines report them.

use super::answer::Answer;
use super::page::List;
use super::request::Request;
use super::view::View;
use crate::machine::MachineId;
use crate::record::StateRecord;
use crate::snapshot::Snapshot;
use crate::unit_name::UnitName;
use crate::wire;

const ONLY_GET: &str = "only GET supported against this resource";

/// `/state`
pub fn list(request: &Request, view: &View<'_>) -> Answer {
    if request.method != "GET" {
        return Answer::refusal(405, ONLY_GET);
    }
    let pages = view.pages(List::States);
    let start = match pages.start(&request.values("nextPageToken")) {
        Ok(start) => start,
        Err(words) => return Answer::refusal(400, words),
    };
    let snapshot = view.of(&start);
    let (machine, unit) = (request.filter("machineID"), request.filter("unitName"));
    let wanted = |name: &UnitName, id: &MachineId| {
        machine.as_ref().is_none_or(|own| own == id.as_str())
            && unit.as_ref().is_none_or(|own| own == name.as_str())
            && request.caller.sees_unit(name)
    };
    let all = snapshot
        .states
        .iter()
        .flat_map(|(name, on)| on.iter().map(move |(id, kept)| (name, id, &kept.record)));
    // The separator is smaller than any character of a name, so the keys sort like the two maps.
    let items = all
        .filter(|(name, id, _)| wanted(name, id))
        .map(|(name, id, record)| (format!("{name}\0{id}"), (name, id, record)));
    let cut = pages.cut(items, &start, snapshot.revision);
    let states: Vec<_> =
        cut.items.into_iter().map(|(name, id, record)| entity(name, id, record)).collect();
    // fleet's clients detect the end by an empty page.
    let insecure = view.insecure && !states.is_empty();
    Answer::json(&wire::UnitStatePage { insecure, states, next_page_token: cut.next })
}

/// `/state/NAME`: the state on one machine, if there are several.
pub fn item(request: &Request, name: &str, snapshot: &Snapshot) -> Answer {
    if request.method != "GET" {
        return Answer::refusal(405, ONLY_GET);
    }
    let found = snapshot.states.get_key_value(name).and_then(|(name, on)| {
        // The machine that the unit left may still have a state.
        let placed = snapshot.place_of(name).and_then(|id| on.get_key_value(id));
        let (id, kept) = placed.or_else(|| on.iter().next())?;
        Some(entity(name, id, &kept.record))
    });
    match found {
        Some(state) => Answer::json(&state),
        None => Answer::refusal(404, "unit state does not exist"),
    }
}

/// Returns a state as clients see it.
pub fn entity(name: &UnitName, machine: &MachineId, record: &StateRecord) -> wire::UnitState {
    wire::UnitState {
        ended: record.ended.map(|ended| ended.as_str().to_string()).unwrap_or_default(),
        hash: record.hash.clone(),
        machine_id: machine.to_string(),
        name: name.to_string(),
        run: record.run.map(|run| run.to_string()).unwrap_or_default(),
        systemd_active_state: record.active.clone(),
        systemd_load_state: record.load.clone(),
        systemd_sub_state: record.sub.clone(),
    }
}

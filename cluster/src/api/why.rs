//! `/why/NAME`: where a unit is, or why it is nowhere. The engine writes its reasons into
//! the registry ([`crate::registry::explain`]); here they are put into words together
//! with what else is known.

use super::answer::Answer;
use super::request::Request;
use crate::desired::Desired;
use crate::machine::MachineId;
use crate::picture::{Kept, Picture};
use crate::record::{StateRecord, WhyRecord};
use crate::unit_name::UnitName;
use crate::wire;
use crate::withheld::WITHHELD;

/// `/why/NAME`
pub fn item(request: &Request, name: &str, picture: &Picture) -> Answer {
    if request.method != "GET" {
        return Answer::refusal(405, "only GET supported against this resource");
    }
    match picture.units.get_key_value(name) {
        Some((name, _)) => {
            let mut why = entity(picture, name);
            // A prefix keeps the names of all other units.
            let caller = &request.caller;
            why.text = caller.conceal(&why.text);
            why.machines.values_mut().for_each(|words| *words = caller.conceal(words));
            Answer::json(&why)
        }
        None => match picture.withheld.get(name) {
            Some(name) => Answer::json(&wire::Why {
                name: name.to_string(),
                text: WITHHELD.to_string(),
                ..wire::Why::default()
            }),
            None => Answer::refusal(404, "unit does not exist"),
        },
    }
}

/// What is known of where the unit is.
pub fn entity(picture: &Picture, name: &UnitName) -> wire::Why {
    let desired = picture.desired_of(name);
    let global = picture.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let place = picture.place_of(name);
    let mut why = wire::Why {
        created: picture.units.get(name).map_or(0, |kept| kept.created),
        current_state: picture.reached_by(name).to_string(),
        desired_state: desired.to_string(),
        machine_id: place.map(ToString::to_string).unwrap_or_default(),
        name: name.to_string(),
        ..wire::Why::default()
    };
    why.text = if name.is_template() {
        "it is a template: only its instances run".to_string()
    } else if desired == Desired::Inactive {
        "it is not wished on any machine (desired state inactive)".to_string()
    } else if global {
        let refusals = global_refusals(picture, name);
        let beyond = WhyRecord::beyond(refusals.len());
        why.machines = refusals.into_iter().take(WhyRecord::MACHINES).collect();
        let states = picture.states.get(name).map_or(0, |on| on.len());
        let beyond = beyond.replace("of them", "that have a reason");
        format!("it is global: {states} of {} machines run it{beyond}", picture.machines.len())
    } else if let Some(id) = place {
        let reason = picture.states.get(name).and_then(|on| on.get(id));
        match reason.and_then(|kept| kept.record.reason.clone()) {
            Some(reason) => format!("it is on {id}: {reason}"),
            None if picture.machines.contains_key(id) => format!("it is on {id}"),
            None => format!("it is on {id}, which does not answer"),
        }
    } else if let Some(kept) = picture.whys.get(name) {
        let told = kept.record.machines.iter();
        why.machines = told.map(|(id, words)| (id.to_string(), words.clone())).collect();
        why.unplaceable = true;
        kept.record.text.clone()
    } else if picture.leader.is_none() {
        "no engine leads the cluster: nothing is scheduled".to_string()
    } else {
        "the engine has not looked at it yet".to_string()
    };
    why
}

/// Why machines do not run a global unit, by what they say and what the metadata says.
fn global_refusals(
    picture: &Picture,
    name: &UnitName,
) -> std::collections::BTreeMap<String, String> {
    let Some(kept) = picture.units.get(name) else { return Default::default() };
    let on = picture.states.get(name);
    let others = picture.machines.keys().filter(|id| on.is_none_or(|on| !on.contains_key(*id)));
    let told = others.filter_map(|id| {
        let machine = picture.machine(id)?;
        let seat = crate::placement::Seat { machine, ..Default::default() };
        let words = match seat.keeps_metadata(&kept.record.asks) {
            Err(refusal) => refusal.to_string(),
            Ok(()) => "it does not run it: a conflict there, or not begun yet".to_string(),
        };
        Some((id.to_string(), words))
    });
    let says = |(id, kept): (&MachineId, &Kept<StateRecord>)| {
        Some((id.to_string(), kept.record.reason.clone()?))
    };
    let said = on.into_iter().flatten().filter_map(says);
    said.chain(told).collect()
}

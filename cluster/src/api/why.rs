//! `/why/NAME`: where a unit is, or why it has no place. The engine records its reasons in the
//! registry ([`crate::registry::explain`]); this module combines them with other facts in a
//! sentence.

use super::answer::Answer;
use super::request::Request;
use crate::desired::Desired;
use crate::record::{StateRecord, WhyRecord};
use crate::snapshot::Snapshot;
use crate::suspicious_read_guard::WITHHELD;
use crate::unit_name::UnitName;
use crate::wire;
use std::collections::BTreeMap;

/// `/why/NAME`
pub fn item(request: &Request, name: &str, snapshot: &Snapshot) -> Answer {
    if request.method != "GET" {
        return Answer::refusal(405, "only GET supported against this resource");
    }
    match snapshot.units.get_key_value(name) {
        Some((name, _)) => {
            let mut why = entity(snapshot, name);
            // A caller with prefixes must not see the names of other units.
            let caller = &request.caller;
            why.text = caller.conceal(&why.text);
            why.machines.values_mut().for_each(|words| *words = caller.conceal(words));
            Answer::json(&why)
        }
        None => match snapshot.withheld.get(name) {
            Some(name) => Answer::json(&wire::Why {
                name: name.to_string(),
                text: WITHHELD.to_string(),
                ..wire::Why::default()
            }),
            None => Answer::refusal(404, "unit does not exist"),
        },
    }
}

/// Returns what is known about the unit's place.
pub fn entity(snapshot: &Snapshot, name: &UnitName) -> wire::Why {
    let desired = snapshot.desired_of(name);
    let is_global = snapshot.units.get(name).is_some_and(|kept| kept.record.asks.global);
    let place = snapshot.place_of(name);
    let mut why = wire::Why {
        created: snapshot.units.get(name).map_or(0, |kept| kept.created),
        current_state: snapshot.reached_by(name).to_string(),
        desired_state: desired.to_string(),
        machine_id: place.map(ToString::to_string).unwrap_or_default(),
        name: name.to_string(),
        ..wire::Why::default()
    };
    why.text = if name.is_template() {
        "it is a template: only its instances run".to_string()
    } else if desired == Desired::Inactive {
        "not placed: the desired state is inactive".to_string()
    } else if is_global {
        global(snapshot, name, &mut why)
    } else if let Some(id) = place {
        let reason = snapshot.states.get(name).and_then(|on| on.get(id));
        match reason.and_then(|kept| kept.record.reason.clone()) {
            Some(reason) => format!("it is on {id}: {reason}"),
            None if snapshot.machines.contains_key(id) => format!("it is on {id}"),
            None => format!("it is on {id}, which does not answer"),
        }
    } else if let Some(kept) = snapshot.whys.get(name) {
        let machines = kept.record.machines.iter();
        why.machines = machines.map(|(id, words)| (id.to_string(), words.clone())).collect();
        why.unplaceable = true;
        kept.record.text.clone()
    } else if snapshot.leader.is_none() {
        "no engine leads the cluster: nothing is scheduled".to_string()
    } else {
        "the engine has not looked at it yet".to_string()
    };
    why
}

/// Describes a global unit: counts in the returned sentence, and in `why` a line for each machine
/// where it is not active.
fn global(snapshot: &Snapshot, name: &UnitName, why: &mut wire::Why) -> String {
    let Some(kept) = snapshot.units.get(name) else { return String::new() };
    let states = snapshot.states.get(name);
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    let mut counts = [0usize; 4];
    let [active, failed, pending, refused] = &mut counts;
    for id in snapshot.machines.keys() {
        let (count, line) = match states.and_then(|states| states.get(id)) {
            Some(state) if state.record.active == "active" => {
                (&mut *active, state.record.reason.clone())
            }
            Some(state) => {
                let StateRecord { active, sub, reason, .. } = &state.record;
                let why = reason.as_ref().map(|reason| format!(": {reason}"));
                let line = format!("{active} ({sub}){}", why.unwrap_or_default());
                (if active == "failed" { &mut *failed } else { &mut *pending }, Some(line))
            }
            None => match snapshot.host(id).takes_global(name, &kept.record.asks) {
                Err(refusal) => (&mut *refused, Some(refusal.to_string())),
                Ok(()) => (&mut *pending, Some("not reported yet".to_string())),
            },
        };
        *count += 1;
        lines.extend(line.map(|line| (id.to_string(), line)));
    }
    let beyond = WhyRecord::beyond(lines.len()).replace("of them", "machines with a reason");
    why.machines = lines.into_iter().take(WhyRecord::MACHINES).collect();
    let [active, failed, pending, refused] = counts;
    why.refusals = refused;
    let mut text =
        format!("it is global: active on {active} of {} machines", snapshot.machines.len());
    for (count, word) in
        [(failed, "failed on"), (pending, "not active on"), (refused, "cannot run on")]
    {
        if count > 0 {
            text.push_str(&format!(", {word} {count}"));
        }
    }
    text + &beyond
}

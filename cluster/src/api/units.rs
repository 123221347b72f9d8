//! `/units`: reads and writes units. The checks of a PUT have fleet's order, because a client sees
//! which one fails first.

use super::answer::{Answer, Outcome};
use super::first_machines;
use super::page::{List, Start};
use super::request::Request;
use super::view::View;
use crate::desired::Desired;
use crate::machine::MachineId;
use crate::registry;
use crate::requirement::Requirement;
use crate::signature::Signature;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::unit_file::{MOST_OPTIONS, UnitFile, UnitOption};
use crate::unit_name::UnitName;
use crate::wire;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// `/units`
pub fn list(request: &Request, view: &View<'_>) -> Answer {
    if request.method != "GET" {
        return Answer::refusal(405, "only GET supported against this resource");
    }
    let pages = view.pages(List::Units);
    let start = match pages.start(&request.values("nextPageToken")) {
        Ok(start) => start,
        Err(words) => return Answer::refusal(400, words),
    };
    let snapshot = view.of(&start);
    let seen = snapshot.units.keys().filter(|name| request.caller.sees_unit(name));
    let items = seen.map(|name| (name.to_string(), name));
    let cut = pages.cut(items, &start, snapshot.revision);
    let units = cut.items.into_iter().filter_map(|name| entity(snapshot, name)).collect();
    Answer::json(&wire::UnitPage { units, next_page_token: cut.next })
}

impl<'p> View<'p> {
    /// The snapshot that the page is cut from.
    pub fn of(&self, start: &Start) -> &'p Snapshot {
        match start {
            Start::After { revision, .. } if *revision != self.now.revision => {
                self.then.unwrap_or(self.now)
            }
            Start::First | Start::Counted(_) | Start::After { .. } => self.now,
        }
    }
}

/// `/units/NAME`
pub fn item(request: &Request, name: &str, snapshot: &Snapshot) -> Outcome {
    match request.method.as_str() {
        "GET" => get(name, snapshot).into(),
        "DELETE" => destroy(name, snapshot),
        "PUT" => put(request, name, snapshot),
        _ => {
            Answer::refusal(405, "only GET, PUT and DELETE supported against this resource").into()
        }
    }
}

/// Returns a unit as clients see it, or `None` if it does not exist.
pub fn entity(snapshot: &Snapshot, name: &UnitName) -> Option<wire::Unit> {
    let content = &snapshot.units.get(name)?.record;
    let global = content.asks.global;
    let place = snapshot.place_of(name).filter(|_| !global);
    let schedule = snapshot.globals.get(name).map(|schedule| &schedule.record);
    Some(wire::Unit {
        current_state: match global {
            true => String::new(),
            false => snapshot.reached_by(name).to_string(),
        },
        desired_state: snapshot.desired_of(name).to_string(),
        machine_id: place.map(ToString::to_string).unwrap_or_default(),
        name: name.to_string(),
        options: content.file.regrouped(),
        signature: content.signature.clone(),
        instead_of: None,
        instead_of_state: None,
        machines: schedule.and_then(|schedule| {
            Some(schedule.first.as_ref()?.iter().map(ToString::to_string).collect())
        }),
        before: schedule.and_then(|schedule| schedule.before.as_ref()).map(|before| wire::Before {
            options: before.options.regrouped(),
            signature: before.signature.clone(),
        }),
    })
}

fn get(name: &str, snapshot: &Snapshot) -> Answer {
    let found = snapshot.units.get_key_value(name).and_then(|(name, _)| entity(snapshot, name));
    match found {
        Some(unit) => Answer::json(&unit),
        None => missing(name, snapshot),
    }
}

/// 404; for an unreadable unit with the reason.
fn missing(name: &str, snapshot: &Snapshot) -> Answer {
    match unreadable(name, snapshot) {
        Some(words) => Answer::refusal(404, words),
        None => Answer::refusal(404, "unit does not exist"),
    }
}

fn unreadable(name: &str, snapshot: &Snapshot) -> Option<String> {
    let subject = crate::key::Subject::Unit(UnitName::new(name).ok()?);
    let key = snapshot.keys().of(&subject);
    let error = snapshot.set_aside.get(&key)?;
    Some(format!("the value of {key} cannot be read: {error}; DELETE removes it"))
}

fn destroy(name: &str, snapshot: &Snapshot) -> Outcome {
    let written = UnitName::new(name).ok().and_then(|own| registry::destroy(snapshot, &own));
    match written {
        Some(transaction) => Outcome::Write(transaction, Answer::empty(204)),
        None => missing(name, snapshot).into(),
    }
}

/// The body of a PUT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PutRequest {
    name: String,
    file: UnitFile,
    desired: String,
    signature: Option<Signature>,
    /// The machines that take the file first; empty for all.
    machines: Option<BTreeSet<MachineId>>,
    /// The hash of the file that must be stored; empty for any.
    instead_of: String,
    /// The desired state that must be stored; empty for any.
    instead_of_state: String,
}

fn put(request: &Request, name: &str, snapshot: &Snapshot) -> Outcome {
    match checked_put(request, name, snapshot) {
        Ok(outcome) => outcome,
        Err(answer) => answer.into(),
    }
}

fn checked_put(request: &Request, in_url: &str, snapshot: &Snapshot) -> Result<Outcome, Answer> {
    let bad = |words: String| Answer::refusal(400, words);
    check_content_type(request)?;
    let wish = read(&request.body).map_err(bad)?;
    // The size is checked first, because a large unit would delay the lease renewals on this
    // thread.
    wish.file.check_size().map_err(|error| bad(error.to_string()))?;
    if !wish.name.is_empty() && wish.name != in_url {
        let inner = &wish.name;
        return Err(bad(format!(
            "name in URL \"{in_url}\" differs from unit name in request body \"{inner}\""
        )));
    }
    let name = UnitName::new(in_url).map_err(|error| bad(error.to_string()))?;
    let there = snapshot.units.get(&name);
    check_instead(&wish, there.map(|kept| kept.record.hash.as_str()), snapshot.desired_of(&name))?;
    if there.is_none() {
        if wish.file.options.is_empty() {
            let words = "unit does not exist and options field empty";
            return Err(Answer::refusal(409, words));
        }
        if let Some(words) = unreadable(in_url, snapshot) {
            return Err(Answer::refusal(409, words));
        }
    }
    let file = &wish.file;
    let differs = |kept: &crate::snapshot::Kept<_>| {
        let content: &std::sync::Arc<crate::snapshot::Content> = &kept.record;
        !file.options.is_empty() && content.hash != file.hash()
    };
    let stores_file = there.is_none_or(differs);
    if stores_file {
        check_file(&name, file, snapshot).map_err(bad)?;
        check_reach(&name, file, request)?;
    } else if wish.desired.is_empty() && wish.signature.is_none() && wish.machines.is_none() {
        let words = "must provide DesiredState to update existing unit";
        return Err(Answer::refusal(409, words));
    }
    let default = if stores_file { Desired::Inactive } else { snapshot.desired_of(&name) };
    let desired = desired_state(&wish.desired).map_err(bad)?.unwrap_or(default);
    if name.is_template() && desired != Desired::Inactive {
        return Err(bad(format!("cannot activate template \"{name}\"")));
    }
    let new = stores_file.then_some((file, wish.desired.as_str()));
    first_machines::check(&name, wish.machines.as_ref(), new, snapshot)?;
    let first = wish.machines.as_ref().filter(|machines| !machines.is_empty());
    if stores_file {
        let signature = wish.signature.as_ref();
        let transaction = registry::create_signed(snapshot, &name, file, signature, desired, first);
        return Ok(Outcome::Write(transaction, Answer::empty(201)));
    }
    let is_stored = snapshot.desired.get(&name).is_some_and(|kept| kept.record.desired == desired);
    let known = there.and_then(|kept| kept.record.signature.as_ref());
    // A signature counts only together with the stored file; a change of desired state says nothing
    // about the file.
    let new_signature = wish.signature.filter(|new| !file.options.is_empty() && Some(new) != known);
    let desired_write =
        (!is_stored).then(|| registry::set_desired(snapshot, &name, desired)).flatten();
    let signed = new_signature.and_then(|signature| registry::sign(snapshot, &name, &signature));
    if desired_write.is_some() && wish.machines.is_some() {
        let words = "desiredState and machines cannot be changed in one request";
        return Err(bad(words.to_string()));
    }
    let spread = wish.machines.as_ref().and_then(|_| registry::spread(snapshot, &name, first));
    let all = [desired_write, signed, spread].into_iter().flatten().reduce(Transaction::and);
    Ok(match all {
        Some(all) => Outcome::Write(all, Answer::empty(204)),
        None => Answer::empty(204).into(),
    })
}

/// Checks the required file and desired state.
///
/// # Errors
/// The stored ones differ.
fn check_instead(wish: &PutRequest, there: Option<&str>, desired: Desired) -> Result<(), Answer> {
    if !wish.instead_of.is_empty() && there != Some(&wish.instead_of) {
        return Err(Answer::refusal(412, "the unit's file has changed, or the unit is gone"));
    }
    match wish.instead_of_state.is_empty() || wish.instead_of_state == desired.as_str() {
        true => Ok(()),
        false => Err(Answer::refusal(412, format!("the unit's desired state is now {desired}"))),
    }
}

/// Returns the desired state, or `None` if the word is empty.
///
/// # Errors
/// The word is not a desired state.
fn desired_state(word: &str) -> Result<Option<Desired>, String> {
    match word {
        "" => Ok(None),
        word => {
            word.parse().map(Some).map_err(|error: crate::desired::DesiredError| error.to_string())
        }
    }
}

/// Requires that the head declares a JSON body.
///
/// # Errors
/// 415, for the client.
pub fn check_content_type(request: &Request) -> Result<(), Answer> {
    let [one] = request.content_types.as_slice() else {
        let count = request.content_types.len();
        return Err(Answer::refusal(415, format!("expected 1 Content-Type, got {count}")));
    };
    if one.split(';').next().map(str::trim) != Some("application/json") {
        return Err(Answer::refusal(415, "only acceptable Content-Type is application/json"));
    }
    Ok(())
}

/// Checks that the patterns of the unit cannot move or block units that the caller may not change.
///
/// # Errors
/// The first pattern that can.
fn check_reach(name: &UnitName, file: &UnitFile, request: &Request) -> Result<(), Answer> {
    let asks = Requirement::of(file, Some(name));
    let mut patterns = asks.conflicts.iter().chain(&asks.replaces);
    match patterns.find(|pattern| !request.caller.reaches(pattern)) {
        Some(pattern) => {
            let words = format!("your role does not cover the units that match {pattern:?}");
            Err(Answer::refusal(403, words))
        }
        None => Ok(()),
    }
}

/// Checks a unit file.
///
/// # Errors
/// The fault, for the client.
fn check_file(name: &UnitName, file: &UnitFile, snapshot: &Snapshot) -> Result<(), String> {
    file.check().map_err(|error| error.to_string())?;
    UnitFile::parse(&file.text()).map_err(|error| error.to_string())?;
    Requirement::of(file, None).check().map_err(|error| error.to_string())?;
    let asks = Requirement::of(file, Some(name));
    asks.check().map_err(|error| error.to_string())?;
    match ring(name, &asks, snapshot) {
        Some(ring) => {
            let names: Vec<&str> = ring.iter().map(UnitName::as_str).collect();
            Err(format!("circular replacement is not allowed: {}", names.join(" -> ")))
        }
        None => Ok(()),
    }
}

/// Returns the ring of Replaces that `name` would close through existing units.
fn ring(name: &UnitName, asks: &Requirement, snapshot: &Snapshot) -> Option<Vec<UnitName>> {
    if asks.replaces.is_empty() || name.is_template() {
        return None;
    }
    let replacing: BTreeMap<&UnitName, &Requirement> = snapshot
        .units
        .iter()
        .map(|(other, kept)| (other, &*kept.record.asks))
        .filter(|(other, asks)| *other != name && !asks.replaces.is_empty() && !other.is_template())
        .collect();
    let mut came_from: BTreeMap<&UnitName, &UnitName> = BTreeMap::new();
    let mut seen: BTreeSet<&UnitName> = BTreeSet::new();
    let mut next: Vec<(&UnitName, &Requirement)> = vec![(name, asks)];
    while let Some((at, asks)) = next.pop() {
        if at != name && asks.drives_away(name.as_str()) {
            let mut ring = vec![name.clone(), at.clone()];
            let mut step = at;
            while let Some(before) = came_from.get(step) {
                ring.push((*before).clone());
                step = before;
            }
            ring.reverse();
            return Some(ring);
        }
        for (other, theirs) in &replacing {
            if *other != at && asks.drives_away(other.as_str()) && seen.insert(other) {
                came_from.insert(other, at);
                next.push((other, theirs));
            }
        }
    }
    None
}

/// Returns the first JSON value of a body and ignores the rest.
///
/// # Errors
/// The fault, for the client.
pub fn first_value(body: &[u8]) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<Value>();
    match values.next() {
        None => Err("EOF".to_string()),
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) if error.is_eof() => Err("unexpected EOF".to_string()),
        Some(Err(error)) => Err(error.to_string()),
    }
}

/// Returns the desired state in the body of a PUT, or `None` if it has none or an unknown one.
pub fn desired_in(body: &[u8]) -> Option<Desired> {
    read(body).ok()?.desired.parse().ok()
}

type Fields = serde_json::Map<String, Value>;

/// Finds a field ignoring the case of its key, as Go's JSON decoder does; clients may rely on it.
pub fn field<'f>(fields: &'f Fields, key: &str) -> Option<&'f Value> {
    let alike = || fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key));
    fields.get(key).or_else(|| alike().map(|(_, value)| value))
}

fn read(body: &[u8]) -> Result<PutRequest, String> {
    let bad = |what: &str| format!("unable to decode body: {what}");
    let value = first_value(body).map_err(|what| bad(&what))?;
    let text = |object: &Fields, key: &str| match field(object, key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(bad(&format!("{key} must be a string"))),
    };
    let fields = match value {
        Value::Object(fields) => fields,
        Value::Null => serde_json::Map::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(bad("a unit must be an object"));
        }
    };
    let mut file = UnitFile::default();
    match field(&fields, "options") {
        None | Some(Value::Null) => {}
        Some(Value::Array(all)) => {
            // One option over the limit is enough for `check_size` to refuse the unit.
            for one in all.iter().take(MOST_OPTIONS + 1) {
                let one = one.as_object().ok_or_else(|| bad("an option must be an object"))?;
                let (section, name) = (text(one, "section")?, text(one, "name")?);
                file.options.push(UnitOption { section, name, value: text(one, "value")? });
            }
        }
        Some(_) => return Err(bad("options must be a list")),
    }
    let signature: Option<Signature> = match field(&fields, "signature") {
        None | Some(Value::Null) => None,
        Some(value) => serde_json::from_value(value.clone())
            .map_err(|error| bad(&format!("signature: {error}")))?,
    };
    if signature.as_ref().is_some_and(|signature| !signature.is_well_formed()) {
        return Err(bad("the value of a signature must be 128 hex digits"));
    }
    let desired = text(&fields, "desiredState")?;
    let machines = match field(&fields, "machines") {
        None | Some(Value::Null) => None,
        Some(Value::Array(all)) => Some(first_machines::read(all).map_err(|what| bad(&what))?),
        Some(_) => return Err(bad("machines must be a list")),
    };
    let (name, instead_of) = (text(&fields, "name")?, text(&fields, "insteadOf")?);
    let instead_of_state = text(&fields, "insteadOfState")?;
    Ok(PutRequest { name, file, desired, signature, machines, instead_of, instead_of_state })
}

//! `/machines`: the registered machines and their metadata overrides; `/drain`: drains a machine.

use super::answer::{Answer, Outcome};
use super::page::List;
use super::request::Request;
use super::units::{field, first_value};
use super::view::View;
use crate::machine::MachineId;
use crate::registry;
use crate::snapshot::Snapshot;
use crate::transaction::{MOST_OPERATIONS, Transaction};
use crate::wire;
use serde_json::Value;

/// `/machines`
pub fn collection(request: &Request, view: &View<'_>) -> Outcome {
    match request.method.as_str() {
        "GET" => list(request, view).into(),
        "PATCH" => match patch(&request.body, view.now) {
            Ok(transaction) if transaction.operations.is_empty() => patched().into(),
            Ok(transaction) => Outcome::Write(transaction, patched()),
            Err(words) => Answer::refusal(400, words).into(),
        },
        _ => Answer::refusal(405, "only GET and PATCH supported against this resource").into(),
    }
}

/// `/drain/ID`: PUT drains the machine, DELETE lets it take units again.
pub fn drain(request: &Request, id: &str, snapshot: &Snapshot) -> Outcome {
    let draining = match request.method.as_str() {
        "PUT" => true,
        "DELETE" => false,
        _ => {
            let words = "only PUT and DELETE supported against this resource";
            return Answer::refusal(405, words).into();
        }
    };
    let known = MachineId::new(id).ok().filter(|id| {
        snapshot.machines.contains_key(id) || (!draining && snapshot.drains.contains_key(id))
    });
    match known {
        None => Answer::refusal(404, "machine does not exist").into(),
        Some(id) if snapshot.drains.contains_key(&id) == draining => Answer::empty(204).into(),
        Some(id) => Outcome::Write(registry::drain(snapshot, &id, draining), Answer::empty(204)),
    }
}

/// Returns a machine as clients see it, or `None` if it is not registered.
pub fn entity(snapshot: &Snapshot, id: &MachineId) -> Option<wire::Machine> {
    let machine = snapshot.machine(id)?;
    Some(wire::Machine {
        draining: machine.draining,
        id: id.to_string(),
        metadata: machine.metadata,
        primary_ip: machine.ip,
    })
}

fn patched() -> Answer {
    Answer { content_type: Some("application/json"), ..Answer::empty(204) }
}

fn list(request: &Request, view: &View<'_>) -> Answer {
    let pages = view.pages(List::Machines);
    let start = match pages.start(&request.values("nextPageToken")) {
        Ok(start) => start,
        Err(words) => return Answer::refusal(400, words),
    };
    let snapshot = view.of(&start);
    let items = snapshot.machines.keys().map(|id| (id.to_string(), id));
    let cut = pages.cut(items, &start, snapshot.revision);
    let machines = cut.items.into_iter().filter_map(|id| entity(snapshot, id)).collect();
    Answer::json(&wire::MachinePage { machines, next_page_token: cut.next })
}

/// Maximum number of operations in one patch. Each operation adds a condition to the transaction,
/// and the check of the cluster id adds one more.
const MOST_PATCHED: usize = MOST_OPERATIONS - 1;

/// Checks all operations before it carries out any.
fn patch(body: &[u8], snapshot: &Snapshot) -> Result<Transaction, String> {
    let operations = match first_value(body)? {
        Value::Null => Vec::new(),
        Value::Array(operations) => operations,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err("a patch must be a list".to_string());
        }
    };
    if operations.len() > MOST_PATCHED {
        return Err(format!("a patch has more than {MOST_PATCHED} operations"));
    }
    let mut read = Vec::new();
    for operation in &operations {
        read.push(fields(operation)?);
    }
    let mut all = Transaction::default();
    for (op, path, value) in read {
        if !["add", "remove", "replace"].contains(&op.as_str()) {
            return Err("invalid op: expect add, remove, or replace".to_string());
        }
        let (id, key) = metadata_path(&path).ok_or("machine metadata path invalid")?;
        if op == "remove" {
            all = all.and(registry::set_metadata(snapshot, &id, key, None));
        } else if value.is_empty() {
            return Err("invalid value: add and replace require a value".to_string());
        } else {
            all = all.and(registry::set_metadata(snapshot, &id, key, Some(value)));
        }
    }
    Ok(all)
}

/// Returns op, path and value of an operation; a missing field is empty.
fn fields(operation: &Value) -> Result<(String, String, String), String> {
    let text = |value: Option<&Value>, what: &str| match value {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(what.to_string()),
    };
    let fields = operation.as_object().ok_or("an operation must be an object")?;
    let value = match field(fields, "value") {
        None | Some(Value::Null) => String::new(),
        Some(Value::Object(inner)) => text(field(inner, "value"), "value must be a string")?,
        Some(_) => return Err("value must be an object with a value".to_string()),
    };
    let op = text(field(fields, "op"), "op must be a string")?;
    Ok((op, text(field(fields, "path"), "path must be a string")?, value))
}

/// `/ID/metadata/KEY`
fn metadata_path(path: &str) -> Option<(MachineId, &str)> {
    let (id, rest) = path.strip_prefix('/')?.split_once('/')?;
    let key = rest.strip_prefix("metadata/")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let fits = !key.is_empty() && key.chars().all(allowed);
    fits.then_some((MachineId::new(id).ok()?, key))
}

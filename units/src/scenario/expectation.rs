//! Expectations after a step, and the first difference from them.

use super::clock::Seen;
use crate::control::view;
use crate::machine::Machine;
use crate::machine::reason::{Reason, State};
use crate::text::name::Name;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The expectation as written; only named parts are checked.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Expected {
    deeds: Option<Vec<String>>,
    deeds_set: Option<Vec<String>>,
    #[serde(default)]
    states: BTreeMap<String, String>,
    degraded: Option<Vec<String>>,
    coincidental: Option<Vec<String>>,
    system: Option<String>,
    refused: Option<Value>,
}

impl Expected {
    pub(super) fn compare(&self, machine: &Machine, seen: &Seen) -> Result<(), String> {
        if let Some(deeds) = &self.deeds {
            differ("deeds", deeds, &seen.deeds)?;
        }
        if let Some(deeds) = &self.deeds_set {
            let sorted = |deeds: &[String]| {
                let mut deeds = deeds.to_vec();
                deeds.sort();
                deeds
            };
            differ("deeds-set", &sorted(deeds), &sorted(&seen.deeds))?;
        }
        if let Some(refused) = &self.refused {
            let expected = yes(refused)?;
            if expected != seen.refused.is_some() {
                let was = seen.refused.as_deref().unwrap_or("it was granted");
                return Err(format!("refused: expected {expected}, but {was}"));
            }
        }
        for (unit, state) in &self.states {
            let expected = state.replace(' ', "");
            let is = state_of(machine, unit, &expected)?;
            differ(&format!("state of {unit}"), &expected, &is)?;
        }
        self.compare_flags(machine)
    }

    fn compare_flags(&self, machine: &Machine) -> Result<(), String> {
        let generation = machine.generation();
        if let Some(expected) = &self.degraded {
            let units = machine.degraded();
            let names = units.iter().filter_map(|unit| generation.unit(*unit)).map(|u| &u.name);
            differ("degraded", &set(expected), &names.map(Name::to_string).collect())?;
        }
        if let Some(expected) = &self.coincidental {
            let targets = machine.coincidental();
            let names = targets.iter().filter_map(|t| generation.target(*t)).map(|t| &t.name);
            differ("coincidental", &set(expected), &names.map(Name::to_string).collect())?;
        }
        if let Some(expected) = &self.system {
            differ("system", expected, &machine.system().as_str().to_string())?;
        }
        Ok(())
    }
}

fn set(names: &[String]) -> BTreeSet<String> {
    names.iter().cloned().collect()
}

fn differ<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, is: &T) -> Result<(), String> {
    if expected == is {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, is {is:?}"))
}

fn yes(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(yes) => Ok(*yes),
        Value::String(word) if matches!(word.as_str(), "yes" | "true" | "on") => Ok(true),
        Value::String(word) if matches!(word.as_str(), "no" | "false" | "off") => Ok(false),
        other @ (Value::Null
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => Err(format!("refused: `{other}` is neither yes nor no")),
    }
}

/// Returns a unit's state in the words of the file. `failed(dependency)` means failed with reason
/// dependency, missing or masked; another reason in parentheses is compared only if the case names
/// it.
fn state_of(machine: &Machine, unit: &str, expected: &str) -> Result<String, String> {
    let Some(id) = machine.generation().find_unit(unit) else {
        let removed = machine.removed();
        let found = removed.iter().find(|(name, _, _)| name.as_str() == unit);
        return Ok(found.map_or(State::Disabled, |(_, _, state)| *state).as_str().to_string());
    };
    let state = machine.state(id);
    if state != State::Failed {
        let asked = expected.contains('(');
        let reason = machine.reason(id).filter(|_| asked);
        let kind = reason.map(|reason| format!("({})", kind(&reason))).unwrap_or_default();
        return Ok(format!("{}{kind}", state.as_str()));
    }
    Ok(match machine.reason(id) {
        Some(
            Reason::Dependency { .. }
            | Reason::Inactive { .. }
            | Reason::Missing { .. }
            | Reason::Masked { .. },
        ) => "failed(dependency)".to_string(),
        Some(reason) if expected.contains('(') => format!("failed({})", kind(&reason)),
        Some(_) | None => "failed".to_string(),
    })
}

fn kind(reason: &Reason) -> String {
    let shown = view::reason(reason, &view::Facts::default(), None);
    let shown = serde_json::to_value(shown).unwrap_or_default();
    shown.get("kind").and_then(Value::as_str).unwrap_or_default().to_string()
}

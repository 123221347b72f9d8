//! Scenario files: test cases as data, with units, timed events and expected results.
//!
//! A file is a YAML list of cases. Each runs against the real loader and the real machine on a
//! virtual clock; processes do nothing unless an event says so. The result is the first difference
//! of each case. `tests/scenarios/README.md` describes the format. No rule of the system is
//! repeated here.

mod clock;
mod expectation;
mod order;

use crate::limit;
use crate::text::name::Name;
use crate::text::yaml;
use crate::unit::account::Accounts;
use crate::unit::assembly::assemble;
use crate::unit::generation::{Generation, TargetId};
use crate::unit::manifest::Manifest;
use crate::unit::policy::Policy;
use crate::unit::semantics;
use crate::unit::settings::Settings;
use clock::Clock;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Limit of bytes of one file.
const BYTES: usize = 64 * 1024 * 1024;

/// One case as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    #[serde(rename = "case")]
    _case: String,
    /// Text for readers only.
    #[serde(default, rename = "kills")]
    _kills: Option<Value>,
    /// Text for readers only.
    #[serde(default, rename = "checked")]
    _checked: Option<Value>,
    units: Vec<Value>,
    #[serde(default)]
    config: Option<Value>,
    #[serde(default)]
    policy: Option<Value>,
    #[serde(default)]
    sources: BTreeMap<String, Source>,
    steps: Vec<Step>,
}

/// Units of a source, and its roots.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    #[serde(default)]
    units: Vec<String>,
    #[serde(default)]
    roots: Vec<String>,
}

/// One step as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Step {
    at: String,
    event: String,
    /// For `reload`: units that replace those of the same name.
    #[serde(default)]
    units: Vec<Value>,
    /// For `reload`: units to remove.
    #[serde(default)]
    remove: Vec<String>,
    /// For `reload`: sources that replace those of the same name.
    #[serde(default)]
    sources: BTreeMap<String, Source>,
    #[serde(flatten)]
    expected: expectation::Expected,
}

/// The result of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseResult {
    /// The title of the case.
    pub case: String,
    /// The first difference; `None` if the case passed.
    pub difference: Option<String>,
}

/// Runs all cases of a file. A file that cannot be parsed is one failed case.
pub fn run(text: &str, file: &str) -> Vec<CaseResult> {
    let limits =
        yaml::Limits { bytes: BYTES, depth: limit::YAML_DEPTH, nodes: BYTES, whole_lines: false };
    let documents = match yaml::parse(file, text.as_bytes(), &limits) {
        Ok(documents) => documents,
        Err(found) => {
            let first = found.first().map(|d| format!("{}: {}", d.at, d.message));
            return vec![failed(file, first.unwrap_or_default())];
        }
    };
    let mut values = Vec::new();
    for document in &documents {
        match document.root.list() {
            Some(list) => values.extend(list.iter().map(json)),
            None => return vec![failed(file, "not a list of cases".to_string())],
        }
    }
    if values.is_empty() {
        return vec![failed(file, "no case".to_string())];
    }
    values.into_iter().enumerate().map(|(number, value)| run_value(number, value)).collect()
}

/// Converts YAML to JSON; every scalar but null is a string that the caller interprets.
fn json(node: &yaml::Node) -> Value {
    match &node.value {
        yaml::Value::Scalar(scalar) if scalar.is_null() => Value::Null,
        yaml::Value::Scalar(scalar) => Value::String(scalar.text.clone()),
        yaml::Value::List(list) => Value::Array(list.iter().map(json).collect()),
        yaml::Value::Map(pairs) => {
            pairs.iter().map(|pair| (pair.key.clone(), json(&pair.node))).collect()
        }
    }
}

fn failed(case: &str, difference: String) -> CaseResult {
    CaseResult { case: case.to_string(), difference: Some(difference) }
}

fn run_value(number: usize, value: Value) -> CaseResult {
    let name = value.get("case").and_then(Value::as_str);
    let name = name.map_or_else(|| format!("case {}", number + 1), str::to_string);
    match serde_json::from_value::<Case>(value) {
        Ok(case) => CaseResult { case: name, difference: case.run().err() },
        Err(error) => failed(&name, format!("not a case: {error}")),
    }
}

impl Case {
    fn run(self) -> Result<(), String> {
        let mut set = Set::of(&self)?;
        let mut clock = Clock::new(set.policy.clone());
        for (number, step) in self.steps.iter().enumerate() {
            let place = format!("step {} (at {}, {})", number + 1, step.at, step.event);
            let seen = order::carry_out(step, &mut set, &mut clock);
            let seen = seen.map_err(|error| format!("{place}: {error}"))?;
            step.expected.compare(&clock.machine, &seen).map_err(|d| format!("{place}: {d}"))?;
        }
        Ok(())
    }
}

/// The present units of a case.
struct Set {
    units: BTreeMap<String, Value>,
    sources: BTreeMap<String, Source>,
    settings: Settings,
    policy: Policy,
}

impl Set {
    fn of(case: &Case) -> Result<Set, String> {
        let mut set = Set {
            units: BTreeMap::new(),
            sources: case.sources.clone(),
            settings: Settings::default(),
            policy: Policy::default(),
        };
        if let Some(config) = &case.config {
            let (settings, found) =
                crate::unit::settings_file::read(&"config".into(), text(config).as_bytes());
            complain(&found)?;
            set.settings = settings;
        }
        if let Some(policy) = &case.policy {
            let (policy, found) =
                crate::unit::policy_file::read(&"policy".into(), text(policy).as_bytes());
            complain(&found)?;
            set.policy = policy;
        }
        set.replace(&case.units)?;
        Ok(set)
    }

    fn replace(&mut self, units: &[Value]) -> Result<(), String> {
        for unit in units {
            let name = unit.get("unit").or(unit.get("name")).and_then(Value::as_str);
            let name = name.ok_or_else(|| format!("a unit without a name: {unit}"))?;
            self.units.insert(name.to_string(), unit.clone());
        }
        Ok(())
    }

    /// Loads the units into a generation. Errors if the text of a unit has an error of YAML.
    fn generation(&self) -> Result<Generation, String> {
        let mut drafts = Vec::new();
        let accounts = Accounts::default();
        for (name, unit) in &self.units {
            let file: Arc<str> = format!("{name}.yaml").into();
            let reading = yaml::read(&file, text(unit).as_bytes(), &yaml::Limits::UNIT_FILE);
            complain(&reading.diagnostics)?;
            for document in &reading.documents {
                let manifest = Manifest::read(&file, document);
                let semantics = semantics::read(manifest, &self.settings, &accounts);
                drafts.extend(semantics.draft);
            }
        }
        for (name, source) in &self.sources {
            let source_name = Name::new(name).map_err(|error| error.to_string())?;
            for draft in &mut drafts {
                if source.units.iter().any(|unit| unit == draft.name.as_str()) {
                    draft.source = Some(source_name.clone());
                }
            }
        }
        let roots: Vec<Name> = self
            .sources
            .values()
            .flat_map(|source| &source.roots)
            .map(|root| Name::new(root).map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
        let mut extra = vec![&self.settings.default_target, &self.settings.emergency_target];
        extra.extend(&roots);
        let mut generation = assemble(drafts, extra);
        for (name, source) in &self.sources {
            let find = |root: &String| generation.find_target(root);
            let targets: Vec<TargetId> = source.roots.iter().filter_map(find).collect();
            generation.roots.push((Name::new(name).map_err(|error| error.to_string())?, targets));
        }
        generation.settings = self.settings.clone();
        generation.policy = self.policy.clone();
        Ok(generation)
    }
}

/// Returns the value as JSON, which the YAML parser accepts.
fn text(value: &Value) -> String {
    format!("{value}\n")
}

fn complain(found: &[crate::text::diagnostic::Diagnostic]) -> Result<(), String> {
    match found.iter().find(|d| d.severity == crate::text::diagnostic::Severity::Error) {
        Some(error) => Err(format!("{}: {}", error.at, error.message)),
        None => Ok(()),
    }
}

//! The unit files of a few folders, each converted by `initctl convert --json`. A template
//! is converted as an instance, since that is what runs.

use crate::sandbox::program;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Kinds of unit files that are imported.
const SUFFIXES: [&str; 6] = ["service", "socket", "timer", "path", "target", "mount"];

/// One file and the answer of `initctl convert`.
#[derive(Debug)]
pub struct Sample {
    /// The package of the file.
    pub package: String,
    /// The name of the unit; for a template, that of an instance.
    pub unit: String,
    /// The file in the package. Of a template, a copy under the instance's name was converted.
    pub path: PathBuf,
    /// The JSON output. `None` if initctl crashed or printed no JSON.
    pub answer: Option<Value>,
    /// The exit status; 101 and signals are panics.
    pub status: String,
}

impl Sample {
    /// Returns true for a service.
    pub fn is_service(&self) -> bool {
        self.unit.ends_with(".service")
    }

    /// The diagnostics of this severity: line and message.
    pub fn said(&self, severity: &str) -> Vec<(u64, String)> {
        let all = self.answer.as_ref().and_then(|answer| answer["diagnostics"].as_array());
        let wanted = |one: &&Value| one["severity"] == severity;
        let text = |one: &Value| {
            let message = one["message"].as_str().unwrap_or_default().to_owned();
            (one["line"].as_u64().unwrap_or(0), message)
        };
        all.into_iter().flatten().filter(wanted).map(text).collect()
    }

    /// The directives with their outcomes.
    pub fn directives(&self) -> Vec<Directive> {
        let files = self.answer.as_ref().and_then(|answer| answer["files"].as_array());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let directives =
            files.into_iter().flatten().filter_map(|file| file["directives"].as_array());
        directives
            .flatten()
            .map(|one| Directive {
                section: text(&one["section"]),
                name: text(&one["name"]),
                line: one["line"].as_u64().unwrap_or(0),
                outcome: text(&one["outcome"]),
                in_a_key: one["key"].is_string(),
            })
            .collect()
    }
}

/// A directive and its outcome.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The section.
    pub section: String,
    /// The name.
    pub name: String,
    /// The line number.
    pub line: u64,
    /// `kept`, `dropped`, `weaker`, `not-needed`, `refused`.
    pub outcome: String,
    /// True if it became a native key. A directive that is kept without a key loses nothing.
    pub in_a_key: bool,
}

/// Every unit file below these folders, by package and name. Symbolic links are left out, because
/// they are further names of a file, and so are empty files.
pub fn files(packages: &[PathBuf]) -> Vec<Sample> {
    let initctl = program("GROUNDSTATE_INITCTL", "initctl");
    let instances = std::env::temp_dir().join(format!("corpus.{}", std::process::id()));
    let mut found = Vec::new();
    for folder in packages {
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for below in ["lib/systemd/system", "usr/lib/systemd/system"] {
            for path in units_in(&folder.join(below)) {
                found.push(sample(&initctl, &package, &path, &instances.join(&package)));
            }
        }
    }
    let _ = fs::remove_dir_all(&instances);
    found
}

fn units_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_unit = |path: &PathBuf| {
        let suffix = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let plain =
            fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0);
        plain && SUFFIXES.contains(&suffix)
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(is_unit).collect();
    paths.sort();
    paths
}

fn sample(initctl: &str, package: &str, path: &Path, instances: &Path) -> Sample {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let unit = name.replace("@.", "@main.");
    let mut converted = path.to_owned();
    if unit != name {
        fs::create_dir_all(instances).expect("a temporary directory");
        converted = instances.join(&unit);
        fs::copy(path, &converted).expect("a copy of a template");
    }
    let output = Command::new(initctl).args(["convert", "--json"]).arg(&converted).output();
    let output = output.expect("initctl runs");
    Sample {
        package: package.to_owned(),
        unit,
        path: path.to_owned(),
        answer: serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|a: &Value| a["diagnostics"].is_array()),
        status: output.status.to_string(),
    }
}

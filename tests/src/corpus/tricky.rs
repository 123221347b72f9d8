//! Files that an importer gets wrong easily: those of Debian packages, and texts of our own with
//! the traits of other files. `tests/corpus.d/tricky.yaml` has the expectations; `tests/tricky.tsv`
//! names the tests.

use crate::sandbox::program;
use groundstate_units::text::yaml::{self, Node};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file and its expected result.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    /// The name of the test.
    name: String,
    /// The Debian package. `None`: `file` is part of the fuzz corpus, without its first byte.
    package: Option<String>,
    /// The name in the package's folder of units.
    file: String,
    /// The name under which it is converted: an instance's name for a template. A folder of
    /// drop-ins with that name and `.d` is copied too, and so is the template's.
    #[serde(rename = "as")]
    converted: Option<String>,
    /// Expected lines of the native form, or parts of them.
    #[serde(default)]
    native: Vec<String>,
    /// Text that the native form must not contain.
    #[serde(default)]
    not: Vec<String>,
    /// Expected messages: `warning 3: part of the message`, `error 30: …`.
    #[serde(default)]
    says: Vec<String>,
    /// True if there must be no other warning. Otherwise other warnings are allowed, but errors
    /// never are. Notes are always allowed, because they describe parts of directives that
    /// directives.tsv lists.
    #[serde(default)]
    exactly: bool,
}

/// Converts each file and prints `ok` or `FAIL`. Returns true if all are as expected. `corpus` is
/// the folder with a folder for each package, `own` that of our own texts.
pub fn check(list: &Path, corpus: &Path, own: &Path) -> bool {
    let text = fs::read(list).expect("the list of tricky files");
    let documents = yaml::parse("tricky.yaml", &text, &yaml::Limits::UNIT_FILE);
    let documents = documents.unwrap_or_else(|found| panic!("{}", found[0]));
    let cases = documents.into_iter().next().map(|document| value(&document.root));
    let cases: Vec<Case> = serde_json::from_value(cases.unwrap_or_default()).expect("cases");
    let mut good = !cases.is_empty();
    for case in &cases {
        let complaints = complaints(case, corpus, own);
        good &= complaints.is_empty();
        match complaints.is_empty() {
            true => println!("ok tricky::{}", case.name),
            false => println!("FAIL tricky::{} ({})", case.name, complaints.join("; ")),
        }
    }
    good
}

/// The node as JSON: all scalars are strings, except booleans.
fn value(node: &Node) -> Value {
    if let Some(list) = node.list() {
        return list.iter().map(value).collect();
    }
    if let Some(pairs) = node.map() {
        return pairs.iter().map(|pair| (pair.key.clone(), value(&pair.node))).collect();
    }
    match node.scalar().map(|scalar| scalar.text.as_str()) {
        Some("true") => Value::Bool(true),
        Some(text) => Value::from(text),
        None => Value::Null,
    }
}

fn complaints(case: &Case, corpus: &Path, own: &Path) -> Vec<String> {
    let folder = std::env::temp_dir().join(format!("tricky.{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a temporary directory");
    let said = match lay_out(case, corpus, own, &folder) {
        Err(problem) => vec![problem],
        Ok(path) => compare(case, &path),
    };
    let _ = fs::remove_dir_all(&folder);
    said
}

/// Copies the file and its drop-ins into a folder of their own, under the name for the conversion.
fn lay_out(case: &Case, corpus: &Path, own: &Path, folder: &Path) -> Result<PathBuf, String> {
    let name = case.converted.as_deref().unwrap_or(&case.file);
    let path = folder.join(name);
    let Some(package) = &case.package else {
        let bytes = fs::read(own.join(&case.file)).map_err(|e| format!("{}: {e}", case.file))?;
        fs::write(&path, bytes.get(1..).unwrap_or_default()).expect("a file");
        return Ok(path);
    };
    let units = ["lib/systemd/system", "usr/lib/systemd/system"]
        .map(|below| corpus.join(package).join(below))
        .into_iter()
        .find(|units| units.is_dir())
        .ok_or_else(|| format!("{package} has no units: was it downloaded?"))?;
    if units.join(&case.file).is_file() {
        fs::copy(units.join(&case.file), &path).expect("a copy");
    } else {
        // A drop-in for a System V script applies to the unit made from that script.
        fs::write(&path, "[Service]\nType=forking\nExecStart=/etc/init.d/x start\n")
            .expect("a file");
    }
    for drop_ins in [format!("{}.d", case.file), format!("{name}.d")] {
        let Ok(entries) = fs::read_dir(units.join(&drop_ins)) else { continue };
        let copy = folder.join(format!("{name}.d"));
        fs::create_dir_all(&copy).expect("a folder");
        for entry in entries.flatten() {
            fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
        }
    }
    Ok(path)
}

fn compare(case: &Case, path: &Path) -> Vec<String> {
    let initctl = program("GROUNDSTATE_INITCTL", "initctl");
    let output = Command::new(initctl).args(["convert", "--json"]).arg(path).output();
    let output = output.expect("initctl runs");
    let Ok(answer) = serde_json::from_slice::<Value>(&output.stdout) else {
        return vec![format!("no answer: {}", output.status)];
    };
    let native = answer["files"][0]["native"].as_str().unwrap_or_default();
    let said: Vec<String> = answer["diagnostics"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let text = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", text("severity"), one["line"], text("message"))
        })
        .collect();
    let mut found = Vec::new();
    for line in case.native.iter().filter(|line| !native.contains(line.as_str())) {
        found.push(format!("`{line}` is not in the native form"));
    }
    for line in case.not.iter().filter(|line| native.contains(line.as_str())) {
        found.push(format!("`{line}` is in the native form"));
    }
    let is_expected = |one: &String| case.says.iter().any(|wanted| one.contains(wanted.as_str()));
    for wanted in case.says.iter().filter(|w| !said.iter().any(|s| s.contains(w.as_str()))) {
        found.push(format!("`{wanted}` is not said, but {said:?}"));
    }
    for one in said.iter().filter(|one| !is_expected(one)) {
        let is_note = one.starts_with("note ");
        if case.exactly && !is_note || one.starts_with("error") {
            found.push(format!("said: {one}"));
        }
    }
    found
}

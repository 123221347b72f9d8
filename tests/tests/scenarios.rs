//! The scenario files of this folder pass, and a wrong one does not.

#![allow(clippy::unwrap_used, reason = "a test that fails here fails")]

use groundstate_units::scenario;
use std::path::Path;

fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn every_scenario_passes() {
    let mut count = 0;
    let mut differences = Vec::new();
    for (file, text) in files() {
        for result in scenario::run(&text, &file) {
            count += 1;
            if let Some(difference) = result.difference {
                differences.push(format!("{file}: {}: {difference}", result.case));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(count >= 190, "only {count} cases were found");
}

#[test]
fn wrong_expectation_is_reported_with_its_step() {
    let text = "
- case: wrong
  units: [{unit: web, exec-start: /web}]
  steps:
  - {at: 0, event: boot web, deeds: [start web]}
  - {at: 1, event: ready web, states: {web: starting}}
";
    let results = scenario::run(text, "wrong.yaml");
    let difference = results[0].difference.as_deref().unwrap();
    let expected = "step 2 (at 1, ready web): state of web: expected \"starting\", is \"running\"";
    assert_eq!(difference, expected);
}

#[test]
fn misspelt_key_is_an_error() {
    for bad in
        ["stepz: []", "steps: [{at: 0, event: boot a, deedz: []}]", "steps: [{at: x, event: tick}]"]
    {
        let text = format!("- case: bad\n  units: [{{unit: a, type: virtual}}]\n  {bad}\n");
        let results = scenario::run(&text, "bad.yaml");
        assert!(results.iter().all(|result| result.difference.is_some()), "{bad}");
    }
}

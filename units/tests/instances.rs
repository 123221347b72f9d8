//! Instances requested at run time: what they change in the active generation, and what they leave
//! unchanged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::control::source_set::SourceSet;
use groundstate_units::load::delivered::{STATE, directory, state};
use groundstate_units::load::{Options, instances, load};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use memory::Memory;

const UNITS: &str = "/etc/groundstate/units";
const SOURCES: &str = "/run/groundstate/sources";
const PLAIN: &str = "unit: plain\nexec-start: /bin/x\n";

fn options(wanted: &[&str]) -> Options {
    let wanted = wanted.iter().map(|name| Name::new(name).unwrap()).collect();
    Options { sources: Some(SOURCES.to_string()), wanted, ..Options::system(0) }
}

fn local(files: &[(&str, &str)]) -> Memory {
    let mut memory = Memory::new(&[("/etc/groundstate/init.yaml", "sources: {fleet: {uid: 7}}\n")]);
    for (file, text) in files {
        memory.put(&format!("{UNITS}/{file}"), text);
    }
    memory
}

fn names(generation: &Generation) -> Vec<&str> {
    generation.units.iter().map(|unit| unit.name.as_str()).collect()
}

fn ask(memory: &Memory, before: &Generation, wanted: &[&str]) -> Generation {
    let loaded = instances(memory, &options(wanted), before).unwrap();
    loaded.generation.prove().unwrap();
    assert!(!loaded.refused);
    loaded.generation
}

#[test]
fn instances_are_created_and_removed_with_their_requests() {
    let two =
        "unit: other\nexec-start: /bin/x\n---\nunit: job@\nwants: step@%i\nexec-start: /bin/x %i\n";
    let memory = local(&[
        ("plain.yaml", PLAIN),
        ("two.yaml", two),
        ("step@.yaml", "unit: step@\nexec-start: /bin/x %i\n"),
        ("web@.service", "[Service]\nExecStart=/bin/x %i\n"),
    ]);
    let before = load(&memory, &options(&[]), None).generation;
    assert_eq!(names(&before), ["other", "plain"]);
    let first = ask(&memory, &before, &["job@a", "web@1"]);
    assert_eq!(names(&first), ["job@a", "other", "plain", "step@a", "web@1.service"]);
    // Existing instances are unchanged, so no unit restarts.
    let second = ask(&memory, &first, &["job@a", "job@b"]);
    assert_eq!(names(&second), ["job@a", "job@b", "other", "plain", "step@a", "step@b"]);
    assert_eq!(first.units[0].run_hash, second.units[0].run_hash);
    assert_eq!(first.units[0].live, second.units[0].live);
    assert_eq!(names(&ask(&memory, &second, &[])), names(&before));
    assert_eq!(names(&load(&memory, &options(&[]), Some(&second)).generation), names(&before));
    assert_eq!(names(&ask(&memory, &before, &["nope@a"])), names(&before));
}

#[test]
fn on_failure_template_gets_one_instance_per_unit() {
    let memory = local(&[
        ("web.service", "[Unit]\nOnFailure=alarm@%n.service\n[Service]\nExecStart=/bin/x\n"),
        ("alarm@.service", "[Service]\nExecStart=/bin/x %i\n"),
    ]);
    let loaded = load(&memory, &options(&[]), None).generation;
    assert_eq!(names(&loaded), ["alarm@web.service.service", "web.service"]);
}

#[test]
fn requested_instance_loads_no_other_edits() {
    let job = "unit: job@\nexec-start: /bin/x %i\n";
    let mut memory = local(&[("plain.yaml", PLAIN), ("job@.yaml", job)]);
    let before = load(&memory, &options(&[]), None).generation;
    let one = ask(&memory, &before, &["job@a"]);
    memory.put(&format!("{UNITS}/plain.yaml"), "unit: plain\nexec-start: /bin/x edited\n");
    memory.put(&format!("{UNITS}/broken.yaml"), "unit: [\n");
    let after = ask(&memory, &before, &["job@a"]);
    assert_eq!(names(&after), ["job@a", "plain"]);
    assert_eq!(after.units[1].run_hash, before.units[0].run_hash);
    memory.put(&format!("{UNITS}/job@.yaml"), "unit: job@\nexec-start: /bin/x edited %i\n");
    let refused = instances(&memory, &options(&["job@a"]), &before).unwrap_err();
    assert_eq!(refused.kind, "changed");
    // The existing instance keeps its old definition and does not prevent another instance.
    memory.put(&format!("{UNITS}/new@.yaml"), "unit: new@\nexec-start: /bin/x %i\n");
    let kept = ask(&memory, &one, &["job@a", "new@x"]);
    assert_eq!(names(&kept), ["job@a", "new@x", "plain"]);
    assert_eq!(kept.units[0].run_hash, one.units[0].run_hash);
}

#[test]
fn template_of_a_source_creates_instances_on_request() {
    let mut memory = local(&[("plain.yaml", PLAIN)]);
    let kept = directory(SOURCES, &Name::new("fleet").unwrap());
    let text = "[Service]\nExecStart=/bin/x %i\n";
    let set = SourceSet { files: Default::default(), roots: Vec::new(), expected: None };
    memory.put(&format!("{kept}/web@.service"), text);
    memory.put(&format!("{kept}/{STATE}"), state(1, &set.roots));
    let before = load(&memory, &options(&[]), None).generation;
    let after = ask(&memory, &before, &["web@1"]);
    assert_eq!(names(&after), ["plain", "web@1.service"]);
    assert_eq!(after.units[1].source, Some(Name::new("fleet").unwrap()));
    assert_eq!(after.revision(&Name::new("fleet").unwrap()), 1);
    assert_eq!(names(&ask(&memory, &after, &[])), ["plain"]);
}

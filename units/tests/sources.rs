//! Sources beside the unit directories: what a put changes, and what it leaves unchanged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::control::source_set::SourceSet;
use groundstate_units::graph::{Graph, Provider};
use groundstate_units::load::delivered::{STATE, Source, directory, state};
use groundstate_units::load::{Loaded, Options, load, put};
use groundstate_units::spec::{Piece, Run};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::{Generation, Unit};
use memory::{Memory, told};
use std::time::Duration;

const SOURCES: &str = "/run/groundstate/sources";

fn options() -> Options {
    Options { sources: Some(SOURCES.to_string()), ..Options::system(0) }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn local(files: &[(&str, &str)]) -> Memory {
    let mut memory = Memory::new(&[("/etc/groundstate/init.yaml", "sources: {fleet: {uid: 7}}\n")]);
    for (file, text) in files {
        memory.put(&format!("/etc/groundstate/units/{file}"), text);
    }
    memory
}

fn set(files: &[(&str, &str)], roots: &[&str]) -> SourceSet {
    let files = files.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string()));
    let roots = roots.iter().map(|root| name(root)).collect();
    SourceSet { files: files.collect(), roots, expected: None }
}

/// Puts a source, and stores it where init's loader stores it.
fn put_in(memory: &mut Memory, previous: &Generation, set: SourceSet) -> Loaded {
    let fleet = name("fleet");
    let revision = previous.revision(&fleet) + 1;
    let kept = directory(SOURCES, &fleet);
    for (file, text) in &set.files {
        memory.put(&format!("{kept}/{file}"), text);
    }
    memory.put(&format!("{kept}/{STATE}"), state(revision, &set.roots));
    let source = Source::of(fleet, revision, set, SOURCES, options().trust);
    put(memory, &options(), previous, source)
}

fn units(generation: &Generation) -> Vec<&str> {
    generation.units.iter().map(|unit| unit.name.as_str()).collect()
}

fn roots(generation: &Generation) -> Vec<(&str, Vec<&str>)> {
    let named = |id: &_| generation.target(*id).unwrap().name.as_str();
    let of = |roots: &Vec<_>| roots.iter().map(named).collect();
    generation.roots.iter().map(|(source, roots)| (source.as_str(), of(roots))).collect()
}

const DB: &str = "unit: db\nexec-start: /bin/x\n";
const WEB: &str = "unit: web\nwaits-for: db\nexec-start: /bin/x\n";

#[test]
fn put_adds_units_and_roots_and_parses_only_changed_files() {
    let mut memory = local(&[("a.yaml", "unit: a\nexec-start: /bin/x\n")]);
    let before = load(&memory, &options(), None).generation;
    assert_eq!(told(&before), [""; 0]);
    let first =
        put_in(&mut memory, &before, set(&[("db.yaml", DB), ("web.yaml", WEB)], &["web", "a"]));
    assert_eq!(first.parsed, 2);
    assert_eq!(units(&first.generation), ["a", "db", "web"]);
    assert_eq!(roots(&first.generation), [("fleet", vec!["a", "web"])]);
    assert_eq!(first.generation.revision(&name("fleet")), 1);
    assert_eq!(first.generation.units[2].source, Some(name("fleet")));
    assert_eq!(first.generation.units[0].source, None);
    first.generation.prove().unwrap();

    let other = "unit: web\nexec-start: /bin/x 2\n";
    let second = put_in(
        &mut memory,
        &first.generation,
        set(&[("db.yaml", DB), ("web.yaml", other)], &["db"]),
    );
    assert_eq!(second.parsed, 1, "db did not change");
    assert_eq!(roots(&second.generation), [("fleet", vec!["db"])]);
    let files = || set(&[("db.yaml", DB), ("web.yaml", other)], &["db"]);
    assert_eq!(put_in(&mut memory, &second.generation, files()).parsed, 0);
    memory.program("/proc/self/exe");
    assert_eq!(put_in(&mut memory, &second.generation, files()).parsed, 2, "another program");
    let third = put_in(&mut memory, &second.generation, set(&[], &[]));
    assert_eq!((units(&third.generation), third.parsed), (vec!["a"], 0));
    assert_eq!(third.generation.revision(&name("fleet")), 3);
}

#[test]
fn put_ignores_unit_files_that_the_operator_edited_meanwhile() {
    let mut memory = local(&[("a.yaml", "unit: a\nexec-start: /bin/x\n")]);
    let before = load(&memory, &options(), None).generation;
    memory.put("/etc/groundstate/units/a.yaml", "unit: a\nexec-start: /bin/x edited\n");
    memory.put("/etc/groundstate/units/b.yaml", "half a li");
    memory.put("/etc/groundstate/init.yaml", "sources: {fleet: {uid: 7}}\nmax-starting: 3\n");
    memory.read.lock().unwrap().clear();
    let after = put_in(&mut memory, &before, set(&[("db.yaml", DB)], &["db"]));
    assert_eq!(units(&after.generation), ["a", "db"]);
    assert_eq!(after.generation.units[0].run, before.units[0].run);
    assert_eq!(after.generation.settings, before.settings);
    let read = memory.read.lock().unwrap();
    assert!(read.iter().all(|path| path.starts_with("/etc/") && !path.contains("groundstate")));
    drop(read);
    memory.remove("/etc/groundstate/units/b.yaml");
    let reloaded = load(&memory, &options(), Some(&after.generation)).generation;
    assert_ne!(reloaded.units[0].run, before.units[0].run, "the reload sees the edit");
    assert_eq!(units(&reloaded), ["a", "db"]);
}

#[test]
fn reload_and_restart_load_the_stored_source() {
    let mut memory = local(&[]);
    let before = load(&memory, &options(), None).generation;
    let files = set(&[("db.yaml", DB), ("web.yaml", WEB)], &["web"]);
    let after = put_in(&mut memory, &before, files).generation;
    let reloaded = load(&memory, &options(), Some(&after));
    assert_eq!((reloaded.parsed, reloaded.refused), (0, false));
    assert_eq!(reloaded.generation, after);
    assert_eq!(load(&memory, &options(), None).generation, after);
    // The runtime directory was emptied; init keeps the source from the previous generation.
    for file in ["db.yaml", "web.yaml", STATE] {
        memory.remove(&format!("{}/{file}", directory(SOURCES, &name("fleet"))));
    }
    let emptied = load(&memory, &options(), Some(&after)).generation;
    assert_eq!((units(&emptied), roots(&emptied)), (units(&after), roots(&after)));
    assert_eq!(emptied.revision(&name("fleet")), 1);
    // A source that the settings no longer name is dropped.
    memory.put("/etc/groundstate/init.yaml", "max-starting: 0\n");
    let none = load(&memory, &options(), Some(&after)).generation;
    assert_eq!((units(&none), roots(&none)), (vec![], vec![]));
}

#[test]
fn bad_unit_of_a_source_is_broken_alone_and_a_nameless_one_is_reported() {
    let mut memory = local(&[("a.yaml", "unit: a\nexec-start: /bin/x\n")]);
    let before = load(&memory, &options(), None).generation;
    let files =
        [("db.yaml", DB), ("bad.yaml", "unit: bad\nexec-strat: /bin/x\n"), ("no.yaml", "x")];
    let after = put_in(&mut memory, &before, set(&files, &["db", "bad"]));
    assert!(!after.refused);
    assert_eq!(units(&after.generation), ["a", "bad", "db"]);
    assert!(after.generation.units[1].fault.is_some());
    let told = told(&after.generation);
    assert!(told.iter().any(|line| line == "bad.yaml:2:1 error unknown-key"), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("no.yaml:1:")), "{told:?}");
    let reloaded = load(&memory, &options(), Some(&after.generation));
    assert!(!reloaded.refused, "a reload is not refused for what a controller got wrong");
}

#[test]
fn unit_of_a_source_that_claims_a_local_name_or_target_loses_it() {
    let mut memory = local(&[("a.yaml", "unit: a\nprovides: dns\nexec-start: /bin/x\n")]);
    let before = load(&memory, &options(), None).generation;
    let files = [
        ("a.yaml", "unit: a\nexec-start: /bin/x foreign\n"),
        ("b.yaml", "unit: b\nprovides: dns\nexec-start: /bin/x\n"),
    ];
    let after = put_in(&mut memory, &before, set(&files, &["dns"])).generation;
    assert_eq!(units(&after), ["a", "b"]);
    assert_eq!((&after.units[0].source, &after.units[0].fault), (&None, &None));
    let (graph, _) = Graph::resolve(&after, &after.policy);
    let dns = after.find_target("dns").unwrap();
    assert_eq!(graph.provider(dns), Provider::Unit(after.find_unit("a").unwrap()));
    let broken = graph.broken(after.find_unit("b").unwrap()).unwrap();
    assert_eq!(broken.claims, Some(name("dns")));
    let told = told(&after);
    assert!(told.iter().any(|line| line == "a.yaml:1:1 error double-unit"), "{told:?}");
    // Without the local unit, the unit of the source gets the name.
    memory.remove("/etc/groundstate/units/a.yaml");
    let alone = load(&memory, &options(), Some(&after)).generation;
    assert_eq!(alone.units[0].source, Some(name("fleet")));
}

#[test]
fn unit_of_a_later_source_never_replaces_one_of_an_earlier_source() {
    let text = "sources:\n  alpha: {uid: 7}\n  beta: {uid: 8}\n";
    let mut memory = Memory::new(&[("/etc/groundstate/init.yaml", text)]);
    let mut put_as = |previous: &Generation, source: &str, text: &str| {
        let files = set(&[("web.yaml", text)], &["web"]);
        memory.put(&format!("{}/web.yaml", directory(SOURCES, &name(source))), text);
        memory
            .put(&format!("{}/{STATE}", directory(SOURCES, &name(source))), state(1, &files.roots));
        let source = Source::of(name(source), 1, files, SOURCES, options().trust);
        put(&memory, &options(), previous, source).generation
    };
    let without = Memory::new(&[("/etc/groundstate/init.yaml", text)]);
    let empty = load(&without, &options(), None).generation;
    for theirs in
        ["unit: web\nexec-start: /bin/x 2\n", "unit: w\nprovides: web\nexec-start: /bin/x\n"]
    {
        let first = put_as(&empty, "alpha", "unit: web\nexec-start: /bin/x\n");
        let both = put_as(&first, "beta", theirs);
        let web = both.units.iter().find(|unit| unit.name.as_str() == "web").unwrap();
        assert_eq!((&web.source, &web.fault), (&Some(name("alpha")), &None), "{theirs}");
        let (graph, _) = Graph::resolve(&both, &both.policy);
        let target = both.find_target("web").unwrap();
        assert_eq!(graph.provider(target), Provider::Unit(both.find_unit("web").unwrap()));
        assert_eq!(graph.broken(both.find_unit("web").unwrap()), None, "{theirs}");
        assert_ne!(told(&both), [""; 0], "the conflict is reported");
    }
}

fn start_timeout(generation: &Generation, unit: &str) -> Option<Duration> {
    let found = generation.units.iter().find(|one| one.name.as_str() == unit);
    found.unwrap().live.start_timeout
}

#[test]
fn local_drop_ins_apply_to_units_of_a_source() {
    let native = "/etc/groundstate/units/db.d/10-slow.yaml";
    let imported = "/etc/groundstate/units/web.service.d/10-slow.conf";
    let mut memory = local(&[]);
    memory.put(native, "start-timeout: 7s\n");
    memory.put(imported, "[Service]\nTimeoutStartSec=7s\n");
    let of_template = "/etc/groundstate/units/job@.service.d/10-slow.conf";
    memory.put(of_template, "[Service]\nTimeoutStartSec=7s\n");
    let before = load(&memory, &options(), None).generation;
    assert_eq!(told(&before).len(), 1, "no unit is named db yet: {:?}", told(&before));
    let service = "[Service]\nExecStart=/bin/x\n";
    let files = |web: &str| {
        let files = [("db.yaml", DB), ("web.service", web), ("job@.service", service)];
        set(&files, &["db", "web.service", "job@1.service"])
    };
    let check_timeouts = |generation: &Generation, seconds: u64| {
        for unit in ["db", "web.service"] {
            assert_eq!(
                start_timeout(generation, unit),
                Some(Duration::from_secs(seconds)),
                "{unit}"
            );
        }
    };
    let first = put_in(&mut memory, &before, files(service)).generation;
    check_timeouts(&first, 7);
    assert_eq!(start_timeout(&first, "job@1.service"), Some(Duration::from_secs(7)));
    // The drop-ins are edited without a reload, so unchanged units keep the old values.
    memory.put(native, "start-timeout: 9s\n");
    memory.put(imported, "[Service]\nTimeoutStartSec=9s\n");
    check_timeouts(&put_in(&mut memory, &first, files(service)).generation, 7);
    let reloaded = load(&memory, &options(), Some(&first)).generation;
    check_timeouts(&reloaded, 9);
    assert_eq!(told(&reloaded), [""; 0]);
    memory.remove(native);
    memory.remove(imported);
    let usual = load(&memory, &options(), Some(&reloaded)).generation;
    assert_eq!(start_timeout(&usual, "db"), Some(Duration::from_secs(60)));
    assert_eq!(start_timeout(&usual, "web.service"), Some(Duration::from_secs(90)));
    assert_eq!(start_timeout(&usual, "job@1.service"), Some(Duration::from_secs(7)));
}

#[test]
fn source_file_named_like_an_instance_defines_only_that_instance() {
    let mut memory = local(&[]);
    let before = load(&memory, &options(), None).generation;
    let [old, new] = ["old", "new"].map(|word| format!("unit: web@\nexec-start: /bin/{word} %i\n"));
    let both = [("web@1.yaml", old.as_str()), ("web@2.yaml", new.as_str())];
    let loaded = put_in(&mut memory, &before, set(&both, &["web@1", "web@2"]));
    let words_of_units = |generation: &Generation| {
        let run = |unit: &Unit| Run::decode(&unit.run).unwrap();
        let words = |unit: &Unit| run(unit).exec_start[0].words.concat();
        generation.units.iter().map(words).collect::<Vec<_>>()
    };
    let literal = |words: [&str; 2]| words.map(|word| Piece::Literal(word.to_string())).to_vec();
    assert_eq!(units(&loaded.generation), ["web@1", "web@2"]);
    let expected = [literal(["/bin/old", "1"]), literal(["/bin/new", "2"])];
    assert_eq!(words_of_units(&loaded.generation), expected);
    // A changed text of one instance does not change the other.
    let both = [("web@1.yaml", new.as_str()), ("web@2.yaml", new.as_str())];
    let after = put_in(&mut memory, &loaded.generation, set(&both, &["web@1", "web@2"]));
    let hash = |loaded: &Loaded, at: usize| loaded.generation.units[at].run_hash;
    assert_ne!(hash(&after, 0), hash(&loaded, 0));
    assert_eq!(hash(&after, 1), hash(&loaded, 1));
}

//! Many unit files as one set: what a mistake breaks, which file hides another, and which file is
//! read again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::load::command::Command;
use groundstate_units::load::{Options, instances, load};
use groundstate_units::unit::exec_line::expand;
use groundstate_units::unit::generation::Generation;
use memory::card::{IRC_BOT, MADDY, NETIF, mistakes, one, provides, run, unit};
use memory::{Memory, told};

#[test]
fn error_breaks_only_its_own_unit() {
    let memory = Memory::new(&[
        ("/u/bad.yaml", "unit: bad\nprovides: b\nexec-start: echo a: b\n"),
        ("/u/worse.yaml", "unit: worse\numask: 9\nexec-start: /bin/x\n---\nunit: beside\n"),
        ("/u/good.yaml", "unit: good\nwaits-for: b\n"),
        ("/u/odd.yaml", "unit: odd\ntype: strange\nprovides: o\n"),
    ]);
    let generation = memory.check("/u");
    let broken: Vec<_> = generation
        .units
        .iter()
        .map(|u| (u.name.as_str(), u.fault.as_ref().map(|f| f.at.line)))
        .collect();
    assert_eq!(
        broken,
        [("bad", Some(3)), ("beside", None), ("good", None), ("odd", Some(2)), ("worse", Some(2))]
    );
    assert_eq!(provides(&generation, unit(&generation, "bad")), ["b"]);
    assert_eq!(provides(&generation, unit(&generation, "odd")), ["o"]);
    assert!(memory.load(None).generation.prove().is_ok());
}

#[test]
fn truncated_file_never_defines_a_different_running_unit() {
    let text = "unit: web\nprovides: http\nexec-start: /bin/x --config /etc/web.conf\nuser: www\n";
    let whole = one(text).units.remove(0);
    for end in 0..text.len() {
        let generation = one(&text[..end]);
        for unit in &generation.units {
            let at_line_end = text[..end].ends_with('\n');
            let sound = unit.fault.is_none() && unit.kind.has_process();
            // Only a cut between two lines is not reported, and then the command is complete.
            assert!(
                !sound || at_line_end && run(unit).exec_start == run(&whole).exec_start,
                "{end}"
            );
        }
    }
}

#[test]
fn duplicate_unit_name_is_reported_at_both_places_and_breaks_the_unit() {
    let mut memory = Memory::new(&[
        ("/etc/groundstate/units/a.yaml", "unit: web\nprovides: x\n"),
        ("/etc/groundstate/units/b.yaml", "# c\nunit: web\nprovides: y\n"),
    ]);
    let first = memory.load(None);
    assert_eq!(
        told(&first.generation),
        ["a.yaml:1:1 error double-unit", "b.yaml:2:1 error double-unit"]
    );
    let web = unit(&first.generation, "web");
    assert!(web.fault.is_some());
    assert_eq!(provides(&first.generation, web), ["x", "y"]);
    memory.remove("/etc/groundstate/units/b.yaml");
    let second = memory.load(Some(&first.generation));
    assert_eq!(told(&second.generation), Vec::<String>::new());
    assert_eq!(unit(&second.generation, "web").fault, None);
}

#[test]
fn file_in_an_earlier_directory_hides_one_of_the_same_name() {
    let memory = Memory::new(&[
        ("/etc/groundstate/units/a.yaml", "unit: admin\n"),
        ("/run/groundstate/units/a.yaml", "unit: runtime\n"),
        ("/usr/lib/groundstate/units/a.yaml", "unit: vendor\n"),
        ("/run/groundstate/units/b.yaml", "unit: runtime\n"),
        ("/usr/lib/groundstate/units/b.yaml", "unit: vendor\n"),
        ("/usr/lib/groundstate/units/.c.yaml", "no unit\n"),
        ("/usr/lib/groundstate/units/README", "no unit\n"),
        ("/usr/lib/groundstate/units/d.yml", "unit: d\n"),
    ]);
    let generation = memory.load(None).generation;
    let names: Vec<_> = generation.units.iter().map(|unit| unit.name.as_str()).collect();
    assert_eq!(names, ["admin", "runtime"]);
    assert_eq!(told(&generation), ["d.yml:1:1 warning ignored-file"]);
}

#[test]
fn drop_in_of_a_template_among_other_units_applies_without_a_warning() {
    let memory = Memory::new(&[
        (
            "/usr/lib/groundstate/units/logins.yaml",
            "unit: getty@\ndefault-instance: tty1\nexec-start: /bin/x\n---\nunit: other\nexec-start: /bin/x\n",
        ),
        ("/usr/lib/groundstate/units/getty@.d/1.yaml", "umask: 3\n"),
    ]);
    let generation = memory.load(None).generation;
    assert_eq!(run(unit(&generation, "getty@tty1")).umask, 3);
    assert_eq!(told(&generation), [""; 0]);
}

#[test]
fn drop_ins_apply_in_the_order_of_their_names() {
    let mut memory = Memory::new(&[
        (
            "/usr/lib/groundstate/units/web.yaml",
            "unit: httpd\nexec-start: /bin/x\numask: 1\ndescription: a\n",
        ),
        ("/usr/lib/groundstate/units/web.d/20.yaml", "umask: 2\ndescription: b\n"),
        ("/etc/groundstate/units/httpd.d/10.yaml", "umask: 3\n"),
        ("/etc/groundstate/units/web.d/30.yaml", "wants: z?\n"),
        ("/etc/groundstate/units/missing.d/1.yaml", "umask: 3\n"),
    ]);
    let first = memory.load(None);
    let web = unit(&first.generation, "httpd");
    assert_eq!(
        (run(web).umask, web.live.description.as_str(), web.dependencies.len()),
        (2, "b", 1)
    );
    assert_eq!(told(&first.generation), ["1.yaml:1:1 warning unused-drop-in"]);
    assert_eq!(memory.load(Some(&first.generation)).parsed, 0);
    memory.put("/etc/groundstate/units/web.d/15.yaml", "umask: 9\n");
    let second = memory.load(Some(&first.generation));
    assert_eq!(second.parsed, 1);
    let fault = unit(&second.generation, "httpd").fault.clone();
    assert_eq!(fault, None, "a later drop-in replaced the mistaken key as a whole");
    memory.put("/etc/groundstate/units/web.d/40.yaml", "umask: 9\n");
    let third = memory.load(Some(&second.generation));
    assert!(
        unit(&third.generation, "httpd").fault.as_ref().unwrap().at.file.ends_with("web.d/40.yaml")
    );
}

#[test]
fn only_changed_files_are_parsed_again() {
    let mut memory = Memory::new(&[
        (
            "/etc/groundstate/units/a.yaml",
            "unit: a\nexec-start: /bin/x\nwaits-for: b\n---\nunit: a2\n",
        ),
        ("/etc/groundstate/units/b.yaml", "unit: b\nexec-start: /bin/x | y\n"),
        ("/etc/groundstate/units/c.yaml", "unit: c\numask: 9\nexec-start: /bin/x\n"),
        ("/etc/groundstate/units/d.yaml", "unit: d\nexec-start: /bin/absent\n"),
    ]);
    let first = memory.load(None);
    assert_eq!(first.parsed, 4);
    let second = memory.load(Some(&first.generation));
    assert_eq!(second.generation, first.generation);
    assert_eq!(second.parsed, 1, "d is parsed again, because its program may exist now");
    memory.put("/etc/groundstate/units/b.yaml", "unit: b\n");
    memory.program("/bin/absent");
    let third = memory.load(Some(&second.generation));
    assert_eq!(third.parsed, 2);
    assert_eq!(memory.load(Some(&third.generation)).parsed, 0);
    assert_eq!(third.generation, memory.load(None).generation);
    for path in ["/etc/passwd", "/etc/groundstate/init.yaml"] {
        let text =
            if path == "/etc/passwd" { "root:x:0:0::/:/bin/sh\n" } else { "stop-timeout: 1s\n" };
        memory.put(path, text);
        assert_eq!(memory.load(Some(&third.generation)).parsed, 4, "{path}");
    }
}

#[test]
fn changed_init_binary_parses_all_files_again() {
    let mut memory = Memory::new(&[
        ("/etc/groundstate/units/a.yaml", "unit: a\n"),
        ("/etc/groundstate/units/b.yaml", "unit: b\n"),
    ]);
    let first = memory.load(None);
    assert_eq!(memory.load(Some(&first.generation)).parsed, 0);
    memory.program("/proc/self/exe");
    let second = memory.load(Some(&first.generation));
    assert_eq!(second.parsed, 2);
    assert_eq!(memory.load(Some(&second.generation)).parsed, 0);
}

#[test]
fn generation_is_independent_of_the_order_of_a_directory_listing() {
    let files: Vec<(String, String)> = (0..40)
        .map(|n| {
            let text =
                format!("unit: u{n}\nprovides: t{}\nwaits-for: t{}\nbad{n}: 1\n", n / 2, n % 7);
            (format!("/etc/groundstate/units/{}.yaml", (n * 17) % 40), text)
        })
        .collect();
    let pairs: Vec<(&str, &str)> = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    let mut memory = Memory::new(&pairs);
    let forward = memory.load(None).generation;
    memory.backwards = true;
    assert_eq!(memory.load(None).generation, forward);
}

#[test]
fn irregular_or_untrusted_file_is_reported_and_never_read() {
    let mut memory = Memory::new(&[
        ("/etc/groundstate/units/open.yaml", "unit: open\n"),
        ("/etc/groundstate/units/foreign.yaml", "unit: foreign\n"),
        ("/etc/groundstate/units/group.yaml", "unit: group\n"),
        ("/etc/groundstate/units/staff.yaml", "unit: staff\n"),
        ("/etc/groundstate/units/dir.yaml/x", ""),
        ("/etc/groundstate/units/large.yaml", &"# x\n".repeat(70_000)),
        ("/etc/groundstate/units/good.yaml", "unit: good\n"),
        ("/etc/groundstate/units/moving.yaml", "unit: moving\n"),
    ]);
    memory.special("/etc/groundstate/units/fifo.yaml");
    memory.change("/etc/groundstate/units/open.yaml", |stat| stat.mode = 0o666);
    memory.change("/etc/groundstate/units/foreign.yaml", |stat| stat.uid = 1000);
    memory.change("/etc/groundstate/units/group.yaml", |stat| stat.mode = 0o664);
    memory.change("/etc/groundstate/units/staff.yaml", |stat| {
        (stat.mode, stat.gid) = (0o664, 50);
    });
    memory.restless = Some("/etc/groundstate/units/moving.yaml".to_string());
    let loaded = memory.load(None);
    assert!(loaded.refused);
    assert_eq!(
        told(&loaded.generation),
        [
            "dir.yaml:1:1 error unreadable",
            "fifo.yaml:1:1 error unreadable",
            "foreign.yaml:1:1 error untrusted",
            "large.yaml:1:1 error too-large",
            "moving.yaml:1:1 error unstable",
            "open.yaml:1:1 error untrusted",
            "staff.yaml:1:1 error untrusted",
        ]
    );
    assert_eq!(loaded.generation.units.len(), 2);
    assert!(!memory.read.lock().unwrap().iter().any(|path| path.contains("fifo")));
    assert!(memory.load(Some(&loaded.generation)).refused, "the same mistake is refused again");
}

#[test]
fn unit_of_unknown_name_refuses_a_reload_but_not_a_boot() {
    let good = ("/etc/groundstate/units/good.yaml", "unit: good\n");
    for bad in ["unit: a/b\n", "exec-start: /bin/x\n", "unit: a\0\n", "just text\n", "unit: x"] {
        let loaded = Memory::new(&[good, ("/etc/groundstate/units/bad.yaml", bad)]).load(None);
        assert!(unit(&loaded.generation, "good").fault.is_none());
        let known = loaded.generation.units.len() == 2;
        assert!(loaded.refused != known, "{bad:?}");
    }
    for bad in ["unit: bad\numask: 9\n", "unit: bad\nx: y: z\n"] {
        let loaded = Memory::new(&[good, ("/etc/groundstate/units/bad.yaml", bad)]).load(None);
        assert!(!loaded.refused && unit(&loaded.generation, "bad").fault.is_some(), "{bad:?}");
    }
}

#[test]
fn invalid_settings_keep_their_valid_part_and_refuse_a_reload() {
    let memory = Memory::new(&[
        ("/etc/groundstate/init.yaml", "default-target: server\nmax-starting: many\n"),
        ("/etc/groundstate/policy.yaml", "mask: [a]\npreffer: {}\n"),
        ("/run/groundstate/policy.yaml", "mask: [b]\n"),
        ("/etc/groundstate/units/a.yaml", "unit: server\n"),
    ]);
    let loaded = memory.load(None);
    assert!(loaded.refused);
    assert_eq!(
        told(&loaded.generation),
        ["init.yaml:2:15 error value", "policy.yaml:2:1 error unknown-key"]
    );
    assert_eq!(loaded.generation.settings.default_target.as_str(), "server");
    assert_eq!(loaded.generation.policy.mask.len(), 2);
    assert_eq!(loaded.generation.units.len(), 1);
}

#[test]
fn missing_user_or_path_of_a_unit_is_a_warning() {
    let generation = one(
        "unit: a\nexec-start: /bin/absent\nexec-stop: absent-too\nuser: ghost\nworking-dir: /nowhere\nenv-file: /no/file\n",
    );
    assert_eq!(
        told(&generation),
        [
            "x.yaml:2:13 warning missing-executable",
            "x.yaml:3:12 warning missing-executable",
            "x.yaml:4:7 warning missing-user",
            "x.yaml:5:14 warning missing-directory",
            "x.yaml:6:11 warning missing-file",
        ]
    );
    assert_eq!(generation.units[0].fault, None);
    assert!(run(&generation.units[0]).credentials.unwrap().ids.is_err());
}

#[test]
fn missing_program_is_reported_with_the_effect_on_its_key() {
    let generation = one(
        "unit: a\nexec-start: /x\nexec-start-post: -/x\nexec-stop: /x\nexec-stop-post: /x\nexec-reload: /x\n",
    );
    let hints: Vec<&str> = generation.diagnostics.iter().map(|it| it.hint.as_str()).collect();
    assert_eq!(
        hints,
        [
            "until it exists, the unit cannot start",
            "until it exists, this command is skipped",
            "until it exists, a stop skips this command",
            "until it exists, this command is not run after the end",
            "until it exists, the unit cannot reload",
        ]
    );
}

#[test]
fn existing_file_without_execute_permission_gets_its_own_hint() {
    let memory = Memory::new(&[("/u/x.yaml", "unit: a\nexec-start: /u/x.yaml\n")]);
    let generation = memory.check("/u");
    let [said] = generation.diagnostics.as_slice() else { panic!("{:?}", generation.diagnostics) };
    assert_eq!(said.message, "no permission to execute /u/x.yaml");
    assert_eq!(said.hint, "until that is corrected, the unit cannot start");
}

#[test]
fn tab_as_indentation_is_reported_at_its_place() {
    for (text, place) in
        [("unit: a\ndescription: b\n\tc: d\n", "3:1"), ("unit: a\nenv:\n\tA: b\n", "3:1")]
    {
        let generation = one(text);
        let said = generation.diagnostics.iter().find(|it| it.message == "a tab as indentation");
        let at = &said.unwrap().at;
        assert_eq!(format!("{}:{}", at.line, at.column), place, "{text:?}");
    }
}

#[test]
fn program_without_a_slash_is_looked_up_in_the_path_of_the_unit() {
    let mut memory = Memory::new(&[
        ("/u/a.yaml", "unit: a\nexec-start: x\n"),
        ("/u/b.yaml", "unit: b\nexec-start: mine\nenv: {PATH: /opt/bin}\n"),
    ]);
    memory.program("/opt/bin/mine");
    assert_eq!(told(&memory.check("/u")), Vec::<String>::new());
    memory.change("/opt/bin/mine", |stat| stat.mode = 0o644);
    assert_eq!(told(&memory.check("/u")), ["b.yaml:2:13 warning missing-executable"]);
}

#[test]
fn dependency_without_a_provider_is_reported_at_its_place() {
    let text = "unit: netif-user\ndepends-on: netif-user2, netif\nwaits-for:\n  - dhcp\n  - dns?\n";
    let generation = one(text);
    assert_eq!(
        told(&generation),
        [
            "x.yaml:2:13 error missing-target",
            "x.yaml:2:26 error missing-target",
            "x.yaml:4:5 error missing-target"
        ]
    );
    assert_eq!(generation.diagnostics[1].excerpt, "depends-on: netif-user2, netif");
    let mut memory = Memory::new(&[]);
    memory.put("/f/a.yaml", text);
    let alone = groundstate_units::load::Options::files(vec!["/f/a.yaml".to_string()], 0);
    let generation = groundstate_units::load::load(&memory, &alone, None).generation;
    assert!(told(&generation).iter().all(|told| told.contains(" note missing-target")));
}

#[test]
fn hint_for_a_missing_target_names_the_broken_file_that_would_provide_it() {
    let goal = "unit: goal\nwaits-for: http, db, mail, queue\ndepends-ms: x\n";
    let memory = Memory::new(&[
        ("/u/goal.yaml", goal),
        // The loader does not read past the mistake.
        ("/u/web.yaml", "unit: web\nexec-start: a: b\nprovides: https, http\n"),
        ("/u/db.yaml", "# db\nunit: a b\n"),
        ("/u/post.yml", "unit: mail\n"),
        ("/u/fine.yaml", "unit: fine\nx-was: queue\n"),
    ]);
    let generation = memory.check("/u");
    let missing = generation.diagnostics.iter().filter(|it| it.code == "missing-target");
    let hints: Vec<&str> = missing.map(|it| it.hint.as_str()).collect();
    assert_eq!(
        hints,
        [
            "/u/web.yaml would provide it: correct that file first",
            "/u/db.yaml would provide it: correct that file first",
            "/u/post.yml would provide it: correct that file first",
            "write `queue?` if it may be missing",
            "write `x?` if it may be missing",
        ]
    );
}

#[test]
fn unknown_name_in_wants_or_at_an_end_is_a_warning() {
    let text = "unit: a\nwants: web, site, nowhere, gone?\non-failure: alarm, note@x\n\
                on-success: next\nafter: unknown\nexec-start: /bin/x\n";
    let mut memory = Memory::new(&[
        ("/u/a.yaml", text),
        ("/u/web.yaml", "unit: web\nprovides: web, site\nexec-start: /bin/x\n"),
        ("/u/note.yaml", "unit: note@\ntype: oneshot\nexec-start: /bin/x %i\n"),
    ]);
    let expected = [
        "a.yaml:2:19 warning missing-target",
        "a.yaml:3:13 warning missing-target",
        "a.yaml:4:13 warning missing-target",
    ];
    assert_eq!(told(&memory.check("/u")), expected);
    let imported = "[Unit]\nWants=b.service\nOnFailure=c.service\nOnSuccess=d.service\n[Service]\nExecStart=/bin/x\n";
    memory.put("/u/a.yaml", "unit: a\n");
    memory.put("/u/i.service", imported);
    let told = told(&memory.check("/u"));
    assert!(!told.iter().any(|told| told.ends_with("missing-target")), "{told:?}");
}

#[test]
fn ring_and_double_claim_are_reported_at_each_place() {
    let generation = Memory::new(&[
        ("/u/a.yaml", "unit: a\nprovides: x\n"),
        ("/u/b.yaml", "# two\nunit: b\nprovides: x\n"),
        ("/u/c.yaml", "unit: c\ndepends-on: d\n"),
        ("/u/d.yaml", "unit: d\nwants: e\nafter: e\n"),
        ("/u/e.yaml", "unit: e\nprovides: e\nwaits-for: c\n"),
        ("/u/f.yaml", "unit: f\nafter: f\n"),
    ])
    .check("/u");
    assert_eq!(
        told(&generation),
        [
            "a.yaml:1:1 error double-claim",
            "b.yaml:2:1 error double-claim",
            "c.yaml:2:13 error ring",
            "d.yaml:3:8 error ring",
            "e.yaml:3:12 error ring",
            "f.yaml:2:8 error ring",
        ]
    );
    assert_eq!(generation.diagnostics[0].related[0].line, 2);
    assert_eq!(generation.diagnostics[2].related.len(), 2);
}

#[test]
fn too_many_dependencies_are_refused() {
    let many = (0..4097).map(|n| format!("t{n}?")).collect::<Vec<_>>().join(", ");
    assert!(
        mistakes(&format!("unit: a\nwants: {many}\n"))
            .contains(&"x.yaml:2:8 error too-large".to_string())
    );
    let half = (0..2100).map(|n| format!("t{n}?")).collect::<Vec<_>>().join(", ");
    let both = mistakes(&format!("unit: a\nwants: {half}\nafter: {half}\n"));
    assert_eq!(both, ["x.yaml:1:1 error too-large"]);
}

proptest::proptest! {
    #[test]
    fn any_bytes_load_as_a_consistent_generation(bytes: Vec<u8>) {
        let mut memory = Memory::new(&[]);
        memory.put("/u/x.yaml", bytes);
        proptest::prop_assert_eq!(memory.check("/u").prove(), Ok(()));
    }

    #[test]
    fn damaged_unit_file_loads_as_a_consistent_generation(
        cuts in proptest::collection::vec((0usize..600, 0usize..9, ".{0,3}"), 1..6)
    ) {
        let mut text = [MADDY, "---\n", NETIF, IRC_BOT].concat();
        for (at, length, insert) in cuts {
            let start = (0..=at.min(text.len())).rev().find(|i| text.is_char_boundary(*i)).unwrap();
            let end = (start + length..).find(|i| *i >= text.len() || text.is_char_boundary(*i)).unwrap();
            text.replace_range(start..end.min(text.len()), &insert);
        }
        let generation = one(&text);
        proptest::prop_assert_eq!(generation.prove(), Ok(()));
        let again = Generation::decode(&generation.encode());
        proptest::prop_assert_eq!(again, Ok(generation));
    }
}

#[test]
fn command_of_init_becomes_the_only_unit_with_its_words_unchanged() {
    let memory = Memory::new(&[("/etc/groundstate/units/web.yaml", "unit: web\n")]);
    let words = ["./run", "$HOME", "%n", "a b", ""].map(String::from).to_vec();
    let command = Some(Command { words: words.clone(), umask: 0o27 });
    let options = Options { only: Some(Vec::new()), command, ..Options::system(0) };
    let loaded = load(&memory, &options, None);
    assert!(!loaded.refused && told(&loaded.generation).is_empty());
    assert!(loaded.generation.prove().is_ok());
    let again = load(&memory, &options, Some(&loaded.generation)).generation;
    let other = instances(&memory, &options, &loaded.generation).unwrap().generation;
    for generation in [&loaded.generation, &again, &other] {
        assert_eq!(generation.units, loaded.generation.units);
        assert_eq!(generation.units.len(), 1);
        let run = run(unit(generation, Command::UNIT));
        assert_eq!(expand(&run.exec_start[0], &|_| None, None).unwrap(), words);
        assert_eq!(run.umask, 0o27);
    }
}

//! Loads unit files from bytes to a generation, and checks the units, the diagnostics and their
//! places.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::spec::{
    DependencyKind, Kind, Log, OnChange, Readiness, Restart, RestartLimit,
};
use groundstate_units::unit::generation::Unit;
use groundstate_units::unit::key::Shape;
use groundstate_units::unit::key_table::KEYS;
use memory::card::{
    DHCPCD, INSPIRCD, IRC_BOT, MADDY, NETIF, NETWORK_ONLINE, UNBOUND, mistakes, one, provides, run,
    unit,
};
use memory::{Memory, told};
use std::time::Duration;

#[track_caller]
fn fine(text: &str) -> Unit {
    assert_eq!(mistakes(text), Vec::<String>::new(), "{text}");
    one(text).units.remove(0)
}

/// An upgrade and a reload restart each unit whose hash differs. A new field of a run or of a trigger
/// therefore needs `skip_serializing_if`, and these numbers must not change.
#[test]
fn definition_of_a_run_has_the_hash_that_earlier_versions_gave_it() {
    let full = "unit: full
type: foreground-notified
exec-condition: /bin/x 1
exec-start-pre: [/bin/x 2, -/bin/x 3]
exec-start: /bin/x $VAR '4 5'
exec-start-post: /bin/x 6
exec-stop: /bin/x 7
exec-stop-post: /bin/x 8
exec-reload: /bin/x 9
user: www
supplementary-groups: [adm]
env: {VAR: value}
env-file: /etc/passwd
env-pass: [LANG]
env-unset: [HOME]
umask: 27
working-dir: -/
limits: {nofile: 100}
log: syslog
log-tag: tag
log-level: info
condition-path-exists: '!/never'
assert-architecture: x86-64
runtime-dir: full
runtime-dir-keep: yes
no-new-privileges: yes
capabilities-ambient: [net-bind-service]
stdin: file:/etc/passwd
kill-mode: mixed
stop-hup: yes
watchdog: 10s
nice: 5
io-class: idle
cpu-affinity: 0-1
cgroup-memory-max: 1M
cgroup-delegate: yes
fd-store-max: 3
start-idle: yes
oom-policy: kill
";
    let socket = "unit: socket\ntype: socket\nactivates: full\nlisten-stream: /run/x\nsocket-mode: 600\nsocket-nodelay: yes\n";
    let timer =
        "unit: timer\ntype: timer\nactivates: full\ntimer-calendar: daily\ntimer-persistent: yes\n";
    let path = "unit: path\ntype: path\nactivates: full\npath-exists: /run/x\n";
    let minimal = "unit: minimal\nexec-start: /bin/x\n";
    let hashes = [minimal, full, socket, timer, path].map(|text| {
        let unit = one(text).units.remove(0);
        assert_eq!(unit.fault, None);
        unit.run_hash
    });
    let expected = [
        0xbdd8_5e7c_702c_dd70,
        0x76aa_ac59_da5d_b99c,
        0x6cd4_9b5d_9bfc_2aba,
        0xd1c7_db75_cb0f_20b9,
        0x484c_3cfe_77a8_d039,
    ];
    assert_eq!(hashes, expected);
}

#[test]
fn examples_of_the_design_card_load_without_errors() {
    let files = [MADDY, NETWORK_ONLINE, DHCPCD, NETIF, UNBOUND, INSPIRCD, IRC_BOT];
    let programs = [
        "/usr/bin/maddy",
        "/bin/kill",
        "/etc/my-script-to-set-up-interfaces-with-iproute2",
        "/usr/local/bin/irc-bot",
    ];
    let mut apart = Memory::new(&[(
        "/one/all.yaml",
        &files.concat().replace("MAINPID\nunit", "MAINPID\n---\nunit"),
    )]);
    programs.iter().for_each(|program| apart.program(program));
    for (index, text) in files.iter().enumerate() {
        apart.put(&format!("/etc/groundstate/units/{index}.yaml"), text);
    }
    let loaded = apart.load(None);
    let generation = &loaded.generation;
    assert_eq!((told(generation), loaded.refused, loaded.parsed), (vec![], false, 7));
    let names: Vec<_> = generation.units.iter().map(|unit| unit.name.as_str()).collect();
    assert_eq!(
        names,
        ["dhcpcd", "inspircd", "irc-bot", "maddy", "netif", "network-online", "unbound"]
    );
    let maddy = unit(generation, "maddy");
    assert_eq!(
        (maddy.kind, provides(generation, maddy)),
        (Kind::ForegroundNotified, vec!["imapd", "smtpd"])
    );
    assert!(maddy.has_exec_stop && maddy.has_exec_reload);
    assert_eq!(unit(generation, "dhcpcd").kind, Kind::Virtual);
    let bot = unit(generation, "irc-bot");
    assert_eq!(bot.readiness, Readiness::Reported);
    assert_eq!(run(bot).ready_grep.as_deref(), Some("^connected to"));
    let kinds: Vec<_> = bot.dependencies.iter().map(|edge| (edge.kind, edge.line)).collect();
    assert_eq!(kinds, [(DependencyKind::DependsMs, 4), (DependencyKind::WaitsFor, 5)]);
}

#[test]
fn units_in_one_file_load_like_units_in_several_files() {
    let cards = [NETWORK_ONLINE, "...\n", DHCPCD, NETIF, UNBOUND, INSPIRCD];
    let mut memory = Memory::new(&[("/u/all.yaml", &cards.concat())]);
    memory.program("/etc/my-script-to-set-up-interfaces-with-iproute2");
    let generation = memory.check("/u");
    assert_eq!((told(&generation), generation.units.len()), (vec![], 5));
    assert_eq!(unit(&generation, "unbound").at.line, 15);
}

/// Returns a value of the right shape, wherever the key is allowed.
fn sample(key: &groundstate_units::unit::key::Key) -> String {
    match (key.name, key.shape) {
        ("on-change", _) => "keep".to_string(),
        ("type", _) => String::new(),
        (_, Shape::Choice(words)) => words[0].to_string(),
        _ => key.example.split_once(':').unwrap().1.trim_start_matches(' ').to_string(),
    }
}

#[test]
fn every_key_is_accepted_only_by_its_types() {
    for kind in Kind::ALL {
        for key in KEYS.iter().filter(|key| !matches!(key.name, "unit" | "name" | "type")) {
            let mut text =
                format!("unit: u\ntype: {}\n{}: {}\n", kind.as_str(), key.name, sample(key));
            for needed in KEYS.iter().filter(|k| k.required.has(kind) && !matches!(k.name, "unit"))
            {
                if needed.name != key.name {
                    text += &format!("{}: {}\n", needed.name, sample(needed));
                }
            }
            let any_one_of_several = [
                (Kind::Socket, "listen-fifo: /run/u"),
                (Kind::Timer, "timer-boot: 1min"),
                (Kind::Path, "path-exists: /run/u"),
                (Kind::BackgroundPidfile, "pid-file: /u"),
                (Kind::Oneshot, "exec-start: /bin/x"),
            ];
            let mut lines =
                any_one_of_several.iter().filter(|(of, _)| *of == kind).map(|(_, line)| line);
            if let Some(line) = lines
                .find(|line| key.name != "main-pid" && !line.starts_with(&format!("{}:", key.name)))
            {
                text += &format!("{line}\n");
            }
            let errors: Vec<String> = mistakes(&text)
                .into_iter()
                .filter(|told| told.contains(" key-type") || told.contains(" shape"))
                .collect();
            if key.types.has(kind) {
                let errors: Vec<String> = mistakes(&text)
                    .into_iter()
                    .filter(|t| t.contains(" error ") && !t.contains("missing-target"))
                    .collect();
                assert_eq!(errors, Vec::<String>::new(), "{text}");
            } else {
                assert_eq!(errors, ["x.yaml:3:1 error key-type"], "{text}");
            }
        }
    }
}

#[test]
fn missing_required_key_of_a_type_is_reported() {
    for kind in Kind::ALL {
        for needed in KEYS.iter().filter(|k| k.required.has(kind) && k.name != "unit") {
            let mut text = format!("type: {}\nunit: u\n", kind.as_str());
            for other in KEYS
                .iter()
                .filter(|k| k.required.has(kind) && k.name != "unit" && k.name != needed.name)
            {
                text += &format!("{}: {}\n", other.name, sample(other));
            }
            assert_eq!(mistakes(&text)[0], "x.yaml:2:1 error missing-key", "{text}");
        }
    }
}

#[test]
fn defaults_depend_on_the_type() {
    let plain = fine("unit: a\nexec-start: /bin/x\n");
    assert_eq!((plain.kind, plain.readiness), (Kind::ForegroundSupervised, Readiness::Exec));
    assert_eq!(plain.live.restart, Restart::OnFailure);
    assert_eq!(plain.live.start_timeout, Some(Duration::from_secs(60)));
    assert_eq!((plain.live.stop_signal, plain.live.failure_verdict), (15, 3));
    let run = run(&plain);
    assert_eq!((run.log, run.umask, run.working_dir.as_str()), (Log::File, 0o22, "/"));
    assert_eq!(run.credentials, None);
    let once = fine("unit: a\ntype: oneshot\nexec-start: [/bin/x, /bin/x b]\n");
    assert_eq!((once.live.restart, once.readiness), (Restart::Never, Readiness::Exit));
    assert_eq!(fine("unit: a\n").kind, Kind::Virtual);
    for null in ["null", "~", "", "'null'"] {
        let unit = fine(&format!("unit: a\nexec-start: /bin/x\nlog: {null}\n"));
        assert_eq!(self::run(&unit).log, Log::Null, "{null}");
    }
}

#[test]
fn every_value_is_stored_in_its_field() {
    let unit = fine(
        "unit: a\ndescription:  My  unit\nexec-start: /bin/x $A\nexec-start-pre: [/bin/x 1, /bin/x 2]\n\
         exec-stop: /bin/x $MAINPID\nexec-reload: /bin/x\nready-wait: 1.5\nstart-timeout: none\n\
         stop-timeout: 2min\nstop-signal: SIGQUIT\nsuccess-status: [143, TERM, 3, 3]\nlog: null\n\
         restart: always\nrestart-delay: 1\nrestart-delay-max: 2\nrestart-reset: 3\nrestart-limit: 5/10s\n\
         failure-verdict: 1\non-change: reload\nessential: on\nuser: www\ngroup: 50\n\
         supplementary-groups: [adm, 7]\nenv: {A: '1', B: ''}\nenv-file: -/etc/default/a\n\
         working-dir: /u\numask: 077\nlimits: {nofile: 1024:4096, core: infinity}\n",
    );
    let live = &unit.live;
    assert_eq!(live.description, "My unit");
    assert_eq!((live.start_timeout, live.stop_timeout), (None, Some(Duration::from_secs(120))));
    assert_eq!(
        (live.stop_signal, live.restart, live.on_change),
        (3, Restart::Always, OnChange::Reload)
    );
    assert_eq!(live.restart_limit, RestartLimit::Within(5, Duration::from_secs(10)));
    assert_eq!(
        (live.success_status.codes.as_slice(), live.success_status.signals.as_slice()),
        (&[3u8, 143][..], &[15u8][..])
    );
    assert!(live.essential && unit.has_exec_stop && unit.has_exec_reload);
    assert_eq!(unit.readiness, Readiness::Wait(Duration::from_millis(1500)));
    let run = run(&unit);
    let ids = run.credentials.unwrap().ids.unwrap();
    assert_eq!((ids.uid, ids.gid, ids.groups), (Some(33), Some(50), Some(vec![4, 7])));
    assert_eq!((run.log, run.umask, run.exec_start_pre.len()), (Log::Null, 0o77, 2));
    assert_eq!(run.env, [("A".to_string(), "1".to_string()), ("B".to_string(), String::new())]);
    assert_eq!((run.limits.len(), run.limits[0].soft, run.limits[1].hard), (2, Some(1024), None));
    assert!(run.env_file[0].optional);
    assert_eq!(
        fine("unit: a\nexec-start: /bin/x\nenv: [A=b=c, B=]\n").kind,
        Kind::ForegroundSupervised
    );
}

#[test]
fn file_without_a_unit_is_reported() {
    for text in ["", "\n  \n", "# only a comment\n", "...\n", "---\n---\n"] {
        assert_eq!(mistakes(text), ["x.yaml:1:1 error empty"], "{text:?}");
    }
}

#[test]
fn all_errors_of_a_file_are_reported_at_once() {
    let noise = mistakes("unit: a\nexec_start: /bin/x\nuser: www\n");
    assert_eq!(noise, ["x.yaml:2:1 error unknown-key"]);
    let told = mistakes(
        "unit: a\ntipe: oneshot\nexec-start: ./x\nstart-timeout: 0\nuser: 0day\numask: 8\n",
    );
    assert_eq!(
        told,
        [
            "x.yaml:2:1 error unknown-key",
            "x.yaml:3:13 error exec-line",
            "x.yaml:4:16 error value",
            "x.yaml:5:7 error value",
            "x.yaml:6:8 error value",
        ]
    );
}

#[test]
fn invalid_values_are_refused_at_their_place() {
    for line in [
        "user: -1",
        "user: 4294967295",
        "user: 4294967296",
        "user: 0x1",
        "user: ''",
        "user: \"root\\n\"",
        "user:",
        "umask: 999",
        "start-timeout: -1",
        "start-timeout: 1e9",
        "start-timeout: ∞",
        "stop-timeout: 0",
        "restart-delay: 9223372036854775808",
        "restart-limit: 0",
        "restart-limit: 5/",
        "failure-verdict: 0",
        "success-status: 143",
        "success-status: [256]",
        "success-status: [-1]",
        "limits: nofile",
        "limits: {nofile: 5:1}",
        "limits: {nofiles: 5}",
        "working-dir: var",
        "env: {0A: b}",
        "env: [A]",
        "env: {A: }",
        "env-file: x",
        "log: nul",
        "restart: sometimes",
        "on-change: reload",
        "essential: 1",
        "ready-grep: '('",
        "ready-grep: 'a{1000}{1000}'",
        "ready-grep: '(?=x)'",
        "exec-stop: []",
        "exec-stop: [[/bin/x]]",
        "exec-start-pre: /bin/x $MAINPID",
        "depends-on: a,,b",
        "depends-on: a b",
        "depends-on: {a: b}",
        "depends-on: a??",
        "provides: []",
        "provides: a?",
        "provides: ../x",
        "description: [a]",
        "stop-signal: 0",
        "supplementary-groups: adm",
    ] {
        let text = format!("unit: u\nexec-start: /bin/x\n{line}\n");
        let mistakes = mistakes(&text);
        // The loader also reports the missing provider of a name beside the mistake.
        let told = |told: &&String| told.contains(" error ") && !told.ends_with("missing-target");
        let errors: Vec<_> = mistakes.iter().filter(told).collect();
        assert!(errors.len() == 1 && errors[0].starts_with("x.yaml:3:"), "{line}: {mistakes:?}");
    }
    for key in ["exec-reload: /bin/x", "reload-signal: HUP"] {
        let text = format!("unit: u\nexec-start: /bin/x\non-change: reload\n{key}\n");
        assert_eq!(mistakes(&text), [""; 0], "{key}");
    }
    for pair in ["ready-wait: 1\nready-grep: x", "exec-start: [/bin/x]"] {
        let text = format!("unit: u\nexec-start: /bin/x\n{pair}\n").replacen(
            "exec-start: /bin/x\nexec-start",
            "exec-start",
            1,
        );
        assert!(!mistakes(&text).is_empty(), "{text}");
    }
}

#[test]
fn second_unit_in_one_document_is_one_error_with_a_hint() {
    let text = "unit: web\nexec-start: /bin/x\ndepends-on: sql\nunit: db\nprovides: sql\n\
                type: oneshot\nexec-start: /bin/x\n---\nunit: shop\ndepends-on: sql\n";
    let generation = one(text);
    assert_eq!(told(&generation), ["x.yaml:4:1 error second-unit"]);
    let hint = &generation.diagnostics[0].hint;
    assert_eq!(hint, "put a line `---` before it: each unit is a document of its own");
    let faults: Vec<_> = generation.units.iter().map(|unit| unit.fault.is_some()).collect();
    assert_eq!(faults, [true, false, true], "db, shop, web");
    for text in ["unit: a\nunit: a\n", "unit: a\nexec-start: /bin/x\nunit: a\nexec-start: /bin/x\n"]
    {
        assert_eq!(mistakes(text).len(), 1, "{text}");
    }
}

#[test]
fn file_with_a_syntax_error_gets_no_errors_about_missing_keys() {
    for keys in [
        "type: foreground-notified",
        "type: oneshot",
        "type: background-pidfile",
        "type: socket",
        "type: timer\nactivates: a",
        "type: path",
        "on-change: reload",
    ] {
        let text = format!("unit: a\n{keys}\ndescription: a: b\nexec-start: /bin/x\n");
        let errors = mistakes(&text);
        assert!(errors.len() == 1 && errors[0].ends_with("error yaml"), "{text}: {errors:?}");
    }
}

#[test]
fn type_of_systemd_is_an_error_with_the_native_type() {
    for (word, native) in [
        ("simple", "foreground-supervised"),
        ("exec", "foreground-supervised"),
        ("idle", "foreground-supervised"),
        ("dbus", "foreground-supervised"),
        ("notify", "foreground-notified"),
        ("notify-reload", "foreground-notified"),
        ("forking", "background-pidfile"),
    ] {
        let generation = one(&format!("unit: a\ntype: {word}\nexec-start: /bin/x\n"));
        let hints: Vec<&str> = generation.diagnostics.iter().map(|it| it.hint.as_str()).collect();
        assert_eq!(hints, [format!("`Type={word}` of systemd is `type: {native}`")], "{word}");
    }
    assert_eq!(fine("unit: a\ntype: oneshot\nexec-start: /bin/x\n").kind, Kind::Oneshot);
}

#[test]
fn instance_specifier_outside_a_template_gets_a_warning() {
    for (line, place) in [
        ("exec-start: /bin/x %i", Some("2:13")),
        ("exec-start: [/bin/x, /bin/x --unit=%i]\ntype: oneshot", Some("2:22")),
        ("condition-path-exists: /srv/%I\nexec-start: /bin/x", Some("2:24")),
        ("description: queue %j", Some("2:14")),
        ("env: {QUEUE: '%i'}\nexec-start: /bin/x", Some("2:14")),
        // date(1) and strftime(3) know these.
        ("exec-start: /bin/x +%I:%M %j", None),
        ("env: {FORMAT: '%I:%M'}\nexec-start: /bin/x", None),
    ] {
        let expected = place.map(|place| format!("x.yaml:{place} warning specifier"));
        assert_eq!(mistakes(&format!("unit: a\n{line}\n")), Vec::from_iter(expected), "{line}");
        assert_eq!(mistakes(&format!("unit: a@\n{line}\n")), [""; 0], "{line}");
    }
    let hint = &one("unit: a\nexec-start: /bin/x %i\n").diagnostics[0].hint;
    assert_eq!(
        hint,
        "only a template replaces it: write `unit: a@`, and name an instance, as `a@x`"
    );
}

#[test]
fn questionable_definition_gets_a_warning_or_a_note() {
    let mut memory = Memory::new(&[
        ("/u/a.yaml", "unit: system\nprovides: multi-user\nwaits-for: d\ndepends-on: d\n"),
        ("/u/d.yaml", "unit: d\ntype: background-pidfile\nexec-start: /bin/x\npid-file: /tmp/d\n"),
        ("/u/e.yaml", "unit: e\ntype: background-pidfile\nexec-start: /bin/x\npid-file: /tmp/d\n"),
    ]);
    assert_eq!(
        told(&memory.check("/u")),
        [
            "a.yaml:4:1 note hard-goal",
            "d.yaml:4:11 warning shared-directory",
            "e.yaml:1:1 warning shared-pid-file",
            "e.yaml:4:11 warning shared-directory",
        ]
    );
    memory.put("/u/a.yaml", "unit: a\nexec-start: /bin/x\nrestart: on-success\n");
    memory.put("/u/b.yaml", "unit: b\ntype: timer\ntimer-calendar: '*-02-30'\nactivates: d\n");
    assert_eq!(
        told(&memory.check("/u"))[..2],
        ["a.yaml:3:10 warning value", "b.yaml:3:17 warning value"]
    );
    memory.put(
        "/u/a.yaml",
        "unit: a\nexec-start: /bin/x\nrestart: on-success\nsuccess-status: [0]\n",
    );
    memory.put(
        "/u/b.yaml",
        "unit: b\ntype: timer\ntimer-calendar: ['*-02-29', '1980-01-01']\nactivates: d\n",
    );
    assert!(told(&memory.check("/u")).iter().all(|told| !told.ends_with("warning value")));
    memory.put("/u/a.yaml", "unit: t\ntype: timer\nactivates: d\n");
    assert!(told(&memory.check("/u")).contains(&"a.yaml:1:1 error missing-key".to_string()));
}

#[test]
fn diagnostics_of_a_file_with_thousands_of_bad_keys_are_limited() {
    let text: String = (0..30_000).map(|n| format!("exex-start{n}: 1\n")).collect();
    let generation =
        one(&text[..250_000].rsplit_once('\n').map(|(all, _)| format!("{all}\n")).unwrap());
    assert!(generation.diagnostics.len() <= groundstate_units::limit::DIAGNOSTICS_PER_FILE);
}

//! What takes something away from a process: each way is seen from inside where it is asked for, and
//! nowhere else; and where one of its steps fails nothing runs.

use super::child_setup::is_root;
use super::command::script;
use super::hierarchy::BARE;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::status::Status;
use groundstate_tests::tracer::{Tracer, injected};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A restriction: its name here, what the unit file says, the line of what the process sees, and what
/// that says with it and without.
type Row = (&'static str, &'static str, &'static str, &'static str, &'static str);

const ROWS: [Row; 14] = [
    ("user", "user: nobody", "Uid:", "65534 65534 65534 65534", "0 0 0 0"),
    ("group", "group: nogroup", "Gid:", "65534 65534 65534 65534", "0 0 0 0"),
    ("groups", "user: nobody\nsupplementary-groups: [daemon]", "Groups:", "1", ""),
    ("rootless", "user: nobody", "CapEff:", "0000000000000000", "ALL"),
    ("bound", "capabilities-bound: [CAP_KILL]", "CapBnd:", "0000000000000020", "ALL"),
    ("bound-in-force", "capabilities-bound: [CAP_KILL]", "CapPrm:", "0000000000000020", "ALL"),
    (
        "ambient",
        "user: nobody\ncapabilities-ambient: [CAP_KILL]",
        "CapAmb:",
        "0000000000000020",
        "0000000000000000",
    ),
    ("no-new", "no-new-privileges: yes", "NoNewPrivs:", "1", "0"),
    ("bits", "secure-bits: [noroot]", "Securebits:", "noroot", "[none]"),
    ("umask", "umask: \"077\"", "Umask:", "0077", "0022"),
    ("files", "limits: {nofile: 64}", "Max open files", "64 64 files", "OTHER"),
    (
        "size",
        "limits: {fsize: 1M}",
        "Max file size",
        "1048576 1048576 bytes",
        "unlimited unlimited bytes",
    ),
    ("core", "limits: {core: 0}", "Max core file size", "0 0 bytes", "OTHER"),
    ("jail", "root-dir: DIR/jail", "processes", "0", "OTHER"),
];

/// All that a process says of itself, as `key` says it.
fn seen(init: &Init, unit: &str, key: &str) -> String {
    let text = init.sandbox.read(&format!("{unit}.seen"));
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let line = line.unwrap_or_else(|| panic!("{unit} says nothing of {key}:\n{text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_restriction_is_felt_from_inside_and_only_where_it_is_asked_for() {
    if !is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let files = Sandbox::new();
    fs::create_dir(files.path("jail")).unwrap();
    script(
        &files,
        "look",
        "cat /proc/self/status /proc/self/limits; echo processes $(ls /proc | grep -c '^[0-9]'); setpriv --dump | tr -d ' '| sed 's/Securebits:/Securebits: /'; echo over",
    );
    let look = |asks: &str, name: &str| {
        format!(
            "type: oneshot\n{asks}\nstdout: truncate:DIR/{name}.seen\nstderr: null\nexec-start: /bin/sh DIR/look.sh"
        )
    };
    let names = ROWS.map(|(name, ..)| name);
    for (name, asks, ..) in ROWS {
        files.unit(name, &look(asks, name));
    }
    files.unit("plain", &look("", "plain"));
    files.unit("all", &format!("type: virtual\nwaits-for: plain, {}", names.join(", ")));
    let bind = format!("mount --bind / {} && exec \"$@\"", files.at("jail"));
    let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("all");
    init.when_system("running");
    for unit in names.into_iter().chain(["plain"]) {
        until("it has looked", || {
            init.sandbox.read(&format!("{unit}.seen")).contains("over").then_some(())
        });
    }
    let all = init.process().status("CapBnd").unwrap();
    for (name, _, key, with, without) in ROWS {
        assert_eq!(seen(&init, name, key), with, "{name}");
        let plain = seen(&init, "plain", key);
        match without {
            "OTHER" => assert_ne!(plain, with, "{name}"),
            "ALL" => assert_eq!(plain, all, "{name}"),
            without => assert_eq!(plain, without, "{name}"),
        }
    }
    init.finish();
}

/// Without cgroups init has a use of its own for it.
#[test]
fn a_limit_of_locks_is_the_units_that_asks_for_it() {
    const ASKED: [(&str, &str, &str, &str); 3] = [
        ("few", "5", "5", "5"),
        ("between", "\"7:infinity\"", "7", "unlimited"),
        ("any", "infinity", "unlimited", "unlimited"),
    ];
    const MOST: &str = "Max file locks";
    let bounded = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"];
    for may_raise in [true, false] {
        let files = Sandbox::new();
        for (name, asked, ..) in ASKED {
            files.unit(
                name,
                &format!("limits: {{locks: {asked}}}\nexec-start: DAEMON --children 1"),
            );
        }
        files.unit("plain", "exec-start: DAEMON");
        files.unit("all", "type: virtual\nwaits-for: few, between, any, plain");
        let bare = ["/bin/sh", "-c", BARE, "sh"];
        let through = bare.into_iter().chain(bounded.into_iter().filter(|_| !may_raise));
        let init = Boot::new(files).through(&through.collect::<Vec<_>>()).start("all");
        init.when_system("running");
        for (name, _, soft, hard) in ASKED {
            until("it has its child", || (init.processes_of(name).len() == 2).then_some(()));
            for process in init.processes_of(name) {
                let limit = process.limit(MOST).unwrap();
                assert_eq!((&*limit.0, &*limit.1), (soft, hard), "{name}, {may_raise}");
            }
        }
        let mark = init.main_of("plain").limit(MOST).unwrap().1;
        assert!(mark.parse::<u64>().is_ok(), "what asks for none bears init's mark: {mark}");
        init.finish();
    }
}

/// What is asked for, each by a unit of its own.
const ASKED: [(&str, &str); 11] = [
    ("nothing", ""),
    ("user", "user: nobody"),
    ("group", "group: nogroup"),
    ("bound", "capabilities-bound: [CAP_KILL]"),
    (
        "ambient",
        "user: nobody\ncapabilities-ambient: [CAP_KILL, CAP_CHOWN]\nno-new-privileges: yes",
    ),
    ("bits", "secure-bits: [noroot]"),
    ("no-new", "no-new-privileges: yes"),
    ("limits", "limits: {core: 0, nofile: 64, fsize: 1M}"),
    ("root", "root-dir: /"),
    ("dir", "working-dir: /usr"),
    ("schedule", "nice: 5\nio-class: idle\ncpu-policy: batch\ncpu-affinity: 0"),
];

/// The steps that a call belongs to; of a call that is not here any will do.
const STEPS: [(&str, &[&str]); 16] = [
    ("setsid", &["setsid"]),
    ("dup3", &["stdio"]),
    ("prlimit64", &["setrlimit"]),
    ("chroot", &["chroot"]),
    ("chdir", &["chroot", "chdir"]),
    ("prctl", &["capabilities"]),
    ("capget", &["capabilities"]),
    ("capset", &["capabilities"]),
    ("setgroups", &["group"]),
    ("setresgid", &["group"]),
    ("setresuid", &["user"]),
    ("setpriority", &["scheduling"]),
    ("ioprio_set", &["scheduling"]),
    ("sched_setscheduler", &["scheduling"]),
    ("sched_setaffinity", &["scheduling"]),
    ("execve", &["execve"]),
];

/// Without these a child is no less than it is to be: they can not fail, there is another way,
/// or they only look; and where there are no keyrings it has none.
const OF_NO_WEIGHT: [&str; 11] = [
    "keyctl",
    "rt_sigaction",
    "rt_sigprocmask",
    "close_range",
    "umask",
    "getpid",
    "gettid",
    "set_robust_list",
    "faccessat",
    "exit_group",
    "sched_yield",
];

/// The calls that the child of each unit makes before its program runs, in order.
type Calls = BTreeMap<&'static str, Vec<String>>;

/// These, and which calls init makes itself.
fn calls(lines: &[String], init: i32) -> (Calls, BTreeSet<String>) {
    let mut of: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for line in lines {
        let Some((pid, call)) = line.split_once(' ') else { continue };
        let (Ok(pid), Some((name, _))) = (pid.parse(), call.trim_start().split_once('(')) else {
            continue;
        };
        if name.starts_with('<') {
            continue;
        }
        of.entry(pid).or_default().push(name.to_owned());
        if name == "execve"
            && let Some((unit, _)) =
                ASKED.into_iter().find(|(unit, _)| call.contains(&format!("/ran-{unit}\"")))
        {
            found.insert(unit, of.remove(&pid).unwrap_or_default());
        }
    }
    (found, of.remove(&init).unwrap_or_default().into_iter().collect())
}

/// Calls that fail: of each the how manieth of a child.
type Failing = BTreeMap<String, usize>;

/// Which of these a child meets first.
fn meets(child: &[String], failing: &Failing) -> Option<(String, usize)> {
    let mut made = BTreeMap::new();
    child.iter().find_map(|call| {
        let nth = made.entry(call).and_modify(|nth| *nth += 1).or_insert(1usize);
        (failing.get(call) == Some(nth)).then(|| (call.clone(), *nth))
    })
}

/// In so few rounds each of these calls fails at each of its occurrences from the second to this one, and
/// at the last: in a round each child meets one at most.
fn rounds(of: &Calls, weighty: &BTreeSet<String>, most: usize) -> Vec<Failing> {
    let mut left = BTreeSet::new();
    for (unit, child) in of {
        for call in weighty {
            let count = child.iter().filter(|made| *made == call).count();
            let nths = (2..=count).filter(|nth| *nth <= most || *nth == count);
            left.extend(nths.map(|nth| (*unit, call.clone(), nth)));
        }
    }
    let mut rounds = Vec::new();
    while let Some((_, call, nth)) = left.first().cloned() {
        let mut failing = Failing::from([(call, nth)]);
        let met = |failing: &Failing| {
            let met = |(unit, child): (&&'static str, &Vec<String>)| {
                meets(child, failing).map(|(call, nth)| (*unit, call, nth))
            };
            of.iter().filter_map(met).filter(|it| left.contains(it)).collect::<Vec<_>>()
        };
        // Whatever beside it has more of them met.
        for (_, call, nth) in &left {
            let mut more = failing.clone();
            more.entry(call.clone()).or_insert(*nth);
            if met(&more).len() > met(&failing).len() {
                failing = more;
            }
        }
        for one in met(&failing) {
            left.remove(&one);
        }
        rounds.push(failing);
    }
    rounds
}

/// It was never executed, and the step is named.
fn assert_refused(status: &Status, unit: &str, ran: bool, (call, errno): (&str, i32)) {
    let reason = &status.unit(unit)["reason"];
    assert!(!ran && status.state(unit) == "failed", "{call} failed, and {unit} ran");
    let told = (&reason["kind"], &reason["errno"]);
    assert_eq!(told, (&json!("exec"), &json!(errno)), "{call}, {unit}: {reason}");
    let steps = STEPS.into_iter().find(|(name, _)| *name == call).map(|(_, steps)| steps);
    let stage = reason["stage"].as_str().expect("a step");
    assert!(steps.is_none_or(|steps| steps.contains(&stage)), "{call}, {unit}: {reason}");
}

/// All of [`ASKED`] begin once, under strace(1) with these arguments, and are not wanted any more. How that
/// went, and its lines.
fn begin_all(init: &Init, what: &str, arguments: &[&str]) -> (Status, Vec<String>) {
    begin(init, &ASKED.map(|(name, _)| name), what, arguments)
}

/// The same of these units.
pub(crate) fn begin(
    init: &Init,
    all: &[&str],
    what: &str,
    arguments: &[&str],
) -> (Status, Vec<String>) {
    let arguments = [&["-f", "-s", "256"], arguments].concat();
    let tracer = Tracer::attach(init.process(), &init.sandbox.path(what), &arguments);
    init.tell("set-target", &json!({"targets": ["base"], "want": all}));
    let over = |s: &Status| all.iter().all(|unit| ["failed", "exited"].contains(&s.state(unit)));
    let status = init.when(what, over);
    let lines = tracer.detach();
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.when("none is wanted", |s| all.iter().all(|unit| s.state(unit) == "disabled"));
    (status, lines)
}

/// Its program has run since this was asked last.
fn ran(init: &Init, unit: &str) -> bool {
    let name = format!("ran-{unit}");
    let ran = !init.sandbox.read(&name).is_empty();
    fs::write(init.sandbox.path(&name), "").unwrap();
    ran
}

#[test]
fn a_child_that_can_not_be_made_what_its_unit_asks_for_is_never_executed() {
    if !is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    for (name, asks) in ASKED {
        // Whoever it is may say that it ran.
        files.put(&format!("ran-{name}"), "");
        fs::set_permissions(
            files.path(&format!("ran-{name}")),
            std::os::unix::fs::PermissionsExt::from_mode(0o666),
        )
        .unwrap();
        files.unit(
            name,
            &format!("type: oneshot\n{asks}\nexec-start: /bin/sh -c 'echo x >DIR/ran-{name}'"),
        );
    }
    let init = Boot::new(files).start("base");
    init.when_system("running");
    let all = ASKED.map(|(name, _)| name);
    let (_, lines) = begin_all(&init, "recorded", &[]);
    let (of, own) = calls(&lines, init.process().0);
    assert!(of.len() == ASKED.len() && all.iter().all(|unit| ran(&init, unit)), "{of:?}");
    // Init's own failure would say nothing of its children's; of those named it makes none that it needs.
    let named = |call: &str| STEPS.iter().any(|(name, _)| *name == call);
    let is_weighty = |call: &&String| {
        named(call) || !own.contains(*call) && !OF_NO_WEIGHT.contains(&call.as_str())
    };
    let weighty: BTreeSet<String> = of.values().flatten().filter(is_weighty).cloned().collect();
    each_fails(&init, &of, &weighty);
    let missed: Vec<&str> =
        STEPS.iter().map(|(call, _)| *call).filter(|call| !weighty.contains(*call)).collect();
    assert!(missed.is_empty(), "never made: {missed:?}; failed: {weighty:?}");
    let again = each_fails_later(&init, &of, &weighty);
    for call in ["chdir", "dup3", "prctl", "prlimit64"] {
        assert!(again.contains(call), "{call} is made once by each: {again:?}");
    }
    init.finish();
}

/// Whoever makes one of these calls is refused when it fails each time, and so the first time.
fn each_fails(init: &Init, of: &Calls, weighty: &BTreeSet<String>) {
    for call in weighty {
        let inject = format!("inject={call}:error=EPERM");
        let (status, lines) =
            begin_all(init, call, &["-e", &format!("trace={call}"), "-e", &inject]);
        assert!(injected(&lines) > 0, "{call}");
        for (unit, child) in of {
            let ran = ran(init, unit);
            if child.contains(call) {
                assert_refused(&status, unit, ran, (call, 1));
            } else {
                assert!(ran, "{call} is no call of {unit}: {}", status.unit(unit)["reason"]);
            }
        }
    }
}

/// The same at their later occurrences, with an error that has no meaning of its own anywhere. Gives which have more than one.
fn each_fails_later(init: &Init, of: &Calls, weighty: &BTreeSet<String>) -> BTreeSet<String> {
    let mut again = BTreeSet::new();
    for failing in rounds(of, weighty, turns(5, 128)) {
        let inject = |(call, nth)| format!("inject={call}:error=EIO:when={nth}");
        let injects: Vec<String> = failing.iter().map(inject).collect();
        let traced: Vec<&str> = failing.keys().map(String::as_str).collect();
        let traced = format!("trace={}", traced.join(","));
        let arguments = [&traced].into_iter().chain(&injects).flat_map(|it| ["-e", it]);
        let (status, lines) = begin_all(init, "again", &arguments.collect::<Vec<_>>());
        assert!(injected(&lines) > 0, "{failing:?}");
        for (unit, child) in of {
            let ran = ran(init, unit);
            match meets(child, &failing) {
                Some((call, _)) => {
                    assert_refused(&status, unit, ran, (&call, 5));
                    again.insert(call);
                }
                None => assert!(ran, "{failing:?}: {unit}: {}", status.unit(unit)["reason"]),
            }
        }
    }
    again
}

//! Restrictions of a process: each is seen from inside where the unit asks for it, and nowhere
//! else. If a step fails, the program does not run.

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

/// A restriction: name, unit keys, the line that the process prints, and its value with and without
/// the restriction.
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

/// The value that the process of this unit printed for `key`.
fn seen(init: &Init, unit: &str, key: &str) -> String {
    let text = init.sandbox.read(&format!("{unit}.seen"));
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let line = line.unwrap_or_else(|| panic!("{unit} has no line {key}:\n{text}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_restriction_applies_only_to_the_units_that_ask_for_it() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
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

/// Without cgroups, init marks the processes of a run with this limit.
#[test]
fn locks_limit_is_that_of_the_unit_if_it_sets_one() {
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
        assert!(mark.parse::<u64>().is_ok(), "a unit without the limit has init's mark: {mark}");
        init.finish();
    }
}

/// Settings, each in a unit of its own.
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

/// The steps that each call may belong to; a call that is not listed may belong to any.
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

/// Calls whose failure has no consequence for the program: the child has a fallback or ends anyway,
/// or the call only queries or cannot fail in reality. Without its own keyring, the child keeps the
/// keyring of init's parent.
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

/// The calls of the child of each unit before its program runs, in order.
type Calls = BTreeMap<&'static str, Vec<String>>;

/// Parses the calls of the children, and the set of calls that init itself makes.
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

/// The calls that fail, each with its occurrence in a child.
type Failing = BTreeMap<String, usize>;

/// The first of these failures in the calls of a child.
fn meets(child: &[String], failing: &Failing) -> Option<(String, usize)> {
    let mut made = BTreeMap::new();
    child.iter().find_map(|call| {
        let nth = made.entry(call).and_modify(|nth| *nth += 1).or_insert(1usize);
        (failing.get(call) == Some(nth)).then(|| (call.clone(), *nth))
    })
}

/// Few rounds in which each of these calls fails at each occurrence from the second to `most`, and
/// at the last. In each round a child meets at most one failure.
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
        // Adds further failures that more children meet in this round.
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

/// Checks that the program never ran and that the right step is named.
fn assert_refused(status: &Status, unit: &str, ran: bool, (call, errno): (&str, i32)) {
    let reason = &status.unit(unit)["reason"];
    assert!(!ran && status.state(unit) == "failed", "{call} failed, and {unit} ran");
    let told = (&reason["kind"], &reason["errno"]);
    assert_eq!(told, (&json!("exec"), &json!(errno)), "{call}, {unit}: {reason}");
    let steps = STEPS.into_iter().find(|(name, _)| *name == call).map(|(_, steps)| steps);
    let stage = reason["stage"].as_str().expect("a step");
    assert!(steps.is_none_or(|steps| steps.contains(&stage)), "{call}, {unit}: {reason}");
}

/// Starts all of [`ASKED`] once under strace(1) with these arguments and stops them. Returns the
/// status before the stop and the lines of strace.
fn begin_all(init: &Init, what: &str, arguments: &[&str]) -> (Status, Vec<String>) {
    begin(init, &ASKED.map(|(name, _)| name), what, arguments)
}

/// Starts these units once under strace(1) and stops them, like [`begin_all`].
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
    init.when("no unit is wanted", |s| all.iter().all(|unit| s.state(unit) == "disabled"));
    (status, lines)
}

/// Returns true if its program has run since the last call.
fn ran(init: &Init, unit: &str) -> bool {
    let name = format!("ran-{unit}");
    let ran = !init.sandbox.read(&name).is_empty();
    fs::write(init.sandbox.path(&name), "").unwrap();
    ran
}

#[test]
fn child_that_cannot_get_the_attributes_of_its_unit_is_never_executed() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    for (name, asks) in ASKED {
        // Any user may record that it ran.
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
    // The test leaves out calls that init makes too, because their failure would hit init. It keeps
    // those in STEPS, which init does not need.
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

/// Makes each call fail at every occurrence: each unit whose child makes the call must be refused.
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

/// Makes each call fail at later occurrences, with an error that has no special meaning for any of
/// them. Returns the calls that a child makes more than once.
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

//! Unit directories that are broken, hostile, or change during a read: correct units still start,
//! and a mistake never makes a program run as root.

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use groundstate_units::simulator::rng::Rng;
use nix::sys::stat::{Mode, SFlag};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

/// Files with one mistake each, by name.
const BROKEN: [(&str, &[u8]); 13] = [
    ("empty", b""),
    ("blank", b" \n\t\n\n"),
    ("comment", b"# nothing\n# more of it\n"),
    ("nul", b"unit: nul\nexec-start: /bin/\0true\n"),
    ("latin", b"unit: latin\ndescription: caf\xe9\nexec-start: /bin/true\n"),
    ("bidi", "unit: bidi\nexec-start: /bin/true \u{202e}eurt\n".as_bytes()),
    ("separator", "unit: separator\u{2028}\nexec-start: /bin/true\n".as_bytes()),
    ("cut", b"unit: cut\nexec-start: /bin/tr"),
    ("typo", b"unit: typo\nexec-strat: /bin/true\n"),
    ("twice", b"unit: twice\nexec-start: /bin/true\nexec-start: /bin/false\n"),
    ("names", b"unit: one\nname: two\nexec-start: /bin/true\n"),
    ("path", b"unit: ../../etc/x\nexec-start: /bin/true\n"),
    ("dash", b"unit: -rf\nexec-start: /bin/true\n"),
];

/// Entries that are not regular files, or too large, by name.
const NO_FILES: [&str; 9] =
    ["line", "large", "fifo", "socket", "folder", "zero", "kmsg", "dangling", "loop"];
/// A device that only root can make.
const NODE: &str = "node";

fn lay_out(files: &Sandbox) -> UnixListener {
    let path = |name: &str| files.path(&format!("units/{name}.yaml"));
    for (name, bytes) in BROKEN {
        fs::write(path(name), bytes).unwrap();
    }
    fs::write(path("line"), "x".repeat(16 << 20)).unwrap();
    File::create(path("large")).unwrap().set_len(64 << 20).unwrap();
    nix::unistd::mkfifo(&path("fifo"), Mode::S_IRWXU).unwrap();
    fs::create_dir(path("folder")).unwrap();
    for (name, target) in [
        ("zero", "/dev/zero"),
        ("kmsg", "/proc/kmsg"),
        ("dangling", "/nowhere/at/all"),
        ("loop", "loop.yaml"),
    ] {
        symlink(target, path(name)).unwrap();
    }
    if nix::unistd::geteuid().is_root() {
        // A device like /dev/zero, whose read never ends.
        let zero = nix::sys::stat::makedev(1, 5);
        nix::sys::stat::mknod(&path(NODE), SFlag::S_IFCHR, Mode::S_IRWXU, zero).unwrap();
    }
    for number in 0..turns(1000, 20_000) {
        fs::write(path(&format!("many{number}")), format!("unit: many{number}\n")).unwrap();
    }
    // A file with DOS line ends and a byte order mark is valid.
    fs::write(path("dos"), "\u{feff}unit: dos\r\nexec-start: /bin/sleep 1000\r\n").unwrap();
    UnixListener::bind(path("socket")).unwrap()
}

#[test]
fn valid_units_start_beside_broken_and_hostile_files() {
    let files = Sandbox::new();
    files.unit("good", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: good, dos");
    let _socket = lay_out(&files);
    let init = Boot::new(files).start("all");
    let status = init.when("the valid units run", |s| {
        s.state("good") == "running" && s.state("dos") == "running"
    });
    assert_eq!(status.state("many999"), "disabled");
    let (code, told) = init.initctl_json(&["check", &init.sandbox.at("units")]);
    assert_eq!(code, 65);
    let complaints = told["diagnostics"].as_array().unwrap();
    let node = nix::unistd::geteuid().is_root().then_some(NODE);
    if node.is_none() {
        groundstate_tests::not_run!("this needs root to make a device");
    }
    for name in BROKEN.map(|(name, _)| name).into_iter().chain(NO_FILES).chain(node) {
        let file = format!("/{name}.yaml");
        let about =
            |d: &&serde_json::Value| d["file"].as_str().is_some_and(|path| path.ends_with(&file));
        let found = complaints.iter().find(about);
        let found = found.unwrap_or_else(|| panic!("no complaint about {name}"));
        assert!(found["line"].is_u64() && found["message"].is_string(), "{found}");
    }
    init.finish();
}

/// The peak memory since the last call, in KiB.
fn peak(init: &Init) -> u64 {
    let most = init.process().status("VmHWM").expect("the process exists");
    fs::write(format!("/proc/{}/clear_refs", init.process().0), "5").expect("it can be set back");
    most.trim_end_matches("kB").trim().parse().expect("a number")
}

#[test]
fn refused_files_take_no_memory_of_init() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("good", "exec-start: DAEMON");
    let init = Boot::new(files).start("good");
    init.when_system("running");
    init.tell("reload", &json!({}));
    peak(&init);
    init.tell("reload", &json!({}));
    let good = peak(&init);
    let path = |name: &str| init.sandbox.path(&format!("units/{name}.yaml"));
    let keys: String = (0..20_000).map(|number| format!("key{number}: 1\n")).collect();
    let dependencies = "a, ".repeat(80_000);
    let levels = "[".repeat(200_000);
    let large: [(&str, String); 5] = [
        ("line", "x".repeat(16 << 20)),
        ("keys", keys.clone()),
        ("more-keys", keys.repeat(50)),
        ("dependencies", format!("depends-on: [{dependencies}a]\nexec-start: /bin/true\n")),
        ("levels", format!("env: {levels}\n")),
    ];
    for (name, text) in large {
        fs::write(path(name), text).expect("a file");
    }
    File::create(path("large")).expect("a file").set_len(64 << 20).expect("a hole");
    let refused = init.ask("reload", &json!({})).expect_err("nothing of that is taken");
    assert!(!refused.to_string().is_empty());
    let bad = peak(&init);
    assert!(bad <= good + 2 * 1024, "{bad} KiB, {good} with valid files");
    init.finish();
}

#[test]
fn invalid_or_unknown_user_runs_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let users = [
        "0day",
        "0x0",
        "'-1'",
        "4294967295",
        "4294967296",
        "''",
        "\"root\\n\"",
        "no-such-user",
        "root:root",
        "' root'",
        "00",
        "+0",
    ];
    let mut names = Vec::new();
    for (number, user) in users.iter().enumerate() {
        names.push(format!("u{number}"));
        let text = format!("type: oneshot\nuser: {user}\nexec-start: /bin/sh -c 'id -u >>DIR/ran'");
        files.unit(&format!("u{number}"), &text);
    }
    files.unit("base", "exec-start: DAEMON");
    files.unit("all", &format!("type: virtual\nwaits-for: base, {}", names.join(", ")));
    let init = Boot::new(files).start("all");
    let status = init.when("all have failed", |s| {
        s.state("base") == "running" && names.iter().all(|name| s.state(name) == "failed")
    });
    for (name, user) in names.iter().zip(users) {
        let kind = status.reason(name);
        assert!(["config", "exec"].contains(&kind), "{user}: {}", status.unit(name));
    }
    assert_eq!(init.sandbox.read("ran"), "", "none of them ran");
    init.finish();
}

/// The complete content of a changing unit's file. The description is at the start and the target
/// at the end, so no half passes for a whole.
fn whole(name: &str, which: &str) -> String {
    let head = format!("unit: {name}\ntype: virtual\ndescription: {which}\n");
    let text =
        head + &"# sixty bytes and one that stand between the head and the end\n".repeat(600);
    // No page ends at a line end, so that a truncation at a page is noticed.
    assert!(text.as_bytes().chunks_exact(4096).all(|page| !page.ends_with(b"\n")));
    format!("{text}provides: {name}, {name}-{which}\n")
}

/// The description and the targets of each changing unit.
fn definitions(init: &Init, names: &[String]) -> Vec<(Value, Value)> {
    let status = init.status();
    let of = |name: &String| {
        let unit = status.unit(name);
        (unit["description"].clone(), unit["provides"].clone())
    };
    names.iter().map(of).collect()
}

/// Sets the flag when dropped, so that the other thread also ends when the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Changes the units' files again and again.
fn change(files: &Sandbox, names: &[String], done: &AtomicBool) {
    let mut chance = Rng::new(8);
    while !done.load(Ordering::SeqCst) {
        let name = &names[chance.below(names.len())];
        let path = files.path(&format!("units/{name}.yaml"));
        let text = whole(name, chance.pick(&["old", "new"]).expect("the list is not empty"));
        match chance.below(8) {
            0 => drop(fs::remove_file(&path)),
            // In place, truncated.
            1 => fs::write(&path, &text[..text.len() / 2]).unwrap(),
            2 | 3 => fs::write(&path, text).unwrap(),
            _ => drop(files.put(&format!("units/{name}.yaml"), &text)),
        }
    }
}

#[test]
fn files_that_change_during_a_read_are_taken_completely_or_not_at_all() {
    let files = Sandbox::new();
    let names: Vec<String> = (0..4).map(|number| format!("u{number}")).collect();
    for name in &names {
        files.put(&format!("units/{name}.yaml"), &whole(name, "old"));
    }
    files.unit("web", "exec-start: DAEMON");
    files.unit("all", &format!("type: virtual\nwaits-for: web, {}", names.join(", ")));
    let init = Boot::new(files).start("all");
    let before = init.when_system("running");
    let mut last = definitions(&init, &names);
    let (mut taken, mut refused) = ([0, 0], 0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&done);
        scope.spawn(|| change(&init.sandbox, &names, &done));
        // Until each outcome has occurred often enough.
        until("files were accepted and refused", || {
            let answer = init.ask("reload", &json!({}));
            let now = definitions(&init, &names);
            match answer {
                Ok(_) => {
                    for (name, (description, provides)) in names.iter().zip(&now) {
                        let which = description.as_str().unwrap_or("nothing");
                        assert!(["old", "new"].contains(&which), "{name}: {description}");
                        assert_eq!(*provides, json!([name, format!("{name}-{which}")]), "{which}");
                        taken[usize::from(which == "new")] += 1;
                    }
                }
                Err(error) => {
                    assert_eq!(now, last, "it was refused: {error}");
                    refused += 1;
                }
            }
            last = now;
            assert_eq!(init.status().main_pid("web"), before.main_pid("web"));
            let enough = turns(10, 1_000);
            (taken.iter().all(|count| *count >= enough) && refused >= enough).then_some(())
        });
    });
    println!("{taken:?} {refused}");
    for name in &names {
        init.sandbox.put(&format!("units/{name}.yaml"), &whole(name, "new"));
    }
    init.tell("reload", &json!({}));
    assert!(definitions(&init, &names).iter().all(|(description, _)| description == "new"));
    init.when_system("running");
    init.finish();
}

#[test]
fn unit_directory_that_others_can_write_is_not_read() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    for (mode, user, group, complaint) in [
        (0o777, 0, 0, "anyone can write it"),
        (0o1777, 0, 0, "anyone can write it"),
        (0o775, 0, 50, "group 50 can write it"),
        (0o755, 1000, 0, "it belongs to user 1000"),
    ] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON --trace DIR/web.trace");
        fs::create_dir(files.path("run/units")).unwrap();
        files.put("run/units/base.yaml", "unit: base\ntype: virtual\nwaits-for: web\n");
        let units = files.path("units");
        std::os::unix::fs::chown(&units, Some(user), Some(group)).unwrap();
        fs::set_permissions(&units, fs::Permissions::from_mode(mode)).unwrap();
        let init = Boot::new(files).way(Way::Supervisor).start("base");
        init.when_state("base", "running");
        let said = format!("this directory: {complaint}");
        until(&said, || init.output().contains(&said).then_some(()));
        // A reload reports the same and is refused.
        let reload = init.initctl(&["reload"]);
        assert!(!reload.status.success());
        assert!(String::from_utf8_lossy(&reload.stderr).contains(complaint), "{reload:?}");
        assert!(init.sandbox.trace("web.trace").is_empty());
        fs::set_permissions(&units, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(&units, Some(0), Some(0)).unwrap();
        init.tell("reload", &json!({}));
        init.when_state("web", "running");
        init.finish();
    }
}

#[test]
fn unreadable_settings_are_reported_and_defaults_apply() {
    for text in ["\0\0\0", "default-target: [", "stop-timeout: soon\nshutdown-deadline: -1\n"] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON");
        files.put("init.yaml", text);
        let init = Boot::new(files).start("web");
        init.when_state("web", "running");
        let what = format!("{text:?} is complained of");
        until(&what, || init.output().contains("init.yaml").then_some(()));
        init.finish();
    }
}

#[test]
fn unreadable_settings_boot_the_default_target_or_the_emergency_target() {
    // Drops the target from the arguments of init.
    let unnamed = "n=$(($#-2)); while [ $n -gt 0 ]; do a=$1; shift; set -- \"$@\" \"$a\"; n=$((n-1)); done; \
                   shift 2; exec \"$@\"";
    for text in ["\0\0\0", "default-target: [", "default-target: 7up!\nstop-timeout: soon\n"] {
        for (up, down) in [("web", "rescue"), ("rescue", "web")] {
            let files = Sandbox::new();
            files.unit("web", "exec-start: DAEMON");
            files.unit("rescue", "exec-start: DAEMON");
            files.unit("emergency", "type: virtual\nwaits-for: rescue");
            if up == "web" {
                files.unit("multi-user", "type: virtual\nwaits-for: web");
            }
            files.put("init.yaml", text);
            let init = Boot::new(files).through(&["sh", "-c", unnamed, "sh"]).start("unnamed");
            let status = init.when_state(up, "running");
            assert_eq!(status.state(down), "disabled");
            let what = format!("{text:?} is complained of");
            until(&what, || init.output().contains("init.yaml").then_some(()));
            init.finish();
        }
    }
}

#[test]
fn repaired_file_and_a_reload_end_a_failure_and_its_consequences() {
    let files = Sandbox::new();
    files.unit("db", "exec-start: /nowhere/db");
    files.unit("web", "depends-on: db\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web");
    let init = Boot::new(files).start("all");
    let status = init.when_state("db", "failed");
    assert_eq!((status.state("web"), status.reason("web")), ("failed", "dependency"));
    init.sandbox.unit("db", "exec-start: DAEMON");
    init.tell("reload", &json!({}));
    init.when("both are up", |s| s.system() == "running" && s.state("web") == "running");
    init.finish();
}

#[test]
fn goal_that_changes_back_and_forth_ends_at_the_last_and_keeps_shared_units() {
    let files = Sandbox::new();
    files.unit("shared", "exec-start: DAEMON --trace DIR/shared");
    files.unit("left", "depends-on: shared\nexec-start: DAEMON");
    files.unit("right", "depends-on: shared\nstop-timeout: 1s\nexec-start: DAEMON");
    let init = Boot::new(files).start("left");
    let before = init.when_system("running");
    let mut chance = Rng::new(13);
    for _ in 0..turns(50, 1_000) {
        let goal = chance.pick(&["right", "left"]).expect("one goal");
        init.tell("set-target", &json!({"targets": [goal]}));
    }
    init.tell("set-target", &json!({"targets": ["left"]}));
    let after = init.when("the last goal is reached", |s| {
        s.system() == "running" && s.state("left") == "running" && s.state("right") == "disabled"
    });
    assert_eq!(after.main_pid("shared"), before.main_pid("shared"));
    assert_eq!(init.sandbox.trace("shared").len(), 2, "start and ready");
    init.finish();
}

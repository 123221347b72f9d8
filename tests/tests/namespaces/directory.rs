//! Directories that init makes for a unit: with the right owner and mode, and never through a link
//! of a user.

use super::child_setup::{alone, inside, is_root, past_exec};
use super::command::{drop_all, script};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::MetadataExt;

#[test]
fn directories_have_owner_and_mode_and_are_named_in_the_environment() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit(
        "kept",
        "user: nobody\ngroup: nogroup\n\
         runtime-dir: [a/b, c]\nruntime-dir-mode: 0750\nstate-dir: s\nstate-dir-mode: 0700\n\
         cache-dir: c\ncache-dir-mode: 0711\nlog-dir: l\nlog-dir-mode: 02755\nconfig-dir: e\nconfig-dir-mode: 0751\n\
         exec-start: /bin/sh -c 'touch /run/a/b/mine /var/lib/s/mine && exec sleep 1000'",
    );
    let init = alone(files).start("kept");
    let env = past_exec(&init, "kept").environment();
    for (name, paths) in [
        ("RUNTIME_DIRECTORY", "/run/a/b:/run/c"),
        ("STATE_DIRECTORY", "/var/lib/s"),
        ("CACHE_DIRECTORY", "/var/cache/c"),
        ("LOGS_DIRECTORY", "/var/log/l"),
        ("CONFIGURATION_DIRECTORY", "/etc/e"),
    ] {
        assert_eq!(env[name], paths);
    }
    let about = |path: &str| {
        let about = fs::metadata(inside(&init, path)).unwrap();
        (about.uid(), about.mode() & 0o7777)
    };
    for (path, expected) in [
        ("/run/a", (0, 0o755)),
        ("/run/a/b", (65534, 0o750)),
        ("/run/c", (65534, 0o750)),
        ("/var/lib/s", (65534, 0o700)),
        ("/var/cache/c", (65534, 0o711)),
        ("/var/log/l", (65534, 0o2755)),
        ("/etc/e", (0, 0o751)),
    ] {
        assert_eq!(about(path), expected, "{path}");
    }
    drop_all(&init);
    init.when_state("kept", "disabled");
    let there = |path: &str| inside(&init, path).exists();
    assert!(!there("/run/a/b") && !there("/run/c"), "removed at the stop");
    assert!(there("/var/lib/s/mine") && there("/var/cache/c") && there("/etc/e"));
    init.finish();
}

#[test]
fn runtime_directory_is_kept_as_long_as_its_unit_says() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    for keep in ["no", "restart", "yes"] {
        let once =
            "'[ -e /run/KEEP/mark ] && touch DIR/KEEP.seen; touch /run/KEEP/mark; exec sleep 1000'";
        files.unit(
            keep,
            &format!(
                "runtime-dir: {keep}\nruntime-dir-keep: {keep}\nexec-start: /bin/sh -c {once}"
            )
            .replace("KEEP", keep),
        );
    }
    files.unit("all", "type: virtual\nwants: [\"no\", restart, \"yes\"]");
    let init = alone(files).start("all");
    let mut first = Vec::new();
    for unit in ["no", "restart", "yes"] {
        past_exec(&init, unit);
        first.push(init.status().main_pid(unit));
        init.tell("restart", &serde_json::json!({"targets": [unit]}));
    }
    for (unit, first) in ["no", "restart", "yes"].iter().zip(first) {
        init.when("it was restarted", |s| s.main_pid(unit).is_some_and(|pid| Some(pid) != first));
        past_exec(&init, unit);
    }
    let seen = |unit: &str| init.sandbox.path(&format!("{unit}.seen")).exists();
    assert_eq!((seen("no"), seen("restart"), seen("yes")), (false, true, true));
    drop_all(&init);
    init.when_system("running");
    for (unit, kept) in [("no", false), ("restart", false), ("yes", true)] {
        init.when_state(unit, "disabled");
        assert_eq!(inside(&init, &format!("/run/{unit}")).exists(), kept, "{unit}");
    }
    init.finish();
}

#[test]
fn directory_is_not_made_through_a_link_that_a_service_planted() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    // The canary is below /run, like the service's own directory. The racer swaps its directory
    // with a link to the canary while the unit starts again and again.
    script(
        &files,
        "race",
        "cd /run/theirs; mkdir -p sub; ln -sfn /run/canary link; \
         for i in $(seq 300); do mv -T sub away 2>/dev/null; ln -sfn /run/canary sub; rm -f sub; mv -T away sub 2>/dev/null; done; touch /run/theirs/raced; exec sleep 1000",
    );
    files.unit(
        "racer",
        "user: nobody\nruntime-dir: theirs\nruntime-dir-keep: yes\nexec-start: /bin/sh DIR/race.sh",
    );
    files.unit("victim", "user: nobody\nafter: racer\nrestart: always\nrestart-delay: 1ms\nsuccess-status: [0]\nfailure-verdict: 1000000\nruntime-dir: theirs/sub\nruntime-dir-mode: 0777\nexec-start: /bin/true");
    files.unit("planted", "user: nobody\nrestart: never\nafter: racer\nruntime-dir: theirs/link/x\nexec-start: /bin/true");
    files.unit(
        "leaf",
        "user: nobody\nrestart: never\nafter: racer\nstate-dir: leaf\nexec-start: /bin/true",
    );
    files.unit("all", "type: virtual\nwants: racer, victim, planted, leaf");
    let own = "mount -t tmpfs -o mode=755 tmpfs /run && mount -t tmpfs -o mode=755 tmpfs /var/lib && mkdir -m 711 /run/canary && echo sings >/run/canary/song && ln -s /run/canary /var/lib/leaf && exec \"$@\"";
    let init = Boot::new(files).through(&["sh", "-c", own, "sh"]).start("all");
    until("it has raced", || inside(&init, "/run/theirs/raced").exists().then_some(()));
    assert_eq!(init.when_state("leaf", "failed").reason("leaf"), "exec");
    let canary = inside(&init, "/run/canary");
    let about = fs::metadata(&canary).unwrap();
    assert_eq!((about.uid(), about.mode() & 0o7777), (0, 0o711), "neither chowned nor chmodded");
    let names: Vec<_> = fs::read_dir(&canary).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["song"], "no file was made or removed there");
    init.finish();
}

/// The files that init has made in this directory and their modes, sorted by name.
fn made(init: &Init, top: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    let mut folders = vec![init.sandbox.path(top)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(init.sandbox.dir()).unwrap().to_str().unwrap().to_owned();
            found.push((name, about.mode() & 0o7777));
            if about.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Any user may connect: init checks the credentials of each connection.
const MODES: [(&str, u32); 5] = [
    ("run/control.sock", 0o666),
    ("run/log.sock", 0o666),
    ("run/notify.sock", 0o666),
    ("run/policy.yaml", 0o644),
    ("log/web.log", 0o640),
];

#[test]
fn files_made_by_init_have_fixed_modes_under_any_umask() {
    for umask in ["000", "077"] {
        let files = Sandbox::new();
        files.unit("web", "exec-start: DAEMON --say hello");
        files.unit("other", "type: virtual");
        let script = format!("umask {umask}; exec \"$0\" \"$@\"");
        let init = Boot::new(files).through(&["/bin/sh", "-c", &script]).start("web");
        init.when_system("running");
        let masked = init.initctl(&["mask", "other", "--runtime"]);
        assert!(masked.status.success(), "{masked:?}");
        until("a line is in its file", || {
            made(&init, "log").iter().any(|(name, _)| name.contains("web")).then_some(())
        });
        let made = [made(&init, "run"), made(&init, "log")].concat();
        let modes: Vec<_> = made.iter().map(|(name, mode)| (name.as_str(), *mode)).collect();
        assert_eq!(modes, MODES);
        init.finish();
    }
}

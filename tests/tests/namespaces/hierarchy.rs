//! Cgroups v1, v2 or none; a process that moves to another cgroup; an init in a cgroup that runs
//! out of memory.

use super::process_endings::cgroup;
use super::restricted_environments::{after, pair};
use super::shortage::supervises;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs init without cgroups.
pub(super) const BARE: &str =
    "umount -l /sys/fs/cgroup/unified 2>/dev/null; umount -R -l /sys; exec \"$@\"";

/// Options of a cgroup2 mount apply to all such mounts; dropping this value restores them.
struct Options {
    place: PathBuf,
    delegates: bool,
}

impl Options {
    fn new(files: &Sandbox) -> Options {
        let place = files.path("cgroup2");
        fs::create_dir(&place).unwrap();
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let of_cgroups = |line: &&str| line.split(' ').nth(2) == Some("cgroup2");
        let delegates = mounts.lines().filter(of_cgroups).any(|line| line.contains("nsdelegate"));
        Options { place, delegates }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        let data = self.delegates.then_some("nsdelegate");
        let _ = mount(Some("none"), &self.place, Some("cgroup2"), MsFlags::empty(), data);
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

/// Unmounts cgroup v2.
const WITHOUT_V2: &str =
    "umount -l /sys/fs/cgroup/unified || umount -R -l /sys/fs/cgroup; ! grep cgroup2 /proc/mounts";

#[test]
fn unit_is_started_restarted_and_stopped_completely_with_each_kind_of_cgroups() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let top = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup";
    let own = "mkdir -p /sys/fs/cgroup/of-a-test && echo $$ >/sys/fs/cgroup/of-a-test/cgroup.procs";
    // In a cgroup namespace of its own init may not change the namespace's root cgroup, as
    // nsdelegate requires.
    let within = "exec unshare -C sh -c \"umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; \
                  ! echo 1 2>/dev/null >/sys/fs/cgroup/cgroup.max.depth || exit 9; exec \\\"\\$0\\\" \\\"\\$@\\\"\" \"$0\" \"$@\"";
    let delegated = format!(
        "umount -R -l /sys/fs/cgroup && mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup && {own} && {within}"
    );
    for (kind, taking, tracking) in [
        ("none", "umount -R -l /sys", "process-group"),
        ("v1 only", WITHOUT_V2, "process-group"),
        ("as they are here", "true", ""),
        ("v2", top, "cgroup2"),
        (
            "not to be written to",
            &format!("{top} && mount -o remount,bind,ro /sys/fs/cgroup"),
            "process-group",
        ),
        ("delegated to a namespace", &delegated, "cgroup2"),
    ] {
        let files = pair();
        let options = Options::new(&files);
        files.unit(
            "hydra",
            "stop-timeout: 500ms\nexec-start: DAEMON --ignore TERM --children 2 --orphans 2",
        );
        files.unit("all", "type: virtual\ndepends-on: web, hydra");
        let init = after(taking, files).start("all");
        supervises(&init);
        let found = init.status().0["tracking"].clone();
        assert!(tracking.is_empty() || found == tracking, "{kind}: {found}");
        until("all processes are running", || {
            (init.processes_of("hydra").len() == 5).then_some(())
        });
        init.tell("set-target", &json!({"targets": ["web"]}));
        init.when("it is down", |s| s.main_pid("hydra").is_none());
        until("no process of it is left", || init.processes_of("hydra").is_empty().then_some(()));
        // `options` is dropped first, because it mounts in the sandbox.
        let left = init.finish_and_keep();
        drop(options);
        drop(left);
    }
}

#[test]
fn status_shows_the_resources_of_a_unit_with_cgroups_only() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let top = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup";
    for (taking, has_cgroups) in [(top, true), ("umount -R -l /sys", false)] {
        let files = pair();
        let options = Options::new(&files);
        let initctl = program("GROUNDSTATE_INITCTL", "initctl");
        let socket = files.at("run/control.sock");
        // A client outside the pid namespace of init would know no process of a unit.
        files.unit("asks", &format!("type: oneshot\ndepends-on: web\nexec-start: /bin/sh -c '{initctl} --socket {socket} status web >DIR/one; {initctl} --socket {socket} status --all >DIR/all-units'"));
        files.unit("all", "type: virtual\ndepends-on: asks");
        let init = after(taking, files).start("all");
        init.when_state("asks", "exited");
        let one = init.sandbox.read("one");
        let line = one.lines().find(|line| line.starts_with("  resources "));
        assert_eq!(line.is_some_and(|line| line.ends_with(" CPU")), has_cgroups, "{one}");
        let all = init.sandbox.read("all-units");
        let row = all.lines().find(|line| line.starts_with("  + web ")).unwrap();
        assert_eq!(row.contains(" CPU  up "), has_cgroups, "{all}");
        // `options` is dropped first, because it mounts in the sandbox.
        let left = init.finish_and_keep();
        drop(options);
        drop(left);
    }
}

/// A cgroup whose parent passes on no controller.
const NO_CONTROLLER: &str = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && \
                             cd /sys/fs/cgroup && mkdir -p of-a-test/below && echo $$ >of-a-test/below/cgroup.procs && \
                             [ -z \"$(cat of-a-test/below/cgroup.controllers)\" ] && cd / || exit 9";

#[test]
fn limit_without_its_controller_fails_only_the_unit_that_sets_it() {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        groundstate_tests::not_run!("this needs root to make a cgroup without controllers");
    }
    let kinds = [("umount -R -l /sys", "process-group"), (NO_CONTROLLER, "cgroup2")];
    for (taking, tracking) in kinds.into_iter().take(if is_root { 2 } else { 1 }) {
        let files = pair();
        let options = is_root.then(|| Options::new(&files));
        files.unit(
            "asks",
            "restart: never\ncgroup-memory-max: 64M\nexec-start: DAEMON --trace DIR/ran",
        );
        files.unit("all", "type: virtual\nwaits-for: web, asks");
        let init = after(taking, files).start("all");
        assert_eq!(init.status().0["tracking"], tracking);
        let status = init.when_state("asks", "failed");
        let reason = &status.unit("asks")["reason"];
        let told = (&reason["kind"], &reason["stage"]);
        assert_eq!(told, (&json!("exec"), &json!("cgroup setting")), "{tracking}: {reason}");
        assert_eq!(init.sandbox.read("ran"), "", "it did not run without the limit");
        init.when_state("web", "running");
        // `options` is dropped first, because it mounts in the sandbox.
        let left = init.finish_and_keep();
        drop(options);
        drop(left);
    }
}

/// The root of the cgroup v2 hierarchy.
pub(super) fn top(dir: &str) -> PathBuf {
    let is_top =
        |dir: &&Path| dir.parent().is_none_or(|above| !above.join("cgroup.procs").exists());
    Path::new(dir).ancestors().find(is_top).expect("the top").to_owned()
}

/// Two units that move to another cgroup on request: one ignores SIGTERM, the other does not.
fn movers() -> Sandbox {
    let files = Sandbox::new();
    files.unit("probe", "exec-start: DAEMON");
    files.unit("deaf", "stop-timeout: 500ms\nexec-start: /bin/sh -c 'trap \"\" TERM; until [ -e DIR/go ]; do :; done; echo $$$$ >$(cat DIR/top)/cgroup.procs && echo x >DIR/deaf; while :; do sleep 0.05; done'");
    files.unit("polite", "stop-timeout: 60s\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do :; done; echo $$$$ >$(cat DIR/top)/cgroup.procs && echo x >DIR/polite; exec sleep 1000'");
    files.unit("all", "type: virtual\nwaits-for: probe, deaf, polite");
    files
}

/// Checks that both move, as their /proc/PID/cgroup then says, and that a stop ends them.
fn are_stopped_in(init: &Init, dir: &Path, has_moved: impl Fn(&str) -> bool) {
    init.sandbox.put("top", dir.to_str().unwrap()).put("go", "");
    for unit in ["deaf", "polite"] {
        until("it has moved", || (!init.sandbox.read(unit).is_empty()).then_some(()));
    }
    let mains = ["deaf", "polite"].map(|unit| init.main_of(unit));
    for main in mains {
        let text = main.read("cgroup").unwrap_or_default();
        assert!(text.lines().any(&has_moved), "{text}");
    }
    init.tell("set-target", &json!({"targets": ["probe"]}));
    let status = init
        .when("both are down", |s| s.state("deaf") == "failed" && s.state("polite") == "disabled");
    assert!(mains.iter().all(|main| !main.is_alive()));
    assert_eq!(status.reason("deaf"), "stop-timeout");
}

#[test]
fn process_that_leaves_its_cgroup_is_stopped_with_its_unit() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = Boot::new(movers()).start("all");
    init.when_system("running");
    let Some(dir) = cgroup(init.main_of("probe")) else {
        init.finish();
        return groundstate_tests::not_run!("no cgroup v2 here");
    };
    are_stopped_in(&init, &top(&dir), |line| {
        line.starts_with("0::") && !line.contains("groundstate")
    });
    for unit in ["deaf", "polite"] {
        let told = |line: &str| line.contains(unit) && line.contains("has left its cgroup");
        until("it is reported", || init.output().lines().any(told).then_some(()));
    }
    assert!(!init.output().contains("probe: its main process"), "{}", init.output());
    // Init does not find the children that this process started in the other cgroup.
    until("no process of it is left", || {
        let left: Vec<Process> = init.processes_of("deaf");
        left.iter().for_each(|process| process.end());
        left.is_empty().then_some(())
    });
    init.finish();
}

/// A cgroup in the `freezer` hierarchy of cgroup v1, removed when the value is dropped.
struct OldCgroup(PathBuf);

impl OldCgroup {
    fn new() -> Option<OldCgroup> {
        let name = format!("groundstate-test-{}", std::process::id());
        let dir = Path::new("/sys/fs/cgroup/freezer").join(name);
        fs::create_dir(&dir).ok()?;
        let made = OldCgroup(dir);
        made.0.join("cgroup.procs").exists().then_some(made)
    }
}

impl Drop for OldCgroup {
    fn drop(&mut self) {
        let _ = groundstate_tests::deadline::within(groundstate_tests::deadline::PATIENCE, || {
            fs::remove_dir(&self.0).ok()
        });
    }
}

#[test]
fn process_that_moves_to_a_cgroup_of_v1_is_stopped_with_its_unit() {
    let Some(old) = OldCgroup::new() else {
        return groundstate_tests::not_run!("no cgroup v1 here");
    };
    // With cgroup v2 in addition, and without.
    for taking in ["true", WITHOUT_V2] {
        let init = after(taking, movers()).start("all");
        init.when_system("running");
        are_stopped_in(&init, &old.0, |line| {
            line.contains(":freezer:") && line.contains("groundstate-test-")
        });
        assert!(init.processes_of("deaf").is_empty(), "{taking}");
        assert!(!init.output().contains("has left its cgroup"), "{}", init.output());
        init.finish();
    }
}

/// A cgroup with little memory, of the version that can limit it here.
struct Little(PathBuf);

impl Little {
    fn new(files: &Sandbox) -> Option<Little> {
        let name = files.dir().file_name().unwrap();
        for (root, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let dir = Path::new(root).join(name);
            if fs::create_dir(&dir).is_err() {
                continue;
            }
            let little = Little(dir);
            if little.0.join(limit).exists() && fs::write(little.0.join(limit), "64M").is_ok() {
                return Some(little);
            }
        }
        None
    }
}

impl Drop for Little {
    fn drop(&mut self) {
        let _ = groundstate_tests::deadline::within(groundstate_tests::deadline::PATIENCE, || {
            fs::remove_dir(&self.0).ok()
        });
    }
}

#[test]
fn out_of_memory_in_the_cgroup_of_init_kills_a_unit_and_not_init() {
    let files = Sandbox::new();
    let Some(little) = Little::new(&files) else {
        groundstate_tests::not_run!("no memory controller of ours here");
        return;
    };
    files.unit("hog", "restart: never\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do sleep 0.05; done; exec tail /dev/zero'");
    files.unit("web", "oom-score-adjust: -500\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: web, hog");
    let enter = format!("echo $$ >{}/cgroup.procs", little.0.display());
    let init = after(&enter, files).start("all");
    let before = init.when_system("running");
    let logger = || {
        let named = |p: &Process| p.read("comm").is_some_and(|n| n.starts_with("groundstate-log"));
        init.process().children().into_iter().find(named)
    };
    let had = until("the logger has its name", &logger);
    init.sandbox.put("go", "");
    let status = init.when_state("hog", "failed");
    let reason = &status.unit("hog")["reason"];
    // init learns of the kill from cgroup v2 only.
    let kind = if little.0.join("memory.events").exists() { "oom" } else { "signal" };
    assert_eq!(reason["kind"], kind, "{reason}");
    assert_eq!((status.main_pid("web"), logger()), (before.main_pid("web"), Some(had)));
    let kills = ["memory.oom_control", "memory.events"]
        .map(|name| fs::read_to_string(little.0.join(name)).unwrap_or_default());
    let counted = |line: &str| line.starts_with("oom_kill ") && line != "oom_kill 0";
    assert!(kills.iter().any(|text| text.lines().any(counted)), "{kills:?}");
    init.finish();
    drop(little);
}

#[test]
fn delegated_cgroup_is_limited_to_as_many_children_as_can_be_removed() {
    let files = Sandbox::new();
    let path = "$$(sed -n s/^0:://p /proc/self/cgroup)";
    files.unit(
        "maker",
        &format!(
            "type: foreground-notified\nuser: \"65534\"\ngroup: \"65534\"\ncgroup-delegate: yes\nexec-start: /bin/sh -c 'cd /sys/fs/cgroup/unified{path} 2>/dev/null || cd /sys/fs/cgroup{path}; mkdir $$(seq 5000) 2>/dev/null; exec DAEMON --notify'"
        ),
    );
    files.unit("nothing", "type: virtual");
    let init = Boot::new(files).start("maker");
    if init.tell("stats", &json!({}))["tracking"] != "cgroup2" {
        init.finish();
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    init.when_state("maker", "running");
    let own = PathBuf::from(cgroup(init.main_of("maker")).expect("it has a cgroup"));
    let made = |own: &Path| {
        fs::read_dir(own).map_or(0, |all| all.flatten().filter(|one| one.path().is_dir()).count())
    };
    assert_eq!(made(&own), 4096);
    init.tell("set-target", &json!({"targets": ["nothing"]}));
    init.when_state("maker", "disabled");
    until("the cgroup is removed", || (!own.exists()).then_some(()));
    init.finish();
}

/// An idle init with a unit to start, whose empty cgroup directory was removed.
fn without_its_directory() -> Init {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --children 1");
    files.unit(
        "done",
        "type: oneshot\nremain: yes\nexec-start: /bin/true\nexec-stop: /bin/touch DIR/undone",
    );
    files.unit("all", "type: virtual\nwaits-for: done");
    let init = Boot::new(files).start("all");
    init.when_state("done", "exited");
    let mut open = init.process().files().into_values().map(PathBuf::from);
    let is_it = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("groundstate"))
            && path.join("cgroup.procs").exists()
    };
    let directory = open.find(is_it).expect("init has its directory open");
    let below = fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| fs::remove_dir(path).unwrap());
    fs::remove_dir(&directory).unwrap();
    init
}

#[test]
fn removed_cgroup_directory_is_made_again_at_the_next_start() {
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/fs/cgroup/unified").exists() {
        return groundstate_tests::not_run!("this needs root and cgroups at their usual place");
    }
    let mut init = without_its_directory();
    init.tell("want", &json!({"target": "web"}));
    let web = {
        init.when_state("web", "running");
        init.main_of("web")
    };
    // The new directory may have another name.
    assert!(cgroup(web).is_some_and(|path| path.contains("/groundstate")));
    assert_eq!(init.status().0["tracking"], "cgroup2");
    assert!(init.output().contains("was removed: created it again"), "{}", init.output());
    // A crash and an upgrade find the new directory.
    init.expect_crashes();
    groundstate_tests::crash::crash(&init, nix::sys::signal::Signal::SIGSEGV);
    init.when("the crash is survived", |_| init.tell("stats", &json!({}))["crashes"] == 1);
    assert_eq!(init.main_of("web"), web);
    init.tell("upgrade", &json!({}));
    init.when_state("web", "running");
    init.tell("set-target", &json!({"targets": ["done"]}));
    init.when("it is down", |s| s.main_pid("web").is_none());
    until("no process of it is left", || init.processes_of("web").is_empty().then_some(()));
    init.finish_after_crash();
}

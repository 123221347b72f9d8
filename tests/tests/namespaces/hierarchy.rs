//! Cgroups of every kind there is, or none; a process that goes to another one; a whole init in one
//! that gets no more memory.

use super::process_endings::cgroup;
use super::restricted_environments::{after, pair};
use super::shortage::supervises;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Runs init without cgroups.
pub(super) const BARE: &str =
    "umount -l /sys/fs/cgroup/unified 2>/dev/null; umount -R -l /sys; exec \"$@\"";

/// Options of a mount of the second kind are those of all such mounts: they are as they were
/// once this is gone.
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

/// Takes those of the second kind away.
const FIRST_KIND: &str =
    "umount -l /sys/fs/cgroup/unified || umount -R -l /sys/fs/cgroup; ! grep cgroup2 /proc/mounts";

#[test]
fn whatever_cgroups_there_are_a_unit_is_started_healed_and_stopped_as_a_whole() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let top = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup";
    let own = "mkdir -p /sys/fs/cgroup/of-a-test && echo $$ >/sys/fs/cgroup/of-a-test/cgroup.procs";
    // Within a namespace of its own nothing above it may be changed, as one that delegates insists.
    let within = "exec unshare -C sh -c \"umount /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup; \
                  ! echo 1 2>/dev/null >/sys/fs/cgroup/cgroup.max.depth || exit 9; exec \\\"\\$0\\\" \\\"\\$@\\\"\" \"$0\" \"$@\"";
    let delegated = format!(
        "umount -R -l /sys/fs/cgroup && mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup && {own} && {within}"
    );
    for (kind, taking, tracking) in [
        ("none", "umount -R -l /sys", "process-group"),
        ("of the first kind alone", FIRST_KIND, "process-group"),
        ("as they are here", "true", ""),
        ("of the second kind", top, "cgroup2"),
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
        until("all of it is there", || (init.processes_of("hydra").len() == 5).then_some(()));
        init.tell("set-target", &json!({"targets": ["web"]}));
        init.when("it is down", |s| s.main_pid("hydra").is_none());
        until("nothing of it is left", || init.processes_of("hydra").is_empty().then_some(()));
        // The place of the options is in there.
        let left = init.finish_and_keep();
        drop(options);
        drop(left);
    }
}

/// A cgroup to which the one above it hands on no controller, whichever that has.
const NO_CONTROLLER: &str = "umount -R -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup && \
                             cd /sys/fs/cgroup && mkdir -p of-a-test/below && echo $$ >of-a-test/below/cgroup.procs && \
                             [ -z \"$(cat of-a-test/below/cgroup.controllers)\" ] && cd / || exit 9";

#[test]
fn a_limit_whose_controller_is_missing_fails_the_start_and_no_other() {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        groundstate_tests::not_run!("it takes root to have a cgroup without controllers");
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
        assert_eq!(init.sandbox.read("ran"), "", "it did not run without");
        init.when_state("web", "running");
        // The place of the options is in there.
        let left = init.finish_and_keep();
        drop(options);
        drop(left);
    }
}

/// The cgroup of the second kind at the top.
pub(super) fn top(dir: &str) -> PathBuf {
    let is_top =
        |dir: &&Path| dir.parent().is_none_or(|above| !above.join("cgroup.procs").exists());
    Path::new(dir).ancestors().find(is_top).expect("the top").to_owned()
}

/// Once they may, two units go to the cgroup that is named to them: one that is deaf, and one that is not.
fn movers() -> Sandbox {
    let files = Sandbox::new();
    files.unit("probe", "exec-start: DAEMON");
    files.unit("deaf", "stop-timeout: 500ms\nexec-start: /bin/sh -c 'trap \"\" TERM; until [ -e DIR/go ]; do :; done; echo $$$$ >$(cat DIR/top)/cgroup.procs && echo x >DIR/deaf; while :; do sleep 0.05; done'");
    files.unit("polite", "stop-timeout: 60s\nexec-start: /bin/sh -c 'until [ -e DIR/go ]; do :; done; echo $$$$ >$(cat DIR/top)/cgroup.procs && echo x >DIR/polite; exec sleep 1000'");
    files.unit("all", "type: virtual\nwaits-for: probe, deaf, polite");
    files
}

/// They go there, as a line of their /proc/PID/cgroup then says, and are stopped.
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
fn who_moves_out_of_its_cgroup_is_stopped_all_the_same() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let init = Boot::new(movers()).start("all");
    init.when_system("running");
    let Some(dir) = cgroup(init.main_of("probe")) else {
        init.finish();
        return groundstate_tests::not_run!("no cgroups of the second kind here");
    };
    are_stopped_in(&init, &top(&dir), |line| {
        line.starts_with("0::") && !line.contains("groundstate")
    });
    for unit in ["deaf", "polite"] {
        let told = |line: &str| line.contains(unit) && line.contains("has left its cgroup");
        until("it is told", || init.output().lines().any(told).then_some(()));
    }
    assert!(!init.output().contains("probe: its main process"), "{}", init.output());
    // What it started out there nobody else ends.
    until("nothing of it is left", || {
        let left: Vec<Process> = init.processes_of("deaf");
        left.iter().for_each(|process| process.end());
        left.is_empty().then_some(())
    });
    init.finish();
}

/// A cgroup in the `freezer` hierarchy of cgroup v1. It is removed with the value.
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
    // With cgroups of the second kind beside it, and without.
    for taking in ["true", FIRST_KIND] {
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

/// A cgroup with little memory, of whichever kind can limit it here.
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
fn where_memory_runs_out_for_all_of_it_the_kernel_takes_a_unit_and_not_init() {
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
fn who_was_given_a_cgroup_makes_no_more_in_it_than_can_be_removed_at_once() {
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
        return groundstate_tests::not_run!("no cgroups of the second kind here");
    }
    init.when_state("maker", "running");
    let own = PathBuf::from(cgroup(init.main_of("maker")).expect("it has a cgroup"));
    let made = |own: &Path| {
        fs::read_dir(own).map_or(0, |all| all.flatten().filter(|one| one.path().is_dir()).count())
    };
    assert_eq!(made(&own), 4096);
    init.tell("set-target", &json!({"targets": ["nothing"]}));
    init.when_state("maker", "disabled");
    until("all of it is gone", || (!own.exists()).then_some(()));
    init.finish();
}

/// Init at rest with a unit to start; its empty cgroup directory is removed.
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
        return groundstate_tests::not_run!("it takes root and cgroups at their usual place");
    }
    let mut init = without_its_directory();
    init.tell("want", &json!({"target": "web"}));
    let web = {
        init.when_state("web", "running");
        init.main_of("web")
    };
    // Another init may have taken its name meanwhile.
    assert!(cgroup(web).is_some_and(|path| path.contains("/groundstate")));
    assert_eq!(init.status().0["tracking"], "cgroup2");
    assert!(init.output().contains("was removed: created it again"), "{}", init.output());
    // A crash and an upgrade find it.
    init.expect_crashes();
    groundstate_tests::crash::crash(&init, nix::sys::signal::Signal::SIGSEGV);
    init.when("the crash is survived", |_| init.tell("stats", &json!({}))["crashes"] == 1);
    assert_eq!(init.main_of("web"), web);
    init.tell("upgrade", &json!({}));
    init.when_state("web", "running");
    init.tell("set-target", &json!({"targets": ["done"]}));
    init.when("it is down", |s| s.main_pid("web").is_none());
    until("nothing of it is left", || init.processes_of("web").is_empty().then_some(()));
    init.finish_after_crash();
}

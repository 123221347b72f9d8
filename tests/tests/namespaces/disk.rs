//! A frozen log disk (fsfreeze(8)) or a missing logger: services are not blocked, and init reports
//! it.

use super::log::{logger, logs};
use super::restricted_environments::{after, pair};
use super::shortage::supervises;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::{Tracer, injected};
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

/// A small ext4 on a loop device, thawed and unmounted when the value is dropped.
pub(crate) struct Disk(PathBuf);

impl Disk {
    /// Mounts it at this path of the sandbox. Returns `None` without loop devices.
    pub(crate) fn of(files: &Sandbox, place: &str) -> Option<Disk> {
        let (image, path) = (files.path(&format!("{place}.image")), files.path(place));
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let made =
            Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", "-F"]).arg(&image).status();
        assert!(made.expect("mke2fs runs").success());
        std::fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).args([&image, &path]).status();
        mounted.expect("mount runs").success().then(|| Disk(path))
    }

    pub(crate) fn fsfreeze(&self, how: &str) {
        let done = Command::new("/sbin/fsfreeze").arg(how).arg(&self.0).output();
        let done = done.expect("fsfreeze runs");
        // A second thaw does no harm.
        assert!(done.status.success() || how == "--unfreeze", "{how}: {done:?}");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.fsfreeze("--unfreeze");
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn last_line(init: &Init, unit: &str) -> String {
    let output = init.initctl(&["logs", unit, "-n", "1"]).stdout;
    String::from_utf8_lossy(&output).trim_end().to_owned()
}

/// Units that write output, with their logs on a disk of their own that is frozen after the first
/// line.
struct Frozen {
    init: Init,
    disk: Disk,
}

impl Frozen {
    /// Returns `None` without loop devices.
    fn new() -> Option<Frozen> {
        let files = Sandbox::new();
        files.put("init.yaml", "echo: no\n");
        for (unit, policy) in [("loud", "drop"), ("calm", "drop"), ("held", "block")] {
            let speaks = format!("exec-start: DAEMON --name {unit} --control DIR/{unit}");
            files.unit(unit, &format!("log-overflow: {policy}\n{speaks}"));
        }
        files.unit("all", "type: virtual\nwaits-for: loud, calm, held");
        let disk = Disk::of(&files, "log")?;
        let it = Frozen { init: Boot::new(files).start("all"), disk };
        it.init.when_system("running");
        it.init.sandbox.order("loud", "say before");
        until("it is written", || it.file("loud").contains("before").then_some(()));
        it.disk.fsfreeze("--freeze");
        Some(it)
    }

    fn file(&self, unit: &str) -> String {
        let path = self.init.sandbox.path(&format!("log/{unit}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    /// Writes far more than a pipe and the logger's buffer hold.
    fn floods(&self, unit: &str) {
        self.init.sandbox.order(unit, "lines 60000");
    }

    /// Waits until the unit has written this line and the logger has it in memory.
    fn says(&self, unit: &str, what: &str) {
        self.init.sandbox.order(unit, &format!("say {what}"));
        until("the logger has the line", || {
            last_line(&self.init, unit).ends_with(what).then_some(())
        });
    }

    fn restarts(&self, unit: &str) {
        let before = self.init.status().main_pid(unit);
        self.init.tell("restart", &json!({"targets": [unit]}));
        self.init.when("the unit is restarted", |s| {
            s.state(unit) == "running" && s.main_pid(unit) != before
        });
    }

    fn loggers(&self) -> Vec<Process> {
        let named =
            |it: &Process| it.read("comm").is_some_and(|name| name.starts_with("groundstate-log"));
        self.init.process().children().into_iter().filter(named).collect()
    }

    /// Kills the logger while it is blocked in a write; it does not exit.
    fn kills_its_logger(&self) -> Process {
        self.init.sandbox.order("loud", "say into the ice");
        let first = logger(&self.init);
        until("it waits for the disk", || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", first.0)).ok()?;
            let stat = |it: std::fs::DirEntry| std::fs::read_to_string(it.path().join("stat")).ok();
            threads.flatten().filter_map(stat).any(|stat| stat.contains(") D ")).then_some(())
        });
        first.signal(Signal::SIGKILL);
        first
    }

    /// Drops the disk before the processes that have its files open.
    fn ends(self) {
        let left = self.init.finish_and_keep();
        drop(self.disk);
        drop(left);
    }
}

#[test]
fn frozen_log_disk_is_reported_once_and_blocks_no_unit() {
    let Some(it) = Frozen::new() else {
        return groundstate_tests::not_run!("no loop devices here");
    };
    let before = it.init.status().main_pid("loud");
    let troubles = || it.init.output().matches("cannot write log files").count();
    for round in 0..3 {
        it.floods("loud");
        it.says("loud", &format!("through {round}"));
        it.init.check();
    }
    until("init logs it", || (troubles() > 0).then_some(()));
    it.says("calm", "a word");
    it.restarts("calm");
    assert_eq!(it.init.status().main_pid("loud"), before);
    assert_eq!(troubles(), 1, "one message, not one for each line:\n{}", it.init.output());
    it.disk.fsfreeze("--unfreeze");
    let mut said = 0;
    until("lost lines are noted in the file", || {
        said += 1;
        it.init.sandbox.order("loud", &format!("say again {said}"));
        it.file("loud").contains(" lines lost: ").then_some(())
    });
    until("it is written again", || it.file("loud").contains("again").then_some(()));
    assert_eq!(troubles(), 1, "{}", it.init.output());
    it.ends();
}

#[test]
fn logger_that_was_killed_and_cannot_end_is_replaced_once_it_has_ended() {
    let Some(it) = Frozen::new() else {
        return groundstate_tests::not_run!("no loop devices here");
    };
    let first = it.kills_its_logger();
    // This logger does not answer the message with the new pipe.
    it.restarts("calm");
    let told = || it.init.output().contains("was killed and does not exit").then_some(());
    until("init logs that it does not exit", told);
    assert_eq!(it.loggers(), [first], "{}", it.init.output());
    it.init.sandbox.order("calm", "say meanwhile");
    it.disk.fsfreeze("--unfreeze");
    until("the next logger writes", || it.file("calm").ends_with("meanwhile\n").then_some(()));
    assert_eq!(it.file("loud").matches("into the ice\n").count(), 1, "{}", it.file("loud"));
    it.ends();
}

#[test]
fn failing_log_disk_is_reported_with_its_error_and_used_again_once_it_works() {
    let files = Sandbox::new();
    files.unit("loud", "exec-start: DAEMON --name loud --control DIR/loud");
    let init = Boot::new(files).start("loud");
    let before = init.when_system("running").main_pid("loud");
    let path = init.sandbox.path("log/loud.log");
    let file = || std::fs::read_to_string(&path).unwrap_or_default();
    init.sandbox.order("loud", "say before");
    until("it is written", || file().contains("before").then_some(()));
    let only = ["-f", "-P", path.to_str().unwrap(), "-e", "trace=write"];
    let fails = [&only[..], &["-e", "inject=write:error=EIO"]].concat();
    let tracer = Tracer::attach(logger(&init), &init.sandbox.path("strace"), &fails);
    let (mut said, trouble) = (0, nix::errno::Errno::EIO.desc());
    until("init logs it", || {
        said += 1;
        init.sandbox.order("loud", &format!("say missing {said}"));
        init.output()
            .lines()
            .any(|line| line.contains("cannot write log files") && line.contains(trouble))
            .then_some(())
    });
    let last = format!("missing {said}");
    until("the logger has it", || last_line(&init, "loud").ends_with(&last).then_some(()));
    drop(tracer);
    until("lost lines are noted in the file", || {
        init.sandbox.order("loud", "say again");
        (file().contains(&format!(" lines lost: {trouble}")) && file().ends_with("again\n"))
            .then_some(())
    });
    assert!(!file().contains("missing 1\n"), "it failed: {}", file());
    assert_eq!(init.status().main_pid("loud"), before);
    init.finish();
}

#[test]
fn logger_that_cannot_be_started_affects_no_service() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    files.unit("late", "exec-start: DAEMON --name late --say-err late --control DIR/late");
    let init = Boot::new(files).start("web");
    let before = init.when_system("running");
    // Only init's own children are made by these calls; services are made by clone3(2).
    let inject = ["-e", "trace=clone,fork", "-e", "inject=clone,fork:error=EAGAIN"];
    let first = logger(&init);
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &inject);
    first.end();
    until("the logger could not be started", || (injected(&tracer.lines()) >= 3).then_some(()));
    init.sandbox.order("web", "say without a logger");
    init.tell("want", &json!({"target": "late"}));
    init.when_state("late", "running");
    init.check();
    assert_eq!(init.status().main_pid("web"), before.main_pid("web"));
    let failed = injected(&tracer.detach());
    for (unit, said) in [("web", "without a logger"), ("late", "late")] {
        until("the lines of the meantime are logged", || {
            last_line(&init, unit).ends_with(said).then_some(())
        });
    }
    let told = init.output().lines().filter(|line| line.contains("logger")).count();
    assert!(told <= failed + 1, "a line for each try at most:\n{}", init.output());
    init.finish();
}

#[test]
fn logger_that_dies_at_each_line_affects_no_service_and_loses_no_line() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    files.unit("late", "exec-start: DAEMON --name late --control DIR/late");
    let init = Boot::new(files).start("web");
    let before = init.when_system("running");
    // strace kills each child at its first tee(2); only loggers call it.
    let inject = ["-f", "-e", "trace=tee", "-e", "inject=tee:signal=SIGKILL"];
    let first = logger(&init);
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &inject);
    first.end();
    init.sandbox.order("web", "lines 10");
    let deaths = || tracer.lines().iter().filter(|line| line.contains("tee(")).count();
    until("some loggers have died", || (deaths() >= 6).then_some(()));
    init.tell("want", &json!({"target": "late"}));
    init.when_state("late", "running");
    init.check();
    assert_eq!(init.status().main_pid("web"), before.main_pid("web"));
    tracer.detach();
    init.sandbox.order("web", "say the end");
    until("the logger has the last line", || {
        last_line(&init, "web").ends_with("the end").then_some(())
    });
    let all = init.initctl(&["logs", "web", "-n", "100"]).stdout;
    let all = String::from_utf8_lossy(&all).into_owned();
    for number in 1..=10 {
        assert_eq!(all.matches(&format!("web line {number}\n")).count(), 1, "{all}");
    }
    init.finish();
}

/// A command that leaves only the runtime directory writable, as on a machine that boots from a
/// read-only medium.
const READ_ONLY: &str = "mount --bind DIR DIR && mount --bind DIR/run DIR/run && \
                         mount -o remount,bind,ro DIR && mount -o remount,bind,ro / || exit 9";
/// A command that leaves neither a free block nor a free inode in the log directory.
const FULL: &str = "mount -t tmpfs -o size=64k,nr_inodes=10 none DIR/log || exit 9; cat /dev/zero >DIR/log/all 2>/dev/null; \
                    n=0; while true >DIR/log/$n; do n=$((n+1)); done 2>/dev/null";

#[test]
fn read_only_or_full_disk_does_not_stop_the_boot_and_logs_stay_in_memory() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    for (taking, why) in [(READ_ONLY, "Read-only file system"), (FULL, "No space left on device")] {
        let files = pair();
        // Proves that nothing can be written.
        files.unit("proof", "type: oneshot\nexec-start: /bin/sh -c '! touch DIR/log/proof'");
        files.unit("all", "type: virtual\ndepends-on: web, proof");
        let dir = files.dir().to_str().expect("a plain name").to_owned();
        let init = after(&taking.replace("DIR", &dir), files).unrecorded().start("all");
        supervises(&init);
        assert_eq!(init.status().state("proof"), "exited", "{why}");
        let has_it =
            || logs(&init, "web", 5).iter().any(|line| line.ends_with("here")).then_some(());
        until("the line is read from memory", has_it);
        let told = || init.output().matches("cannot write log files").count();
        until("it is reported", || (told() > 0).then_some(()));
        let output = init.output();
        assert!(told() == 1 && output.contains(&format!("): {why}")), "once, and why: {output}");
        init.finish();
    }
}

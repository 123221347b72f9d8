//! Output of services: its destinations, and its handling when the logger dies.

use super::crash::{has_survived, starts, until_traced};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::{crash, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::{Tracer, injected};
use nix::sys::signal::Signal;

/// The last lines that `initctl logs` shows of a target.
pub(crate) fn logs(init: &Init, target: &str, count: usize) -> Vec<String> {
    let output = init.initctl(&["logs", target, "-n", &count.to_string()]);
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The logger, by the name it sets for itself.
pub(crate) fn logger(init: &Init) -> groundstate_tests::process::Process {
    let named = |p: &groundstate_tests::process::Process| {
        p.is_alive() && p.read("comm").is_some_and(|name| name.starts_with("groundstate-log"))
    };
    until("a logger", || init.process().children().into_iter().find(named))
}

#[test]
fn logs_of_an_unknown_name_fail_with_a_suggestion() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --say 'out it goes'");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    until("it is in the log", || (logs(&init, "web", 1).len() == 1).then_some(()));
    for words in [&["logs", "wbe"][..], &["logs", "-f", "wbe"], &["logs", "-f", "web", "wbe"]] {
        let ended = init.initctl(words);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(64), "{words:?}: {said}");
        assert!(said.contains("did you mean `web`?"), "{words:?}: {said}");
    }
    init.finish();
}

#[test]
fn output_of_a_service_is_shown_stored_and_echoed() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --say 'out it goes' --say-err 'and err'");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    until("both lines are in the log", || {
        let lines = logs(&init, "web", 10);
        let has = |text: &str| lines.iter().any(|line| line.ends_with(text));
        (has("out it goes") && has("and err")).then_some(())
    });
    until("a file of the unit has them", || {
        let files = std::fs::read_dir(init.sandbox.path("log")).ok()?;
        let text =
            |e: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(e.ok()?.path()).ok();
        files.filter_map(text).find(|text| text.contains("out it goes"))
    });
    until("init's own output has them", || {
        init.output().contains("web | out it goes").then_some(())
    });
    init.finish();
}

#[test]
fn killed_logger_loses_no_written_line_and_affects_no_service() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    let init = Boot::new(files).start("web");
    let before = init.when_state("web", "running").main_pid("web");
    let stored = || {
        let folder = std::fs::read_dir(init.sandbox.path("log")).ok()?;
        let texts = folder.filter_map(|e| std::fs::read_to_string(e.ok()?.path()).ok());
        let text: String = texts.collect();
        (1..=50).all(|n| text.contains(&format!("web line {n}\n"))).then_some(())
    };
    init.sandbox.order("web", "lines 50");
    until("every line is written", stored);
    logger(&init).signal(Signal::SIGKILL);
    init.sandbox.order("web", "say the last one");
    until("the logger has the last line", || {
        logs(&init, "web", 5).iter().any(|line| line.ends_with("the last one")).then_some(())
    });
    let status = init.status();
    assert_eq!(status.main_pid("web"), before);
    until("every line is still there", stored);
    init.finish();
}

#[test]
fn service_does_not_wait_for_a_stopped_logger() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web --trace DIR/web.trace");
    let init = Boot::new(files).start("web");
    init.when_state("web", "running");
    until_traced(&init, "web");
    let logger = logger(&init);
    logger.signal(Signal::SIGSTOP);
    init.check();
    init.tell("restart", &serde_json::json!({"targets": ["web"]}));
    init.when("a new run", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    // Init may have replaced the logger that hangs.
    if logger.is_alive() {
        logger.signal(Signal::SIGCONT);
    }
    init.finish();
}

#[test]
fn line_of_one_unit_cannot_look_like_a_line_of_another() {
    let files = Sandbox::new();
    files.unit("evil", "exec-start: DAEMON --say 'web | all is well' --control DIR/evil");
    let init = Boot::new(files).start("evil");
    init.when_state("evil", "running");
    init.sandbox.order("evil", "say \u{1b}[2Jgone");
    until("the line is echoed", || {
        (init.output().contains("[2Jgone") && init.output().contains("all is well")).then_some(())
    });
    let output = init.output();
    let line = output.lines().find(|line| line.contains("all is well")).unwrap();
    assert!(line.starts_with("evil | "), "{line}");
    assert!(!output.contains('\u{1b}'), "no control byte reaches a terminal: {output:?}");
    init.finish();
}

#[test]
fn log_null_discards_the_output() {
    let files = Sandbox::new();
    files.unit("quiet", "log: null\nexec-start: DAEMON --say psst --trace DIR/trace");
    let init = Boot::new(files).start("quiet");
    init.when_state("quiet", "running");
    until("the service has written its line", || {
        init.sandbox.trace("trace").contains(&"ready".to_owned()).then_some(())
    });
    let process = init.main_of("quiet");
    assert_eq!(process.files()[&1], "/dev/null");
    assert_eq!(process.files()[&2], "/dev/null");
    init.finish();
}

#[test]
fn full_log_disk_is_reported_and_lost_lines_are_counted() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("loud", "exec-start: /bin/sh -c 'seq 5000; exec DAEMON'");
    let log = files.at("log");
    let small = format!("mount -t tmpfs -o size=64k tmpfs {log} && exec \"$@\"");
    let init = Boot::new(files).through(&["/bin/sh", "-c", &small, "sh"]).start("loud");
    until("init logs it", || init.output().contains("cannot write log files").then_some(()));
    assert!(
        init.output().contains("(first for loud): No space left on device"),
        "{}",
        init.output()
    );
    let last = || logs(&init, "loud", 1).iter().any(|line| line.ends_with(" 5000"));
    until("all lines are read", || last().then_some(()));
    // With free space again, the log file says what it lacks.
    let inside = format!("/proc/{}/root{log}/loud.log", init.process().0);
    until("the file can be truncated", || {
        std::fs::OpenOptions::new().write(true).open(&inside).ok()?.set_len(0).ok()
    });
    until("the loss is noted", || {
        init.tell("restart", &serde_json::json!({"targets": ["loud"]}));
        let text = std::fs::read_to_string(&inside).ok()?;
        text.contains("lines lost: No space left on device").then_some(())
    });
    init.finish();
}

#[test]
fn kernel_log_that_accepts_nothing_blocks_no_unit() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    for (calls, error) in
        [("openat", "EPERM"), ("write", "ENOSPC"), ("write", "EAGAIN"), ("write", "EPERM")]
    {
        let files = Sandbox::new();
        files.put("kmsg", "");
        files.unit("loud", "log: kmsg\nexec-start: DAEMON --name loud --control DIR/loud");
        files.unit("other", "exec-start: DAEMON --name other --control DIR/other");
        files.unit("all", "type: virtual\nwants: loud, other");
        let bind = format!("mount --bind {} /dev/kmsg && exec \"$@\"", files.at("kmsg"));
        let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("all");
        let before = init.when_system("running");
        let logger = logger(&init);
        let inject = format!("inject={calls}:error={error}");
        let trace = format!("trace={calls}");
        let arguments = ["-f", "-P", "/dev/kmsg", "-e", &trace, "-e", &inject];
        let tracer = Tracer::attach(logger, &init.sandbox.path("strace"), &arguments);
        init.sandbox.order("loud", "lines 3000");
        init.sandbox.order("loud", "say the last of them");
        init.sandbox.order("other", "say something else");
        let has = |target: &str, text: &str| {
            logs(&init, target, 5).iter().any(|line| line.ends_with(text)).then_some(())
        };
        until("a line that the kernel refuses is kept", || has("loud", "the last of them"));
        until("other units are logged", || has("other", "something else"));
        until("it was tried", || (injected(&tracer.lines()) > 0).then_some(()));
        init.check();
        let tried = injected(&tracer.detach());
        assert!(tried <= 3001, "{tried} times: one try a line, and no loop");
        assert!(logger.is_alive(), "{calls} {error}");
        if calls == "write" {
            init.sandbox.order("loud", "say it is taken again");
            until("the kernel has it", || {
                init.sandbox.read("kmsg").contains("it is taken again").then_some(())
            });
        }
        let after = init.status();
        assert_eq!(after.main_pid("loud"), before.main_pid("loud"), "{calls} {error}");
        init.finish();
    }
}

/// The content of a unit's log files, oldest first.
pub(crate) fn stored(init: &Init, unit: &str) -> String {
    let read = |name: String| std::fs::read_to_string(init.sandbox.path("log").join(name)).ok();
    let mut texts: Vec<String> =
        (1..).map_while(|number| read(format!("{unit}.log.{number}"))).collect();
    texts.reverse();
    texts.extend(read(format!("{unit}.log")));
    texts.concat()
}

#[test]
fn repeatedly_killed_logger_loses_and_duplicates_no_line() {
    let kills = turns(10, 1_000) as u64;
    let files = Sandbox::new();
    // Files are rotated all the time, and none is removed.
    let size = 256 * (1 + kills / 100);
    files.put("init.yaml", &format!("log-size: {size}KiB\nlog-keep: 1000\n"));
    // One service writes single lines; the other writes blocks of lines and partial lines.
    let script = "n=0; until [ -e DIR/stop ]; do n=$((n+1)); echo line $n; done; echo last $n";
    files.unit(
        "steps",
        &format!("success-status: [0]\nexec-start: /bin/sh -c '{}'", script.replace("$", "$$")),
    );
    let script = "n=0; until [ -e DIR/stop ]; do seq $((n+1)) $((n+5000)); n=$((n+5000)); done; echo last $n";
    files.unit(
        "blocks",
        &format!("success-status: [0]\nexec-start: /bin/sh -c '{}'", script.replace("$", "$$")),
    );
    files.unit("all", "type: virtual\nwants: steps, blocks");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let before = ["steps", "blocks"].map(|unit| init.status().main_pid(unit));
    let size = || -> u64 {
        let entries = std::fs::read_dir(init.sandbox.path("log")).unwrap().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    };
    for kill in 0..kills {
        let (logger, written) = (logger(&init), size());
        until("more is written", || (size() > written + 1000 * kill % 7000).then_some(()));
        logger.end();
        until("the process has exited", || (!logger.is_alive()).then_some(()));
    }
    assert_eq!(["steps", "blocks"].map(|unit| init.status().main_pid(unit)), before);
    let (least, mut all) = (turns(10_000, 100_000) as u64, 0);
    until("enough lines are written", || (size() > 40 * least).then_some(()));
    init.sandbox.put("stop", "");
    for (unit, word) in [("steps", "line "), ("blocks", "")] {
        until("the logger has the last line", || {
            stored(&init, unit).contains(" last ").then_some(())
        });
        // No file is rotated any more while this reads them.
        let text = stored(&init, unit);
        let lines = text.lines().map(|line| line.splitn(3, ' ').nth(2).expect("three words"));
        let mut next = 1u64;
        for line in lines {
            match line.strip_prefix("last ") {
                Some(last) => assert_eq!(last, (next - 1).to_string(), "{unit}"),
                None => {
                    assert_eq!(line, format!("{word}{next}"), "{unit}: after {}", next - 1);
                    next += 1;
                }
            }
        }
        assert!(next > 1000, "{unit} has written {next} lines");
        all += next;
    }
    assert!(all > least, "{all} lines");
    init.finish();
}

#[test]
fn ready_line_is_not_lost_with_the_logger_that_reads_it() {
    let files = Sandbox::new();
    files.unit(
        "bot",
        "ready-grep: ^connected\nexec-start: DAEMON --ready-on-order --control DIR/bot",
    );
    let init = Boot::new(files).start("bot");
    init.when_state("bot", "starting");
    let logger = logger(&init);
    // The logger records the next read, reads, and records that it has.
    let kill = ["-e", "trace=pwrite64", "-e", "inject=pwrite64:signal=SIGKILL:when=3"];
    let tracer = Tracer::attach(logger, &init.sandbox.path("strace"), &kill);
    init.sandbox.order("bot", "say connected");
    until("the logger has exited", || logger.state().is_none().then_some(()));
    drop(tracer);
    init.when_state("bot", "running");
    init.finish();
}

#[test]
fn json_logs_have_time_and_run_and_since_omits_older_lines() {
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web --control DIR/web");
    let init = Boot::new(files).start("web");
    let run = init.when_state("web", "running").unit("web")["run"].clone();
    let json = |words: &[&str]| init.initctl_json_lines(&[&["logs", "web"], words].concat());
    let said = |text: &str| {
        init.sandbox.order("web", &format!("say {text}"));
        let find = || json(&["-n", "100"]).into_iter().rfind(|line| line["line"] == text);
        until("the logger has the line", find)
    };
    let first = said("first");
    assert_eq!((&first["unit"], &first["stream"]), (&"web".into(), &"output".into()), "{first}");
    assert!(run.is_u64() && first["run"] == run, "{first}");
    let time = |line: &serde_json::Value| line["time"].as_str().unwrap_or_default().to_string();
    assert!(time(&first).len() == 24 && time(&first).ends_with('Z'), "{first}");
    // Log times have a resolution of milliseconds.
    let second = until("it is later", || Some(said("second")).filter(|it| time(it) > time(&first)));
    let since = json(&["--since", &time(&second)]);
    assert!(since.contains(&second), "{since:?}");
    assert!(since.iter().all(|line| time(line) >= time(&second)), "{since:?}");
    assert!(!since.contains(&first), "{since:?}");
    let all = json(&["--since", &time(&first)]);
    assert!(all.contains(&first) && all.contains(&second), "{all:?}");
    init.finish();
}

#[test]
fn noisy_unit_evicts_no_line_of_another_unit() {
    let files = Sandbox::new();
    files.put("init.yaml", "log-size: 64KiB\nlog-keep: 1\n");
    files.unit("quiet", "exec-start: DAEMON --say 'the only line'");
    files.unit("noisy", "exec-start: /bin/sh -c 'seq 100000; exec DAEMON'");
    files.unit("all", "type: virtual\nwants: quiet, noisy");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let has = |unit: &str, text: &str| logs(&init, unit, 1).iter().any(|l| l.ends_with(text));
    until("the line of the other unit is read", || has("quiet", "the only line").then_some(()));
    until("all lines are read", || has("noisy", " 100000").then_some(()));
    assert!(has("quiet", "the only line"), "{:?}", logs(&init, "quiet", 1));
    let sizes = || -> Vec<u64> {
        let entries = std::fs::read_dir(init.sandbox.path("log")).unwrap().flatten();
        let of_noisy = entries.filter(|e| e.file_name().to_string_lossy().starts_with("noisy"));
        of_noisy.filter_map(|e| Some(e.metadata().ok()?.len())).collect()
    };
    // A line is readable before its file exists.
    let sizes = until("two files exist", || Some(sizes()).filter(|sizes| sizes.len() == 2));
    // A file has whole lines: everything read at once goes into one file.
    let most = 2 * 2 * 64 * 1024;
    assert!(sizes.iter().sum::<u64>() <= most, "{sizes:?}");
    assert!(init.sandbox.read("log/quiet.log").contains("the only line"));
    init.finish();
}

#[test]
fn partial_line_stays_one_line_after_a_logger_restart_and_a_crash() {
    let files = Sandbox::new();
    let waits =
        "printf half; while [ ! -e DIR/go ]; do sleep 0.05; done; echo whole; exec sleep 1000";
    files.unit("web", &format!("exec-start: /bin/sh -c '{waits}'"));
    let mut init = Boot::new(files).start("web");
    init.when_system("running");
    init.expect_crashes();
    wait_for_commit(&init);
    let first = logger(&init);
    first.end();
    let second = logger(&init);
    assert_ne!(first, second);
    let pipe = init.main_of("web").files().remove(&1).expect("its output");
    until("it reads", || second.files().values().any(|file| *file == pipe).then_some(()));
    crash(&init, Signal::SIGSEGV);
    has_survived(&init, 1);
    init.sandbox.put("go", "");
    let file = init.sandbox.path("log/web.log");
    let said = || std::fs::read_to_string(&file).unwrap_or_default();
    until("it is written", || said().contains("whole").then_some(()));
    assert!(said().ends_with(" halfwhole\n") && said().lines().count() == 1, "{}", said());
    init.finish_after_crash();
}

//! `journalctl` and `initctl logs` with messages of syslog(3) and the kernel, and with earlier boots.

use super::systemctl_shim::{program_path, shim};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs journalctl and returns its output without the time.
fn journal(init: &Init, words: &[&str]) -> Vec<String> {
    let output = shim(init, "journalctl", words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// Stand-ins for the units of syslog(3) and the kernel, and a service.
fn machine() -> Sandbox {
    let files = Sandbox::new();
    files.unit("multi-user", "type: virtual\nwants: dev-log, kernel-log, web.service");
    for unit in ["dev-log", "kernel-log"] {
        let command = format!("DAEMON --name {unit} --control DIR/{unit}");
        files.unit(unit, &format!("log-level-prefix: yes\nexec-start: {command}"));
    }
    files.unit("web.service", "exec-start: DAEMON --name web.service --control DIR/web.service");
    files
}

/// Writes lines to the log of a unit, and waits until it has them.
fn say(init: &Init, unit: &str, text: &str) {
    init.sandbox.order(unit, &format!("say {text}"));
    let text = text.split_once('>').map_or(text, |(_, text)| text);
    until("the logger has the line", || {
        let output = init.initctl(&["logs", unit, "--json"]);
        String::from_utf8_lossy(&output.stdout).contains(text.split(' ').next_back()?).then_some(())
    });
}

#[test]
fn messages_of_syslog_are_merged_into_the_log_of_their_unit() {
    let init = Boot::new(machine()).start("multi-user");
    init.when_state("dev-log", "running");
    init.when_state("kernel-log", "running");
    init.when_state("web.service", "running");
    say(&init, "web.service", "one");
    say(&init, "dev-log", "<3>web.service webd[7]: two");
    say(&init, "dev-log", "<6>cron.service cron[8]: other");
    say(&init, "kernel-log", "<4>kernel: [    1.234567] usb: three");
    say(&init, "web.service", "four");
    let short = |words: &[&str]| {
        let words = [words, &["--no-hostname", "-q"]].concat();
        let lines = journal(&init, &words).into_iter();
        lines.map(|line| line.get(16..).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let of_web = ["web: one", "webd[7]: two", "web: four"];
    assert!(short(&["-u", "web"]).ends_with(&of_web.map(str::to_owned)), "{:?}", short(&[]));
    assert_eq!(short(&["-u", "web", "-n", "2"]), of_web[1..]);
    assert_eq!(short(&["-u", "web", "-p", "err"]), of_web[1..2]);
    let all = ["web: one", "webd[7]: two", "cron[8]: other", "kernel: usb: three", "web: four"];
    assert_eq!(short(&["-n", "5"]), all);
    assert_eq!(
        short(&["-b", "-n", "5", "-r"]),
        all.map(str::to_owned).into_iter().rev().collect::<Vec<_>>()
    );
    assert_eq!(short(&["-k"]), ["kernel: usb: three"]);
    assert_eq!(short(&["-k", "-p", "err"]), [""; 0]);
    assert_eq!(short(&["-t", "cron", "-t", "kernel"]), all[2..4]);
    // The log of the unit itself.
    assert_eq!(short(&["-u", "dev-log", "-n", "1"]), ["dev-log: cron.service cron[8]: other"]);
    // A pattern that fits all units selects their messages, too.
    let known = ["web: one", "webd[7]: two", "kernel: usb: three", "web: four"];
    assert_eq!(short(&["-u", "*", "-n", "4"]), known);
    assert_eq!(short(&["-g", "three", "-n", "5"]), all[3..4]);
    assert_eq!(short(&["-g", "kernel", "-n", "5"]), [""; 0], "not part of the message");

    let json = journal(&init, &["-u", "web", "-o", "json", "-p", "err"]).join("\n");
    let line: serde_json::Value = serde_json::from_str(&json).expect("one object");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for (name, value) in [
        ("_TRANSPORT", "syslog"),
        ("_SYSTEMD_UNIT", "web.service"),
        ("_PID", "7"),
        ("SYSLOG_IDENTIFIER", "webd"),
        ("PRIORITY", "3"),
        ("MESSAGE", "two"),
        ("_BOOT_ID", &boot.trim().replace('-', "")),
    ] {
        assert_eq!(line[name], value, "{name}: {json}");
    }

    let native = |words: &[&str]| {
        let lines = init.initctl_json_lines(words).into_iter();
        lines.map(|line| line["line"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(native(&["logs", "web.service", "-n", "3"]), ["one", "webd[7]: two", "four"]);
    assert_eq!(native(&["logs", "web.service", "-n", "0"]), [""; 0]);
    assert_eq!(native(&["logs", "dev-log", "-n", "1"]), ["cron.service cron[8]: other"]);
    let usb = "kernel: [    1.234567] usb: three";
    assert_eq!(native(&["logs", "kernel-log", "-n", "1"]), [usb]);
    let runs = init.initctl_json_lines(&["logs", "web.service", "-n", "2"]);
    assert!(runs[0]["run"].is_null() && runs[1]["run"].is_u64(), "{runs:?}");
    assert!(native(&["logs", "web.service", "--since", "1h"]).ends_with(&["four".to_owned()]));
    let unknown = init.initctl(&["logs", "no-such"]);
    assert!(!unknown.status.success(), "{unknown:?}");
    init.finish();
}

#[test]
fn follower_sees_messages_of_syslog_once_and_in_order() {
    let init = Boot::new(machine()).start("multi-user");
    init.when_state("dev-log", "running");
    init.when_state("web.service", "running");
    say(&init, "web.service", "one");
    say(&init, "dev-log", "<6>cron.service cron[8]: other");
    say(&init, "dev-log", "<6>web.service webd[7]: two");
    let follow = |mut command: Command| {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
        let mut child = command.spawn().expect("the program runs");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        (child, lines.map_while(Result::ok))
    };
    let mut command = Command::new(program_path());
    command.arg0("journalctl").args(["-fu", "web", "-o", "cat", "-n", "2"]);
    let (mut journalctl, mut lines) = follow(command);
    let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    command.args(["logs", "web.service", "-f", "-n", "2"]);
    let (mut initctl, mut native) = follow(command);
    for (journal, own) in [("one", " one"), ("two", " info: webd[7]: two")] {
        assert_eq!(lines.next().as_deref(), Some(journal));
        assert!(native.next().is_some_and(|line| line.ends_with(own)), "{own}");
    }
    say(&init, "dev-log", "<6>cron.service cron[8]: another");
    say(&init, "dev-log", "<6>web.service webd[7]: three");
    say(&init, "web.service", "four");
    for (journal, own) in [("three", " info: webd[7]: three"), ("four", " four")] {
        assert_eq!(lines.next().as_deref(), Some(journal));
        assert!(native.next().is_some_and(|line| line.ends_with(own)), "{own}");
    }
    for child in [&mut journalctl, &mut initctl] {
        child.kill().expect("the follower runs");
        child.wait().expect("the follower exits");
    }
    init.finish();
}

#[test]
fn earlier_boot_is_listed_and_selected() {
    let files = machine();
    let id = |digit: &str| digit.repeat(32);
    files.put(
        "log/boot-record.log",
        &format!(
            "2020-01-01T00:00:05.000Z 7 boot {} started 2020-01-01T00:00:00.000Z\n\
             2020-01-01T09:00:00.000Z 7 shutdown {} started 2020-01-01T00:00:00.000Z\n\
             2020-01-02T00:00:05.000Z 7 boot {} started 2020-01-02T00:00:00.000Z\n",
            id("1"),
            id("1"),
            id("2")
        ),
    );
    files.put(
        "log/web.service.log",
        "2020-01-01T00:00:09.000Z 3 first\n2020-01-02T00:00:09.000Z 3 second\n",
    );
    // The unit does not exist any more.
    files.put("log/old.log", "2020-01-02T00:00:07.000Z 4 old\n");
    files.put("log/kernel-log.log", "2020-01-02T00:00:08.000Z 2<4> kernel: [    3.000000] usb\n");
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let cat = |words: &[&str]| journal(&init, &[words, &["-o", "cat", "-q"]].concat());
    assert_eq!(cat(&["-b", "-1", "-u", "web"]), ["second"]);
    assert_eq!(cat(&["-b", "1", "-u", "web"]), ["first"]);
    assert_eq!(cat(&["-b", &id("1"), "-u", "web"]), ["first"]);
    assert_eq!(cat(&["-b", "-1"])[1..], ["old", "usb", "second"]);
    assert_eq!(cat(&["-b", "-1", "-n", "1"]), ["second"]);
    assert_eq!(cat(&["-k", "-b", "-1"]), ["usb"]);
    assert!(!cat(&["-b", "-u", "web"]).contains(&"second".to_owned()));
    let list = journal(&init, &["--list-boots", "--utc"]);
    let first = "Wed 2020-01-01 00:00:00 UTC";
    assert_eq!(list[1], format!(" -2 {} {first} Wed 2020-01-01 09:00:00 UTC", id("1")));
    assert_eq!(list[2], format!(" -1 {} Thu 2020-01-02 00:00:00 UTC no shutdown", id("2")));
    assert!(list.len() == 4 && list[3].starts_with("  0 "), "{list:?}");
    let json = journal(&init, &["--list-boots", "-o", "json"]).join("\n");
    let json: serde_json::Value = serde_json::from_str(&json).expect("an array");
    assert_eq!((&json[0]["boot_id"], &json[0]["index"]), (&id("1").into(), &(-2).into()));
    let json = journal(&init, &["-b", "-1", "-u", "web", "-o", "json"]).join("\n");
    let json: serde_json::Value = serde_json::from_str(&json).expect("an object");
    assert_eq!(json["_BOOT_ID"], id("2"));
    let missing = shim(&init, "journalctl", &["-b", "-9"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert_eq!(
        (said.contains("the log has no boot -9"), missing.status.code()),
        (true, Some(1)),
        "{said}"
    );
    init.finish();
}

#[test]
fn any_number_of_log_files_is_shown() {
    for (count, name) in [(70, "a"), (150, "b")] {
        let files = machine();
        for number in 0..count {
            let line = format!("2020-01-02T00:00:{:02}.000Z 4 {name}{number}\n", number % 60);
            files.put(&format!("log/old-{number}.log"), &line);
        }
        let init = Boot::new(files).start("multi-user");
        init.when_state("web.service", "running");
        say(&init, "web.service", "new");
        let until = ["-o", "cat", "-q", "--until", "2020-01-03"];
        let shown = journal(&init, &until);
        assert_eq!(shown.len(), count, "{shown:?}");
        assert_eq!(shown[0], format!("{name}0"));
        assert_eq!(
            journal(&init, &[&until[..], &["-n", "99"]].concat()),
            shown[shown.len().saturating_sub(99)..]
        );
        let all = journal(&init, &["-o", "cat", "-q", "-n", "999"]);
        assert!(all.starts_with(&shown) && all.contains(&"new".to_owned()), "{all:?}");
        init.finish();
    }
}

#[test]
fn follower_repeats_no_line_after_the_clock_was_set_back() {
    let files = machine();
    files.put(
        "log/web.service.log",
        "2099-01-01T00:00:00.000Z 3 ahead\n2099-01-01T00:00:01.000Z 3 last\n",
    );
    let init = Boot::new(files).start("multi-user");
    init.when_state("web.service", "running");
    let mut command = Command::new(program_path());
    command.arg0("journalctl").args(["-fu", "web", "-o", "cat", "-n", "1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.env("GROUNDSTATE_SOCKET", init.sandbox.at("run/control.sock"));
    let mut follower = command.spawn().expect("the program runs");
    let lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let (to, from) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        lines.map_while(Result::ok).try_for_each(|line| to.send(line)).ok();
    });
    from.recv().expect("the last line");
    let next = until("a new line", || {
        init.sandbox.order("web.service", "say new");
        from.try_recv().ok()
    });
    assert_eq!(next, "new");
    follower.kill().expect("the follower runs");
    follower.wait().expect("the follower exits");
    reader.join().expect("the reader ends");
    init.finish();
}

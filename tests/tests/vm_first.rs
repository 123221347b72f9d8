//! The first process of a kernel, in a virtual machine: it reaches its goal whatever arguments the
//! kernel passes, passes none of them on, and its timeouts are not affected by clock changes. Other
//! tests of a machine are in `vm.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system};
use groundstate_tests::sandbox::Sandbox;
use std::fs;

/// Changes the wall clock (Linux allows no time before the boot) while a service starts and another
/// waits for its retry.
const JUMPS: &str = r#"
up() { read now rest </proc/uptime; echo "${now%.*}"; }
begin=$(up)
initctl want late >/dev/null
kill -9 "$(pid)"
for date in '2036-06-01 00:00:00' '1970-01-01 01:00:00' '2038-01-19 03:14:06' '2106-02-07 06:28:14' '2016-06-01 00:00:00'; do
  date -u -s "$date" >/dev/null && say clock "$(date +%Y)"
done
first=$(pid)
until initctl status web | grep -q running; do :; done
say healed again
until initctl status late | grep -q failed; do :; done
say late took $(($(up) - begin))
initctl --json events | tail -n 1 | sed 's/^/PROBE event /' >/dev/console
"#;

/// Checks the results of the clock changes.
fn told_of_jumps(console: &str) {
    let said = |start: &str| {
        let line = console.lines().find_map(|line| line.split_once(&format!("PROBE {start} ")));
        line.unwrap_or_else(|| panic!("no `PROBE {start}`:\n{console}")).1.trim()
    };
    for year in ["2036", "1970", "2038", "2106", "2016"] {
        assert!(console.contains(&format!("PROBE clock {year}")), "{year}:\n{console}");
    }
    assert!(console.contains("PROBE healed again"), "{console}");
    // Not before its timeout of six seconds, both values rounded down.
    assert!(said("late took").parse::<u64>().unwrap() >= 5, "{console}");
    let event: serde_json::Value = serde_json::from_str(said("event")).unwrap();
    assert!(
        event.get("time").and_then(|it| it.as_str()).unwrap().starts_with("2016-06-01T"),
        "{event}"
    );
    assert!(
        event.get("mono-us").and_then(serde_json::Value::as_u64).is_some_and(|at| at > 0),
        "{event}"
    );
}

/// The environments of PID 1, of a service, and of one that asks for a variable.
const ENVIRONMENTS: &str = r#"
names() { tr '\0' '\n' <"/proc/$1/environ" | sed "s/^/PROBE of $2: /" >/dev/console; }
names 1 init
names "$(pid)" web
names $$ probe
until initctl status asks | grep -q running; do :; done
names "$(cat /tmp/asks)" asks
"#;

/// Checks that services get no variable from the kernel command line unless they ask for it.
fn told_of_environments(console: &str) {
    let of = |whom: &str| {
        let start = format!("PROBE of {whom}: ");
        let names: Vec<&str> =
            console.lines().filter_map(|line| line.trim().strip_prefix(&start)).collect();
        assert!(!names.is_empty(), "{whom}:\n{console}");
        names
    };
    let handed = of("init");
    for word in ["foo=bar", "SECRET=of-the-boot-loader"] {
        assert!(handed.contains(&word), "the kernel hands it on: {handed:?}");
    }
    for (whom, may) in [("web", None), ("probe", None), ("asks", Some("foo"))] {
        let own = ["PATH", "GROUNDSTATE_UNIT", "INVOCATION_ID"];
        for (name, _) in of(whom).iter().filter_map(|pair| pair.split_once('=')) {
            // A shell sets these by itself.
            let is_a_shells = ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name);
            assert!(own.contains(&name) || is_a_shells || may == Some(name), "{whom} has {name}");
        }
    }
    assert!(of("asks").contains(&"foo=bar"), "a service gets the variable it asks for");
}

#[test]
fn first_process_of_a_kernel_reaches_its_goal_and_powers_off() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, &format!("{JUMPS}{ENVIRONMENTS}initctl poweroff"));
    let unit = |name: &str, text: &str| {
        let path = root.join(format!("etc/groundstate/units/{name}.yaml"));
        fs::write(path, format!("unit: {name}\n{text}\n")).unwrap();
    };
    unit(
        "late",
        "type: foreground-notified\nstart-timeout: 6s\nrestart: never\nexec-start: /bin/sleep 1000",
    );
    let line = "echo $$$$ >/tmp/asks; exec sleep 1000";
    unit("asks", &format!("env-pass: [foo]\nready-wait: 1s\nexec-start: /bin/sh -c '{line}'"));
    unit("multi-user", "type: virtual\nwaits-for: web, loopback, asks");
    let initrd = archive(&sandbox, &root);
    // The kernel passes unknown words to PID 1 as arguments and environment.
    let mut machine =
        Machine::boot(sandbox, &["-initrd", &initrd], "5 foo=bar SECRET=of-the-boot-loader");
    machine.says("PROBE goal reached");
    machine.says("PROBE healed");
    machine.says("PROBE no crash");
    machine.goes_off();
    machine.says("reboot: Power down");
    let console = machine.console();
    let shown = console.lines().find(|line| line.contains("web") && line.contains("running"));
    assert!(shown.is_some(), "`initctl status` shows web running:\n{console}");
    told_of_jumps(&console);
    told_of_environments(&console);
}

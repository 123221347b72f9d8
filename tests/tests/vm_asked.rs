//! Requests to a machine without its socket: keys, which act as configured, and signals for a
//! shutdown, of which the last one counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system, unit};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::path::Path;

/// A unit that prints its name and then runs this command.
fn does(root: &Path, name: &str, rest: &str) {
    let line = format!("echo \"PROBE $0\" >/dev/console; {rest}");
    unit(root, name, &format!("type: oneshot\nexec-start: /bin/sh -c '{line}' 'this is {name}'"));
}

/// The kernel's built-in keymap has no KeyboardSignal (0x212), which distributions have on Alt-Up:
/// keycode 103 in the table of Alt, the seventh that dumpkmap knows. Once the test types a line,
/// the script sends PID 1 the signal of the power key.
const KEYS: &str = r"dumpkmap </dev/tty0 >/tmp/keys
printf '\022\002' | dd of=/tmp/keys bs=1 seek=$((7 + 256 + 6 * 256 + 103 * 2)) conv=notrunc 2>/dev/null
loadkmap </tmp/keys && say keys
read line </dev/console; kill -PWR 1";

fn machine(settings: &str, units: impl Fn(&Path)) -> Machine {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, KEYS);
    fs::write(root.join("etc/groundstate/init.yaml"), settings).unwrap();
    units(&root);
    let initrd = archive(&sandbox, &root);
    Machine::boot(sandbox, &["-initrd", &initrd], "groundstate.shell=open groundstate.log=info")
}

#[test]
fn each_key_of_a_machine_acts_as_configured() {
    let settings = "ctrl-alt-del: fingers\nkeyboard-request: request\npower-key: button\n";
    let mut machine = machine(settings, |root| {
        does(root, "fingers", "");
        does(root, "request", "kill -PWR 1");
        does(root, "button", "initctl reboot");
    });
    machine.says("PROBE keys");
    machine.press_ctrl_alt_del();
    // Another goal, and no shutdown.
    machine.says("PROBE this is fingers");
    machine.says("Ctrl-Alt-Del: setting the goal to fingers");
    machine.order("sendkey alt-up");
    machine.says("PROBE this is request");
    machine.says("the power key: setting the goal to button");
    machine.says("PROBE this is button");
    machine.goes_off();
    machine.says("reboot: Restarting system");
}

#[test]
fn disabled_key_does_nothing_and_a_key_with_an_unknown_target_is_reported() {
    let settings = "ctrl-alt-del: none\nkeyboard-request: nowhere\n";
    let mut machine = machine(settings, |_| {});
    machine.says("keyboard-request nowhere: no unit provides it, so the key has no effect");
    machine.says("PROBE keys");
    machine.press_ctrl_alt_del();
    machine.says("Ctrl-Alt-Del: no action configured");
    machine.order("sendkey alt-up");
    machine.says("Alt-Up: setting the goal to nowhere");
    machine.says("Alt-Up: no unit provides");
    // A key without a setting has its default.
    machine.types("go");
    machine.goes_off();
    machine.says("reboot: Power down");
}

/// Ignores SIGTERM until a file exists, so that the test decides how long its stop lasts.
const DEAF: &str = "stop-timeout: 10min\nexec-start: /bin/sh -c 'trap \"\" TERM; until [ -e /tmp/go ]; do sleep 1; done'";

#[test]
fn last_end_signal_counts_in_the_emergency_shell() {
    let mut machine = machine("", |root| {
        // Neither the goal nor the emergency target exists.
        fs::remove_file(root.join("etc/groundstate/units/test.yaml")).unwrap();
        unit(root, "deaf", DEAF);
    });
    machine.says("starting a shell on the console");
    machine.says("/ # ");
    machine.types("initctl want deaf; until initctl status deaf | grep -q running; do :; done; echo UP-$((40 + 2))");
    machine.says("UP-42");
    // RTMIN+5 reboots, RTMIN+4 powers off; see signal(7) for RTMIN.
    machine.types("kill -39 1");
    machine.says("rebooting");
    machine.types("kill -38 1");
    machine.says("powering off");
    machine.types("touch /tmp/go");
    machine.goes_off();
    machine.says("reboot: Power down");
}

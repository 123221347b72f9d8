//! What somebody asks of a machine without its socket: its keys, which do what the settings say, and
//! the signals that ask for an end, of which the last one counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system, unit};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::path::Path;

/// What a unit says, and then does.
fn does(root: &Path, name: &str, rest: &str) {
    let line = format!("echo \"PROBE $0\" >/dev/console; {rest}");
    unit(root, name, &format!("type: oneshot\nexec-start: /bin/sh -c '{line}' 'this is {name}'"));
}

/// The keymap that the kernel has of its own has no KeyboardSignal (0x212), as those of distributions
/// have it on Alt-Up: keycode 103 of the table of Alt, the seventh of those that dumpkmap knows. Then, once
/// somebody types a line, PID 1 hears of the power key.
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
fn each_key_of_a_machine_does_what_is_configured() {
    let settings = "ctrl-alt-del: fingers\nkeyboard-request: request\npower-key: button\n";
    let mut machine = machine(settings, |root| {
        does(root, "fingers", "");
        does(root, "request", "kill -PWR 1");
        does(root, "button", "initctl reboot");
    });
    machine.says("PROBE keys");
    machine.three_fingers();
    // Another goal, and no end.
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
fn a_key_does_nothing_where_it_is_to_do_nothing_and_tells_of_a_target_nobody_provides() {
    let settings = "ctrl-alt-del: none\nkeyboard-request: nowhere\n";
    let mut machine = machine(settings, |_| {});
    machine.says("keyboard-request nowhere: no unit provides it, so the key has no effect");
    machine.says("PROBE keys");
    machine.three_fingers();
    machine.says("Ctrl-Alt-Del: no action configured");
    machine.order("sendkey alt-up");
    machine.says("Alt-Up: setting the goal to nowhere");
    machine.says("Alt-Up: no unit provides");
    // What nobody has set is as ever.
    machine.types("go");
    machine.goes_off();
    machine.says("reboot: Power down");
}

/// Deaf until there is a file, so that its stop lasts as long as the test likes.
const DEAF: &str = "stop-timeout: 10min\nexec-start: /bin/sh -c 'trap \"\" TERM; until [ -e /tmp/go ]; do sleep 1; done'";

#[test]
fn an_end_asked_for_by_signals_in_the_emergency_shell_comes_and_the_last_one_counts() {
    let mut machine = machine("", |root| {
        // Neither the goal nor the emergency target can be had.
        fs::remove_file(root.join("etc/groundstate/units/test.yaml")).unwrap();
        unit(root, "deaf", DEAF);
    });
    machine.says("starting a shell on the console");
    machine.says("/ # ");
    machine.types("initctl want deaf; until initctl status deaf | grep -q running; do :; done; echo UP-$((40 + 2))");
    machine.says("UP-42");
    // RTMIN+5 is a reboot, RTMIN+4 switches off; see signal(7) for where RTMIN is.
    machine.types("kill -39 1");
    machine.says("rebooting");
    machine.types("kill -38 1");
    machine.says("powering off");
    machine.types("touch /tmp/go");
    machine.goes_off();
    machine.says("reboot: Power down");
}

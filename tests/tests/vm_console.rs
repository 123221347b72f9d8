//! A machine whose serial console accepts no output: its boot, its services and its shutdown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system};
use groundstate_tests::sandbox::Sandbox;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

/// Fills the line, its device and the kernel's buffers before anything else starts. A writer that
/// is still blocked after three seconds shows that the line is stuck. Results are written to
/// another line.
const FILL: &str = "timeout -s KILL 3 dd if=/dev/zero of=/dev/console bs=1k count=512 || echo PROBE stalled >/dev/ttyS1";

/// Everything else works as usual.
const CHECK: &str = r#"
say() { echo "PROBE $*" >/dev/ttyS1; }
pid() { initctl --json status web | sed -n 's/.*"main-pid":\([0-9]*\).*/\1/p'; }
until [ "$(pid)" ]; do :; done
say up
first=$(pid)
kill -9 "$first"
until [ "$(pid)" ] && [ "$(pid)" != "$first" ]; do :; done
say healed
# init has something to say about each.
n=0; while [ $n -lt 10 ]; do n=$((n + 1)); initctl set-target nowhere$n >/dev/null 2>&1; initctl reload >/dev/null; done
until initctl logs talker -n 1 | grep -q talk; do :; done
[ "$(initctl --json stats | sed -n 's/.*"crashes":\([0-9]*\).*/\1/p')" = 0 ] && say no crash
"#;

#[test]
fn stuck_serial_console_blocks_neither_boot_nor_services_nor_shutdown() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    let write = |name: &str, text: &str| {
        fs::write(root.join(format!("etc/groundstate/units/{name}.yaml")), text).unwrap();
    };
    let setup = "unit: setup\ntype: oneshot\nlog: 'null'\nexec-start:";
    write("setup", &format!("{setup} /bin/sh -c '{FILL}'\n"));
    let talks = "log: console\nexec-start: /bin/sh -c 'while :; do echo talk; sleep 1; done'\n";
    write("talker", &format!("unit: talker\ndepends-on: setup\n{talks}"));
    write("multi-user", "unit: multi-user\ntype: virtual\nwaits-for: web, loopback, talker\n");
    write(
        "probe",
        "unit: probe\nwaits-for: multi-user\nsuccess-status: [0]\nexec-start: /bin/sh /check\n",
    );
    fs::write(root.join("check"), CHECK).unwrap();
    let initrd = archive(&sandbox, &root);
    // No process reads its output. Opened here, so that its content is still there at the end.
    let mute = sandbox.at("mute");
    for end in ["in", "out"] {
        assert!(Command::new("mkfifo").arg(format!("{mute}.{end}")).status().unwrap().success());
    }
    let mut held = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(format!("{mute}.out"))
        .unwrap();
    let chardev = format!("pipe,id=mute,path={mute}");
    let before = ["-chardev", &chardev, "-serial", "chardev:mute"];
    let options = ["-initrd", &initrd];
    let mut machine = Machine::boot_beside(sandbox, &before, &options, "groundstate.log=debug");
    machine.says("PROBE stalled");
    machine.says("PROBE up");
    machine.says("PROBE healed");
    machine.says("PROBE no crash");
    machine.press_ctrl_alt_del();
    machine.goes_off();
    let mut said = Vec::new();
    let _ = held.read_to_end(&mut said);
    assert!(said.len() >= 4096, "the line was full: {} bytes", said.len());
}

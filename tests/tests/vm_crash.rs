//! A machine whose PID 1 crashes without a state to restore: it opens a shell on its console.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system};
use groundstate_tests::sandbox::Sandbox;
use std::fs;

/// Replaces the next code of PID 1 by an invalid instruction (the memory is private, and the next
/// image has its own) and empties its saved state. PID 1 crashes when it wakes up, and cannot
/// restore its state unless it has committed it again. `232` and `281` of proc_pid_syscall(5) are
/// waits of its event loop, `128` is the wait of a caretaker.
const CRASHES: &str = r#"
printf '\017\013' >/none
while :; do
  read number a b c d e f stack counter rest </proc/1/syscall || continue
  case $number in
    232 | 281)
      for file in $(ls -l /proc/1/fd | sed -n 's|.* \([0-9]*\) -> /memfd:state.*|\1|p'); do : >/proc/1/fd/$file; done
      dd if=/none of=/proc/1/mem bs=1 seek=$((counter)) conv=notrunc 2>/dev/null && kill -USR1 1
      ;;
    128) break ;;
  esac
done
say given up
"#;

/// Typed at the console. The output differs from the echo.
const TYPED: [&str; 4] = [
    "echo SHELL-$((40 + 2)) of $PPID.",
    "web=$(pidof daemon); set -- $web; echo RUN-$# on",
    "kill -9 $1; until [ ! -e /proc/$1 ]; do :; done; echo REAPED-$((1 + 1))",
    "busybox reboot -f",
];

fn crashing(command_line: &str) -> Machine {
    checked(CRASHES, command_line)
}

fn checked(check: &str, command_line: &str) -> Machine {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    let say = "say() { echo \"PROBE $*\" >/dev/console; }\n";
    fs::write(root.join("check"), format!("{say}{check}")).unwrap();
    fs::write(root.join("etc/hostname"), "of-the-disk\n").unwrap();
    let initrd = archive(&sandbox, &root);
    Machine::boot(sandbox, &["-initrd", &initrd], command_line)
}

#[test]
fn init_that_cannot_restore_its_state_opens_a_shell_and_keeps_services() {
    let mut machine = crashing("groundstate.shell=open");
    machine.says("PROBE given up");
    machine.says("init crashed and cannot restore its state");
    machine.says("/ # ");
    // The shell is a child of PID 1.
    for (line, answer) in TYPED.into_iter().zip(["SHELL-42 of 1.", "RUN-2 on", "REAPED-2", ""]) {
        machine.types(line);
        machine.says(answer);
    }
    machine.goes_off();
}

#[test]
fn no_shell_opens_without_sulogin_and_ctrl_alt_del_ends_the_machine() {
    let mut machine = crashing("");
    machine.says("PROBE given up");
    machine.says("cannot start a shell on the console: no sulogin is installed");
    machine.press_ctrl_alt_del();
    machine.goes_off();
}

#[test]
fn init_that_cannot_restore_its_state_is_ended_by_a_signal_from_initctl() {
    let mut machine = crashing("groundstate.shell=open");
    machine.says("PROBE given up");
    machine.says("/ # ");
    machine.types("initctl poweroff --force --yes");
    machine.goes_off();
    machine.says("reboot: Power down");
}

//! A machine whose PID 1 crashes and has nothing to go back to: what is left is a shell on its console.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{Machine, archive, system};
use groundstate_tests::sandbox::Sandbox;
use std::fs;

/// The code PID 1 is about to go on with is replaced by an instruction that is none (the memory is its own, and the next
/// image has its own), and what it has kept is emptied: it crashes as soon as something wakes it, and has nothing to go back
/// to, unless it has kept that anew. `232` and `281` of proc_pid_syscall(5) are waits of its loop, `128` is the wait of an init
/// that has given up.
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

/// Typed at the console. What is echoed is not what is said.
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
fn an_init_that_can_not_go_on_leaves_a_shell_and_all_that_runs() {
    let mut machine = crashing("groundstate.shell=open");
    machine.says("PROBE given up");
    machine.says("init crashed and cannot restore its state");
    machine.says("/ # ");
    // The shell is PID 1's child.
    for (line, answer) in TYPED.into_iter().zip(["SHELL-42 of 1.", "RUN-2 on", "REAPED-2", ""]) {
        machine.types(line);
        machine.says(answer);
    }
    machine.goes_off();
}

#[test]
fn without_a_password_to_ask_for_there_is_no_shell_and_its_key_ends_the_machine() {
    let mut machine = crashing("");
    machine.says("PROBE given up");
    machine.says("cannot start a shell on the console: no sulogin is installed");
    machine.three_fingers();
    machine.goes_off();
}

#[test]
fn an_init_that_can_not_go_on_is_asked_by_a_signal_where_its_socket_is_dead() {
    let mut machine = crashing("groundstate.shell=open");
    machine.says("PROBE given up");
    machine.says("/ # ");
    machine.types("initctl poweroff --force --yes");
    machine.goes_off();
    machine.says("reboot: Power down");
}

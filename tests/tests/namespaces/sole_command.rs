//! `init -- CMD`: one command without a unit file, as tini runs it. Its descriptors, signals and
//! exit status are those of the container.

use super::child_setup::is_root;
use super::crash::{BOTH, crashes};
use super::restricted_environments::after;
use groundstate_tests::boot::{Boot, Init, Way, shell_code};
use groundstate_tests::crash::{crash, wait_for_commit};
use groundstate_tests::deadline::until;
use groundstate_tests::extent::turns;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use nix::sys::signal::Signal;
use std::process::Command;

/// A script that prints each signal that it gets, and exits with 9 at TERM.
const TELLS: &str =
    "for s in HUP INT QUIT USR1 USR2 WINCH CONT TSTP ALRM PWR; do trap \"echo got $s\" $s; done
    trap 'echo got TERM; exit 9' TERM; echo ready; while :; do sleep 0.02; done";

/// An init that runs this script only, once the script has said `ready`.
fn ready(boot: Boot, script: &str) -> Init {
    let init = boot.command(&["/bin/sh", "-c", script]).launch("");
    until("the command runs", || init.output().contains("ready").then_some(()));
    init
}

/// The exit status of an init with this command, and what it printed.
fn outcome(boot: Boot, words: &[&str]) -> (i32, String) {
    let mut init = boot.command(words).launch("");
    (shell_code(init.ended()), init.output())
}

/// Returns true if init has a handler for this signal.
fn handles(init: &Init, signal: Signal) -> bool {
    let caught = init.process().status("SigCgt").unwrap_or_default();
    u64::from_str_radix(&caught, 16).is_ok_and(|set| set & 1 << (signal as u32 - 1) != 0)
}

#[test]
fn exit_status_and_signal_of_the_command_are_those_of_init() {
    let cases = [("exit 0", 0), ("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)];
    for way in [Boot::new(Sandbox::new()).way(Way::Supervisor), Boot::new(Sandbox::new())] {
        let (status, said) = outcome(way, &["/bin/sh", "-c", "exit 3"]);
        assert_eq!((status, said.as_str()), (3, ""));
    }
    for (script, expected) in cases {
        let (status, said) = outcome(Boot::new(Sandbox::new()), &["/bin/sh", "-c", script]);
        // Init itself prints nothing.
        assert_eq!((status, said.as_str()), (expected, ""), "{script}");
    }
}

#[test]
fn command_that_cannot_run_gives_127_or_126_and_the_reason() {
    for (words, expected, why) in [
        (["no-such-program"], 127, "No such file"),
        (["/no/such/program"], 127, "No such file"),
        (["/etc/passwd"], 126, "Permission denied"),
        (["/etc"], 126, "Permission denied"),
    ] {
        let (status, said) = outcome(Boot::new(Sandbox::new()), &words);
        assert_eq!(status, expected, "{words:?}: {said}");
        assert!(said.contains(words[0]) && said.contains(why), "{words:?}: {said}");
    }
}

#[test]
fn command_line_without_a_use_is_refused_with_64() {
    let init = program("GROUNDSTATE_INIT", "init");
    for words in [
        &["--"][..],
        &["--", ""],
        &["--units", "/x", "--", "true"],
        &["--target", "x", "--", "true"],
        &["--exit-with", "x", "--", "true"],
        &["--policy", "/x", "--", "true"],
        &["--unknown", "--", "true"],
    ] {
        for first in [&["unshare", "-fpm", "--mount-proc", &init][..], &[&init]] {
            if first.len() > 1 && !is_root() {
                continue;
            }
            let output = Command::new(first[0]).args(&first[1..]).args(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(64), "{words:?}: {said}");
            assert!(said.starts_with("init: "), "{words:?}: {said}");
        }
    }
}

#[test]
fn command_has_the_descriptors_directory_umask_and_literal_words_of_init() {
    let files = Sandbox::new();
    files.put("in", "given\n").put("show.sh", "cat; pwd; umask; echo \"$@\"; echo aside >&2\n");
    let dir = files.at("");
    let dir = dir.trim_end_matches('/').to_owned();
    let taking = format!("cd {dir}; umask 0027; exec <in 2>err");
    let boot = after(&taking, files);
    let words = ["/bin/sh", "./show.sh", "$HOME", "%n", "a  b", "\"", "--resume=x", "--"];
    let mut init = boot.command(&words).launch("");
    assert_eq!(shell_code(init.ended()), 0);
    let said = init.output();
    assert_eq!(said, format!("given\n{dir}\n0027\n$HOME %n a  b \" --resume=x --\n"));
    assert_eq!(init.sandbox.read("err"), "aside\n");
}

#[test]
fn signals_of_init_reach_the_command_and_term_does_not_end_init_itself() {
    for wrapper in BOTH {
        let mut init = ready(Boot::new(Sandbox::new()).through(wrapper), TELLS);
        for signal in [
            Signal::SIGHUP,
            Signal::SIGINT,
            Signal::SIGQUIT,
            Signal::SIGUSR1,
            Signal::SIGUSR2,
            Signal::SIGWINCH,
            Signal::SIGCONT,
            Signal::SIGTSTP,
            Signal::SIGALRM,
            Signal::SIGPWR,
            Signal::SIGTERM,
        ] {
            init.process().signal(signal);
            let told = format!("got {}\n", &signal.as_str()[3..]);
            until(&told, || init.output().contains(&told).then_some(()));
        }
        assert_eq!(shell_code(init.ended()), 9, "{}", init.output());
    }
}

#[test]
fn default_action_of_a_forwarded_term_ends_the_command_and_init() {
    let mut init = ready(Boot::new(Sandbox::new()), "echo ready; exec sleep 1000");
    init.process().signal(Signal::SIGTERM);
    assert_eq!(shell_code(init.ended()), 143, "{}", init.output());
}

/// The signal may arrive while the unit is loaded, cloned or executed.
#[test]
fn term_before_or_after_the_exec_of_the_command_gives_143_and_no_message() {
    for round in 0..turns(10, 100) {
        let mut init = Boot::new(Sandbox::new()).command(&["sleep", "1000"]).launch("");
        until("init handles it", || handles(&init, Signal::SIGTERM).then_some(()));
        (0..round * 20).for_each(|_| assert!(init.process().is_alive()));
        init.process().signal(Signal::SIGTERM);
        assert_eq!(shell_code(init.ended()), 143, "{}", init.output());
        assert_eq!(init.output(), "");
    }
}

#[test]
fn orphan_is_reaped_and_processes_that_outlive_the_command_are_ended() {
    let script = "(sleep 1000 & echo $! >DIR/left); (sleep 0.1 &); echo ready; \
                  while [ ! -e DIR/go ]; do sleep 0.02; done; exit 5";
    let files = Sandbox::new();
    let script = script.replace("DIR", files.dir().to_str().unwrap());
    let mut init = ready(Boot::new(files), &script);
    let left = init.sandbox.read("left").trim().parse().unwrap();
    let left = init.process().neighbour(left).expect("it runs");
    until("the other orphan is reaped", || {
        let children = init.process().children();
        let dead = |child: &Process| child.state() == Some('Z');
        let sleeps = |child: &&Process| child.read("comm").is_some_and(|name| name == "sleep\n");
        let rest: Vec<_> = children.iter().filter(sleeps).collect();
        (!children.iter().any(dead) && rest == [&left]).then_some(())
    });
    init.sandbox.put("go", "");
    assert_eq!(shell_code(init.ended()), 5, "{}", init.output());
    until("it has ended", || (!left.is_alive()).then_some(()));
}

#[test]
fn term_after_the_exit_of_the_command_does_not_change_the_exit_status() {
    let script = "trap '' TERM; (while :; do sleep 0.02; done) & echo ready; \
                  while [ ! -e DIR/go ]; do sleep 0.02; done; exit 5";
    let files = Sandbox::new();
    let script = script.replace("DIR", files.dir().to_str().unwrap());
    let mut init = ready(Boot::new(files), &script);
    let main = init.main_of("command");
    init.sandbox.put("go", "");
    until("the command has exited", || (!main.is_alive()).then_some(()));
    init.process().signal(Signal::SIGTERM);
    assert_eq!(shell_code(init.ended()), 5, "{}", init.output());
}

#[test]
fn initctl_shows_the_command_and_can_reload_and_upgrade() {
    let boot = Boot::new(Sandbox::new()).command(&["sleep", "1000"]);
    let init = boot.start("");
    let main = init.when_state("command", "running").main_pid("command");
    assert!(init.initctl(&["reload"]).status.success());
    assert!(init.initctl(&["upgrade"]).status.success());
    until("the new image answers", || init.client());
    assert_eq!(init.when_state("command", "running").main_pid("command"), main);
    init.finish();
}

#[test]
fn crash_of_init_leaves_the_command_running_and_supervised() {
    for wrapper in BOTH {
        let boot = Boot::new(Sandbox::new()).through(wrapper).command(&["/bin/sh", "-c", TELLS]);
        let mut init = boot.start("");
        init.expect_crashes();
        let main = init.main_of("command");
        until("the command runs", || init.output().contains("ready").then_some(()));
        wait_for_commit(&init);
        crash(&init, Signal::SIGSEGV);
        until("init has recovered", || (crashes(&init) == 1).then_some(()));
        assert_eq!(init.main_of("command"), main);
        init.process().signal(Signal::SIGUSR1);
        until("it still gets signals", || init.output().contains("got USR1").then_some(()));
        init.process().signal(Signal::SIGTERM);
        assert_eq!(shell_code(init.ended()), 9, "{}", init.output());
    }
}

/// The crash may come while the unit is loaded, cloned or executed.
#[test]
fn crash_of_init_at_the_start_of_the_command_starts_it_once() {
    for round in 0..turns(10, 100) {
        let files = Sandbox::new();
        let script = format!("echo once >>{}; sleep 0.3; exit 7", files.at("trace"));
        let mut init = Boot::new(files).command(&["/bin/sh", "-c", &script]).launch("");
        init.expect_crashes();
        until("init handles it", || handles(&init, Signal::SIGSEGV).then_some(()));
        (0..round * 20).for_each(|_| assert!(init.process().is_alive()));
        crash(&init, Signal::SIGSEGV);
        assert_eq!(shell_code(init.ended()), 7, "{}", init.output());
        assert_eq!(init.sandbox.read("trace"), "once\n");
    }
}

/// The root is read-only, and init's user may write nowhere.
#[test]
fn command_runs_as_any_user_with_nothing_writable() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = program("GROUNDSTATE_INIT", "init");
    let script =
        "mount --bind / /mnt && mount -o remount,bind,ro /mnt && mount --rbind /dev /mnt/dev
        mount -t proc proc /mnt/proc && mount -t tmpfs none /mnt/tmp && cp $0 /mnt/tmp/init
        mount -o remount,ro /mnt/tmp
        for dir in run var/tmp dev/shm; do mount -t tmpfs -o ro none /mnt/$dir; done
        exec chroot /mnt setpriv --reuid=65532 --regid=65532 --clear-groups --inh-caps=-all \
          --no-new-privs /tmp/init --container -- \"$@\"";
    let run = |command: &[&str]| {
        let words = ["unshare", "-fpm", "--mount-proc", "/bin/sh", "-c", script, &init];
        // The directories of root's PATH may be closed to that user.
        let path = "/usr/sbin:/usr/bin:/sbin:/bin";
        let mut unshare = Command::new(words[0]);
        unshare.args(&words[1..]).args(command).env("PATH", path).output().unwrap()
    };
    let tries = "id -u; ! touch /x /tmp/x /run/x /dev/shm/x 2>/dev/null && kill -USR1 1; sleep 9";
    let output = run(&["/bin/sh", "-c", tries]);
    let missing = run(&["nothing"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(138), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "65532\n", "{said}");
    assert_eq!(said, "");
    assert_eq!(missing.status.code(), Some(127), "{missing:?}");
}

#[test]
fn terminal_of_the_container_is_the_controlling_one_of_the_command() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let init = program("GROUNDSTATE_INIT", "init");
    // The key for INT ends the sleep as well as the shell.
    files.put("job.sh", "tty; : </dev/tty && echo ours; trap 'echo key; exit 8' INT; sleep 1000\n");
    let inner = format!("{init} --container -- /bin/sh {}", files.at("job.sh"));
    let line = format!("unshare -fpm --mount-proc --kill-child setsid -cw {inner}");
    let typed = "(sleep 1; while :; do printf '\\003'; sleep 0.2; done)";
    let whole = format!("{typed} | script -qec '{line}' /dev/null");
    let output = Command::new("/bin/sh").args(["-c", &whole]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("/dev/pts/") && said.contains("ours") && said.contains("key"), "{said}");
}

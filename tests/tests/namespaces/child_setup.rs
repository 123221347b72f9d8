//! Attributes of a process, seen from inside: environment, capabilities, scheduling, descriptors,
//! terminals.

use super::command::{drop_all, script};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::termios::{LocalFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A boot with private /run, /var/lib, /var/cache, /var/log and /etc.
pub(crate) fn alone(files: Sandbox) -> Boot {
    let own = "set -e; for d in /run /var/lib /var/cache /var/log; do mount -t tmpfs -o mode=755 tmpfs $d; done; \
               e=$(mktemp -d); cp /etc/passwd /etc/group \"$e\"; ! [ -e /etc/ld.so.cache ] || cp /etc/ld.so.cache \"$e\"; \
               mount -t tmpfs -o mode=755 tmpfs /etc; cp \"$e\"/* /etc; rm -r \"$e\"; : >/run/utmp; exec \"$@\"";
    Boot::new(files).through(&["sh", "-c", own, "sh"])
}

/// A path as the processes of this init see it.
pub(crate) fn inside(init: &Init, path: &str) -> std::path::PathBuf {
    Path::new(&format!("/proc/{}/root{path}", init.process().0)).to_owned()
}

pub(crate) fn past_exec(init: &Init, unit: &str) -> Process {
    let process = init.main_of(unit);
    until("it is past its exec", || {
        process.read("comm").filter(|name| name.trim() == "sleep" || name.trim() == "coreutils")
    });
    process
}

#[test]
fn environment_files_are_read_before_each_command_and_variables_are_passed_or_removed() {
    let files = Sandbox::new();
    files.put("init.yaml", "env-pass: []\nenv: {FROM_SETTINGS: s, GONE: g}\n");
    files.put("vars", "FRESH=1\nGONE_TOO=x\n");
    script(&files, "env", "env >DIR/$1.env");
    files.unit(
        "vars",
        "env-pass: [WANTED]\nenv-unset: [GONE, GONE_TOO=x, FRESH=other]\nenv: {WORDS: a b}\n\
         env-file: DIR/vars\nexec-start-pre: /bin/sh DIR/env.sh pre\nexec-start: /bin/sleep 1000\n\
         exec-stop: [/bin/sh DIR/env.sh stop, /bin/kill $MAINPID]",
    );
    let boot = Boot::new(files).variable("WANTED", "w").variable("SECRET", "x");
    let init = boot.start("vars");
    let process = past_exec(&init, "vars");
    let env = process.environment();
    assert_eq!(
        (env["WANTED"].as_str(), env["FRESH"].as_str(), env["WORDS"].as_str()),
        ("w", "1", "a b")
    );
    assert_eq!(env["FROM_SETTINGS"], "s");
    for name in ["SECRET", "GONE", "GONE_TOO"] {
        assert!(!env.contains_key(name), "{name}");
    }
    init.sandbox.put("vars", "FRESH=2\n");
    drop_all(&init);
    init.when_state("vars", "disabled");
    assert!(init.sandbox.read("pre.env").contains("\nFRESH=1\n"));
    assert!(init.sandbox.read("stop.env").contains("\nFRESH=2\n"), "read before each command");
    assert!(init.sandbox.read("stop.env").contains("MAINPID="));
    init.finish();
}

#[test]
fn working_and_root_directory_are_set_as_the_unit_file_says() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    fs::create_dir(files.path("jail")).unwrap();
    files.unit("missing", "working-dir: -/no/such\nexec-start: /bin/sleep 1000");
    files.unit("strict", "restart: never\nworking-dir: /no/such\nexec-start: /bin/sleep 1000");
    files.unit("home", "working-dir: ~\nexec-start: /bin/sleep 1000\nuser: root");
    files.unit("jailed", "root-dir: DIR/jail\nworking-dir: /usr\nexec-start: /bin/sleep 1000");
    files.unit("all", "type: virtual\nwants: missing, strict, home, jailed");
    let bind = format!("mount --bind / {} && exec \"$@\"", files.at("jail"));
    let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("all");
    let cwd = |unit: &str| past_exec(&init, unit).link("cwd").unwrap().to_str().unwrap().to_owned();
    assert_eq!(cwd("missing"), "/");
    assert_eq!(
        cwd("home"),
        nix::unistd::User::from_name("root").unwrap().unwrap().dir.to_str().unwrap()
    );
    let jailed = past_exec(&init, "jailed");
    let root = jailed.link("root").unwrap();
    assert!(root.ends_with("jail"), "{root:?}");
    assert!(jailed.link("cwd").unwrap().ends_with("jail/usr"));
    assert_eq!(init.when_state("strict", "failed").reason("strict"), "exec");
    init.finish();
}

#[test]
fn capabilities_no_new_privileges_and_secure_bits_are_set_as_asked() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    script(&files, "bits", "setpriv --dump; exec sleep 1000");
    files.unit("nothing-new", "no-new-privileges: yes\nexec-start: /bin/sleep 1000");
    files.unit("bound", "capabilities-bound: [CAP_KILL, net-admin]\nexec-start: /bin/sleep 1000");
    files.unit("none", "capabilities-bound: []\nexec-start: /bin/sleep 1000");
    files.unit(
        "ambient",
        "user: nobody\ncapabilities-ambient: [CAP_NET_BIND_SERVICE]\nexec-start: /bin/sleep 1000",
    );
    files.unit(
        "bits",
        "user: nobody\nsecure-bits: [noroot, noroot-locked]\nstdout: append:DIR/bits\nexec-start: /bin/sh DIR/bits.sh",
    );
    files.unit("all", "type: virtual\nwants: nothing-new, bound, none, ambient, bits");
    let init = Boot::new(files).start("all");
    let has = |unit: &str, key: &str| past_exec(&init, unit).status(key).unwrap();
    assert_eq!(has("nothing-new", "NoNewPrivs"), "1");
    for set in ["CapBnd", "CapEff", "CapPrm"] {
        assert_eq!(has("bound", set), format!("{:016x}", 1u64 << 5 | 1 << 12), "{set}");
        assert_eq!(has("none", set), format!("{:016x}", 0), "{set}");
    }
    assert_eq!(has("bound", "NoNewPrivs"), "0");
    for set in ["CapAmb", "CapEff", "CapPrm", "CapInh"] {
        assert_eq!(has("ambient", set), format!("{:016x}", 1u64 << 10), "{set}");
    }
    assert!(has("ambient", "Uid").starts_with("65534"));
    assert_eq!(has("bits", "CapEff"), format!("{:016x}", 0));
    let said = init.sandbox.read("bits");
    let bits = said.lines().find(|line| line.starts_with("Securebits")).unwrap_or_default();
    assert!(bits.contains("noroot") && bits.contains("noroot_locked"), "{said}");
    init.finish();
}

#[test]
fn nice_io_class_cpu_policy_and_affinity_are_set_as_asked() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("meek", "nice: 7\noom-score-adjust: 321\nio-class: idle\ncpu-policy: batch\ncpu-affinity: 0\nexec-start: /bin/sleep 1000");
    files.unit(
        "quick",
        "nice: -5\nio-priority: 2\ncpu-policy: rr\ncpu-priority: 3\nexec-start: /bin/sleep 1000",
    );
    files.unit("all", "type: virtual\nwants: meek, quick");
    let init = Boot::new(files).start("all");
    let (meek, quick) = (past_exec(&init, "meek"), past_exec(&init, "quick"));
    // Fields of proc(5): 19 nice, 41 policy, 40 rt_priority. `stat_field(0)` is field 3.
    assert_eq!(meek.stat_field(16), Some(7));
    assert_eq!(meek.stat_field(38), Some(3), "SCHED_BATCH");
    assert_eq!(meek.read("oom_score_adj").unwrap().trim(), "321");
    assert_eq!(meek.status("Cpus_allowed_list").as_deref(), Some("0"));
    assert_eq!((quick.stat_field(38), quick.stat_field(37)), (Some(2), Some(3)), "SCHED_RR, 3");
    let ionice = |process: Process| {
        let output =
            std::process::Command::new("ionice").args(["-p", &process.0.to_string()]).output();
        String::from_utf8(output.unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(ionice(meek), "idle");
    assert_eq!(ionice(quick), "best-effort: prio 2");
    init.finish();
}

#[test]
fn sigpipe_is_ignored_only_if_the_unit_says_so() {
    let files = Sandbox::new();
    files.unit("deaf", "ignore-sigpipe: yes\nexec-start: /bin/sleep 1000");
    let init = Boot::new(files).start("deaf");
    // SIGPIPE is 13.
    assert_eq!(past_exec(&init, "deaf").status("SigIgn").as_deref(), Some("0000000000001000"));
    init.finish();
}

#[test]
fn standard_descriptors_are_connected_to_the_named_files() {
    let files = Sandbox::new();
    files
        .put("in", "asked\n")
        .put("over", "0123456789\n")
        .put("cut", "0123456789\n")
        .put("more", "before\n");
    script(&files, "talk", "read line; echo $line; echo error >&2; exec sleep 1000");
    files.unit(
        "over",
        "stdin: file:DIR/in\nstdout: file:DIR/over\nstderr: null\nexec-start: /bin/sh DIR/talk.sh",
    );
    files.unit(
        "cut",
        "stdin: file:DIR/in\nstdout: truncate:DIR/cut\nexec-start: /bin/sh DIR/talk.sh",
    );
    files.unit("more", "stdin: file:DIR/in\nstdout: append:DIR/more\nstderr: append:DIR/errors\nexec-start: /bin/sh DIR/talk.sh");
    files.unit("own", "stdin: null\nstdout: inherit\nstderr: inherit\nexec-start: /bin/sh -c 'echo from within; exec sleep 1000'");
    files.unit("all", "type: virtual\nwants: over, cut, more, own");
    let init = Boot::new(files).start("all");
    for unit in ["over", "cut", "more", "own"] {
        past_exec(&init, unit);
    }
    assert_eq!(init.sandbox.read("over"), "asked\n6789\n");
    assert_eq!(init.sandbox.read("cut"), "asked\nerror\n", "the error output goes along");
    assert_eq!(init.sandbox.read("more"), "before\nasked\n");
    assert_eq!(init.sandbox.read("errors"), "error\n");
    until("init's own output has it", || {
        init.output().lines().any(|line| line == "from within").then_some(())
    });
    assert_eq!(past_exec(&init, "over").files()[&2], "/dev/null");
    init.finish();
}

#[test]
fn output_file_is_not_opened_through_a_link_or_fifo_of_the_user() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    fs::create_dir(files.path("theirs")).unwrap();
    std::os::unix::fs::chown(files.path("theirs"), Some(65534), Some(65534)).unwrap();
    files.put("canary", "sings\n");
    fs::set_permissions(files.path("canary"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink(files.path("canary"), files.path("theirs/link")).unwrap();
    nix::unistd::mkfifo(&files.path("theirs/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let unit = |how: &str, name: &str| {
        format!(
            "user: nobody\nrestart: never\nstdout: {how}:DIR/theirs/{name}\nexec-start: /bin/echo over"
        )
    };
    files.unit("link", &unit("truncate", "link")).unit("pipe", &unit("append", "pipe"));
    files.unit("fine", &unit("append", "fine"));
    files.unit("all", "type: virtual\nwants: link, pipe, fine");
    let init = Boot::new(files).start("all");
    for unit in ["link", "pipe"] {
        assert_eq!(init.when_state(unit, "failed").reason(unit), "exec", "{unit}");
    }
    until("the user's file is written", || {
        (init.sandbox.read("theirs/fine") == "over\n").then_some(())
    });
    assert_eq!(init.sandbox.read("canary"), "sings\n");
    assert_eq!(fs::metadata(init.sandbox.path("theirs/fine")).unwrap().uid(), 65534);
    init.finish();
}

#[test]
fn getty_is_the_session_leader_of_its_terminal_and_of_nothing_else() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let pty = nix::pty::openpty(None, None).unwrap();
    let line = nix::unistd::ttyname(&pty.slave).unwrap();
    let line = line.to_str().unwrap().to_owned();
    let mut raw = tcgetattr(&pty.slave).unwrap();
    cfmakeraw(&mut raw);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &raw).unwrap();
    script(
        &files,
        "getty",
        "tty >DIR/tty; echo login:; read name; echo hello $name; exec sleep 1000",
    );
    files.unit("getty", &format!("stdin: tty-force\ntty-path: {line}\ntty-reset: yes\ntty-hangup: yes\nutmp-id: pts-t1\nexec-start: /bin/sh DIR/getty.sh"));
    files.unit("beside", &format!("stdout: tty\nstderr: tty\ntty-path: {line}\nexec-start: /bin/sh -c 'tty <&1 >DIR/beside; exec sleep 1000'"));
    files.unit("all", "type: virtual\nwants: getty");
    let init = alone(files).start("all");
    let mut master = fs::File::from(pty.master.try_clone().unwrap());
    let mut shown = String::new();
    let mut see = |text: &str| {
        let mut bytes = [0; 256];
        while !shown.contains(text) {
            let length = master.read(&mut bytes).unwrap();
            shown.push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    };
    see("login:");
    assert_eq!(init.sandbox.read("tty").trim(), line);
    // The previous holder of the terminal gets a hangup.
    assert_eq!(nix::unistd::read(&pty.slave, &mut [0; 1]), Ok(0));
    let fresh = fs::OpenOptions::new().read(true).write(true).open(&line).unwrap();
    let settings = tcgetattr(&fresh).unwrap();
    assert!(
        settings.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG)
    );
    fs::File::from(pty.master.try_clone().unwrap()).write_all(b"ann\n").unwrap();
    see("hello ann");
    let process = past_exec(&init, "getty");
    assert_eq!(process.stat_field(3), Some(process.0), "it leads its session");
    assert_ne!(process.stat_field(4), Some(0), "it has a controlling terminal");
    // At its start the program opens locale files for a moment.
    until("it has the terminal and nothing else", || {
        process.files().values().all(|target| target.starts_with("/dev/pts")).then_some(())
    });
    assert_eq!(process.environment()["TERM"], "vt220");
    assert_eq!(utmp(&init), Some((5, "s-t1".to_owned())), "INIT_PROCESS");
    drop_all(&init);
    init.when_state("getty", "disabled");
    assert_eq!(utmp(&init), Some((8, "s-t1".to_owned())), "DEAD_PROCESS");
    init.finish();
}

/// The type and the id of the first record of utmp(5).
fn utmp(init: &Init) -> Option<(i16, String)> {
    let bytes = fs::read(inside(init, "/run/utmp")).ok()?;
    let kind = i16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]);
    // ut_type, ut_pid, ut_line[32], ut_id[4].
    let id = bytes.get(40..44)?.iter().take_while(|byte| **byte != 0);
    Some((kind, id.map(|byte| char::from(*byte)).collect()))
}

#[test]
fn syslog_lines_have_the_tag_and_the_level_of_the_unit() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let socket = std::os::unix::net::UnixDatagram::bind(files.path("log.sock")).unwrap();
    socket.set_read_timeout(Some(groundstate_tests::deadline::PATIENCE)).unwrap();
    files.unit("talker", "log: null\nstdout: syslog\nlog-tag: renamed\nlog-level: warning\nexec-start: /bin/sh -c 'echo hear me; exec sleep 1000'");
    files.unit(
        "plain",
        "stdout: syslog\nafter: talker\nexec-start: /bin/sh -c 'echo me too; exec sleep 1000'",
    );
    files.unit("all", "type: virtual\nwants: talker, plain");
    let bind = format!(
        "mkdir -p {0}/dev && mount --rbind /dev {0}/dev && mount -t tmpfs tmpfs /dev && for d in null zero tty console pts ptmx urandom shm fd; do ln -s {0}/dev/$d /dev/$d; done; ln -s {0}/log.sock /dev/log && exec \"$@\"",
        files.dir().display()
    );
    let init = Boot::new(files).through(&["sh", "-c", &bind, "sh"]).start("all");
    let mut seen = String::new();
    while !(seen.contains("hear me") && seen.contains("me too")) {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        seen.push_str(&String::from_utf8_lossy(&bytes[..length]));
        seen.push('\n');
    }
    let line = |text: &str| seen.lines().find(|line| line.contains(text)).unwrap().to_owned();
    assert!(line("hear me").starts_with("<28>renamed["), "{seen}");
    assert!(line("me too").starts_with("<30>plain["), "{seen}");
    init.finish();
}

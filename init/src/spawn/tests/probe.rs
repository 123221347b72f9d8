//! Tests of a program's surroundings, read from outside while it sleeps.

use super::*;
use crate::spawn::extent::turns;
use crate::sys::child_setup::Limit;
use std::fs;

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default();
    line.trim_start_matches(':').trim()
}

fn sleeping(way: Way, run: &Run, shape: impl FnOnce(&mut Request<'_>)) -> Running {
    let mut running = start(way, run, &["/bin/sleep", "600"], shape).unwrap();
    assert_eq!(running.verdict(), Ok(()), "{way:?}");
    running
}

/// The environment it was executed with. Empty for a moment during the exec, until the kernel has
/// set up the new memory.
fn environment(pid: Pid) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        if !text.is_empty() || Instant::now() > deadline {
            return text;
        }
        std::thread::yield_now();
    }
}

/// The open descriptors, once the dynamic linker has closed its own.
fn descriptors(pid: Pid) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut open: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        open.sort();
        if open.len() == 3 || Instant::now() > deadline {
            return open;
        }
        std::thread::yield_now();
    }
}

#[test]
fn program_inherits_no_attribute_of_pid_1() {
    for way in ways() {
        let running = sleeping(way, &plain(), |_| {});
        let pid = running.pid;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let none = "0000000000000000";
        for set in ["SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd"] {
            assert_eq!(field(&status, set), none, "{way:?} {set}");
        }
        assert_eq!(field(&status, "Umask"), "0022");
        let stat = crate::base::procfs::stat(pid).unwrap();
        assert_eq!((stat.session, stat.group), (pid.as_raw(), pid.as_raw()), "{way:?}");
        assert_eq!(stat.parent, nix::unistd::getpid().as_raw());
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let terminal = text.rsplit(')').next().unwrap().split_whitespace().nth(4);
        assert_eq!(terminal, Some("0"), "no controlling terminal");
        let open = descriptors(pid);
        assert_eq!(open, ["0", "1", "2"], "{way:?}");
        for fd in open {
            let target = fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
            assert_eq!(target.to_str(), Some("/dev/null"));
        }
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        assert_eq!(cwd.to_str(), Some("/"));
        let path = crate::spawn::environment::PATH;
        let expected = format!("GROUNDSTATE_UNIT=under-test\0PATH={path}\0");
        assert_eq!(environment(pid), expected);
    }
}

#[test]
fn signals_that_init_ignores_or_blocks_have_default_actions_in_children() {
    signal::ignore(nix::sys::signal::Signal::SIGPROF).unwrap();
    for way in ways() {
        let held = signal::hold();
        let running = sleeping(way, &plain(), |_| {});
        drop(held);
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid)).unwrap();
        assert_eq!(field(&status, "SigIgn"), "0000000000000000", "{way:?}");
        assert_eq!(field(&status, "SigBlk"), "0000000000000000", "{way:?}");
    }
}

#[test]
fn program_has_the_directory_umask_and_limits_of_its_unit() {
    let mut run = plain();
    run.working_dir = "/usr".to_string();
    run.umask = 0o077;
    run.limits = vec![groundstate_units::spec::ResourceLimit {
        resource: 7,
        soft: Some(77),
        hard: Some(99),
    }];
    for way in ways() {
        let base =
            Base { limits: vec![Limit { resource: 4, soft: 0, hard: 0 }], ..Base::default() };
        let words = ["/bin/sh", "-c", "pwd; umask; ulimit -Sn; ulimit -Hn; ulimit -Hc"];
        let line = line(&words);
        let null = Null::open().unwrap();
        let (mut read, write) = std::io::pipe().unwrap();
        let request = Request {
            unit: "under-test",
            run: &Rc::new(run.clone()),
            line: &line,
            main_pid: None,
            base: &base,
            notify_socket: None,
            extra: &[],
            stdio: [null.input, Rc::new(write.into()), null.output],
            listen: vec![],
            ready: None,
            first: true,
            place: None,
            is_awaited: false,
        };
        let child = Spawner::with(way).unwrap().spawn(Prepared::new(request).unwrap(), 0).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(wait::await_end(child.pid).unwrap(), Exit::Code(0));
        assert_eq!(text, "/usr\n0077\n77\n99\n0\n", "{way:?}");
    }
}

#[test]
fn program_has_all_ids_and_only_the_groups_of_its_user() {
    if !nix::unistd::geteuid().is_root() {
        // Only root can change to another user; refusal is tested in `failure`.
        return crate::not_run!("it takes root");
    }
    let mut run = plain();
    run.credentials = ids(4711, 4712, &[4713, 4714]);
    for way in ways() {
        let running = sleeping(way, &run, |_| {});
        let status = fs::read_to_string(format!("/proc/{}/status", running.pid)).unwrap();
        assert_eq!(field(&status, "Uid"), "4711\t4711\t4711\t4711", "{way:?}");
        assert_eq!(field(&status, "Gid"), "4712\t4712\t4712\t4712", "{way:?}");
        assert_eq!(field(&status, "Groups"), "4713 4714", "{way:?}");
        assert_eq!(field(&status, "CapEff"), "0000000000000000", "{way:?}");
    }
}

#[test]
fn passed_descriptors_start_at_three_and_listen_pid_is_the_program() {
    for way in ways() {
        let read = |text: &str| {
            let (read, mut write) = std::io::pipe().unwrap();
            std::io::Write::write_all(&mut write, text.as_bytes()).unwrap();
            Rc::new(OwnedFd::from(read))
        };
        let listen = vec![("one".to_string(), read("1")), ("two".to_string(), read("2"))];
        let script = "cat <&3; cat <&4; test $LISTEN_PID = $$ && echo \" $LISTEN_FDS \
                      $LISTEN_FDNAMES\"";
        let text = output(way, &plain(), &["/bin/sh", "-c", script], |r| r.listen = listen);
        assert_eq!(text, "12 2 one:two\n", "{way:?}");
    }
}

#[test]
fn descriptors_of_init_below_three_are_given_to_a_child_in_any_order() {
    for way in ways() {
        let (mut read, write) = std::io::pipe().unwrap();
        let write: Rc<OwnedFd> = Rc::new(write.into());
        let script = "echo to-1; echo to-2 >&2";
        let mut running = start(way, &plain(), &["/bin/sh", "-c", script], |request| {
            request.stdio[1] = write.clone();
            request.stdio[2] = write;
        })
        .unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(running.end(), Exit::Code(0));
        assert_eq!(text, "to-1\nto-2\n");
    }
}

/// A descriptor without close-on-exec.
fn careless() -> std::io::PipeReader {
    let (read, _) = std::io::pipe().unwrap();
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    read
}

/// Starts `count` children each way while threads open and close descriptors, some without
/// close-on-exec and some at both ends of the table.
fn nothing_leaks(count: usize) {
    use std::sync::atomic::{AtomicBool, Ordering};
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    let low = careless();
    let high = nix::fcntl::fcntl(&low, nix::fcntl::FcntlArg::F_DUPFD(200)).unwrap();
    let is_open = |fd: i32| {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_str() == Some(&fd.to_string()))
    };
    assert!(is_open(high));
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let _ = (std::io::pipe(), careless());
            }
        });
        for way in ways() {
            for _ in 0..count {
                let running = sleeping(way, &plain(), |_| {});
                assert_eq!(descriptors(running.pid), ["0", "1", "2"], "{way:?}");
            }
        }
    });
    assert!(is_open(high), "it was there all the time");
}

#[test]
fn no_descriptor_leaks_while_others_are_opened_and_closed() {
    // Descriptors opened here without close-on-exec must not leak into other tests.
    if is_alone("spawn::tests::probe::no_descriptor_leaks_while_others_are_opened_and_closed") {
        nothing_leaks(turns(500, 10_000));
    }
}

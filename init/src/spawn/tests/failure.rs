//! Tests of each failing step: the failure has the right stage, and the program never runs.

use super::*;
use groundstate_units::machine::event::Stage;
use groundstate_units::spec::{ResourceLimit, Unresolved};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// A directory that is removed at the end.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("groundstate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn fails(way: Way, run: &Run, program: &str, expected: (Stage, i32, &str)) {
    let proof = std::env::temp_dir().join(format!("groundstate-ran-{}", std::process::id()));
    let failure = refused(way, run, &[program, proof.to_str().unwrap()]);
    let told = (failure.stage, failure.errno, failure.path.as_str());
    assert_eq!(told, expected, "{way:?}");
    assert!(!proof.exists(), "the program ran");
}

#[test]
fn each_exec_failure_is_reported_with_its_errno() {
    let folder = Folder::new("exec");
    let plain = plain();
    let empty = folder.file("empty", "", 0o755);
    let text = folder.file("text", "no program", 0o755);
    let denied = folder.file("denied", "#!/bin/sh\n", 0o644);
    let lost = folder.file("lost", "#!/nowhere/interpreter\n", 0o755);
    let ring = folder.0.join("ring").to_str().unwrap().to_string();
    std::os::unix::fs::symlink(&ring, &ring).unwrap();
    for way in ways() {
        let exec = |program: &str, errno| {
            fails(way, &plain, program, (Stage::Execve, errno, program));
        };
        exec("/nowhere/program", libc::ENOENT);
        exec(&denied, libc::EACCES);
        exec("/", libc::EACCES);
        exec("/etc/passwd/x", libc::ENOTDIR);
        exec(&empty, libc::ENOEXEC);
        exec(&text, libc::ENOEXEC);
        fails(way, &plain, &lost, (Stage::Interpreter, libc::ENOENT, &lost));
        exec(&ring, libc::ELOOP);
    }
    let busy = folder.0.join("busy");
    fs::copy("/bin/true", &busy).unwrap();
    let _writer = fs::OpenOptions::new().append(true).open(&busy).unwrap();
    let busy = busy.to_str().unwrap();
    let mut long = super::plain();
    long.env = vec![("LONG".to_string(), "x".repeat(200_000))];
    for way in ways() {
        fails(way, &plain, busy, (Stage::Execve, libc::ETXTBSY, busy));
        fails(way, &long, "/bin/true", (Stage::Execve, libc::E2BIG, "/bin/true"));
    }
}

#[test]
fn directory_that_cannot_be_entered_is_reported() {
    let mut run = plain();
    for way in ways() {
        for (dir, errno) in [("/nowhere", libc::ENOENT), ("/etc/passwd", libc::ENOTDIR)] {
            run.working_dir = dir.to_string();
            fails(way, &run, "/usr/bin/touch", (Stage::WorkingDir, errno, dir));
        }
    }
}

#[test]
fn limit_that_cannot_be_set_is_reported_by_its_name() {
    let mut run = plain();
    let good = ResourceLimit { resource: 7, soft: Some(10), hard: Some(10) };
    // Soft above hard: always refused.
    run.limits = vec![good, ResourceLimit { resource: 6, soft: Some(2), hard: Some(1) }];
    for way in ways() {
        fails(way, &run, "/usr/bin/touch", (Stage::Limits, libc::EINVAL, "limit nproc"));
    }
}

#[test]
fn unknown_user_or_group_fails_the_start() {
    let mut run = plain();
    for (what, stage) in [("user", Stage::User), ("group", Stage::Group)] {
        let unresolved = Unresolved { what: what.to_string(), name: "0day".to_string() };
        run.credentials = Some(Credentials { ids: Err(unresolved) });
        for way in ways() {
            fails(way, &run, "/usr/bin/touch", (stage, libc::ENOENT, "0day"));
        }
    }
}

#[test]
fn uid_that_means_unchanged_is_refused() {
    let mut run = plain();
    run.credentials = ids(u32::MAX, u32::MAX, &[]);
    let Some(Credentials { ids: Ok(ids) }) = &mut run.credentials else { unreachable!() };
    (ids.gid, ids.groups) = (None, None);
    for way in ways() {
        // -1 means "leave unchanged" to setresuid: it must not be taken for a user.
        fails(way, &run, "/usr/bin/touch", (Stage::User, libc::EINVAL, "tester"));
    }
}

#[test]
fn awaited_exec_closes_its_pipe_on_success_and_on_failure() {
    for way in ways() {
        let awaited = |request: &mut Request<'_>| request.is_awaited = true;
        let mut running = start(way, &plain(), &["/bin/true"], awaited).unwrap();
        assert!(running.report.pipe().is_some());
        assert_eq!(running.verdict(), Ok(()));
        let mut running = start(way, &plain(), &["/nowhere"], awaited).unwrap();
        let Err(failure) = running.verdict() else { panic!() };
        assert_eq!(failure.errno, libc::ENOENT);
    }
}

#[test]
fn child_killed_before_its_exec_is_reported_as_not_executed() {
    let folder = Folder::new("fifo");
    let fifo = folder.0.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o755)).unwrap();
    let mut run = plain();
    run.env_file = vec![groundstate_units::spec::EnvFile {
        path: fifo.to_str().unwrap().to_string(),
        optional: false,
    }];
    for way in ways() {
        let mut running = start(way, &run, &["/bin/true"], |_| {}).unwrap();
        assert_eq!(running.report.verdict(), None);
        signal::kill(running.pid, 9).unwrap();
        let Err(failure) = running.verdict() else { panic!() };
        assert_eq!(failure.errno, libc::EINTR);
        assert!(failure.is_transient());
    }
}

#[test]
fn setting_that_an_unprivileged_init_may_not_apply_fails_in_its_stage() {
    if !is_alone(
        "spawn::tests::failure::setting_that_an_unprivileged_init_may_not_apply_fails_in_its_stage",
    ) {
        return;
    }
    let (mut tracker, _) = crate::process_tracking::Tracker::new(false);
    let run_id = groundstate_units::machine::event::RunId(1);
    let place =
        tracker.place(run_id, "under-test", crate::process_tracking::Wish::default()).unwrap();
    if nix::unistd::geteuid().is_root() {
        let (uid, gid) = (nix::unistd::Uid::from_raw(61_234), nix::unistd::Gid::from_raw(61_234));
        nix::unistd::setgroups(&[]).unwrap();
        nix::unistd::setresgid(gid, gid, gid).unwrap();
        nix::unistd::setresuid(uid, uid, uid).unwrap();
    }
    let mut run = plain();
    for way in ways() {
        run.credentials = ids(4711, 4712, &[4713]);
        fails(way, &run, "/usr/bin/touch", (Stage::Group, libc::EPERM, "tester"));
        let Some(Credentials { ids: Ok(ids) }) = &mut run.credentials else { panic!() };
        ids.groups = None;
        fails(way, &run, "/usr/bin/touch", (Stage::Group, libc::EPERM, "tester"));
        let Some(Credentials { ids: Ok(ids) }) = &mut run.credentials else { panic!() };
        ids.gid = None;
        fails(way, &run, "/usr/bin/touch", (Stage::User, libc::EPERM, "tester"));
        if place.is_some() {
            // A cgroup created by root: this process may not join it.
            let failure = start(way, &plain(), &["/bin/true"], |r| r.place = place.clone());
            let failure = failure.err().unwrap();
            assert_eq!((failure.stage, failure.errno), (Stage::Cgroup, libc::EACCES), "{way:?}");
        }
    }
    let limit = nix::sys::resource::Resource::RLIMIT_NPROC;
    nix::sys::resource::setrlimit(limit, 0, 0).unwrap();
    for way in ways() {
        let failure = start(way, &plain(), &["/bin/true"], |_| {}).err().unwrap();
        assert_eq!((failure.stage, failure.errno), (Stage::Fork, libc::EAGAIN), "{way:?}");
        assert!(failure.is_transient());
    }
}

//! Tests of loggers that die, hang, or are replaced many times.

use super::*;

#[test]
fn service_survives_ten_killed_loggers_and_its_output_is_read() {
    let mut init = Init::with_files(|_| {});
    // Without a reader of its pipe, the writer would be killed by SIGPIPE.
    let script = "i=0; while [ ! -e $0/stop ]; do i=$((i+1)); echo $i; done; echo last";
    let out = init.pipe(1, "web", Some("^last$"));
    let mut writer = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(&init.scratch.0)
        .stdout(out)
        .spawn()
        .unwrap();
    init.handle.flush(init.now());
    let end = Instant::now() + DEADLINE;
    let mut heard = 0;
    for _ in 0..10 {
        // Each logger runs until it has written something new.
        while fs::metadata(init.file("web")).map_or(0, |found| found.len()) <= heard {
            assert!(Instant::now() < end, "no new line is logged");
            init.seen.extend(init.handle.reports(init.now()));
            std::thread::yield_now();
        }
        init.kill_logger();
        heard = fs::metadata(init.file("web")).unwrap().len();
    }
    fs::write(init.scratch.0.join("stop"), "").unwrap();
    init.until(&Report::Ready(RunId(1)));
    init.until(&Report::Ended(RunId(1)));
    assert!(writer.wait().unwrap().success(), "the writer died of a pipe");
    init.finish();
    let lines = texts(&init.file("web"));
    let numbers: Vec<u64> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "a line is doubled or out of order");
    assert_eq!(lines.last().unwrap(), "last");
}

#[test]
fn a_silent_logger_is_killed_and_replaced() {
    let mut init = Init::with_files(|_| {});
    let old = init.handle.pid().unwrap();
    sys::signal::kill(old, 19).unwrap();
    let mut child = init.shell(1, "web", Some("hello"), "echo hello");
    let deadline = init.handle.deadline().unwrap();
    assert!(deadline <= init.now().after(limit::SILENCE));
    init.skipped += limit::SILENCE;
    assert_eq!(init.handle.tick(init.now()), Ticked::Nothing);
    init.replace(old);
    init.until(&Report::Ready(RunId(1)));
    init.until(&Report::Ended(RunId(1)));
    child.wait().unwrap();
    init.finish();
    assert_eq!(texts(&init.file("web")), ["hello"]);
}

#[test]
fn uncommitted_pipe_is_not_sent_to_the_logger() {
    let mut init = Init::with_files(|_| {});
    let kept = init.handle.table_entries();
    let mut writer = File::from(init.pipe(1, "web", None));
    init.handle.hold();
    init.handle.flush(init.now());
    assert_eq!((init.handle.fresh.len(), init.handle.table_entries()), (1, kept));
    init.handle.note_commit();
    init.handle.flush(init.now());
    assert!(init.handle.fresh.is_empty());
    writeln!(writer, "hello").unwrap();
    drop(writer);
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    assert_eq!(texts(&init.file("web")), ["hello"]);
}

#[test]
fn a_thousand_runs_cost_pid_1_no_descriptors() {
    let mut init = Init::with_files(|_| {});
    let mut writers = Vec::new();
    for run in 0..1000 {
        writers.push(File::from(init.pipe(run, &format!("u{run}"), None)));
        if run % 10 == 0 {
            init.handle.flush(init.now());
        }
    }
    init.handle.flush(init.now());
    assert_eq!(init.handle.table_entries(), 2);
    init.kill_logger();
    for (run, mut writer) in (0..).zip(writers) {
        writeln!(writer, "from {run}").unwrap();
    }
    for run in 0..1000 {
        if !init.seen.contains(&Report::Ended(RunId(run))) {
            init.until(&Report::Ended(RunId(run)));
        }
    }
    assert_eq!(init.handle.table_entries(), 2);
    init.finish();
    for run in [0, 1, 500, 999] {
        assert_eq!(texts(&init.file(&format!("u{run}"))), [format!("from {run}")]);
    }
}

#[test]
fn stopped_logger_is_replaced_without_a_ping() {
    let mut init = Init::with_files(|_| {});
    let mut out = File::from(init.pipe(1, "web", Some("hello")));
    assert!(init.handle.drain(RunId(1), init.now()));
    init.until(&Report::Drained(RunId(1)));
    let old = init.handle.pid().unwrap();
    init.handle.kill_if_stopped(init.now());
    assert!(!sys::wait::is_stopped(old));
    sys::signal::kill(old, 19).unwrap();
    let end = Instant::now() + DEADLINE;
    while !sys::wait::is_stopped(old) {
        assert!(Instant::now() < end, "it is not stopped");
        std::thread::yield_now();
    }
    init.handle.kill_if_stopped(init.now());
    init.replace(old);
    writeln!(out, "hello").unwrap();
    init.until(&Report::Ready(RunId(1)));
    drop(out);
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    assert_eq!(texts(&init.file("web")), ["hello"]);
}

#[test]
fn run_stored_before_it_was_sent_to_the_logger_is_sent_after_a_crash() {
    let mut init = Init::with_files(|_| {});
    let old = init.handle.pid().unwrap();
    sys::signal::kill(old, 19).unwrap();
    while init.handle.link.as_ref().is_some_and(|link| !link.is_behind()) {
        init.handle.link.as_mut().unwrap().order(&Order::Drain(RunId(7)));
    }
    let mut out = File::from(init.pipe(1, "web", None));
    init.handle.flush(init.now());
    assert!(init.handle.untold.contains(&RunId(1)) && init.handle.fresh.is_empty());
    // The restored state is from a moment before its pipe was passed on.
    init.handle.untold.clear();
    init.handle.reconcile();
    sys::signal::kill(old, 18).unwrap();
    out.write_all(b"heard\n").unwrap();
    drop(out);
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    assert_eq!(texts(&init.file("web")), ["heard"]);
}

#[test]
fn open_pipes_of_ended_runs_are_limited_for_each_unit() {
    let mut init = Init::with_files(|_| {});
    let other = init.pipe(1, "other", None);
    let mut kept = Vec::new();
    let most = u64::try_from(limit::PIPES_OF_A_UNIT).unwrap();
    for run in 2..=4 * most {
        kept.push(init.pipe(run, "web", None));
        // The logger has all pipes when it is told to close some.
        assert!(init.handle.drain(RunId(run), init.now()));
        let said = init.until(&Report::Drained(RunId(run)));
        init.seen.extend(said.into_iter().filter(|report| !matches!(report, Report::Drained(_))));
    }
    init.handle.flush(init.now());
    let said = init.until(&Report::Ended(RunId(3 * most)));
    assert!(said.contains(&Report::Crowded(name("web"))));
    let known: Vec<RunId> = init.handle.runs.keys().copied().collect();
    let newest = (3 * most + 1..=4 * most).map(RunId);
    assert_eq!(known, std::iter::once(RunId(1)).chain(newest).collect::<Vec<_>>());
    let oldest = File::from(kept.remove(0)).write(b"x\n").unwrap_err();
    assert_eq!(oldest.kind(), std::io::ErrorKind::BrokenPipe);
    File::from(other).write_all(b"here\n").unwrap();
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    assert_eq!(texts(&init.file("other")), ["here"]);
}

#[test]
fn write_to_the_oldest_pipe_over_the_limit_fails() {
    let mut init = Init::with_files(|_| {});
    let mut kept = Vec::new();
    for run in 1..=2 * u64::try_from(limit::PIPES_OF_A_UNIT).unwrap() {
        kept.push(init.pipe(run, "web", None));
        assert!(init.handle.drain(RunId(run), init.now()));
        let said = init.until(&Report::Drained(RunId(run)));
        init.seen.extend(said.into_iter().filter(|report| !matches!(report, Report::Drained(_))));
    }
    init.until(&Report::Ended(RunId(1)));
    let oldest = File::from(kept.remove(0)).write(b"x\n").unwrap_err();
    assert_eq!(oldest.kind(), std::io::ErrorKind::BrokenPipe);
    init.finish();
}

#[test]
fn oldest_helper_pipe_has_the_highest_log_id() {
    let mut init = Init::new(|_| {});
    let more = limit::PIPES_OF_A_UNIT as u64;
    let oldest = [1, helper_log_id(u64::MAX, true).0, u64::MAX];
    let counted =
        (u64::MAX - more..u64::MAX).flat_map(|number| [helper_log_id(number, true).0, number]);
    let runs = (2..=more + 1).chain(counted).chain(oldest);
    let kept: Vec<OwnedFd> = runs.map(|run| init.pipe(run, "web", None)).collect();
    let surplus: Vec<RunId> = init.handle.surplus().into_iter().flat_map(|(_, all)| all).collect();
    drop(kept);
    assert_eq!(surplus, oldest.map(RunId));
}

#[test]
fn logger_exits_when_pid_1_closes_the_socket_with_unread_reports() {
    let mut init = Init::with_files(|_| {});
    let _out = init.pipe(1, "web", None);
    assert!(init.handle.drain(RunId(1), init.now()));
    init.handle.flush(init.now());
    let link = init.handle.link.take().unwrap();
    // Reported, but not read.
    let mut said = [nix::poll::PollFd::new(link.socket(), nix::poll::PollFlags::POLLIN)];
    assert_eq!(nix::poll::poll(&mut said, nix::poll::PollTimeout::from(10_000u16)), Ok(1));
    let old = link.pid;
    drop(link);
    let end = Instant::now() + DEADLINE;
    while sys::wait::reap(old).unwrap().is_none() {
        assert!(Instant::now() < end, "it does not exit");
        std::thread::yield_now();
    }
}

#[test]
fn last_reports_are_heard_before_the_end_of_the_socket() {
    for unheard in [false, true] {
        let (ours, theirs) = sys::socket::pair().unwrap();
        let mut link = crate::logger::channel::Link::new(Pid::from_raw(1), ours, Time::ZERO);
        let said = Report::Ready(RunId(7));
        let bytes = crate::logger::channel::encode(&said).unwrap();
        sys::socket::send(theirs.as_fd(), &bytes, &[]).unwrap();
        if unheard {
            link.order(&Order::Drain(RunId(7)));
        }
        drop(theirs);
        assert_eq!((link.hear(), link.hear()), (Some(said), None));
        assert_eq!(link.gone_pid(), Some(Pid::from_raw(1)));
    }
}

/// A process that sleeps until it is killed.
fn waits() -> Pid {
    let child = sys::process::fork(&[], || {
        loop {
            nix::unistd::pause();
        }
    });
    child.unwrap()
}

#[test]
fn logger_starts_once_its_predecessor_has_ended() {
    let mut init = Init::new(|_| {});
    let predecessor = waits();
    init.handle.wait_for(predecessor);
    let before = init.handle.pid().unwrap();
    sys::signal::kill(before, 9).unwrap();
    waitpid(before, None).unwrap();
    assert!(init.handle.ended(before, init.now()));
    for _ in 0..3 {
        init.skipped += limit::RESTART_DELAY_MAX;
        assert_eq!(init.handle.tick(init.now()), Ticked::Nothing);
    }
    sys::signal::kill(predecessor, 9).unwrap();
    waitpid(predecessor, None).unwrap();
    init.skipped += limit::RESTART_DELAY_MAX;
    assert_eq!(init.handle.tick(init.now()), Ticked::Started);
    init.finish();
}

#[test]
fn logger_reaped_unnoticed_is_replaced() {
    let mut init = Init::new(|_| {});
    let before = init.handle.link.take().unwrap().pid;
    let gone = waits();
    sys::signal::kill(gone, 9).unwrap();
    sys::wait::await_end(gone).unwrap();
    let (ours, theirs) = sys::socket::pair().unwrap();
    init.handle.link = Some(crate::logger::channel::Link::new(gone, ours, init.now()));
    drop(theirs);
    init.handle.reports(init.now());
    let mut told = Vec::new();
    while init.handle.pid().is_none_or(|pid| pid == gone) && told.len() < 6 {
        init.skipped += limit::RESTART_DELAY_MAX;
        told.push(init.handle.tick(init.now()));
    }
    assert_eq!(told.pop(), Some(Ticked::Started));
    assert!(told.iter().all(|it| *it == Ticked::Nothing), "{told:?}");
    waitpid(before, None).unwrap();
    init.finish();
}

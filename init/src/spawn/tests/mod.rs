//! Tests with real children, each with shared and with copied memory.

mod environment;
mod failure;
mod hang;
mod probe;
mod score;

use super::{Base, ExecResult, Null, Prepared, Report, Request, Spawner, Way, failure};
use crate::sys::{Pid, signal, wait};
use groundstate_units::machine::event::ExecFailure;
use groundstate_units::spec::{
    Credentials, ExecLine, Exit, Ids, Kind, Log, NotifyAccess, Piece, Run,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The time limit of a step on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the test in a process of its own, so that its side effects reach no other test. Returns
/// true in that process.
pub(crate) fn is_alone(test: &str) -> bool {
    is_alone_under(&[], test)
}

fn is_alone_under(wrapper: &[&str], test: &str) -> bool {
    const ALONE: &str = "GROUNDSTATE_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let own = std::env::current_exe().unwrap();
    let words = [wrapper, &[own.to_str().unwrap(), "--exact", test, "--nocapture"]].concat();
    let output =
        std::process::Command::new(words[0]).args(&words[1..]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    false
}

pub(crate) fn ways() -> impl Iterator<Item = Way> {
    [Way::Copied, Way::Shared].into_iter()
}

/// A unit with default settings.
pub(crate) fn plain() -> Run {
    Run { notify_access: NotifyAccess::Main, log: Log::Null, ..Run::of(Kind::ForegroundSupervised) }
}

fn ids(uid: u32, gid: u32, groups: &[u32]) -> Option<Credentials> {
    Some(Credentials {
        ids: Ok(Ids {
            uid: Some(uid),
            gid: Some(gid),
            groups: Some(groups.to_vec()),
            user: Some("tester".to_string()),
            home: Some("/nowhere".to_string()),
            shell: Some("/bin/false".to_string()),
        }),
    })
}

pub(crate) fn line(words: &[&str]) -> ExecLine {
    let words = words.iter().map(|w| vec![Piece::Literal((*w).to_string())]).collect();
    ExecLine { words, ..ExecLine::default() }
}

/// The unit's name.
const UNIT: &str = "under-test";

/// A child under test, killed and reaped at the end.
pub(crate) struct Running {
    pub(crate) pid: Pid,
    pub(crate) report: Report,
    run: Run,
    line: ExecLine,
    reaped: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = signal::kill(self.pid, 9);
            let _ = wait::await_end(self.pid);
        }
    }
}

impl Running {
    pub(crate) fn verdict(&mut self) -> ExecResult<ExecFailure> {
        let deadline = Instant::now() + PATIENCE;
        let told = loop {
            match self.report.verdict() {
                None if Instant::now() < deadline => match self.report.pipe() {
                    Some(pipe) => {
                        let mut fds = [PollFd::new(pipe, PollFlags::POLLIN)];
                        poll(&mut fds, PollTimeout::from(1000u16)).unwrap();
                    }
                    None => std::thread::yield_now(),
                },
                told => break told.expect("no verdict in time"),
            }
        };
        told.map_err(|broken| failure(UNIT, &self.run, Some(&self.line), broken))
    }

    pub(crate) fn end(&mut self) -> Exit {
        let exit = wait::await_end(self.pid).unwrap();
        self.reaped = true;
        exit
    }
}

/// Starts `words` with the settings of `run`; `shape` may change the request.
pub(crate) fn start(
    way: Way,
    run: &Run,
    words: &[&str],
    shape: impl FnOnce(&mut Request<'_>),
) -> Result<Running, ExecFailure> {
    let null = Null::open().unwrap();
    let (line, base) = (line(words), Base::default());
    let mut request = Request {
        unit: UNIT,
        run: &Rc::new(run.clone()),
        line: &line,
        main_pid: None,
        base: &base,
        notify_socket: None,
        extra: &[],
        stdio: [null.input, null.output.clone(), null.output],
        listen: vec![],
        ready: None,
        first: true,
        place: None,
        is_awaited: false,
    };
    shape(&mut request);
    let spawned = Spawner::with(way).unwrap().spawn(Prepared::new(request)?, 0);
    let report = spawned.map_err(|broken| failure(UNIT, run, Some(&line), broken))?;
    Ok(Running { pid: report.pid, report, run: run.clone(), line, reaped: false })
}

/// Like [`start`], but returns the child's output. The child must exit with status 0.
pub(crate) fn output(
    way: Way,
    run: &Run,
    words: &[&str],
    shape: impl FnOnce(&mut Request<'_>),
) -> String {
    let (mut read, write) = std::io::pipe().unwrap();
    let write = Rc::new(OwnedFd::from(write));
    let mut running = start(way, run, words, |request| {
        request.stdio[1] = write;
        shape(request);
    })
    .unwrap();
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!(running.verdict(), Ok(()));
    assert_eq!(running.end(), Exit::Code(0), "{way:?} {words:?}");
    text
}

/// The failure of a start, from any of the three places where it may appear.
#[track_caller]
fn refused(way: Way, run: &Run, words: &[&str]) -> ExecFailure {
    match start(way, run, words, |_| {}) {
        Err(failure) => failure,
        Ok(mut running) => match running.verdict() {
            Err(failure) => {
                assert_eq!(running.end(), Exit::Code(127));
                failure
            }
            Ok(()) => {
                panic!("{way:?} {words:?} was not refused")
            }
        },
    }
}

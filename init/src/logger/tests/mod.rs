//! Tests of the logger with real pipes and processes. This file has the stand-in for PID 1.

mod asking;
mod dying;
mod writing;

use super::channel::Ticked;
use super::channel::{Order, Report, RunLog, Settings};
use super::helper_log_id;
use super::limit;
use super::supervisor::Handle;
use crate::sys::{self, Pid};
use groundstate_units::control::log_line::LogLine;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{Log, LogPriority};
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::settings::Echo;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::wait::waitpid;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The time limit of a step.
const DEADLINE: Duration = Duration::from_secs(60);

/// A directory of the test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("groundstate-logger-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure means that other files were left in it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// PID 1, as far as the logger sees it.
struct Init {
    handle: Handle,
    scratch: Scratch,
    seen: Vec<Report>,
    began: Instant,
    skipped: Duration,
}

impl Init {
    fn new(change: impl FnOnce(&mut Settings)) -> Init {
        let scratch = Scratch::new();
        let mut settings = Settings {
            log_dir: scratch.0.join("deep/log").to_str().unwrap().to_string(),
            log_size: 1 << 30,
            log_keep: 4,
            log_readers: "adm".to_string(),
            echo: Echo::No,
        };
        change(&mut settings);
        let listener = UnixListener::bind(scratch.0.join("log.sock")).unwrap();
        fs::set_permissions(scratch.0.join("log.sock"), fs::Permissions::from_mode(0o666)).unwrap();
        let handle = Handle::new(settings, Some(listener.into())).unwrap();
        let mut init = Init {
            handle,
            scratch,
            seen: Vec::new(),
            began: Instant::now(),
            skipped: Duration::ZERO,
        };
        init.handle.start(init.now()).unwrap();
        init
    }

    /// Starts a logger that may open files at once.
    fn with_files(change: impl FnOnce(&mut Settings)) -> Init {
        let mut init = Init::new(change);
        init.handle.open_files(init.now());
        init
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.began.elapsed() + self.skipped)
    }

    fn pipe(&mut self, run: u64, unit: &str, ready_grep: Option<&str>) -> OwnedFd {
        let log = RunLog {
            tag: String::new(),
            priority: LogPriority::default(),
            blocks: false,
            run: RunId(run),
            unit: name(unit),
            targets: [name(&format!("{unit}-target"))].into(),
            log: Log::File,
            ready_grep: ready_grep.map(str::to_string),
        };
        self.handle.pipe_for(log).unwrap()
    }

    /// A shell whose stdout and stderr are a run's pipe.
    fn shell(&mut self, run: u64, unit: &str, ready_grep: Option<&str>, script: &str) -> Child {
        let out = self.pipe(run, unit, ready_grep);
        let err = out.try_clone().unwrap();
        let child = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap();
        self.handle.flush(self.now());
        child
    }

    /// Reads reports until this one; returns all reports since the last call.
    fn until(&mut self, wanted: &Report) -> Vec<Report> {
        let end = Instant::now() + DEADLINE;
        loop {
            let now = self.now();
            self.seen.extend(self.handle.reports(now));
            if let Some(at) = self.seen.iter().position(|report| report == wanted) {
                return self.seen.drain(..=at).collect();
            }
            assert!(Instant::now() < end, "no {wanted:?}, only {:?}", self.seen);
            if let Some(socket) = self.handle.socket() {
                poll(&mut [PollFd::new(socket, PollFlags::POLLIN)], PollTimeout::from(1000u16))
                    .unwrap();
            }
        }
    }

    /// Kills and reaps the logger and starts the next one.
    fn kill_logger(&mut self) {
        let pid = self.handle.pid().unwrap();
        sys::signal::kill(pid, 9).unwrap();
        self.replace(pid);
    }

    fn replace(&mut self, pid: Pid) {
        waitpid(pid, None).unwrap();
        // Its reports before its death.
        let said = self.handle.reports(self.now());
        self.seen.extend(said);
        assert!(self.handle.ended(pid, self.now()));
        self.skipped += limit::RESTART_DELAY_MAX;
        assert_eq!(self.handle.tick(self.now()), Ticked::Started);
    }

    fn finish(&mut self) {
        let pid = self.handle.pid().unwrap();
        assert!(self.handle.finish(self.now()));
        self.until(&Report::Finished);
        let status = waitpid(pid, None).unwrap();
        assert_eq!(status, nix::sys::wait::WaitStatus::Exited(pid, 0));
        assert!(self.handle.ended(pid, self.now()));
        assert_eq!(self.handle.deadline(), None, "another logger would be started");
    }

    fn file(&self, unit: &str) -> PathBuf {
        self.scratch.0.join("deep/log").join(format!("{unit}.log"))
    }

    fn ask(&self, request: &str) -> BufReader<UnixStream> {
        let mut client = UnixStream::connect(self.scratch.0.join("log.sock")).unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client.write_all(b"\n").unwrap();
        BufReader::new(client)
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if let Some(pid) = self.handle.pid() {
            // A failing test leaves no process behind.
            let _ = sys::signal::kill(pid, 9);
            let _ = waitpid(pid, None);
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// The run and the text of each stored line.
fn stored(path: &Path) -> Vec<(Option<u64>, String)> {
    let bytes = fs::read(path).unwrap();
    assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "a torn line in {path:?}");
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| LogLine::parse(line).unwrap_or_else(|| panic!("{:?}", lossy(line))))
        .map(|line| (line.run.map(|run| run.0), lossy(line.text)))
        .collect()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn texts(path: &Path) -> Vec<String> {
    stored(path).into_iter().map(|(_, text)| text).collect()
}

fn next_line(client: &mut BufReader<UnixStream>) -> serde_json::Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"))
}

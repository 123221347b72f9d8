//! The request for a start, and the words for its failures.

use super::child_setup::{SCHEDULING, SetupError};
use super::descriptor::Stream;
use super::directory;
use super::environment::Passed;
use crate::process_tracking::Place;
use crate::sys::Pid;
use crate::sys::child::WITHOUT_INTERPRETER;
use crate::sys::child_setup::{Limit, Step};
use groundstate_units::machine::event::{ExecFailure, Stage};
use groundstate_units::spec::{ExecLine, Ids, Particular, Piece, Run};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Settings of every process of every unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// By `env-pass`.
    pub passed: Passed,
    /// init.yaml's `env`.
    pub env: Vec<(String, String)>,
    /// The limits init itself was started with, where it has changed its own.
    pub limits: Vec<Limit>,
    /// Its OOM score likewise: then no child shares init's memory, and with it its score.
    pub score: Option<i16>,
}

/// One process to be started.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// GROUNDSTATE_UNIT, and the word in front of errors.
    pub unit: &'a str,
    /// The definition.
    pub run: &'a Run,
    /// The line of the definition.
    pub line: &'a ExecLine,
    /// The process is the first of its run, and checks the conditions.
    pub first: bool,
    /// `$MAINPID`.
    pub main_pid: Option<Pid>,
    /// Settings of every process.
    pub base: &'a Base,
    /// NOTIFY_SOCKET, where the type allows it.
    pub notify_socket: Option<&'a str>,
    /// More variables, set by init itself; nothing of the unit hides them.
    pub extra: &'a [(String, String)],
    /// Descriptors 0, 1 and 2 of the program.
    pub stdio: [Rc<OwnedFd>; 3],
    /// Descriptors 3, 4 … of the program, with LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES (sd_listen_fds(3)).
    pub listen: Vec<(String, Rc<OwnedFd>)>,
    /// The write end that becomes the unit's `ready-fd`.
    pub ready: Option<Rc<OwnedFd>>,
    /// Where it runs; None: where PID 1 is.
    pub place: Option<Place>,
    /// fd 0 is a terminal, to be its controlling one.
    pub take_terminal: bool,
    /// Something else begins once it has become its program: that is to be known at once.
    pub is_awaited: bool,
}

/// The words that a failure uses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    unit: String,
    program: String,
    who: String,
    dir: String,
    limits: Vec<u32>,
    env_files: Vec<String>,
    particular: Option<Box<Particular>>,
}

impl Said {
    /// Of a child that an image before this one has cloned.
    pub(super) fn of(unit: &str) -> Said {
        Said { unit: unit.to_string(), ..Said::default() }
    }
}

impl Said {
    pub(super) fn new(request: &Request<'_>, ids: Option<&Ids>) -> Said {
        let literal = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Variable(name) | Piece::Split(name) => format!("${{{name}}}"),
            Piece::MainPid => "$MAINPID".to_string(),
        };
        let first = request.line.words.first();
        let number = |id: Option<u32>| id.map(|id| id.to_string());
        let who = ids.and_then(|ids| ids.user.clone().or(number(ids.uid)).or(number(ids.gid)));
        let limits = request.base.limits.iter().map(|l| l.resource);
        Said {
            unit: request.unit.to_string(),
            program: first.into_iter().flatten().map(literal).collect(),
            who: who.unwrap_or_default(),
            dir: working_dir(request.run, ids),
            limits: limits.chain(request.run.limits.iter().map(|l| l.resource.into())).collect(),
            env_files: request.run.env_file.iter().map(|f| f.path.clone()).collect(),
            particular: request.run.particular.clone(),
        }
    }

    /// The failure at this step.
    pub(super) fn failure(&self, (step, errno, detail): SetupError) -> ExecFailure {
        let index = detail as usize;
        let (stage, path) = match step {
            Step::Begin => (Stage::Fork, self.program.clone()),
            Step::Cgroup => (Stage::Cgroup, self.unit.clone()),
            Step::Session => (Stage::Session, self.program.clone()),
            Step::Stdio => (Stage::Stdio, self.stream(detail)),
            Step::Condition => (Stage::Condition, self.condition(index)),
            Step::Assert => (Stage::Assert, self.condition(index)),
            Step::Directory => (Stage::Directory, self.directory(index)),
            Step::Schedule => {
                (Stage::Schedule, SCHEDULING.get(index).copied().unwrap_or_default().to_string())
            }
            Step::Root => (Stage::Root, self.root()),
            Step::Rights => (Stage::Rights, "its capabilities".to_string()),
            Step::EnvFile => {
                (Stage::EnvFile, self.env_files.get(index).cloned().unwrap_or_default())
            }
            Step::ExecLine => (Stage::ExecLine, self.program.clone()),
            Step::Limits => (Stage::Limits, limit_name(self.limits.get(index).copied())),
            Step::Group => (Stage::Group, self.who.clone()),
            Step::User => (Stage::User, self.who.clone()),
            Step::WorkingDir => (Stage::WorkingDir, self.dir.clone()),
            Step::Execve if detail == WITHOUT_INTERPRETER && errno == libc::ENOENT => {
                (Stage::Interpreter, self.program.clone())
            }
            Step::Execve => (Stage::Execve, self.program.clone()),
        };
        ExecFailure { stage, errno, path }
    }
}

impl Said {
    fn condition(&self, index: usize) -> String {
        let conditions = self.particular.iter().flat_map(|p| p.conditions.iter());
        conditions.map(groundstate_units::spec::Condition::words).nth(index).unwrap_or_default()
    }

    fn directory(&self, index: usize) -> String {
        let directories = self.particular.iter().flat_map(|p| p.directories.iter());
        directories.flat_map(directory::paths).nth(index).unwrap_or_default()
    }

    /// The file or terminal; where it is no file that is missing, the program.
    fn stream(&self, number: u32) -> String {
        let stdio = self.particular.as_ref().map(|particular| &particular.stdio);
        let path = stdio.and_then(|stdio| Stream::path(number, stdio));
        path.unwrap_or(&self.program).to_string()
    }

    fn root(&self) -> String {
        self.particular.as_ref().and_then(|p| p.root_dir.clone()).unwrap_or_default()
    }
}

/// The key of `limits:` for an RLIMIT number of Linux (getrlimit(2)).
fn limit_name(resource: Option<u32>) -> String {
    const NAMES: [&str; 16] = [
        "cpu",
        "fsize",
        "data",
        "stack",
        "core",
        "rss",
        "nproc",
        "nofile",
        "memlock",
        "as",
        "locks",
        "sigpending",
        "msgqueue",
        "nice",
        "rtprio",
        "rttime",
    ];
    let name = resource.and_then(|r| NAMES.get(r as usize));
    format!("limit {}", name.unwrap_or(&"?"))
}

/// `~` is the user's home.
pub(super) fn working_dir(run: &Run, ids: Option<&Ids>) -> String {
    if run.working_dir != "~" {
        return run.working_dir.clone();
    }
    let home = ids.and_then(|ids| ids.home.clone());
    home.or_else(|| std::env::var("HOME").ok()).unwrap_or_else(|| "/root".to_string())
}

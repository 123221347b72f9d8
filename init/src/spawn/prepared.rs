//! All that a child needs, settled in PID 1 before the clone: words, environment, limits,
//! identity, descriptors. Only a unit with env-files leaves the words and the environment to
//! the child: the files are read there.

use super::env_file;
use super::environment::{Environment, Passed};
use crate::sys::Pid;
use crate::sys::child::Step;
use crate::sys::orders::{Limit, Orders};
use groundstate_units::exec_line::{Unexpanded, expand};
use groundstate_units::machine::event::{ExecFailure, Stage};
use groundstate_units::spec::{EnvFile, ExecLine, Ids, Piece, ResourceLimit, Run};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// What every process of every unit gets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// By `env-pass`.
    pub passed: Passed,
    /// init.yaml's `env`.
    pub env: Vec<(String, String)>,
    /// The limits init itself was started with, where it has changed its own.
    pub limits: Vec<Limit>,
}

/// The cgroup of a run.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Its directory.
    pub directory: Rc<OwnedFd>,
    /// Nothing runs in it yet. A child that shares PID 1's memory is never put beside others,
    /// which could get it (and PID 1 with it) killed for want of memory.
    pub fresh: bool,
}

/// One process to be started.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// GROUNDSTATE_UNIT, and the word in front of errors.
    pub unit: &'a str,
    /// The definition.
    pub run: &'a Run,
    /// Which of its lines.
    pub line: &'a ExecLine,
    /// `$MAINPID`.
    pub main_pid: Option<Pid>,
    /// What is the same for all.
    pub base: &'a Base,
    /// NOTIFY_SOCKET, where the type allows it.
    pub notify_socket: Option<&'a str>,
    /// More variables, set by init itself; nothing of the unit hides them.
    pub extra: &'a [(String, String)],
    /// What becomes 0, 1 and 2.
    pub stdio: [Rc<OwnedFd>; 3],
    /// What becomes 3, 4 … with LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES (sd_listen_fds(3)).
    pub listen: Vec<(String, Rc<OwnedFd>)>,
    /// Where it runs; None: where PID 1 is.
    pub place: Option<Place>,
    /// fd 0 is a terminal, to be its controlling one.
    pub take_terminal: bool,
    /// Something else begins once it has become its program: that is to be known at once.
    pub is_awaited: bool,
}

/// A process ready to be cloned.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) stdio: [Rc<OwnedFd>; 3],
    pub(super) listen: Vec<Rc<OwnedFd>>,
    pub(super) place: Option<Place>,
    pub(super) take_terminal: bool,
    pub(super) is_awaited: bool,
    pub(super) work: Work,
    pub(super) said: Said,
}

/// How much is left to the child.
#[derive(Debug)]
pub(super) enum Work {
    /// Nothing but to do it.
    Settled(Box<Orders>),
    /// The env-files, and what follows from them.
    EnvFiles(Box<Draft>),
}

/// What a failure calls things.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    unit: String,
    program: String,
    who: String,
    dir: String,
    limits: Vec<u32>,
    env_files: Vec<String>,
}

/// Orders whose words and environment are still to be made.
#[derive(Debug)]
pub(super) struct Draft {
    env: Environment,
    env_files: Vec<EnvFile>,
    last: Vec<(String, String)>,
    line: ExecLine,
    main_pid: Option<u32>,
    orders: Orders,
}

/// Where a draft broke off: the step, the errno, and which of several.
pub(super) type Broken = (Step, i32, u32);

impl Prepared {
    /// Puts everything together. Fails as the child would: a user that is not there, a `$MAINPID`
    /// without a main process, a word with a NUL byte.
    pub(crate) fn new(request: Request<'_>) -> Result<Prepared, ExecFailure> {
        let ids = identity(request.run)?;
        let said = Said::new(&request, ids);
        let draft = Draft::new(&request, ids, &said)?;
        let work = if draft.env_files.is_empty() {
            Work::Settled(Box::new(draft.finish().map_err(|broken| said.failure(broken))?))
        } else {
            Work::EnvFiles(Box::new(draft))
        };
        Ok(Prepared {
            stdio: request.stdio,
            listen: request.listen.into_iter().map(|(_, fd)| fd).collect(),
            place: request.place,
            take_terminal: request.take_terminal,
            is_awaited: request.is_awaited,
            work,
            said,
        })
    }
}

/// The ids to take, when any were asked for.
fn identity(run: &Run) -> Result<Option<&Ids>, ExecFailure> {
    match run.credentials.as_ref().map(|c| &c.ids) {
        None => Ok(None),
        Some(Ok(ids)) => {
            // To setresuid(2) and setresgid(2) -1 means "leave it": no id at all.
            let path = || ids.user.clone().unwrap_or_else(|| u32::MAX.to_string());
            let no_id = |stage| ExecFailure { stage, errno: libc::EINVAL, path: path() };
            match (ids.uid, ids.gid) {
                (Some(u32::MAX), _) => Err(no_id(Stage::User)),
                (_, Some(u32::MAX)) => Err(no_id(Stage::Group)),
                _ => Ok(Some(ids)),
            }
        }
        Some(Err(unresolved)) => {
            let stage = if unresolved.what == "group" { Stage::Group } else { Stage::User };
            Err(ExecFailure { stage, errno: libc::ENOENT, path: unresolved.name.clone() })
        }
    }
}

impl Said {
    fn new(request: &Request<'_>, ids: Option<&Ids>) -> Said {
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
            dir: request.run.working_dir.clone(),
            limits: limits.chain(request.run.limits.iter().map(|l| l.resource.into())).collect(),
            env_files: request.run.env_file.iter().map(|f| f.path.clone()).collect(),
        }
    }

    /// The failure at this step.
    pub(super) fn failure(&self, (step, errno, detail): Broken) -> ExecFailure {
        let index = detail as usize;
        let (stage, path) = match step {
            Step::Begin => (Stage::Fork, self.program.clone()),
            Step::Cgroup => (Stage::Cgroup, self.unit.clone()),
            Step::Session => (Stage::Session, self.program.clone()),
            Step::Stdio => (Stage::Stdio, self.program.clone()),
            Step::EnvFile => {
                (Stage::EnvFile, self.env_files.get(index).cloned().unwrap_or_default())
            }
            Step::ExecLine => (Stage::ExecLine, self.program.clone()),
            Step::Limits => (Stage::Limits, limit_name(self.limits.get(index).copied())),
            Step::Group => (Stage::Group, self.who.clone()),
            Step::User => (Stage::User, self.who.clone()),
            Step::WorkingDir => (Stage::WorkingDir, self.dir.clone()),
            Step::Execve => (Stage::Execve, self.program.clone()),
        };
        ExecFailure { stage, errno, path }
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

impl Draft {
    fn new(request: &Request<'_>, ids: Option<&Ids>, said: &Said) -> Result<Draft, ExecFailure> {
        let mut env = Environment::new(&request.base.passed, ids);
        env.extend(&request.base.env);
        env.extend(&request.run.env);
        let mut last = vec![("GROUNDSTATE_UNIT".to_string(), request.unit.to_string())];
        if let Some(socket) = request.notify_socket {
            last.push(("NOTIFY_SOCKET".to_string(), socket.to_string()));
        }
        if !request.listen.is_empty() {
            let names: Vec<_> = request.listen.iter().map(|(name, _)| name.as_str()).collect();
            last.push(("LISTEN_FDS".to_string(), names.len().to_string()));
            last.push(("LISTEN_FDNAMES".to_string(), names.join(":")));
        }
        last.extend_from_slice(request.extra);
        let dir = CString::new(request.run.working_dir.as_str())
            .map_err(|_| said.failure((Step::WorkingDir, libc::EINVAL, 0)))?;
        let limits = request.run.limits.iter().map(limit);
        let orders = Orders {
            programs: Vec::new(),
            argv: Vec::new(),
            envp: Vec::new(),
            listen_pid: !request.listen.is_empty(),
            limits: request.base.limits.iter().copied().chain(limits).collect(),
            groups: ids.and_then(|ids| ids.groups.clone()),
            gid: ids.and_then(|ids| ids.gid),
            uid: ids.and_then(|ids| ids.uid),
            dir,
            umask: request.run.umask,
        };
        Ok(Draft {
            env,
            env_files: request.run.env_file.clone(),
            last,
            line: request.line.clone(),
            main_pid: request.main_pid.and_then(|pid| u32::try_from(pid.as_raw()).ok()),
            orders,
        })
    }

    /// Reads the env-files, if any, and puts words and environment together.
    pub(super) fn finish(mut self) -> Result<Orders, Broken> {
        for (index, file) in (0..).zip(&self.env_files) {
            match env_file::read(&file.path) {
                Ok(pairs) => self.env.extend(&pairs),
                Err(_) if file.optional && !std::path::Path::new(&file.path).exists() => {}
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    return Err((Step::EnvFile, errno, index));
                }
            }
        }
        self.env.extend(&self.last);
        let lookup = |name: &str| self.env.get(name).map(str::to_string);
        let words = expand(&self.line, &lookup, self.main_pid)
            .map_err(|broken| (Step::ExecLine, errno(broken), 0))?;
        let path = self.env.get("PATH").unwrap_or(super::environment::PATH);
        let pairs = self.env.iter().map(|(name, value)| format!("{name}={value}"));
        let nul = |_| (Step::ExecLine, libc::EINVAL, 0);
        let texts = |texts: Vec<String>| {
            texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(nul)
        };
        let program = words.first().map(String::as_str).unwrap_or_default();
        self.orders.programs = texts(candidates(program, path))?;
        self.orders.envp = texts(pairs.collect())?;
        self.orders.argv = texts(words)?;
        Ok(self.orders)
    }
}

/// What stands for it in a failure, whose words are made from it.
fn errno(broken: Unexpanded) -> i32 {
    match broken {
        Unexpanded::NoMainPid => libc::ESRCH,
        Unexpanded::TooLong => libc::E2BIG,
        Unexpanded::Empty => libc::ENOENT,
    }
}

/// Where a program may be: itself with a slash in it, else in each directory of PATH.
fn candidates(program: &str, path: &str) -> Vec<String> {
    if program.contains('/') {
        return vec![program.to_string()];
    }
    let dirs = path.split(':').filter(|dir| dir.starts_with('/'));
    dirs.map(|dir| format!("{}/{program}", dir.trim_end_matches('/'))).collect()
}

fn limit(limit: &ResourceLimit) -> Limit {
    Limit {
        resource: limit.resource.into(),
        soft: limit.soft.unwrap_or(u64::MAX),
        hard: limit.hard.unwrap_or(u64::MAX),
    }
}

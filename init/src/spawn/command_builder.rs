//! The words, environment and credentials of a command. PID 1 builds them if that cannot block;
//! otherwise the forked child finishes them.

use super::child_setup::{ChildSetup, SetupError};
use super::directory::{self, Owner};
use super::environment;
use super::environment::{Environment, Passed};
use super::request::{Request, Said, working_dir};
use crate::base::limit;
use crate::process_tracking::Place;
use crate::sys::child_setup::Step;
use crate::sys::child_setup::{Limit, Orders, Rights};
use groundstate_units::machine::event::ExecFailure;
use groundstate_units::machine::event::Stage;
use groundstate_units::spec::Run;
use groundstate_units::spec::{EnvFile, ExecLine, Ids, Particular, Prefixes, ResourceLimit, Stdio};
use groundstate_units::unit::exec_line::{Unexpanded, expand};
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Orders whose words and environment are not built yet.
#[derive(Debug)]
pub(super) struct CommandBuilder {
    env: Environment,
    env_files: Vec<EnvFile>,
    last: Vec<(String, String)>,
    unset: Vec<String>,
    watched: bool,
    line: ExecLine,
    main_pid: Option<u32>,
    outfit: Option<ChildSetup>,
    orders: Orders,
}

impl CommandBuilder {
    pub(super) fn new(
        request: &Request<'_>,
        ids: Option<&Ids>,
        said: &Said,
    ) -> Result<CommandBuilder, ExecFailure> {
        let particular = request.run.particular.as_deref();
        let nul = |step| said.failure((step, libc::EINVAL, 0));
        let (prefixes, limits) = (request.line.prefixes, request.run.limits.iter().map(limit));
        let whole = prefixes.has(Prefixes::PRIVILEGED);
        let own_user = whole || prefixes.has(Prefixes::OWN_USER);
        let who = ids.filter(|_| !own_user);
        let root = particular.and_then(|p| p.root_dir.as_deref()).filter(|_| !whole);
        let orders = Orders {
            programs: Vec::new(),
            argv: Vec::new(),
            envp: Vec::new(),
            listen_pid: !request.listen.is_empty(),
            limits: request.base.limits.iter().copied().chain(limits).collect(),
            groups: who.and_then(|ids| ids.groups.clone()),
            gid: who.and_then(|ids| ids.gid),
            uid: who.and_then(|ids| ids.uid),
            rights: particular.filter(|_| !whole).and_then(|p| rights(p, own_user)),
            root: root.map(CString::new).transpose().map_err(|_| nul(Step::Root))?,
            dir: CString::new(working_dir(request.run, ids)).map_err(|_| nul(Step::WorkingDir))?,
            dir_optional: particular.is_some_and(|p| p.working_dir_optional),
            umask: request.run.umask,
        };
        let owner = Owner { uid: ids.and_then(|ids| ids.uid), gid: ids.and_then(|ids| ids.gid) };
        let outfit = particular.filter(|p| has_work(p, request.first)).map(|particular| {
            ChildSetup { particular: particular.clone(), asks: request.first, owner }
        });
        Ok(CommandBuilder {
            env: environment(request, ids),
            env_files: request.run.env_file.clone(),
            last: last(request),
            unset: particular.map(|p| p.env_unset.clone()).unwrap_or_default(),
            watched: particular.is_some_and(|p| p.watchdog.is_some()),
            line: request.line.clone(),
            main_pid: request.main_pid.and_then(|pid| u32::try_from(pid.as_raw()).ok()),
            outfit,
            orders,
        })
    }

    /// Returns true if a forked child must finish it.
    pub(super) fn waits(&self) -> bool {
        !self.env_files.is_empty()
            || self.outfit.is_some()
            || self.watched
            || self.orders.rights.is_some()
            || self.orders.root.is_some()
    }

    /// Applies the child settings, reads the env-files, and builds words and environment.
    pub(super) fn finish(mut self) -> Result<Orders, SetupError> {
        if let Some(outfit) = &self.outfit {
            outfit.wear()?;
        }
        for (index, file) in (0..).zip(&self.env_files) {
            match environment::read(&file.path) {
                Ok(pairs) => self.env.extend(&pairs),
                Err(_) if file.optional && !std::path::Path::new(&file.path).exists() => {}
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    return Err((Step::EnvFile, errno, index));
                }
            }
        }
        self.env.extend(&self.last);
        if self.watched {
            self.env.set("WATCHDOG_PID", &std::process::id().to_string());
        }
        self.unset.iter().for_each(|text| self.env.unset(text));
        let lookup = |name: &str| self.env.get(name).map(str::to_string);
        let words = expand(&self.line, &lookup, self.main_pid)
            .map_err(|broken| (Step::ExecLine, errno(broken), 0))?;
        let path = self.env.get("PATH").unwrap_or(super::environment::PATH);
        let nul = |_| (Step::ExecLine, libc::EINVAL, 0);
        let texts = |texts: Vec<String>| {
            texts.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(nul)
        };
        let pairs = self.env.iter().map(|(name, value)| {
            // Reserves room for the NUL, so that a pair is allocated once.
            let mut pair = Vec::with_capacity(name.len() + value.len() + 2);
            pair.extend_from_slice(name.as_bytes());
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            CString::new(pair)
        });
        let program = words.first().cloned().unwrap_or_default();
        let is_named = self.line.prefixes.has(Prefixes::NAMED) && words.len() > 1;
        let words = words.into_iter().skip(usize::from(is_named)).collect();
        self.orders.programs = texts(candidates(&program, path))?;
        self.orders.envp = pairs.collect::<Result<_, _>>().map_err(nul)?;
        self.orders.argv = texts(words)?;
        Ok(self.orders)
    }
}

/// Returns true if the child has settings to apply.
fn has_work(particular: &Particular, first: bool) -> bool {
    (first && !(particular.conditions.is_empty() && particular.wait_file.is_empty()))
        || !particular.directories.is_empty()
        || particular.stdio != Stdio::default()
        || particular.schedule != groundstate_units::spec::Schedule::default()
        || particular.ignore_sigpipe
}

/// The capability settings, or `None` without any. Init's own user cannot have an ambient set.
fn rights(particular: &Particular, own_user: bool) -> Option<Rights> {
    let asked = &particular.privileges;
    let rights = Rights {
        bound: asked.bound,
        ambient: if own_user { 0 } else { asked.ambient },
        secure_bits: asked.secure_bits,
        no_new: asked.no_new,
    };
    (rights != Rights::default()).then_some(rights)
}

/// The environment before the env-files.
fn environment(request: &Request<'_>, ids: Option<&Ids>) -> Environment {
    let particular = request.run.particular.as_deref();
    let mut env = Environment::new(&request.base.passed, ids);
    if let Some(particular) = particular.filter(|p| !p.env_pass.is_empty()) {
        env.pass(&Passed::new(&particular.env_pass, std::env::vars_os()));
    }
    if let Some(stdio) = particular.map(|p| &p.stdio).filter(|stdio| stdio.has_terminal()) {
        let virtual_console = ["/dev/console", "/dev/tty"];
        let path = if stdio.tty.path.is_empty() { "/dev/console" } else { &stdio.tty.path };
        let serial = path.starts_with("/dev/ttyS") || path.starts_with("/dev/ttyAMA");
        let plain = virtual_console.iter().any(|start| path.starts_with(start)) && !serial;
        env.set("TERM", if plain { "linux" } else { "vt220" });
    }
    env.extend(&request.base.env);
    env.extend(&request.run.env);
    env
}

/// The variables that init sets last, so that nothing overrides them.
fn last(request: &Request<'_>) -> Vec<(String, String)> {
    let mut last = vec![("GROUNDSTATE_UNIT".to_string(), request.unit.to_string())];
    let mut say = |name: &str, value: String| last.push((name.to_string(), value));
    if let Some(socket) = request.notify_socket {
        say("NOTIFY_SOCKET", socket.to_string());
    }
    if let Some(pid) = request.main_pid {
        say("MAINPID", pid.to_string());
    }
    if !request.listen.is_empty() {
        let names: Vec<_> = request.listen.iter().map(|(name, _)| name.as_str()).collect();
        say("LISTEN_FDS", names.len().to_string());
        let names = names.join(":");
        // The kernel refuses an exec with a longer variable; without names the descriptors are
        // still passed.
        if names.len() <= limit::LISTEN_NAMES {
            say("LISTEN_FDNAMES", names);
        }
    }
    if let Some(particular) = request.run.particular.as_deref() {
        for directories in &particular.directories {
            let paths: Vec<String> = directory::paths(directories).collect();
            say(directories.kind.variable(), paths.join(":"));
        }
        if let Some(every) = particular.watchdog {
            say("WATCHDOG_USEC", every.as_micros().to_string());
        }
    }
    last.extend_from_slice(request.extra);
    last
}

/// The errno that represents it in a failure.
fn errno(broken: Unexpanded) -> i32 {
    match broken {
        Unexpanded::NoMainPid => libc::ESRCH,
        Unexpanded::TooLong => libc::E2BIG,
        Unexpanded::Empty => libc::ENOENT,
    }
}

/// The candidate paths of a program: itself if it contains a slash, else one in each directory of
/// PATH.
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

/// A process ready to be cloned.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) stdio: [Rc<OwnedFd>; 3],
    pub(super) listen: Vec<Rc<OwnedFd>>,
    pub(super) ready: Option<(Rc<OwnedFd>, u16)>,
    pub(super) place: Option<Place>,
    pub(super) take_terminal: bool,
    pub(super) is_awaited: bool,
    pub(super) score: Option<i16>,
    pub(super) work: Work,
    pub(super) said: Said,
}

/// The work left to the child.
#[derive(Debug)]
pub(super) enum Work {
    /// Only system calls.
    Settled(Box<Orders>),
    /// Work that may block on a file, and what depends on it.
    Forked(Box<CommandBuilder>),
}

impl Prepared {
    /// Prepares a start. Fails as the child would: with an unknown user, a `$MAINPID` without a
    /// main process, or a word with a NUL byte.
    pub(crate) fn new(request: Request<'_>) -> Result<Prepared, ExecFailure> {
        let ids = identity(request.run)?;
        let said = Said::new(&request, ids);
        let draft = CommandBuilder::new(&request, ids, &said)?;
        let work = if draft.waits() {
            Work::Forked(Box::new(draft))
        } else {
            Work::Settled(Box::new(draft.finish().map_err(|broken| said.failure(broken))?))
        };
        let place = request.run.particular.as_ref().and_then(|p| p.ready_fd);
        let ready = request.ready.zip(place);
        Ok(Prepared {
            stdio: request.stdio,
            listen: request.listen.into_iter().map(|(_, fd)| fd).collect(),
            ready,
            place: request.place,
            take_terminal: request.take_terminal,
            is_awaited: request.is_awaited,
            score: request.base.score,
            work,
            said,
        })
    }
}

/// The ids to switch to, if the unit names any.
fn identity(run: &Run) -> Result<Option<&Ids>, ExecFailure> {
    match run.credentials.as_ref().map(|c| &c.ids) {
        None => Ok(None),
        Some(Ok(ids)) => {
            // -1 means "leave unchanged" to setresuid(2) and setresgid(2), so it is not a valid id.
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

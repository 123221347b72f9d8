//! The words, environment and credentials of a command. PID 1 builds them if that cannot block;
//! otherwise the forked child finishes them.

use crate::base::{clock, limit};
use crate::process_tracking::Place;
use crate::spawn::descriptor::Stream;
use crate::spawn::directory::Owner;
use crate::spawn::environment::{Environment, Passed};
use crate::spawn::{condition, descriptor, directory, environment};
use crate::sys::child::WITHOUT_INTERPRETER;
use crate::sys::child_setup::{Limit, Orders, Rights, Step};
use crate::sys::{Pid, device, process, signal};
use groundstate_units::machine::event::{ExecFailure, Stage};
use groundstate_units::spec::{
    Condition, ExecLine, Ids, Particular, Piece, Prefixes, ResourceLimit, Run, Schedule, Stdio,
};
use groundstate_units::unit::exec_line::{Unexpanded, expand};
use groundstate_units::unit::resource::resource_name;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Orders whose words and environment are not built yet.
#[derive(Debug)]
pub(super) struct CommandBuilder {
    run: Rc<Run>,
    line: ExecLine,
    /// True for the unit's first process, which checks the conditions.
    first: bool,
    /// The unit's user and group, also if this command runs as another user.
    owner: Owner,
    main_pid: Option<u32>,
    env: Environment,
    last: Vec<(String, String)>,
    orders: Orders,
}

impl CommandBuilder {
    pub(super) fn new(
        request: &Request<'_>,
        ids: Option<&Ids>,
    ) -> Result<CommandBuilder, SetupError> {
        let particular = request.run.particular.as_deref();
        let nul = |step| (step, libc::EINVAL, 0);
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
            dir: CString::new(working_dir(request.run)).map_err(|_| nul(Step::WorkingDir))?,
            dir_optional: particular.is_some_and(|p| p.working_dir_optional),
            umask: request.run.umask,
        };
        Ok(CommandBuilder {
            run: request.run.clone(),
            line: request.line.clone(),
            first: request.first,
            owner: Owner { uid: ids.and_then(|ids| ids.uid), gid: ids.and_then(|ids| ids.gid) },
            main_pid: request.main_pid.and_then(|pid| u32::try_from(pid.as_raw()).ok()),
            env: environment(request, ids),
            last: final_variables(request),
            orders,
        })
    }

    /// Returns true if a forked child must finish it.
    pub(super) fn needs_fork(&self) -> bool {
        let particular = self.run.particular.as_ref();
        !self.run.env_file.is_empty()
            || particular.is_some_and(|p| p.watchdog.is_some() || has_work(p, self.first))
            || self.orders.rights.is_some()
            || self.orders.root.is_some()
    }

    /// Applies the child settings, reads the env-files, and builds words and environment.
    pub(super) fn finish(mut self) -> Result<Orders, SetupError> {
        let particular = self.run.particular.as_ref();
        if let Some(particular) = particular.filter(|p| has_work(p, self.first)) {
            apply_settings(particular, self.first, self.owner)?;
        }
        for (index, file) in (0..).zip(&self.run.env_file) {
            match environment::read(&file.path) {
                Ok(pairs) => self.env.extend(&pairs),
                Err(_) if file.optional && !std::path::Path::new(&file.path).exists() => {}
                Err(error) => return Err(broken(Step::EnvFile, &error, index)),
            }
        }
        self.env.extend(&self.last);
        if let Some(particular) = particular {
            if particular.watchdog.is_some() {
                self.env.set("WATCHDOG_PID", &std::process::id().to_string());
            }
            particular.env_unset.iter().for_each(|text| self.env.unset(text));
        }
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
        || particular.schedule != Schedule::default()
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
        env.extend(&Passed::new(&particular.env_pass, std::env::vars_os()).0);
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
fn final_variables(request: &Request<'_>) -> Vec<(String, String)> {
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
    pub(super) is_awaited: bool,
    pub(super) score: Option<i16>,
    pub(super) work: Work,
}

/// The work left to the child.
#[derive(Debug)]
pub(super) enum Work {
    /// The child makes only system calls.
    Settled(Box<Orders>),
    /// The forked child also does work that may block on a file, and the steps that depend on it.
    Forked(Box<CommandBuilder>),
}

impl Prepared {
    /// Prepares a start. Fails as the child would: with an unknown user, a `$MAINPID` without a
    /// main process, or a word with a NUL byte.
    pub(crate) fn new(request: Request<'_>) -> Result<Prepared, ExecFailure> {
        let ids = identity(request.run)?;
        let failed = |broken| failure(request.unit, request.run, Some(request.line), broken);
        let draft = CommandBuilder::new(&request, ids).map_err(failed)?;
        let work = if draft.needs_fork() {
            Work::Forked(Box::new(draft))
        } else {
            Work::Settled(Box::new(draft.finish().map_err(failed)?))
        };
        let place = request.run.particular.as_ref().and_then(|p| p.ready_fd);
        let ready = request.ready.zip(place);
        Ok(Prepared {
            stdio: request.stdio,
            listen: request.listen.into_iter().map(|(_, fd)| fd).collect(),
            ready,
            place: request.place,
            is_awaited: request.is_awaited,
            score: request.base.score,
            work,
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

// The rarely used settings of a unit that its forked child applies as root before expanding the
// command line: conditions, directories, files and terminals, scheduling, the login record. Later
// settings (chroot, capabilities) are in the child's [`crate::sys::child_setup::Orders`].

/// A failure of a start: the step, the errno, and the index within the step (for a limit, its
/// number).
pub(crate) type SetupError = (Step, i32, u32);

/// Pause between two checks for an awaited file.
const FILE_PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Applies these settings in the child. `asks` is true for the unit's first process, which checks
/// the conditions.
fn apply_settings(particular: &Particular, asks: bool, owner: Owner) -> Result<(), SetupError> {
    if asks {
        await_files(particular);
    }
    if asks && let Some(index) = condition::unmet(&particular.conditions) {
        let condition = particular.conditions.get(index);
        let assert = condition.is_some_and(|condition| condition.assert);
        let step = if assert { Step::Assert } else { Step::Condition };
        return Err((step, libc::ECANCELED, u32::try_from(index).unwrap_or(u32::MAX)));
    }
    make_directories(particular, owner)?;
    descriptor::arrange(&particular.stdio, owner)
        .map_err(|(stream, error)| broken(Step::Stdio, &error, stream as u32))?;
    apply(&particular.schedule).map_err(|(error, index)| broken(Step::Schedule, &error, index))?;
    if particular.ignore_sigpipe {
        let _ = signal::ignore(nix::sys::signal::Signal::SIGPIPE);
    }
    record_login(&particular.stdio, true, nix::unistd::getpid().as_raw());
    Ok(())
}

/// Waits for the files; the start timeout of the run limits the wait.
fn await_files(particular: &Particular) {
    for path in &particular.wait_file {
        while !std::path::Path::new(path).exists() {
            clock::pause(FILE_PAUSE);
        }
    }
}

fn make_directories(particular: &Particular, owner: Owner) -> Result<(), SetupError> {
    let mut index = 0;
    for directories in &particular.directories {
        for name in &directories.names {
            directory::make(directories.kind, name, directories.mode, owner)
                .map_err(|error| broken(Step::Directory, &error, index))?;
            index += 1;
        }
    }
    Ok(())
}

fn apply(schedule: &Schedule) -> Result<(), (io::Error, u32)> {
    if let Some(score) = schedule.oom_score_adjust {
        match std::fs::write("/proc/self/oom_score_adj", score.to_string()) {
            // A container without CAP_SYS_RESOURCE may not lower the score, which has no
            // security effect.
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            written => written.map_err(|e| (e, 0))?,
        }
    }
    if let Some(nice) = schedule.nice {
        process::set_nice(nice).map_err(|e| (e, 1))?;
    }
    if let Some(priority) = schedule.io_priority {
        process::set_io_priority(priority).map_err(|e| (e, 2))?;
    }
    if let Some((policy, priority)) = schedule.cpu_policy {
        process::set_policy(policy, priority).map_err(|e| (e, 3))?;
    }
    if !schedule.cpu_affinity.is_empty() {
        process::set_affinity(&schedule.cpu_affinity).map_err(|e| (e, 4))?;
    }
    Ok(())
}

/// The keys of the scheduling steps, in their order.
pub(super) const SCHEDULING: [&str; 5] =
    ["oom-score-adjust", "nice", "io-priority", "cpu-policy", "cpu-affinity"];

pub(super) fn broken(step: Step, error: &io::Error, index: u32) -> SetupError {
    (step, error.raw_os_error().unwrap_or(libc::EIO), index)
}

/// Writes the utmp record of a terminal at the start or the end of a login.
fn record_login(stdio: &Stdio, begins: bool, pid: i32) {
    if !stdio.utmp_id.is_empty() {
        let line = stdio.tty.path.strip_prefix("/dev/").unwrap_or(&stdio.utmp_id);
        device::record(&stdio.utmp_id, line, pid, begins);
    }
}

/// Removes the files of a run after its end, in a child. Returns the number of failures.
pub(crate) fn remove_run_files(particular: &Particular, main: i32) -> u8 {
    record_login(&particular.stdio, false, main);
    let runtime = particular.directories.iter();
    let runtime = runtime.filter(|d| d.kind == groundstate_units::spec::DirectoryKind::Runtime);
    let names = runtime.flat_map(|d| d.names.iter().map(|name| (d.kind, name)));
    let failed = names.filter(|(kind, name)| directory::remove(*kind, name).is_err()).count();
    u8::try_from(failed).unwrap_or(u8::MAX)
}

// The request for a start, and the texts for its failures.

/// Settings of every process of every unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base {
    /// Variables passed by `env-pass`.
    pub passed: Passed,
    /// init.yaml's `env`.
    pub env: Vec<(String, String)>,
    /// Init's original limits, if it has changed its own.
    pub limits: Vec<Limit>,
    /// Init's original OOM score, if it has changed its own. Then no child shares init's memory,
    /// because the score belongs to the memory.
    pub score: Option<i16>,
}

/// A process to be started.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// GROUNDSTATE_UNIT, and the prefix of errors.
    pub unit: &'a str,
    /// The definition.
    pub run: &'a Rc<Run>,
    /// The command line in the definition.
    pub line: &'a ExecLine,
    /// True for the first process of its run, which checks the conditions.
    pub first: bool,
    /// `$MAINPID`.
    pub main_pid: Option<Pid>,
    /// Settings of every process.
    pub base: &'a Base,
    /// NOTIFY_SOCKET, if the type allows it.
    pub notify_socket: Option<&'a str>,
    /// More variables set by init; the unit cannot override them.
    pub extra: &'a [(String, String)],
    /// Descriptors 0, 1 and 2 of the program.
    pub stdio: [Rc<OwnedFd>; 3],
    /// Descriptors 3, 4 … of the program, with LISTEN_FDS, LISTEN_PID and LISTEN_FDNAMES
    /// (sd_listen_fds(3)).
    pub listen: Vec<(String, Rc<OwnedFd>)>,
    /// The write end that becomes the unit's `ready-fd`.
    pub ready: Option<Rc<OwnedFd>>,
    /// The cgroup of the child; `None` means that of PID 1.
    pub place: Option<Place>,
    /// True if another action waits for the exec.
    pub is_awaited: bool,
}

/// The failure of a command of the unit at this step.
pub(crate) fn failure(
    unit: &str,
    run: &Run,
    line: Option<&ExecLine>,
    (step, errno, detail): SetupError,
) -> ExecFailure {
    let index = detail as usize;
    let program = || {
        let literal = |piece: &Piece| match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Variable(name) | Piece::Split(name) => format!("${{{name}}}"),
            Piece::MainPid => "$MAINPID".to_string(),
        };
        let first = line.and_then(|line| line.words.first());
        first.into_iter().flatten().map(literal).collect::<String>()
    };
    let who = || {
        let number = |id: Option<u32>| id.map(|id| id.to_string());
        let who = ids(run);
        who.and_then(|ids| ids.user.clone().or(number(ids.uid)).or(number(ids.gid)))
    };
    let particular = run.particular.as_deref();
    let condition = || particular?.conditions.get(index).map(Condition::words);
    let (stage, path) = match step {
        Step::Begin => (Stage::Fork, Some(program())),
        Step::Cgroup => (Stage::Cgroup, Some(unit.to_string())),
        Step::Session => (Stage::Session, Some(program())),
        Step::Stdio => {
            // The file or terminal of the stream, or the program if the stream is neither.
            let path = particular.and_then(|p| Stream::path(detail, &p.stdio));
            (Stage::Stdio, Some(path.map_or_else(program, str::to_string)))
        }
        Step::Condition => (Stage::Condition, condition()),
        Step::Assert => (Stage::Assert, condition()),
        Step::Directory => {
            let directories = particular.iter().flat_map(|p| &p.directories);
            (Stage::Directory, directories.flat_map(directory::paths).nth(index))
        }
        Step::Schedule => (Stage::Schedule, SCHEDULING.get(index).map(ToString::to_string)),
        Step::Root => (Stage::Root, particular.and_then(|p| p.root_dir.clone())),
        Step::Rights => (Stage::Rights, Some("its capabilities".to_string())),
        Step::EnvFile => (Stage::EnvFile, run.env_file.get(index).map(|file| file.path.clone())),
        Step::ExecLine => (Stage::ExecLine, Some(program())),
        Step::Limits => (Stage::Limits, Some(format!("limit {}", resource_name(detail)))),
        Step::Group => (Stage::Group, who()),
        Step::User => (Stage::User, who()),
        Step::WorkingDir => (Stage::WorkingDir, Some(working_dir(run))),
        Step::Execve if detail == WITHOUT_INTERPRETER && errno == libc::ENOENT => {
            (Stage::Interpreter, Some(program()))
        }
        Step::Execve => (Stage::Execve, Some(program())),
    };
    ExecFailure { stage, errno, path: path.unwrap_or_default() }
}

/// The resolved user and groups of the unit, if it names any.
fn ids(run: &Run) -> Option<&Ids> {
    run.credentials.as_ref()?.ids.as_ref().ok()
}

/// The working directory; `~` is the user's home.
fn working_dir(run: &Run) -> String {
    if run.working_dir != "~" {
        return run.working_dir.clone();
    }
    let home = ids(run).and_then(|ids| ids.home.clone());
    home.or_else(|| std::env::var("HOME").ok()).unwrap_or_else(|| "/root".to_string())
}

//! Settings of all verbs: which init to ask, and how to print.

use crate::arguments::{Colour, Common};
use crate::connection::Connection;
use crate::exit::{Error, Exit};
use crate::report::{self, Digest};
use crate::spelling;
use crate::style::{self, Style, Tone};
use groundstate_units::control::answer::{Failure, Pong, SCHEMA, Status};
use groundstate_units::control::place::{
    Places, SYSTEM_RUNTIME, control_socket, login_runtime, private_dir,
};
use groundstate_units::control::request::{Role, Verb};
use groundstate_units::text::encoding::visible_json;
use groundstate_units::text::wall_clock::WallTime;
use nix::unistd::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::io::{IsTerminal, Write, stderr, stdin, stdout};
use std::time::{SystemTime, UNIX_EPOCH};

/// The settings of one call of the program.
pub(crate) struct Session {
    /// The control socket.
    pub(crate) socket: String,
    /// Default paths of this user, for use without init.
    pub(crate) places: Places,
    /// Print JSON.
    pub(crate) json: bool,
    /// The text style.
    pub(crate) style: Style,
}

impl Session {
    /// Creates the session from the command line and the environment.
    pub(crate) fn new(common: &Common) -> Session {
        Session::of(common, Instance::Any)
    }

    /// Like [`Self::new`], for a given instance.
    pub(crate) fn of(common: &Common, instance: Instance) -> Session {
        let places = Places::of(geteuid().as_raw(), variable);
        let given = common.socket.as_ref().map(|path| path.to_string_lossy().into_owned());
        let given = given.or_else(|| variable("GROUNDSTATE_SOCKET"));
        let socket = given.unwrap_or_else(|| default_socket(&places, instance));
        let style = Style {
            colour: colour(common.color, stdout().is_terminal()),
            width: stdout().is_terminal().then(columns),
        };
        Session { socket, places, json: common.json, style }
    }

    /// Opens a new connection.
    pub(crate) fn connect(&self) -> Result<Connection, Error> {
        Connection::open(&self.socket)
    }

    /// Sends a request on its own connection.
    pub(crate) fn ask(&self, verb: Verb) -> Result<Box<RawValue>, Error> {
        let asked = subject(&verb);
        let mut connection = self.connect()?;
        let answer = connection.ask(&verb);
        if answer.is_ok() && connection.was_asked_again() && verb.role() != Role::Read {
            let remark = "the connection to init was lost before the answer and the request was sent \
                          again: init may have executed it twice";
            self.remark(remark);
        }
        match answer {
            Err(Error::Failed(_, failure)) if failure.kind == Failure::UNKNOWN_TARGET => {
                Err(self.with_guess(asked, failure))
            }
            other => other,
        }
    }

    /// Like [`Self::ask`], parsed. Verbs with `--json` print the raw value, so that fields of a
    /// newer init are kept.
    pub(crate) fn ask_as<T: DeserializeOwned>(
        &self,
        verb: Verb,
    ) -> Result<(T, Box<RawValue>), Error> {
        let answer = self.ask(verb)?;
        match read(&answer) {
            Ok(value) => Ok((value, answer)),
            Err(error) => Err(self.with_version(error)),
        }
    }

    /// Adds init's version to an error, if init reports it.
    fn with_version(&self, error: Error) -> Error {
        #[derive(serde::Deserialize)]
        struct Version {
            version: String,
        }
        let pong = self.ask(Verb::Ping {}).and_then(|answer| read::<Version>(&answer));
        match (error, pong) {
            (Error::Failed(exit, mut failure), Ok(init)) => {
                let ours = env!("CARGO_PKG_VERSION");
                failure.hint = format!("init is version {}, initctl is {ours}", init.version);
                Error::Failed(exit, failure)
            }
            (error, _) => error,
        }
    }

    /// Returns init's paths and version, or `None` without an init.
    pub(crate) fn init(&self) -> Result<Option<Pong>, Error> {
        match self.ask_as::<Pong>(Verb::Ping {}) {
            Ok((pong, _)) => Ok(Some(pong)),
            Err(Error::Failed(Exit::NoInit, _)) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// Returns init's answer to a ping.
    pub(crate) fn ping(&self) -> Result<Box<RawValue>, Error> {
        self.connect()?.ping()
    }

    /// Returns true if a user at a terminal reads the text of this call.
    pub(crate) fn is_at_terminal(&self) -> bool {
        !self.json && stdin().is_terminal() && stdout().is_terminal()
    }

    /// Returns true if root asks the init of this machine or container.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        geteuid().is_root() && self.socket == control_socket(&self.places.runtime_dir)
    }

    /// Prints an answer as JSON, or as the text from `text`.
    pub(crate) fn show(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Error> {
        if self.json { print_json(value) } else { print(&text()) }
    }

    /// Prints a remark for users, unless `--json` is set.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            warn(text);
        }
    }

    /// Adds "did you mean" from the names of units, and of the targets that a unit provides.
    /// `asked` has the unknown name and the exit code, from [`subject`].
    fn with_guess(&self, asked: Option<(String, Exit)>, mut failure: Failure) -> Error {
        let Some((name, exit)) = asked else { return Error::answered(failure) };
        if let Ok((status, _)) = self.ask_as::<Status>(Verb::Status { targets: Vec::new() }) {
            // A name in an optional dependency is a target too, although no unit provides it.
            let provided = status.targets.iter().filter(|target| target.unit.is_some());
            let targets = provided.map(|target| target.target.as_str());
            let units = status.units.iter().map(|unit| unit.unit.as_str());
            failure.hint = match spelling::nearest(&name, targets.chain(units)) {
                Some(near) => format!("did you mean `{near}`?"),
                None if failure.hint.is_empty() => "`initctl status --all` lists all".to_string(),
                None => failure.hint,
            };
        }
        Error::Failed(exit, failure)
    }
}

/// The init to use if no socket is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instance {
    /// The instance of this user, or else that of the machine.
    Any,
    /// The instance of the machine, or else that of this user.
    SystemFirst,
    /// The instance of the machine.
    System,
    /// The instance of this user.
    User,
}

/// The control socket of an instance.
fn default_socket(places: &Places, instance: Instance) -> String {
    let uid = geteuid().as_raw();
    let has_runtime_dir = variable("XDG_RUNTIME_DIR").is_some();
    let private = private_dir(uid, variable);
    let mut dirs = runtime_dirs(places, uid, has_runtime_dir, &private, instance).into_iter();
    let first = dirs.next().map_or_else(String::new, |dir| control_socket(&dir));
    let is_there = |path: &String| std::fs::symlink_metadata(path).is_ok();
    let mut sockets = std::iter::once(first.clone()).chain(dirs.map(|dir| control_socket(&dir)));
    sockets.find(is_there).unwrap_or(first)
}

/// The runtime directories that may have the socket of an instance, the preferred one first.
fn runtime_dirs(
    places: &Places,
    uid: u32,
    has_runtime_dir: bool,
    private: &str,
    instance: Instance,
) -> Vec<String> {
    let mut user = vec![places.runtime_dir.clone()];
    if !has_runtime_dir {
        // `ssh HOST COMMAND` reads no profile, which would set XDG_RUNTIME_DIR.
        user.push(login_runtime(uid));
    }
    // `private` is the runtime directory of a PID 1 with this uid that cannot write to /run, as in a
    // container with a read-only root.
    let system = vec![SYSTEM_RUNTIME.to_string(), private.to_string()];
    match instance {
        Instance::Any => [user, system].concat(),
        Instance::SystemFirst => [system, user].concat(),
        Instance::System => system,
        Instance::User => user,
    }
}

/// Returns the name in a request, and the exit code if that name is unknown. Of several names it is
/// the first.
#[expect(clippy::wildcard_enum_match_arm, reason = "only these are about one name")]
fn subject(verb: &Verb) -> Option<(String, Exit)> {
    let (name, exit) = match verb {
        Verb::Status { targets }
        | Verb::Restart { targets }
        | Verb::ReloadUnit { targets }
        | Verb::Kill { targets, .. }
        | Verb::Retry { targets } => (targets.first()?, Exit::Usage),
        Verb::Why { target } | Verb::Cat { target } => (target, Exit::Usage),
        Verb::SetTarget { targets, .. } | Verb::Plan { targets, .. } => {
            (targets.first()?, Exit::Refused)
        }
        Verb::Want { target, .. } | Verb::Unwant { target } => (target, Exit::Refused),
        _ => return None,
    };
    Some((name.to_string(), exit))
}

/// Parses an answer.
pub(crate) fn read<T: DeserializeOwned>(answer: &RawValue) -> Result<T, Error> {
    serde_json::from_str(answer.get()).map_err(|error| {
        let message = format!("cannot parse the answer of init ({error})");
        let hint = "initctl and init may be of different versions";
        Error::Failed(Exit::NoInit, Failure::new("version", message, hint))
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Decides whether to use colours.
fn colour(when: Colour, terminal: bool) -> bool {
    match when {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            terminal
                && variable("NO_COLOR").is_none()
                && variable("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

/// Returns true if the user can be asked.
pub(crate) fn is_interactive() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

fn columns() -> usize {
    let configured = variable("COLUMNS").and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    // A serial line reports 0 columns.
    configured.or_else(measured).filter(|columns| *columns > 0).unwrap_or(80)
}

/// The current wall-clock time.
pub(crate) fn now() -> WallTime {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The kernel's host name.
pub(crate) fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "localhost".to_string() } else { name.trim().to_string() }
}

/// Prints text to stdout.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = stdout().lock();
    out.write_all(style::escaped(text).as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(())
}

/// Prints one JSON object per line.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(value)
        .map_err(|error| Error::local(format!("cannot be written as JSON: {error}"), ""))?;
    let mut out = stdout().lock();
    out.write_all(visible_json(&line).as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

#[derive(Serialize)]
struct Complaint<'a> {
    schema: u32,
    error: &'a Failure,
}

/// Prints a failure: as JSON on stdout, or as text on stderr.
pub(crate) fn complain(failure: &Failure, json: bool) {
    // An error on stderr cannot be reported.
    let _ = match json.then(|| complain_json(failure)) {
        Some(Ok(()) | Err(Error::OutputClosed)) => Ok(()),
        Some(Err(_)) | None => complain_text(failure),
    };
}

fn complain_json(failure: &Failure) -> Result<(), Error> {
    if let Some(report) = &failure.report {
        return print_json(report);
    }
    print_json(&Complaint { schema: SCHEMA, error: failure })
}

fn complain_text(failure: &Failure) -> Result<(), Error> {
    let terminal = stderr().is_terminal();
    let colour = colour(Colour::Auto, terminal);
    let text = complaint(failure, &Style { colour, width: terminal.then(columns) });
    stderr().write_all(style::escaped(&text).as_bytes())?;
    Ok(())
}

/// Formats a failure.
pub(crate) fn complaint(failure: &Failure, style: &Style) -> String {
    let diagnostics = failure.report.as_ref().map_or(&[][..], |report| &report.diagnostics);
    let mut text = report::render_digest(diagnostics, style);
    // A message or a hint that repeats a diagnostic above is not printed again.
    let digest = Digest::of(diagnostics);
    let mut messages = digest.shown().map(|said| &said.message).filter(|text| !text.is_empty());
    let fact = match messages.any(|message| failure.message.contains(message)) {
        true => "refused, nothing has changed",
        false => failure.message.as_str(),
    };
    let hint = match digest.shown().any(|said| said.hint == failure.hint) {
        true => "",
        false => failure.hint.as_str(),
    };
    text.push_str(&format!("{} {fact}\n", style.paint(Tone::Bad, "initctl:")));
    let lines: Vec<&str> = hint.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [hint] => text.push_str(&format!("hint: {}\n", style.hang(hint, 6, 6))),
        lines => {
            for (at, line) in lines.iter().enumerate() {
                let lead = if at == 0 { "hint: " } else { "      " };
                text.push_str(&format!("{lead}{line}\n"));
            }
        }
    }
    text
}

/// Prints a line to stderr and ignores errors.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(stderr(), "{}", style::escaped(text));
}

/// Redraws the progress line of a terminal.
pub(crate) fn redraw(text: &str) {
    let mut err = stderr().lock();
    let _ = write!(err, "\r\u{1b}[2K{}", style::escaped(text)).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_of_a_login_is_found_with_and_without_its_variable() {
        let places = |runtime: Option<&str>| {
            let runtime = runtime.map(str::to_string);
            Places::of(1000, |name| runtime.clone().filter(|_| name == "XDG_RUNTIME_DIR"))
        };
        let (login, private) = ("/run/user/1000/groundstate", "/tmp/groundstate-1000");
        let dirs = |places: &Places, is_set, instance| {
            runtime_dirs(places, 1000, is_set, private, instance)
        };
        let set = places(Some("/run/user/1000"));
        assert_eq!(dirs(&set, true, Instance::User), [login]);
        let unset = places(None);
        assert_eq!(dirs(&unset, false, Instance::User), [private, login]);
        assert_eq!(dirs(&unset, false, Instance::Any), [private, login, SYSTEM_RUNTIME, private]);
        let system_first = dirs(&set, true, Instance::SystemFirst);
        assert_eq!(system_first, [SYSTEM_RUNTIME, private, login]);
    }
}

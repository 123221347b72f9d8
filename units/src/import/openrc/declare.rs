//! Converts a script that only declares: no function of its own starts or stops anything, and every
//! value that matters could be read. The unit needs nothing of OpenRC. Anything that does not fit
//! is a reason, and with any reason the script is wrapped instead ([`super::wrapping`]).
//!
//! References: openrc-run(8), and its guides to service scripts and to supervise-daemon.

use super::daemon_option::{self, Given, Meaning};
use super::declaration::{Declaration, Reason};
use super::reading::Reading;
use super::script::Script;
use super::unit::Unit;
use super::variables::Value;
use super::{function, signalling, table};
use crate::import::import_outcome::Outcome;
use crate::import::systemd::quote;
use crate::spec::Kind;
use crate::spec::value;
use crate::text::diagnostic::Place;
use std::collections::BTreeMap;

/// Returns the kind of the unit, before anything else is known.
pub(super) fn kind(reading: &mut Reading) -> Kind {
    let given = |reading: &mut Reading, name: &str| {
        reading.place(name).is_some() && !matches!(reading.text(name), Ok(None))
    };
    if !given(reading, "command") {
        return Kind::Virtual;
    }
    let notify = reading.text("notify").ok().flatten().unwrap_or_default();
    if notify.starts_with("socket") {
        return Kind::ForegroundNotified;
    }
    let background = reading.is_yes("command_background").unwrap_or(false);
    let arguments = reading.words("start_stop_daemon_args").unwrap_or_default();
    let options = daemon_option::read(&arguments, false);
    let asks = |given: &Given| given.meaning == Some(Meaning::Yes("command_background"));
    if is_supervised(reading) || background || options.iter().any(asks) {
        return Kind::ForegroundSupervised;
    }
    Kind::BackgroundPidfile
}

fn is_supervised(reading: &mut Reading) -> bool {
    reading.word("supervisor").is_ok_and(|word| word.as_deref() == Some("supervise-daemon"))
}

/// Fills the unit and the outcomes.
pub(super) fn declare(reading: &mut Reading, unit: &mut Unit, script: &Script<'_>) -> Vec<Reason> {
    let supervised = is_supervised(reading);
    let mut this = Declaration {
        reading,
        unit,
        outcomes: BTreeMap::new(),
        options: Vec::new(),
        reasons: Vec::new(),
        supervised,
    };
    this.check_shell_commands();
    if !this.reasons.is_empty() {
        return this.reasons;
    }
    this.supervisor();
    this.description();
    if this.unit.kind != Kind::Virtual {
        this.command();
        this.daemon_options();
        table::apply(&mut this);
        signalling::stop(&mut this);
        this.restart();
        this.environment();
    }
    function::tell(&mut this, script);
    this.outcomes();
    this.reasons
}

impl Declaration<'_> {
    /// Checks commands that the shell would run in any case.
    fn check_shell_commands(&mut self) {
        let passed = self.reading.passed.iter();
        let reasons = passed.filter_map(|passed| {
            let what = passed.matters.as_ref()?.to_string();
            Some(Reason { at: passed.at.clone(), what })
        });
        self.reasons.extend(reasons);
        for (at, why) in &self.reading.broken {
            self.reasons.push(Reason { at: at.clone(), what: (*why).to_string() });
        }
        for name in ["start", "start_post", "stop", "stop_pre", "stop_post"] {
            if let Some(at) = self.reading.functions.get(name) {
                let what = format!("{name}() is the script's own");
                self.reasons.push(Reason { at: at.clone(), what });
            }
        }
    }

    fn supervisor(&mut self) {
        match self.word("supervisor").as_deref() {
            None => {}
            Some("supervise-daemon") => self.kept("supervisor", "type, restart"),
            Some(other) => {
                let at = self.place("supervisor");
                self.reason(at, format!("its supervisor is `{other:.40}`"));
            }
        }
    }

    fn description(&mut self) {
        for name in ["description", "name"] {
            let Ok(Some(text)) = self.reading.text(name) else { continue };
            if self.unit.manifest().entry("description").is_some() {
                self.needless(name, "the unit has a description");
                continue;
            }
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let at = self.place(name);
            self.unit.put("description", &text, &at);
            self.kept(name, "description");
        }
    }

    fn command(&mut self) {
        let program = self.words("command");
        let [program] = program.as_slice() else {
            let at = self.place("command");
            return self.reason(at, "command: it is not one word".to_string());
        };
        let bare = !program.contains('/')
            && program.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if !bare && value::path(program).is_err() {
            let at = self.place("command");
            return self.reason(at, format!("command: `{program:.60}` is not an absolute path"));
        }
        let foreground = self.unit.kind != Kind::BackgroundPidfile;
        let mut words = vec![quote(program)];
        for (name, used) in [
            ("command_args", true),
            ("command_args_foreground", self.supervised),
            ("command_args_background", !self.supervised),
        ] {
            if !used {
                self.needless(name, "it is for another supervisor");
                continue;
            }
            let more = self.words(name);
            words.extend(more.iter().map(|word| quote(&word.replace('$', "$$"))));
            self.kept(name, "exec-start");
        }
        let at = self.place("command");
        self.unit.put("exec-start", &words.join(" "), &at);
        self.kept("command", "exec-start");
        let background = self.reading.is_yes("command_background");
        self.got("command_background", background);
        self.kept("command_background", "type");
        self.process(foreground);
    }

    /// Determines the main process.
    fn process(&mut self, foreground: bool) {
        if foreground {
            let why = "no pid file is written: init knows the process";
            return self.needless("pidfile", why);
        }
        let chroot = self.word("chroot").unwrap_or_default();
        match self.word("pidfile") {
            Some(path) => {
                let path = format!("{chroot}{path}");
                let path = match path.strip_prefix("/var/run/") {
                    Some(below) => format!("/run/{below}"),
                    None => path,
                };
                let at = self.place("pidfile");
                self.unit.put("pid-file", &path, &at);
                self.kept("pidfile", "pid-file");
            }
            None => {
                let at = self.place("command");
                self.unit.put("main-pid", "guess", &at);
                let message = "it names no pidfile: the only process left after the start counts as \
                               the main one; a program that stays in the foreground never becomes \
                               ready";
                self.unit.warn("main-pid", &at, message.to_string());
            }
        }
    }

    /// Handles additional options of its starter.
    fn daemon_options(&mut self) {
        let own = "supervise_daemon_args";
        let is_unset = self.reading.text(own).is_ok_and(|text| text.is_none());
        let name = if self.supervised && !is_unset { own } else { "start_stop_daemon_args" };
        let other = if name == own { "start_stop_daemon_args" } else { own };
        self.needless(other, "it is for another supervisor");
        let words = self.words(name);
        let at = self.place(name);
        for option in daemon_option::read(&words, self.supervised) {
            let outcome = self.daemon_option(&option, &at);
            self.options.push((
                format!("{name} {}", option.name),
                option.value,
                at.clone(),
                outcome,
            ));
        }
        self.needless(name, "its options are listed one by one");
    }

    fn daemon_option(&mut self, option: &Given, at: &Place) -> Outcome {
        let Some(meaning) = option.meaning else {
            return Outcome::Lost("it is not known".to_string());
        };
        let value = option.value.as_str();
        match meaning {
            Meaning::Key(key) => table::put(self, key, value, at),
            Meaning::User => table::account(self, value, at),
            Meaning::Variable => match value.split_once('=') {
                Some((name, value)) if self.unit.pair("env", name, value, at) => {
                    Outcome::Kept("env".to_string())
                }
                _ => Outcome::Lost("it is no `NAME=value`".to_string()),
            },
            Meaning::Output(key) => table::output(self, key, value, at),
            Meaning::Wait => self.wait(value, at),
            Meaning::Io => table::io(self, value, at),
            Meaning::As(name) | Meaning::Yes(name) => {
                let taken = self.reading.text(name).ok().flatten().is_some();
                if taken && name != "command_background" {
                    return Outcome::ByDesign(format!("{name} says it too"));
                }
                let value = if meaning == Meaning::Yes(name) { "yes" } else { value };
                self.reading.variables.set(name, Value::Set(value.to_string()));
                if name == "pidfile" {
                    self.process(self.unit.kind != Kind::BackgroundPidfile);
                }
                Outcome::ByDesign(format!("it counts as {name}"))
            }
            Meaning::Needless(why) => Outcome::ByDesign(why.to_string()),
            Meaning::Lost(how) => Outcome::Lost(how.to_string()),
            Meaning::Other(why) => {
                self.reason(at.clone(), format!("{}: {why}", option.name));
                Outcome::ByDesign(why.to_string())
            }
        }
    }

    fn wait(&mut self, value: &str, at: &Place) -> Outcome {
        if !self.unit.takes("ready-wait") || !value::is_plain_number(value) {
            return Outcome::ByDesign("init waits until it is ready, or has failed".to_string());
        }
        self.unit.put("ready-wait", &format!("{value}ms"), at);
        Outcome::Kept("ready-wait".to_string())
    }

    /// Sets the restarts: start-stop-daemon starts once, supervise-daemon restarts, ten times by
    /// default.
    fn restart(&mut self) {
        if !self.supervised {
            self.unit.put_default("restart", "never");
            return;
        }
        self.unit.put_default("restart", "always");
        if let Some(delay) = self.number("respawn_delay") {
            let at = self.place("respawn_delay");
            self.unit.put("restart-delay", &format!("{delay}s"), &at);
            if delay > 60 {
                self.unit.put("restart-delay-max", &format!("{delay}s"), &at);
            }
            self.kept("respawn_delay", "restart-delay");
        }
        let most = self.number("respawn_max").unwrap_or(10);
        let period = self.number("respawn_period");
        let limit = match (most, period) {
            (0, _) => "none".to_string(),
            (most, None | Some(0)) => most.saturating_add(1).to_string(),
            (most, Some(period)) => format!("{}/{period}s", most.saturating_add(1)),
        };
        let at = self.place("respawn_max");
        self.unit.put("restart-limit", &limit, &at);
        self.kept("respawn_max", "restart-limit");
        self.kept("respawn_period", "restart-limit");
    }

    fn number(&mut self, name: &str) -> Option<u32> {
        let word = self.word(name)?;
        match word.parse::<u32>() {
            Ok(number) => Some(number),
            Err(_) => {
                let at = self.place(name);
                self.reason(at, format!("{name}: `{word:.40}` is not a number"));
                None
            }
        }
    }

    /// Adds exported variables to the environment.
    fn environment(&mut self) {
        for (name, at) in std::mem::take(&mut self.reading.exported) {
            match self.reading.variables.get(&name) {
                Value::Set(value) => match self.unit.pair("env", &name, &value, &at) {
                    true => self.kept(&name, "env"),
                    false => self.lost(&name, "the unit has too many variables already"),
                },
                Value::Unset => self.needless(&name, "it has no value"),
                Value::Unknown(why) => self.reason(at, format!("{name}: {why}")),
            }
        }
    }

    /// Records the outcome of each assignment and each other top-level item.
    fn outcomes(&mut self) {
        for (name, value, at, outcome) in std::mem::take(&mut self.options) {
            self.unit.record_outcome(super::reading::SCRIPT, &name, &value, &at, outcome);
        }
        for assignment in &self.reading.assignments {
            let name = assignment.name.as_str();
            let outcome = match self.outcomes.get(name) {
                Some(outcome) => outcome.clone(),
                None => table::otherwise(name, self.unit.kind),
            };
            self.unit.record_outcome(
                assignment.section,
                name,
                &assignment.raw,
                &assignment.at,
                outcome,
            );
        }
        for passed in &self.reading.passed {
            let why = "it only tests or prints something; commands that depend on it are listed at \
                       their place";
            let outcome = Outcome::ByDesign(why.to_string());
            self.unit.record_outcome(
                passed.section,
                &passed.name,
                &passed.raw,
                &passed.at,
                outcome,
            );
        }
        for (name, (section, at)) in &self.reading.unset {
            let why = "the script does not set it: it is empty unless rc.conf sets it";
            let outcome = Outcome::ByDesign(why.to_string());
            self.unit.record_outcome(section, &format!("${name}"), "", at, outcome);
        }
    }
}

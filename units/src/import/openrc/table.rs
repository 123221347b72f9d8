//! Variables of a service script that are independent of each other: the native key, the conversion
//! of the value, or the reason why it is left out. [`super::declare`] and [`super::signalling`]
//! handle combinations.

use super::declaration::Declaration;
use super::reading::SCRIPT;
use crate::import::import_outcome::Outcome;
use crate::spec::Kind;
use crate::spec::value;
use crate::text::capability;
use crate::text::diagnostic::Place;
use crate::unit::account::Account;
use crate::unit::resource;

/// Variables whose value becomes the value of a key.
const PLAIN: [(&str, &str); 5] = [
    ("directory", "working-dir"),
    ("chroot", "root-dir"),
    ("umask", "umask"),
    ("SSD_NICELEVEL", "nice"),
    ("SSD_OOM_SCORE_ADJ", "oom-score-adjust"),
];

/// Variables that are left out, and the effect of that.
const LOST: [(&str, &str); 10] = [
    ("output_logger", "its output goes to the log of init instead"),
    ("error_logger", "its output goes to the log of init instead"),
    ("start_inactive", "it is active once it is ready"),
    ("in_background_fake", "it is active once it is ready"),
    ("healthcheck_delay", "init runs no health checks"),
    ("healthcheck_timer", "init runs no health checks"),
    ("secbits", "its secure bits are init's"),
    ("s6_service_path", "there is no s6"),
    ("extra_stopped_commands", "its commands are not imported"),
    ("opts", "its commands are not imported"),
];

/// Variables that have no effect here.
const NEEDLESS: [(&str, &str); 12] = [
    ("supervisor", "it names none"),
    ("command", "it names none"),
    ("procname", "init knows the process"),
    ("command_progress", "init reports the progress of a stop"),
    ("pidfile", "init knows the process"),
    ("rc_verbose", "it only concerns messages of OpenRC"),
    ("rc_debug", "it only concerns messages of OpenRC"),
    ("rc_quiet", "it only concerns messages of OpenRC"),
    ("rc_parallel", "units start beside each other"),
    ("rc_cgroup_cleanup", "init kills all processes of a stopped unit anyway"),
    ("rc_crashed_start", "init detects crashes itself"),
    ("rc_crashed_stop", "init detects crashes itself"),
];

/// Letters of sh's `ulimit`: the resource, and the size of one unit of it.
const ULIMITS: [(char, &str, u64); 16] = [
    ('c', "core", 512),
    ('d', "data", 1024),
    ('e', "nice", 1),
    ('f', "fsize", 512),
    ('i', "sigpending", 1),
    ('l', "memlock", 1024),
    ('m', "rss", 1024),
    ('n', "nofile", 1),
    ('p', "nproc", 1),
    ('q', "msgqueue", 1),
    ('r', "rtprio", 1),
    ('s', "stack", 1024),
    ('t', "cpu", 1),
    ('u', "nproc", 1),
    ('v', "as", 1024),
    ('w', "locks", 1),
];

/// Converts all variables.
pub(super) fn apply(this: &mut Declaration<'_>) {
    for (name, key) in PLAIN {
        if let Some(word) = this.word(name) {
            let at = this.place(name);
            this.unit.put(key, &word, &at);
            this.kept(name, key);
        }
    }
    for (name, key) in [("output_log", "stdout"), ("error_log", "stderr")] {
        if let Some(path) = this.word(name) {
            let at = this.place(name);
            let outcome = output(this, key, &path, &at);
            this.outcomes.insert(name.to_string(), outcome);
        }
    }
    for (name, key) in
        [("required_files", "assert-path-exists"), ("required_dirs", "assert-path-is-directory")]
    {
        let at = this.place(name);
        for path in this.words(name) {
            this.unit.add(key, &path, &at);
            this.kept(name, key);
        }
    }
    if let Some(account) = this.word("command_user") {
        let at = this.place("command_user");
        let outcome = self::account(this, &account, &at);
        this.outcomes.insert("command_user".to_string(), outcome);
    }
    if let Some(level) = this.word("SSD_IONICELEVEL") {
        let at = this.place("SSD_IONICELEVEL");
        let outcome = io(this, &level, &at);
        this.outcomes.insert("SSD_IONICELEVEL".to_string(), outcome);
    }
    let no_new = this.reading.text("no_new_privs");
    if this.got("no_new_privs", no_new).flatten().is_some() {
        let at = this.place("no_new_privs");
        this.unit.put("no-new-privileges", "yes", &at);
        this.kept("no_new_privs", "no-new-privileges");
    }
    notify(this);
    capabilities(this);
    ulimit(this);
}

/// Returns the outcome of a variable that has none yet.
pub(super) fn otherwise(name: &str, kind: Kind) -> Outcome {
    if let Some((_, how)) = LOST.iter().find(|(known, _)| *known == name) {
        return Outcome::Lost((*how).to_string());
    }
    if let Some((_, why)) = NEEDLESS.iter().find(|(known, _)| *known == name) {
        return Outcome::ByDesign((*why).to_string());
    }
    let why = match name {
        "extra_commands" | "extra_started_commands" => "its functions are listed one by one",
        _ if name.starts_with("description_") => "its function is listed",
        _ if name.starts_with("rc_cgroup") || name.starts_with("rc_cpu") => {
            return Outcome::Weaker("init sets no resource limit for it".to_string());
        }
        _ if is_relation(name) => "its words are listed one by one",
        _ if name.starts_with("rc_") => return Outcome::Lost("it is not known".to_string()),
        _ if kind == Kind::Virtual => "without a command the unit has no process that could use it",
        _ => "a variable of the script: its value is inserted at each use",
    };
    Outcome::ByDesign(why.to_string())
}

/// `rc_need`, `rc_web_need`.
fn is_relation(name: &str) -> bool {
    let behind = name.strip_prefix("rc_").and_then(|name| name.rsplit('_').next());
    behind.is_some_and(|verb| super::relation::VERBS.contains(&verb))
}

/// Uses the value unchanged.
pub(super) fn put(this: &mut Declaration<'_>, key: &str, text: &str, at: &Place) -> Outcome {
    this.unit.put(key, text, at);
    Outcome::Kept(key.to_string())
}

/// `user`, `user:group`.
pub(super) fn account(this: &mut Declaration<'_>, text: &str, at: &Place) -> Outcome {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    for (key, name) in [("user", user), ("group", group)] {
        if name.is_empty() {
            continue;
        }
        if let Err(why) = Account::parse(name) {
            this.reason(at.clone(), format!("{key}: {why}"));
        }
        this.unit.put(key, name, at);
    }
    Outcome::Kept("user, group".to_string())
}

/// A file to append output to.
pub(super) fn output(this: &mut Declaration<'_>, key: &str, path: &str, at: &Place) -> Outcome {
    this.unit.put(key, &format!("append:{path}"), at);
    Outcome::Kept(key.to_string())
}

/// `class`, `class:level`, in numbers.
pub(super) fn io(this: &mut Declaration<'_>, text: &str, at: &Place) -> Outcome {
    let (class, level) = text.split_once(':').unwrap_or((text, ""));
    let words = ["none", "realtime", "best-effort", "idle"];
    let class = class.parse::<usize>().ok().and_then(|class| words.get(class));
    let Some(class) = class else {
        return Outcome::Lost("it is not a class from 0 to 3".to_string());
    };
    this.unit.put("io-class", class, at);
    if !level.is_empty() {
        this.unit.put("io-priority", level, at);
    }
    Outcome::Kept("io-class, io-priority".to_string())
}

/// `fd:3`, `socket:ready`.
fn notify(this: &mut Declaration<'_>) {
    let Some(word) = this.word("notify") else { return };
    let at = this.place("notify");
    match word.split_once(':') {
        Some(("fd", number)) if this.unit.takes("ready-fd") => {
            this.unit.put("ready-fd", number, &at);
            this.kept("notify", "ready-fd");
        }
        Some(("socket", _)) => this.kept("notify", "type"),
        _ => this.reason(at, format!("notify: `{word:.40}` is not known for such a service")),
    }
}

/// Converts `^cap_net_bind_service,^cap_net_raw` of cap_iab(3): a plain list of ambient
/// capabilities.
fn capabilities(this: &mut Declaration<'_>) {
    let Some(list) = this.word("capabilities") else { return };
    let at = this.place("capabilities");
    let names: Option<Vec<String>> = list
        .split(',')
        .map(|word| capability::number(word.trim().strip_prefix('^')?).and_then(capability::name))
        .collect();
    let Some(names) = names else {
        return this.reason(at, format!("capabilities: `{list:.60}` is not a list of `^NAME`"));
    };
    for name in names {
        this.unit.add("capabilities-ambient", &name, &at);
    }
    this.kept("capabilities", "capabilities-ambient");
}

/// `rc_ulimit`: the options of sh's `ulimit`.
fn ulimit(this: &mut Declaration<'_>) {
    let words = this.words("rc_ulimit");
    let at = this.place("rc_ulimit");
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_at_checked(2) {
            Some((option, value)) if option.starts_with('-') => (option, value),
            _ => (word.as_str(), ""),
        };
        let value = if value.is_empty() { rest.next().map_or("", String::as_str) } else { value };
        let outcome = match limit(option, value) {
            Some((name, text)) => {
                this.unit.pair("limits", name, &text, &at);
                Outcome::Kept("limits".to_string())
            }
            None => Outcome::Lost("it is not a known limit".to_string()),
        };
        this.unit.record_outcome(SCRIPT, &format!("rc_ulimit {option:.8}"), value, &at, outcome);
    }
    this.needless("rc_ulimit", "its options are listed one by one");
}

fn limit(option: &str, value: &str) -> Option<(&'static str, String)> {
    let letter = option.strip_prefix('-')?;
    let (_, name, scale) = ULIMITS.iter().find(|(known, ..)| letter.chars().eq([*known]))?;
    let text = match value {
        "unlimited" => "infinity".to_string(),
        number if value::is_plain_number(number) => {
            number.parse::<u64>().ok()?.checked_mul(*scale)?.to_string()
        }
        _ => return None,
    };
    resource::resource_limit(name, &text).ok().map(|_| (*name, text))
}

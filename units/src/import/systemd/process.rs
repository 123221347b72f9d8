//! Directives about processes that need more than a row of the table: environment, directory,
//! output, control groups.

use super::conversion::Conversion;
use super::span::{self, Span};
use super::unit_text::UnitOption;
use crate::text::capability;
use crate::text::log_level;
use crate::unit::exec_line;
use std::collections::BTreeSet;

const SECTION: &str = "Service";

pub(super) fn convert(this: &mut Conversion<'_>) {
    environment(this);
    env_files(this);
    dynamic_user(this);
    capabilities(this);
    umask(this);
    output(this);
    log_priority(this);
    utmp_id(this);
    groups(this);
    scheduling(this);
}

fn environment(this: &mut Conversion<'_>) {
    let options = this.all(SECTION, "Environment");
    for (word, option, _) in this.words(&options) {
        match word.split_once('=') {
            Some((name, value)) if exec_line::is_variable(name) => {
                this.add_pair("env", name, value, option);
            }
            _ => {
                let message = format!("Environment=: `{word}` is not an assignment, passed over");
                this.warn(option, "dropped", &message, "");
            }
        }
    }
}

fn env_files(this: &mut Conversion<'_>) {
    for option in this.all(SECTION, "EnvironmentFile") {
        let Some(text) = this.expand(option, &option.value) else { continue };
        let path = text.strip_prefix('-').unwrap_or(&text);
        if path.starts_with('/') {
            this.add_line("env-file", &text, option);
        } else {
            this.lose(option, "it is not an absolute path");
        }
    }
}

/// Reports a user that must exist here.
fn dynamic_user(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "DynamicUser") else { return };
    if span::boolean(&option.value) != Some(true) {
        return;
    }
    let user = this.text(SECTION, "User").map(str::to_string);
    let name = user.clone().unwrap_or_else(|| this.name.prefix.replace('\\', "_"));
    if user.is_none() {
        this.put_default("user", &name);
    }
    this.lose(option, &format!("init creates no users: the user `{name}` must exist"));
}

fn umask(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "UMask") else { return };
    let bits = u32::from_str_radix(&option.value, 8).ok().filter(|bits| *bits <= 0o777);
    match bits {
        Some(bits) => this.put("umask", &format!("{bits:03o}"), option),
        None => this.lose(option, "it is not a umask"),
    }
}

fn utmp_id(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "UtmpIdentifier") else { return };
    let Some(text) = this.expand(option, &option.value) else { return };
    this.put("utmp-id", &text, option);
}

/// Converts outputs: systemd's journal becomes the logger, which is the same to a unit.
fn output(this: &mut Conversion<'_>) {
    for (name, key) in [("StandardOutput", "stdout"), ("StandardError", "stderr")] {
        let Some(option) = this.last(SECTION, name) else { continue };
        let Some(text) = this.expand(option, &option.value) else { continue };
        let log = "output goes to the log";
        match text.as_str() {
            // The default, except for an error output that must differ from stdout.
            "journal" | "syslog" | "journal+console" | "syslog+console" => {
                let apart = key == "stderr" && this.text(SECTION, "StandardOutput").is_some();
                if apart {
                    this.put(key, "log", option);
                } else {
                    this.leave_out(option, log);
                }
                no_console(this, option, &text, "the log");
            }
            "inherit" if key == "stderr" => this.leave_out(option, "it goes where stdout goes"),
            "inherit" => this.leave_out(option, log),
            "kmsg" | "kmsg+console" => {
                this.put(key, "kmsg", option);
                no_console(this, option, &text, "the kernel's log");
            }
            "null" | "tty" | "socket" => this.put(key, &text, option),
            path if ["file:", "append:", "truncate:"].iter().any(|word| path.starts_with(word)) => {
                this.put(key, path, option);
            }
            _ => this.lose(option, "not supported yet"),
        }
    }
    let Some(option) = this.last(SECTION, "StandardInput") else { return };
    let Some(text) = this.expand(option, &option.value) else { return };
    match text.as_str() {
        "null" => this.leave_out(option, "standard input is empty anyway"),
        "tty-fail" => this.put("stdin", "tty", option),
        "tty" | "tty-force" | "socket" => this.put("stdin", &text, option),
        path if path.starts_with("file:") => this.put("stdin", path, option),
        _ => this.lose(option, "not supported yet"),
    }
}

/// systemd.exec(5): lines may start with their level unless the unit says otherwise.
fn log_priority(this: &mut Conversion<'_>) {
    let prefix = this.last(SECTION, "SyslogLevelPrefix");
    match prefix.map(|option| (option, span::boolean(&option.value))) {
        None => this.put_default("log-level-prefix", "yes"),
        Some((option, Some(true))) => this.put("log-level-prefix", "yes", option),
        // The native default.
        Some((option, Some(false))) => this.leave_out(option, "lines are taken as they are"),
        Some((option, None)) => {
            this.lose(option, "it is not a boolean");
            this.put_default("log-level-prefix", "yes");
        }
    }
    if let Some(option) = this.last(SECTION, "SyslogLevel") {
        let level = log_level::level(&option.value).map(usize::from);
        match level.and_then(|level| log_level::LEVELS.get(level)) {
            Some(name) => this.put("log-level", name, option),
            None => this.lose(option, "it is not a level"),
        }
    }
    if let Some(option) = this.last(SECTION, "SyslogFacility") {
        match log_level::facility(&option.value) {
            Some(name) => this.put("log-facility", name, option),
            None => this.lose(option, "it is not a facility"),
        }
    }
}

/// Output has one destination; `+console` would add a second.
fn no_console(this: &mut Conversion<'_>, option: &UnitOption, text: &str, place: &str) {
    if text.ends_with("+console") {
        let message = format!("{}={text}: it goes to {place}, not to the console", option.name);
        this.warn(option, "dropped", &message, "");
    }
}

/// Writes each capability set after all assignments. As in systemd, the first assignment replaces
/// the initial set: all for the bounding set, none for the ambient set.
fn capabilities(this: &mut Conversion<'_>) {
    for (name, key, initial) in [
        ("CapabilityBoundingSet", "capabilities-bound", capability::all()),
        ("AmbientCapabilities", "capabilities-ambient", BTreeSet::new()),
    ] {
        let options = this.all_with_resets(SECTION, name);
        let Some(last) = options.last().copied() else { continue };
        let mut set = initial.clone();
        for option in options {
            let Some(text) = this.expand(option, &option.value) else { continue };
            let (minus, rest) = match text.strip_prefix('~') {
                Some(rest) => (true, rest.to_string()),
                None => (false, text),
            };
            let mut named = BTreeSet::new();
            for word in rest.split_whitespace() {
                match capability::number(word) {
                    Some(number) => drop(named.insert(number)),
                    None => {
                        let message = format!("{name}=: no capability is named `{word}`");
                        this.warn(option, "dropped", &message, "");
                    }
                }
            }
            // Empty means none. A single `~` means all. Unknown names alone do not extend a set.
            let replaces = rest.trim().is_empty() || set == initial;
            set = match (minus, replaces) {
                (true, true) => &capability::all() - &named,
                (false, true) => named,
                (true, false) => &set - &named,
                (false, false) => &set | &named,
            };
        }
        let names: Vec<String> = set.iter().filter_map(|n| capability::name(*n)).collect();
        this.put_list(key, &names, last);
    }
}

fn groups(this: &mut Conversion<'_>) {
    if let Some(option) = this.last(SECTION, "Slice")
        && let Some(text) = this.expand(option, &option.value)
    {
        match slice(&text) {
            Some(path) => this.put("cgroup-slice", &path, option),
            None if !text.ends_with(".slice") => {
                this.lose(option, "it is not the name of a slice");
            }
            None => this.leave_out(option, "units are in this slice anyway"),
        }
    }
    if let Some(option) = this.last(SECTION, "Delegate") {
        match span::boolean(&option.value) {
            Some(false) => this.leave_out(option, "this value requests nothing"),
            is => {
                if is.is_none() && !names_controllers(&option.value) {
                    let message = "Delegate=: no word is a controller: the cgroup is delegated";
                    this.warn(option, "invalid", message, "name controllers, or write `yes`");
                }
                this.put("cgroup-delegate", "yes", option);
            }
        }
    }
    if let Some(option) = this.last(SECTION, "TasksMax") {
        match option.value.as_str() {
            "infinity" | "100%" => this.leave_out(option, "there is no limit anyway"),
            text => this.put("cgroup-pids-max", text, option),
        }
    }
    if let Some(option) = this.last(SECTION, "CPUQuota") {
        let percent = option.value.strip_suffix('%').and_then(|text| text.parse::<u64>().ok());
        let period = match this.text(SECTION, "CPUQuotaPeriodSec").map(span::parse) {
            Some(Some(Span::Micros(micros))) => micros.clamp(1_000, 1_000_000),
            _ => 100_000,
        };
        match percent {
            Some(percent) => {
                let text = format!("{percent}%/{}", span::native(period));
                this.put("cgroup-cpu-max", &text, option);
            }
            None => this.lose(option, "it is not a share of a processor"),
        }
    }
    for (name, word) in [
        ("IOReadBandwidthMax", "rbps"),
        ("IOWriteBandwidthMax", "wbps"),
        ("IOReadIOPSMax", "riops"),
        ("IOWriteIOPSMax", "wiops"),
    ] {
        for option in this.all(SECTION, name) {
            let Some((device, most)) = option.value.split_once(char::is_whitespace) else {
                this.lose(option, "it names no device and limit");
                continue;
            };
            let numbered = device
                .split_once(':')
                .is_some_and(|(a, b)| a.bytes().chain(b.bytes()).all(|byte| byte.is_ascii_digit()));
            if !numbered && !device.starts_with('/') {
                this.lose(option, "a device is named by its path, or its number as 8:0");
            } else {
                this.add_line("cgroup-io-max", &format!("{device} {word}={}", most.trim()), option);
            }
        }
    }
    processors(this, "AllowedCPUs", "cgroup-cpuset");
}

/// Returns true if the value of `Delegate=` has a controller that systemd knows.
fn names_controllers(text: &str) -> bool {
    const CONTROLLERS: [&str; 8] =
        ["cpu", "cpuacct", "cpuset", "io", "blkio", "memory", "devices", "pids"];
    text.split_whitespace().any(|word| CONTROLLERS.contains(&word) || word.starts_with("bpf-"))
}

/// Returns the path of a slice: `a-b.slice` is within `a.slice`.
fn slice(name: &str) -> Option<String> {
    let stem = name.strip_suffix(".slice")?;
    if matches!(stem, "system" | "-") {
        return None;
    }
    let parts: Vec<&str> = stem.split('-').collect();
    let paths = (1..=parts.len()).filter_map(|end| Some(parts.get(..end)?.join("-") + ".slice"));
    Some(paths.collect::<Vec<_>>().join("/"))
}

fn processors(this: &mut Conversion<'_>, name: &str, key: &str) {
    let Some(option) = this.last(SECTION, name) else { return };
    for word in option.value.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        this.add(key, word, Some(option), option.value_at());
    }
}

fn scheduling(this: &mut Conversion<'_>) {
    if let Some(option) = this.last(SECTION, "IOSchedulingClass") {
        let text = match option.value.as_str() {
            "0" => "none",
            "1" => "realtime",
            "2" => "best-effort",
            "3" => "idle",
            text => text,
        };
        this.put("io-class", text, option);
    }
    processors(this, "CPUAffinity", "cpu-affinity");
    if let Some(option) = this.last(SECTION, "RuntimeDirectoryPreserve") {
        match option.value.as_str() {
            "restart" => this.put("runtime-dir-keep", "restart", option),
            text if span::boolean(text) == Some(true) => {
                this.put("runtime-dir-keep", "yes", option);
            }
            text if span::boolean(text).is_none() => {
                this.lose(option, "it is not `restart` or a boolean");
            }
            _ => this.leave_out(option, "this value requests nothing"),
        }
    }
}

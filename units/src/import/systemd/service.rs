//! `.service`: the type, the commands, when it is started again, how long things may take.
//! systemd's defaults are written out where they are not the native ones.

use super::command;
use super::conversion::Conversion;
use super::span::{self, Span};
use crate::exec_line;
use crate::key;
use crate::spec::Kind;

const SECTION: &str = "Service";
/// Ends of a daemon that systemd counts as clean besides exit 0 (systemd.service(5), `Restart=`).
const CLEAN_SIGNALS: [&str; 4] = ["HUP", "INT", "TERM", "PIPE"];

pub(super) fn convert(this: &mut Conversion<'_>) {
    let starts = this.all(SECTION, "ExecStart").len();
    let default = if starts == 0 { "oneshot" } else { "simple" };
    let with_bus = this.last(SECTION, "BusName").is_some() && starts > 0;
    let default = if with_bus { "dbus" } else { default };
    let said = this.last(SECTION, "Type");
    let kind = said.map_or(default, |option| option.value.as_str()).to_string();
    this.kind = match kind.as_str() {
        "simple" | "exec" | "idle" | "dbus" => Kind::ForegroundSupervised,
        "notify" | "notify-reload" => Kind::ForegroundNotified,
        "forking" => forking(this),
        "oneshot" => Kind::Oneshot,
        _ => {
            if let Some(option) = said {
                this.refuse(option, &format!("Type={kind}: no such type"), "");
            }
            return;
        }
    };
    match said {
        Some(option) => drop(this.put("type", this.kind.as_str(), option)),
        None => this.put_default("type", this.kind.as_str()),
    }
    commands(this, &kind, starts);
    readiness(this, &kind);
    restart(this, &kind);
    success(this, &kind);
    timeouts(this, &kind);
    kill(this);
    // systemd.exec(5): processes begin with SIGPIPE ignored unless the unit says otherwise.
    if this.last(SECTION, "IgnoreSIGPIPE").is_none() {
        this.put_default("ignore-sigpipe", "yes");
    }
    super::process::convert(this);
}

/// Without a pid file nobody says which process is the main one: the cgroup tells how it is.
fn forking(this: &mut Conversion<'_>) -> Kind {
    let guessed = key::find("main-pid").is_some();
    if this.last(SECTION, "PIDFile").is_some() || guessed {
        Kind::BackgroundPidfile
    } else {
        Kind::BackgroundScripted
    }
}

fn commands(this: &mut Conversion<'_>, kind: &str, starts: usize) {
    let privileged = this.flag(SECTION, "PermissionsStartOnly", false);
    if let Some(option) = this.last(SECTION, "PermissionsStartOnly") {
        let known = !privileged || exec_line::parse("+/bin/true").is_ok();
        if known {
            this.leave_out(option, "it is a prefix of the commands now");
        } else {
            this.lose(option, "not supported yet");
        }
    }
    let several = this.all(SECTION, "ExecStart");
    if let (true, Some(second)) = (starts > 1 && kind != "oneshot", several.get(1)) {
        let message = "more than one ExecStart=, which only a oneshot may have";
        this.refuse(second, message, "put what comes first into ExecStartPre=");
    }
    command::convert(this, "ExecCondition", "exec-condition", privileged);
    command::convert(this, "ExecStartPre", "exec-start-pre", privileged);
    if starts > 0 {
        command::convert(this, "ExecStart", "exec-start", false);
    }
    command::convert(this, "ExecStartPost", "exec-start-post", privileged);
    command::convert(this, "ExecReload", "exec-reload", privileged);
    command::convert(this, "ExecStop", "exec-stop", privileged);
    command::convert(this, "ExecStopPost", "exec-stop-post", privileged);
    if starts == 0 {
        let stops = this.last(SECTION, "ExecStop").is_some();
        let ends = this.last("Unit", "SuccessAction").is_some();
        if kind != "oneshot" || !(stops || ends) {
            this.refuse_unit("there is no ExecStart=");
        } else {
            this.put_default("exec-start", "/bin/true");
        }
    }
    if kind != "oneshot" {
        this.unlist("exec-start");
    }
}

fn readiness<'a>(this: &mut Conversion<'a>, kind: &str) {
    match kind {
        "notify" | "notify-reload" => {
            this.put_default("notify-access", "main");
            if kind == "notify-reload" && this.last(SECTION, "ReloadSignal").is_none() {
                this.put_default("reload-signal", "HUP");
            }
        }
        "idle" => this.put_default("start-idle", "yes"),
        _ => {}
    }
    if let Some(option) = this.last(SECTION, "BusName") {
        let declared = this.text(SECTION, "Type").is_none_or(|kind| kind == "dbus");
        match (declared, this.expand(option, &option.value)) {
            (false, _) => this.leave_out(option, "its type says otherwise when it is ready"),
            (true, Some(name)) if key::find("ready-dbus").is_some() => {
                this.put("ready-dbus", &name, option);
            }
            (true, Some(name)) if key::find("ready-exec").is_some() => {
                let test = format!(
                    "/bin/sh -c \"dbus-send --system --print-reply --dest=org.freedesktop.DBus / \
                     org.freedesktop.DBus.NameHasOwner string:{name} | grep -q true\""
                );
                this.put("ready-exec", &test, option);
            }
            (true, _) => this.lose(option, "it counts as ready once it runs"),
        }
    }
    if let Some(option) = this.last(SECTION, "PIDFile") {
        match (this.kind, this.expand(option, &option.value)) {
            (Kind::BackgroundPidfile, Some(path)) => {
                let path = if path.starts_with('/') { path } else { format!("/run/{path}") };
                this.put("pid-file", &path.replacen("/var/run/", "/run/", 1), option);
            }
            _ => this.leave_out(option, "init started the process and knows it"),
        }
    } else if kind == "forking" {
        let guess = this.flag(SECTION, "GuessMainPID", true);
        this.put_default("main-pid", if guess { "guess" } else { "none" });
    }
    if let Some(option) = this.last(SECTION, "GuessMainPID") {
        this.leave_out(option, "a main process is never guessed");
    }
    if let Some(option) = this.last(SECTION, "WatchdogSec") {
        match span::parse(&option.value) {
            Some(Span::Micros(0) | Span::Infinite) => this.leave_out(option, "it asks for nothing"),
            Some(Span::Micros(micros)) => drop(this.put("watchdog", &span::native(micros), option)),
            None => this.lose(option, "it is no span of time"),
        }
    }
    remain(this, kind);
}

fn remain(this: &mut Conversion<'_>, kind: &str) {
    let stays = this.flag(SECTION, "RemainAfterExit", false);
    let otherwise = if stays { "yes" } else { "no" };
    match this.last(SECTION, "RemainAfterExit") {
        // Without the key, what ended well stays exited: that is what `yes` asks for.
        Some(option) if key::find("remain").is_none() => {
            this.leave_out(option, "what ended well counts as exited, which is active");
        }
        Some(option) => drop(this.put("remain", otherwise, option)),
        None if kind == "oneshot" => this.put_default("remain", otherwise),
        None => {}
    }
}

fn restart(this: &mut Conversion<'_>, kind: &str) {
    let said = this.last(SECTION, "Restart");
    let word = said.map_or("no", |option| option.value.as_str());
    let native = match word {
        "no" => "never",
        "on-success" | "on-failure" | "on-abnormal" | "on-watchdog" | "on-abort" | "always" => word,
        _ => {
            if let Some(option) = said {
                this.refuse(option, &format!("Restart={word}: no such value"), "");
            }
            return;
        }
    };
    if let (Some(option), "oneshot", "always" | "on-success") = (said, kind, native) {
        let message = format!("Restart={word} of a oneshot: it would never be done");
        return this.refuse(option, &message, "systemd refuses this too");
    }
    match said {
        Some(option) => {
            if !this.put("restart", native, option) {
                let near = if native == "on-watchdog" { "never" } else { "on-failure" };
                this.put_default("restart", near);
            }
        }
        None => this.put_default("restart", native),
    }
    if native == "never" {
        for name in ["RestartSec", "RestartMaxDelaySec"] {
            if let Some(option) = this.last(SECTION, name) {
                this.leave_out(option, "it is never started again by itself");
            }
        }
    } else {
        restart_delay(this);
    }
    restart_limit(this);
    for (name, key) in
        [("RestartPreventExitStatus", "restart-except"), ("RestartForceExitStatus", "restart-also")]
    {
        statuses(this, name, key);
    }
    for name in ["RestartMode", "ExitType", "TimeoutStartFailureMode", "TimeoutStopFailureMode"] {
        let usual = ["normal", "main", "terminate"];
        if let Some(option) = this.last(SECTION, name) {
            if usual.contains(&option.value.as_str()) {
                this.leave_out(option, "it is always so");
            } else {
                this.lose(option, "not supported yet");
            }
        }
    }
}

/// One delay for each retry: systemd does not lengthen it unless told.
fn restart_delay(this: &mut Conversion<'_>) {
    let option = this.last(SECTION, "RestartSec");
    let micros = match option.map(|option| span::parse(&option.value)) {
        None => 100_000,
        Some(Some(Span::Micros(micros))) => micros,
        Some(_) => {
            if let Some(option) = option {
                this.lose(option, "it is no span of time");
            }
            100_000
        }
    };
    let delay = span::native(micros);
    match option {
        Some(option) => drop(this.put("restart-delay", &delay, option)),
        None => this.put_default("restart-delay", &delay),
    }
    let most = this.last(SECTION, "RestartMaxDelaySec");
    match most.map(|most| (most, span::parse(&most.value))) {
        Some((most, Some(Span::Micros(micros)))) => {
            this.put("restart-delay-max", &span::native(micros), most);
        }
        _ => this.put_default("restart-delay-max", &delay),
    }
}

fn restart_limit(this: &mut Conversion<'_>) {
    let either = |this: &Conversion<'_>, names: [(&'static str, &'static str); 3]| {
        names.into_iter().find_map(|(section, name)| {
            Some((section, name)).filter(|_| this.last(section, name).is_some())
        })
    };
    let interval = either(
        this,
        [
            ("Unit", "StartLimitIntervalSec"),
            ("Unit", "StartLimitInterval"),
            (SECTION, "StartLimitInterval"),
        ],
    );
    let burst =
        either(this, [("Unit", "StartLimitBurst"), (SECTION, "StartLimitBurst"), (SECTION, "-")]);
    let interval = interval.and_then(|(section, name)| this.last(section, name));
    let burst = burst.and_then(|(section, name)| this.last(section, name));
    let span = interval.map_or(Some(Span::Micros(10_000_000)), |option| span::parse(&option.value));
    let count = burst.map_or(Some(5), |option| option.value.parse::<u32>().ok());
    let limit = match (span, count) {
        (Some(Span::Micros(0)), _) | (_, Some(0)) => "none".to_string(),
        (Some(Span::Micros(micros)), Some(count)) => format!("{count}/{}", span::native(micros)),
        (Some(Span::Infinite), Some(count)) => format!("{count}"),
        _ => {
            for option in [interval, burst].into_iter().flatten() {
                this.lose(option, "it can not be read");
            }
            "5/10s".to_string()
        }
    };
    match interval.or(burst) {
        Some(option) => drop(this.put("restart-limit", &limit, option)),
        None => this.put_default("restart-limit", &limit),
    }
    if let (Some(_), Some(burst)) = (interval, burst) {
        this.fate(burst, super::fate::Outcome::Kept("restart-limit".to_string()));
    }
    for section in ["Unit", SECTION] {
        if let Some(option) = this.last(section, "StartLimitAction") {
            if option.value == "none" {
                this.leave_out(option, "it asks for nothing");
            } else {
                this.lose(option, "a failure of this unit does not end the system");
            }
        }
    }
}

/// What systemd counts as a success besides.
fn success(this: &mut Conversion<'_>, kind: &str) {
    let said = this.last(SECTION, "SuccessExitStatus").is_some();
    let daemon = !matches!(kind, "oneshot");
    if !daemon && !said {
        return;
    }
    let at = this.manifest.at;
    this.add("success-status", "0", None, at);
    for signal in CLEAN_SIGNALS.into_iter().filter(|_| daemon) {
        this.add("success-status", signal, None, at);
    }
    statuses(this, "SuccessExitStatus", "success-status");
}

/// A list of exit statuses by number or name, and signals.
fn statuses(this: &mut Conversion<'_>, name: &str, key: &str) {
    let options = this.all(SECTION, name);
    for (word, option, at) in this.words(&options) {
        if let Some(text) = status(&word) {
            this.add(key, &text, Some(option), at);
        } else {
            let message = format!("{name}=: `{word}` is neither an exit status nor a signal");
            this.warn(option, "dropped", &message, "");
        }
    }
}

fn status(word: &str) -> Option<String> {
    if word.bytes().all(|byte| byte.is_ascii_digit()) && !word.is_empty() {
        return word.parse::<u8>().ok().map(|number| number.to_string());
    }
    if let Some((_, number)) = EXIT_STATUSES.iter().find(|(name, _)| *name == word) {
        return Some(number.to_string());
    }
    let signal = word.strip_prefix("SIG").unwrap_or(word);
    crate::signal::number(signal).map(|_| signal.to_string())
}

/// Names of exit statuses: systemd.exec(5), "PROCESS EXIT CODES", and sysexits(3).
const EXIT_STATUSES: [(&str, u8); 29] = [
    ("SUCCESS", 0),
    ("FAILURE", 1),
    ("INVALIDARGUMENT", 2),
    ("NOTIMPLEMENTED", 3),
    ("NOPERMISSION", 4),
    ("NOTINSTALLED", 5),
    ("NOTCONFIGURED", 6),
    ("NOTRUNNING", 7),
    ("USAGE", 64),
    ("DATAERR", 65),
    ("NOINPUT", 66),
    ("NOUSER", 67),
    ("NOHOST", 68),
    ("UNAVAILABLE", 69),
    ("SOFTWARE", 70),
    ("OSERR", 71),
    ("OSFILE", 72),
    ("CANTCREAT", 73),
    ("IOERR", 74),
    ("TEMPFAIL", 75),
    ("PROTOCOL", 76),
    ("NOPERM", 77),
    ("CONFIG", 78),
    ("CHDIR", 200),
    ("NICE", 201),
    ("FDS", 202),
    ("EXEC", 203),
    ("USER", 217),
    ("EXCEPTION", 255),
];

fn timeouts(this: &mut Conversion<'_>, kind: &str) {
    let start = if kind == "oneshot" { "none" } else { "90s" };
    for (name, key, otherwise) in
        [("TimeoutStartSec", "start-timeout", start), ("TimeoutStopSec", "stop-timeout", "90s")]
    {
        let both = this.last(SECTION, "TimeoutSec");
        let Some(option) = this.last(SECTION, name).or(both) else {
            this.put_default(key, otherwise);
            continue;
        };
        match span::parse(&option.value) {
            Some(Span::Micros(0) | Span::Infinite) => drop(this.put(key, "none", option)),
            Some(Span::Micros(micros)) => drop(this.put(key, &span::native(micros), option)),
            None => {
                this.lose(option, "it is no span of time");
                this.put_default(key, otherwise);
            }
        }
    }
}

fn kill(this: &mut Conversion<'_>) {
    if let Some(option) = this.last(SECTION, "KillMode")
        && option.value == "none"
    {
        let message = "KillMode=none leaves processes behind when the unit stops";
        this.warn(option, "kill-mode-none", message, "");
    }
}

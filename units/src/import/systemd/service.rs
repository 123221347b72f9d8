//! `.service`: type, commands and timeouts; `restart.rs` has restarts, `process.rs` the environment
//! of processes. systemd's defaults are written out if they differ from the native ones.

use super::conversion::Conversion;
use super::import_outcome::Outcome;
use super::span::{self, Span};
use super::table::partly;
use super::{command, restart};
use crate::limit;
use crate::spec::Kind;

const SECTION: &str = "Service";

pub(super) fn convert(this: &mut Conversion<'_>) {
    let starts = this.all(SECTION, "ExecStart").len();
    let default = if starts == 0 { "oneshot" } else { "simple" };
    let with_bus = this.last(SECTION, "BusName").is_some() && starts > 0;
    let default = if with_bus { "dbus" } else { default };
    let said = this.last(SECTION, "Type");
    let kind = said.map_or(default, |option| option.value.as_str()).to_string();
    let Some(native) = Kind::of_systemd(&kind) else {
        if let Some(option) = said {
            this.refuse(option, &format!("Type={kind}: no such type"), "");
        }
        return;
    };
    this.kind = native;
    this.put_said("type", this.kind.as_str(), said);
    commands(this, &kind, starts);
    readiness(this, &kind);
    restart::convert(this, &kind);
    timeouts(this, &kind);
    kill(this);
    store(this);
    // systemd.exec(5): processes start with SIGPIPE ignored unless the unit says otherwise.
    if this.last(SECTION, "IgnoreSIGPIPE").is_none() {
        this.put_default("ignore-sigpipe", "yes");
    }
    super::process::convert(this);
}

fn commands(this: &mut Conversion<'_>, kind: &str, starts: usize) {
    let privileged = this.flag(SECTION, "PermissionsStartOnly", false);
    if let Some(option) = this.last(SECTION, "PermissionsStartOnly") {
        if privileged && this.last(SECTION, "RootDirectory").is_some() {
            let message =
                format!("PermissionsStartOnly= beside RootDirectory=: {}", partly::ROOTED);
            let hint = "put `+` before the commands that may run outside of it";
            this.refuse(option, &message, hint);
        } else {
            this.leave_out(option, "it is a prefix of the commands now");
        }
    }
    let several = this.all(SECTION, "ExecStart");
    let too_many = starts > 1 && kind != "oneshot";
    if let (true, Some(second)) = (too_many, several.get(1)) {
        let message = "more than one ExecStart=, which only a oneshot may have";
        this.refuse(second, message, "put the earlier commands into ExecStartPre=");
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
        this.unlist("exec-start", too_many);
    }
    command::tell_bus(this);
}

/// Converts the limit of stored descriptors: systemd has no upper bound.
fn store(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "FileDescriptorStoreMax") else { return };
    match option.value.parse::<u32>() {
        Ok(most) if most > limit::STORED => {
            let message =
                format!("FileDescriptorStoreMax=: no more than {} are kept", limit::STORED);
            this.warn(option, "dropped", &message, "");
            this.put("fd-store-max", &limit::STORED.to_string(), option);
        }
        Ok(most) => this.put("fd-store-max", &most.to_string(), option),
        Err(_) => this.lose(option, "it is not a number"),
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
            (false, _) => this.leave_out(option, "its type determines when it is ready"),
            (true, Some(name)) => {
                let test = format!(
                    "/bin/sh -c \"dbus-send --system --print-reply --dest=org.freedesktop.DBus / \
                     org.freedesktop.DBus.NameHasOwner string:{name} | grep -q true\""
                );
                this.put("ready-exec", &test, option);
            }
            (true, None) => {}
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
    match this.last(SECTION, "GuessMainPID") {
        Some(option) if this.manifest.entry("main-pid").is_some() => {
            this.record_outcome(option, Outcome::Kept("main-pid".to_string()));
        }
        Some(option) => this.leave_out(option, "init knows the main process"),
        None => {}
    }
    if let Some(option) = this.last(SECTION, "WatchdogSec") {
        match span::parse(&option.value) {
            Some(Span::Micros(0) | Span::Infinite) => {
                this.leave_out(option, "this value requests nothing")
            }
            Some(Span::Micros(micros)) => this.put("watchdog", &span::native(micros), option),
            None => this.lose(option, "it is not a span of time"),
        }
    }
    remain(this, kind);
}

fn remain(this: &mut Conversion<'_>, kind: &str) {
    let stays = this.flag(SECTION, "RemainAfterExit", false);
    let otherwise = if stays { "yes" } else { "no" };
    match this.last(SECTION, "RemainAfterExit") {
        Some(option) => this.put("remain", otherwise, option),
        None if kind == "oneshot" => this.put_default("remain", otherwise),
        None => {}
    }
}

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
            Some(Span::Micros(0) | Span::Infinite) => this.put(key, "none", option),
            Some(Span::Micros(micros)) => this.put(key, &span::native(micros), option),
            None => {
                this.lose(option, "it is not a span of time");
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

//! What a unit says about its processes that takes more than a row of the table:
//! environment, directory, output, control groups.

use super::conversion::Conversion;
use super::span::{self, Span};
use crate::exec_line;
use crate::key;

const SECTION: &str = "Service";

pub(super) fn convert(this: &mut Conversion<'_>) {
    environment(this);
    env_files(this);
    working_dir(this);
    umask(this);
    output(this);
    groups(this);
    scheduling(this);
}

/// In systemd a file's variables win over those of the unit; the native `env` wins over files.
fn environment(this: &mut Conversion<'_>) {
    let files = this.last(SECTION, "EnvironmentFile").is_some();
    let under = files && key::find("env-default").is_some();
    let options = this.all(SECTION, "Environment");
    for (word, option, _) in this.words(&options) {
        match word.split_once('=') {
            Some((name, value)) if exec_line::is_variable(name) => {
                this.add_pair(if under { "env-default" } else { "env" }, name, value, option);
            }
            _ => {
                let message = format!("Environment=: `{word}` is no assignment, passed over");
                this.warn(option, "dropped", &message, "");
            }
        }
    }
    if let (true, false, Some(option)) = (files, under, options.last()) {
        let message =
            "a variable that the EnvironmentFile= sets too keeps the value of Environment=";
        this.warn(option, "dropped", message, "");
    }
}

fn env_files(this: &mut Conversion<'_>) {
    for option in this.all(SECTION, "EnvironmentFile") {
        let Some(text) = this.expand(option, &option.value) else { continue };
        let path = text.strip_prefix('-').unwrap_or(&text);
        if path.starts_with('/') {
            this.add("env-file", &text, Some(option), option.value_at());
        } else {
            this.lose(option, "it is no absolute path");
        }
    }
}

fn working_dir(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "WorkingDirectory") else { return };
    let Some(text) = this.expand(option, &option.value) else { return };
    let path = text.strip_prefix('-').unwrap_or(&text);
    if path == "~" || path.starts_with("~/") {
        return match key::find("working-dir").map(|key| key.doc.contains('~')) {
            Some(true) => drop(this.put("working-dir", &text, option)),
            _ => this.lose(option, "the user's home is not supported yet"),
        };
    }
    if path.len() < text.len() && !key::find("working-dir").is_some_and(|k| k.doc.contains("`-`")) {
        let message = "WorkingDirectory=: a directory that is missing fails the start";
        this.warn(option, "not-supported", message, "");
        this.put("working-dir", path, option);
        return;
    }
    this.put("working-dir", &text, option);
}

fn umask(this: &mut Conversion<'_>) {
    let Some(option) = this.last(SECTION, "UMask") else { return };
    let bits = u32::from_str_radix(&option.value, 8).ok().filter(|bits| *bits <= 0o777);
    match bits {
        Some(bits) => drop(this.put("umask", &format!("{bits:03o}"), option)),
        None => this.lose(option, "it is no umask"),
    }
}

/// systemd's output goes to the journal; ours to the logger, which is the same to a unit.
fn output(this: &mut Conversion<'_>) {
    let mut null = 0;
    for (name, key) in [("StandardOutput", "stdout"), ("StandardError", "stderr")] {
        let Some(option) = this.last(SECTION, name) else { continue };
        let Some(text) = this.expand(option, &option.value) else { continue };
        let native = match text.as_str() {
            "journal" | "syslog" | "inherit" => {
                let inherits =
                    text == "inherit" && key::find("stderr").is_some() && name == "StandardError";
                if inherits && this.text(SECTION, "StandardOutput").is_some() {
                    this.put(key, "inherit", option);
                } else {
                    this.leave_out(option, "output goes to the log");
                }
                continue;
            }
            "journal+console" | "syslog+console" | "kmsg" | "kmsg+console" => {
                this.leave_out(option, "output goes to the log");
                continue;
            }
            "null" => {
                null += 1;
                "null".to_string()
            }
            text => {
                text.strip_prefix("truncate:").map_or(text.to_string(), |p| format!("file:{p}"))
            }
        };
        if key::find(key).is_some() {
            this.put(key, &native, option);
        } else if native == "null" && null == 2 {
            this.put("log", "null", option);
        } else {
            this.lose(option, "not supported yet");
        }
    }
    if let Some(option) = this.last(SECTION, "StandardInput") {
        let native = match option.value.as_str() {
            "tty-force" | "tty-fail" => "tty-force",
            text => text,
        };
        if native == "null" {
            this.leave_out(option, "standard input is empty anyway");
        } else if let Some(text) = this.expand(option, native) {
            this.put("stdin", &text, option);
        }
    }
}

fn groups(this: &mut Conversion<'_>) {
    if let Some(option) = this.last(SECTION, "Delegate") {
        match span::boolean(&option.value) {
            Some(false) => this.leave_out(option, "it asks for nothing"),
            _ => drop(this.put("cgroup-delegate", "yes", option)),
        }
    }
    if let Some(option) = this.last(SECTION, "TasksMax") {
        match option.value.as_str() {
            "infinity" | "100%" => this.leave_out(option, "there is no limit anyway"),
            text => drop(this.put("cgroup-pids-max", text, option)),
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
                let quota = percent.saturating_mul(period) / 100;
                this.put("cgroup-cpu-max", &format!("{quota} {period}"), option);
            }
            None => this.lose(option, "it is no share of a processor"),
        }
    }
    for (name, word) in [
        ("IOReadBandwidthMax", "rbps"),
        ("IOWriteBandwidthMax", "wbps"),
        ("IOReadIOPSMax", "riops"),
        ("IOWriteIOPSMax", "wiops"),
    ] {
        for option in this.all(SECTION, name) {
            if let Some((device, most)) = option.value.split_once(char::is_whitespace) {
                this.add_line("cgroup-io-max", &format!("{device} {word}={}", most.trim()), option);
            }
        }
    }
    if let Some(option) = this.last(SECTION, "AllowedCPUs") {
        let text = option.value.split_whitespace().collect::<Vec<_>>().join(",");
        this.put("cgroup-cpuset", &text, option);
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
    if let Some(option) = this.last(SECTION, "CPUAffinity") {
        let text = option.value.split_whitespace().collect::<Vec<_>>().join(",");
        this.put("cpu-affinity", &text, option);
    }
    if let Some(option) = this.last(SECTION, "RuntimeDirectoryPreserve") {
        match option.value.as_str() {
            "restart" => drop(this.put("runtime-dir-keep", "restart", option)),
            text if span::boolean(text) == Some(true) => {
                this.put("runtime-dir-keep", "yes", option);
            }
            _ => this.leave_out(option, "it asks for nothing"),
        }
    }
}

//! `systemctl` for packages, units and scripts that call it, in terms of the graph and the goal. It
//! does not use D-Bus and reports nothing that init does not know.
//!
//! [`words`] parses the command line, [`snapshot`] holds init's answers, [`shown`] formats a unit
//! in systemd's words. Each group of verbs has a file. Exit codes follow systemctl(1): 3 for an
//! inactive unit, 4 for an unknown one, 5 for starting an unknown one.

mod change;
mod confinement;
mod definition;
mod dependency;
mod edit;
mod enablement;
mod escape;
mod install;
mod instance;
mod link;
mod list;
mod list_trigger;
mod manager;
mod mangle;
mod overlay;
mod pids;
mod property;
mod property_value;
mod question;
mod rival;
mod snapshot;
mod status;
mod trigger;
mod unit_file;
mod wait;
mod words;

use groundstate_units::control::shown;
pub(crate) use groundstate_units::control::shown::SUFFIXES;
pub(crate) use snapshot::session;

use crate::exit::{Error, Exit};
use std::path::Path;
use words::Asked;

/// The exit status of a verb, or its failure.
type Outcome = Result<u8, Error>;

/// EXIT_FAILURE.
const FAILED: u8 = 1;
/// LSB: the program is not running.
const NOT_RUNNING: u8 = 3;
/// LSB: the status is unknown; here the unit is unknown.
const NO_SUCH_UNIT: u8 = 4;
/// LSB: insufficient privilege, for verbs that change something.
const NO_PERMISSION: u8 = 4;
/// LSB: not installed.
const NOT_INSTALLED: u8 = 5;

/// Runs the command.
pub(crate) fn main(called: &str, words: &[String]) -> u8 {
    if called == "systemd-escape" {
        return escape::main(words);
    }
    let asked = match Asked::parse(called, words) {
        Ok(asked) => mangle::mangled(asked),
        Err(complaint) => {
            complain(&complaint);
            return FAILED;
        }
    };
    match run(&asked) {
        Ok(status) => status,
        Err(Error::OutputClosed) => 0,
        Err(Error::Printed(_)) => FAILED,
        Err(Error::Failed(exit, failure)) => {
            complain(&failure.message);
            if !failure.hint.is_empty() {
                complain(&failure.hint);
            }
            if exit == Exit::Denied { NO_PERMISSION } else { FAILED }
        }
    }
}

/// Prints a line to stderr.
fn complain(text: &str) {
    crate::session::warn(text);
}

/// Verbs that need a unit.
const OF_UNITS: [&str; 17] = [
    "edit",
    "is-active",
    "is-failed",
    "is-enabled",
    "cat",
    "kill",
    "enable",
    "disable",
    "reenable",
    "mask",
    "unmask",
    "preset",
    "revert",
    "link",
    "add-wants",
    "add-requires",
    "set-default",
];

/// Verbs that accept `--dry-run`.
const DRY: [&str; 4] = ["poweroff", "reboot", "halt", "exit"];

fn run(asked: &Asked) -> Outcome {
    if asked.user == Some(true) && nix::unistd::geteuid().is_root() {
        complain("systemctl: root has no instance of a user: leave out --user");
        return Ok(FAILED);
    }
    if let Some(root) = &asked.root {
        crate::verb::check::rooted_path(Path::new(&format!("{root}/")))?;
    }
    if asked.dry_run && !DRY.contains(&asked.verb.as_str()) {
        complain(&format!("systemctl: --dry-run is not supported for {}", asked.verb));
        return Ok(FAILED);
    }
    if asked.names.is_empty() && OF_UNITS.contains(&asked.verb.as_str()) {
        complain("Too few arguments.");
        return Ok(FAILED);
    }
    match asked.verb.as_str() {
        "help" => manager::help(),
        "version" => manager::version(),
        "is-active" => question::is_active(asked),
        "is-failed" => question::is_failed(asked),
        "is-enabled" => enablement::is_enabled(asked),
        "is-system-running" => question::is_system_running(asked),
        "status" => status::run(asked),
        "show" => property::run(asked),
        "cat" => status::cat(asked),
        "list-units" | "list-paths" => list::units(asked),
        "list-timers" => list_trigger::timers(asked),
        "list-sockets" => list_trigger::sockets(asked),
        "list-unit-files" => list::unit_files(asked),
        "list-dependencies" => dependency::run(asked),
        "list-jobs" => list::jobs(asked),
        "start"
        | "stop"
        | "restart"
        | "try-restart"
        | "condrestart"
        | "reload"
        | "reload-or-restart"
        | "reload-or-try-restart"
        | "try-reload-or-restart"
        | "force-reload"
        | "condreload"
        | "condstop"
        | "isolate" => change::run(asked),
        "kill" => change::kill(asked),
        "reset-failed" => change::reset_failed(asked),
        "enable" | "disable" | "reenable" | "mask" | "unmask" | "preset" | "preset-all"
        | "add-wants" | "add-requires" | "revert" | "link" => install::run(asked),
        "edit" => edit::run(asked),
        "daemon-reload" => manager::reload(asked),
        "daemon-reexec" => manager::reexec(asked),
        "get-default" => manager::get_default(asked),
        "set-default" => manager::set_default(asked),
        "default" | "rescue" | "emergency" => change::goal(asked),
        "poweroff" | "reboot" | "halt" | "exit" => manager::power(asked),
        "switch-root" => manager::switch_root(asked),
        "show-environment" => manager::environment(asked),
        other => match manager::refusal(other) {
            Some(why) => manager::refused(asked, why),
            None => {
                complain(&format!("Unknown command verb {other}."));
                Ok(FAILED)
            }
        },
    }
}

//! The outcomes of functions in a script that only declares. A script with functions that start or
//! stop something is wrapped instead.

use super::declaration::Declaration;
use super::reading::SCRIPT;
use super::script::{Command, Script};
use super::{directory, signalling};
use crate::import::import_outcome::Outcome;
use std::collections::BTreeMap;

/// Records the outcome of each function.
pub(super) fn tell(this: &mut Declaration<'_>, script: &Script<'_>) {
    let commands = this.reading.extra_commands();
    let functions = this.reading.functions.clone();
    let bodies = bodies(script);
    let none = Vec::new();
    for (name, at) in &functions {
        let body = bodies.get(name.as_str()).unwrap_or(&none);
        let outcome = match name.as_str() {
            "depend" => Outcome::ByDesign("its words are listed one by one".to_string()),
            "start_pre" if directory::convert(this, body) => {
                Outcome::Kept("runtime-dir, state-dir, cache-dir, log-dir".to_string())
            }
            "start_pre" => {
                this.reason(at.clone(), format!("{name}() is the script's own"));
                continue;
            }
            "status" | "describe" => {
                Outcome::ByDesign("`initctl status` shows the state of a unit".to_string())
            }
            "reload" => signalling::reload(this, body, at),
            "healthcheck" | "unhealthy" => Outcome::Lost("init runs no health checks".to_string()),
            other if commands.contains(other) => {
                Outcome::Lost("the command is not imported".to_string())
            }
            _ => Outcome::ByDesign("no imported function calls it".to_string()),
        };
        this.unit.record_outcome(SCRIPT, &format!("{name}()"), "", at, outcome);
    }
}

/// Returns the commands of each function; the last definition of a name counts.
fn bodies<'s, 'a>(script: &'s Script<'a>) -> BTreeMap<&'a str, Vec<&'s Command<'a>>> {
    let numbers: BTreeMap<&str, usize> =
        script.functions.iter().enumerate().map(|(at, function)| (function.name, at)).collect();
    let mut bodies: BTreeMap<&str, Vec<&Command<'_>>> = BTreeMap::new();
    for command in &script.commands {
        let Some(number) = command.within else { continue };
        let Some(function) = script.functions.get(number) else { continue };
        if numbers.get(function.name) == Some(&number) {
            bodies.entry(function.name).or_default().push(command);
        }
    }
    bodies
}

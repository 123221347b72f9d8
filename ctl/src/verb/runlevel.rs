//! System V run levels for programs that still use them: runlevel(8) prints the level of the goal
//! by [`LEVELS`], telinit(8) sets the goal by [`target`].

use crate::arguments::{Colour, Common};
use crate::exit::{Error, Exit};
use crate::session::{self, Session};
use groundstate_units::control::answer::Status;
use groundstate_units::control::request::Verb;

/// Levels and their targets. The level of a goal is the first one with a target of the goal.
const LEVELS: [(&str, &[&str]); 6] = [
    ("5", &["graphical", "graphical.target", "runlevel5.target"]),
    ("3", &["multi-user", "multi-user.target", "runlevel3.target"]),
    ("2", &["runlevel2.target"]),
    ("4", &["runlevel4.target"]),
    ("1", &["rescue", "rescue.target", "runlevel1.target", "single"]),
    ("S", &["sysinit", "sysinit.target", "emergency", "emergency.target"]),
];

/// Finds the socket in the arguments.
fn socket(flags: &[String]) -> Option<std::path::PathBuf> {
    flags.iter().find_map(|flag| flag.strip_prefix("--socket=")).map(Into::into)
}

fn status(flags: &[String]) -> Result<Status, Error> {
    let common = Common { socket: socket(flags), json: false, color: Colour::Never };
    let session = Session::new(&common);
    Ok(session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?.0)
}

/// `runlevel`: prints the previous level, which init does not store, and the present one.
pub(crate) fn run(words: &[String]) -> Result<Exit, Error> {
    if words.iter().any(|word| matches!(word.as_str(), "-h" | "--help")) {
        session::print(
            "Usage: runlevel\n\nprints N for the unknown previous run level, then the run level of the goal",
        )?;
        return Ok(Exit::Done);
    }
    match level(&status(words)?) {
        Some(level) => session::print(&format!("N {level}"))?,
        None => {
            session::print("unknown")?;
            return Ok(Exit::Bad);
        }
    }
    Ok(Exit::Done)
}

fn level(status: &Status) -> Option<&'static str> {
    let units = status.units.iter().filter(|unit| {
        status.goal.iter().any(|goal| *goal == unit.unit || unit.provides.contains(goal))
    });
    let names: Vec<&String> =
        units.flat_map(|unit| unit.provides.iter()).chain(&status.goal).collect();
    let meets = |targets: &&[&str]| names.iter().any(|name| targets.contains(&name.as_str()));
    LEVELS.iter().find(|(_, targets)| meets(targets)).map(|(level, _)| *level)
}

/// Returns the first target of a level that a unit provides, or the usual one.
pub(crate) fn target(level: &str, flags: &[String]) -> String {
    let own = format!("runlevel{level}.target");
    let (usual, others): (&str, &[&str]) = match level {
        "5" => ("graphical", &["graphical.target", "multi-user", "multi-user.target"]),
        "2" | "3" | "4" => ("multi-user", &["multi-user.target"]),
        _ => ("rescue", &["rescue.target", "runlevel1.target"]),
    };
    let Ok(status) = status(flags) else { return usual.to_string() };
    let is_provided = |name: &str| {
        let mut targets = status.targets.iter();
        targets.any(|target| target.target == name && target.unit.is_some())
            || status.units.iter().any(|unit| unit.unit == name)
    };
    let mut names = [own.as_str(), usual].into_iter().chain(others.iter().copied());
    names.find(|name| is_provided(name)).unwrap_or(usual).to_string()
}

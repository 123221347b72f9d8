//! `status PID` and `show PID`: replaces a pid with the unit of that process.

use super::complain;
use crate::exit::{Error, Exit};
use crate::session::Session;
use groundstate_units::control::answer::Whose;
use groundstate_units::control::request::Verb;

/// Replaces each number with the process's unit.
///
/// # Errors
/// The process belongs to no unit.
pub(super) fn with_units(session: &Session, names: &[String]) -> Result<Vec<String>, Error> {
    let name = |name: &String| {
        let Ok(pid) = name.parse::<i32>() else { return Ok(name.clone()) };
        let (whose, _) = session.ask_as::<Whose>(Verb::Whose { pid })?;
        whose.unit.ok_or_else(|| {
            complain(&format!(
                "Failed to get unit for PID {pid}: PID {pid} does not belong to any loaded unit."
            ));
            Error::Printed(Exit::Bad)
        })
    };
    names.iter().map(name).collect()
}

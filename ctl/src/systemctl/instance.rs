//! Instances of templates that nothing names yet: init makes the instance of a template for
//! whoever wants it, so one that is told to start is wanted before it is looked for.

use super::overlay::wanted;
use super::shown::is_glob;
use super::snapshot::{Snapshot, with_suffix};
use super::words::Asked;
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::request::Verb;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::text::name::Name;

/// Makes those of these units known that are instances of a template there is.
pub(super) fn known(
    session: &Session,
    asked: &Asked,
    verb: &str,
    units: &[String],
) -> Result<(), Error> {
    let starts =
        matches!(verb, "start" | "restart" | "reload-or-restart" | "force-reload" | "enable");
    let is_instance = |name: &String| UnitName::of(name).is_instance() && !is_glob(name);
    let mut names = units.iter().map(|name| with_suffix(name)).filter(is_instance).peekable();
    if !starts || names.peek().is_none() {
        return Ok(());
    }
    let snapshot = Snapshot::take(session)?;
    for name in names.filter(|name| snapshot.find(name).is_none()) {
        let Ok(target) = Name::new(&name) else { continue };
        match session.ask(Verb::Want { target, for_ms: None }) {
            Ok(_) => wanted(asked, &name),
            // What is no instance of anything is told like any other unit that is not there.
            Err(Error::Failed(_, _)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

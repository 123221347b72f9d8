//! Instances of templates that are not loaded yet: init makes an instance when it is wanted. So a
//! unit to start becomes wanted before it is looked up.

use super::overlay::report_wanted;
use super::shown::is_glob;
use super::snapshot::{Snapshot, with_suffix};
use super::words::Asked;
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::request::Verb;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::text::name::Name;

/// Makes init load those units that are instances of an existing template.
pub(super) fn load_instances(
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
            Ok(_) => report_wanted(asked, &name),
            // A name that is not an instance is reported like any other unknown unit.
            Err(Error::Failed(_, _)) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(())
}

//! Instances of templates that nothing names yet. init makes an instance of what a unit
//! depends on; for one that is only told to start, a unit in the runtime directory says so.

use super::enablement::Enablement;
use super::manager;
use super::shown::is_glob;
use super::snapshot::{Snapshot, with_suffix};
use super::unit_file::template_of;
use crate::exit::Trouble;
use crate::session::Session;
use groundstate_units::control::request::Verb;
use groundstate_units::name::Name;

/// Makes those of these units known that are instances of a template there is.
pub(super) fn known(session: &Session, units: &[String]) -> Result<(), Trouble> {
    let names: Vec<String> = units
        .iter()
        .map(|name| with_suffix(name))
        .filter(|name| template_of(name).is_some() && !is_glob(name) && Name::new(name).is_ok())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let snapshot = Snapshot::take(session)?;
    let Some(runtime) = &snapshot.pong.paths.runtime_dir else { return Ok(()) };
    let enablement = Enablement::of(session, None)?;
    let mut fresh = false;
    for name in names.iter().filter(|name| snapshot.find(name).is_none()) {
        if enablement.find(name).is_none() {
            continue;
        }
        let path = format!("{runtime}/units/instance-{name}.yaml");
        let text = format!(
            "# {name} was started by systemctl until the next boot.\n\
             unit: instance-{name}\ntype: virtual\nwants: {name}\n"
        );
        let failed = |error| Trouble::file(&path, &error);
        std::fs::create_dir_all(format!("{runtime}/units")).map_err(failed)?;
        std::fs::write(&path, text).map_err(failed)?;
        fresh = true;
    }
    if fresh {
        manager::told(session, Verb::Reload { no_restart: true })?;
    }
    Ok(())
}

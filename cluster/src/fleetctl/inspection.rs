//! cat and why: show one unit. Also resolves machine ids.

use super::bring_down::name_of;
use super::output::{say, say_json, write};
use super::session::Session;
use super::trouble::Trouble;
use super::waiting::text_with_reasons;
use crate::native_unit;
use crate::unit_file::UnitFile;
use crate::wire::Why;

pub(super) async fn cat(session: &mut Session, unit: &str) -> Result<u8, Trouble> {
    let name = name_of(unit);
    let Some(unit) = session.client.unit(&name).await? else {
        return Err(Trouble::new(format!("Unit {name} not found")));
    };
    if session.globals.json {
        say_json(&unit);
        return Ok(0);
    }
    let file = UnitFile { options: unit.options };
    write(&native_unit::text(&file).unwrap_or_else(|| file.text()));
    Ok(0)
}

pub(super) async fn why(session: &mut Session, unit: &str) -> Result<u8, Trouble> {
    let name = name_of(unit);
    let Some(why) = session.client.why(&name).await? else {
        return Err(Trouble::new(format!("Unit {name} does not exist.")));
    };
    if session.globals.json {
        say_json(&why);
    } else {
        say(&explained(&name, &why));
    }
    Ok(u8::from(why.unplaceable))
}

/// Formats the explanation of a unit's place.
pub(super) fn explained(name: &str, why: &Why) -> String {
    format!("{name}: {}", text_with_reasons(why))
}

/// Returns the machine id with this prefix, if it is unique.
pub(super) async fn machine(session: &mut Session, named: &str) -> Result<String, Trouble> {
    let machines = session.machines().await?;
    let mut found = machines.iter().map(|machine| &machine.id).filter(|id| id.starts_with(named));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok(id.clone()),
        (None, _) => Err(Trouble::new(format!("Machine {named} does not exist"))),
        (Some(_), Some(_)) => {
            Err(Trouble::new(format!("found more than one machine: {named} is ambiguous")))
        }
    }
}

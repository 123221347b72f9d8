//! Finds the unit for an argument and stores it in the cluster. In fleet's order: an existing unit,
//! a file, an instance of a stored template, an instance of a template's file.

use super::output::{say, warn};
use super::review::review;
use super::session::Session;
use super::trouble::Trouble;
use super::waiting::{self, Patience};
use crate::desired::Desired;
use crate::native_unit;
use crate::requirement::{Requirement, warnings};
use crate::unit_file::UnitFile;
use crate::unit_name::{UnitName, mangle};
use crate::wire::Unit;
use std::path::{Path, PathBuf};

/// Returns the states in which `--replace` may replace a unit, by command.
pub(super) fn replaceable(command: &str) -> &'static [&'static str] {
    match command {
        "submit" => &["inactive"],
        "load" => &["inactive", "loaded"],
        _ => &["inactive", "loaded", "launched"],
    }
}

/// Ensures that the argument's unit is in the cluster. Returns its name.
pub(super) async fn ensure(
    session: &mut Session,
    argument: &str,
    replace: bool,
    command: &str,
    patience: Patience,
) -> Result<String, Trouble> {
    let name = name_of(argument);
    let name = UnitName::new(&name)
        .map_err(|error| Trouble::new(format!("Error creating units: {argument}: {error}")))?;
    if let Some(there) = session.client.unit(name.as_str()).await? {
        let put = replace_existing(session, argument, &name, &there, replace, command).await?;
        if put {
            wait_for_inactive(session, &name, patience).await?;
        }
        return Ok(name.to_string());
    }
    let file = match from_disk(argument, &name, Whose::Own)? {
        Some((path, file)) => {
            review(name.as_str(), &path);
            file
        }
        None => from_template(session, argument, &name).await?,
    };
    check(&name, &file)?;
    session
        .client
        .create(name.as_str(), &file.options, None)
        .await
        .map_err(|trouble| Trouble::new(format!("Error creating units: {}", trouble.message)))?;
    wait_for_inactive(session, &name, patience).await?;
    Ok(name.to_string())
}

/// Returns the unit name of an argument. The type in a native file determines the suffix.
pub(super) fn name_of(argument: &str) -> String {
    let base = argument.rsplit('/').next().unwrap_or(argument);
    match native_unit::stem(base) {
        Some(stem) => {
            let text = std::fs::read_to_string(argument).unwrap_or_default();
            format!("{stem}.{}", native_unit::suffix(&text))
        }
        None => mangle(argument),
    }
}

/// Waits until the cluster shows a new unit as inactive, and prints that. A global unit has no
/// current state to wait for.
async fn wait_for_inactive(
    session: &mut Session,
    name: &UnitName,
    patience: Patience,
) -> Result<(), Trouble> {
    let patience = if patience == Patience::None { Patience::Endless } else { patience };
    let unit = session.client.unit(name.as_str()).await?;
    if unit.as_ref().is_some_and(super::session::is_global) {
        say(&format!("Unit {name} inactive"));
        return Ok(());
    }
    waiting::arrive(session, name.as_str(), Desired::Inactive, patience, false).await?;
    say(&format!("Unit {name} inactive"));
    Ok(())
}

/// Handles an existing unit. Returns true if its file was replaced.
async fn replace_existing(
    session: &mut Session,
    argument: &str,
    name: &UnitName,
    there: &Unit,
    replace: bool,
    command: &str,
) -> Result<bool, Trouble> {
    let local = match from_disk(argument, name, Whose::Own)? {
        None => from_disk(argument, name, Whose::Template)?,
        own => own,
    };
    let Some((path, file)) = local else { return Ok(false) };
    let stored = UnitFile { options: there.options.clone() };
    let same = stored.hash() == file.hash();
    if !replace {
        if !same {
            warn(&differs(name, &path));
        }
        return Ok(false);
    }
    if same && there.machines.is_none() && session.client.signing_key.is_none() {
        say(&format!("Found same Unit({name}) in Registry, nothing to do"));
        return Ok(false);
    }
    if !replaceable(command).contains(&there.desired_state.as_str()) {
        let state = &there.desired_state;
        return Err(Trouble::new(format!(
            "Warning: can not replace Unit({name}) in state '{state}', use the appropriate command"
        )));
    }
    check(name, &file)?;
    review(name.as_str(), &path);
    if same && there.machines.is_some() {
        // Completes an interrupted rollout.
        session.client.spread(name.as_str(), &file.options, &[]).await?;
        say(&format!("Unit {name} is now replaced on all machines"));
    }
    if same && session.client.signing_key.is_none() {
        return Ok(false);
    }
    session.client.create(name.as_str(), &file.options, None).await?;
    if same {
        say(&format!("Unit {name} has a new signature"));
    }
    Ok(!same)
}

fn differs(name: &UnitName, local: &Path) -> String {
    format!(
        "WARNING: Unit {name} in registry differs from local unit file {}. Add --replace to override.",
        local.display()
    )
}

/// The file to look for.
#[derive(Clone, Copy, PartialEq)]
enum Whose {
    Own,
    Template,
}

/// Reads the file at the argument's path, or its template's file in the same folder. Returns it
/// with its path.
fn from_disk(
    argument: &str,
    name: &UnitName,
    whose: Whose,
) -> Result<Option<(PathBuf, UnitFile)>, Trouble> {
    let given = Path::new(argument);
    let folder = given.parent().unwrap_or(Path::new(""));
    let base = given.file_name().and_then(|base| base.to_str()).unwrap_or_default();
    let candidates = match whose {
        Whose::Own if native_unit::stem(base).is_some() => {
            vec![given.to_path_buf(), folder.join(name.as_str())]
        }
        Whose::Own => vec![folder.join(name.as_str())],
        Whose::Template => name.template().iter().map(|name| folder.join(name.as_str())).collect(),
    };
    for path in candidates {
        if path.is_file() {
            let file = read(&path)?;
            return Ok(Some((path, file)));
        }
    }
    Ok(None)
}

/// Reads a unit file of either kind.
pub(super) fn read(path: &Path) -> Result<UnitFile, Trouble> {
    let place = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Trouble::new(format!("Error creating units: {place}: {error}")))?;
    let base = path.file_name().and_then(|base| base.to_str()).unwrap_or_default();
    let fault = |words: String| Trouble::new(format!("Error creating units: {place}: {words}"));
    match native_unit::stem(base) {
        Some(_) => native_unit::read(&place.to_string(), &text).map_err(fault),
        None => UnitFile::parse(&text).map_err(|error| fault(error.to_string())),
    }
}

async fn from_template(
    session: &mut Session,
    argument: &str,
    name: &UnitName,
) -> Result<UnitFile, Trouble> {
    let Some(template) = name.template() else {
        return Err(Trouble::new(format!(
            "Error creating units: unable to find Unit({name}) in Registry or on filesystem \
             ({argument})"
        )));
    };
    let local = from_disk(argument, name, Whose::Template);
    let Some(unit) = session.client.unit(template.as_str()).await? else {
        let local = local?.map(|(path, file)| {
            review(name.as_str(), &path);
            file
        });
        return local.ok_or_else(|| {
            Trouble::new(format!(
                "Error creating units: unable to find template Unit({template}) in Registry or on \
                 filesystem"
            ))
        });
    };
    session
        .client
        .may_sign(&unit)
        .map_err(|trouble| Trouble::new(format!("Error creating units: {}", trouble.message)))?;
    let file = UnitFile { options: unit.options };
    // An unreadable local file is ignored: the stored one counts.
    if let Ok(Some((path, local))) = local
        && local.hash() != file.hash()
    {
        warn(&differs(&template, &path));
    }
    Ok(file)
}

/// Applies the server's checks before the request.
pub(super) fn check(name: &UnitName, file: &UnitFile) -> Result<(), Trouble> {
    for doubt in warnings(file) {
        warn(&format!("{name}: {doubt}"));
    }
    let fault = |words: String| Trouble::new(format!("Error creating units: {name}: {words}"));
    file.check().map_err(|error| fault(error.to_string()))?;
    Requirement::of(file, None).check().map_err(|error| fault(error.to_string()))
}

//! backup and restore: all units of the cluster with their desired states, as one JSON document.
//! States, machines and reasons are not included: the cluster determines them again.

use super::arguments::Restore;
use super::output::{say, warn};
use super::session::Session;
use super::trouble::Trouble;
use crate::desired::Desired;
use crate::signature::Signature;
use crate::unit_file::{UnitFile, UnitOption};
use crate::unit_name::UnitName;
use crate::wire::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Version of the format.
const FORM: u32 = 1;
/// Maximum size of a document in bytes.
const LARGEST: u64 = 512 * 1024 * 1024;

/// The document.
#[derive(Debug, Serialize, Deserialize)]
struct Backup {
    #[serde(rename = "fleet-backup")]
    form: u32,
    units: Vec<Kept>,
}

/// A unit of the backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Kept {
    name: String,
    desired_state: String,
    options: Vec<UnitOption>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<Signature>,
}

fn fault_of(path: &Path, why: &dyn std::fmt::Display) -> Trouble {
    Trouble::new(format!("{}: {why}", path.display()))
}

pub(super) async fn backup(session: &mut Session, path: &Path) -> Result<u8, Trouble> {
    let mut units = session.client.units().await?;
    units.sort_by(|a, b| a.name.cmp(&b.name));
    for unit in units.iter().filter(|unit| unit.before.is_some()) {
        let name = &unit.name;
        warn(&format!("{name}: a rollout is in progress; the backup has only the new file"));
    }
    let kept = |unit: Unit| Kept {
        name: unit.name,
        desired_state: unit.desired_state,
        options: unit.options,
        signature: unit.signature,
    };
    let backup = Backup { form: FORM, units: units.into_iter().map(kept).collect() };
    let mut text = serde_json::to_vec_pretty(&backup).map_err(|error| fault_of(path, &error))?;
    text.push(b'\n');
    if u64::try_from(text.len()).is_ok_and(|length| length > LARGEST) {
        return Err(fault_of(path, &format!("the backup is larger than {LARGEST} bytes")));
    }
    write_whole(path, &text).map_err(|error| fault_of(path, &error))?;
    say(&format!("saved {} units to {}", backup.units.len(), path.display()));
    Ok(0)
}

/// Replaces the file atomically.
fn write_whole(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let missing = || std::io::Error::other("not a file name");
    let mut beside = path.file_name().ok_or_else(missing)?.to_os_string();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    // Unit files may hold secrets.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let written = written.and_then(|()| std::fs::rename(&beside, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
        return written;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.map_or(PathBuf::from("."), Path::to_path_buf))?.sync_all()
}

pub(super) async fn restore(session: &mut Session, what: &Restore) -> Result<u8, Trouble> {
    let path = &what.file;
    let backup = read(path)?;
    let there = session.client.units().await?;
    if !there.is_empty() && !what.force {
        return Err(Trouble::new(format!(
            "nothing restored: the cluster has {} units; --force replaces the units that the \
             backup has, and keeps all others",
            there.len()
        )));
    }
    let count = backup.units.len();
    for (done, kept) in backup.units.into_iter().enumerate() {
        let name = kept.name.clone();
        let unit = Unit {
            name: kept.name,
            desired_state: kept.desired_state,
            options: kept.options,
            signature: kept.signature,
            ..Unit::default()
        };
        session.client.put(&unit).await.map_err(|trouble| Trouble {
            message: format!(
                "restored {done} of {count} units; {name} failed: {}; restore --force continues",
                trouble.message
            ),
            ..trouble
        })?;
    }
    say(&format!("restored {count} units"));
    Ok(0)
}

/// Reads the document and checks all its units before the first is written.
fn read(path: &Path) -> Result<Backup, Trouble> {
    let bad = |why: &dyn std::fmt::Display| fault_of(path, why);
    let file = File::open(path).map_err(|error| bad(&error))?;
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text).map_err(|error| bad(&error))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > LARGEST) {
        return Err(bad(&format!("larger than {LARGEST} bytes")));
    }
    let backup: Backup =
        serde_json::from_slice(&text).map_err(|error| bad(&format!("not a backup: {error}")))?;
    if backup.form != FORM {
        let form = backup.form;
        return Err(bad(&format!(
            "unsupported backup format {form}: this fleetctl reads format {FORM}"
        )));
    }
    let mut names = BTreeSet::new();
    for kept in &backup.units {
        let bad = |why: &dyn std::fmt::Display| bad(&format!("{}: {why}", kept.name));
        let name = UnitName::new(&kept.name).map_err(|error| bad(&error))?;
        let desired: Desired = kept.desired_state.parse().map_err(|error| bad(&error))?;
        if name.is_template() && desired != Desired::Inactive {
            return Err(bad(&"a template cannot be loaded or launched: use an instance"));
        }
        UnitFile { options: kept.options.clone() }.check().map_err(|error| bad(&error))?;
        if !names.insert(&kept.name) {
            return Err(bad(&"duplicate unit"));
        }
    }
    Ok(backup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_backup_is_refused_as_a_whole() {
        let path = std::env::temp_dir().join(format!("fleet-backup.{}", std::process::id()));
        let unit = |name: &str, state: &str| {
            format!(r#"{{"name":"{name}","desiredState":"{state}","options":[]}}"#)
        };
        let good = unit("a.service", "launched");
        let refused = |text: &str| {
            write_whole(&path, text.as_bytes()).unwrap();
            read(&path).map(|backup| backup.units.len()).map_err(|trouble| trouble.message)
        };
        let document = |form: u32, units: &str| {
            refused(&format!(r#"{{"fleet-backup":{form},"units":[{units}]}}"#))
        };
        assert_eq!(document(1, &good), Ok(1));
        for (form, units, words) in [
            (2, good.clone(), "format 2"),
            (1, unit("a", "launched"), "a: unit name must contain"),
            (1, unit("a.service", "running"), "a.service: "),
            (1, unit("a@.service", "launched"), "template"),
            (1, format!("{good},{good}"), "duplicate"),
            (1, "3".to_string(), "not a backup"),
        ] {
            let why = document(form, &units).unwrap_err();
            assert!(why.contains(words), "{words}: {why}");
        }
        assert!(refused("half").unwrap_err().contains("not a backup"));
        std::fs::remove_file(&path).unwrap();
    }
}

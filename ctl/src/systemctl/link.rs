//! Links to unit files, which enable, mask or define units.

use super::complain;
use super::unit_file::Folders;
use super::words::Asked;
use crate::exit::Error;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Returns the unit's links in a `.wants` folder.
pub(super) fn in_folder(
    folders: &Folders,
    folder: &Path,
    name: &str,
    instances: bool,
) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folders.followed(folder)) else { return Vec::new() };
    let is_its = |path: &PathBuf| {
        let own = path.file_name().map(|own| own.to_string_lossy().into_owned());
        own.is_some_and(|own| {
            own == name
                || (instances && super::unit_file::template_of(&own).is_some_and(|one| one == name))
        })
    };
    entries.flatten().map(|entry| entry.path()).filter(is_its).collect()
}

/// Returns true if the link points to a file of that name.
pub(super) fn points_to(link: &Path, name: &str) -> bool {
    let to = fs::read_link(link).ok();
    to.as_deref().and_then(Path::file_name).is_some_and(|to| to.to_string_lossy() == name)
}

/// Creates a link, and replaces one with another target.
pub(super) fn make_link(
    folders: &Folders,
    link: &Path,
    to: &str,
    asked: &Asked,
) -> Result<(), Error> {
    let link = &folders.entry(link);
    let failed = |error| Error::file(&link.to_string_lossy(), &error);
    if let Some(dir) = link.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    if fs::read_link(link).is_ok_and(|old| old == Path::new(to)) {
        return Ok(());
    }
    match symlink(to, link) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && fs::read_link(link).is_ok() => {
            fs::remove_file(link).map_err(failed)?;
            symlink(to, link).map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    if !asked.quiet {
        complain(&format!("Created symlink {} → {to}.", link.display()));
    }
    Ok(())
}

/// Removes a link or a file.
pub(super) fn remove_link(link: &Path, asked: &Asked) -> Result<(), Error> {
    fs::remove_file(link).map_err(|error| Error::file(&link.to_string_lossy(), &error))?;
    if !asked.quiet {
        complain(&format!("Removed \"{}\".", link.display()));
    }
    Ok(())
}

//! `edit`: opens a drop-in of a unit, or with `--full` the whole file, in an editor, and then
//! reloads init. The file is replaced atomically, and not at all if nothing was written.

use super::enablement::Enablement;
use super::snapshot::{session_of, with_suffix};
use super::unit_file::UnitFile;
use super::words::Asked;
use super::{FAILED, Outcome, complain, manager};
use crate::exit::Error;
use groundstate_units::control::request::Verb;
use std::fs::{self, File};
use std::io::{IsTerminal, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables in the order of precedence, then programs.
const VARIABLES: [&str; 3] = ["SYSTEMD_EDITOR", "EDITOR", "VISUAL"];
const EDITORS: [&str; 4] = ["editor", "nano", "vim", "vi"];

/// Edits each unit, then reloads init.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let mut changed = false;
    for name in asked.names.iter().map(|name| with_suffix(name)) {
        let found = enablement.find(&name);
        let Some(file) = found.or_else(|| (asked.force > 0).then(|| UnitFile::missing(&name)))
        else {
            complain(&format!("No files found for {name}."));
            complain(&format!("Run 'systemctl edit --force --full {name}' to create a new unit."));
            return Ok(FAILED);
        };
        if file.masked {
            complain(&format!("Cannot edit {name}: unit is masked."));
            return Ok(FAILED);
        }
        let Some(dir) = folder(&enablement, &file, asked.runtime) else {
            complain(&format!(
                "Cannot edit {name}: init reads no directory that may contain changes of it."
            ));
            return Ok(FAILED);
        };
        changed |= edit(&enablement, asked, &file, &dir)?;
    }
    if changed && enablement.init.is_some() && !asked.no_reload {
        manager::reload_init(&session, Verb::Reload { no_restart: true })?;
    }
    Ok(0)
}

/// Returns the folder for changes of a unit file. It is the folder of this machine's links or, for
/// a file in one of init's own directories, one of those directories.
fn folder(enablement: &Enablement, file: &UnitFile, runtime: bool) -> Option<PathBuf> {
    let folders = &enablement.folders;
    let links = folders.links_dir(runtime).filter(|_| !folders.is_enabled_by_policy(file));
    links.or_else(|| {
        let own = enablement.init.as_ref().map(|init| &init.paths.unit_dirs)?;
        own.get(usize::from(runtime)).map(PathBuf::from)
    })
}

/// Returns true if the file has changed.
fn edit(
    enablement: &Enablement,
    asked: &Asked,
    file: &UnitFile,
    dir: &Path,
) -> Result<bool, Error> {
    let own = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
    let own = own.unwrap_or_else(|| file.name.clone());
    let whole = asked.full || file.path.as_os_str().is_empty();
    let to = match (whole, file.native) {
        (true, _) => dir.join(own),
        (false, true) => dir.join(own.replace(".yaml", ".d")).join("override.yaml"),
        (false, false) => dir.join(format!("{}.d", file.name)).join("override.conf"),
    };
    let to = enablement.folders.entry(&to);
    let fault = |error: std::io::Error| Error::file(&to.to_string_lossy(), &error);
    let before = match fs::read_to_string(enablement.folders.followed(&to)) {
        Ok(text) => text,
        Err(_) if whole => enablement.folders.text(file),
        Err(_) => String::new(),
    };
    let parent = to.parent().unwrap_or(dir);
    let made = !parent.exists();
    fs::create_dir_all(parent).map_err(fault)?;
    let draft = parent.join(format!(".{}.{}", std::process::id(), "edit"));
    let _ = fs::remove_file(&draft);
    // A link of that name is not followed.
    File::create_new(&draft)
        .and_then(|mut file| file.write_all(before.as_bytes()))
        .map_err(fault)?;
    let edited = editor(&draft).and_then(|()| fs::read_to_string(&draft).map_err(fault));
    let keep = match &edited {
        Ok(text) if text.trim().is_empty() => {
            complain(&format!("Editing \"{}\" canceled: temporary file is empty.", to.display()));
            false
        }
        Ok(text) => *text != before || !to.exists(),
        Err(_) => false,
    };
    let done = if keep { fs::rename(&draft, &to) } else { fs::remove_file(&draft) };
    if made && !keep {
        // Removes the folder if it is empty; other files in it are not ours.
        let _ = fs::remove_dir(parent);
    }
    edited?;
    done.map_err(fault)?;
    Ok(keep)
}

/// Runs the editor from the environment, or the first one installed.
fn editor(draft: &Path) -> Result<(), Error> {
    let named =
        VARIABLES.iter().find_map(|name| std::env::var(name).ok().filter(|it| !it.is_empty()));
    let (programs, words): (Vec<String>, Vec<String>) = match &named {
        Some(line) => {
            let mut words = line.split_whitespace().map(str::to_string);
            (words.next().into_iter().collect(), words.collect())
        }
        None => (EDITORS.map(str::to_string).to_vec(), Vec::new()),
    };
    if named.is_none() && !stdin().is_terminal() {
        return Err(Error::local(
            "Cannot edit units if not on a tty.",
            "SYSTEMD_EDITOR can name an editor that needs none",
        ));
    }
    for program in &programs {
        match Command::new(program).args(&words).arg(draft).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => {
                return Err(Error::local(
                    format!("{program} failed ({status}); nothing is changed"),
                    "",
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::file(program, &error)),
        }
    }
    let message = format!("Cannot edit units, no editor available ({})", programs.join(", "));
    Err(Error::local(message, "set SYSTEMD_EDITOR, EDITOR or VISUAL"))
}

//! `enable`, `disable`, `mask`, `unmask`, `preset` and their kin. A unit of init's own directories
//! is enabled by the policy file; one of systemd's by the links systemd would make, because
//! Debian's own programs read and make those, and init reads them too.

use super::enablement::Enablement;
use super::snapshot::{session_of, with_suffix};
use super::unit_file::{Folders, Install, UnitFile};
use super::words::Asked;
use super::{FAILED, Outcome, change, complain, manager};
use crate::exit::Trouble;
use crate::policy_file;
use crate::session::Session;
use groundstate_units::control::answer::Changed;
use groundstate_units::control::request::Verb;
use groundstate_units::name::Name;
use groundstate_units::policy::Policy;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// How many `Also=` are followed.
const ALSO: usize = 64;

/// Does it.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let job = Job { session: &session, asked, enablement: &enablement };
    let exit = match asked.verb.as_str() {
        "add-wants" | "add-requires" => job.add()?,
        "preset-all" => 0,
        "link" => job.link()?,
        _ => job.each()?,
    };
    if exit != 0 {
        return Ok(exit);
    }
    job.tell()?;
    match (asked.now, asked.verb.as_str()) {
        (false, _) => Ok(0),
        (true, "disable" | "mask") => change::tell(&session, asked, "stop", &asked.names),
        (true, _) => change::tell(&session, asked, "start", &asked.names),
    }
}

struct Job<'a> {
    session: &'a Session,
    asked: &'a Asked,
    enablement: &'a Enablement,
}

/// What a verb comes to for one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Enable,
    Disable,
    Mask,
    Unmask,
}

impl Job<'_> {
    fn folders(&self) -> &Folders {
        &self.enablement.folders
    }

    fn each(&self) -> Outcome {
        let mut left: Vec<String> = self.asked.names.iter().rev().cloned().collect();
        let mut done: Vec<String> = Vec::new();
        while let Some(name) = left.pop() {
            // A path is the unit of its file.
            let name = with_suffix(name.rsplit('/').next().unwrap_or(&name));
            if done.contains(&name) || done.len() > ALSO {
                continue;
            }
            done.push(name.clone());
            let found = self.enablement.find(&name);
            let edit = match self.asked.verb.as_str() {
                "enable" | "reenable" => Edit::Enable,
                "disable" | "revert" => Edit::Disable,
                "mask" => Edit::Mask,
                "unmask" => Edit::Unmask,
                _ if self.preset(&name) => Edit::Enable,
                _ => Edit::Disable,
            };
            match (edit, found) {
                (Edit::Mask | Edit::Unmask, _) => self.mask(&name, edit == Edit::Mask)?,
                (_, None) => {
                    let verb = &self.asked.verb;
                    complain(&format!("Failed to {verb} unit: Unit file {name} does not exist."));
                    return Ok(FAILED);
                }
                (Edit::Enable, Some(file))
                    if self.enablement.state(&file).starts_with("masked") =>
                {
                    complain(&format!(
                        "Failed to enable unit: Unit file {} is masked.",
                        file.shown
                    ));
                    return Ok(FAILED);
                }
                (_, Some(file)) => {
                    let install = self.folders().install(&file);
                    if !done.is_empty() {
                        left.extend(install.also.iter().cloned());
                    }
                    self.set(&file, &install, edit)?;
                }
            }
        }
        Ok(0)
    }

    fn set(&self, file: &UnitFile, install: &Install, edit: Edit) -> Result<(), Trouble> {
        let mut name = file.name.clone();
        if name.contains("@.") {
            let Some(instance) = &install.default_instance else {
                if edit == Edit::Enable {
                    let message = format!("{name} is a template: name an instance of it");
                    return Err(Trouble::local(message, ""));
                }
                return self.unlink(&name, true);
            };
            name = name.replace("@.", &format!("@{instance}."));
        }
        if install.is_empty() {
            if edit == Edit::Enable && install.also.is_empty() && !self.asked.quiet {
                complain(&format!(
                    "{name} has no [Install] (wanted-by, required-by): enabling it does nothing."
                ));
            }
            return Ok(());
        }
        let by_policy = self.folders().is_enabled_by_policy(file);
        let enable = edit == Edit::Enable;
        if !by_policy && (!enable || self.asked.verb == "reenable") {
            self.unlink(&name, false)?;
        }
        if !by_policy && enable {
            self.links(&name, file, install)?;
        }
        if by_policy && !enable && !self.asked.quiet && self.enablement.init.is_some() {
            complain(&format!("{name} is disabled: it stops unless something else needs it"));
        }
        self.policy(&file.name, |policy, name| {
            let Policy { enable: enabled, disable: disabled, .. } = policy;
            let (into, from) = if enable { (enabled, disabled) } else { (disabled, enabled) };
            from.remove(&name);
            // Else the links say it.
            if by_policy {
                into.insert(name);
            }
        })
    }

    fn links(&self, name: &str, file: &UnitFile, install: &Install) -> Result<(), Trouble> {
        let Some(dir) = self.folders().config(self.asked.runtime) else { return Ok(()) };
        for (targets, kind) in [(&install.wanted_by, "wants"), (&install.required_by, "requires")] {
            for target in targets {
                make_link(
                    &dir.join(format!("{target}.{kind}")).join(name),
                    &file.shown,
                    self.asked,
                )?;
            }
        }
        for alias in install.alias.iter().filter(|alias| *alias != name) {
            make_link(&dir.join(alias), &file.shown, self.asked)?;
        }
        Ok(())
    }

    /// Removes every link by which it is enabled.
    fn unlink(&self, name: &str, instances: bool) -> Result<(), Trouble> {
        for runtime in [false, true] {
            let Some(dir) = self.folders().config(runtime) else { continue };
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let own = entry.file_name().to_string_lossy().into_owned();
                if own.ends_with(".wants") || own.ends_with(".requires") {
                    for link in in_folder(&entry.path(), name, instances) {
                        remove_link(&link, self.asked)?;
                    }
                } else if own != name && points_to(&entry.path(), name) {
                    remove_link(&entry.path(), self.asked)?;
                }
            }
        }
        Ok(())
    }

    fn mask(&self, name: &str, mask: bool) -> Result<(), Trouble> {
        let known = self.enablement.find(name);
        if mask && known.is_none() && !self.asked.quiet {
            complain(&format!("Unit {name} does not exist, masking it anyway."));
        }
        let by_policy = known.is_some_and(|file| self.folders().is_masked_by_policy(&file));
        if let Some(dir) = self.folders().config(self.asked.runtime) {
            let link = dir.join(name);
            let to_null = fs::read_link(&link).is_ok_and(|to| to == Path::new("/dev/null"));
            if !mask && to_null {
                remove_link(&link, self.asked)?;
            } else if mask && !by_policy && fs::symlink_metadata(&link).is_err() {
                make_link(&link, "/dev/null", self.asked)?;
            }
        }
        self.policy(name, |policy, name| {
            match (mask, by_policy) {
                (true, true) => policy.mask.insert(name),
                (true, false) => false,
                (false, _) => policy.mask.remove(&name),
            };
        })
    }

    fn policy(&self, name: &str, change: impl Fn(&mut Policy, Name)) -> Result<(), Trouble> {
        let root = self.asked.root.as_deref().unwrap_or_default();
        let path = match &self.enablement.init {
            Some(init) if self.asked.runtime => {
                init.paths.runtime_policy.clone().unwrap_or_else(|| init.paths.policy.clone())
            }
            Some(init) => init.paths.policy.clone(),
            None => format!("{root}{}", self.session.places.policy),
        };
        // A native unit needs no suffix, and policy knows it by its own name.
        let own = self.enablement.find(name).map_or_else(|| name.to_string(), |file| file.name);
        let name =
            Name::new(&own).map_err(|error| Trouble::usage(format!("{own}: {error}"), ""))?;
        policy_file::edit(&path, |policy| change(policy, name.clone()))?.put()?;
        Ok(())
    }

    /// init learns of links by a reload, of the policy at once; in this order, for a policy
    /// is for units that are known.
    fn tell(&self) -> Result<(), Trouble> {
        let Some(init) = &self.enablement.init else { return Ok(()) };
        if !self.asked.no_reload {
            manager::told(self.session, Verb::Reload { no_restart: true })?;
        }
        let mut policy = policy_file::read(&init.paths.policy)?;
        if let Some(passing) = &init.paths.runtime_policy {
            policy = policy.overlaid(&policy_file::read(passing)?);
        }
        if !self.enablement.is_policy(&policy) {
            self.session.ask_as::<Changed>(Verb::Policy { policy })?;
        }
        Ok(())
    }

    fn config(&self) -> Result<PathBuf, Trouble> {
        self.folders().config(self.asked.runtime).ok_or_else(|| {
            let hint = "unit-dirs of init.yaml would name it";
            Trouble::local("init does not read /etc/systemd/system", hint)
        })
    }

    /// `add-wants TARGET UNIT…`.
    fn add(&self) -> Outcome {
        let Some((target, units)) = self.asked.names.split_first() else { return Ok(FAILED) };
        let kind = if self.asked.verb == "add-wants" { "wants" } else { "requires" };
        let dir = self.config()?.join(format!("{target}.{kind}"));
        for name in units.iter().map(|name| with_suffix(name)) {
            let Some(file) = self.enablement.find(&name) else {
                complain(&format!("Failed to add dependency: Unit file {name} does not exist."));
                return Ok(FAILED);
            };
            make_link(&dir.join(&name), &file.shown, self.asked)?;
        }
        Ok(0)
    }

    /// `link FILE…`: a unit file from elsewhere becomes one of this machine's own.
    fn link(&self) -> Outcome {
        for path in &self.asked.names {
            let name = path.rsplit('/').next().unwrap_or(path);
            make_link(&self.config()?.join(name), path, self.asked)?;
        }
        Ok(0)
    }

    /// systemd.preset(5): the first line that fits; enabled where none does.
    fn preset(&self, name: &str) -> bool {
        let root = self.asked.root.as_deref().unwrap_or_default();
        let dirs = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];
        let mut files: Vec<PathBuf> = Vec::new();
        for dir in dirs.map(|dir| format!("{root}/{dir}/systemd/system-preset")) {
            let Ok(entries) = fs::read_dir(dir) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if !files.iter().any(|old| old.file_name() == path.file_name()) {
                    files.push(path);
                }
            }
        }
        files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        let texts: Vec<String> =
            files.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
        let mut lines = texts.iter().flat_map(|text| text.lines());
        let word = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            let (word, pattern) = (words.next()?, words.next()?);
            (matches!(word, "enable" | "disable")
                && groundstate_units::glob::matches(pattern, name))
            .then_some(word)
        });
        word != Some("disable")
    }
}

/// The links of a `.wants` folder that are this unit's.
fn in_folder(folder: &Path, name: &str, instances: bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let is_its = |path: &PathBuf| {
        let own = path.file_name().map(|own| own.to_string_lossy().into_owned());
        own.is_some_and(|own| {
            own == name
                || (instances && super::unit_file::template_of(&own).is_some_and(|one| one == name))
        })
    };
    entries.flatten().map(|entry| entry.path()).filter(is_its).collect()
}

fn points_to(link: &Path, name: &str) -> bool {
    let to = fs::read_link(link).ok();
    to.as_deref().and_then(Path::file_name).is_some_and(|to| to.to_string_lossy() == name)
}

fn make_link(link: &Path, to: &str, asked: &Asked) -> Result<(), Trouble> {
    let failed = |error| Trouble::file(&link.to_string_lossy(), &error);
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

fn remove_link(link: &Path, asked: &Asked) -> Result<(), Trouble> {
    fs::remove_file(link).map_err(|error| Trouble::file(&link.to_string_lossy(), &error))?;
    if !asked.quiet {
        complain(&format!("Removed \"{}\".", link.display()));
    }
    Ok(())
}

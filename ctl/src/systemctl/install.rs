//! `enable`, `disable`, `mask`, `unmask`, `preset` and similar verbs. The policy file enables units
//! in init's own directories. systemd's links enable units in systemd's directories, because
//! Debian's programs read and make those links, and init reads them too.

use super::enablement::Enablement;
use super::link::{in_folder, make_link, points_to, remove_link};
use super::snapshot::{session_of, with_suffix};
use super::unit_file::{Folders, Install, UnitFile};
use super::words::Asked;
use super::{FAILED, Outcome, change, complain, manager};
use crate::exit::Error;
use crate::policy_file;
use crate::session::Session;
use groundstate_units::control::answer::Changed;
use groundstate_units::control::request::Verb;
use groundstate_units::text::name::Name;
use groundstate_units::unit::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of `Also=` units.
const ALSO: usize = 64;

/// Runs the verb.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let job = Job { session: &session, asked, enablement: &enablement };
    let all;
    let exit = match asked.verb.as_str() {
        "add-wants" | "add-requires" => job.add()?,
        "preset-all" => {
            // A preset of systemd's packages decides about no native unit.
            let files = enablement.all().into_iter().filter(|file| !file.masked && !file.native);
            all = files.map(|file| file.name);
            job.each(&all.collect::<Vec<_>>())?
        }
        "link" => job.link(&asked.names)?,
        "revert" => job.revert()?,
        "enable" | "reenable" => {
            let (paths, _): (Vec<String>, Vec<String>) =
                asked.names.iter().cloned().partition(|name| name.contains('/'));
            match job.link(&paths)? {
                0 => job.enable_linked()?,
                exit => exit,
            }
        }
        _ => job.each(&asked.names)?,
    };
    if exit != 0 {
        return Ok(exit);
    }
    job.reload_and_send_policy()?;
    match (asked.now, asked.verb.as_str()) {
        (false, _) => Ok(0),
        (true, "disable" | "mask") => change::apply(&session, asked, "stop", &asked.names),
        (true, _) => change::apply(&session, asked, "start", &asked.names),
    }
}

#[derive(Clone, Copy)]
struct Job<'a> {
    session: &'a Session,
    asked: &'a Asked,
    enablement: &'a Enablement,
}

/// The operation on one unit.
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

    /// Reads the unit directories again, because `link` has added links, and then runs `enable`.
    fn enable_linked(&self) -> Outcome {
        let enablement = Enablement::of(self.session, self.asked.root.as_deref())?;
        Job { enablement: &enablement, ..*self }.each(&self.asked.names)
    }

    fn each(&self, names: &[String]) -> Outcome {
        let mut left: Vec<String> = names.iter().rev().cloned().collect();
        let mut done: Vec<String> = Vec::new();
        while let Some(name) = left.pop() {
            // A path stands for the unit of its file.
            let name = with_suffix(name.rsplit('/').next().unwrap_or(&name));
            if done.contains(&name) || done.len() > names.len() + ALSO {
                continue;
            }
            done.push(name.clone());
            let found = self.enablement.find(&name);
            let edit = match self.asked.verb.as_str() {
                "enable" | "reenable" => Edit::Enable,
                "disable" => Edit::Disable,
                "mask" => Edit::Mask,
                "unmask" => Edit::Unmask,
                _ if self.preset(&name) => Edit::Enable,
                _ => Edit::Disable,
            };
            let skipped = match self.asked.preset_mode.as_deref() {
                Some("enable-only") => Some(Edit::Disable),
                Some("disable-only") => Some(Edit::Enable),
                _ => None,
            };
            if self.asked.verb.starts_with("preset") && Some(edit) == skipped {
                continue;
            }
            match (edit, found) {
                (Edit::Mask | Edit::Unmask, _) => self.mask(&name, edit == Edit::Mask)?,
                // A name in `Also=` may have no file.
                (_, None) if self.asked.verb == "preset-all" => {}
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
                    left.extend(install.also.iter().cloned());
                    // `preset-all` covers all files, also templates and units without [Install].
                    if self.asked.verb == "preset-all"
                        && (install.is_empty()
                            || (name.contains("@.") && install.default_instance.is_none()))
                    {
                        continue;
                    }
                    self.set(&file, &install, edit)?;
                }
            }
        }
        Ok(0)
    }

    fn set(&self, file: &UnitFile, install: &Install, edit: Edit) -> Result<(), Error> {
        let mut name = file.name.clone();
        if edit == Edit::Disable && self.enablement.is_linked(file) {
            remove_link(&file.path, self.asked)?;
        }
        if name.contains("@.") || name.ends_with('@') {
            let Some(instance) = &install.default_instance else {
                if edit == Edit::Enable {
                    let message = format!("{name} is a template: use an instance");
                    return Err(Error::local(message, ""));
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
            // If the policy does not decide, the links do.
            if by_policy {
                into.insert(name);
            }
        })
    }

    fn links(&self, name: &str, file: &UnitFile, install: &Install) -> Result<(), Error> {
        let Some(dir) = self.folders().links_dir(self.asked.runtime) else { return Ok(()) };
        for (targets, kind) in [(&install.wanted_by, "wants"), (&install.required_by, "requires")] {
            for target in targets {
                let link = dir.join(format!("{target}.{kind}")).join(name);
                make_link(self.folders(), &link, &file.shown, self.asked)?;
            }
        }
        for alias in install.alias.iter().filter(|alias| *alias != name) {
            make_link(self.folders(), &dir.join(alias), &file.shown, self.asked)?;
        }
        Ok(())
    }

    /// Removes all links that enable the unit.
    fn unlink(&self, name: &str, instances: bool) -> Result<(), Error> {
        for runtime in [false, true] {
            let Some(dir) = self.folders().links_dir(runtime) else { continue };
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let own = entry.file_name().to_string_lossy().into_owned();
                if own.ends_with(".wants") || own.ends_with(".requires") {
                    for link in in_folder(self.folders(), &entry.path(), name, instances) {
                        remove_link(&link, self.asked)?;
                    }
                } else if own != name && points_to(&entry.path(), name) {
                    remove_link(&entry.path(), self.asked)?;
                }
            }
        }
        Ok(())
    }

    fn mask(&self, name: &str, mask: bool) -> Result<(), Error> {
        let known = self.enablement.find(name);
        if mask && known.is_none() && !self.asked.quiet {
            complain(&format!("Unit {name} does not exist, masking it anyway."));
        }
        let by_policy = known.is_some_and(|file| self.folders().is_masked_by_policy(&file));
        if let Some(dir) = self.folders().links_dir(self.asked.runtime) {
            let link = dir.join(name);
            let to_null = fs::read_link(&link).is_ok_and(|to| to == Path::new("/dev/null"));
            if !mask && to_null {
                remove_link(&link, self.asked)?;
            } else if mask && !by_policy && fs::symlink_metadata(&link).is_err() {
                make_link(self.folders(), &link, "/dev/null", self.asked)?;
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

    fn policy(&self, name: &str, change: impl Fn(&mut Policy, Name)) -> Result<(), Error> {
        let (permanent, runtime) = &self.enablement.policy_files;
        let path = runtime.as_ref().filter(|_| self.asked.runtime).unwrap_or(permanent);
        // The policy knows a native unit by its own name, which may lack the suffix.
        let own = self.enablement.find(name).map_or_else(|| name.to_string(), |file| file.name);
        let name = Name::new(&own).map_err(|error| Error::usage(format!("{own}: {error}"), ""))?;
        policy_file::edit(path, |policy| change(policy, name.clone()))?.put()?;
        Ok(())
    }

    /// Reloads init for links, and sends it the policy. The reload comes first, because a policy
    /// applies to known units.
    fn reload_and_send_policy(&self) -> Result<(), Error> {
        let Some(init) = &self.enablement.init else { return Ok(()) };
        if !self.asked.no_reload {
            manager::reload_init(self.session, Verb::Reload { no_restart: true })?;
        }
        let mut policy = policy_file::read(&init.paths.policy)?;
        if let Some(runtime) = &init.paths.runtime_policy {
            policy = policy.overlaid(&policy_file::read(runtime)?);
        }
        if !self.enablement.is_policy_unchanged(&policy) {
            self.session.ask_as::<Changed>(Verb::Policy { policy })?;
        }
        Ok(())
    }

    fn links_dir(&self) -> Result<PathBuf, Error> {
        self.folders().links_dir(self.asked.runtime).ok_or_else(|| {
            let dir = if self.asked.runtime { "/run" } else { "/etc" };
            let message = format!("init does not read {dir}/systemd/system");
            Error::local(message, "write `import-dirs: systemd` into init.yaml")
        })
    }

    /// Handles `add-wants TARGET UNIT…`.
    fn add(&self) -> Outcome {
        let Some((target, units)) = self.asked.names.split_first() else { return Ok(FAILED) };
        let kind = if self.asked.verb == "add-wants" { "wants" } else { "requires" };
        let dir = self.links_dir()?.join(format!("{target}.{kind}"));
        for name in units.iter().map(|name| with_suffix(name)) {
            let Some(file) = self.enablement.find(&name) else {
                complain(&format!("Failed to add dependency: Unit file {name} does not exist."));
                return Ok(FAILED);
            };
            make_link(self.folders(), &dir.join(&name), &file.shown, self.asked)?;
        }
        Ok(0)
    }

    /// `link FILE…`: makes a unit file from elsewhere known to this machine. A file in one of the
    /// unit directories needs no link.
    fn link(&self, paths: &[String]) -> Outcome {
        for path in paths {
            let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
            let name = whole.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            let found = self.folders().below(&whole.to_string_lossy());
            let (verb, shown) = (&self.asked.verb, whole.display());
            let problem = match fs::metadata(&found) {
                Err(error) => error.to_string(),
                Ok(file) if !file.is_file() => "not a regular file".to_string(),
                Ok(_) if !super::shown::has_suffix(&name) => "not a unit file name".to_string(),
                Ok(_) => String::new(),
            };
            if !problem.is_empty() {
                complain(&format!("Failed to {verb} unit: {shown}: {problem}"));
                return Ok(FAILED);
            }
            let is_read = whole.parent().is_some_and(|dir| self.folders().reads(dir));
            if !is_read {
                let link = self.links_dir()?.join(&*name);
                // Does not replace a regular file with a link.
                if fs::symlink_metadata(&link).is_ok_and(|old| old.is_file()) {
                    complain(&format!("Failed to {verb} unit: {} exists", link.display()));
                    return Ok(FAILED);
                }
                make_link(self.folders(), &link, &whole.to_string_lossy(), self.asked)?;
            }
        }
        Ok(0)
    }

    /// `revert`: removes this machine's changes of a unit, if the unit also has a file in another
    /// directory. Drop-ins are removed in any case.
    fn revert(&self) -> Outcome {
        for name in self.asked.names.iter().map(|name| with_suffix(name)) {
            for dir in [false, true].iter().filter_map(|runtime| self.folders().links_dir(*runtime))
            {
                let drop_ins = self.folders().entry(&dir.join(format!("{name}.d")));
                if drop_ins.is_dir() {
                    fs::remove_dir_all(&drop_ins)
                        .map_err(|error| Error::file(&drop_ins.to_string_lossy(), &error))?;
                    if !self.asked.quiet {
                        complain(&format!("Removed \"{}\".", drop_ins.display()));
                    }
                }
                let own = self.folders().entry(&dir.join(&name));
                let others = self.folders().dirs.iter().filter(|other| **other != dir);
                let exists = |dir: &PathBuf| self.folders().followed(&dir.join(&name)).exists();
                let is_elsewhere = others.into_iter().any(exists);
                if fs::symlink_metadata(&own).is_ok() && is_elsewhere {
                    remove_link(&own, self.asked)?;
                }
            }
        }
        Ok(0)
    }

    /// Applies systemd.preset(5): the first matching line, or enabled.
    fn preset(&self, name: &str) -> bool {
        let dirs = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];
        let mut files: Vec<PathBuf> = Vec::new();
        for dir in dirs.map(|dir| format!("/{dir}/systemd/system-preset")) {
            let Ok(entries) = fs::read_dir(self.folders().below(&dir)) else { continue };
            for path in entries.flatten().map(|entry| entry.path()) {
                if !files.iter().any(|old| old.file_name() == path.file_name()) {
                    files.push(path);
                }
            }
        }
        files.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        let texts: Vec<String> = files.iter().map(|path| self.folders().text_at(path)).collect();
        let mut lines = texts.iter().flat_map(|text| text.lines());
        let word = lines.find_map(|line| {
            let mut words = line.split_whitespace();
            let (word, pattern) = (words.next()?, words.next()?);
            (matches!(word, "enable" | "disable")
                && groundstate_units::text::glob::matches(pattern, name))
            .then_some(word)
        });
        word != Some("disable")
    }
}

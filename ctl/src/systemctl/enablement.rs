//! `is-enabled`, and the state of a unit file.
//! A link or the policy masks or enables a unit. A unit file without an `[Install]` is static.

use super::shown;
use super::snapshot::{session_of, with_suffix};
use super::unit_file::{Folders, UnitFile, in_tree, template_of};
use super::words::Asked;
use super::{FAILED, Outcome, complain};
use crate::exit::Error;
use crate::policy_file;
use crate::session::{self, Session};
use crate::verb::check;
use groundstate_units::control::answer::{Pong, Status, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::spec::Kind;
use groundstate_units::unit::generation::{Generation, TargetId, Unit};
use groundstate_units::unit::policy::Policy;
use std::fs;
use std::path::Path;

/// The sources of unit file states.
pub(super) struct Enablement {
    /// The unit directories.
    pub(super) folders: Folders,
    /// init, unless there is none or `--root` is set.
    pub(super) init: Option<Pong>,
    /// The permanent policy file, and the one that lasts until the next boot.
    pub(super) policy_files: (String, Option<String>),
    /// The units of init, or of the files without one.
    units: Vec<Loaded>,
    policy: Policy,
}

/// A loaded unit.
struct Loaded {
    name: String,
    kind: Kind,
    provides: Vec<String>,
    /// The path without the root; empty for a removed unit.
    file: String,
}

impl Loaded {
    fn of_init(unit: UnitStatus) -> Loaded {
        Loaded { name: unit.unit, kind: unit.kind, provides: unit.provides, file: unit.file }
    }

    fn of_files(generation: &Generation, unit: &Unit) -> Loaded {
        let target = |id: &TargetId| Some(generation.target(*id)?.name.to_string());
        Loaded {
            name: unit.name.to_string(),
            kind: unit.kind,
            provides: unit.provides.iter().filter_map(target).collect(),
            file: unit.at.file.to_string(),
        }
    }

    fn is_native(&self) -> bool {
        self.file.ends_with(".yaml")
    }

    /// Returns true for the name of the unit with or without its suffix.
    fn has_name(&self, name: &str) -> bool {
        let suffixes = ["service", "target", shown::suffix_of(self.kind)];
        let rest = name.strip_prefix(self.name.as_str());
        let suffix = rest.and_then(|rest| rest.strip_prefix('.'));
        rest == Some("") || suffix.is_some_and(|suffix| suffixes.contains(&suffix))
    }
}

impl Enablement {
    /// Reads the running init, or the tree of `--root`.
    pub(super) fn of(session: &Session, root: Option<&str>) -> Result<Enablement, Error> {
        let init = if root.is_some() { None } else { session.init()? };
        let folders = Folders::new(root, init.as_ref());
        let (units, policy_files): (Vec<Loaded>, _) = match &init {
            Some(Pong { paths, .. }) => {
                let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
                let units = status.units.into_iter().map(Loaded::of_init);
                (units.collect(), (paths.policy.clone(), paths.runtime_policy.clone()))
            }
            None => {
                let (options, generation) = check::load_configured(session, root);
                let units = generation.units.iter();
                let units = units.map(|unit| Loaded::of_files(&generation, unit));
                let place = |path: String| in_tree(root, &path);
                let permanent = options.policy.map(place).unwrap_or_default();
                (units.collect(), (permanent, options.runtime_policy.map(place)))
            }
        };
        let mut policy = policy_file::read(&policy_files.0).unwrap_or_default();
        if let Some(runtime) = &policy_files.1 {
            policy = policy.overlaid(&policy_file::read(runtime).unwrap_or_default());
        }
        Ok(Enablement { folders, init, policy_files, units, policy })
    }

    /// Returns the file of a unit: the loaded one, or else the one that init would load.
    pub(super) fn find(&self, name: &str) -> Option<UnitFile> {
        let mut native = self.units.iter().filter(|unit| unit.is_native());
        match native.find(|unit| unit.has_name(name)) {
            Some(unit) => Some(self.folders.loaded(&unit.name, &unit.file)),
            None => self.folders.find(name),
        }
    }

    /// Returns true if the name is an alias of a loaded unit.
    fn is_provided_name(&self, name: &str) -> bool {
        self.units.iter().any(|unit| unit.provides.iter().any(|target| target == name))
    }

    /// Returns all unit files; of native ones those that are loaded.
    pub(super) fn all(&self) -> Vec<UnitFile> {
        let mut all = self.folders.all();
        for unit in self.units.iter().filter(|unit| unit.is_native()) {
            let name = shown::name_with_suffix(&unit.name, &unit.provides, unit.kind);
            if !all.iter().any(|file| file.name == name) {
                all.push(UnitFile { name, ..self.folders.loaded(&unit.name, &unit.file) });
            }
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns true if the policy has not changed.
    pub(super) fn is_policy_unchanged(&self, now: &Policy) -> bool {
        self.policy == *now
    }

    /// Returns the word for a file's state.
    pub(super) fn state(&self, file: &UnitFile) -> &'static str {
        let named = |names: &std::collections::BTreeSet<groundstate_units::text::name::Name>| {
            let bare = file.name.strip_suffix(".service").unwrap_or(&file.name);
            names.contains(file.name.as_str()) || names.contains(bare)
        };
        let runtime = file.path.parent().is_some_and(|dir| self.folders.is_runtime(dir));
        if file.masked {
            return if runtime { "masked-runtime" } else { "masked" };
        }
        if named(&self.policy.mask) {
            return "masked";
        }
        let install = self.folders.install(file);
        if named(&self.policy.disable) && !install.is_empty() {
            return "disabled";
        }
        if let Some(word) = self.enabled_by_link(&file.name) {
            return word;
        }
        if self.is_alias(file) {
            return "alias";
        }
        let by_itself = self.folders.counts_by_itself(file) && !install.is_empty();
        if self.is_linked(file) && !named(&self.policy.enable) && !by_itself {
            return if runtime { "linked-runtime" } else { "linked" };
        }
        match () {
            () if install.is_empty() && !install.also.is_empty() => "indirect",
            () if install.is_empty() => "static",
            () if named(&self.policy.enable) => "enabled",
            () if self.folders.counts_by_itself(file) => "enabled",
            () => "disabled",
        }
    }

    /// Returns true if only a link makes the file known: it is in none of the unit directories.
    pub(super) fn is_linked(&self, file: &UnitFile) -> bool {
        let links = [false, true].map(|runtime| self.folders.links_dir(runtime));
        let is_link = links.iter().flatten().any(|dir| file.path.parent() == Some(dir));
        let Ok(to) = fs::read_link(&file.path) else { return false };
        let is_read = to.parent().is_some_and(|dir| self.folders.reads(dir));
        is_link && !file.masked && !is_read && to.file_name() == file.path.file_name()
    }

    /// Returns true if the file in this machine's directories is a link to a file with another
    /// name.
    fn is_alias(&self, file: &UnitFile) -> bool {
        let Ok(to) = fs::read_link(&file.path) else { return false };
        let to = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        to != file.name && template_of(&file.name).is_none_or(|template| template != to)
    }

    /// Returns how the unit is enabled by links: in a `.wants` or `.requires` folder, or by an
    /// alias in this machine's directories.
    fn enabled_by_link(&self, name: &str) -> Option<&'static str> {
        for runtime in [false, true] {
            let Some(dir) = self.folders.links_dir(runtime) else { continue };
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let folder = entry.file_name().to_string_lossy().into_owned();
                let wants = folder.ends_with(".wants") || folder.ends_with(".requires");
                if wants && holds(&self.folders.followed(&entry.path()), name)
                    || points_at(&entry.path(), &folder, name)
                {
                    return Some(if runtime { "enabled-runtime" } else { "enabled" });
                }
            }
        }
        None
    }
}

fn holds(folder: &Path, name: &str) -> bool {
    if fs::symlink_metadata(folder.join(name)).is_ok() {
        return true;
    }
    // A template is enabled by its instances.
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let template = |entry: fs::DirEntry| template_of(&entry.file_name().to_string_lossy());
    name.contains("@.") && entries.flatten().filter_map(template).any(|one| one == name)
}

fn points_at(link: &Path, own: &str, name: &str) -> bool {
    let to = fs::read_link(link).ok();
    let to = to.as_deref().and_then(Path::file_name).map(|to| to.to_string_lossy());
    own != name && to.is_some_and(|to| to == name)
}

/// `is-enabled`: exits 0 if any unit is; as in systemd, a static unit counts as enabled.
pub(super) fn is_enabled(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let enablement = Enablement::of(&session, asked.root.as_deref())?;
    let mut any = false;
    for name in &asked.names {
        let name = with_suffix(name);
        let Some(file) = enablement.find(&name) else {
            if enablement.is_provided_name(&name) {
                any = true;
                if !asked.quiet {
                    session::print("alias")?;
                }
                continue;
            }
            complain(&format!(
                "Failed to get unit file state for {name}: No such file or directory"
            ));
            continue;
        };
        let word = enablement.state(&file);
        any |= matches!(
            word,
            "enabled" | "enabled-runtime" | "static" | "alias" | "indirect" | "generated"
        );
        if !asked.quiet {
            session::print(word)?;
        }
    }
    Ok(if any { 0 } else { FAILED })
}

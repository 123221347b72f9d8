//! `mask`, `unmask`, `enable`, `disable`, `prefer`: edit the policy file, then send the policy to
//! init. If init refuses, the file is restored. Without an init, or with `--root`, only the file is
//! edited.

use crate::arguments::{self, PolicyPlace};
use crate::exit::{Error, Exit};
use crate::files::Rooted;
use crate::policy_file::{self, Draft, Edited};
use crate::session::Session;
use crate::spelling::nearest;
use crate::verb::{check, plan};
use groundstate_units::control::answer::{Cause, Changed, Failure, Plan, SCHEMA, Status};
use groundstate_units::control::place::runtime_policy;
use groundstate_units::control::request::Verb;
use groundstate_units::load::Options;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::TargetId;
use groundstate_units::unit::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The change for the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Adds to `mask`.
    Mask,
    /// Removes from `mask`.
    Unmask,
    /// Moves from `disable` to `enable`.
    Enable,
    /// Moves from `enable` to `disable`.
    Disable,
}

/// `mask`, `unmask`, `enable`, `disable`.
pub(crate) fn edit(session: &Session, asked: arguments::Policy, edit: Edit) -> Result<Exit, Error> {
    if edit == Edit::Unmask {
        return unmask(session, &asked);
    }
    let check = |known: &Known, policy: &Policy, _: &[&String]| {
        // An entry may stay in the policy after its unit is removed.
        let is_listed = |name: &Name| match edit {
            Edit::Mask | Edit::Unmask => false,
            Edit::Enable | Edit::Disable => {
                policy.enable.contains(name) || policy.disable.contains(name)
            }
        };
        let mut names = asked.targets.iter().filter(|name| !is_listed(name));
        names.try_for_each(|name| known.has(name))
    };
    let files = if asked.place.runtime { PolicyFile::Runtime } else { PolicyFile::Permanent };
    change(session, &asked.place, files, check, |_, policy| {
        for name in &asked.targets {
            apply(policy, edit, name);
        }
    })
}

/// Removes the masks of the names from both files. With `--runtime` or `--root` there is only one.
fn unmask(session: &Session, asked: &arguments::Policy) -> Result<Exit, Error> {
    let mut left: Vec<String> = Vec::new();
    let check = |known: &Known, policy: &Policy, files: &[&String]| {
        // With `--runtime` or `--root`, a mask in another file stays.
        let is_only = asked.place.runtime || asked.place.root.is_some();
        let file = files.first().filter(|_| is_only).map(|path| path.as_str());
        for name in &asked.targets {
            if known.masks(policy, name).is_empty() {
                known.has(name)?;
                left.push(known.not_masked(name, file));
            }
        }
        Ok(())
    };
    let files = if asked.place.runtime { PolicyFile::Runtime } else { PolicyFile::Both };
    let exit = change(session, &asked.place, files, check, |known, policy| {
        let masks = asked.targets.iter().flat_map(|name| known.masks(policy, name));
        for name in masks.collect::<Vec<Name>>() {
            apply(policy, Edit::Unmask, &name);
        }
    })?;
    left.iter().for_each(|text| session.remark(text));
    Ok(exit)
}

/// `prefer`.
pub(crate) fn prefer(session: &Session, asked: arguments::Prefer) -> Result<Exit, Error> {
    let check = |known: &Known, policy: &Policy, _: &[&String]| {
        asked.choices.iter().try_for_each(|(target, unit)| match unit {
            Some(unit) => known.provides(unit, target),
            None if policy.prefer.contains_key(target) => Ok(()),
            None => known.has(target),
        })
    };
    let files = if asked.place.runtime { PolicyFile::Runtime } else { PolicyFile::Permanent };
    change(session, &asked.place, files, check, |_, policy| {
        for (target, unit) in &asked.choices {
            match unit {
                Some(unit) => policy.prefer.insert(target.clone(), unit.clone()),
                None => policy.prefer.remove(target),
            };
        }
    })
}

/// Known names, because a policy for unknown ones would have no effect.
#[derive(Default)]
struct Known {
    /// Units with their targets.
    units: BTreeMap<String, Vec<String>>,
    /// Units that stay down while any of their names is masked.
    masked_by_any_name: BTreeSet<String>,
    /// Dropped names, if init reported them.
    dropped: BTreeSet<String>,
    /// The names are those of the running init, not of files.
    are_of_init: bool,
}

impl Known {
    /// Reads the names from init, or from the files without one.
    fn of(session: &Session, system: &System) -> Result<Known, Error> {
        if system.has_init {
            let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
            let mut known = Known { are_of_init: true, ..Known::default() };
            known.dropped.extend(status.overlay.drop);
            for unit in status.units {
                let is_its = |name: &String| *name == unit.unit || unit.provides.contains(name);
                if unit.reason.is_some_and(
                    |why| matches!(&why.cause, Cause::Masked { target, .. } if is_its(target)),
                ) {
                    known.masked_by_any_name.insert(unit.unit.clone());
                }
                known.units.insert(unit.unit, unit.provides);
            }
            return Ok(known);
        }
        let (_, generation) = check::load_configured(session, system.root.as_deref());
        let name = |id: &TargetId| Some(generation.target(*id)?.name.to_string());
        let units = generation
            .units
            .iter()
            .map(|unit| (unit.name.to_string(), unit.provides.iter().filter_map(name).collect()));
        let one = generation.units.iter().filter(|unit| unit.has_synonyms);
        let masked_by_any_name = one.map(|unit| unit.name.to_string()).collect();
        Ok(Known { units: units.collect(), masked_by_any_name, ..Known::default() })
    }

    /// Returns the entries of `mask` that keep a target, or the unit of that name, down.
    fn masks(&self, policy: &Policy, name: &Name) -> Vec<Name> {
        let providers = self.providers(name);
        let named = |entry: &&Name| *entry == name || providers.contains(&entry.as_str());
        let direct: Vec<Name> = policy.mask.iter().filter(named).cloned().collect();
        if !direct.is_empty() {
            return direct;
        }
        let units = providers.into_iter().chain([name.as_str()]);
        let units = units.filter(|unit| self.masked_by_any_name.contains(*unit));
        let names: Vec<&String> = units.filter_map(|unit| self.units.get(unit)).flatten().collect();
        let other = |entry: &&Name| names.iter().any(|name| *name == entry.as_str());
        policy.mask.iter().filter(other).cloned().collect()
    }

    /// Explains that there was no mask to remove. `file` is the only file that was to be changed.
    fn not_masked(&self, name: &Name, file: Option<&str>) -> String {
        match (self.dropped.get(name.as_str()), file) {
            (Some(name), _) => format!(
                "{name} is not masked but dropped from the goal: `initctl unwant {name}` takes that back"
            ),
            (None, Some(file)) => format!("{name} is not masked in {file}"),
            (None, None) => format!("{name} is not masked"),
        }
    }

    fn providers(&self, target: &Name) -> Vec<&str> {
        let has = |targets: &Vec<String>| targets.iter().any(|name| name == target.as_str());
        let units = self.units.iter().filter(|(_, targets)| has(targets));
        units.map(|(unit, _)| unit.as_str()).collect()
    }

    /// Checks that a target or unit exists.
    fn has(&self, name: &Name) -> Result<(), Error> {
        if self.units.contains_key(name.as_str()) || !self.providers(name).is_empty() {
            return Ok(());
        }
        let names = self.units.iter().flat_map(|(unit, targets)| targets.iter().chain([unit]));
        Err(self.unknown(format!("no unit provides {name}"), name, names.map(String::as_str)))
    }

    fn provides(&self, unit: &Name, target: &Name) -> Result<(), Error> {
        let providers = self.providers(target);
        if providers.is_empty() {
            let targets = self.units.values().flatten().map(String::as_str);
            return Err(self.unknown(format!("no unit provides {target}"), target, targets));
        }
        if providers.contains(&unit.as_str()) {
            return Ok(());
        }
        if !self.units.contains_key(unit.as_str()) {
            let names = self.units.keys().map(String::as_str);
            return Err(self.unknown(format!("no unit is named {unit}"), unit, names));
        }
        let message = format!("{unit} does not provide {target}");
        let hint = format!("{target} is provided by {}", providers.join(", "));
        Err(refused(message, hint))
    }

    fn unknown<'a>(
        &self,
        message: String,
        name: &Name,
        names: impl Iterator<Item = &'a str>,
    ) -> Error {
        let hint = match nearest(name.as_str(), names) {
            Some(near) => format!("did you mean `{near}`?"),
            None if self.are_of_init => {
                "nothing has changed; `initctl status --all` lists the targets".to_string()
            }
            None => "nothing has changed; `initctl check` finds errors in unit files".to_string(),
        };
        refused(message, hint)
    }
}

fn refused(message: String, hint: String) -> Error {
    let failure = Failure::new(Failure::UNKNOWN_TARGET, message, hint);
    Error::Failed(Exit::Refused, failure)
}

fn apply(policy: &mut Policy, edit: Edit, name: &Name) {
    match edit {
        Edit::Mask => {
            policy.mask.insert(name.clone());
        }
        Edit::Unmask => {
            policy.mask.remove(name);
        }
        Edit::Enable => {
            policy.disable.remove(name);
            policy.enable.insert(name.clone());
        }
        Edit::Disable => {
            policy.enable.remove(name);
            policy.disable.insert(name.clone());
        }
    }
}

/// The policy files to edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PolicyFile {
    /// The policy file that stays across boots.
    Permanent,
    /// The policy file in the runtime directory, which lasts until the next boot.
    Runtime,
    /// Both files; a file without a change is not written.
    Both,
}

/// The system whose policy is changed.
struct System {
    /// `--root`.
    root: Option<String>,
    /// An init answers at the socket.
    has_init: bool,
    /// The permanent policy file.
    permanent: String,
    /// The policy file that lasts until the next boot.
    runtime: Option<String>,
}

impl System {
    /// Asks init for its files, unless the system is in a directory.
    fn of(session: &Session, root: Option<&Path>) -> Result<System, Error> {
        if let Some(root) = root {
            let root = check::rooted_path(root)?;
            let permanent = policy_of_tree(&root)?;
            return Ok(System { root: Some(root), has_init: false, permanent, runtime: None });
        }
        let init = session.init()?;
        let has_init = init.is_some();
        let (permanent, runtime) = match init {
            Some(init) => (init.paths.policy, init.paths.runtime_policy),
            None => {
                let runtime = runtime_policy(&session.places.runtime_dir);
                (session.places.policy.clone(), Some(runtime))
            }
        };
        Ok(System { root: None, has_init, permanent, runtime })
    }
}

/// Returns the path of the permanent policy file, with all links resolved inside the tree.
fn policy_of_tree(root: &str) -> Result<String, Error> {
    let path = Options::system(0).policy.unwrap_or_default();
    let followed = Rooted(root).at(&path);
    if Path::new(&followed).starts_with(root) {
        return Ok(followed);
    }
    let message = format!("{root}{path}: its symbolic links lead to no file in {root}");
    Err(Error::local(message, "replace it with a regular file"))
}

fn change(
    session: &Session,
    place: &PolicyPlace,
    files: PolicyFile,
    check: impl FnOnce(&Known, &Policy, &[&String]) -> Result<(), Error>,
    change: impl Fn(&Known, &mut Policy),
) -> Result<Exit, Error> {
    let system = System::of(session, place.root.as_deref())?;
    let System { permanent, runtime, .. } = &system;
    let paths: Vec<&String> = match (files, runtime) {
        (PolicyFile::Permanent, _) | (PolicyFile::Both, None) => vec![permanent],
        (PolicyFile::Both, Some(runtime)) => vec![permanent, runtime],
        (PolicyFile::Runtime, Some(runtime)) => vec![runtime],
        (PolicyFile::Runtime, None) => {
            let hint = "leave --runtime out to write the permanent policy";
            return Err(Error::local("this init has no runtime directory", hint));
        }
    };
    let known = Known::of(session, &system)?;
    let mut policy = Policy::default();
    for path in &paths {
        policy = policy.overlaid(&policy_file::read(path)?);
    }
    check(&known, &policy, &paths)?;
    let draft = |path: &&String| policy_file::edit(path, |policy| change(&known, policy));
    let edited = put_all(session, paths.iter().map(draft).collect::<Result<_, _>>()?)?;
    if !system.has_init {
        if system.root.is_none() {
            session.remark(&format!("no init at {}: only the file was changed", session.socket));
        }
        let told = edited.iter().find(|edited| edited.changed).or(edited.first());
        return told.map_or(Ok(()), |edited| report_offline(session, edited)).map(|()| Exit::Done);
    }
    match send_policy(session, permanent, runtime.as_deref()) {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            restore_all(session, &edited);
            Err(error)
        }
    }
}

/// Puts all drafts in place, or none.
fn put_all(session: &Session, drafts: Vec<Draft>) -> Result<Vec<Edited>, Error> {
    let mut edited = Vec::new();
    for draft in drafts {
        match draft.put() {
            Ok(done) => edited.push(done),
            Err(error) => {
                restore_all(session, &edited);
                return Err(error);
            }
        }
    }
    Ok(edited)
}

fn restore_all(session: &Session, edited: &[Edited]) {
    for edited in edited.iter().filter(|edited| edited.changed) {
        let state = match edited.restore() {
            Ok(()) => "has been restored",
            Err(_) => "cannot be restored and stays edited",
        };
        session.remark(&format!("{} {state}", edited.path));
    }
}

fn send_policy(session: &Session, permanent: &str, runtime: Option<&str>) -> Result<(), Error> {
    let mut policy = policy_file::read(permanent)?;
    if let Some(runtime) = runtime {
        policy = policy.overlaid(&policy_file::read(runtime)?);
    }
    let (changed, value) = session.ask_as::<Changed>(Verb::Policy { policy })?;
    session.show(&value, || {
        let plan = plan::render(&changed.plan, &session.style);
        format!("generation {}: {plan}", changed.generation)
    })
}

fn report_offline(session: &Session, edited: &Edited) -> Result<(), Error> {
    let plan = Plan { schema: SCHEMA, ..Plan::default() };
    let value = serde_json::json!({"schema": SCHEMA, "generation": null, "plan": plan});
    let word = if edited.changed { "written" } else { "unchanged" };
    session.show(&value, || format!("{}: {word}\n", edited.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn policy_of_a_tree_is_a_file_in_it_or_an_error() {
        let root = std::env::temp_dir().join(format!("initctl-tree-{}", std::process::id()));
        let policy = root.join("etc/groundstate/policy.yaml");
        fs::create_dir_all(root.join("etc/groundstate")).unwrap();
        let root = root.to_string_lossy().into_owned();
        let followed = |to: &str| {
            let _ = fs::remove_file(&policy);
            symlink(to, &policy).unwrap();
            policy_of_tree(&root).ok()
        };
        assert_eq!(policy_of_tree(&root).unwrap(), format!("{root}/etc/groundstate/policy.yaml"));
        assert_eq!(followed("/var/p.yaml"), Some(format!("{root}/var/p.yaml")));
        assert_eq!(followed("../../../../../p.yaml"), Some(format!("{root}/p.yaml")));
        assert_eq!(followed("/dev/null"), None);
        assert_eq!(followed("policy.yaml"), None);
        assert_eq!(policy_of_tree("").ok().as_deref(), Some("/etc/groundstate/policy.yaml"));
        fs::remove_dir_all(&root).unwrap();
    }
}

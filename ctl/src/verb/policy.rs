//! `mask`, `unmask`, `enable`, `disable`, `prefer`: the policy file is edited, then init is
//! told. If init refuses, the file is put back. Without an init only the file is edited.

use crate::arguments;
use crate::exit::{Exit, Trouble};
use crate::files::Disk;
use crate::policy_file::{self, Edited};
use crate::session::Session;
use crate::typed::nearest;
use crate::verb::{check, plan};
use groundstate_units::control::answer::{Changed, Failure, Plan, SCHEMA, Status};
use groundstate_units::control::place::runtime_policy;
use groundstate_units::control::request::Verb;
use groundstate_units::generation::TargetId;
use groundstate_units::load::load;
use groundstate_units::name::Name;
use groundstate_units::policy::Policy;
use nix::unistd::geteuid;
use std::collections::BTreeMap;

/// What to do with the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Into `mask`.
    Mask,
    /// Out of it.
    Unmask,
    /// Into `enable`, out of `disable`.
    Enable,
    /// The other way round.
    Disable,
}

/// `mask`, `unmask`, `enable`, `disable`.
pub(crate) fn edit(
    session: &Session,
    asked: arguments::Policy,
    edit: Edit,
) -> Result<Exit, Trouble> {
    let check = |known: &Known, policy: &Policy| {
        let said = |name: &Name| match edit {
            Edit::Mask => false,
            Edit::Unmask => policy.mask.contains(name),
            Edit::Enable | Edit::Disable => {
                policy.enable.contains(name) || policy.disable.contains(name)
            }
        };
        let mut names = asked.targets.iter().filter(|name| !said(name));
        names.try_for_each(|name| known.has(name))
    };
    change(session, asked.runtime, check, |policy| {
        for name in &asked.targets {
            apply(policy, edit, name);
        }
    })
}

/// `prefer`.
pub(crate) fn prefer(session: &Session, asked: arguments::Prefer) -> Result<Exit, Trouble> {
    let check = |known: &Known, policy: &Policy| {
        asked.choices.iter().try_for_each(|(target, unit)| match unit {
            Some(unit) => known.provides(unit, target),
            None if policy.prefer.contains_key(target) => Ok(()),
            None => known.has(target),
        })
    };
    change(session, asked.runtime, check, |policy| {
        for (target, unit) in &asked.choices {
            match unit {
                Some(unit) => policy.prefer.insert(target.clone(), unit.clone()),
                None => policy.prefer.remove(target),
            };
        }
    })
}

/// The names there are: a policy for others would hold for nobody.
#[derive(Default)]
struct Known {
    /// Unit → its targets.
    units: BTreeMap<String, Vec<String>>,
}

impl Known {
    /// Of init; without one those of the files it would read.
    fn of(session: &Session, init: bool) -> Result<Known, Trouble> {
        if init {
            let (status, _) = session.ask_as::<Status>(Verb::Status { targets: Vec::new() })?;
            let units = status.units.into_iter().map(|unit| (unit.unit, unit.provides));
            return Ok(Known { units: units.collect() });
        }
        let options = check::configured(session, geteuid().as_raw());
        let generation = load(&Disk, &options, None).generation;
        let name = |id: &TargetId| Some(generation.target(*id)?.name.to_string());
        let units = generation
            .units
            .iter()
            .map(|unit| (unit.name.to_string(), unit.provides.iter().filter_map(name).collect()));
        Ok(Known { units: units.collect() })
    }

    fn providers(&self, target: &Name) -> Vec<&str> {
        let has = |targets: &Vec<String>| targets.iter().any(|name| name == target.as_str());
        let units = self.units.iter().filter(|(_, targets)| has(targets));
        units.map(|(unit, _)| unit.as_str()).collect()
    }

    /// A target or a unit.
    fn has(&self, name: &Name) -> Result<(), Trouble> {
        if self.units.contains_key(name.as_str()) || !self.providers(name).is_empty() {
            return Ok(());
        }
        let names = self.units.iter().flat_map(|(unit, targets)| targets.iter().chain([unit]));
        Err(unknown(format!("nobody provides {name}"), name, names.map(String::as_str)))
    }

    fn provides(&self, unit: &Name, target: &Name) -> Result<(), Trouble> {
        let providers = self.providers(target);
        if providers.is_empty() {
            let targets = self.units.values().flatten().map(String::as_str);
            return Err(unknown(format!("nobody provides {target}"), target, targets));
        }
        if providers.contains(&unit.as_str()) {
            return Ok(());
        }
        if !self.units.contains_key(unit.as_str()) {
            let names = self.units.keys().map(String::as_str);
            return Err(unknown(format!("no unit is named {unit}"), unit, names));
        }
        let message = format!("{unit} does not provide {target}");
        let hint = format!("{target} is provided by {}", providers.join(", "));
        Err(refused(message, hint))
    }
}

fn unknown<'a>(message: String, name: &Name, names: impl Iterator<Item = &'a str>) -> Trouble {
    let hint = match nearest(name.as_str(), names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "nothing has changed; `initctl status --all` lists the targets".to_string(),
    };
    refused(message, hint)
}

fn refused(message: String, hint: String) -> Trouble {
    let failure = Failure::new(Failure::UNKNOWN_TARGET, message, hint);
    Trouble::Failed(Exit::Refused, failure)
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

fn change(
    session: &Session,
    runtime: bool,
    check: impl FnOnce(&Known, &Policy) -> Result<(), Trouble>,
    change: impl FnOnce(&mut Policy),
) -> Result<Exit, Trouble> {
    let init = session.init()?;
    let (lasting, passing) = match &init {
        Some(init) => (init.paths.policy.clone(), init.paths.runtime_policy.clone()),
        None => {
            let passing = runtime_policy(&session.places.runtime_dir);
            (session.places.policy.clone(), Some(passing))
        }
    };
    let path = match (runtime, &passing) {
        (false, _) => &lasting,
        (true, Some(passing)) => passing,
        (true, None) => {
            let hint = "leave --runtime out to write the lasting policy";
            return Err(Trouble::local("this init has no runtime directory", hint));
        }
    };
    check(&Known::of(session, init.is_some())?, &policy_file::read(path)?)?;
    let edited = policy_file::edit(path, change)?;
    if init.is_none() {
        said_offline(session, path, &edited)?;
        return Ok(Exit::Done);
    }
    match tell(session, &lasting, passing.as_deref()) {
        Ok(()) => Ok(Exit::Done),
        Err(trouble) => {
            edited.restore()?;
            session.remark(&format!("{path} is as it was"));
            Err(trouble)
        }
    }
}

fn tell(session: &Session, lasting: &str, passing: Option<&str>) -> Result<(), Trouble> {
    let mut policy = policy_file::read(lasting)?;
    if let Some(passing) = passing {
        policy = policy.overlaid(&policy_file::read(passing)?);
    }
    let (changed, value) = session.ask_as::<Changed>(Verb::Policy { policy })?;
    session.show(&value, || {
        let plan = plan::render(&changed.plan, &session.style);
        format!("generation {}: {plan}", changed.generation)
    })
}

fn said_offline(session: &Session, path: &str, edited: &Edited) -> Result<(), Trouble> {
    session.remark(&format!("no init at {}: only the file is changed", session.socket));
    let plan = Plan { schema: SCHEMA, ..Plan::default() };
    let value = serde_json::json!({"schema": SCHEMA, "generation": null, "plan": plan});
    let word = if edited.changed { "written" } else { "already so" };
    session.show(&value, || format!("{path}: {word}\n"))
}

//! `mask`, `unmask`, `enable`, `disable`, `prefer`: the policy file is edited, then init is
//! told. If init refuses, the file is put back. Without an init only the file is edited.

use crate::arguments;
use crate::exit::{Exit, Trouble};
use crate::policy_file::{self, Edited};
use crate::session::Session;
use crate::verb::plan;
use groundstate_units::control::answer::{Changed, Plan, SCHEMA};
use groundstate_units::control::place::runtime_policy;
use groundstate_units::control::request::Verb;
use groundstate_units::name::Name;
use groundstate_units::policy::Policy;

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
    change(session, asked.runtime, |policy| {
        for name in &asked.targets {
            apply(policy, edit, name);
        }
    })
}

/// `prefer`.
pub(crate) fn prefer(session: &Session, asked: arguments::Prefer) -> Result<Exit, Trouble> {
    change(session, asked.runtime, |policy| {
        for (target, unit) in &asked.choices {
            match unit {
                Some(unit) => policy.prefer.insert(target.clone(), unit.clone()),
                None => policy.prefer.remove(target),
            };
        }
    })
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

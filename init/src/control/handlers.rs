//! What a request does and what is answered. Reading is done here from the machine;
//! wishes become events, and the machine decides.

pub(crate) use super::queries::stopping;
use groundstate_units::control::answer::{Failure, Line};
use groundstate_units::import::systemd::UnitName;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use serde::Serialize;

/// An answer, as the JSON of its `ok`; none yet for what is answered later.
pub(crate) type Answered = Result<Option<Box<dyn erased::Answer>>, Failure>;

/// Answers of different types through one door.
pub(crate) mod erased {
    use super::{Line, Serialize};

    /// One that can be written as a line.
    pub(crate) trait Answer {
        /// The line, with its newline.
        fn line(&self, id: u64) -> Vec<u8>;
    }

    impl<T: Serialize> Answer for T {
        fn line(&self, id: u64) -> Vec<u8> {
            super::line(&Line::ok(id, self))
        }
    }
}

pub(crate) fn line(answer: &impl Serialize) -> Vec<u8> {
    // What can not be written as JSON is a bug of ours; the client sees an empty line.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

pub(crate) fn failed(id: u64, failure: Failure) -> Vec<u8> {
    line(&Line::<()>::error(id, failure))
}

#[allow(clippy::unnecessary_wraps, reason = "the last word of most verbs")]
pub(crate) fn now(answer: impl Serialize + 'static) -> Answered {
    Ok(Some(Box::new(answer)))
}

pub(crate) fn refused(refusal: Refusal) -> Failure {
    Failure::new(&refusal.kind, refusal.message, refusal.hint)
}

/// What a wish names that may be an instance of a template.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other wish brings a target in")]
pub(crate) fn instances_of(wish: &Event) -> impl Iterator<Item = &Name> {
    let named: Vec<&Name> = match wish {
        Event::SetGoal(goal) => {
            goal.targets.iter().chain(goal.want.iter().map(|(name, _)| name)).collect()
        }
        Event::Want { target, .. } => vec![target],
        Event::SetPolicy(policy) => policy.enable.iter().collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter(|name| UnitName::of(name.as_str()).is_instance())
}

//! Wishes that name an instance of a template nobody has asked for yet. Which instances are
//! wanted is an input of the loader: it is asked for a generation that has them, and the wish
//! is granted or refused in that one; refused, or only planned, the generation is forgotten.

use super::handlers::{Answered, failed, line, now, refused};
use crate::base::log_level::Level;
use crate::event_loop::Init;
use crate::loader::{Asker, Purpose};
use groundstate_units::control::answer::{Changed, Failure, Line, Plan};
use groundstate_units::graph::Provider;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::sync::Arc;

impl Init {
    /// What a wish names that no loader has made, or that one at work was not told of: a
    /// generation without it may be on its way.
    fn needs_instances(&self, wish: &Event) -> bool {
        let (generation, graph) = (self.machine.generation(), self.machine.graph());
        let (present, policy) = (self.machine.wish(), self.machine.policy());
        let is_told = |name: &Name| {
            present.want.contains_key(name)
                || present.goal.contains(name)
                || (matches!(wish, Event::SetPolicy(_)) && policy.enable.contains(name))
        };
        let is_missing = |name: &Name| {
            graph.meant(generation, name) == Provider::Nobody
                && generation.find_unit(name.as_str()).is_none()
        };
        let changes = self.loader.will_change();
        instances_of(wish).any(|name| is_missing(name) || (changes && !is_told(name)))
    }

    /// A wish: planned, then granted or refused as a whole.
    pub(super) fn change(&mut self, asker: Asker, wish: Event) -> Answered {
        if self.needs_instances(&wish) {
            return self.later(asker, Purpose::Instances { asker, wish: wish.into(), dry: false });
        }
        let plan = self.show_plan(wish.clone())?;
        self.wish(wish).map_err(refused)?;
        let generation = self.machine.generation().number;
        now(Changed { schema: 1, generation, plan, diagnostics: Vec::new() })
    }

    /// What a wish would do.
    pub(super) fn plan_change(&mut self, asker: Asker, wish: Event) -> Answered {
        if self.needs_instances(&wish) {
            return self.later(asker, Purpose::Instances { asker, wish: wish.into(), dry: true });
        }
        now(self.show_plan(wish)?)
    }

    /// The loader has made the instances.
    pub(crate) fn take_instances(
        &mut self,
        asker: Asker,
        wish: Event,
        dry: bool,
        generation: Generation,
    ) {
        let generation = Arc::new(generation);
        let flip =
            Event::Reload { generation: generation.clone(), no_restart: false, tolerant: true };
        let planned = self.show_plans(vec![flip.clone(), wish.clone()]);
        let answer = match planned {
            Err(failure) => failed(asker.id, failure),
            Ok(plan) if dry => line(&Line::ok(asker.id, plan)),
            Ok(plan) => match self.granted(flip, wish, &generation, plan) {
                Ok(changed) => line(&Line::ok(asker.id, changed)),
                Err(failure) => failed(asker.id, failure),
            },
        };
        if self.recall(asker) {
            self.queue(asker.client, &answer);
        }
    }

    fn granted(
        &mut self,
        flip: Event,
        wish: Event,
        generation: &Arc<Generation>,
        plan: Plan,
    ) -> Result<Changed, Failure> {
        self.wish(flip).map_err(refused)?;
        self.timings.keep(generation);
        let (number, units) = (generation.number, generation.units.len());
        self.say(Level::Debug, format_args!("generation {number}: {units} units"));
        self.wish(wish).map_err(refused)?;
        Ok(Changed { schema: 1, generation: number, plan, diagnostics: Vec::new() })
    }
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

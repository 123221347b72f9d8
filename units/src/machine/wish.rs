//! The operator's wishes. Each is checked on a copy, and then granted as a whole or refused with a
//! reason. A refusal changes nothing.

use super::Machine;
use super::apply_generation::{Next, is_same};
use super::mutant::Mutant;
use super::needed_set::{NeededSet, Occasion, Wish};
use crate::graph::{Fault, Graph, Provider};
use crate::machine::action::Action;
use crate::machine::event::Goal;
use crate::machine::reason::Refusal;
use crate::spec::DependencyKind;
use crate::text::diagnostic::Severity;
use crate::text::name::{Name, template_hint};
use crate::text::time::Time;
use crate::unit::generation::{Generation, TargetId, UnitId};
use crate::unit::policy::Policy;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The state that results if the wish is granted.
struct Candidate {
    generation: Arc<Generation>,
    policy: Policy,
    wish: Wish,
    graph: Arc<Graph>,
    faults: Arc<Vec<Fault>>,
    need: NeededSet,
}

pub(super) fn unknown(generation: &Generation, name: &Name) -> Refusal {
    let near = || Some(format!("did you mean `{}`?", generation.nearest_target(name.as_str())?));
    let hint = template_hint(name.as_str()).or_else(near);
    let hint = hint.unwrap_or_else(|| "`initctl status --all` lists the targets".to_string());
    refusal("unknown-target", format!("no unit provides {name}"), &hint)
}

pub(super) fn refusal(kind: &str, message: String, hint: &str) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint: hint.to_string() }
}

impl Machine {
    /// Returns the policy with the overlay's `-y` names as masks, which last until the next boot.
    pub(super) fn effective(policy: &Policy, wish: &Wish) -> Policy {
        let mut policy = policy.clone();
        policy.mask.extend(wish.drop.iter().cloned());
        policy
    }

    /// Returns the generation from which the graph is resolved. A planted bug of the graph is
    /// planted here, in its input.
    fn graph_input(&self, generation: &Arc<Generation>) -> Arc<Generation> {
        let apart = self.planted(Mutant::NamesApart);
        let waits = self.planted(Mutant::PullWaits);
        if !apart && !waits && !self.planted(Mutant::PullForgotten) {
            return Arc::clone(generation);
        }
        let mut other = Generation::clone(generation);
        for unit in &mut other.units {
            unit.has_synonyms &= !apart;
            if !apart {
                let pulled = std::mem::take(&mut unit.pulled_by);
                let named = unit.wanted_by.iter().chain(pulled.iter().filter(|_| waits));
                unit.wanted_by = named.copied().collect();
            }
        }
        Arc::new(other)
    }

    fn consider(&self, generation: &Arc<Generation>, policy: Policy, wish: Wish) -> Candidate {
        let same = Arc::ptr_eq(generation, &self.generation);
        let (graph, faults) = if same && policy == self.policy && wish.drop == self.wish.drop {
            (Arc::clone(&self.graph), Arc::clone(&self.faults))
        } else {
            let effective = Machine::effective(&policy, &wish);
            let (graph, faults) = Graph::resolve(&self.graph_input(generation), &effective);
            (Arc::new(graph), Arc::new(faults))
        };
        let stands = |unit: UnitId, occasion: Occasion| {
            let Some(there) = generation.unit(unit) else { return false };
            let Some(ix) = self.index_of(&there.name) else { return false };
            if occasion == Occasion::Unfinished && wish.goal != self.wish.goal {
                return false;
            }
            // A changed definition clears the verdict of the unit.
            let was = self.unit(ix).map(|unit| (&*self.generation, unit));
            let kept = same || was.is_some_and(|was| is_same(was, (&**generation, there)));
            self.stands(ix, occasion) && (kept || occasion != Occasion::Failed)
        };
        let need = NeededSet::search(generation, &graph, &wish, stands);
        Candidate { generation: Arc::clone(generation), policy, wish, graph, faults, need }
    }

    fn take(&mut self, now: Time, candidate: Candidate, no_restart: bool, out: &mut Vec<Action>) {
        let Candidate { generation, policy, wish, graph, faults, .. } = candidate;
        let is_replaced =
            !Arc::ptr_eq(&graph, &self.graph) || !Arc::ptr_eq(&generation, &self.generation);
        self.policy = policy;
        if wish.goal != self.wish.goal && !self.planted(Mutant::GoalKeepsHandlers) {
            self.cells.iter_mut().for_each(|cell| cell.brought = false);
            self.all_changed = true;
        }
        self.wish = wish;
        self.faults = faults;
        self.search_due = true;
        if self.planted(Mutant::GoalReplacesAll) && !is_replaced {
            let up = self.cells.iter_mut().filter_map(|cell| cell.phase.run_mut());
            up.for_each(|run| run.changed = true);
        }
        if is_replaced {
            self.apply_generation(now, Next { generation, graph, no_restart }, out);
        }
    }

    /// Refuses a target that no usable unit provides.
    fn check_root(&self, candidate: &Candidate, name: &Name) -> Result<(), Refusal> {
        match candidate.graph.meant(&candidate.generation, name) {
            Provider::Masked if self.planted(Mutant::MaskedGranted) => Ok(()),
            Provider::Masked => Err(refusal(
                "masked",
                format!("{name} is masked"),
                "`initctl unmask` it, or leave it out",
            )),
            Provider::NoUnit => Err(unknown(&candidate.generation, name)),
            Provider::Unit(unit) => check_usable(candidate, unit),
        }
    }

    /// Refuses a wish that needs two conflicting units. With `only_new`, conflicts that the wish
    /// had before do not count.
    fn check_conflicts(&self, candidate: &Candidate, only_new: bool) -> Result<(), Refusal> {
        let name = |unit: UnitId| candidate.generation.unit(unit).map(|unit| unit.name.clone());
        let present = if only_new { self.search() } else { NeededSet::default() };
        let at_odds = present.conflicts(&self.graph);
        let known = |unit: UnitId| {
            let there = name(unit).and_then(|name| self.generation.find_unit(name.as_str()));
            there.is_some_and(|unit| at_odds.contains_key(&unit) && present.is_wished(unit))
        };
        if self.planted(Mutant::ConflictGranted) {
            return Ok(());
        }
        for (loser, winner) in candidate.need.conflicts(&candidate.graph) {
            let wished = candidate.need.is_wished(loser) && candidate.need.is_wished(winner);
            if let (true, false, Some(one), Some(other)) =
                (wished, known(loser), name(winner), name(loser))
            {
                let message = format!("{one} and {other} are both needed and conflict");
                return Err(refusal("conflict", message, "drop one of them with `-TARGET`"));
            }
        }
        Ok(())
    }

    /// Returns the units whose errors matter: needed units, and places of a needed socket, which
    /// are not needed before a connection comes.
    fn concerned(&self, candidate: &Candidate) -> BTreeSet<UnitId> {
        let needed = candidate.generation.unit_ids().filter(|unit| candidate.need.has(*unit));
        let mut concerned: BTreeSet<UnitId> = needed.collect();
        if self.planted(Mutant::PlacesUnchecked) {
            return concerned;
        }
        let edges = concerned.iter().flat_map(|unit| candidate.graph.edges(*unit));
        let accepts = edges.filter(|edge| edge.kind == DependencyKind::Accepts);
        let places: Vec<UnitId> = accepts.filter_map(|edge| edge.provider).collect();
        concerned.extend(places);
        concerned
    }

    /// Refuses a wish that makes a needed unit unusable. Also refuses a wish for a unit that names
    /// a missing target, because later reloads would be refused for that unit.
    fn check_broken(&self, candidate: &Candidate) -> Result<(), Refusal> {
        let concerned = self.concerned(candidate);
        let worse = |unit: &UnitId| {
            concerned.contains(unit)
                && candidate.graph.broken(*unit).is_some()
                && self.graph.broken(*unit).is_none()
        };
        let comes = |unit: &UnitId| {
            let local = self.unit(unit.0).is_some_and(|unit| unit.source.is_none());
            local && candidate.need.has(*unit) && !self.cell(unit.0).needed
        };
        for fault in candidate.faults.iter() {
            let missing = fault.diagnostic.code == "missing-target";
            let refused = |unit: &UnitId| worse(unit) || (missing && comes(unit));
            if fault.diagnostic.severity == Severity::Error && fault.units.iter().any(refused) {
                return Err(refusal_of(fault));
            }
        }
        // A unit in several rings is broken even if the shown ring does not contain it.
        candidate.generation.unit_ids().filter(worse).try_for_each(|u| check_usable(candidate, u))
    }

    /// Refuses a new generation if a needed unit of the unit directories has an error.
    fn check_generation(&self, candidate: &Candidate) -> Result<(), Refusal> {
        let generation = &candidate.generation;
        let concerned = self.concerned(candidate);
        let concerns = |unit: &UnitId| {
            let local = generation.unit(*unit).is_some_and(|unit| unit.source.is_none());
            local && concerned.contains(unit)
        };
        for (id, unit) in generation.unit_ids().zip(&generation.units) {
            if let (Some(fault), true) = (&unit.fault, concerns(&id)) {
                return Err(refusal("broken", format!("{}: {}", fault.at, fault.message), ""));
            }
        }
        for fault in candidate.faults.iter() {
            let error = fault.diagnostic.severity == Severity::Error;
            if error && fault.units.iter().any(concerns) {
                return Err(refusal_of(fault));
            }
        }
        // A unit in several rings is broken even if the shown ring does not contain it.
        generation
            .unit_ids()
            .filter(concerns)
            .try_for_each(|unit| check_usable(candidate, unit))?;
        for name in candidate.wish.roots() {
            let now = self.graph.meant(&self.generation, name);
            let then = candidate.graph.meant(generation, name);
            if now != Provider::NoUnit && then == Provider::NoUnit {
                let message = format!("no unit provides {name}, which is wanted, any more");
                let hint = match candidate.wish.want.contains_key(name) {
                    true => format!("`initctl unwant {name}` first"),
                    false => "change the goal first".to_string(),
                };
                return Err(refusal("unknown-target", message, &hint));
            }
        }
        Ok(())
    }

    pub(super) fn boot(
        &mut self,
        now: Time,
        generation: Arc<Generation>,
        targets: Vec<Name>,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        self.booted = true;
        let default = generation.settings.default_target.clone();
        let goal = if targets.is_empty() { vec![default] } else { targets };
        let wish = Wish { goal, ..Wish::default() };
        let policy = generation.policy.clone();
        let candidate = self.consider(&generation, policy, wish);
        self.take(now, candidate, false, out);
        self.recompute();
        self.fall_back_to_emergency_target(out);
        Ok(())
    }

    /// Falls back to the emergency target at boot if the goal cannot be reached.
    fn fall_back_to_emergency_target(&mut self, out: &mut Vec<Action>) {
        let dead = |name: &Name| {
            let provider = self.graph.meant(&self.generation, name).unit();
            provider.is_none_or(|unit| {
                let cell = self.cell(unit.0);
                cell.broken || cell.failed_deps > 0
            })
        };
        if !self.wish.goal.iter().all(dead) {
            return;
        }
        let emergency = self.generation.settings.emergency_target.clone();
        if dead(&emergency) {
            out.push(Action::Emergency);
        } else {
            self.wish.goal = vec![emergency];
            self.recompute();
        }
    }

    pub(super) fn set_goal(
        &mut self,
        now: Time,
        goal: Goal,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let targets = if goal.targets.is_empty() { self.wish.goal.clone() } else { goal.targets };
        let wish = Wish {
            goal: targets,
            want: goal.want.into_iter().collect(),
            drop: goal.drop.into_iter().collect(),
        };
        for name in &wish.drop {
            self.known(name)?;
        }
        let candidate = self.consider(&self.generation, self.policy.clone(), wish);
        for name in candidate.wish.roots() {
            self.check_root(&candidate, name)?;
        }
        self.check_broken(&candidate)?;
        self.check_conflicts(&candidate, false)?;
        self.take(now, candidate, false, out);
        Ok(())
    }

    pub(super) fn want(
        &mut self,
        now: Time,
        target: Name,
        until: Option<Time>,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let mut wish = self.wish.clone();
        wish.drop.remove(&target);
        wish.want.insert(target.clone(), until);
        let candidate = self.consider(&self.generation, self.policy.clone(), wish);
        if self.planted(Mutant::RefusalTaken) {
            self.wish.want.insert(target.clone(), until);
        }
        self.check_root(&candidate, &target)?;
        self.check_broken(&candidate)?;
        self.check_conflicts(&candidate, true)?;
        self.take(now, candidate, false, out);
        Ok(())
    }

    pub(super) fn unwant(
        &mut self,
        now: Time,
        target: &Name,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let mut wish = self.wish.clone();
        let wanted = wish.want.remove(target).is_some();
        let dropped = wish.drop.remove(target);
        if !wanted && !dropped {
            let message = format!("{target} is not in the overlay");
            return Err(refusal("not-wanted", message, "`initctl status` shows the overlay"));
        }
        let candidate = self.consider(&self.generation, self.policy.clone(), wish);
        self.check_broken(&candidate)?;
        self.take(now, candidate, false, out);
        Ok(())
    }

    pub(super) fn set_policy(
        &mut self,
        now: Time,
        policy: Policy,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let candidate = self.consider(&self.generation, policy, self.wish.clone());
        self.check_broken(&candidate)?;
        self.take(now, candidate, false, out);
        Ok(())
    }

    pub(super) fn reload(
        &mut self,
        now: Time,
        generation: &Arc<Generation>,
        (no_restart, tolerant): (bool, bool),
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let candidate = self.consider(generation, generation.policy.clone(), self.wish.clone());
        if !tolerant {
            self.check_generation(&candidate)?;
            self.check_conflicts(&candidate, true)?;
        }
        self.take(now, candidate, no_restart, out);
        Ok(())
    }

    fn known(&self, name: &Name) -> Result<(), Refusal> {
        let generation = &self.generation;
        let named = generation.find_target(name.as_str()).and_then(|t| generation.target(t));
        let provided = named.is_some_and(|target| !target.candidates.is_empty());
        if provided || generation.find_unit(name.as_str()).is_some() {
            return Ok(());
        }
        Err(unknown(generation, name))
    }

    /// Removes wishes whose time is over.
    pub(super) fn expire(&mut self, now: Time) {
        self.wish.want.retain(|_, until| until.is_none_or(|until| until > now));
        self.search_due = true;
    }

    /// Returns all goals: those of the goal and overlay, and those of the sources.
    pub(super) fn goals(&self) -> (Vec<&Name>, Vec<TargetId>) {
        if self.ending.is_some() {
            return (Vec::new(), Vec::new());
        }
        let sources = self.generation.roots.iter().flat_map(|(_, roots)| roots).copied().collect();
        (self.wish.roots().collect(), sources)
    }
}

fn check_usable(candidate: &Candidate, unit: UnitId) -> Result<(), Refusal> {
    match candidate.graph.broken(unit) {
        None => Ok(()),
        Some(broken) => Err(refusal(
            "broken",
            format!("{}: {}", broken.at, broken.message),
            "correct the file, then reload",
        )),
    }
}

fn refusal_of(fault: &Fault) -> Refusal {
    let diagnostic = &fault.diagnostic;
    refusal(
        &diagnostic.code,
        format!("{}: {}", diagnostic.at, diagnostic.message),
        &diagnostic.hint,
    )
}

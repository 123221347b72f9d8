//! The chain of reasons from a unit to the root cause of its state.

use super::propagation::{ACTIVE, is_hard};
use super::{Ix, Machine};
use crate::graph::Provider;
use crate::machine::reason::{Reason, State};
use crate::text::name::Name;
use crate::unit::generation::UnitId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The unit; `None` if no unit provides the target.
    pub unit: Option<UnitId>,
    /// The name by which the previous link depends on it; in the first link, the unit's own name.
    pub target: Name,
    /// The shown state.
    pub state: State,
    /// The reason.
    pub reason: Option<Reason>,
}

impl Machine {
    /// Returns the chain, root cause last; empty if the unit does not exist.
    pub fn why(&self, unit: UnitId) -> Vec<Link> {
        let Some(name) = self.generation.unit(unit).map(|unit| unit.name.clone()) else {
            return Vec::new();
        };
        let mut chain = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next = Some((unit, name));
        while let Some((unit, target)) = next.take() {
            if !seen.insert(unit) {
                break;
            }
            let (state, reason) = (self.shown(unit.0), self.reason_of(unit.0));
            let missing = match &reason {
                Some(Reason::Missing { target } | Reason::Masked { target }) => {
                    Some(target.clone())
                }
                Some(_) | None => None,
            };
            next = match &reason {
                Some(reason) => self.behind(unit, reason),
                None if state == State::Stopping => self.stopping_provider(unit),
                None => None,
            };
            let link = Link { unit: Some(unit), target, state, reason: reason.clone() };
            chain.push(link);
            if let (Some(target), true) = (missing, self.cell(unit.0).needed) {
                let state = State::Failed;
                chain.push(Link { unit: None, target, state, reason });
            }
            if next.is_none() && state.is_active() {
                chain.extend(self.amiss_below(unit, &mut seen));
                next = chain.last().and_then(|last| match (&last.reason, last.unit) {
                    (Some(reason), Some(last)) if last != unit => self.behind(last, reason),
                    (Some(_) | None, _) => None,
                });
            }
        }
        chain
    }

    /// Returns the unit that a reason points to.
    fn behind(&self, unit: UnitId, reason: &Reason) -> Option<(UnitId, Name)> {
        match reason {
            Reason::Dependency { target, unit } | Reason::Inactive { target, unit, .. } => {
                Some((self.generation.find_unit(unit.as_str())?, target.clone()))
            }
            Reason::On { targets } => {
                let provider = |target: &Name| {
                    let id = self.generation.find_target(target.as_str())?;
                    Some((self.graph.provider(id).unit()?, target.clone()))
                };
                // A failed provider, or one in backoff, explains more than a waiting one.
                let named: Vec<_> = targets.iter().filter_map(provider).collect();
                let telling = named.iter().find(|(unit, _)| {
                    let last = self.cell(unit.0).last.is_some();
                    last && !self.is_active(unit.0)
                });
                telling.or(named.first()).filter(|(next, _)| *next != unit).cloned()
            }
            Reason::Conflict { target } => {
                let id = self.generation.find_target(target.as_str())?;
                Some((self.graph.provider(id).unit()?, target.clone()))
            }
            Reason::Exit(_)
            | Reason::StartTimeout
            | Reason::StopTimeout
            | Reason::Watchdog
            | Reason::RunTimeout
            | Reason::Exec(_)
            | Reason::Masked { .. }
            | Reason::Missing { .. }
            | Reason::Config { .. }
            | Reason::Skipped { .. }
            | Reason::OutOfMemory
            | Reason::Protocol { .. }
            | Reason::Slot
            | Reason::Backoff { .. }
            | Reason::Unkillable
            | Reason::Internal => None,
        }
    }

    /// Returns the first hard provider that is stopping too.
    fn stopping_provider(&self, unit: UnitId) -> Option<(UnitId, Name)> {
        let edges = self.graph.edges(unit).iter().filter(|edge| is_hard(edge.kind));
        edges
            .filter_map(|edge| Some((edge.provider?, edge.target)))
            .find(|(provider, _)| self.shown(provider.0) == State::Stopping)
            .and_then(|(unit, target)| Some((unit, self.generation.target(target)?.name.clone())))
    }

    /// Returns the path from an active unit to the nearest unit that is amiss, or milestone that no
    /// unit provides any more.
    fn amiss_below(&self, from: UnitId, seen: &mut BTreeSet<UnitId>) -> Vec<Link> {
        let mut came: BTreeMap<UnitId, (UnitId, Name)> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        let mut path = Vec::new();
        while let Some(unit) = queue.pop_front() {
            let lost = self.lost_milestone(unit);
            if lost.is_some() || unit != from && self.is_amiss(unit.0) {
                let mut here = unit;
                path.extend(lost);
                while let Some((before, target)) = came.get(&here).filter(|_| here != from) {
                    let (state, reason) = (self.shown(here.0), self.reason_of(here.0));
                    path.push(Link { unit: Some(here), target: target.clone(), state, reason });
                    seen.insert(here);
                    here = *before;
                }
                path.reverse();
                break;
            }
            for edge in self.graph.edges(unit).iter().filter(|edge| edge.kind.pulls_in()) {
                let target = self.generation.target(edge.target).map(|t| t.name.clone());
                let (Some(provider), Some(target)) = (edge.provider, target) else { continue };
                if provider != from && !came.contains_key(&provider) {
                    came.insert(provider, (unit, target));
                    queue.push_back(provider);
                }
            }
        }
        path
    }

    /// Returns the lost milestone of an active unit.
    fn lost_milestone(&self, unit: UnitId) -> Option<Link> {
        let run = self.cell(unit.0).phase.run().filter(|_| self.is_active(unit.0))?;
        let target = run.milestones_lost.first()?.clone();
        let there = self.generation.find_target(target.as_str());
        let reason = match there.map(|target| self.graph.provider(target)) {
            Some(Provider::Masked) => Reason::Masked { target: target.clone() },
            Some(Provider::NoUnit | Provider::Unit(_)) | None => {
                Reason::Missing { target: target.clone() }
            }
        };
        Some(Link { unit: None, target, state: State::Failed, reason: Some(reason) })
    }

    pub(super) fn is_active(&self, ix: Ix) -> bool {
        self.cell(ix).facets & ACTIVE != 0
    }
}

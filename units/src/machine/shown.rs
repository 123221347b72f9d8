//! The shown state of a unit: the first row of the state table that fits, and the reason. Computed,
//! never stored.

use super::phase::{Form, Phase, Then};
use super::propagation::{FAILED, OVER, closes, is_dead, is_hard, spoils};
use super::{Ix, Machine};
use crate::graph::Provider;
use crate::machine::reason::{Reason, State};
use crate::text::name::Name;
use crate::unit::generation::UnitId;
use std::collections::BTreeSet;

impl Machine {
    /// Returns the shown state.
    pub(super) fn shown(&self, ix: Ix) -> State {
        let cell = self.cell(ix);
        let is_removed = self.generation.units.len() <= ix as usize;
        match &cell.phase {
            // A removed unit is forgotten with its last run, however that run ended.
            phase if is_removed && !phase.is_up() => State::Disabled,
            phase if phase.is_hopeless() => State::Failed,
            Phase::Stopping(_, _) => State::Stopping,
            Phase::Starting(_, _) | Phase::Ready(_, _, _) if cell.must_stop => State::Stopping,
            Phase::Starting(_, _) => State::Starting,
            Phase::Ready(_, Form::Running { .. } | Form::Leaving { .. }, _) => State::Running,
            Phase::Ready(_, Form::Reloading { .. }, _) => State::Reloading,
            Phase::Ready(_, Form::Exited { .. }, _) => State::Exited,
            Phase::Failed(_) => State::Failed,
            Phase::Idle | Phase::Backoff(_) => {
                let own = cell.broken || cell.conflict.is_some() || cell.verdict;
                match (own, cell.needed) {
                    (true, _) => State::Failed,
                    (false, false) => State::Disabled,
                    (false, true) if cell.failed_deps > 0 => State::Failed,
                    (false, true) => State::Waiting,
                }
            }
        }
    }

    /// Returns the reason for the shown state.
    pub(super) fn reason_of(&self, ix: Ix) -> Option<Reason> {
        let cell = self.cell(ix);
        match &cell.phase {
            phase if phase.is_hopeless() => Some(Reason::Unkillable),
            Phase::Stopping(run, stop) => match &stop.then {
                Then::Fail(failure) => Some(failure.reason.clone()),
                Then::Idle | Then::Again | Then::Rest { .. } => self.loss(ix, run.lost.as_ref()?),
            },
            Phase::Starting(run, _) | Phase::Ready(run, _, _) if cell.must_stop => {
                self.loss(ix, run.lost.as_ref()?)
            }
            Phase::Starting(_, _) => cell.last.as_deref().cloned().filter(|_| cell.failures > 0),
            Phase::Ready(_, Form::Exited { skipped: Some(condition), .. }, _) => {
                Some(Reason::Skipped { condition: condition.clone() })
            }
            Phase::Ready(_, _, _) => None,
            Phase::Failed(reason) => self.own_fault(ix).or(Some(reason.clone())),
            Phase::Idle | Phase::Backoff(_) => self.reason_down(ix),
        }
    }

    fn loss(&self, ix: Ix, target: &Name) -> Option<Reason> {
        let edges = self.graph.edges(UnitId(ix)).iter();
        let named = edges.filter(|edge| {
            self.generation.target(edge.target).is_some_and(|found| found.name == *target)
        });
        let unit = named.filter_map(|edge| self.generation.unit(edge.provider?)).next()?;
        Some(Reason::Dependency { target: target.clone(), unit: unit.name.clone() })
    }

    fn own_fault(&self, ix: Ix) -> Option<Reason> {
        if let Some(broken) = self.graph.broken(UnitId(ix)) {
            return Some(match &broken.claims {
                Some(target) => Reason::Conflict { target: target.clone() },
                None => Reason::Config { at: broken.at.clone(), message: broken.message.clone() },
            });
        }
        let target = self.generation.target(self.cell(ix).conflict?)?;
        Some(Reason::Conflict { target: target.name.clone() })
    }

    fn reason_down(&self, ix: Ix) -> Option<Reason> {
        let cell = self.cell(ix);
        if let Some(fault) = self.own_fault(ix) {
            return Some(fault);
        }
        if cell.verdict {
            return cell.last.as_deref().cloned();
        }
        if !cell.needed {
            let target = self.unit(ix)?.provides.first().copied()?;
            let target = self.generation.target(target)?.name.clone();
            let masked = self.graph.is_masked(UnitId(ix)).then_some(Reason::Masked { target });
            return masked
                .or_else(|| cell.last.as_deref().cloned().filter(|_| cell.connection_lost));
        }
        if cell.failed_deps > 0 {
            return self.reason_by_dependency(ix);
        }
        if let Phase::Backoff(at) = cell.phase {
            return Some(Reason::Backoff { attempt: cell.failures, at });
        }
        let targets = self.waits_on(ix);
        Some(if targets.is_empty() { Reason::Slot } else { Reason::On { targets } })
    }

    fn reason_by_dependency(&self, ix: Ix) -> Option<Reason> {
        let edges = self.graph.edges(UnitId(ix)).iter().filter(|edge| is_hard(edge.kind));
        for edge in edges {
            let Some(target) = self.generation.target(edge.target).map(|t| t.name.clone()) else {
                continue;
            };
            match edge.provider {
                Some(provider) if spoils(edge.kind, self.cell(provider.0).facets) => {
                    let unit = self.generation.unit(provider)?.name.clone();
                    let facets = self.cell(provider.0).facets;
                    return Some(match facets & FAILED {
                        0 => Reason::Inactive { target, unit, finished: facets & OVER != 0 },
                        _ => Reason::Dependency { target, unit },
                    });
                }
                None if is_dead(edge) => {
                    return Some(match self.graph.provider(edge.target) {
                        Provider::Masked => Reason::Masked { target },
                        Provider::NoUnit | Provider::Unit(_) => Reason::Missing { target },
                    });
                }
                Some(_) | None => {}
            }
        }
        None
    }

    /// Returns the targets whose gates are closed, and those another run still holds.
    fn waits_on(&self, ix: Ix) -> Vec<Name> {
        let edges = self.graph.edges(UnitId(ix)).iter().filter(|edge| match edge.provider {
            Some(provider) => closes(edge.kind, self.cell(provider.0).facets),
            None => is_dead(edge),
        });
        let mut targets: Vec<Name> = edges
            .filter_map(|edge| Some(self.generation.target(edge.target)?.name.clone()))
            .collect();
        let own = self.unit(ix).map_or(&[][..], |unit| &unit.provides);
        let own = own.iter().filter_map(|target| Some(&self.generation.target(*target)?.name));
        let own: BTreeSet<&Name> = own.collect();
        for (holder, waiting) in self.holders.iter().chain(&self.followers) {
            let Some(run) = self.cell(*holder).phase.run().filter(|_| waiting.contains(&ix)) else {
                continue;
            };
            let held = run.hold.iter().flat_map(|hold| &hold.targets).flatten();
            let before = targets.len();
            targets.extend(held.filter(|target| own.contains(target)).cloned());
            if targets.len() == before {
                // The unit conflicts with the holder's run, or restarts with it.
                targets.push(self.name(*holder));
            }
        }
        targets.sort();
        targets.dedup();
        targets
    }
}

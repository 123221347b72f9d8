//! Triggers: the effect of a firing on the unit it activates, and the end of the activation. An
//! accepting socket has *places* instead: units that are needed while they have a connection, for
//! one run each.

use super::failure;
use super::mutant::Mutant;
use super::phase::{Form, Phase};
use super::{Ix, Machine};
use crate::spec::{DependencyKind, Kind};
use crate::text::time::Time;
use crate::unit::generation::UnitId;

impl Machine {
    /// Returns the unit that a trigger activates, if its target has a provider.
    pub fn activates(&self, trigger: UnitId) -> Option<UnitId> {
        self.activated(trigger.0).map(UnitId)
    }

    /// Returns true if a firing of this trigger would have an effect. The trigger must be active, and
    /// its unit must be down and not about to start, or exited without a process left. Otherwise
    /// init does not poll the socket, because its data belongs to the service.
    pub fn awaits(&self, trigger: UnitId) -> bool {
        let cell = self.cell(trigger.0);
        if !matches!(cell.phase, Phase::Ready(_, _, _)) || cell.must_stop || !cell.needed {
            return false;
        }
        if self.places(trigger.0).next().is_some() {
            // An accepting socket is always polled: init accepts or refuses each new connection.
            return true;
        }
        let Some(ix) = self.activated(trigger.0) else { return false };
        let activated = self.cell(ix);
        match &activated.phase {
            Phase::Ready(run, Form::Exited { .. }, _) => !run.alive && !activated.must_stop,
            Phase::Idle => !activated.needed && !cell.triggered,
            Phase::Failed(_) => true,
            Phase::Ready(_, _, _)
            | Phase::Starting(_, _)
            | Phase::Stopping(_, _)
            | Phase::Backoff(_) => false,
        }
    }

    /// Returns the places of a socket: units that take one connection each.
    fn places(&self, socket: Ix) -> impl Iterator<Item = Ix> {
        let edges = self.graph.edges(UnitId(socket)).iter();
        let accepts = edges.filter(|edge| edge.kind == DependencyKind::Accepts);
        accepts.filter_map(|edge| edge.provider.map(|unit| unit.0))
    }

    /// Returns the places of this socket that can take a connection now.
    pub fn free_places(&self, socket: UnitId) -> impl Iterator<Item = UnitId> {
        let free = |ix: &Ix| self.is_free(*ix) && !self.cell(*ix).broken;
        self.places(socket.0).filter(free).map(UnitId)
    }

    /// Returns true if the unit has a connection, which it keeps until its run is over.
    pub fn has_connection(&self, unit: UnitId) -> bool {
        self.is_connected(unit.0)
    }

    /// Returns true if the unit is a place of a socket.
    pub fn is_place(&self, unit: UnitId) -> bool {
        self.graph.back(unit).iter().any(|back| back.kind == DependencyKind::Accepts)
    }

    /// Returns true if a connection was accepted for this unit and its run has not ended.
    pub(super) fn is_connected(&self, ix: Ix) -> bool {
        self.cell(ix).triggered
            && !self.is_trigger(ix)
            && !self.planted(Mutant::ConnectionPullsNothing)
    }

    fn is_trigger(&self, ix: Ix) -> bool {
        self.unit(ix).is_some_and(|unit| unit.kind.is_trigger())
    }

    fn is_free(&self, ix: Ix) -> bool {
        let cell = self.cell(ix);
        cell.phase.run().is_none() && !cell.needed && !cell.triggered
    }

    /// Gives the unit a connection. Ignored if no active socket could have accepted it, or if the
    /// unit has a run already.
    fn connected(&mut self, ix: Ix) {
        let listens = |socket: Ix| {
            let cell = self.cell(socket);
            let is_socket = self.unit(socket).is_some_and(|unit| unit.kind == Kind::Socket);
            is_socket
                && matches!(cell.phase, Phase::Ready(_, _, _))
                && !cell.must_stop
                && cell.needed
        };
        let mut back = self.graph.back(UnitId(ix)).iter();
        let accepted =
            back.any(|back| back.kind == DependencyKind::Accepts && listens(back.dependent.0));
        if accepted && self.is_free(ix) {
            self.cell_mut(ix).triggered = true;
            self.cell_mut(ix).connection_lost = false;
            self.search_due = true;
        }
    }

    /// Ends the connection of a run that is over. Returns true if there was one.
    pub(super) fn disconnected(&mut self, ix: Ix) -> bool {
        let over = self.cell(ix).triggered
            && !self.is_trigger(ix)
            && !self.planted(Mutant::ConnectionNeverEnds);
        if over {
            self.cell_mut(ix).triggered = false;
            self.search_due = true;
        }
        over
    }

    /// Returns the unit that a trigger activates.
    pub(super) fn activated(&self, trigger: Ix) -> Option<Ix> {
        let target = self.unit(trigger)?.activates?;
        self.graph.provider(target).unit().map(|unit| unit.0)
    }

    /// Returns true if the unit is up because of a fired trigger or a connection.
    pub(super) fn was_fired(&self, ix: Ix) -> bool {
        let by =
            |trigger: &Ix| self.cell(*trigger).triggered && self.activated(*trigger) == Some(ix);
        self.cell(ix).triggered || self.triggers.iter().any(by)
    }

    /// Handles the firing of a trigger; ignored unless the trigger is needed and active. If the
    /// unit is no trigger, a connection came for it.
    pub(super) fn fired(&mut self, now: Time, trigger: Ix) {
        if !self.is_trigger(trigger) {
            return self.connected(trigger);
        }
        let cell = self.cell(trigger);
        let active = matches!(cell.phase, Phase::Ready(_, _, _)) && !cell.must_stop;
        let active = active || self.planted(Mutant::SleepingTriggerFires);
        let restarts = self.planted(Mutant::FiringRestarts);
        if !active || !cell.needed {
            return;
        }
        let Some(ix) = self.activated(trigger) else { return };
        let cell = self.cell(ix);
        let (failures, ended) = (cell.failures, cell.ended);
        match &cell.phase {
            Phase::Ready(_, Form::Exited { .. }, _) => self.ask_restart(ix),
            Phase::Starting(_, _) | Phase::Ready(_, _, _) if !cell.must_stop => {
                if restarts {
                    self.ask_restart(ix);
                }
                return;
            }
            Phase::Failed(_) if cell.needed => {
                // The delay does not grow, because the timer itself limits how often the unit is
                // tried.
                let timed = self.unit(trigger).is_some_and(|unit| unit.kind == Kind::Timer);
                let timed = timed && !self.planted(Mutant::TimerBacksOff);
                let wait = self.live(ix).map(|live| match timed {
                    true => live.restart_delay.max(failure::FLOOR),
                    false => failure::delay(&live, failures),
                });
                let at = ended.after(wait.unwrap_or_default()).max(now);
                self.set_phase(ix, Phase::Backoff(at));
            }
            Phase::Stopping(_, _) => {
                if let Phase::Stopping(_, stop) = &mut self.cell_mut(ix).phase {
                    stop.follow();
                }
            }
            Phase::Starting(_, _)
            | Phase::Ready(_, _, _)
            | Phase::Failed(_)
            | Phase::Idle
            | Phase::Backoff(_) => {}
        }
        self.cell_mut(trigger).triggered = true;
        self.search_due = true;
    }

    /// Returns the fired triggers that keep this unit needed. Walks over all triggers, which are
    /// few.
    fn firing(&self, ix: Ix) -> Vec<Ix> {
        let fired = self.triggers.iter().copied().filter(|trigger| self.cell(*trigger).triggered);
        fired.filter(|trigger| self.activated(*trigger) == Some(ix)).collect()
    }

    /// Returns true if the firing of a socket keeps this unit needed: exit 0 is a success then.
    pub(super) fn is_served(&self, ix: Ix) -> bool {
        let is_socket = |ix: &Ix| self.unit(*ix).is_some_and(|unit| unit.kind == Kind::Socket);
        self.is_connected(ix) || self.firing(ix).iter().any(is_socket)
    }

    /// Handles the success of an activated unit: its activation ends.
    pub(super) fn activation_ended(&mut self, ix: Ix) {
        if self.planted(Mutant::ActivationNeverEnds) {
            return;
        }
        self.disconnected(ix);
        for trigger in self.firing(ix) {
            self.cell_mut(trigger).triggered = false;
            self.search_due = true;
        }
    }

    /// Finds the triggers of the present generation.
    pub(super) fn find_triggers(&self) -> Vec<Ix> {
        let units = self.generation.unit_ids().zip(&self.generation.units);
        units.filter(|(_, unit)| unit.kind.is_trigger()).map(|(UnitId(ix), _)| ix).collect()
    }
}

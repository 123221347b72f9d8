//! The effect of one event on the stored state: facts about runs, firings and time; [`super::wish`]
//! handles wishes. [`super::settle`] computes the consequences.

use super::settle::{FLOOR, again, delay, later};
use super::{DUES, Deed, Due, Failure, IMMORTAL, NOTHING_DUE, Oracle, Rest, Run};
use crate::machine::event::{Event, Stage};
use crate::machine::reason::State;
use crate::simulator::set::Set;
use crate::spec::{DependencyKind as D, Exit, Kind, Readiness};
use crate::text::name::Name;
use crate::text::time::Time;
use std::time::Duration;

impl Oracle {
    /// Applies an event. Returns false if it was refused and nothing changed.
    pub(super) fn apply(&mut self, event: &Event) -> bool {
        match event {
            Event::Restart(names) => self.prod(names, |it, unit| match &mut it.stored[unit].run {
                Some(run) => (run.asked, run.failure, run.rests) = (true, None, None),
                None => it.forgive(unit, false),
            }),
            Event::Retry(names) => self.prod(names, |it, unit| it.forgive(unit, true)),
            Event::ReloadUnit(names) => {
                let able = self.able_to_reload();
                let can = |name: &Name| self.provider(name).is_some_and(|unit| able.has(unit));
                names.iter().all(can)
                    && self.prod(names, Oracle::reload_unit)
                    && self.reload_with(names, able)
            }
            Event::Shutdown(_) if self.end.is_some() => false,
            Event::Shutdown(_) => {
                let span = self.generation.settings.shutdown_deadline;
                self.end = Some(self.now.after(span.unwrap_or(Duration::from_secs(90))));
                true
            }
            Event::Tick => {
                while let Some(due) = self.next_due().filter(|due| *due <= self.now) {
                    self.timer(due);
                    self.settle();
                }
                true
            }
            Event::Fire(name) => {
                self.fire(name);
                true
            }
            fact if fact.run().is_some() => {
                self.fact(fact);
                true
            }
            wish => self.wish(wish),
        }
    }

    /// Applies a fact; only facts about the present run of a unit count.
    fn fact(&mut self, event: &Event) -> Option<()> {
        use State::{Reloading, Running, Starting, Stopping};
        let (now, id) = (self.now, event.run()?);
        let unit = self.whose(|run| run.id == id).iter().next()?;
        let run = self.stored[unit].run.as_mut()?;
        let due = |run: &mut Run, what: Due, span| run.due[what as usize] = later(now, span);
        if run.leaves(event, now) {
            return None;
        }
        match (event, run.form) {
            (Event::Stopping(_), Running | Reloading) => {
                (run.leaving, run.form, run.due) = (true, Running, NOTHING_DUE);
                due(run, Due::Stop, run.unit.live.stop_timeout);
            }
            (Event::Stopping(_), Starting) => run.leaving = run.unit.readiness != Readiness::Exit,
            (Event::Executed(_), Starting) => match run.unit.readiness {
                Readiness::Exec => self.activate(unit, Running),
                Readiness::Wait(span) => due(run, Due::Ready, Some(span)),
                _ => {}
            },
            (Event::Ready(_), Starting) if run.unit.readiness != Readiness::Exit => {
                self.activate(unit, Running)
            }
            (Event::Reloaded(_, true), _) if run.announced => {}
            (Event::Ready(_) | Event::Reloaded(..), Reloading) => run.reloaded(),
            (Event::Reloading(_), Reloading) => run.announced = true,
            (Event::Reloading(_), Running) => {
                (run.form, run.announced) = (Reloading, true);
                due(run, Due::Reload, run.unit.live.start_timeout);
            }
            (Event::ExtendTimeout(_, span), form) => {
                if matches!(form, Running | Reloading) {
                    run.extended = run.extended.max(now.after(*span));
                }
                let what = match form {
                    Starting => Due::Start,
                    Reloading => Due::Reload,
                    Stopping if !run.killed && !run.unit.live.stop_promptly => Due::Stop,
                    _ => return None,
                };
                let by = &mut run.due[what as usize];
                *by = now.after(*span).max(*by);
            }
            (Event::WatchdogEvery(_, span), form) if form != Stopping => {
                run.watch = Some(*span).filter(|span| !span.is_zero());
                if matches!(form, Running | Reloading) {
                    due(run, Due::Ping, run.watch);
                }
            }
            (Event::WatchdogPing(_), Running | Reloading) => due(run, Due::Ping, run.watch),
            (Event::OutOfMemory(_), _) => run.starved = true,
            (Event::WatchdogTrigger(_), Running | Reloading) => {
                self.fail(unit, Failure::Watchdog, true)
            }
            (Event::Protocol(..), form) if form != Stopping => {
                self.fail(unit, Failure::Ordinary, false)
            }
            _ => self.ends(unit, event),
        }
        Some(())
    }

    /// Applies a fact about the end of a run.
    fn ends(&mut self, unit: usize, event: &Event) {
        let Some(run) = &mut self.stored[unit].run else { return };
        match (event, run.form) {
            (Event::Exited(_, exit), _) => self.exited(unit, *exit),
            (Event::Ended(_, exit), _) => {
                run.empty = true;
                self.exited(unit, *exit);
            }
            (Event::Skipped(..), State::Starting) => {
                (run.ended, run.empty, run.skipped) = (true, true, true);
                self.activate(unit, State::Exited);
                self.succeed(unit);
            }
            (Event::Gone(_) | Event::Skipped(..) | Event::StartFailed(..), State::Stopping) => {
                self.over(unit)
            }
            (Event::StartFailed(_, failure), _) => {
                run.empty = true;
                let again = failure.is_transient() || failure.stage == Stage::Listen;
                let why = if again { Failure::Ordinary } else { Failure::Exec };
                self.fail(unit, why, false);
            }
            (Event::Gone(_), form) => {
                run.empty = true;
                if form != State::Exited {
                    self.fail(unit, Failure::Ordinary, false);
                }
            }
            _ => {}
        }
    }

    /// Handles a failure: the run leaves the active state, and the failure counts once the run is
    /// gone. In must_stop only a start timeout is a failure. `told` means that init itself ends the
    /// run.
    fn fail(&mut self, unit: usize, why: Failure, told: bool) {
        let expected = self.must_stop().has(unit) && why != Failure::StartTimeout;
        if let Some(run) = self.stored[unit].run.as_mut().filter(|_| !expected) {
            run.failure = Some(why);
        }
        if told { self.tell(unit) } else { self.quit(unit, false) }
    }

    fn exited(&mut self, unit: usize, exit: Exit) {
        let (expected, served) = (self.must_stop().has(unit), self.served(unit));
        let it = &mut self.stored[unit];
        let Some(run) = &mut it.run else { return };
        if std::mem::replace(&mut run.ended, true) || run.form == State::Stopping {
            if run.form == State::Stopping && run.empty {
                self.over(unit);
            }
            return;
        }
        let (kind, live) = (run.unit.kind, &run.unit.live);
        let purpose = served || matches!(kind, Kind::Oneshot | Kind::BackgroundScripted);
        if !(live.success_status.lists(exit) || purpose && exit == Exit::Code(0)) {
            let why = if run.starved { Failure::Starved(exit) } else { Failure::Ended(exit) };
            return self.fail(unit, why, false);
        }
        if kind == Kind::BackgroundScripted {
            return self.activate(unit, State::Running);
        }
        let always = again(live, Err(exit));
        if always && kind != Kind::Oneshot && !served {
            run.again = !expected;
            it.tried = true;
            self.quit(unit, false);
        } else {
            let at = later(self.now, Some(live.restart_delay).filter(|_| always));
            let (rests, empty) = (!run.unit.remains, run.empty);
            self.activate(unit, State::Exited);
            self.stored[unit].run.iter_mut().for_each(|run| run.due[Due::Again as usize] = at);
            if rests && empty {
                self.rest(unit);
            } else if rests {
                self.stored[unit]
                    .run
                    .iter_mut()
                    .for_each(|run| run.rests = Some(exit).filter(|_| !expected));
                self.quit(unit, false);
            }
        }
        self.succeed(unit);
    }

    /// Returns the fired triggers that keep `unit` needed.
    fn firing(&self, unit: usize) -> Set {
        self.all().filter(|it| self.stored[it].fired && self.activates(it) == Some(unit))
    }

    /// Handles a success: the activation ends.
    fn succeed(&mut self, unit: usize) {
        self.firing(unit).iter().for_each(|trigger| self.stored[trigger].fired = false);
        self.disconnect(unit);
    }

    /// Returns true if the unit has a connection that a socket accepted.
    pub fn is_connected(&self, unit: usize) -> bool {
        self.stored[unit].fired && self.unit(unit).is_some_and(|unit| !unit.kind.is_trigger())
    }

    /// Ends the connection of a run that is over.
    pub(super) fn disconnect(&mut self, unit: usize) -> bool {
        let connected = self.is_connected(unit);
        self.stored[unit].fired &= !connected;
        connected
    }

    /// Gives a connection to a free unit.
    fn connect(&mut self, unit: usize) {
        let listening = self.active();
        let accepted = self.graph.all().any(|(from, edge)| {
            let is_socket = self.unit(from).is_some_and(|unit| unit.kind == Kind::Socket);
            edge.kind == D::Accepts && edge.to == Some(unit) && is_socket && listening.has(from)
        });
        let it = &mut self.stored[unit];
        it.fired |= accepted && it.run.is_none() && !self.needed.has(unit);
    }

    /// Returns true if a socket keeps the unit needed: exit 0 is a success then.
    fn served(&self, unit: usize) -> bool {
        let socket = |trigger: usize| self.unit(trigger).is_some_and(|it| it.kind == Kind::Socket);
        self.is_connected(unit) || self.firing(unit).iter().any(socket)
    }

    fn fire(&mut self, name: &Name) -> Option<()> {
        let place = self.universe.unit(name);
        if let Some(unit) =
            place.filter(|it| self.unit(*it).is_some_and(|it| !it.kind.is_trigger()))
        {
            self.connect(unit);
            return None;
        }
        let trigger = self.universe.unit(name).filter(|unit| self.active().has(*unit))?;
        let unit = self.activates(trigger)?;
        let (now, stopping) = (self.now, self.must_stop());
        let live = self.unit(unit).map(|unit| unit.live.clone());
        let timed = self.unit(trigger).is_some_and(|unit| unit.kind == Kind::Timer);
        let it = &mut self.stored[unit];
        match &mut it.run {
            Some(run) if run.form == State::Exited => run.asked = true,
            Some(_) if !stopping.has(unit) => return None,
            Some(run) => run.rests = None,
            _ => {}
        }
        if let (Rest::Failed, Some(live)) = (it.rest, live) {
            let ended = it.failures.last().copied().unwrap_or(Time::ZERO);
            let grown = delay(it.n, live.restart_delay, live.restart_delay_max);
            let wait = if timed { live.restart_delay.max(FLOOR) } else { grown };
            it.rest = Rest::Backoff(ended.after(wait).max(now));
        }
        self.stored[trigger].fired = true;
        Some(())
    }

    /// Returns every armed timer with its unit; those of the overlay and the shutdown have none
    /// (`usize::MAX`).
    fn timers(&self) -> impl Iterator<Item = (Time, usize)> {
        let units = self.stored.iter().enumerate().flat_map(|(unit, it)| {
            let rest = if let Rest::Backoff(at) = it.rest { at } else { Time::NEVER };
            let due = it.run.as_ref().map_or(NOTHING_DUE, |run| run.due);
            let long = it.run.as_ref().map_or(Time::NEVER, Run::too_long);
            due.into_iter().chain([rest, long]).map(move |at| (at, unit))
        });
        let others = self.want.values().copied().flatten().chain(self.end);
        units.chain(others.map(|at| (at, usize::MAX))).filter(|(at, _)| *at < Time::NEVER)
    }

    /// Returns the time of the next timer.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.timers().map(|(at, _)| at).min()
    }

    /// Fires the first timer that is due, by unit.
    fn timer(&mut self, at: Time) {
        let Some((_, unit)) = self.timers().filter(|(due, _)| *due == at).min() else { return };
        let Some(it) = self.stored.get_mut(unit) else {
            self.want.retain(|_, until| until.is_none_or(|until| until > at));
            return self.deadline(at);
        };
        if it.rest == Rest::Backoff(at) {
            it.rest = Rest::Idle;
        }
        let Some(run) = &mut it.run else { return };
        let Some(what) = run.due.iter().position(|due| *due == at) else {
            if run.too_long() == at {
                self.fail(unit, Failure::Ordinary, true);
            }
            return;
        };
        run.due[what] = Time::NEVER;
        match DUES[what] {
            Due::Ready => self.activate(unit, State::Running),
            Due::Again if run.empty && !run.unit.has_exec_stop => self.quit(unit, false),
            Due::Again => run.asked = true,
            Due::Slot => {}
            Due::Reload => run.reloaded(),
            Due::Ping => self.fail(unit, Failure::Watchdog, true),
            Due::Start => self.fail(unit, Failure::StartTimeout, true),
            Due::Stop if run.killed => run.unkillable = true,
            Due::Stop if run.form != State::Stopping => self.fail(unit, Failure::Ordinary, true),
            Due::Stop => self.kill(unit),
        }
    }

    fn kill(&mut self, unit: usize) {
        let Some(run) = &mut self.stored[unit].run else { return };
        (run.killed, run.form, run.due) = (true, State::Stopping, NOTHING_DUE);
        run.due[Due::Stop as usize] = self.now.after(IMMORTAL);
        self.deeds.push(Deed::Kill(unit, run.id));
    }

    /// Handles the shutdown deadline: remaining runs are killed.
    fn deadline(&mut self, at: Time) {
        if self.end.is_some_and(|end| end <= at) {
            self.end = Some(Time::NEVER);
            let is_opened = |run: &Run| run.unit.kind == Kind::Socket && run.form != State::Running;
            let has_child = |run: &Run| run.unit.kind.has_process() || is_opened(run);
            let remains = self.whose(|run| !run.unkillable && has_child(run));
            remains.iter().for_each(|unit| self.kill(unit));
        }
    }
}

impl Run {
    /// Returns the deadline of `run-timeout`.
    fn too_long(&self) -> Time {
        let working = matches!(self.form, State::Running | State::Reloading);
        match (self.unit.live.run_timeout, self.active_since) {
            (Some(span), Some(since)) if working => since.after(span).max(self.extended),
            _ => Time::NEVER,
        }
    }

    /// Handles a fact of a run that sent STOPPING=1. Returns whether it was handled.
    fn leaves(&mut self, event: &Event, now: Time) -> bool {
        if !self.leaving || self.form != State::Running {
            return false;
        }
        match event {
            Event::ExtendTimeout(_, span) => {
                self.extended = self.extended.max(now.after(*span));
                let by = &mut self.due[Due::Stop as usize];
                *by = now.after(*span).max(*by);
            }
            Event::WatchdogEvery(_, span) => {
                self.watch = Some(*span).filter(|span| !span.is_zero());
            }
            Event::Ready(_) | Event::Reloading(_) | Event::Reloaded(..) => {}
            Event::Stopping(_) | Event::WatchdogPing(_) => {}
            _ => return false,
        }
        true
    }

    /// Returns true if the run works and has not sent STOPPING=1.
    pub(super) fn works(&self) -> bool {
        self.form == State::Running && !self.leaving
    }

    fn reloaded(&mut self) {
        (self.form, self.announced) = (State::Running, false);
        self.due[Due::Reload as usize] = Time::NEVER;
    }
}

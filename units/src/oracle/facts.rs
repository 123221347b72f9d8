//! How one event changes what is stored: wishes, facts about runs, and time.
//! What follows from it is settled afterwards by [`crate::oracle`].

use crate::machine::event::{Event, RunId, Stage};
use crate::name::Name;
use crate::oracle::retry::{again, delay, run_by};
use crate::oracle::{Deed, Failure, IMMORTAL, Oracle, Phase, Rest, Run, Stored};
use crate::spec::{Exit, Kind, Readiness, RestartLimit};
use crate::time::Time;

impl Oracle {
    fn owner(&self, id: RunId) -> Option<usize> {
        let mine = |unit: &usize| self.stored[*unit].run.as_ref().is_some_and(|run| run.id == id);
        (0..self.stored.len()).find(mine)
    }

    /// A fact about a run; about any but the present one of its unit it says nothing.
    pub(crate) fn fact(&mut self, event: &Event) {
        let now = self.now;
        let id = match event {
            Event::Executed(id)
            | Event::Ready(id)
            | Event::Reloading(id)
            | Event::Reloaded(id, _)
            | Event::Stopping(id)
            | Event::Status(id, _)
            | Event::ExtendTimeout(id, _)
            | Event::WatchdogEvery(id, _)
            | Event::WatchdogPing(id)
            | Event::WatchdogTrigger(id)
            | Event::Exited(id, _)
            | Event::Ended(id, _)
            | Event::Gone(id)
            | Event::Skipped(id, _)
            | Event::StartFailed(id, _)
            | Event::Protocol(id, _)
            | Event::OutOfMemory(id) => *id,
            _ => return,
        };
        let Some(unit) = self.owner(id) else { return };
        let Some(run) = &mut self.stored[unit].run else { return };
        let (starting, up) = (run.phase == Phase::Starting, run.told.is_none());
        match event {
            Event::Executed(_) if starting => match run.readiness {
                Readiness::Exec => self.activate(unit, Phase::Running),
                Readiness::Wait(span) => run.ready_at = now.after(span),
                _ => {}
            },
            Event::Ready(_) if starting && run.readiness != Readiness::Exit => {
                self.activate(unit, Phase::Running)
            }
            Event::Reloaded(_, true) if run.announced => {}
            Event::Ready(_) | Event::Reloaded(..) if run.phase == Phase::Reloading => {
                run.announced = false;
                run.phase = Phase::Running;
                run.reload_by = Time::NEVER;
            }
            Event::Reloading(_) if run.phase == Phase::Reloading => run.announced = true,
            Event::Reloading(_) if run.phase == Phase::Running => {
                run.phase = Phase::Reloading;
                run.announced = true;
                run.reload_by = run.live.start_timeout.map_or(Time::NEVER, |span| now.after(span));
            }
            Event::ExtendTimeout(_, span) => extend(run, now.after(*span)),
            Event::OutOfMemory(_) => run.starved = true,
            Event::WatchdogEvery(_, span) if up => {
                run.watch = Some(*span).filter(|span| !span.is_zero());
                if !matches!(run.phase, Phase::Running | Phase::Reloading) {
                    return;
                }
                run.ping_by = run.watch.map_or(Time::NEVER, |span| now.after(span));
            }
            Event::WatchdogPing(_) if matches!(run.phase, Phase::Running | Phase::Reloading) => {
                run.ping_by = run.watch.map_or(Time::NEVER, |span| now.after(span));
            }
            Event::WatchdogTrigger(_) if matches!(run.phase, Phase::Running | Phase::Reloading) => {
                self.fail(unit, Failure::Watchdog, true)
            }
            Event::Protocol(..) if up => self.fail(unit, Failure::Ordinary, false),
            Event::Exited(_, exit) => self.exited(unit, *exit),
            Event::Ended(_, exit) => {
                run.empty = true;
                self.exited(unit, *exit);
            }
            Event::Skipped(..) if starting => {
                (run.ended, run.empty, run.skipped) = (true, true, true);
                self.activate(unit, Phase::Exited);
                self.succeed(unit);
            }
            Event::Skipped(..) => {
                run.empty = true;
                self.gone(unit);
            }
            Event::Gone(_) => self.gone(unit),
            Event::StartFailed(_, failure) => {
                run.empty = true;
                let again = failure.is_transient() || failure.stage == Stage::Listen;
                let why = if again { Failure::Ordinary } else { Failure::Exec };
                if up {
                    self.fail(unit, why, false);
                } else {
                    self.over(unit);
                }
            }
            _ => {}
        }
    }

    /// The run failed: it leaves active, and counts once it is gone. In must_stop no
    /// end but a start timeout is a failure. `told`: init itself ends it.
    fn fail(&mut self, unit: usize, why: Failure, told: bool) {
        let expected = self.must_stop().has(unit) && why != Failure::StartTimeout;
        if let Some(run) = self.stored[unit].run.as_mut().filter(|_| !expected) {
            run.failure = Some(why);
        }
        if told { self.tell(unit) } else { self.quit(unit, false) }
    }

    fn exited(&mut self, unit: usize, exit: Exit) {
        let Some(run) = &mut self.stored[unit].run else { return };
        if std::mem::replace(&mut run.ended, true) || run.told.is_some() {
            if run.told.is_some() && run.empty {
                self.over(unit);
            }
            return;
        }
        let by_socket = self.fired_by_socket(unit);
        let Some(run) = &mut self.stored[unit].run else { return };
        let listed = run.live.success_status.lists(exit);
        let zero = exit == Exit::Code(0);
        let (good, form) = match run.readiness {
            Readiness::Exit => {
                let oneshot = run.kind == Kind::Oneshot;
                (zero || listed, if oneshot { Phase::Exited } else { Phase::Running })
            }
            _ => (listed || zero && by_socket, Phase::Exited),
        };
        if !good {
            let why = if run.starved { Failure::Starved(exit) } else { Failure::Ended(exit) };
            self.fail(unit, why, false);
            return;
        }
        let always = again(&run.live, Err(exit));
        let oneshot = run.kind == Kind::Oneshot;
        if form != Phase::Exited {
            return self.activate(unit, form);
        }
        if always && (oneshot || by_socket) {
            run.again_at = self.now.after(run.live.restart_delay);
        }
        if always && !oneshot && !by_socket {
            let expected = self.must_stop().has(unit);
            if let Some(run) = &mut self.stored[unit].run {
                run.again = !expected;
            }
            self.stored[unit].tried = true;
            self.quit(unit, false);
        } else {
            self.activate(unit, form);
        }
        self.succeed(unit);
    }

    /// The run succeeded: the activation by triggers ends.
    fn succeed(&mut self, unit: usize) {
        for trigger in 0..self.stored.len() {
            let target = self.activates(trigger);
            if target.is_some_and(|target| self.graph.provider[target] == Some(unit)) {
                self.stored[trigger].fired = false;
            }
        }
    }

    fn fired_by_socket(&self, unit: usize) -> bool {
        (0..self.stored.len()).any(|trigger| {
            self.stored[trigger].fired
                && self.unit(trigger).is_some_and(|unit| unit.kind == Kind::Socket)
                && self
                    .activates(trigger)
                    .is_some_and(|target| self.graph.provider[target] == Some(unit))
        })
    }

    fn gone(&mut self, unit: usize) {
        let Some(run) = &mut self.stored[unit].run else { return };
        run.empty = true;
        if run.told.is_some() {
            self.over(unit);
        } else if run.phase != Phase::Exited {
            self.fail(unit, Failure::Ordinary, false);
        }
    }

    /// Nothing of the run is left.
    pub(crate) fn over(&mut self, unit: usize) {
        let (now, needed) = (self.now, self.needed.has(unit));
        let Some(run) = self.stored[unit].run.take() else { return };
        let timed_out = run.killed;
        let it = &mut self.stored[unit];
        if run.active_for.is_some_and(|span| span >= run.live.restart_reset) {
            it.n = 0;
            it.failures.clear();
        }
        if !self.graph.present.has(unit) {
            self.stored[unit] = Stored::default();
            return;
        }
        let it = &mut self.stored[unit];
        if !needed {
            if timed_out {
                it.rest = Rest::Failed(Failure::StopTimeout);
            }
            return;
        }
        if run.again {
            it.rest = Rest::Backoff(now.after(run.live.restart_delay));
        }
        if let Some(why) = run.failure {
            self.count(unit, why);
        }
    }

    fn count(&mut self, unit: usize, why: Failure) {
        let now = self.now;
        let Some(live) = self.unit(unit).map(|unit| unit.live.clone()) else { return };
        let it = &mut self.stored[unit];
        it.n += 1;
        it.ended = now;
        it.tried = true;
        it.failures.push(now);
        if it.failures.len() > 64 {
            it.failures.remove(0);
        }
        let never = !again(&live, Ok(why));
        let at_once = never || matches!(why, Failure::StartTimeout | Failure::Exec);
        let enough = match live.restart_limit {
            RestartLimit::None => false,
            RestartLimit::InARow(limit) => it.n >= limit,
            RestartLimit::Within(limit, span) => {
                let late = it.failures.iter().filter(|at| now.since(**at) <= span);
                late.count() >= limit as usize
            }
        };
        it.verdict |= at_once || enough || it.n >= live.failure_verdict;
        it.rest = if never || enough || why == Failure::Exec {
            Rest::Failed(why)
        } else {
            Rest::Backoff(now.after(delay(it.n, live.restart_delay, live.restart_delay_max)))
        };
    }

    pub(crate) fn fire(&mut self, name: &Name) {
        let Some(trigger) = self.universe.unit(name) else { return };
        let listening = self.stored[trigger].run.as_ref().is_some_and(|run| run.phase.is_active());
        let target = self.activates(trigger).filter(|_| listening);
        let Some(unit) = target.and_then(|target| self.graph.provider[target]) else { return };
        let stopping = self.must_stop();
        if stopping.has(trigger) {
            return;
        }
        let (n, ended) = (self.stored[unit].n, self.stored[unit].ended);
        let live = self.unit(unit).map(|unit| unit.live.clone());
        let it = &mut self.stored[unit];
        match &mut it.run {
            Some(run) if run.phase == Phase::Exited => run.asked = true,
            Some(_) if !stopping.has(unit) => return,
            Some(_) => {}
            None => {
                if let (Rest::Failed(_), Some(live)) = (it.rest, live) {
                    let wait = delay(n, live.restart_delay, live.restart_delay_max);
                    it.rest = Rest::Backoff(ended.after(wait).max(self.now));
                }
            }
        }
        self.stored[trigger].fired = true;
    }

    /// The next point in time at which something happens by itself.
    pub fn next_due(&self) -> Option<Time> {
        self.timers().map(|(at, _)| at).min().filter(|at| *at < Time::NEVER)
    }

    /// Every armed timer, with its unit; the overlay's and the shutdown's have none.
    fn timers(&self) -> impl Iterator<Item = (Time, usize)> {
        let units = self.stored.iter().enumerate().flat_map(|(unit, it)| {
            let rest = match it.rest {
                Rest::Backoff(at) => at,
                _ => Time::NEVER,
            };
            let run = it.run.as_ref().map_or([Time::NEVER; 8], |run| {
                let active = [run.again_at, run.reload_by, run.ping_by, run_by(run)];
                let [again, reload, ping, long] = active;
                [run.start_by, run.ready_at, run.slot_until, run.stop_by, again, reload, ping, long]
            });
            run.into_iter().chain([rest]).map(move |at| (at, unit))
        });
        let want = self.want.values().filter_map(|until| *until);
        let deadline = self.shutdown.map(|(_, at)| at);
        units.chain(want.chain(deadline).map(|at| (at, usize::MAX)))
    }

    /// Everything due at `at`, by unit; each settled before the next.
    pub(crate) fn timer(&mut self, at: Time) {
        match self.timers().filter(|(due, _)| *due == at).min() {
            Some((_, usize::MAX)) => {
                self.want.retain(|_, until| until.is_none_or(|until| until > at));
                self.deadline(at);
            }
            Some((_, unit)) => self.unit_timer(unit, at),
            None => {}
        }
        self.settle();
    }

    /// The deadline of a shutdown: what remains is killed.
    fn deadline(&mut self, at: Time) {
        let Some((how, _)) = self.shutdown.filter(|(_, by)| *by <= at) else { return };
        self.shutdown = Some((how, Time::NEVER));
        for unit in self.up().iter() {
            let mortal = |run: &&mut Run| !run.unkillable && run.kind.has_process();
            let Some(run) = self.stored[unit].run.as_mut().filter(mortal) else { continue };
            run.killed = true;
            run.phase = Phase::Stopping;
            run.told.get_or_insert(at);
            (run.start_by, run.ready_at, run.again_at) = (Time::NEVER, Time::NEVER, Time::NEVER);
            run.slot_until = Time::NEVER;
            (run.reload_by, run.ping_by) = (Time::NEVER, Time::NEVER);
            run.stop_by = at.after(IMMORTAL);
            self.deeds.push(Deed::Kill(unit, run.id));
        }
    }

    fn unit_timer(&mut self, unit: usize, at: Time) {
        let it = &mut self.stored[unit];
        if it.rest == Rest::Backoff(at) {
            it.rest = Rest::Idle;
        }
        let Some(run) = &mut it.run else { return };
        if run.ready_at == at {
            self.activate(unit, Phase::Running);
        } else if run.again_at == at {
            self.run_again(unit);
        } else if run.slot_until == at {
            run.slot_until = Time::NEVER;
        } else if run.start_by == at {
            self.fail(unit, Failure::StartTimeout, true);
        } else if run.reload_by == at {
            run.phase = Phase::Running;
            run.announced = false;
            run.reload_by = Time::NEVER;
        } else if run.ping_by == at {
            self.fail(unit, Failure::Watchdog, true);
        } else if run_by(run) == at {
            self.fail(unit, Failure::Ordinary, true);
        } else if run.stop_by == at {
            if run.killed {
                run.unkillable = true;
                run.stop_by = Time::NEVER;
            } else {
                run.killed = true;
                run.stop_by = at.after(IMMORTAL);
                self.deeds.push(Deed::Kill(unit, run.id));
            }
        }
    }
}

impl Oracle {
    /// `restart: always` of a oneshot that succeeded.
    fn run_again(&mut self, unit: usize) {
        let Some(run) = &mut self.stored[unit].run else { return };
        run.again_at = Time::NEVER;
        if !run.empty || run.has_exec_stop {
            run.asked = true;
            return;
        }
        self.quit(unit, false);
    }
}

/// No limit of the present phase comes before `until`.
fn extend(run: &mut Run, until: Time) {
    match run.phase {
        Phase::Starting => run.start_by = run.start_by.max(until),
        Phase::Stopping if !run.killed => run.stop_by = run.stop_by.max(until),
        Phase::Running => run.extended = run.extended.max(until),
        Phase::Reloading => {
            run.extended = run.extended.max(until);
            run.reload_by = run.reload_by.max(until);
        }
        _ => {}
    }
}

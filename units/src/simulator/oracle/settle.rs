//! One step: the consequences of an event, and the start, activation, stop and end of a run.
//! [`crate::simulator::oracle`] computes the sets.

use super::{Deed, Due, Failure, NOTHING_DUE, Oracle, Rest, Run, SLOT, Stored};
use crate::machine::event::{Event, RunId};

use crate::machine::reason::State;
use crate::simulator::graph::{Edge, Graph, Universe};
use crate::simulator::set::Set;
use crate::spec::{DependencyKind as D, Exit, Kind, Live, Restart, RestartLimit};
use crate::text::time::Time;
use crate::unit::policy::Policy;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

impl Oracle {
    /// Creates an oracle without runs and wishes.
    pub(crate) fn new(universe: Universe) -> Oracle {
        let units = vec![None; universe.units.len()];
        Oracle {
            stored: vec![Stored::default(); units.len()],
            graph: Arc::new(Graph::new(&universe, &units, &Policy::default(), &[], true)),
            units,
            universe: Arc::new(universe),
            generation: Arc::default(),
            policy: Policy::default(),
            goal: Vec::new(),
            want: BTreeMap::new(),
            drop: Vec::new(),
            end: None,
            finished: false,
            needed: Set::EMPTY,
            refused: Set::EMPTY,
            now: Time::ZERO,
            runs: 0,
            deeds: Vec::new(),
        }
    }

    /// Returns the actions that the machine must emit, and whether it must refuse.
    pub(crate) fn step(&mut self, now: Time, event: &Event) -> (Vec<Deed>, bool) {
        self.now = now;
        let accepted = self.apply(event);
        self.settle();
        (std::mem::take(&mut self.deeds), !accepted)
    }

    /// (1) Tells every unit to stop that may stop, until nothing changes; (2) starts every unit
    /// that may start, in one ordered pass. An instant start goes back to (1).
    pub(super) fn settle(&mut self) {
        self.renew_need();
        'again: loop {
            // Sweeps by name: a unit that becomes free behind the sweep waits for the next one.
            let mut next = 0;
            loop {
                let may = self.may_stop();
                let Some(unit) = may.iter().find(|unit| *unit >= next).or(may.iter().next()) else {
                    break;
                };
                self.tell(unit);
                self.check_ends();
                next = unit + 1;
            }
            for unit in self.start_order() {
                let instant = self.unit(unit).is_some_and(|unit| unit.kind.is_instant());
                if (instant || self.slot_free()) && self.start_order().contains(&unit) {
                    self.start(unit);
                    if instant {
                        self.check_ends();
                        continue 'again;
                    }
                }
            }
            break;
        }
        if self.end.is_some() && !self.finished && self.whose(|run| !run.unkillable).is_empty() {
            self.finished = true;
            self.deeds.push(Deed::Finish);
        }
    }

    /// Computes N again if the failure, exit or connection of a unit can make another unit needed.
    fn check_ends(&mut self) {
        let ends = |edge: &Edge| edge.kind.pulls_in_at_end() || edge.kind == D::Accepts;
        if self.graph.all().any(|(_, edge)| ends(edge)) || self.stored.iter().any(|it| it.brought) {
            self.renew_need();
        }
    }

    /// Computes N and the effects of entering and leaving it. Then runs that do not have to stop
    /// take the present keys of class *live*, and hold the targets they are selected for.
    pub(super) fn renew_need(&mut self) {
        loop {
            let (needed, refused, _, brought) = self.need();
            let (left, entered) = (self.needed.less(needed), needed.less(self.needed));
            (self.needed, self.refused) = (needed, refused);
            self.all().iter().for_each(|unit| self.stored[unit].brought = brought.has(unit));
            let mut fired = false;
            for unit in left.iter() {
                self.forgive(unit, true);
                fired |= std::mem::take(&mut self.stored[unit].fired);
            }
            for unit in entered.iter() {
                self.stored[unit].rest = Rest::Idle;
                self.stored[unit].tried = self.run(unit).is_some_and(|run| run.form.is_active());
            }
            if !fired {
                break;
            }
        }
        for unit in self.all().less(self.must_stop()).iter() {
            let (targets, present) = (self.graph.selected(unit), self.units[unit].clone());
            let against = self.against(unit);
            let (Some(run), Some(present)) = (&mut self.stored[unit].run, present) else {
                continue;
            };
            (run.targets, run.against) = (targets, against);
            if !Arc::ptr_eq(&run.unit, &present) && run.unit.live != present.live {
                let timeout = present.live.start_timeout;
                if run.form == State::Starting && timeout != run.unit.live.start_timeout {
                    run.due[Due::Start as usize] = later(run.began, timeout);
                }
                Arc::make_mut(&mut run.unit).live = present.live.clone();
            }
        }
    }

    /// Returns the targets that the unit's present definition conflicts with.
    pub(super) fn against(&self, unit: usize) -> Set {
        let present = self.unit(unit).filter(|unit| unit.fault.is_none());
        let all = present.into_iter().flat_map(|unit| &unit.dependencies);
        all.filter(|it| it.kind == D::Conflicts).map(|it| it.target.index()).collect()
    }

    /// Returns true if another run keeps this unit from starting. The run holds a target of the unit,
    /// or one of the two conflicts with a target of the other.
    pub(crate) fn blocks_start(&self, unit: usize, run: &Run) -> bool {
        let (targets, against) = (self.graph.selected(unit), self.against(unit));
        !run.targets.and(targets.or(against)).is_empty() || !run.against.and(targets).is_empty()
    }

    /// Clears verdict, backoff and failure; with `count`, also the number of failures.
    pub(super) fn forgive(&mut self, unit: usize, count: bool) {
        let it = &mut self.stored[unit];
        (it.verdict, it.rest) = (false, Rest::Idle);
        it.run.iter_mut().for_each(|run| run.failure = None);
        if count {
            it.n = 0;
            it.failures.clear();
        }
    }

    pub(super) fn start(&mut self, unit: usize) {
        let Some(definition) = self.unit(unit).cloned() else { return };
        self.runs += 1;
        let (id, now) = (RunId(self.runs), self.now);
        let instant = definition.kind.is_instant();
        let mut due = NOTHING_DUE;
        if !instant {
            due[Due::Start as usize] = later(now, definition.live.start_timeout);
            if self.generation.settings.max_starting > 0 {
                due[Due::Slot as usize] = now.after(SLOT);
            }
        }
        self.stored[unit].run = Some(Run {
            id,
            unit: definition,
            form: State::Starting,
            behind: self.graph.to(unit, D::orders),
            targets: self.graph.selected(unit),
            against: self.against(unit),
            orphaned: Set::EMPTY,
            lost: false,
            asked: false,
            changed: false,
            ended: instant,
            empty: instant,
            killed: false,
            unkillable: false,
            skipped: false,
            rests: None,
            over: false,
            announced: false,
            leaving: false,
            watch: None,
            extended: Time::ZERO,
            starved: false,
            began: now,
            active_since: None,
            active_for: None,
            due,
            failure: None,
            again: false,
        });
        self.deeds.push(Deed::Start(unit, id));
        if instant {
            self.activate(unit, State::Running);
        }
    }

    /// Handles a run that became active: earlier failures are settled.
    pub(super) fn activate(&mut self, unit: usize, form: State) {
        let now = self.now;
        let it = &mut self.stored[unit];
        (it.verdict, it.tried) = (false, true);
        let Some(run) = &mut it.run else { return };
        (run.form, run.due) = (form, NOTHING_DUE);
        if form == State::Running && run.unit.kind != Kind::BackgroundScripted {
            let (what, span) = match run.leaving {
                true => (Due::Stop, run.unit.live.stop_timeout),
                false => (Due::Ping, run.watch),
            };
            run.due[what as usize] = later(now, span);
        }
        run.active_since.get_or_insert(now);
    }

    /// Tells the run to stop.
    pub(super) fn tell(&mut self, unit: usize) {
        // The edges no longer lead to a masked or removed unit, but its run still holds its
        // targets.
        let held = self.run(unit).map_or(Set::EMPTY, |run| run.targets);
        let with = self.graph.all().filter(|(_, edge)| edge.kind == D::RestartWith);
        let with = with.filter(|(_, edge)| edge.to == Some(unit) || held.has(edge.target));
        let with: Set = with.map(|(other, _)| other).filter(|other| *other != unit).collect();
        for other in with.iter() {
            self.stored[other].run.iter_mut().for_each(|run| run.asked = true);
        }
        self.quit(unit, true);
    }

    /// Handles a run that leaves the active state, `told` by init or by itself; its remaining
    /// processes are stopped.
    pub(super) fn quit(&mut self, unit: usize, told: bool) {
        let now = self.now;
        let Some(run) = &mut self.stored[unit].run else { return };
        let (id, was_active) = (run.id, run.form.is_active());
        let has_stop = run.unit.has_exec_stop && was_active && !run.skipped && !run.over;
        let nothing_left = run.empty && !(told && has_stop);
        (run.form, run.due) = (State::Stopping, NOTHING_DUE);
        run.due[Due::Stop as usize] = later(now, run.unit.live.stop_timeout);
        run.active_for = run.active_since.map(|since| now.since(since));
        if was_active {
            self.leave(unit);
        }
        if told || !nothing_left {
            self.deeds.push(Deed::Stop(unit, id, nothing_left));
        }
        if nothing_left {
            self.over(unit);
        }
    }

    /// Records in the runs of its dependents that they lost this provider.
    fn leave(&mut self, unit: usize) {
        for dependent in self.graph.from(unit, D::DependsOn).iter() {
            self.stored[dependent].run.iter_mut().for_each(|run| run.lost = true);
        }
    }

    /// Handles a run that is over and succeeded.
    pub(super) fn rest(&mut self, unit: usize) {
        self.stored[unit].tried = true;
        let Some(run) = &mut self.stored[unit].run else { return };
        (run.form, run.over, run.rests, run.empty) = (State::Exited, true, None, true);
        let again = run.due[Due::Again as usize];
        run.due = NOTHING_DUE;
        run.due[Due::Again as usize] = again;
        self.leave(unit);
    }

    /// Handles a run of which nothing is left: counts its end.
    pub(super) fn over(&mut self, unit: usize) {
        let (now, present) = (self.now, self.unit(unit).map(|unit| unit.live.clone()));
        let connected = self.disconnect(unit);
        let active = |to: usize| self.run(to).is_some_and(|run| run.form.is_active() && !run.over);
        let lacks = self
            .graph
            .of(unit)
            .filter(|edge| edge.kind == D::DependsOn)
            .any(|edge| edge.to.map_or(!edge.optional, |to| !active(to)));
        let unwanted = self.broken_or_refused().or(self.all().less(self.needed)).has(unit);
        let it = &mut self.stored[unit];
        let (Some(mut run), Some(live)) = (it.run.take(), present) else {
            *it = Stored::default();
            return;
        };
        if run.active_for.is_some_and(|span| span >= run.unit.live.restart_reset) {
            it.n = 0;
            it.failures.clear();
        }
        let replaced = run.asked || run.changed || run.lost || lacks;
        if let Some(exit) = run.rests.filter(|_| !replaced && !unwanted) {
            if !run.killed {
                it.run = Some(run);
                return self.rest(unit);
            }
            run.failure = Some(Failure::StopTimeout(exit));
        }
        match run.failure {
            _ if !self.needed.has(unit) => {
                it.rest = if run.killed { Rest::Failed } else { it.rest };
            }
            _ if connected => {}
            None if run.again => it.rest = Rest::Backoff(now.after(live.restart_delay)),
            None => {}
            Some(why) => {
                it.n += 1;
                it.tried = true;
                it.failures.push(now);
                let never = !again(&live, Ok(why));
                let enough = match live.restart_limit {
                    RestartLimit::None => false,
                    RestartLimit::InARow(limit) => it.n >= limit,
                    RestartLimit::Within(limit, span) => {
                        let late = it.failures.iter().filter(|at| now.since(**at) <= span);
                        late.count() >= limit as usize
                    }
                };
                let for_good = never || enough || why == Failure::Exec;
                let again = it.verdict && for_good;
                let at_once = for_good || why == Failure::StartTimeout;
                it.verdict |= at_once || it.n >= live.failure_verdict;
                let retry = now.after(delay(it.n, live.restart_delay, live.restart_delay_max));
                it.rest = if for_good { Rest::Failed } else { Rest::Backoff(retry) };
                // A further final failure runs exited on-failure units once more.
                let alarms = self.graph.to(unit, |kind| kind == D::OnFailure);
                for alarm in alarms.iter().filter(|_| again) {
                    let run = self.stored[alarm].run.iter_mut();
                    run.filter(|run| run.form == State::Exited).for_each(|run| run.asked = true);
                }
            }
        }
    }
}

impl Oracle {
    /// Hashes the stored state without run ids, with times relative to now. Two states of one shape
    /// behave the same.
    pub(crate) fn shape(&self, into: &mut impl Hasher) {
        let ahead = |at: Time| Some(at.since(self.now)).filter(|_| at < Time::NEVER);
        let ago = |at: Time| self.now.since(at);
        (&self.goal, &self.want, &self.drop, &self.policy.mask).hash(into);
        (self.needed, self.refused, self.end.map(ahead), self.finished).hash(into);
        for it in &self.stored {
            let rest = match it.rest {
                Rest::Idle => (false, None),
                Rest::Failed => (true, None),
                Rest::Backoff(at) => (true, ahead(at)),
            };
            (rest, it.n, it.verdict, it.tried, it.fired, it.run.is_some()).hash(into);
            it.brought.hash(into);
            let Some(run) = &it.run else { continue };
            (run.unit.run_hash, run.form, run.behind, run.targets, run.orphaned).hash(into);
            run.against.hash(into);
            (run.lost, run.asked, run.changed, run.ended, run.empty, run.skipped).hash(into);
            (run.killed, run.unkillable, run.failure, run.again, run.active_for).hash(into);
            (run.announced, run.leaving, run.rests, run.over).hash(into);
            (run.active_since.map(ago), run.due.map(ahead)).hash(into);
        }
    }
}

/// Returns the time after a span, or never.
pub(super) fn later(now: Time, span: Option<Duration>) -> Time {
    span.map_or(Time::NEVER, |span| now.after(span))
}

/// Returns true if `restart` starts another run after a failure, or a success with this exit.
pub(super) fn again(live: &Live, end: Result<Failure, Exit>) -> bool {
    let exit = match end {
        Err(exit)
        | Ok(Failure::Ended(exit) | Failure::Starved(exit) | Failure::StopTimeout(exit)) => {
            Some(exit)
        }
        Ok(_) => None,
    };
    if exit.is_some_and(|exit| live.restart_except.lists(exit)) {
        return false;
    }
    if exit.is_some_and(|exit| live.restart_also.lists(exit)) {
        return true;
    }
    match live.restart {
        Restart::Always => true,
        Restart::Never => false,
        Restart::OnSuccess => end.is_err(),
        Restart::OnFailure => end.is_ok(),
        Restart::OnAbnormal => end.is_ok() && !matches!(end, Ok(Failure::Ended(Exit::Code(_)))),
        Restart::OnAbort => matches!(end, Ok(Failure::Ended(Exit::Signal { .. }))),
        Restart::OnWatchdog => end == Ok(Failure::Watchdog),
    }
}

/// The least delay from the 10th failure on, and after any failure of a unit that a timer fires.
pub(super) const FLOOR: Duration = Duration::from_millis(100);

/// Returns the delay after the `n`th consecutive failure; from the 10th on it is at least the
/// floor.
pub(super) fn delay(n: u32, first: Duration, most: Duration) -> Duration {
    let doubled = |span: Duration, times: u32| span.saturating_mul(1 << times.min(31));
    let wished = doubled(first, n.saturating_sub(1));
    match n {
        0..10 => wished.min(most),
        _ => wished.max(doubled(FLOOR, n - 10)).min(most.max(FLOOR)),
    }
}

//! Paths and timers of trigger units: what the lookouts watch, and what a report fires.

use crate::base::{Level, Mode, clock, token};
use crate::event_loop::Init;
use crate::sys::Pid;
use crate::trigger::Subject;
use crate::trigger::lookout::{Lookout, Post};
use crate::trigger::message::{Alarm, By, Order, Report};
use crate::trigger::watch::{Aim, Watched};
use groundstate_units::machine::action::Note;
use groundstate_units::machine::event::{Event, RunId, Stage};
use groundstate_units::machine::reason::State;
use groundstate_units::text::name::Name;
use groundstate_units::trigger::Timer;
use groundstate_units::trigger::flood::Flood;
use groundstate_units::trigger::timer::{Due, History, micros};

impl Init {
    pub(crate) fn keep_timer(&mut self, unit: &Name, run: RunId, mut timer: Timer) {
        if self.mode == Mode::Container {
            // `timer-boot` counts from the start of init. The machine was booted long before that.
            timer.startup.append(&mut timer.boot);
        }
        let machine = &self.machine;
        let trigger = machine.generation().find_unit(unit.as_str());
        let activated = trigger.and_then(|trigger| machine.activates(trigger));
        let up = activated.filter(|unit| machine.is_up(*unit));
        let history = History {
            startup: self.basics.booted,
            active: self.now,
            active_wall: micros(clock::wall()),
            unit_active: up.map(|unit| machine.since(unit)),
            ..History::default()
        };
        self.begin_watching(run, unit, Aim::Timer(Box::new(timer), Box::new(history)));
    }

    pub(crate) fn begin_watching(&mut self, run: RunId, unit: &Name, aim: Aim) {
        let (unit, flood, due) = (unit.clone(), Flood::default(), Due::default());
        let watched = Watched { unit, aim, flood, due, apart: None, asked: None };
        let post = watched.post();
        self.triggers.watched.insert(run, watched);
        self.hand_to_lookout(run, post);
    }

    fn hand_to_lookout(&mut self, run: RunId, post: Post) {
        if !self.triggers.lookout(post).has_process() {
            // This sends all orders of the lookout, including this one.
            return self.start_lookout(post);
        }
        self.send_order_for(run);
    }

    /// Moves a run to a lookout of its own, because the common lookout has dropped it.
    fn watch_apart(&mut self, run: RunId) {
        let free = self.triggers.free_apart();
        let Some(watched) = self.triggers.watched.get_mut(&run) else { return };
        if watched.apart.is_some() {
            return;
        }
        let Some(post) = free else {
            let Aim::Paths(watch, _) = &watched.aim else { return };
            let path = watch.looks.first().map(|(_, path)| path.clone()).unwrap_or_default();
            self.stop_watching(run);
            return self.start_failed(run, Stage::Listen, libc::EBUSY, path);
        };
        watched.apart = Some(post);
        if self.triggers.watched_at(Post::Paths).is_empty() {
            self.triggers.dismiss(Post::Paths);
        }
        self.hand_to_lookout(run, post);
    }

    pub(crate) fn start_lookout(&mut self, post: Post) {
        let (now, token) = (self.now, self.tokens.next().0);
        match self.triggers.start(post, now) {
            Ok(socket) => {
                if token::watch_both(self.poll.registry(), socket, token).is_err() {
                    // Without a watch, init would never read its reports.
                    self.triggers.lookout(post).give_up();
                }
                let all = &mut self.triggers.by_token;
                all.retain(|_, subject| !matches!(subject, Subject::Lookout(of) if *of == post));
                all.insert(token, Subject::Lookout(post));
            }
            Err(error) => {
                return self.say(
                    Level::Error,
                    format_args!("cannot start the lookout of timers or paths: {error}"),
                );
            }
        }
        for run in self.triggers.watched_at(post) {
            self.send_order_for(run);
        }
    }

    /// Sends the complete order for one run to its lookout.
    fn send_order_for(&mut self, run: RunId) {
        let seed = self.triggers.seed;
        let state_dir = self.paths.state_dir(&self.machine.generation().settings);
        let Some(watched) = self.triggers.watched.get_mut(&run) else { return };
        let (post, unit) = (watched.post(), watched.unit.clone());
        let order = match &mut watched.aim {
            Aim::Timer(timer, history) => {
                let stamp = timer.persistent.then(|| format!("{state_dir}/timers/{unit}"));
                let (timer, history) = ((**timer).clone(), (**history).clone());
                Order::Keep(run, Box::new(Alarm { unit, timer, history, stamp, seed }))
            }
            Aim::Paths(watch, looking) => {
                *looking = false;
                Order::Watch(run, watch.clone())
            }
        };
        self.triggers.unsettled = true;
        self.send_order(post, run, &order);
    }

    /// Sends an order. If it cannot be sent, the run fails, because the lookout would not watch it.
    fn send_order(&mut self, post: Post, run: RunId, order: &Order) {
        let by = match order {
            Order::Watch(_, _) => Some(By::Watch),
            Order::Look(_, since) => Some(By::Look(*since)),
            Order::Rest(_) => Some(By::Rest),
            Order::Keep(_, _) | Order::Past(_, _) | Order::End(_) => None,
        };
        let by = by.filter(|_| self.triggers.lookout(post).has_process());
        if let (Some(by), Some(watched)) = (by, self.triggers.watched.get_mut(&run)) {
            watched.note_order(by, self.now);
        }
        if self.triggers.lookout(post).order(order).is_ok() {
            return;
        }
        let Some(unit) = self.triggers.watched.get(&run).map(|one| one.unit.to_string()) else {
            return;
        };
        self.stop_watching(run);
        self.start_failed(run, Stage::Listen, libc::E2BIG, unit);
    }

    /// Stops watching for a run. Returns false if no lookout serves it.
    pub(crate) fn stop_watching(&mut self, run: RunId) -> bool {
        if !self.triggers.watched.contains_key(&run) {
            return false;
        }
        let Some(watched) = self.triggers.watched.remove(&run) else { return false };
        let post = watched.post();
        if self.triggers.watched_at(post).is_empty() {
            self.triggers.dismiss(post);
        } else {
            self.send_order(post, run, &Order::End(run));
        }
        true
    }

    /// Reads up to `most` reports of a lookout.
    pub(crate) fn read_reports(&mut self, post: Post, most: usize) {
        for _ in 0..most {
            let lookout = self.triggers.lookouts.get_mut(&post);
            let Some(report) = lookout.and_then(Lookout::hear) else { return };
            self.handle_report(report);
        }
        self.triggers.unheard.insert(post);
    }

    fn handle_report(&mut self, report: Report) {
        let now = self.now;
        match report {
            Report::Elapsed(run, at, wall) => {
                let Some(watched) = self.triggers.watched.get_mut(&run) else { return };
                let Aim::Timer(_, history) = &mut watched.aim else { return };
                // The lookout repeats a firing when it cannot know whether init has handled it.
                if history.fired >= Some(at) {
                    return;
                }
                (history.fired, history.fired_wall) = (Some(at), Some(wall));
                self.fire(run);
            }
            Report::Fired(run) => {
                let Some(watched) = self.triggers.watched.get_mut(&run) else { return };
                let Aim::Paths(_, looking) = &mut watched.aim else { return };
                *looking = false;
                if watched.flood.fired(now) {
                    let (unit, rest) = (watched.unit.clone(), watched.flood.rest());
                    let why = "fires too often: the activated unit leaves the reason in place";
                    self.say_flooded(&unit, &format!("{why}; pausing"), rest);
                }
                self.fire(run);
            }
            Report::Due(run, due, fired) => {
                let Some(watched) = self.triggers.watched.get_mut(&run) else { return };
                watched.due = due;
                if let Aim::Timer(_, history) = &mut watched.aim {
                    history.fired_wall = fired;
                }
            }
            Report::Looked(run, by) => {
                if let Some(watched) = self.triggers.watched.get_mut(&run) {
                    watched.asked.take_if(|asked| asked.by == by);
                }
            }
            Report::MayBlock(run) => self.watch_apart(run),
            Report::Broken(run, what, errno) => {
                if self.triggers.watched.contains_key(&run) {
                    self.stop_watching(run);
                    self.start_failed(run, Stage::Listen, errno, what);
                }
            }
        }
    }

    /// A timer or path unit fires: the machine starts the unit that it activates.
    fn fire(&mut self, run: RunId) {
        let Some(watched) = self.triggers.watched.get(&run) else { return };
        self.pending.facts.push_back(Event::Fire(watched.unit.clone()));
        self.triggers.unsettled = true;
    }

    /// Handles a reaped child. Returns false if it was not a lookout.
    pub(crate) fn lookout_ended(&mut self, pid: Pid) -> bool {
        if self.triggers.leaving.contains_key(&pid.as_raw()) {
            self.triggers.leaving.remove(&pid.as_raw());
            return true;
        }
        let mut all = self.triggers.lookouts.iter();
        let found = all.find(|(_, lookout)| lookout.pid() == Some(pid)).map(|(post, _)| *post);
        let Some(post) = found else { return false };
        // At most one socket buffer of reports is left.
        self.read_reports(post, usize::MAX);
        // A report may have ended its last unit, which dismissed the lookout.
        self.triggers.leaving.remove(&pid.as_raw());
        let lookout = self.triggers.lookouts.get_mut(&post);
        if let Some(lookout) = lookout.filter(|lookout| lookout.pid() == Some(pid)) {
            lookout.ended(self.now);
        }
        true
    }

    /// Lets the lookout watch paths only while a firing would start a unit.
    pub(crate) fn update_path_watches(&mut self) {
        let now = self.now;
        let all: Vec<RunId> = self.triggers.watched.keys().copied().collect();
        for run in all {
            let Some(watched) = self.triggers.watched.get(&run) else { continue };
            let post = watched.post();
            let Aim::Paths(_, looking) = watched.aim else { continue };
            let unit = self.machine.generation().find_unit(watched.unit.as_str());
            let awaited = unit.is_some_and(|unit| self.machine.awaits(unit));
            let activated = unit.and_then(|unit| self.machine.activates(unit));
            let since = activated.map_or(now, |unit| self.machine.since(unit));
            let rests_until = watched.flood.rests_until(now).filter(|_| awaited);
            let look = awaited && rests_until.is_none();
            if looking != look {
                if let Some(watched) = self.triggers.watched.get_mut(&run)
                    && let Aim::Paths(_, looking) = &mut watched.aim
                {
                    *looking = look;
                }
                let order = if look { Order::Look(run, since) } else { Order::Rest(run) };
                self.send_order(post, run, &order);
            }
            if let Some(until) = rests_until {
                self.triggers_rest(until);
            }
        }
    }

    /// Updates timers that count from a change of their unit's state.
    pub(crate) fn timers_noted(&mut self, note: &Note) {
        let (was, is) = (is_up(note.from), is_up(note.to));
        if was == is || self.triggers.watched.is_empty() {
            return;
        }
        let machine = &self.machine;
        let generation = machine.generation();
        let Some(unit) = generation.find_unit(note.unit.as_str()) else { return };
        let mut orders = Vec::new();
        for (run, watched) in &mut self.triggers.watched {
            let Aim::Timer(timer, history) = &mut watched.aim else { continue };
            let counts = !timer.unit_active.is_empty() || !timer.unit_inactive.is_empty();
            let trigger = generation.find_unit(watched.unit.as_str());
            let activated = trigger.and_then(|trigger| machine.activates(trigger));
            if !counts || activated != Some(unit) {
                continue;
            }
            if is {
                (history.unit_active, history.unit_inactive) = (Some(self.now), None);
            } else {
                history.unit_inactive = Some(self.now);
            }
            orders.push((*run, Order::Past(*run, (**history).clone())));
        }
        for (run, order) in orders {
            self.send_order(Post::Clock, run, &order);
        }
    }
}

fn is_up(state: State) -> bool {
    state.is_active() || matches!(state, State::Starting | State::Stopping)
}

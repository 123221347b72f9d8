//! Starts, stops and shows trigger units.

use crate::base::{self, Level};
use crate::event_loop::Init;
use crate::sys::Pid;
use crate::trigger::Subject;
use crate::trigger::lookout::{Lookout, Post};
use crate::trigger::socket::Opening;
use crate::trigger::watch::{Aim, paths};
use groundstate_units::control::answer::{
    Accepts, SCHEMA, SocketStatus, Sockets, TimerStatus, Timers,
};
use groundstate_units::control::view::Facts;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::limit;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::spec::{DependencyKind, Kind};
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::trigger::Trigger;
use groundstate_units::trigger::timer::Due;
use groundstate_units::unit::generation::{Dependency, Unit, UnitId};
use std::collections::BTreeMap;

impl Init {
    /// Starts a trigger unit.
    pub(crate) fn start_trigger(&mut self, unit: &Unit, run: RunId) {
        match Trigger::decode(&unit.run) {
            Some(Trigger::Socket(socket)) => self.open_sockets(&unit.name, run, *socket),
            Some(Trigger::Timer(timer)) => self.keep_timer(&unit.name, run, timer),
            Some(Trigger::Path(watch)) => {
                self.begin_watching(run, &unit.name, Aim::Paths(watch, false))
            }
            // A unit that was not made from unit files: it is ready at once.
            None if unit.kind == Kind::Socket => self.pending.facts.push_back(Event::Ready(run)),
            None => {}
        }
        self.triggers.unsettled = true;
    }

    /// Stops a trigger unit. Returns false if the run belongs to no trigger.
    pub(crate) fn stop_trigger(&mut self, run: RunId, nothing_left: bool) -> bool {
        if self.stop_opening(run) {
            return true;
        }
        if self.triggers.listening.contains_key(&run)
            && let Some(listening) = self.triggers.listening.remove(&run)
        {
            self.close_sockets(listening);
            if !nothing_left {
                self.pending.facts.push_back(Event::Gone(run));
            }
            return true;
        }
        self.stop_watching(run)
    }

    /// Kills the child that is still opening the sockets. Returns false if there is none.
    pub(crate) fn stop_opening(&mut self, run: RunId) -> bool {
        let is_opening = self.triggers.is_opening(run);
        if is_opening {
            self.triggers.opener(run).into_iter().for_each(Opening::give_up);
        }
        is_opening
    }

    /// Handles a token that the poll reports as ready.
    pub(crate) fn trigger_ready(&mut self, token: usize) {
        match self.triggers.by_token.get(&token).copied() {
            Some(Subject::Opening(run)) => self.sockets_opened(run),
            Some(Subject::Listening(run)) => self.socket_fired(run),
            Some(Subject::Lookout(post)) => {
                if let Some(lookout) = self.triggers.lookouts.get_mut(&post) {
                    lookout.flush();
                }
                self.read_reports(post, base::limit::REPORTS_A_TURN);
            }
            None => {}
        }
    }

    /// Handles a reaped child. Returns false if it belonged to no trigger.
    pub(crate) fn trigger_child_ended(&mut self, pid: Pid) -> bool {
        let opening = self.triggers.opening.iter().find(|(_, opening)| opening.pid == pid);
        let Some(run) = opening.map(|(run, _)| *run) else {
            return self.triggers.flush_ended(pid) || self.lookout_ended(pid);
        };
        self.opener_ended(run);
        true
    }

    /// Handles all deadlines of triggers.
    pub(crate) fn triggers_due(&mut self) {
        let now = self.now;
        if self.triggers.rested_at.is_some_and(|at| at <= now) {
            self.triggers.rested_at = None;
            self.triggers.unsettled = true;
        }
        if self.triggers.has_more() {
            for post in std::mem::take(&mut self.triggers.unheard) {
                self.read_reports(post, base::limit::REPORTS_A_TURN);
            }
        }
        if self.triggers.silent_at().is_some_and(|at| at <= now) {
            for (unit, paths) in self.triggers.newly_silent(now) {
                let text = "its network or FUSE server may be down";
                self.say(Level::Warning, format_args!("{unit}: {paths} does not answer: {text}"));
            }
        }
        let is_due = |lookout: &Lookout| lookout.start_at.is_some_and(|at| at <= now);
        let all = self.triggers.lookouts.iter().filter(|(_, lookout)| is_due(lookout));
        let due: Vec<Post> = all.map(|(post, _)| *post).collect();
        due.into_iter().for_each(|post| self.start_lookout(post));
    }
}

fn wall(micros: i64) -> String {
    WallTime::from_millis(u64::try_from(micros / 1_000).unwrap_or(0)).to_string()
}

/// The next firing on the wall clock: the earlier of the two deadlines.
fn next(due: Due, facts: &Facts) -> Option<String> {
    let texts = [due.wall.map(wall), due.mono.map(|at| facts.wall_of(at))];
    texts.into_iter().flatten().min()
}

impl Init {
    fn triggers_of(&self, kind: Kind) -> impl Iterator<Item = (UnitId, &Unit)> {
        let generation = self.machine.generation();
        let units = generation.unit_ids().zip(&generation.units);
        units.filter(move |(_, unit)| unit.kind == kind)
    }

    fn target_of(&self, unit: &Unit) -> Option<String> {
        let accepts = |edge: &&Dependency| edge.kind == DependencyKind::Accepts;
        if let Some(place) = unit.dependencies.iter().find(accepts) {
            let target = self.machine.generation().target(place.target)?;
            return Some(UnitName::of(target.name.as_str()).template()?.to_string());
        }
        Some(self.machine.generation().target(unit.activates?)?.name.to_string())
    }

    pub(crate) fn show_timers(&self) -> Timers {
        let facts = self.view_facts();
        let timer = |(id, unit): (UnitId, &Unit)| {
            let run = self.machine.run(id);
            let watched = run.and_then(|run| self.triggers.watched.get(&run));
            let last = watched.and_then(|watched| match &watched.aim {
                Aim::Timer(_, history) => history.fired_wall.map(wall),
                Aim::Paths(_, _) => None,
            });
            TimerStatus {
                unit: unit.name.to_string(),
                state: self.machine.state(id),
                next: watched.and_then(|watched| next(watched.due, &facts)),
                last,
                activates: self.target_of(unit),
            }
        };
        let timers = self.triggers_of(Kind::Timer).map(timer).collect();
        Timers { schema: SCHEMA, now: facts.wall_of(facts.now), timers }
    }

    pub(crate) fn show_sockets(&self) -> Sockets {
        let facts = self.view_facts();
        let socket = |(id, unit): (UnitId, &Unit)| {
            let mut most = None;
            let listen = match Trigger::decode(&unit.run) {
                Some(Trigger::Socket(socket)) => {
                    most = socket
                        .accept
                        .then_some(socket.max_connections.min(limit::CONNECTION_INSTANCES));
                    socket.listen.iter().map(|one| format!("{} {one}", one.sort.as_str())).collect()
                }
                Some(Trigger::Timer(_) | Trigger::Path(_)) | None => Vec::new(),
            };
            let listening = self.machine.run(id).and_then(|run| self.triggers.listening.get(&run));
            SocketStatus {
                unit: unit.name.to_string(),
                state: self.machine.state(id),
                listen,
                waits: listening.is_some_and(|listening| listening.is_polled()),
                rests_until: listening
                    .and_then(|listening| listening.paused_until(facts.now))
                    .map(|until| facts.wall_of(until)),
                activates: self.target_of(unit),
                accepts: most.map(|most| match listening {
                    Some(listening) => {
                        self.triggers.show_accepts(&listening.unit, &listening.counts, most)
                    }
                    None => Accepts { most, ..Accepts::default() },
                }),
            }
        };
        Sockets { schema: SCHEMA, sockets: self.triggers_of(Kind::Socket).map(socket).collect() }
    }

    /// Returns, for each active trigger, the event that it waits for, in words.
    pub(crate) fn trigger_words(&self, facts: &Facts) -> BTreeMap<RunId, String> {
        let mut words = BTreeMap::new();
        for (run, listening) in &self.triggers.listening {
            words.insert(*run, listening.words(self.now, |at| facts.wall_of(at)));
        }
        for (place, peer) in self.triggers.peers() {
            let unit = self.machine.generation().find_unit(place.as_str());
            if let Some(run) = unit.and_then(|unit| self.machine.run(unit)) {
                words.insert(run, format!("serving {peer}"));
            }
        }
        for (run, watched) in &self.triggers.watched {
            let said = match &watched.aim {
                Aim::Timer(_, _) => match next(watched.due, facts) {
                    Some(at) => format!("next at {at}"),
                    None => "does not fire again".to_string(),
                },
                Aim::Paths(watch, _) => {
                    let paths = paths(watch);
                    let asked = watched.asked.filter(|asked| asked.is_said);
                    match (asked, watched.flood.rests_until(self.now)) {
                        (Some(asked), _) => {
                            let since = facts.wall_of(asked.at);
                            format!("watching {paths}, no answer since {since}")
                        }
                        (None, Some(until)) => {
                            let until = facts.wall_of(until);
                            format!("paused until {until}, watching {paths}")
                        }
                        (None, None) => format!("watching {paths}"),
                    }
                }
            };
            words.insert(*run, said);
        }
        words
    }
}

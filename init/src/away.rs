//! What an init whose state was lost has found ([`crate::found`]) and no unit has taken with the boot: its
//! file was away just then or could not be used, or nobody's wish had made the instance. It is kept for as
//! long as anything of it lives, over crashes and upgrades too, and each generation is asked whose it is
//! before it is taken: nothing is begun beside itself.

use crate::cgroup::{Left, is_cut, short};
use crate::clock;
use crate::event_loop::Init;
use crate::found::{Alive, Daemon, Found, Living, is_of};
use crate::journal::notes::{self, Begun};
use crate::journal::standing::{self, Standing, Standings};
use crate::pipes::{Ends, Pipes};
use crate::process;
use crate::sys::{Pid, wait};
use crate::trigger::door::Doors;
use groundstate_units::generation::{Generation, Unit};
use groundstate_units::machine::event::RunId;
use groundstate_units::name::Name;
use groundstate_units::spec::Exit;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What of it goes along with the state.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Away {
    units: BTreeMap<Name, Living>,
    cgroups: Vec<Left>,
    standings: Standings,
    begun: BTreeMap<i32, Begun>,
    done: BTreeMap<u64, (RunId, Exit)>,
    ready: BTreeSet<i32>,
}

/// What tells them, in a note.
fn hashes(units: &[Unit]) -> BTreeSet<u64> {
    units.iter().map(|unit| notes::unit(unit.name.as_str())).collect()
}

impl Found {
    /// The boot is over, and with it all that was found, but for what could not begin.
    pub(crate) fn is_met(&mut self, units: &[Unit], now: u64) {
        let (cgroups, standings) = self.nameless(units);
        let hashes = hashes(units);
        let found = std::mem::take(self);
        (self.units, self.cgroups, self.pipes) = (found.units, cgroups, found.pipes);
        (self.doors, self.marked) = (found.doors, found.marked);
        let mut remains = found.remains;
        if !standings.is_whole {
            let waits = |unit: u64| {
                let mut names = self.units.keys();
                !hashes.contains(&unit) || names.any(|name| notes::unit(name.as_str()) == unit)
            };
            remains.alive.retain(|_, begun| waits(begun.unit));
            self.remains.alive = remains.alive;
        }
        remains.done.retain(|unit, _| !hashes.contains(unit));
        (self.remains.done, self.remains.standings) = (remains.done, standings);
        let of_units = self.units.values_mut().filter_map(|living| living.standing.as_mut());
        let all = of_units.chain(self.remains.standings.of.values_mut());
        all.for_each(|standing| *standing = standing.seen(now));
    }

    /// What lives of units that are not among these, and of whose names only a part is known.
    fn nameless(&self, units: &[Unit]) -> (Vec<Left>, Standings) {
        let hashes = hashes(units);
        let mut standings = self.remains.standings.clone();
        standings.of.retain(|unit, _| !hashes.contains(unit));
        let all = units.iter().map(|unit| short(unit.name.as_str()));
        let shorts: BTreeSet<String> = all.filter(|short| is_cut(short)).collect();
        let mut cgroups = self.cgroups.clone();
        cgroups.retain(|left| {
            let may_come = is_cut(&left.unit) && !shorts.contains(&left.unit);
            let mut of = standings.of.values();
            may_come && (!standings.is_whole || of.any(|standing| is_of(left, standing)))
        });
        standings.of.retain(|_, standing| {
            let has_cgroup = cgroups.iter().any(|left| is_of(left, standing));
            let has_left = standing.has_left(&self.marked).is_some();
            has_cgroup || has_left || standing.living().next().is_some()
        });
        (cgroups, standings)
    }

    /// There is such.
    pub(crate) fn has_nameless(&self, units: &[Unit]) -> bool {
        let (cgroups, standings) = self.nameless(units);
        let hashes = hashes(units);
        let mut begun = self.remains.alive.values();
        let is_noted = !standings.is_whole && begun.any(|begun| !hashes.contains(&begun.unit));
        is_noted || !cgroups.is_empty() || !standings.of.is_empty()
    }

    /// Of what was begun as that run nothing has to be known any more.
    fn tidy(&mut self) {
        let mut pids: BTreeSet<i32> = self.remains.alive.keys().copied().collect();
        let of_units = self.units.values().filter_map(|living| living.standing.as_ref());
        let all = of_units.chain(self.remains.standings.of.values());
        pids.extend(all.flat_map(Standing::pids));
        self.ready.retain(|pid| pids.contains(pid));
        self.remains.ends.retain(|pid, _| pids.contains(pid));
        let known = self.ready_ends();
        self.pipes.keep_own(&known);
    }

    /// Children of init among what nobody has taken.
    pub(crate) fn children(&self) -> BTreeSet<i32> {
        let of_units = self.units.values().filter_map(|living| living.standing.as_ref());
        let all = of_units.chain(self.remains.standings.of.values());
        let daemons = self.units.values().filter_map(|living| match living.alive {
            Alive::Noted(daemon) => daemon.filter(Daemon::lives).map(|daemon| daemon.pid),
            Alive::In(_) => None,
        });
        let pids = all.flat_map(Standing::living).chain(daemons);
        let begun = self.remains.alive.keys().copied();
        pids.chain(begun).filter(|pid| wait::is_child(Pid::from_raw(*pid))).collect()
    }

    /// Nobody has taken it, and it may be asked for.
    pub(crate) fn away_has(&self, pid: i32) -> bool {
        let of_units = self.units.values().filter_map(|living| living.standing.as_ref());
        let mut all = of_units.chain(self.remains.standings.of.values());
        self.remains.alive.contains_key(&pid) || all.any(|it| it.pids().any(|of| of == pid))
    }

    /// Where those are read that have not begun yet and are to say that they are ready.
    pub(crate) fn ready_ends(&self) -> BTreeSet<u64> {
        let of_units = self.units.values().filter_map(|living| living.standing.as_ref());
        let all = of_units.chain(self.remains.standings.of.values());
        all.filter_map(|standing| standing.ready).collect()
    }

    /// This process has said that it is ready.
    pub(crate) fn heard_ready(&mut self, pid: i32) {
        if self.away_has(pid) {
            self.ready.insert(pid);
        }
    }

    /// There is nothing left of it.
    fn is_empty(&self) -> bool {
        let Found { units, remains, done, cgroups, .. } = self;
        let of_runs = units.is_empty() && cgroups.is_empty() && remains.standings.of.is_empty();
        of_runs && remains.alive.is_empty() && remains.done.is_empty() && done.is_empty()
    }

    /// What goes along with the state; None: nothing has to.
    pub(crate) fn away(&self) -> Option<Away> {
        (!self.is_before_boot() && !self.is_empty()).then(|| Away {
            units: self.units.clone(),
            cgroups: self.cgroups.clone(),
            standings: self.remains.standings.clone(),
            begun: self.remains.alive.clone(),
            done: self.remains.done.clone(),
            ready: self.ready.clone(),
        })
    }

    /// As an image before this one had it.
    pub(crate) fn again(away: Away, ends: Ends, doors: Doors) -> Found {
        let Away { units, cgroups, standings, begun, done, ready } = away;
        let pipes = Pipes::of(ends);
        let mut found = Found { units, cgroups, ready, pipes, doors, ..Found::default() };
        (found.remains.standings, found.remains.alive) = (standings, begun);
        found.remains.done = done;
        found
    }
}

impl Init {
    /// Before a generation is planned with or taken: what is nobody's yet may be of one of its units.
    pub(crate) fn meet_again(&mut self, generation: &Generation) {
        if self.lineage.found.is_before_boot() || self.lineage.found.is_empty() {
            return;
        }
        self.forget_ended();
        let present = self.machine.generation().clone();
        let is_new = |unit: &&Unit| present.find_unit(unit.name.as_str()).is_none();
        let highest = self.machine.highest_run();
        let found = &mut self.lineage.found;
        // Where it is not needed it is as others: begun when it is.
        found.done.clear();
        if !found.remains.done.is_empty() {
            let is_there = hashes(&present.units);
            found.remains.done.retain(|unit, _| !is_there.contains(unit));
        }
        let standings = found.remains.standings.of.values();
        let living = standings.flat_map(Standing::living).collect();
        let units = generation.units.iter().filter(is_new);
        let (highest, there) = found.meet(units, &BTreeMap::new(), &living, highest);
        self.machine.found_alive(highest, there);
    }

    /// What has ended meanwhile is nobody's any more.
    fn forget_ended(&mut self) {
        self.look_at_marks();
        let names: Vec<Name> = self.lineage.found.units.keys().cloned().collect();
        let ended = names.into_iter().filter(|name| self.living_of(name).is_empty());
        for name in ended.collect::<Vec<_>>() {
            self.lineage.found.units.remove(&name);
            standing::stands_no_more(notes::unit(name.as_str()));
        }
        let Init { lineage, tracker, runs, .. } = self;
        let found = &mut lineage.found;
        found.cgroups.retain(|left| !tracker.living_in(&left.name).is_empty());
        let cgroups = &found.cgroups;
        found.remains.standings.of.retain(|unit, standing| {
            let lives = standing.living().next().is_some()
                || standing.has_left(&found.marked).is_some()
                || cgroups.iter().any(|left| is_of(left, standing));
            if !lives {
                standing::stands_no_more(*unit);
            }
            lives
        });
        found.remains.alive.retain(|pid, begun| {
            let of = Pid::from_raw(*pid);
            let is_it = process::stat(of).is_none_or(|stat| begun.may_be(stat.began));
            is_it && wait::is_child(of) && runs.of(*pid).is_none()
        });
        found.tidy();
    }

    /// Writes down how far that is, too, where an image before this one may have written nothing.
    pub(crate) fn stand_away(&self) {
        let found = &self.lineage.found;
        let now = clock::ticks();
        for (unit, standing) in &found.remains.standings.of {
            standing::stands(*unit, &standing.seen(now));
        }
        for (name, living) in &found.units {
            match &living.standing {
                Some(it) => _ = standing::stands(notes::unit(name.as_str()), &it.seen(now)),
                None => standing::are_lost(),
            }
        }
        if !found.remains.standings.is_whole && !found.is_empty() {
            standing::are_lost();
        }
    }
}

//! The rung between going on where it was and giving up: an init that has crashed, and whose state is
//! lost, begins anew, with the unit files as they are now, and takes up what lives. Nothing is
//! ended for its state being lost, and nothing is started beside itself.
//!
//! What lives is told by its cgroup, and where there are none by the notes that are left
//! ([`crate::journal::remains`]); sockets of units by what is written of them or by their addresses
//! ([`crate::trigger::door`]), scripts that are done by what is written of them ([`crate::journal::done`]). With the boot the machine begins all of it
//! at once ([`groundstate_units::machine::there`]), with the numbers it had; the processes are there
//! already ([`crate::takeover`]). After that nothing is left of it all but what has no unit just then
//! ([`crate::rest`]): no state is kept before, so that a crash meanwhile looks again.

use crate::begin::Before;
use crate::boot::{
    Mode,
    limits::{Given, OwnLimits},
};
use crate::cgroup::{Tracker, mark};
use crate::claim;
use crate::clock;
use crate::event_loop::{Init, token};
use crate::foreign;
use crate::found::{Alive, Daemon, Found, Stage, asked_end, asked_haste};
use crate::journal::intent::Meant;
use crate::journal::notes;
use crate::journal::remains::Remains;
use crate::journal::standing::{self, Standing};
use crate::limit;
use crate::lineage::Lineage;
use crate::notify::Notify;
use crate::options::Options;
use crate::paths::Paths;
use crate::pipes::Pipes;
use crate::process;
use crate::run::pid_file::{self, By};
use crate::sys::bell::Bell;
use crate::sys::socket::unix_name;
use crate::sys::{Pid, inherit, notes as writer, wait};
use crate::trigger::again;
use crate::voice::Level;
use groundstate_units::control::place;
use groundstate_units::generation::Generation;
use groundstate_units::machine::event::Intent;
use groundstate_units::name::Name;
use groundstate_units::spec::{Kind, Run};
use mio::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

impl Init {
    /// Begins anew after a crash, beside what lives. `noted`: the notes that are left; `given`: what
    /// init was given of the limits it raised; `why` is why there is no going on. The error is for people.
    pub(crate) fn begin_anew(
        options: Options,
        mode: Mode,
        noted: &[u8],
        crashed: Crashed,
        why: &str,
    ) -> io::Result<Init> {
        let mut remains = Remains::read(noted);
        remains.tell_others();
        let lineage = Lineage::anew(noted, crashed);
        // Who was asked last, and how, is noted before the machine knows.
        let end = asked_end(&remains).or(remains.meant.as_ref().and_then(|it| it.intent.end));
        let haste = end.and(asked_haste(&remains));
        let booted = remains.meant.as_ref().map(|meant| meant.booted);
        let (paths, _) = Paths::find(&options);
        let told = paths.runtime_dir.as_ref().map(|dir| format!("{dir}/notify.sock"));
        let told = told.and_then(|path| inherit::take_socket_at(&path));
        let tracker = Tracker::again();
        if tracker.is_none()
            && let Some(unknown) = remains.unknown()
        {
            // It would be begun beside itself.
            let text = "without cgroups nobody knows whose it is";
            return Err(io::Error::other(format!("{why}; {unknown}, and {text}")));
        }
        let pipes = Pipes::again();
        let own = paths
            .runtime_dir
            .as_deref()
            .map(|dir| [place::control_socket(dir), place::log_socket(dir)]);
        let own = own.unwrap_or_default();
        let sockets = foreign::close_rest_but(|fd| again::may_listen(fd) && !is_bound_to(fd, &own));
        let cgroups = tracker.as_ref().map(Tracker::left).unwrap_or_default();
        let stage = Stage::BeforeBoot;
        let found =
            Found { remains, cgroups, pipes, sockets, end, haste, stage, ..Found::default() };
        if let Some(keeper) = &lineage.keeper {
            // Said when it is armed again, if it can not be.
            let _ = writer::go_on(keeper.notes().as_fd(), &found.remains.past, 0);
            // What is noted from now on is behind the line that was begun last.
            let now = clock::ticks();
            let standings = found.remains.standings.of.iter();
            standings.for_each(|(unit, it)| _ = standing::stands(*unit, &it.seen(now)));
        }
        let rung = found.remains.rung;
        #[cfg(debug_assertions)]
        crate::crash_test::strike_in("each beginning", true);
        let limits = OwnLimits { given: lineage.given.clone() };
        let lineage = Some(Lineage { found, ..lineage });
        let mut init = Init::begin(options, mode, Before { lineage, tracker, limits })?;
        init.booted = booted.map_or(init.booted, |booted| booted.min(init.booted));
        init.history.anew = Some(init.now);
        Bell::ring_again(rung);
        let remains = &init.lineage.found.remains;
        let standing = remains.standings.of.values().flat_map(Standing::pids);
        let begun = standing.chain(remains.alive.keys().copied()).collect();
        init.end_helpers(&begun);
        claim::let_go_on(&init.lineage.found.remains.past.notes);
        if let Some(told) = told {
            init.hear_on(told);
        }
        init.lineage.resumed = Some(init.now);
        init.lineage.steady_at = Some(init.now.after(limit::STEADY_ANEW));
        let text = "init has crashed and begins anew, beside what lives";
        init.say(Level::Error, format_args!("{text}: {why}"));
        Ok(init)
    }

    /// What was sent to the notify socket of before is heard first; where no other could be made, all that
    /// is sent there.
    fn hear_on(&mut self, told: OwnedFd) {
        if let Some(notify) = &mut self.notify {
            return notify.hear_first(told);
        }
        self.notify = Notify::again(self.poll.registry(), Token(token::NOTIFY), told).ok();
    }

    /// Before the first generation is taken: what lives of it keeps its numbers.
    pub(crate) fn meet_found(&mut self, generation: &Generation) {
        if !self.lineage.found.is_before_boot() {
            return;
        }
        self.tell_of_others(generation);
        // What lives no more, and was not seen to end, is not there.
        let is_there = |pid: &i32| wait::is_child(Pid::from_raw(*pid));
        self.lineage.found.remains.alive.retain(|pid, _| is_there(pid));
        let daemons = self.daemons(generation);
        self.look_at_marks();
        let highest = self.machine.highest_run();
        let found = &mut self.lineage.found;
        // Nobody listens to these any more. Closing may wait, and is not for init.
        drop(found.give_sockets(&generation.units));
        let living = found.remains.standings.of.values();
        let living = living.flat_map(Standing::living).collect();
        let (highest, there) = found.meet(generation.units.iter(), &daemons, &living, highest);
        self.machine.found_alive(highest, there);
        if found.has_nameless(&generation.units) {
            self.machine.others_live();
        }
    }

    /// Whose what lives is by the marks it bears, where it has one.
    pub(crate) fn look_at_marks(&mut self) {
        let has_marks = !self.tracker.has_cgroups();
        self.lineage.found.marked = has_marks.then(mark::children).unwrap_or_default();
    }

    fn tell_of_others(&mut self, generation: &Generation) {
        for (pid, hash) in std::mem::take(&mut self.lineage.found.remains.others) {
            let mut units = generation.units.iter();
            let Some(unit) = units.find(|unit| notes::unit(unit.name.as_str()) == hash) else {
                continue;
            };
            let text = "the pid of one that was begun for it: that has ended";
            let text = format_args!("{}: another process has {pid}, {text}", unit.name);
            self.say(Level::Warning, text);
        }
    }

    /// Without cgroups: the daemons that pid files name. Each is one process's, and never that of what
    /// is noted as begun, by whomever, or was made by this image, or has the pid of a daemon that is over.
    fn daemons(&self, generation: &Generation) -> BTreeMap<Name, Daemon> {
        let (mut daemons, mut named) = (BTreeMap::new(), BTreeSet::new());
        if self.tracker.has_cgroups() {
            return daemons;
        }
        let is_one = |unit: &&groundstate_units::generation::Unit| {
            unit.kind == Kind::BackgroundPidfile && unit.fault.is_none()
        };
        for unit in generation.units.iter().filter(is_one) {
            let spec = Run::decode(&unit.run);
            let path = spec.as_ref().and_then(|spec| spec.pid_file.as_deref());
            let Some(pid) = path.and_then(|path| pid_file::of_its_owner(path, By::Init)) else {
                continue;
            };
            let of = Pid::from_raw(pid);
            let remains = &self.lineage.found.remains;
            let is_over = remains.is_over(notes::unit(unit.name.as_str()), pid);
            let is_known = remains.alive.contains_key(&pid) || wait::is_made(of) || is_over;
            let began = process::stat(of).map(|stat| stat.began);
            if let Some(began) = began.filter(|_| !is_known && wait::is_child(of))
                && named.insert(pid)
            {
                daemons.insert(unit.name.clone(), Daemon { pid, began });
            }
        }
        daemons
    }

    /// After it: all is taken up. What is of no unit any more, or of one whose file can not be used or is
    /// away, is left alone.
    pub(crate) fn keep_found(&mut self) {
        if !self.lineage.found.is_before_boot() {
            return;
        }
        self.keep_pipes();
        for left in self.lineage.found.cgroups.clone() {
            let text = "is of no unit now: what lives in it is left alone";
            self.say(Level::Warning, format_args!("{} {text}", left.name));
            self.tracker.leave(&left.name);
        }
        let end = self.lineage.found.end.take();
        let haste = self.lineage.found.haste.take();
        let generation = self.machine.generation().clone();
        self.lineage.found.is_met(&generation.units, clock::ticks());
        for (name, living) in self.lineage.found.units.clone() {
            if let Alive::In(cgroup) = living.alive {
                // Else it would be killed after another crash, for one that was begun in it.
                self.tracker.leave(&cgroup);
            }
            let is_there = generation.find_unit(name.as_str()).is_some();
            let until = if is_there { "is corrected" } else { "is there" };
            let text = "lives, and is left alone until its file";
            self.say(Level::Warning, format_args!("{name} {text} {until}"));
        }
        self.say_doors();
        // Whoever ends next has not left them to init.
        wait::made_before(self.lineage.found.children());
        self.note_all_done();
        if let Some(how) = end {
            self.shut_down(how);
        }
        if let Some(haste) = haste {
            self.hasten(haste);
        }
    }

    /// Writes down what the machine is at. As it goes back to now it was at that before, and before its boot
    /// it is at nothing yet.
    pub(crate) fn note_intent(&mut self) {
        let is_at_it = !writer::are_put_again() && !self.lineage.found.is_before_boot();
        let Some(keeper) = self.lineage.keeper.as_ref().filter(|_| is_at_it) else { return };
        let intent = self.machine.intent();
        // Who asked last says how it ends.
        let end = intent.end.and(self.ending.asked()).or(intent.end);
        let meant = Meant { intent: Intent { end, ..intent }, booted: self.booted };
        // Without it the notes are asked, as far back as they go.
        let (bytes, is_whole) = meant.bytes();
        let _ = keeper.notes().write_all_at(&bytes, notes::INTENT as u64);
        let was_whole = !std::mem::replace(&mut self.lineage.is_meant_in_part, !is_whole);
        if was_whole && !is_whole {
            let text = "there is no room to write down all of the overlay";
            let then = "after a crash over which the state is lost a part of it is forgotten";
            self.say(Level::Warning, format_args!("{text}: {then}"));
        }
    }

    /// Writes down whether the script of this unit is done.
    pub(crate) fn note_done(&self, name: &Name) {
        let unit = self.machine.generation().find_unit(name.as_str());
        let done = unit.and_then(|unit| {
            let kind = self.machine.generation().unit(unit)?.kind;
            let is_script = matches!(kind, Kind::Oneshot | Kind::BackgroundScripted);
            let is_done = is_script || self.machine.is_over(unit);
            Some((self.machine.run(unit)?, self.machine.exit(unit)?)).filter(|_| is_done)
        });
        writer::done(notes::unit(name.as_str()), done);
    }

    /// The same of all, what the machine is at, and whose each socket is.
    pub(crate) fn note_all_done(&mut self) {
        self.note_intent();
        self.note_doors();
        self.machine.generation().units.iter().for_each(|unit| self.note_done(&unit.name));
    }
}

/// How often it has crashed, in all and in a row, and what it was given of the limits it raised.
#[derive(Clone, Debug)]
pub(crate) struct Crashed {
    pub(crate) crashes: u32,
    pub(crate) row: u32,
    pub(crate) given: Vec<Given>,
}

fn is_bound_to(fd: &OwnedFd, paths: &[String]) -> bool {
    let name = unix_name(fd);
    name.is_some_and(|name| paths.iter().any(|path| name.path() == Some(Path::new(path))))
}

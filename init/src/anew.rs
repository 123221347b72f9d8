//! The rung between going on where it was and giving up: an init that has crashed, and whose state is
//! lost, begins anew, with the unit files as they are now, and takes up what lives. Nothing is
//! ended for its state being lost, and nothing is started beside itself.
//!
//! What lives is told by its cgroup, and where there are none by the notes that are left
//! ([`crate::journal::remains`]); sockets of units are told by their addresses, scripts that are done
//! by what is written of them ([`crate::journal::done`]). With the boot the machine begins all of it
//! at once ([`groundstate_units::machine::there`]), with the numbers it had; the processes are there
//! already ([`crate::takeover`]). After that nothing is left of it all: no state is kept before, so
//! that a crash meanwhile looks again.

use crate::begin::Before;
use crate::boot::Mode;
use crate::cgroup::Tracker;
use crate::event_loop::Init;
use crate::foreign;
use crate::foreign::Foreign;
use crate::found::{Found, Stage, asked_end};
use crate::journal::notes;
use crate::journal::remains::Remains;
use crate::limit;
use crate::lineage::Lineage;
use crate::options::Options;
use crate::paths::Paths;
use crate::pipes;
use crate::run::pid_file::{self, By};
use crate::sys::bell::Bell;
use crate::sys::{Pid, inherit, notes as writer, wait};
use crate::trigger::again;
use crate::voice::Level;
use groundstate_units::control::place;
use groundstate_units::generation::Generation;
use groundstate_units::machine::reason::State;
use groundstate_units::name::Name;
use groundstate_units::spec::{Kind, Run};
use groundstate_units::trigger::Trigger;
use nix::sys::socket::{UnixAddr, getsockname};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

impl Init {
    /// Begins anew after a crash, beside what lives. `noted`: the notes that are left; `given`: what
    /// init was given of open files; `why` is why there is no going on. The error is for people.
    pub(crate) fn begin_anew(
        options: Options,
        mode: Mode,
        noted: &[u8],
        crashed: Crashed,
        why: &str,
    ) -> io::Result<Init> {
        let remains = Remains::read(noted);
        let lineage = Lineage::anew(noted, crashed);
        let end = asked_end(&remains);
        let (paths, _) = Paths::find(&options);
        let told = paths.runtime_dir.as_ref().map(|dir| format!("{dir}/notify.sock"));
        let told = told.and_then(|path| inherit::take_socket_at(&path));
        let outputs = pipes::of_services();
        outputs.iter().for_each(|(_, pipe)| inherit::is_new(pipe.as_fd()));
        let tracker = Tracker::again();
        if tracker.is_none()
            && let Some(pid) = remains.stranger()
        {
            // It would be begun beside itself.
            let text = "without cgroups nobody knows whose it is";
            return Err(io::Error::other(format!("{why}; process {pid} lives, and {text}")));
        }
        let own = paths
            .runtime_dir
            .as_deref()
            .map(|dir| [place::control_socket(dir), place::log_socket(dir)]);
        let own = own.unwrap_or_default();
        let sockets = foreign::close_rest_but(|fd| again::may_listen(fd) && !is_bound_to(fd, &own));
        let cgroups = tracker.as_ref().map(Tracker::left).unwrap_or_default();
        let stage = Stage::BeforeBoot;
        let found = Found { remains, cgroups, outputs, sockets, end, stage, ..Found::default() };
        if let Some(keeper) = &lineage.keeper {
            // Said when it is armed again, if it can not be.
            let _ = writer::go_on(keeper.notes().as_fd(), &found.remains.past, 0);
        }
        let rung = found.remains.rung;
        let lineage = Some(Lineage { found, ..lineage });
        let mut init = Init::begin(options, mode, Before { lineage, tracker })?;
        Bell::ring_again(rung);
        if let (Some(notify), Some(told)) = (&mut init.notify, told) {
            notify.hear_first(told);
        }
        init.lineage.resumed = Some(init.now);
        init.lineage.steady_at = Some(init.now.after(limit::STEADY_ANEW));
        let text = "init has crashed and begins anew, beside what lives";
        init.say(Level::Error, format_args!("{text}: {why}"));
        Ok(init)
    }

    /// Before the first generation is taken: what lives of it keeps its numbers.
    pub(crate) fn meet_found(&mut self, generation: &Generation) {
        if !self.lineage.found.is_before_boot() {
            return;
        }
        // What lives no more, and was not seen to end, is not there.
        let is_there = |pid: &i32| wait::is_child(Pid::from_raw(*pid));
        self.lineage.found.remains.alive.retain(|pid, _| is_there(pid));
        let daemons = self.daemons(generation);
        let found = &mut self.lineage.found;
        for unit in generation.units.iter().filter(|unit| unit.kind == Kind::Socket) {
            if let Some(Trigger::Socket(socket)) = Trigger::decode(&unit.run)
                && let Some(fds) = again::claim(&socket, &mut found.sockets)
            {
                found.opened.insert(unit.name.clone(), fds);
            }
        }
        // Nobody listens to these any more. Closing may wait, and is not for init.
        drop(Foreign::all(std::mem::take(&mut found.sockets)));
        let (highest, there) = found.meet(generation, &daemons);
        self.machine.found_alive(highest, there);
    }

    /// Without cgroups: the daemons that pid files name. Each is one process's, and never that of what
    /// is noted as begun, by whomever, or was made by this image.
    fn daemons(&self, generation: &Generation) -> BTreeMap<Name, i32> {
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
            let is_known = self.lineage.found.remains.alive.contains_key(&pid) || wait::is_made(of);
            if !is_known && wait::is_child(of) && named.insert(pid) {
                daemons.insert(unit.name.clone(), pid);
            }
        }
        daemons
    }

    /// After it: all is taken up. What is of no unit any more, or of one whose file can not be used, is
    /// left alone.
    pub(crate) fn keep_found(&mut self) {
        if !self.lineage.found.is_before_boot() {
            return;
        }
        for left in std::mem::take(&mut self.lineage.found.cgroups) {
            let text = "is of no unit now: what lives in it is left alone";
            self.say(Level::Warning, format_args!("{} {text}", left.name));
            self.tracker.leave(&left.name);
        }
        let end = self.lineage.found.end.take();
        self.lineage.found.is_met();
        let left: Vec<Name> = self.lineage.found.units.keys().cloned().collect();
        for name in left {
            let text = "lives, and is left alone until its file is corrected";
            self.say(Level::Warning, format_args!("{name} {text}"));
        }
        self.note_all_done();
        if let Some(how) = end {
            self.shut_down(how);
        }
    }

    /// Writes down whether the script of this unit is done.
    pub(crate) fn note_done(&self, name: &Name) {
        let unit = self.machine.generation().find_unit(name.as_str());
        let done = unit.and_then(|unit| {
            let kind = self.machine.generation().unit(unit)?.kind;
            let is_script = matches!(kind, Kind::Oneshot | Kind::BackgroundScripted);
            let is_done = is_script && self.machine.state(unit) == State::Exited;
            Some((self.machine.run(unit)?, self.machine.exit(unit)?)).filter(|_| is_done)
        });
        writer::done(notes::unit(name.as_str()), done);
    }

    /// The same of all.
    pub(crate) fn note_all_done(&self) {
        self.machine.generation().units.iter().for_each(|unit| self.note_done(&unit.name));
    }
}

/// How often it has crashed, in all and in a row, and what it was given of open files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crashed {
    pub(crate) crashes: u32,
    pub(crate) row: u32,
    pub(crate) given: Option<(u64, u64)>,
}

fn is_bound_to(fd: &OwnedFd, paths: &[String]) -> bool {
    let name = getsockname::<UnixAddr>(fd.as_raw_fd());
    name.is_ok_and(|name| paths.iter().any(|path| name.path() == Some(Path::new(path))))
}

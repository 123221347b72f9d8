//! Sockets that an image of init before this one had open, given to the units whose they are written to be
//! ([`crate::journal::doors`]) where its state is lost. What is a unit's whose file is away just then, or
//! can not be used, stays open, over crashes and upgrades too, until that is back: who connects waits
//! meanwhile. Another unit that listens to the same gets it. Processes of such units are [`crate::away`]'s.

use super::again::{claim, is_in_the_way};
use crate::event_loop::Init;
use crate::foreign::Foreign;
use crate::found::Found;
use crate::journal::doors::Doors as Written;
use crate::journal::notes;
use crate::sys::impatience::impatiently;
use crate::sys::{inherit, notes as writer};
use crate::voice::Level;
use groundstate_units::generation::Unit;
use groundstate_units::name::Name;
use groundstate_units::spec::Kind;
use groundstate_units::trigger::{Socket, Trigger};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

/// By unit, as a note tells it.
pub(crate) type Doors = BTreeMap<u64, Vec<Foreign>>;

/// The unit of which that is so.
fn known_as(units: &[Unit], unit: u64) -> Option<&Unit> {
    units.iter().find(|one| notes::unit(one.name.as_str()) == unit)
}

impl Found {
    /// Before the first generation: whose each socket is. Gives those that are nobody's.
    pub(crate) fn give_sockets(&mut self, units: &[Unit]) -> Vec<Foreign> {
        let written = self.remains.doors.take();
        let (mut rest, mut known) = (Vec::new(), Doors::new());
        for socket in Foreign::all(std::mem::take(&mut self.sockets)) {
            let number = socket.as_fd().as_raw_fd();
            let whose = written.as_ref().and_then(|it| it.whose(number, inherit::identity(number)));
            let to = whose.map_or(&mut rest, |unit| known.entry(unit).or_default());
            to.push(socket);
        }
        let usable = units.iter().filter(|unit| unit.kind == Kind::Socket && unit.fault.is_none());
        let mut others = Vec::new();
        for unit in usable {
            let Some(Trigger::Socket(socket)) = Trigger::decode(&unit.run) else { continue };
            let own = known.remove(&notes::unit(unit.name.as_str()));
            match own.map(|mut own| (claim(&socket, &mut own), own)) {
                Some((claimed, left)) => {
                    self.opened.extend(claimed.map(|fds| (unit.name.clone(), fds)));
                    // It listens elsewhere now.
                    rest.extend(left);
                }
                None => others.push((unit, socket)),
            }
        }
        for (unit, socket) in others {
            let claimed = match written {
                Some(_) => known.values_mut().find_map(|door| claim(&socket, door)),
                None => claim(&socket, &mut rest),
            };
            self.opened.extend(claimed.map(|fds| (unit.name.clone(), fds)));
        }
        known.retain(|_, door| !door.is_empty());
        let kept = |door: Vec<Foreign>| door.into_iter().map(Foreign::kept).collect();
        self.doors = known.into_iter().map(|(unit, door)| (unit, kept(door))).collect();
        rest
    }

    /// What this unit is to listen to and is open already, its own first. What somebody else has left
    /// and keeps it from being opened is closed.
    pub(super) fn door_of(&mut self, unit: &Name, socket: &Socket) -> Option<Vec<Foreign>> {
        let opened = self.opened.remove(unit);
        if opened.is_some() || self.doors.is_empty() {
            return opened;
        }
        if let Some(mut own) = self.doors.remove(&notes::unit(unit.as_str())) {
            let claimed = claim(socket, &mut own);
            impatiently(|| drop(own));
            if claimed.is_some() {
                return claimed;
            }
        }
        let claimed = self.doors.values_mut().find_map(|door| claim(socket, door));
        if claimed.is_none() {
            let stays = |fd: &Foreign| !is_in_the_way(socket, fd.as_fd());
            impatiently(|| self.doors.values_mut().for_each(|door| door.retain(stays)));
        }
        self.doors.retain(|_, door| !door.is_empty());
        claimed
    }
}

impl Init {
    /// Whose each socket is has become another.
    pub(super) fn doors_change(&mut self) {
        self.triggers.doors_changed = true;
    }

    /// At the end of a turn: that is written down.
    pub(super) fn attend_doors(&mut self) {
        self.tidy_doors();
        if std::mem::take(&mut self.triggers.doors_changed) {
            self.note_doors();
        }
    }

    /// Writes it down. Before the boot what an image before this one has written stands.
    pub(crate) fn note_doors(&self) {
        let is_at_it = !writer::are_put_again() && !self.lineage.found.is_before_boot();
        let Some(keeper) = self.lineage.keeper.as_ref().filter(|_| is_at_it) else { return };
        let mut written = Written::default();
        let listening = self.triggers.listening.values();
        let listening = listening.map(|one| (notes::unit(one.unit.as_str()), &one.fds));
        let away = self.lineage.found.doors.iter().map(|(unit, fds)| (*unit, fds));
        for (unit, fd) in
            listening.chain(away).flat_map(|(unit, fds)| fds.iter().map(move |fd| (unit, fd)))
        {
            let number = fd.as_fd().as_raw_fd();
            written.add(unit, number, inherit::identity(number));
        }
        // Without it they are told by their addresses.
        let _ = keeper.notes().write_all_at(&written.bytes(), notes::DOORS as u64);
    }

    /// After the boot: what is of no unit, or of one that can not be used, is told of.
    pub(crate) fn say_doors(&mut self) {
        let generation = self.machine.generation().clone();
        let doors = self.lineage.found.doors.iter();
        let doors: Vec<(u64, usize)> = doors.map(|(unit, door)| (*unit, door.len())).collect();
        for (unit, count) in doors {
            let unit = known_as(&generation.units, unit);
            let name = unit.map_or("a unit that is not there", |unit| unit.name.as_str());
            let until = if unit.is_some() { "is corrected" } else { "is back" };
            let text = "sockets listen on, and are left alone until its file";
            self.say(Level::Warning, format_args!("{name}: {count} {text} {until}"));
        }
    }

    /// A unit that can be used and is not to listen has nothing open.
    fn tidy_doors(&mut self) {
        let generation = self.machine.generation().clone();
        let found = &mut self.lineage.found;
        let is_done = found.doors_tidied == Some(generation.number);
        if found.doors.is_empty() || is_done || found.is_before_boot() {
            return;
        }
        found.doors_tidied = Some(generation.number);
        let machine = &self.machine;
        let stays = |unit: &u64| {
            known_as(&generation.units, *unit).is_none_or(|unit| {
                let id = generation.find_unit(unit.name.as_str());
                unit.fault.is_some() || id.is_some_and(|id| machine.is_needed(id))
            })
        };
        impatiently(|| found.doors.retain(|unit, _| stays(unit)));
        self.triggers.doors_changed = true;
    }
}

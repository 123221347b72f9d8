//! Descriptors that services hand to init (`fd-store-max`, FDSTORE=1 of sd_notify(3)) and get
//! back when they are started again. None are kept for a unit that does not ask for it, and
//! the table of PID 1 holds no more than a named number of them for all.

use crate::base::limit;
use crate::fd::Foreign;
use crate::sys::no_linger::close_without_linger;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Keep;
use groundstate_units::text::name::Name;
use nix::sys::epoll::Epoll;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// One descriptor.
#[derive(Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) fd: Foreign,
    /// Its number among those that are watched for the other end's going away.
    pub(crate) watched: Option<u64>,
}

/// Those of one unit.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shelf {
    pub(crate) keep: Keep,
    /// Who gave the last one.
    pub(crate) run: RunId,
    pub(crate) kept: Vec<Kept>,
}

/// All of them, by unit.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Store {
    pub(crate) units: BTreeMap<Name, Shelf>,
    /// Tells whose other end is gone, and of nothing else: not of what there is to read, and
    /// not of urgent data, with which anybody at the other end could wake PID 1 at will.
    #[serde(skip)]
    pub(crate) ends: Option<Ends>,
    pub(crate) last: u64,
}

pub(crate) struct Ends {
    pub(crate) epoll: Epoll,
    /// Of the poll.
    pub(crate) token: usize,
}

impl Store {
    fn len(&self) -> usize {
        self.units.values().map(|shelf| shelf.kept.len()).sum()
    }

    /// One more of that name would be too much for the unit, or for all.
    pub(crate) fn is_full(&self, unit: &Name, most: u16, name: &str) -> bool {
        let of_unit = self.units.get(unit).map_or(&[][..], |shelf| &shelf.kept);
        let names: usize = of_unit.iter().map(|kept| kept.name.len() + 1).sum();
        of_unit.len() >= usize::from(most)
            || names + name.len() + 1 > limit::STORED_NAMES
            || self.len() >= limit::STORED
    }
}

impl Store {
    /// What a start of the unit is handed behind its sockets. Where what a run left is kept to its end, the
    /// next run may begin in the very turn in which that has come.
    pub(crate) fn kept_for(&self, unit: &Name, run: RunId) -> Vec<(String, Rc<OwnedFd>)> {
        let is_its = |shelf: &&Shelf| shelf.keep != Keep::No || shelf.run == run;
        let shelf = self.units.get(unit).filter(is_its);
        let kept = shelf.into_iter().flat_map(|shelf| &shelf.kept);
        kept.map(|kept| (kept.name.clone(), kept.fd.share())).collect()
    }

    pub(crate) fn close(&mut self, unit: &Name, which: impl Fn(&Kept) -> bool) {
        if !self.units.contains_key(unit) {
            return;
        }
        let Store { units, ends, .. } = self;
        let (Some(shelf), ends) = (units.get_mut(unit), ends.as_ref()) else { return };
        let stays = |kept: &Kept| {
            let goes = which(kept);
            if let Some(ends) = ends.filter(|_| goes && kept.watched.is_some()) {
                // The service has it open too: closing it here would leave it watched.
                let _ = ends.epoll.delete(&kept.fd);
            }
            !goes
        };
        // How long a socket lingers whoever had it may have changed since it was taken.
        close_without_linger(|| shelf.kept.retain(stays));
        if shelf.kept.is_empty() {
            self.units.remove(unit);
        }
    }
}

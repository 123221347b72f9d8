//! Descriptors that services hand to init (`fd-store-max`, FDSTORE=1 of sd_notify(3)) and get
//! back when they are started again. None are kept for a unit that does not ask for it, and
//! the table of PID 1 holds no more than a named number of them for all.

use crate::base::limit;
use crate::fd::Foreign;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::Keep;
use groundstate_units::text::name::Name;
use nix::sys::epoll::Epoll;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

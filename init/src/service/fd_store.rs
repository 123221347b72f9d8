//! The fd store: descriptors that services pass to init (`fd-store-max`, FDSTORE=1 of sd_notify(3))
//! and get back at their next start. Only units that ask for it can store descriptors; the number
//! is limited for each unit and for all.

use crate::base::limit;
use crate::base::token::{self, Tokens};
use crate::fd::{self, Foreign};
use crate::sys::no_linger::close_without_linger;
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{FdStore, Keep};
use groundstate_units::text::name::Name;
use mio::Registry;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// One stored descriptor.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    name: String,
    fd: Foreign,
    /// Its id in the epoll that reports the end of its peer.
    watched: Option<u64>,
}

/// The stored descriptors of one unit.
#[derive(Serialize, Deserialize)]
struct Shelf {
    #[serde(default)]
    keep: Keep,
    /// The run that stored the last one.
    run: RunId,
    #[serde(default)]
    kept: Vec<Kept>,
}

/// All stored descriptors, by unit.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Store {
    units: BTreeMap<Name, Shelf>,
    /// An epoll that reports only closed peers. It does not report readable or urgent data, with
    /// which a peer could wake PID 1 at will.
    #[serde(skip)]
    ends: Option<Ends>,
    last: u64,
}

struct Ends {
    epoll: Epoll,
    /// The token in the main poll.
    token: usize,
}

impl Store {
    /// Returns true if another descriptor of that name would exceed a limit of the unit or of all.
    fn is_full(&self, unit: &Name, most: u16, name: &str) -> bool {
        let of_unit = self.units.get(unit).map_or(&[][..], |shelf| &shelf.kept);
        let names: usize = of_unit.iter().map(|kept| kept.name.len() + 1).sum();
        of_unit.len() >= usize::from(most)
            || names + name.len() + 1 > limit::STORED_NAMES
            || self.units.values().map(|shelf| shelf.kept.len()).sum::<usize>() >= limit::STORED
    }

    /// The descriptors passed to a start of the unit, after its sockets. Descriptors that are kept
    /// only until their run ends are skipped, because the next run may start in the turn in which
    /// that run ended.
    pub(crate) fn kept_for(&self, unit: &Name, run: RunId) -> Vec<(String, Rc<OwnedFd>)> {
        let is_its = |shelf: &&Shelf| shelf.keep != Keep::No || shelf.run == run;
        let shelf = self.units.get(unit).filter(is_its);
        let kept = shelf.into_iter().flat_map(|shelf| &shelf.kept);
        kept.map(|kept| (kept.name.clone(), kept.fd.share())).collect()
    }

    fn close(&mut self, unit: &Name, which: impl Fn(&Kept) -> bool) {
        let Some(shelf) = self.units.get_mut(unit) else { return };
        let stays = |kept: &Kept| {
            let goes = which(kept);
            if let Some(ends) = self.ends.as_ref().filter(|_| goes && kept.watched.is_some()) {
                // The service may hold a copy, so closing this descriptor would leave it
                // registered.
                let _ = ends.epoll.delete(&kept.fd);
            }
            !goes
        };
        // Another holder may have set SO_LINGER since the descriptor was received.
        close_without_linger(|| shelf.kept.retain(stays));
        if shelf.kept.is_empty() {
            self.units.remove(unit);
        }
    }

    /// Stores these descriptors of a run under this name. With `watch`, init drops them when their
    /// peer is closed. Descriptors over the limits are closed.
    pub(crate) fn keep(
        &mut self,
        unit: &Name,
        run: RunId,
        FdStore { most, keep }: FdStore,
        name: &str,
        passed: Vec<Foreign>,
        mut watch: Option<(&Registry, &mut Tokens)>,
    ) {
        let mut passed = passed.into_iter();
        while let Some(fd) = passed.next() {
            if self.is_full(unit, most, name) {
                return fd::dropped(passed.len().saturating_add(1));
            }
            let watch = watch.as_mut();
            let watched = watch.and_then(|(registry, tokens)| self.watch(&fd, registry, tokens));
            let empty = || Shelf { keep, run, kept: Vec::new() };
            let shelf = self.units.entry(unit.clone()).or_insert_with(empty);
            (shelf.keep, shelf.run) = (keep, run);
            shelf.kept.push(Kept { name: name.to_string(), fd: fd.kept(), watched });
        }
    }

    /// Watches the peer of a descriptor. Returns `None` if it has no peer. Files are not asked,
    /// because a file system in user space (fuse(4)) may never answer.
    fn watch(&mut self, fd: &Foreign, registry: &Registry, tokens: &mut Tokens) -> Option<u64> {
        if !fd.has_other_end() {
            return None;
        }
        if self.ends.is_none() {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?;
            let token = tokens.next().0;
            token::watch(registry, &epoll.0, token).ok()?;
            self.ends = Some(Ends { epoll, token });
        }
        let number = self.last.saturating_add(1);
        self.last = number;
        // epoll reports EPOLLHUP and EPOLLERR always.
        let event = EpollEvent::new(EpollFlags::EPOLLET, number);
        self.ends.as_ref()?.epoll.add(fd, event).is_ok().then_some(number)
    }

    /// Registers the descriptors again, in a new image of init.
    pub(crate) fn rewatch(&mut self, registry: &Registry, tokens: &mut Tokens) {
        let mut units = std::mem::take(&mut self.units);
        for kept in units.values_mut().flat_map(|shelf| &mut shelf.kept) {
            if kept.watched.is_some() {
                kept.watched = self.watch(&kept.fd, registry, tokens);
            }
        }
        self.units = units;
    }

    /// Returns true if this is the token of the epoll.
    pub(crate) fn is_watched_by(&self, token: usize) -> bool {
        self.ends.as_ref().is_some_and(|ends| ends.token == token)
    }

    /// Closes descriptors whose peer is closed.
    pub(crate) fn close_ended(&mut self) {
        // The loop is bounded: each descriptor is reported once.
        for _ in 0..=limit::STORED.div_ceil(limit::ENDS_AT_A_TIME) {
            let Some(ends) = &self.ends else { return };
            let mut found = [EpollEvent::empty(); limit::ENDS_AT_A_TIME];
            let count = ends.epoll.wait(&mut found, EpollTimeout::ZERO).unwrap_or(0);
            if count == 0 {
                return;
            }
            for event in found.iter().take(count) {
                let is_it = |kept: &Kept| kept.watched == Some(event.data());
                let mut all = self.units.iter();
                let found = all.find(|(_, shelf)| shelf.kept.iter().any(is_it));
                if let Some(unit) = found.map(|(unit, _)| unit.clone()) {
                    self.close(&unit, is_it);
                }
            }
        }
    }

    /// Closes the unit's descriptors of this name.
    pub(crate) fn remove(&mut self, unit: &Name, name: &str) {
        self.close(unit, |kept| kept.name == name);
    }

    /// Closes all descriptors of the unit.
    pub(crate) fn forget(&mut self, unit: &Name) {
        self.close(unit, |_| true);
    }

    /// The units whose retention and last storing run fulfil the condition.
    pub(crate) fn units_where(&self, is_it: impl Fn(&Name, Keep, RunId) -> bool) -> Vec<Name> {
        let all = self.units.iter().filter(|(unit, shelf)| is_it(unit, shelf.keep, shelf.run));
        all.map(|(unit, _)| unit.clone()).collect()
    }
}

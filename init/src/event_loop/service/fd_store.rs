//! Takes descriptors that services hand to init, and closes those that have ended.

use crate::base::{limit, token};
use crate::event_loop::Init;
use crate::fd::{self, Foreign};
use crate::notify::message::Statement;
use crate::service::fd_store::{Ends, Kept, Shelf};
use groundstate_units::machine::event::RunId;
use groundstate_units::spec::{FdStore, Keep};
use groundstate_units::text::name::Name;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// What those are called that say no name.
const UNNAMED: &str = "stored";

impl Init {
    /// What a datagram says of the descriptors that came with it. Those that are not kept are
    /// closed.
    pub(crate) fn keep_descriptors(
        &mut self,
        run: RunId,
        said: &[Statement],
        passed: Vec<Foreign>,
    ) {
        let (stores, removes) =
            (said.contains(&Statement::Store), said.contains(&Statement::StoreRemove));
        let Some(unit) = self.runs.get(run).map(|running| running.name.clone()) else { return };
        let name = said.iter().find_map(|statement| match statement {
            Statement::StoreName(name) if !name.is_empty() => Some(name.as_str()),
            Statement::StoreName(_)
            | Statement::Ready
            | Statement::Reloading
            | Statement::Stopping
            | Statement::Status(_)
            | Statement::MainPid(_)
            | Statement::WatchdogPing
            | Statement::WatchdogTrigger
            | Statement::WatchdogEvery(_)
            | Statement::ExtendTimeout(_)
            | Statement::Errno(_)
            | Statement::Store
            | Statement::StoreRemove
            | Statement::StoreUnwatched => None,
        });
        let name = name.unwrap_or(UNNAMED);
        if removes {
            self.runs.store.close(&unit, |kept| kept.name == name);
        } else if stores && !passed.is_empty() {
            let watched = !said.contains(&Statement::StoreUnwatched);
            return self.put_away(&unit, run, name, passed, watched);
        }
        fd::dropped(passed.len());
    }

    fn put_away(
        &mut self,
        unit: &Name,
        run: RunId,
        name: &str,
        passed: Vec<Foreign>,
        watched: bool,
    ) {
        let spec = self.runs.get(run).and_then(|running| running.spec());
        let asked = spec.and_then(|spec| spec.particular.as_ref().map(|all| all.fd_store));
        let FdStore { most, keep } = asked.unwrap_or_default();
        let mut passed = passed.into_iter();
        while let Some(fd) = passed.next() {
            if self.runs.store.is_full(unit, most, name) {
                return fd::dropped(passed.len().saturating_add(1));
            }
            let watched = if watched { self.watch_kept(&fd) } else { None };
            let empty = || Shelf { keep, run, kept: Vec::new() };
            let shelf = self.runs.store.units.entry(unit.clone()).or_insert_with(empty);
            (shelf.keep, shelf.run) = (keep, run);
            shelf.kept.push(Kept { name: name.to_string(), fd: fd.kept(), watched });
        }
    }

    /// None: it is nothing with another end. Others are not even asked: what a file system in
    /// user space (fuse(4)) is asked about one of its files, it may leave unanswered for ever.
    fn watch_kept(&mut self, fd: &Foreign) -> Option<u64> {
        if !fd.has_other_end() {
            return None;
        }
        if self.runs.store.ends.is_none() {
            let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).ok()?;
            let token = self.tokens.next();
            token::watch(self.poll.registry(), &epoll.0, token.0).ok()?;
            self.runs.store.ends = Some(Ends { epoll, token: token.0 });
        }
        let number = self.runs.store.last.saturating_add(1);
        self.runs.store.last = number;
        let ends = self.runs.store.ends.as_ref()?;
        // EPOLLHUP and EPOLLERR are told of without being asked for.
        let event = EpollEvent::new(EpollFlags::EPOLLET, number);
        ends.epoll.add(fd, event).is_ok().then_some(number)
    }

    /// Watches them anew: init has gone on as another image.
    pub(crate) fn rewatch_kept(&mut self) {
        let mut units = std::mem::take(&mut self.runs.store.units);
        for kept in units.values_mut().flat_map(|shelf| &mut shelf.kept) {
            if kept.watched.is_some() {
                kept.watched = self.watch_kept(&kept.fd);
            }
        }
        self.runs.store.units = units;
    }

    /// The poll has something of the ends.
    pub(crate) fn kept_ready(&mut self, token: usize) {
        // Each is told of once, and there are no more than are kept.
        for _ in 0..=limit::STORED.div_ceil(limit::ENDS_AT_A_TIME) {
            let Some(ends) = self.runs.store.ends.as_ref().filter(|ends| ends.token == token)
            else {
                return;
            };
            let mut found = [EpollEvent::empty(); limit::ENDS_AT_A_TIME];
            let count = ends.epoll.wait(&mut found, EpollTimeout::ZERO).unwrap_or(0);
            if count == 0 {
                return;
            }
            for event in found.iter().take(count) {
                self.ended(event.data());
            }
        }
    }

    fn ended(&mut self, number: u64) {
        let is_it = |kept: &Kept| kept.watched == Some(number);
        let mut all = self.runs.store.units.iter();
        if let Some((unit, _)) = all.find(|(_, shelf)| shelf.kept.iter().any(is_it)) {
            let unit = unit.clone();
            self.runs.store.close(&unit, is_it);
        }
    }

    /// The end of a turn: closes what is not to be kept any longer.
    pub(crate) fn tidy_store(&mut self) {
        let (machine, runs) = (&self.machine, &self.runs);
        let is_over = |(unit, shelf): &(&Name, &Shelf)| {
            let Some(id) = machine.generation().find_unit(unit.as_str()) else {
                // It may come back while it is up.
                let run = runs.latest(unit);
                return match shelf.keep {
                    Keep::No => run != Some(shelf.run),
                    Keep::Yes | Keep::Restart => run.is_none(),
                };
            };
            let run = machine.run(id);
            match shelf.keep {
                Keep::Yes => false,
                Keep::No => run != Some(shelf.run),
                Keep::Restart => {
                    run.is_none() && (!machine.is_needed(id) || machine.has_failed_for_good(id))
                }
            }
        };
        let over: Vec<Name> =
            self.runs.store.units.iter().filter(is_over).map(|(unit, _)| unit.clone()).collect();
        for unit in over {
            self.runs.store.close(&unit, |_| true);
        }
    }
}

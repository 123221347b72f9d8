//! The lookout of paths, a process of its own, because it may block on a dead file system and PID 1
//! may not. It watches by inotify(7) and polls where inotify is unavailable. [`super::path_check`]
//! decides what to watch for a path and what an event means.
//!
//! A look at a network file system or FUSE may block and delay every other path unit. The common
//! lookout drops such a unit and tells PID 1, which gives it a lookout of its own.
//!
//! It reports a reason only after the order to look. A state (a path exists) is checked then; a
//! change counts from then on.

use crate::base::{clock, limit, mount_table};
use crate::trigger::message::{By, Link, Order, Report};
use crate::trigger::open;
use crate::trigger::path_check::{Aimed, Role, Seen};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::{Look, Watch};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Runs the process. `may_block` is true for a separate lookout.
pub(super) fn run(socket: &OwnedFd, may_block: bool) -> u8 {
    let link = Link::begin(c"groundstate-eye", socket);
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let inotify = Inotify::init(flags).ok();
    let polling = inotify.is_none();
    let (runs, watches) = (BTreeMap::new(), BTreeMap::new());
    let (looked_at, quiet_at) = (clock::now(), Time::ZERO);
    let watcher = Watcher { link, inotify, polling, looked_at, quiet_at, runs, watches, may_block };
    u8::from(watcher.run().is_err())
}

/// Returns true if a look at one of these paths may block, by the present mount table.
fn may_block(watch: &Watch) -> bool {
    let table = mount_table::table().ok();
    let table = table.filter(|table| mount_table::has_remote_mount_below(table, "/"));
    let Some(table) = table else { return false };
    watch.looks.iter().any(|(_, path)| {
        // A glob is expanded in each directory that it leads into.
        let plain = path.find(['*', '?', '[', '\\']).and_then(|at| path.get(..at));
        let fixed =
            plain.map_or(path.as_str(), |start| start.rsplit_once('/').map_or("/", |p| p.0));
        let fixed = if fixed.is_empty() { "/" } else { fixed };
        (plain.is_some() && mount_table::has_remote_mount_below(&table, fixed))
            || mount_table::open_accessible(&table, fixed, OFlag::O_PATH)
                .is_err_and(|e| e == Errno::EXDEV)
    })
}

/// One path unit.
struct Watching {
    watch: Watch,
    aims: Vec<Aimed>,
    /// The time from which changes count, after the order to look.
    looking: Option<Time>,
}

/// The part of a unit's path that an inotify watch is for.
type Purpose = (RunId, usize, Role);

/// A required watch.
type Wanted = (OsString, AddWatchFlags, Purpose);

struct Watcher<'o> {
    link: Link<'o>,
    inotify: Option<Inotify>,
    /// True if something cannot be watched, so that all paths are polled.
    polling: bool,
    /// The time of the last poll.
    looked_at: Time,
    /// The last time at which no event was unread.
    quiet_at: Time,
    runs: BTreeMap<RunId, Watching>,
    watches: BTreeMap<OsString, (WatchDescriptor, Vec<Purpose>)>,
    /// True for a separate lookout.
    may_block: bool,
}

impl Watcher<'_> {
    /// Runs until PID 1 closes its end, which is an error.
    fn run(mut self) -> io::Result<()> {
        loop {
            while let Some(order) = self.link.hear()? {
                self.obey(order)?;
            }
            self.events()?;
            self.wait()?;
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        // Other events do not postpone the next poll.
        let look_again = self.polling.then(|| self.looked_at.after(limit::LOOK_AGAIN));
        let pause = look_again.map(|at| at.since(clock::now()));
        let timeout = pause.map_or(PollTimeout::NONE, |pause| {
            PollTimeout::try_from(pause.as_millis().saturating_add(1)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.link.socket.as_fd(), PollFlags::POLLIN)];
        if let Some(inotify) = &self.inotify {
            fds.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) if look_again.is_some_and(|at| at <= clock::now()) => {
                self.look_at_all()
            }
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn obey(&mut self, order: Order) -> io::Result<()> {
        match order {
            Order::Watch(run, watch) => {
                self.begin(run, watch)?;
                self.report_look(run, By::Watch)?;
            }
            Order::Look(run, since) => {
                if let Some(watching) = self.runs.get_mut(&run) {
                    watching.looking = Some(since);
                    self.look_at(run)?;
                }
                self.report_look(run, By::Look(since))?;
            }
            Order::Rest(run) => {
                if let Some(watching) = self.runs.get_mut(&run) {
                    watching.looking = None;
                }
                self.report_look(run, By::Rest)?;
            }
            Order::End(run) => {
                self.runs.remove(&run);
                self.forget_watches_of(run);
            }
            Order::Keep(_, _) | Order::Past(_, _) => {}
        }
        Ok(())
    }

    /// Reports that the paths were checked, or again that this lookout has dropped them: PID 1 may
    /// have lost that report in a crash.
    fn report_look(&self, run: RunId, by: By) -> io::Result<()> {
        match self.runs.contains_key(&run) {
            true => self.link.say(&Report::Looked(run, by)),
            false if self.may_block => Ok(()),
            false => self.link.say(&Report::MayBlock(run)),
        }
    }

    /// Checks the paths again and reports a reason, or drops them if that may block.
    fn look_at(&mut self, run: RunId) -> io::Result<()> {
        let Some(watching) = self.runs.get(&run) else { return Ok(()) };
        if !self.may_block && may_block(&watching.watch) {
            self.runs.remove(&run);
            self.forget_watches_of(run);
            return self.link.say(&Report::MayBlock(run));
        }
        self.renew(run);
        self.judge(run)
    }

    fn begin(&mut self, run: RunId, watch: Watch) -> io::Result<()> {
        if !self.may_block && may_block(&watch) {
            return Ok(());
        }
        if watch.make_directory {
            for (look, path) in &watch.looks {
                if matches!(look, Look::Exists | Look::ExistsGlob) {
                    continue;
                }
                if let Err(error) = open::directory(path, Some(watch.directory_mode)) {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    return self.link.say(&Report::Broken(run, path.clone(), errno));
                }
            }
        }
        let looks = watch.looks.iter().cloned();
        let aims = looks.map(|(look, path)| Aimed::new(look, path)).collect();
        self.runs.insert(run, Watching { watch, aims, looking: None });
        self.renew(run);
        Ok(())
    }

    fn forget_watches_of(&mut self, run: RunId) {
        let mut over = Vec::new();
        self.watches.retain(|_, (descriptor, purposes)| {
            purposes.retain(|(of, _, _)| *of != run);
            if purposes.is_empty() {
                over.push(*descriptor);
            }
            !purposes.is_empty()
        });
        over.into_iter().for_each(|descriptor| self.unwatch(descriptor));
    }

    /// Removes a watch. The kernel has one watch for each directory, for all paths.
    fn unwatch(&self, descriptor: WatchDescriptor) {
        let is_needed = self.watches.values().any(|(other, _)| *other == descriptor);
        if let Some(inotify) = self.inotify.as_ref().filter(|_| !is_needed) {
            // If the directory is gone, so is its watch.
            let _ = inotify.rm_watch(descriptor);
        }
    }

    /// Updates the watches of a unit's paths. A change during the update may escape all watches, so
    /// it repeats until nothing changes.
    fn renew(&mut self, run: RunId) {
        for _ in 0..limit::LOOKS_IN_A_ROW {
            let wanted = self.wanted(run);
            self.watch(run, wanted.clone());
            if self.wanted(run) == wanted {
                return;
            }
            self.compare_all_again(run);
        }
        self.polling = true;
    }

    /// Makes the next look compare all paths of a unit.
    fn compare_all_again(&mut self, run: RunId) {
        if let Some(watching) = self.runs.get_mut(&run) {
            let (after, now) = (self.quiet_at, clock::now());
            let all = watching.aims.iter_mut();
            all.for_each(|aimed| aimed.note(Seen::Perhaps, after, now));
        }
    }

    /// The watches that a unit's paths need now.
    fn wanted(&self, run: RunId) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let aims = self.runs.get(&run).map(|watching| watching.aims.as_slice());
        for (index, aimed) in aims.unwrap_or_default().iter().enumerate() {
            for (path, mask, role) in aimed.watches() {
                wanted.push((path, mask, (run, index, role)));
            }
        }
        wanted
    }

    fn watch(&mut self, run: RunId, wanted: Vec<Wanted>) {
        let stale: Vec<OsString> = self.watches.keys().cloned().collect();
        for path in stale {
            let keeps = wanted.iter().any(|(wanted, _, _)| *wanted == path);
            let Some((descriptor, purposes)) = self.watches.get_mut(&path) else { continue };
            purposes.retain(|(of, _, _)| *of != run);
            if purposes.is_empty() && !keeps {
                let descriptor = *descriptor;
                self.watches.remove(&path);
                self.unwatch(descriptor);
            }
        }
        for (path, mask, purpose) in wanted {
            let Some(inotify) = &self.inotify else { return };
            // Several paths may lead to one directory: earlier requests stay.
            let mask = mask | AddWatchFlags::from_bits_retain(libc::IN_MASK_ADD);
            match inotify.add_watch(path.as_os_str(), mask) {
                Ok(descriptor) => {
                    let entry = self.watches.entry(path).or_insert((descriptor, Vec::new()));
                    entry.0 = descriptor;
                    entry.1.push(purpose);
                }
                // Gone again: the watch of its parent reports when it returns.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(_) => self.polling = true,
            }
        }
    }

    /// Reports a reason to PID 1, if the order to look was given.
    fn judge(&mut self, run: RunId) -> io::Result<()> {
        let Some(watching) = self.runs.get_mut(&run) else { return Ok(()) };
        let Some(since) = watching.looking else { return Ok(()) };
        // Every path is checked, because each records its state.
        let reasons =
            watching.aims.iter_mut().filter_map(|aimed| aimed.has_reason(since).then_some(()));
        if reasons.count() == 0 {
            return Ok(());
        }
        watching.looking = None;
        self.link.say(&Report::Fired(run))
    }

    fn events(&mut self) -> io::Result<()> {
        let Some(inotify) = &self.inotify else { return Ok(()) };
        let read_at = clock::now();
        let events = match inotify.read_events() {
            Ok(events) => events,
            Err(Errno::EAGAIN) => {
                self.quiet_at = read_at;
                return Ok(());
            }
            Err(Errno::EINTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (after, now) = (self.quiet_at, clock::now());
        let mut concerned = BTreeMap::new();
        for event in &events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                return self.look_at_all();
            }
            self.note_concerned(event, &mut concerned);
        }
        for (run, changed) in concerned {
            if let Some(watching) = self.runs.get_mut(&run) {
                for index in changed {
                    if let Some(aimed) = watching.aims.get_mut(index) {
                        aimed.note(Seen::Change, after, now);
                    }
                }
            }
            self.look_at(run)?;
        }
        Ok(())
    }

    /// Finds the runs that an event concerns, and which of their paths it changed.
    fn note_concerned(&self, event: &InotifyEvent, concerned: &mut BTreeMap<RunId, Vec<usize>>) {
        let watches = self.watches.values().filter(|(descriptor, _)| *descriptor == event.wd);
        for (run, index, role) in watches.flat_map(|(_, purposes)| purposes) {
            let aimed = self.runs.get(run).and_then(|watching| watching.aims.get(*index));
            let Some(aimed) = aimed else { continue };
            match aimed.means(role, event.mask, event.name.as_deref()) {
                Some(Seen::Change) => concerned.entry(*run).or_default().push(*index),
                Some(Seen::Perhaps) => drop(concerned.entry(*run).or_default()),
                None => {}
            }
        }
    }

    fn look_at_all(&mut self) -> io::Result<()> {
        for run in self.runs.keys().copied().collect::<Vec<_>>() {
            self.compare_all_again(run);
            self.look_at(run)?;
        }
        self.looked_at = clock::now();
        Ok(())
    }
}

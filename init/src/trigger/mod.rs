//! Triggers, as PID 1 sees them: what the machine orders of a `socket`, `timer` or `path`
//! unit, done; what comes of it, told. Whatever may wait for a disk, or opens a network
//! socket, is done by children: one that ends when the sockets of a unit are [`open`], and
//! *lookouts*, which keep clocks and watch paths for as long as there are any. One lookout watches
//! all paths but those at which a look may block; these have lookouts apart.
//!
//! PID 1 holds the listening sockets and polls them while what they activate is down. Which
//! unit a firing brings in, and when it may fire again, is the machine's
//! ([`Machine::awaits`](groundstate_units::machine::Machine::awaits)).

mod clock;
mod connection;
mod listening;
mod message;
mod open;
mod path_check;
mod safe_mkdir_path;
mod show;
mod socket_open;
mod watch;
mod watcher_client;
mod watcher_process;

use crate::base::{limit, token};
use crate::event_loop::Init;
use crate::sys::Pid;
use connection::Connection;
use groundstate_units::machine::event::{Event, ExecFailure, RunId, Stage};
use groundstate_units::spec::Kind;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Trigger;
use groundstate_units::unit::generation::Unit;
use listening::Listening;
use mio::Registry;
use serde::{Deserialize, Serialize};
use socket_open::Opening;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use watch::Watched;
use watcher_process::{Lookout, Post};

/// What a token of the poll stands for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Subject {
    /// The answer of the child that opens a unit's sockets.
    Opening(RunId),
    /// A listening socket.
    Listening(RunId),
    /// A lookout.
    Lookout(Post),
}

/// All of them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Triggers {
    opening: BTreeMap<RunId, Opening>,
    listening: BTreeMap<RunId, Listening>,
    watched: BTreeMap<RunId, Watched>,
    /// Accepted connections, by the unit that serves each.
    connections: BTreeMap<Name, Connection>,
    lookouts: BTreeMap<Post, Lookout>,
    /// Processes of lookouts that are not needed any more and have not ended: one that waits for a
    /// dead file system cannot be killed.
    leaving: BTreeMap<i32, Post>,
    /// Chance, of this life of init.
    seed: u64,
    by_token: BTreeMap<usize, Subject>,
    /// Lookouts that may have more to say than was heard in one turn.
    unheard: BTreeSet<Post>,
    /// Which sockets are to be polled may have changed.
    pub(crate) unsettled: bool,
    /// When the next trigger that fired too often has rested.
    rested_at: Option<Time>,
}

impl Triggers {
    /// None yet.
    pub(crate) fn new() -> Triggers {
        let seed = crate::base::clock::wall().as_nanos() ^ u128::from(std::process::id()) << 64;
        Triggers {
            opening: BTreeMap::new(),
            listening: BTreeMap::new(),
            watched: BTreeMap::new(),
            connections: BTreeMap::new(),
            lookouts: BTreeMap::new(),
            leaving: BTreeMap::new(),
            seed: groundstate_units::unit::assembly::hash(&seed.to_le_bytes()),
            by_token: BTreeMap::new(),
            unheard: BTreeSet::new(),
            unsettled: false,
            rested_at: None,
        }
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let starts = self.lookouts.values().map(|lookout| lookout.start_at);
        [self.rested_at, self.silent_at()].into_iter().chain(starts).flatten().min()
    }

    /// Somebody is to be heard without the poll having to say so.
    pub(crate) fn has_more(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// The lookout; a new one, without a process, if there is none.
    fn lookout(&mut self, post: Post) -> &mut Lookout {
        self.lookouts.entry(post).or_insert_with(|| Lookout::new(post))
    }

    fn start(&mut self, post: Post, now: Time) -> io::Result<BorrowedFd<'_>> {
        let stuck = self.leaving.values().filter(|of| of.is_apart() == post.is_apart()).count();
        self.lookout(post).start(now, stuck)
    }

    /// The lookout apart that is to take one run more: a new one, or with too many the one with the
    /// fewest runs. None: as many as there may be wait for dead file systems and cannot end.
    fn free_apart(&self) -> Option<Post> {
        let all = self.lookouts.keys().filter(|post| post.is_apart());
        let stuck = self.leaving.values().filter(|post| post.is_apart()).count();
        if all.clone().count() + stuck < limit::LOOKOUTS_APART {
            let mut posts = (0..).map(Post::Apart);
            return posts.find(|post| !self.lookouts.contains_key(post));
        }
        all.min_by_key(|post| self.watched_at(**post).len()).copied()
    }

    /// The lookout is not needed any more: it ends when it sees that the other end is closed.
    fn dismiss(&mut self, post: Post) {
        if let Some(pid) = self.lookouts.remove(&post).and_then(|lookout| lookout.pid()) {
            self.leaving.insert(pid.as_raw(), post);
        }
        self.by_token.retain(|_, of| !matches!(of, Subject::Lookout(of) if *of == post));
    }

    fn rests_until(&mut self, until: Time) {
        self.rested_at = Some(self.rested_at.map_or(until, |at| at.min(until)));
    }
}

impl Triggers {
    /// The same descriptors in an init that has gone on as another image.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        self.unsettled = true;
        // Whatever the image before has heard and not committed is said again.
        for watched in self.watched.values_mut() {
            watched.look_again();
        }
        for (token, subject) in &self.by_token {
            let (fd, lookout) = match subject {
                Subject::Opening(run) => (self.opening.get(run).map(Opening::descriptor), None),
                Subject::Listening(run) => {
                    (self.listening.get(run).and_then(|one| one.polled(*token)), None)
                }
                Subject::Lookout(post) => {
                    (None, self.lookouts.get(post).and_then(Lookout::descriptor))
                }
            };
            fd.map_or(Ok(()), |fd| token::watch(registry, fd, *token))?;
            lookout.map_or(Ok(()), |lookout| token::watch_both(registry, lookout, *token))?;
        }
        Ok(())
    }
}

impl Triggers {
    /// All are replaced, by such as see another root.
    pub(crate) fn replace_lookouts(&mut self) {
        self.lookouts.values_mut().for_each(Lookout::give_up);
    }
}

impl Init {
    /// A trigger is to begin.
    pub(crate) fn start_trigger(&mut self, unit: &Unit, run: RunId) {
        match Trigger::decode(&unit.run) {
            Some(Trigger::Socket(socket)) => self.open_sockets(&unit.name, run, *socket),
            Some(Trigger::Timer(timer)) => self.keep_timer(&unit.name, run, timer),
            Some(Trigger::Path(watch)) => self.watch_paths(&unit.name, run, watch),
            // Of a set that was not made from unit files: there is nothing to wait for.
            None if unit.kind == Kind::Socket => self.facts.push_back(Event::Ready(run)),
            None => {}
        }
        self.triggers.unsettled = true;
    }

    /// A trigger is to end. False: this run is no trigger's.
    pub(crate) fn stop_trigger(&mut self, run: RunId, nothing_left: bool) -> bool {
        if let Some(opening) = self.opener(run) {
            opening.give_up();
            return true;
        }
        if let Some(listening) = self.triggers.listening.remove(&run) {
            self.close_sockets(listening);
            if !nothing_left {
                self.facts.push_back(Event::Gone(run));
            }
            return true;
        }
        self.stop_watching(run)
    }

    /// KILL to what is still being opened.
    pub(crate) fn kill_trigger(&mut self, run: RunId) {
        if let Some(opening) = self.opener(run) {
            opening.give_up();
        }
    }

    /// The poll says that this token is ready.
    pub(crate) fn trigger_ready(&mut self, token: usize) {
        match self.triggers.by_token.get(&token).copied() {
            Some(Subject::Opening(run)) => self.sockets_opened(run),
            Some(Subject::Listening(run)) => self.socket_fired(run),
            Some(Subject::Lookout(post)) => self.lookout_ready(post),
            None => {}
        }
    }

    /// A child was reaped. False: it was not one of the triggers'.
    pub(crate) fn trigger_child_ended(&mut self, pid: Pid) -> bool {
        let opening = self.triggers.opening.iter().find(|(_, opening)| opening.pid == pid);
        let Some(run) = opening.map(|(run, _)| *run) else {
            return self.flush_ended(pid) || self.lookout_ended(pid);
        };
        self.opener_ended(run);
        true
    }

    /// What is due by now.
    pub(crate) fn triggers_due(&mut self) {
        let now = self.now;
        if self.triggers.rested_at.is_some_and(|at| at <= now) {
            self.triggers.rested_at = None;
            self.triggers.unsettled = true;
        }
        self.hear_lookouts();
        self.say_silent();
        self.lookouts_due();
    }

    fn trigger_failed(&mut self, run: RunId, stage: Stage, errno: i32, path: String) {
        let failure = ExecFailure { stage, errno, path };
        self.facts.push_back(Event::StartFailed(run, failure));
    }
}

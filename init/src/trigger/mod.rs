//! Triggers, as PID 1 sees them: what the machine orders of a `socket`, `timer` or `path`
//! unit, done; what comes of it, told. Whatever may wait for a disk, or opens a network
//! socket, is done by children: one that ends when the sockets of a unit are [`open`], and
//! one *lookout* that keeps clocks and watches paths for as long as there are any.
//!
//! PID 1 holds the listening sockets and polls them while what they activate is down. Which
//! unit a firing brings in, and when it may fire again, is the machine's
//! ([`Machine::awaits`](groundstate_units::machine::Machine::awaits)).

mod clock;
mod connection;
mod file_stamp;
mod isolated_watcher;
mod link;
mod listening;
mod message;
mod open;
mod option;
mod path_check;
mod safe_mkdir_path;
mod show;
mod socket_open;
mod watch;
mod watcher_client;
mod watcher_process;
mod watcher_slots;

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
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use serde::{Deserialize, Serialize};
use socket_open::Opening;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use watch::Watched;
use watcher_process::{Lookout, Post};
use watcher_slots::Places;

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
    clock: Lookout,
    paths: Lookout,
    /// Chance, of this life of init.
    seed: u64,
    by_token: BTreeMap<usize, Subject>,
    /// Lookouts that may have more to say than was heard in one turn.
    unheard: BTreeSet<Post>,
    /// Which sockets are to be polled may have changed.
    pub(crate) unsettled: bool,
    /// When the next trigger that fired too often has rested.
    rested_at: Option<Time>,
    /// Of all lookouts that have not ended, as soon as there is one.
    #[serde(skip)]
    places: Option<Places>,
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
            clock: Lookout::new(Post::Clock),
            paths: Lookout::new(Post::Paths),
            seed: groundstate_units::unit::assembly::hash(&seed.to_le_bytes()),
            by_token: BTreeMap::new(),
            unheard: BTreeSet::new(),
            unsettled: false,
            rested_at: None,
            places: None,
        }
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let starts = Post::ALL.map(|post| self.starts_at(post));
        [self.rested_at, self.silent_at()].into_iter().chain(starts).flatten().min()
    }

    /// When the lookout is to be started.
    fn starts_at(&self, post: Post) -> Option<Time> {
        match post {
            Post::Clock => self.clock.start_at,
            Post::Paths => self.paths.start_at,
        }
    }

    /// Somebody is to be heard without the poll having to say so.
    pub(crate) fn has_more(&self) -> bool {
        !self.unheard.is_empty()
    }

    fn lookout(&mut self, post: Post) -> &mut Lookout {
        match post {
            Post::Clock => &mut self.clock,
            Post::Paths => &mut self.paths,
        }
    }

    fn start(&mut self, post: Post, now: Time) -> io::Result<BorrowedFd<'_>> {
        if self.places.is_none() {
            // Without them it is not known who of before has not ended.
            self.places = Places::new().ok();
        }
        let lookout = match post {
            Post::Clock => &mut self.clock,
            Post::Paths => &mut self.paths,
        };
        lookout.start(now, self.places.as_ref())
    }

    fn rests_until(&mut self, until: Time) {
        self.rested_at = Some(self.rested_at.map_or(until, |at| at.min(until)));
    }
}

impl Triggers {
    /// The same descriptors in an init that has gone on as another image.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        self.unsettled = true;
        for (token, subject) in &self.by_token {
            let (fd, interest) = match subject {
                Subject::Opening(run) => {
                    let opening = self.opening.get(run);
                    (opening.map(Opening::descriptor), Interest::READABLE)
                }
                Subject::Listening(run) => {
                    let listening = self.listening.get(run);
                    (listening.and_then(|one| one.polled(*token)), Interest::READABLE)
                }
                Subject::Lookout(post) => {
                    let lookout = match post {
                        Post::Clock => &self.clock,
                        Post::Paths => &self.paths,
                    };
                    (lookout.descriptor(), Interest::READABLE | Interest::WRITABLE)
                }
            };
            if let Some(fd) = fd {
                registry.register(&mut SourceFd(&fd.as_raw_fd()), Token(*token), interest)?;
            }
        }
        Ok(())
    }
}

impl Triggers {
    /// What the places of lookouts are in.
    pub(crate) fn places(&self) -> Option<RawFd> {
        self.places.as_ref().map(Places::number)
    }

    /// The same, as an image of init before this one had it.
    pub(crate) fn know_places(&mut self, number: Option<RawFd>) {
        self.places = number.and_then(|number| Places::again(number).ok());
    }

    /// Both are replaced, by such as see another root.
    pub(crate) fn replace_lookouts(&mut self) {
        self.clock.give_up();
        self.paths.give_up();
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

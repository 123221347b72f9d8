//! Triggers, as PID 1 sees them: what the machine orders of a `socket`, `timer` or `path`
//! unit, done; what comes of it, told. Whatever may wait for a disk, or opens a network
//! socket, is done by children: one that ends when the sockets of a unit are [`open`], and
//! *lookouts*, which keep clocks and watch paths for as long as there are any. One lookout watches
//! all paths but those at which a look may block; these have lookouts apart.
//!
//! PID 1 holds the listening sockets and polls them while what they activate is down. Which
//! unit a firing brings in, and when it may fire again, is the machine's
//! ([`Machine::awaits`](groundstate_units::machine::Machine::awaits)).

pub(crate) mod clock;
pub(crate) mod connection;
pub(crate) mod listening;
pub(crate) mod message;
pub(crate) mod open;
pub(crate) mod path_check;
pub(crate) mod safe_mkdir_path;
pub(crate) mod socket_open;
pub(crate) mod watch;
pub(crate) mod watcher_client;
pub(crate) mod watcher_process;

use crate::base::{limit, token};
use connection::Connection;
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
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
pub(crate) enum Subject {
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
    #[serde(default)]
    pub(crate) opening: BTreeMap<RunId, Opening>,
    #[serde(default)]
    pub(crate) listening: BTreeMap<RunId, Listening>,
    #[serde(default)]
    pub(crate) watched: BTreeMap<RunId, Watched>,
    /// Accepted connections, by the unit that serves each.
    #[serde(default)]
    pub(crate) connections: BTreeMap<Name, Connection>,
    #[serde(default)]
    pub(crate) lookouts: BTreeMap<Post, Lookout>,
    /// Processes of lookouts that are not needed any more and have not ended: one that waits for a
    /// dead file system cannot be killed.
    #[serde(default)]
    pub(crate) leaving: BTreeMap<i32, Post>,
    /// Chance, of this life of init.
    #[serde(default)]
    pub(crate) seed: u64,
    #[serde(default)]
    pub(crate) by_token: BTreeMap<usize, Subject>,
    /// Lookouts that may have more to say than was heard in one turn.
    #[serde(default)]
    pub(crate) unheard: BTreeSet<Post>,
    /// Which sockets are to be polled may have changed. So it is for the next image.
    #[serde(skip)]
    pub(crate) unsettled: bool,
    /// When the next trigger that fired too often has rested.
    pub(crate) rested_at: Option<Time>,
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
    pub(crate) fn lookout(&mut self, post: Post) -> &mut Lookout {
        self.lookouts.entry(post).or_insert_with(|| Lookout::new(post))
    }

    pub(crate) fn start(&mut self, post: Post, now: Time) -> io::Result<BorrowedFd<'_>> {
        let stuck = self.leaving.values().filter(|of| of.is_apart() == post.is_apart()).count();
        self.lookout(post).start(now, stuck)
    }

    /// The lookout apart that is to take one run more: a new one, or with too many the one with the
    /// fewest runs. None: as many as there may be wait for dead file systems and cannot end.
    pub(crate) fn free_apart(&self) -> Option<Post> {
        let all = self.lookouts.keys().filter(|post| post.is_apart());
        let stuck = self.leaving.values().filter(|post| post.is_apart()).count();
        if all.clone().count() + stuck < limit::LOOKOUTS_APART {
            let mut posts = (0..).map(Post::Apart);
            return posts.find(|post| !self.lookouts.contains_key(post));
        }
        all.min_by_key(|post| self.watched_at(**post).len()).copied()
    }

    /// The lookout is not needed any more: it ends when it sees that the other end is closed.
    pub(crate) fn dismiss(&mut self, post: Post) {
        if let Some(pid) = self.lookouts.remove(&post).and_then(|lookout| lookout.pid()) {
            self.leaving.insert(pid.as_raw(), post);
        }
        self.by_token.retain(|_, of| !matches!(of, Subject::Lookout(of) if *of == post));
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

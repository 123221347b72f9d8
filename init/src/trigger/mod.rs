//! Triggers, as PID 1 sees them: carries out the machine's orders about `socket`, `timer` and
//! `path` units, and reports the outcome. Children do all work that may block on a disk or opens a
//! network socket. One opens the sockets of a unit ([`open`]), and *lookouts* keep clocks and watch
//! paths. One lookout watches all paths, except those where a look may block; these have lookouts
//! of their own.
//!
//! PID 1 holds the listening sockets and polls them while the activated unit is down. The machine
//! decides which unit a firing starts and when a trigger may fire again
//! ([`Machine::awaits`](groundstate_units::machine::Machine::awaits)).

pub(crate) mod clock;
pub(crate) mod lookout;
pub(crate) mod message;
pub(crate) mod open;
pub(crate) mod path_check;
pub(crate) mod path_lookout;
pub(crate) mod socket;
pub(crate) mod watch;

use crate::base::{limit, token};
use crate::trigger::lookout::{Lookout, Post};
use crate::trigger::message::Order;
use crate::trigger::socket::{Connection, Listening, Opening};
use crate::trigger::watch::{Aim, Watched};
use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use mio::Registry;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;

/// The object behind a token of the poll.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Subject {
    /// The answer of the child that opens a unit's sockets.
    Opening(RunId),
    /// A listening socket.
    Listening(RunId),
    /// A lookout.
    Lookout(Post),
}

/// All triggers.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Triggers {
    pub(crate) opening: BTreeMap<RunId, Opening>,
    pub(crate) listening: BTreeMap<RunId, Listening>,
    pub(crate) watched: BTreeMap<RunId, Watched>,
    /// Accepted connections, by the unit that serves each.
    pub(crate) connections: BTreeMap<Name, Connection>,
    pub(crate) lookouts: BTreeMap<Post, Lookout>,
    /// Processes of dismissed lookouts that have not exited: one that waits for a dead file system
    /// cannot be killed.
    pub(crate) leaving: BTreeMap<i32, Post>,
    /// Random seed of this run of init.
    pub(crate) seed: u64,
    pub(crate) by_token: BTreeMap<usize, Subject>,
    /// Lookouts that may have more reports than one turn's share.
    pub(crate) unheard: BTreeSet<Post>,
    /// True if the set of polled sockets may have to change. Always true in a new image.
    #[serde(skip)]
    pub(crate) unsettled: bool,
    /// The end of the next pause of a trigger.
    pub(crate) rested_at: Option<Time>,
}

impl Triggers {
    /// No triggers.
    pub(crate) fn new() -> Triggers {
        let seed = crate::base::clock::wall().as_nanos() ^ u128::from(std::process::id()) << 64;
        let seed = groundstate_units::unit::assembly::hash(&seed.to_le_bytes());
        Triggers { seed, ..Triggers::default() }
    }

    /// The earliest deadline of a trigger.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let starts = self.lookouts.values().map(|lookout| lookout.start_at);
        [self.rested_at, self.silent_at()].into_iter().chain(starts).flatten().min()
    }

    /// Returns true if reports are waiting without a poll event.
    pub(crate) fn has_more(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// The lookout of this kind; created without a process if it does not exist.
    pub(crate) fn lookout(&mut self, post: Post) -> &mut Lookout {
        self.lookouts.entry(post).or_insert_with(|| Lookout::new(post))
    }

    pub(crate) fn start(&mut self, post: Post, now: Time) -> io::Result<BorrowedFd<'_>> {
        let stuck = self.leaving.values().filter(|of| of.is_apart() == post.is_apart()).count();
        self.lookout(post).start(now, stuck)
    }

    /// The separate lookout for one more run: a new one or, at the limit, the one with the fewest
    /// runs. Returns `None` if all are blocked on dead file systems and cannot exit.
    pub(crate) fn free_apart(&self) -> Option<Post> {
        let all = self.lookouts.keys().filter(|post| post.is_apart());
        let stuck = self.leaving.values().filter(|post| post.is_apart()).count();
        if all.clone().count() + stuck < limit::LOOKOUTS_APART {
            let mut posts = (0..).map(Post::Apart);
            return posts.find(|post| !self.lookouts.contains_key(post));
        }
        all.min_by_key(|post| self.watched_at(**post).len()).copied()
    }

    /// Dismisses a lookout: it exits when it sees that its connection is closed.
    pub(crate) fn dismiss(&mut self, post: Post) {
        if let Some(pid) = self.lookouts.remove(&post).and_then(|lookout| lookout.pid()) {
            self.leaving.insert(pid.as_raw(), post);
        }
        self.by_token.retain(|_, of| !matches!(of, Subject::Lookout(of) if *of == post));
    }

    /// Registers the descriptors again, in a new image of init.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        self.unsettled = true;
        // Reports that the previous image did not commit are requested again.
        for watched in self.watched.values_mut() {
            watched.look_again();
        }
        self.ask_for_firings();
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

    /// Lets the lookout of timers repeat a firing that a crashed image read and did not commit.
    fn ask_for_firings(&mut self) {
        let Some(lookout) = self.lookouts.get_mut(&Post::Clock) else { return };
        for (run, watched) in &self.watched {
            if let Aim::Timer(_, history) = &watched.aim {
                // A history is far shorter than a message may be.
                let _ = lookout.order(&Order::Past(*run, (**history).clone()));
            }
        }
    }
}

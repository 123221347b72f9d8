//! The server of the control socket: its connections and their limits. [`crate::event_loop`]
//! carries out the requests; `groundstate_units::control` defines the protocol.

pub(crate) mod client;
#[cfg(test)]
mod tests;

use crate::base::{credentials, limit, token};
use crate::control::client::{Caller, Client};
use crate::output::event_log::{Entry, Said};
use crate::state::carried::KeptFd;
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket::{Peer, accept_stream};
use crate::sys::{shared_memory, socket};
use groundstate_units::control::answer::{Event as Shown, Failure, Line};
use groundstate_units::control::request::Verb;
use groundstate_units::control::view;
use groundstate_units::control::view::Facts;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::unit::settings::Settings;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, Permissions, set_permissions};
use std::io;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// Sent to a client that exceeds the connection limit, before it is closed.
const FULL: &[u8] = br#"{"v":1,"id":0,"error":{"kind":"busy","message":"too many connections to init","hint":"close some, or retry"}}
"#;

/// Serializes the connections that are part of the state.
fn recorded<S: Serializer>(clients: &BTreeMap<usize, Client>, to: S) -> Result<S::Ok, S::Error> {
    let recorded: Vec<_> = clients.iter().filter(|(_, client)| client.is_recorded()).collect();
    to.collect_map(recorded)
}

fn first() -> usize {
    token::CLIENTS
}

/// The listening socket and all connections.
#[derive(Serialize, Deserialize)]
pub(crate) struct Control {
    listener: KeptFd<UnixListener>,
    /// Replaced listening sockets; clients that were connecting to them are still accepted.
    #[serde(skip)]
    former: VecDeque<UnixListener>,
    path: String,
    /// Connections by token.
    #[serde(serialize_with = "recorded")]
    #[serde(default)]
    pub(crate) clients: BTreeMap<usize, Client>,
    #[serde(default = "first")]
    next: usize,
    /// The client other than root that was served last.
    #[serde(skip)]
    pub(crate) served: usize,
    /// True if some followers have not been sent the latest events.
    #[serde(skip)]
    pub(crate) owes_events: bool,
    /// True if the memory of a large backlog has not been returned to the kernel.
    #[serde(skip)]
    much_was_unread: bool,
    /// The most clients since memory was last returned to the kernel.
    #[serde(skip)]
    most_clients: usize,
    /// True if connections may be waiting. Always true in a new image.
    #[serde(skip)]
    ready: bool,
    /// True until accept has reported that no connection waits. A second report clears `ready`.
    #[serde(skip)]
    doubts: bool,
    /// Released when no descriptor is left, so that root can still connect, one client at a time.
    /// Other clients are then rejected instead of being reported by the kernel for ever.
    reserve: Option<KeptFd<File>>,
    #[serde(default, skip_serializing_if = "is_default")]
    rests_until: Option<Time>,
    own_uid: u32,
    /// Connections rejected for lack of room, and idle ones evicted to make room.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) turned_away: u64,
    /// Connections disconnected because they were stuck.
    #[serde(skip)]
    pub(crate) cut_off: u64,
    /// Dropping this value removes the path. False for a value that was only read from another
    /// image's state.
    #[serde(skip)]
    is_ours: bool,
}

impl Control {
    /// Listens at `path`, replacing an existing socket.
    pub(crate) fn listen(
        registry: &Registry,
        path: &str,
        reserve: impl FnOnce() -> Option<File>,
    ) -> io::Result<Control> {
        Ok(Control {
            listener: watched(registry, path)?.into(),
            former: VecDeque::new(),
            path: path.to_string(),
            clients: BTreeMap::new(),
            next: token::CLIENTS,
            served: 0,
            owes_events: false,
            much_was_unread: false,
            most_clients: 0,
            ready: true,
            doubts: true,
            reserve: reserve().map(KeptFd::from),
            rests_until: None,
            own_uid: nix::unistd::geteuid().as_raw(),
            turned_away: 0,
            cut_off: 0,
            is_ours: true,
        })
    }

    /// Registers the sockets again, in a new image of init.
    pub(crate) fn rewatch(&mut self, registry: &Registry, now: Time) -> io::Result<()> {
        (self.ready, self.doubts, self.is_ours) = (true, true, true);
        registry.register(&mut *self.listener, Token(token::CONTROL), Interest::READABLE)?;
        for (number, client) in &mut self.clients {
            (client.readable, client.moved) = (true, now);
            client.watch(registry, Token(*number))?;
        }
        Ok(())
    }

    /// Listens at the same path again, because the socket file may have been removed or replaced.
    /// New clients find only the new socket; clients of the old one are still accepted.
    pub(crate) fn listen_again(&mut self, registry: &Registry) -> io::Result<()> {
        let fresh = watched(registry, &self.path)?;
        self.former.push_back(std::mem::replace(&mut *self.listener, fresh));
        while self.former.len() > limit::FORMER_LISTENERS {
            close_without_linger(|| drop(self.former.pop_front()));
        }
        (self.ready, self.doubts) = (true, true);
        Ok(())
    }

    /// Accepts the next connection, those of former sockets first. A former socket without waiting
    /// clients is closed.
    fn next_connection(&mut self) -> io::Result<UnixStream> {
        while let Some(former) = self.former.front() {
            match accept_stream(former.as_fd()) {
                Ok(stream) => return Ok(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    close_without_linger(|| drop(self.former.pop_front()));
                }
                Err(error) => return Err(error),
            }
        }
        accept_stream(self.listener.as_fd())
    }

    /// Handles a ready token. `gone` means that the client has closed the connection.
    pub(crate) fn ready(&mut self, token: Token, gone: bool) {
        if token.0 == token::CONTROL {
            (self.ready, self.doubts) = (true, true);
        } else if let Some(client) = self.clients.get_mut(&token.0) {
            client.readable = true;
            client.dead |= gone;
        }
    }

    /// Number of connections that clients have closed and init has not.
    pub(crate) fn closed_by_clients(&self) -> usize {
        self.clients.values().filter(|client| client.dead).count()
    }

    /// Returns true if a client can be served without a poll event.
    pub(crate) fn has_more(&self) -> bool {
        let may = |client: &Client| client.has_more() && self.has_room_for_answer(client.caller);
        let listens = self.ready && self.rests_until.is_none();
        listens || self.owes_events || self.clients.values().any(may)
    }

    /// Returns true if no client needs service and none can connect before the next poll event.
    pub(crate) fn is_idle(&self) -> bool {
        self.clients.is_empty() && !self.ready && !self.owes_events && self.rests_until.is_none()
    }

    /// The earliest deadline of a client or of accepting.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let stuck = self
            .clients
            .values()
            .filter(|client| client.is_waited_for())
            .map(|client| client.moved.after(limit::CLIENT_PATIENCE))
            .min();
        [stuck, self.rests_until].into_iter().flatten().min()
    }

    /// Accepts new connections.
    pub(crate) fn accept(&mut self, registry: &Registry, now: Time) {
        if self.rests_until.is_some_and(|until| now < until) {
            return;
        }
        self.rests_until = None;
        for _ in 0..limit::ACCEPTS_A_TURN {
            if !self.ready {
                return;
            }
            match self.next_connection() {
                Ok(stream) => {
                    self.doubts = true;
                    close_without_linger(|| self.admit(registry, stream, now));
                }
                // The poll reports each arrival once, so accept must say twice that none is left.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.ready = std::mem::take(&mut self.doubts);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.shed(registry, now);
                    self.rests_until = Some(now.after(limit::ACCEPT_REST));
                    return;
                }
            }
        }
    }

    /// Handles a lack of descriptors: the reserved one is for root.
    fn shed(&mut self, registry: &Registry, now: Time) {
        if self.reserve.take().is_none() {
            return;
        }
        if let Ok(stream) = self.next_connection()
            && self.caller(&stream).is_ok_and(|caller| caller.trusted)
        {
            close_without_linger(|| self.admit(registry, stream, now));
        } else {
            self.turned_away = self.turned_away.saturating_add(1);
        }
        self.reserve = File::open("/dev/null").ok().map(KeptFd::from);
    }

    fn admit(&mut self, registry: &Registry, mut stream: UnixStream, now: Time) {
        let Ok(caller) = self.caller(&stream) else { return };
        if !self.has_room(caller, now) {
            self.turned_away = self.turned_away.saturating_add(1);
            // Best effort: the connection is closed either way.
            let _ = io::Write::write(&mut stream, FULL);
            return;
        }
        let number = unused(&mut self.next, &self.clients);
        let mut client = Client::new(stream, caller, now);
        if client.watch(registry, Token(number)).is_ok() {
            self.clients.insert(number, client);
        }
    }

    /// Applies the limits: total, per uid, and the slots reserved for root. The client that has
    /// been idle longest is evicted: one of the same uid if that uid is at its limit, else any;
    /// only root evicts root.
    fn has_room(&mut self, caller: Caller, now: Time) -> bool {
        let of_uid = |client: &Client| client.caller.uid == caller.uid;
        if !caller.trusted
            && self.clients.values().filter(|client| of_uid(client)).count()
                >= limit::CLIENTS_OF_A_UID
        {
            return self.evict(now, of_uid);
        }
        let room = if caller.trusted {
            limit::CLIENTS
        } else {
            limit::CLIENTS.saturating_sub(limit::CLIENTS_FOR_ROOT)
        };
        self.clients.len() < room
            || self.evict(now, |client| caller.trusted || !client.caller.trusted)
    }

    fn evict(&mut self, now: Time, whom: impl Fn(&Client) -> bool) -> bool {
        let longest = self
            .clients
            .iter()
            .filter(|(_, client)| client.is_idle() && whom(client))
            .filter(|(_, client)| now.since(client.moved) > limit::CLIENT_PATIENCE)
            .min_by_key(|(_, client)| client.moved)
            .map(|(number, _)| *number);
        let Some(number) = longest else { return false };
        self.turned_away = self.turned_away.saturating_add(1);
        self.clients.remove(&number).is_some()
    }

    /// The caller's rights, decided once at connect: a connection passed to another process keeps
    /// the rights of the process that made it.
    fn caller(&self, stream: &UnixStream) -> io::Result<Caller> {
        let Peer { uid, pid, .. } = socket::credentials_of_peer(stream)?;
        let is_proven = credentials::shares_user_namespace(stream, pid, uid);
        let trusted = is_proven && (uid == 0 || uid == self.own_uid);
        Ok(Caller { uid, pid: pid.as_raw(), is_proven, trusted })
    }

    /// Returns true if bytes are queued for a client.
    pub(crate) fn has_unsent(&self) -> bool {
        self.clients.values().any(|client| client.unsent() > 0)
    }

    /// Sends queued bytes and drops clients that are done, stuck or gone.
    pub(crate) fn flush(&mut self, registry: &Registry, now: Time) {
        let unread =
            |control: &Control| control.clients.values().map(Client::unsent).sum::<usize>();
        self.much_was_unread |= unread(self) > limit::MUCH_UNREAD;
        self.reset_time_limits(now);
        for (number, client) in &mut self.clients {
            client.flush(now);
            client.dead |= client.watch_writes(registry, Token(*number)).is_err();
            client.given_up |= client.is_stuck(now);
            if client.given_up && !client.dead {
                client.dead = true;
                self.cut_off = self.cut_off.saturating_add(1);
            }
        }
        let before = self.clients.len();
        if self.clients.values().any(|client| client.dead) {
            close_without_linger(|| self.clients.retain(|_, client| !client.dead));
        }
        if self.reserve.is_none() && self.clients.len() < before {
            self.reserve = File::open("/dev/null").ok().map(KeptFd::from);
        }
        let clients = self.clients.len();
        self.most_clients = self.most_clients.max(before);
        let is_read = self.much_was_unread && unread(self) == 0;
        // Clients leave one by one, each with its buffers.
        let have_gone = self.most_clients >= limit::CROWD && clients <= self.most_clients / 2;
        if is_read || have_gone {
            self.much_was_unread &= !is_read;
            self.most_clients = clients;
            shared_memory::give_back();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.is_ours {
            // If removal fails, the next start replaces the file.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The next unused number. Numbers wrap around, and existing clients keep theirs.
fn unused<T>(next: &mut usize, taken: &BTreeMap<usize, T>) -> usize {
    let mut number = *next;
    for _ in 0..=taken.len() {
        number = *next;
        *next = if number >= token::RUNS - 1 { token::CLIENTS } else { number + 1 };
        if !taken.contains_key(&number) {
            break;
        }
    }
    number
}

/// Creates a listening socket that every uid may connect to. The credentials decide about requests.
pub(crate) fn listen(path: &str) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    set_permissions(path, Permissions::from_mode(0o666))?;
    Ok(OwnedFd::from(listener))
}

fn watched(registry: &Registry, path: &str) -> io::Result<UnixListener> {
    let mut listener = UnixListener::from_std(listen(path)?.into());
    registry.register(&mut listener, Token(token::CONTROL), Interest::READABLE)?;
    Ok(listener)
}

// Answers are JSON objects, one for each line.

/// An answer: a function from the request id to the line. `None` means that init answers later.
pub(crate) type Answered = Result<Option<Box<dyn FnOnce(u64) -> Vec<u8>>>, Failure>;

pub(crate) fn line(answer: &impl Serialize) -> Vec<u8> {
    // A value that cannot be serialized is a bug; the client then gets an empty line.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}

pub(crate) fn failed(id: u64, failure: Failure) -> Vec<u8> {
    line(&Line::<()>::error(id, failure))
}

#[allow(clippy::unnecessary_wraps, reason = "handlers of verbs end with it")]
pub(crate) fn now(answer: impl Serialize + 'static) -> Answered {
    Ok(Some(Box::new(move |id| line(&Line::ok(id, answer)))))
}

pub(crate) fn refused(refusal: Refusal) -> Failure {
    Failure::new(&refusal.kind, refusal.message, refusal.hint)
}

/// A line of the event log. `main_pids` of `facts` may be empty.
pub(crate) fn event(seq: u64, entry: &Entry, facts: &Facts) -> Shown {
    let (event, unit, change) = match &entry.said {
        Said::Own(event) => (event.as_ref(), None, None),
        Said::Fired(trigger) => ("fire", Some(trigger), None),
        Said::Unit(change) => ("state", Some(&change.name), Some(change)),
    };
    Shown {
        seq,
        time: wall(Duration::from_nanos(entry.wall)).to_string(),
        mono_us: entry.at.as_nanos() / 1000,
        unit: unit.map(Name::to_string),
        run: change.map(|change| change.run).filter(|run| *run != 0),
        event: event.to_string(),
        from: change.map(|change| change.from),
        to: change.map(|change| change.to),
        reason: change
            .and_then(|change| Some(view::reason(change.reason.as_deref()?, facts, None))),
        cause: Some(entry.cause).filter(|cause| *cause != 0),
    }
}

pub(crate) fn stopping() -> Failure {
    Failure::new("stopping", "a shutdown is in progress", "")
}

pub(crate) fn wall(at: Duration) -> WallTime {
    WallTime::from_millis(u64::try_from(at.as_millis()).unwrap_or(u64::MAX))
}

// Checks of a request: who may make it, and which instances it names.

/// Returns true if the settings name this uid as the owner of the source in the request. For
/// `source-list` it may own any source.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other verb is a source's")]
pub(crate) fn is_owner(settings: &Settings, caller: Caller, verb: &Verb) -> bool {
    match verb {
        Verb::SourcePut { source, .. } | Verb::SourceDrop { source, .. } => {
            settings.sources.get(source).is_some_and(|owner| caller.is_user(*owner))
        }
        Verb::SourceList {} => settings.sources.values().any(|owner| caller.is_user(*owner)),
        _ => false,
    }
}

/// The instances of templates that a request names.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "no other event names a target that may be missing"
)]
pub(crate) fn instances_of(wish: &Event) -> impl Iterator<Item = &Name> {
    let named: Vec<&Name> = match wish {
        Event::SetGoal(goal) => {
            goal.targets.iter().chain(goal.want.iter().map(|(name, _)| name)).collect()
        }
        Event::Want { target, .. } => vec![target],
        Event::SetPolicy(policy) => policy.enable.iter().collect(),
        _ => Vec::new(),
    };
    named.into_iter().filter(|name| UnitName::of(name.as_str()).is_instance())
}

// Fairness between clients of the control socket. Root comes first. Each other client has a share
// of the turn, and its further requests continue in the next turn.

impl Control {
    /// The order in which clients are served: root first, then the others, starting behind the one
    /// served last.
    pub(crate) fn order(&self) -> Vec<usize> {
        let of = |trusted: bool| {
            let all = self.clients.iter().filter(move |(_, it)| it.caller.trusted == trusted);
            all.map(|(number, _)| *number)
        };
        let behind = of(false).filter(|number| *number > self.served);
        let others = behind.chain(of(false).filter(|number| *number <= self.served));
        of(true).chain(others).collect()
    }

    /// Disconnects a follower of events with more than [`limit::UNREAD_OF_A_FOLLOWER`] unread bytes
    /// if there is no room for another answer, because its backlog only grows. Returns true if it
    /// did.
    pub(crate) fn cut_off_follower(&mut self, number: usize) -> bool {
        let caller =
            self.clients.get(&number).filter(|it| it.unsent() > limit::UNREAD_OF_A_FOLLOWER);
        let goes = caller.is_some_and(|it| !self.has_room_for_answer(it.caller));
        if let Some(client) = self.clients.get_mut(&number).filter(|_| goes) {
            client.given_up = true;
        }
        goes
    }

    /// Returns true if there is room for another answer: the unread bytes of each uid and of all
    /// users other than root are limited. In the sum of a uid, each client counts with at most
    /// [`limit::UNREAD`] bytes, so that one long answer does not use it up.
    pub(crate) fn has_room_for_answer(&self, caller: Caller) -> bool {
        let unread = |of: &dyn Fn(Caller) -> bool, most: usize| -> usize {
            let these = self.clients.values().filter(|it| of(it.caller));
            these.map(|it| it.unsent().min(most)).sum()
        };
        caller.trusted
            || (unread(&|it| it.uid == caller.uid, limit::UNREAD) < limit::UNREAD_OF_A_UID
                && unread(&|it| !it.trusted, usize::MAX) < limit::UNREAD_OF_OTHERS)
    }

    /// Resets the time limit of clients that wait only for other clients' unread bytes.
    pub(super) fn reset_time_limits(&mut self, now: Time) {
        let is_late = |client: &Client| client.is_stuck(now) && client.unsent() == 0;
        let late = self.clients.iter().filter(|(_, client)| is_late(client));
        let callers: Vec<(usize, Caller)> = late.map(|(at, client)| (*at, client.caller)).collect();
        for (number, caller) in callers {
            if !self.has_room_for_answer(caller)
                && let Some(client) = self.clients.get_mut(&number)
            {
                client.moved = now;
            }
        }
    }
}

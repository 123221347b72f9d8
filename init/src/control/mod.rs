//! The server of the control socket: its connections and their limits. [`crate::event_loop`] carries out the
//! requests; `groundstate_units::control` has the words of the protocol.

pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod request;
mod scheduler;
#[cfg(test)]
mod tests;

use crate::base::credentials;
use crate::base::limit;
use crate::base::token;
use crate::state::carried::KeptFd;
use crate::sys::memory;
use crate::sys::no_linger::close_without_linger;
use crate::sys::peer::{self, Peer};
use crate::sys::socket::accept_stream;
use client::{Caller, Client};
use groundstate_units::text::time::Time;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, Permissions, set_permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

/// Said to one client too many before it is closed.
const FULL: &[u8] = br#"{"v":1,"id":0,"error":{"kind":"busy","message":"too many connections to init","hint":"close some, or try again"}}
"#;

/// The connections that are part of the state.
fn recorded<S: Serializer>(clients: &BTreeMap<usize, Client>, to: S) -> Result<S::Ok, S::Error> {
    let recorded: Vec<_> = clients.iter().filter(|(_, client)| client.is_recorded()).collect();
    to.collect_map(recorded)
}

fn yes() -> bool {
    true
}

fn first() -> usize {
    token::CLIENTS
}

/// The listening socket and all connections.
#[derive(Serialize, Deserialize)]
pub(crate) struct Control {
    listener: KeptFd<UnixListener>,
    /// Listened at the path before; who was on the way to it then is still let in.
    #[serde(skip)]
    former: VecDeque<UnixListener>,
    path: String,
    /// Connections by token.
    #[serde(serialize_with = "recorded")]
    #[serde(default)]
    pub(crate) clients: BTreeMap<usize, Client>,
    #[serde(default = "first")]
    next: usize,
    /// Of those that are not root, who was served last.
    #[serde(skip)]
    pub(crate) served: usize,
    /// Not all who follow the events were sent the last ones.
    #[serde(skip)]
    pub(crate) owes_events: bool,
    /// And what that took is not given back.
    #[serde(skip)]
    much_was_unread: bool,
    /// The most clients since what they took was last given back.
    #[serde(skip)]
    most_clients: usize,
    #[serde(default = "yes")]
    ready: bool,
    /// That nobody waits has to be said twice.
    #[serde(skip)]
    doubts: bool,
    /// Given up when there is no descriptor left: root can then still ask, one at a time, and
    /// others are turned away instead of being called ready by the kernel for ever.
    reserve: Option<KeptFd<File>>,
    rests_until: Option<Time>,
    own_uid: u32,
    /// Connections there was no room for, and those that have made room.
    #[serde(default)]
    pub(crate) turned_away: u64,
    /// Those nobody could go on with.
    #[serde(skip)]
    pub(crate) cut_off: u64,
    /// The path goes with this value; not with what was only read of another image's state.
    #[serde(skip)]
    is_ours: bool,
}

impl Control {
    /// Listens at `path`, replacing what is there.
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

    /// The same sockets in an init that has gone on as another image.
    pub(crate) fn rewatch(&mut self, registry: &Registry) -> io::Result<()> {
        (self.ready, self.doubts, self.is_ours) = (true, true, true);
        registry.register(&mut *self.listener, Token(token::CONTROL), Interest::READABLE)?;
        for (number, client) in &mut self.clients {
            let interest = Interest::READABLE | Interest::WRITABLE;
            client.readable = true;
            registry.register(client.stream(), Token(*number), interest)?;
        }
        Ok(())
    }

    /// The same at the same path, which somebody may have removed or replaced. Nobody finds the
    /// one before any more; those that had found it are not turned away.
    pub(crate) fn listen_anew(&mut self, registry: &Registry) -> io::Result<()> {
        let fresh = watched(registry, &self.path)?;
        self.former.push_back(std::mem::replace(&mut *self.listener, fresh));
        while self.former.len() > limit::FORMER_LISTENERS {
            close_without_linger(|| drop(self.former.pop_front()));
        }
        (self.ready, self.doubts) = (true, true);
        Ok(())
    }

    /// The next connection, those of former sockets first. A former one that has none left goes.
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

    /// The poll says this token is ready; `gone`: nobody is at the other end any more.
    pub(crate) fn ready(&mut self, token: Token, gone: bool) {
        if token.0 == token::CONTROL {
            (self.ready, self.doubts) = (true, true);
        } else if let Some(client) = self.clients.get_mut(&token.0) {
            client.readable = true;
            client.dead |= gone;
        }
    }

    /// Connections that nobody is at the other end of any more, and that are not closed yet.
    pub(crate) fn gone(&self) -> usize {
        self.clients.values().filter(|client| client.dead).count()
    }

    /// Somebody is to be served without the poll having to say so.
    pub(crate) fn has_more(&self) -> bool {
        let may = |client: &Client| client.has_more() && self.has_room_for_answer(client.caller);
        let listens = self.ready && self.rests_until.is_none();
        listens || self.owes_events || self.clients.values().any(may)
    }

    /// Nothing is to be done for a client, and none may connect before the poll says so.
    pub(crate) fn is_idle(&self) -> bool {
        self.clients.is_empty() && !self.ready && !self.owes_events && self.rests_until.is_none()
    }

    /// When something is due even if nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        let stuck = self
            .clients
            .values()
            .filter(|client| client.is_waited_for())
            .map(|client| client.moved.after(limit::CLIENT_PATIENCE))
            .min();
        [stuck, self.rests_until].into_iter().flatten().min()
    }

    /// Takes new connections.
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
                // The poll tells of each once: who was overlooked would wait for the next one.
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

    /// There is no descriptor left: the one in reserve is root's.
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
            // Best effort: it is closed either way.
            let _ = io::Write::write(&mut stream, FULL);
            return;
        }
        let number = unused(&mut self.next, &self.clients);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let mut client = Client::new(stream, caller, now);
        if registry.register(client.stream(), Token(number), interest).is_ok() {
            self.clients.insert(number, client);
        }
    }

    /// The caps: all, each uid's, and root's reserve. The one that has been idle for the longest
    /// makes room: of the same uid where that has all it may, else of any, root's for root alone.
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
        match longest {
            Some(number) => {
                self.turned_away = self.turned_away.saturating_add(1);
                self.clients.remove(&number).is_some()
            }
            None => false,
        }
    }

    /// The caller's rights. Decided once, at connect: a connection handed on keeps the rights of
    /// the process that made it.
    fn caller(&self, stream: &UnixStream) -> io::Result<Caller> {
        let Peer { uid, pid, .. } = peer::of(stream)?;
        let is_proven = credentials::shares_user_namespace(stream, pid, uid);
        let trusted = is_proven && (uid == 0 || uid == self.own_uid);
        Ok(Caller { uid, pid: pid.as_raw(), is_proven, trusted })
    }

    /// Something is queued for somebody.
    pub(crate) fn has_unsent(&self) -> bool {
        self.clients.values().any(|client| client.unsent() > 0)
    }

    /// Sends what is queued and drops who is done, stuck or gone.
    pub(crate) fn flush(&mut self, now: Time) {
        let unread =
            |control: &Control| control.clients.values().map(Client::unsent).sum::<usize>();
        self.much_was_unread |= unread(self) > limit::MUCH_UNREAD;
        self.forgive(now);
        for client in self.clients.values_mut() {
            client.flush(now);
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
        // They go one by one, each with what it was read and answered with.
        let have_gone = self.most_clients >= limit::CROWD && clients <= self.most_clients / 2;
        if is_read || have_gone {
            self.much_was_unread &= !is_read;
            self.most_clients = clients;
            memory::give_back();
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if self.is_ours {
            // Left behind where it can not be removed: the next start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The next number nobody has. They come round, and whoever stays has kept theirs.
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

/// A listening socket: every uid may connect; what it may ask is decided by its credentials.
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

//! The connections to `log.sock`: which of them may ask, what they ask, what is still to be sent.
//! The answers are put together in [`super::query`].
//!
//! Connections of other users than root are limited in number, in what they get in one turn of the
//! loop and in old lines read at once, so that root is answered whatever they do.

use super::history::Found;
use super::{files, limit};
use crate::base::credentials;
use crate::sys::no_linger::close_without_linger;
use crate::sys::peer::{self, Peer};
use crate::sys::socket::accept_stream;
use groundstate_units::control::answer::{End, Failure, Line};
use groundstate_units::control::log_line::{LogLine, ShownLine};
use groundstate_units::control::log_query::LogQuery;
use groundstate_units::limit::REQUEST_LINE;
use groundstate_units::text::name::Name;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

/// Failure kind: the client did not take what it asked for.
const SLOW: &str = "slow";

/// One connection.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    uid: u32,
    /// Of this user namespace.
    root: bool,
    /// When it last asked something or took something.
    moved: Instant,
    /// It has more to do than it was given time for.
    more: bool,
    /// Who has the role *logs*, where the client has not.
    refused: Option<String>,
    asked: Vec<u8>,
    answers: Answers,
    follows: Option<Follow>,
    /// Old lines on their way, and the new ones that have to wait for them.
    history: Option<Reading>,
    /// It will ask no more: gone once everything is sent.
    last: bool,
}

/// An answer being read from files.
#[derive(Debug)]
struct Reading {
    id: u64,
    /// None: all of it is read, only what came later is left.
    from: Option<Receiver<Found>>,
    /// What the client follows and came since.
    later: VecDeque<(Name, Vec<u8>)>,
    bytes: usize,
}

/// New lines of these are wanted as they come.
#[derive(Debug)]
pub(crate) struct Follow {
    /// Of the request.
    pub(crate) id: u64,
    /// Targets or units; empty: all.
    pub(crate) names: Vec<Name>,
}

/// All connections, by token.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: Option<UnixListener>,
    by_token: BTreeMap<usize, Client>,
    listener_token: Token,
    first_token: usize,
    /// Connections may wait to be accepted.
    accepts: bool,
    /// Clients that may have asked something.
    due: BTreeSet<usize>,
    /// Of the clients that are not root, the one that was served last.
    served: usize,
    /// Who may read.
    pub(crate) readers: Readers,
}

/// The group of `log-readers`.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    name: String,
    /// None: there is no such group.
    group: Option<u32>,
}

impl Readers {
    /// The group of that name.
    pub(crate) fn new(name: &str) -> Readers {
        Readers { name: name.to_string(), group: files::group(name) }
    }

    /// In words, who may.
    fn may(&self) -> String {
        let name = &self.name;
        match self.group {
            Some(_) => {
                format!("root, the user init runs as and the group {name} (log-readers) may")
            }
            None => format!(
                "root and the user init runs as may; there is no group {name} (log-readers)"
            ),
        }
    }
}

impl Clients {
    /// Tokens from `listener_token` on, [`limit::CLIENTS`] and one, are for these.
    pub(crate) fn new(listener_token: Token, readers: Readers) -> Clients {
        Clients {
            listener: None,
            by_token: BTreeMap::new(),
            listener_token,
            first_token: listener_token.0 + 1,
            accepts: false,
            due: BTreeSet::new(),
            served: 0,
            readers,
        }
    }

    /// Listens here from now on. The backlog of the listener before is taken first.
    pub(crate) fn listen(&mut self, registry: &Registry, listener: OwnedFd) -> io::Result<()> {
        self.accepts = true;
        for _ in 0..limit::CLIENTS {
            self.accept(registry);
        }
        let listener = std::os::unix::net::UnixListener::from(listener);
        listener.set_nonblocking(true)?;
        let mut listener = UnixListener::from_std(listener);
        registry.register(&mut listener, self.listener_token, Interest::READABLE)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Connections wait to be accepted.
    pub(crate) fn has_callers(&mut self) {
        self.accepts = true;
    }

    /// Takes new connections, so many in one turn of the loop.
    pub(crate) fn accept(&mut self, registry: &Registry) {
        for _ in 0..limit::ACCEPTS_A_TURN {
            let Some(listener) = self.listener.as_ref().filter(|_| self.accepts) else { return };
            match accept_stream(listener.as_fd()) {
                // Over its number, or gone again: closed by being dropped.
                Ok(stream) => drop(close_without_linger(|| self.admit(registry, stream))),
                Err(error) => self.accepts = error.kind() == io::ErrorKind::Interrupted,
            }
        }
    }

    /// The client may have asked something, or may take more of its answer.
    pub(crate) fn is_due(&mut self, token: usize) {
        if self.by_token.contains_key(&token) {
            self.due.insert(token);
        }
    }

    /// The clients that are due, each with whether it is root: root first, then the others from the
    /// one behind the one served last.
    pub(crate) fn order(&self) -> Vec<(usize, bool)> {
        let due = |root: bool| {
            let of =
                move |token: &usize| self.by_token.get(token).is_some_and(|it| it.root == root);
            self.due.iter().copied().filter(of).map(move |token| (token, root))
        };
        let behind = due(false).filter(|(token, _)| *token > self.served);
        let before = due(false).filter(|(token, _)| *token <= self.served);
        due(true).chain(behind).chain(before).collect()
    }

    /// The client is served now.
    pub(crate) fn begin(&mut self, token: usize) {
        self.due.remove(&token);
        if self.by_token.get(&token).is_some_and(|client| !client.root) {
            self.served = token;
        }
    }

    /// The loop is not to wait: connections or clients are left of this turn.
    pub(crate) fn has_more(&self) -> bool {
        self.accepts || !self.due.is_empty()
    }

    fn admit(&mut self, registry: &Registry, mut stream: UnixStream) -> io::Result<()> {
        let peer = peer::of(&stream)?;
        // As at the control socket: root of another user namespace is not root here.
        let is_ours = credentials::shares_user_namespace(&stream, peer.pid, peer.uid);
        let root = peer.uid == 0 && is_ours;
        let most = limit::CLIENTS - if root { 0 } else { limit::CLIENTS_FOR_ROOT };
        let tokens = self.first_token..self.first_token + most;
        let same = self.by_token.values().filter(|client| client.uid == peer.uid).count();
        let has_quota = root || same < limit::CLIENTS_OF_A_UID;
        if !has_quota || self.by_token.len() >= most {
            self.evict(|client| !client.root && (has_quota || client.uid == peer.uid))?;
        }
        let free = tokens.clone().find(|token| !self.by_token.contains_key(token));
        let token = free.ok_or(io::ErrorKind::QuotaExceeded)?;
        let allowed = root
            || is_ours
                && (peer.uid == nix::unistd::geteuid().as_raw() || self.reads(&stream, peer));
        registry.register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        let (asked, answers) = (Vec::new(), Answers::default());
        self.by_token.insert(
            token,
            Client {
                stream,
                uid: peer.uid,
                root,
                moved: Instant::now(),
                more: false,
                refused: (!allowed).then(|| self.readers.may()),
                asked,
                answers,
                follows: None,
                history: None,
                last: false,
            },
        );
        self.due.insert(token);
        Ok(())
    }

    /// Of these clients, the one that has done nothing for the longest makes room.
    fn evict(&mut self, of: impl Fn(&Client) -> bool) -> io::Result<()> {
        let idle = self.by_token.iter().filter(|(_, client)| client.is_idle() && of(client));
        let longest = idle.min_by_key(|(_, client)| client.moved).map(|(token, _)| *token);
        let token = longest.ok_or(io::ErrorKind::QuotaExceeded)?;
        self.forget(token);
        Ok(())
    }

    fn forget(&mut self, token: usize) {
        self.due.remove(&token);
        close_without_linger(|| self.by_token.remove(&token));
    }

    /// The peer is in the group `log-readers`.
    fn reads(&self, stream: &UnixStream, peer: Peer) -> bool {
        let is_in = |group| group == peer.gid || peer::groups(stream).contains(&group);
        self.readers.group.is_some_and(is_in)
    }

    /// Sends what can be sent, then reads. Gives the next request, if the client has taken the
    /// answers to those before; call again until there is none.
    pub(crate) fn next(&mut self, token: usize) -> Option<LogQuery> {
        let client = self.by_token.get_mut(&token)?;
        let query = client.next();
        if std::mem::take(&mut client.more) {
            self.due.insert(token);
        }
        if matches!(query, Err(Gone)) {
            self.forget(token);
        }
        query.unwrap_or(None)
    }

    /// Where the answers of a client go.
    pub(crate) fn answers(&mut self, token: usize) -> Option<&mut Answers> {
        self.by_token.get_mut(&token).map(|client| &mut client.answers)
    }

    /// The client wants new lines.
    pub(crate) fn follow(&mut self, token: usize, follow: Follow) {
        if let Some(client) = self.by_token.get_mut(&token) {
            client.follows = Some(follow);
        }
    }

    /// The answer to this request comes from here; what is followed comes after it.
    pub(crate) fn history(&mut self, token: usize, id: u64, from: Receiver<Found>) {
        if let Some(client) = self.by_token.get_mut(&token) {
            client.history =
                Some(Reading { id, from: Some(from), later: VecDeque::new(), bytes: 0 });
        }
    }

    /// One more answer for this client may be read from files. A reader of an older answer that takes
    /// nothing any more makes room.
    pub(crate) fn has_room_for_history(&mut self, token: usize) -> bool {
        let Some((uid, root)) = self.by_token.get(&token).map(|client| (client.uid, client.root))
        else {
            return false;
        };
        let reads = |client: &Client| client.history.as_ref().is_some_and(|h| h.from.is_some());
        let count = |of: &dyn Fn(&Client) -> bool| {
            self.by_token.values().filter(|client| reads(client) && of(client)).count()
        };
        let others = limit::HISTORIES - limit::HISTORIES_FOR_ROOT;
        let has_quota = root || count(&|client| client.uid == uid) < limit::HISTORIES_OF_A_UID;
        let has_place =
            count(&|_| true) < limit::HISTORIES && (root || count(&|client| !client.root) < others);
        if has_quota && has_place {
            return true;
        }
        let may_go = |(_, client): &(&usize, &mut Client)| {
            let is_meant = !client.root && (has_quota || client.uid == uid);
            reads(client) && is_meant && client.moved.elapsed() > limit::CLIENT_PATIENCE
        };
        let stuck = self.by_token.iter_mut().filter(may_go);
        let Some((_, client)) = stuck.min_by_key(|(_, client)| client.moved) else { return false };
        let id = client.history.as_ref().map_or(0, |history| history.id);
        client.cut_off(id);
        true
    }

    /// Somebody wants new lines.
    pub(crate) fn any_follows(&self) -> bool {
        self.by_token.values().any(|client| client.follows.is_some())
    }

    /// New lines of a unit with these targets: to all who follow it. One who does not read
    /// what it asked for is told so instead, and disconnected.
    pub(crate) fn publish(&mut self, unit: &Name, targets: &[Name], text: &[u8]) {
        self.by_token.retain(|_, client| {
            let Some(follow) = &client.follows else { return true };
            let names = &follow.names;
            let meant =
                names.is_empty() || names.iter().any(|name| name == unit || targets.contains(name));
            if !meant {
                return true;
            }
            let id = follow.id;
            let fits = match &mut client.history {
                Some(history) => {
                    history.bytes += text.len();
                    history.later.push_back((unit.clone(), text.to_vec()));
                    history.bytes <= limit::HISTORY_LATER
                }
                None => {
                    client.answers.lines(id, unit, text.to_vec());
                    client.answers.waiting() <= limit::UNREAD
                }
            };
            if !fits {
                client.cut_off(id);
            }
            client.send().is_ok()
        });
    }

    /// Tokens of those whose answer is being read from files.
    pub(crate) fn reading(&self) -> Vec<usize> {
        let reading = self.by_token.iter().filter(|(_, client)| client.history.is_some());
        reading.map(|(token, _)| *token).collect()
    }
}

/// The client is gone, or is to go.
#[derive(Debug)]
struct Gone;

impl Client {
    /// It waits for nothing and has asked nothing for a while.
    fn is_idle(&self) -> bool {
        let waits = self.follows.is_some() || self.history.is_some() || !self.answers.is_empty();
        !waits && self.moved.elapsed() > limit::CLIENT_PATIENCE
    }

    fn next(&mut self) -> Result<Option<LogQuery>, Gone> {
        for _ in 0..limit::STEPS_A_TURN {
            self.send()?;
            if !self.answers.is_empty() {
                return Ok(None);
            }
            if self.history.is_some() {
                if !self.read_history() {
                    return Ok(None);
                }
                continue;
            }
            if let Some(end) = self.asked.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.asked.drain(..=end).collect();
                self.moved = Instant::now();
                if let Some(query) = self.judge(&line) {
                    return Ok(Some(query));
                }
                continue;
            }
            if self.last {
                return Err(Gone);
            }
            if self.asked.len() > REQUEST_LINE {
                let message = format!("a request is longer than {REQUEST_LINE} bytes");
                self.answers.error(0, Failure::new(Failure::USAGE, message, ""));
                self.asked.clear();
                self.last = true;
                continue;
            }
            let mut buffer = [0; 4096];
            // Descriptors that come along are closed by the kernel, here.
            match close_without_linger(|| self.stream.read(&mut buffer)) {
                Ok(0) => self.last = true,
                Ok(bytes) => {
                    self.asked.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
        self.more = true;
        Ok(None)
    }

    /// It reads too slowly: that is all it will hear.
    fn cut_off(&mut self, id: u64) {
        self.follows = None;
        self.history = None;
        self.last = true;
        self.asked.clear();
        let message = "lines come faster than they are read";
        self.answers.cut(id, Failure::new(SLOW, message, "ask again with `since`"));
    }

    /// Takes the next piece of what is read from files. False: it is not there yet.
    fn read_history(&mut self) -> bool {
        let Some(history) = &mut self.history else { return true };
        let id = history.id;
        let Some(from) = &history.from else {
            match history.later.pop_front() {
                Some((unit, text)) => {
                    history.bytes = history.bytes.saturating_sub(text.len());
                    self.answers.lines(id, &unit, text);
                }
                None => self.history = None,
            }
            return true;
        };
        match from.try_recv() {
            Ok(Found::Lines(unit, text)) => self.answers.lines(id, &unit, text),
            Ok(Found::Nothing(unit)) if self.follows.is_none() => {
                let message = format!("{unit}: nothing of such a unit or target is in the logs");
                let hint = "`initctl status` names them";
                let failure = Failure::new(Failure::UNKNOWN_TARGET, message, hint);
                self.answers.error(id, failure);
                self.history = None;
            }
            Ok(Found::Nothing(_)) => {}
            Err(TryRecvError::Empty) => return false,
            Err(TryRecvError::Disconnected) => {
                history.from = None;
                if self.follows.is_none() {
                    self.answers.end(id);
                }
            }
        }
        true
    }

    fn judge(&mut self, line: &[u8]) -> Option<LogQuery> {
        match (LogQuery::parse(line), &self.refused) {
            (Err((id, failure)), _) => self.answers.error(id, *failure),
            (Ok(query), Some(who)) => {
                let failure = Failure::new(Failure::DENIED, "you may not read logs", who);
                self.answers.error(query.id, failure);
                self.asked.clear();
                self.last = true;
            }
            (Ok(query), None) => return Some(query),
        }
        None
    }

    fn send(&mut self) -> Result<(), Gone> {
        loop {
            let bytes = self.answers.next();
            if bytes.is_empty() {
                return Ok(());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(Gone),
                Ok(taken) => {
                    self.answers.taken(taken);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }
}

// Answers: stored lines become JSON only as fast as the client reads.

/// Bytes of JSON made ahead.
const AHEAD: usize = limit::READ;

/// Answers on their way, in order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pieces: VecDeque<Piece>,
    /// Bytes of the stored lines in `pieces`.
    bytes: usize,
    ready: Vec<u8>,
    sent: usize,
}

#[derive(Debug)]
enum Piece {
    Lines { id: u64, unit: Name, text: Vec<u8>, at: usize },
    End(u64),
    Error(u64, Failure),
}

impl Answers {
    /// Some stored lines of a unit.
    pub(crate) fn lines(&mut self, id: u64, unit: &Name, text: Vec<u8>) {
        self.bytes += text.len();
        self.pieces.push_back(Piece::Lines { id, unit: unit.clone(), text, at: 0 });
    }

    /// The end of an answer.
    pub(crate) fn end(&mut self, id: u64) {
        self.pieces.push_back(Piece::End(id));
    }

    /// Refused.
    pub(crate) fn error(&mut self, id: u64, failure: Failure) {
        self.pieces.push_back(Piece::Error(id, failure));
    }

    /// Refused in the middle: what was not yet turned into JSON is left out.
    pub(crate) fn cut(&mut self, id: u64, failure: Failure) {
        self.pieces.clear();
        self.bytes = 0;
        self.error(id, failure);
    }

    /// Stored bytes not yet turned into JSON.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Everything was taken.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.sent == self.ready.len()
    }

    /// The next bytes to send; empty when there are none.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.sent == self.ready.len() {
            self.sent = 0;
            self.ready.clear();
            self.ready.shrink_to(AHEAD);
            while self.ready.len() < AHEAD && self.render() {}
        }
        self.ready.get(self.sent..).unwrap_or_default()
    }

    /// So many of them were taken.
    pub(crate) fn taken(&mut self, bytes: usize) {
        self.sent = (self.sent + bytes).min(self.ready.len());
    }

    /// Turns one line or object into JSON; false: there is none.
    fn render(&mut self) -> bool {
        match self.pieces.front_mut() {
            None => return false,
            Some(Piece::Lines { id, unit, text, at }) => {
                let rest = text.get(*at..).unwrap_or_default();
                if let Some(stored) = rest.split_inclusive(|byte| *byte == b'\n').next() {
                    *at += stored.len();
                    if let Some(line) = LogLine::parse(stored) {
                        let shown = ShownLine::new(unit.as_str(), &line);
                        write(&mut self.ready, &Line::ok(*id, shown));
                    }
                    return true;
                }
                self.bytes = self.bytes.saturating_sub(text.len());
            }
            Some(Piece::End(id)) => write(&mut self.ready, &Line::ok(*id, End { end: true })),
            Some(Piece::Error(id, failure)) => {
                write(&mut self.ready, &Line::<End>::error(*id, failure.clone()));
            }
        }
        self.pieces.pop_front();
        true
    }
}

fn write(to: &mut Vec<u8>, answer: &impl Serialize) {
    // Writing to memory can not fail, and these types have no map with odd keys.
    if serde_json::to_writer(&mut *to, answer).is_ok() {
        to.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::socket::tests::with_the_longest_path;
    use nix::sys::socket::{UnixAddr, connect};
    use std::os::fd::AsRawFd;

    #[test]
    fn who_has_the_longest_path_there_is_asks_like_anybody_else() {
        let poll = mio::Poll::new().unwrap();
        let directory = std::env::temp_dir();
        let path = directory.join(format!("gs-logs-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut clients = Clients::new(Token(1), Readers::new(""));
        clients.listen(poll.registry(), listener.into()).unwrap();
        clients.has_callers();
        let caller = with_the_longest_path(&directory);
        connect(caller.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        clients.accept(poll.registry());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(clients.by_token.len(), 1);
    }

    #[test]
    fn answers_come_in_order_however_little_is_taken_at_once() {
        let mut answers = Answers::default();
        let web = Name::new("web").unwrap();
        let text = b"2026-11-21T05:25:46.123Z 17 a\xff\x1b\nno stored line\n2026-11-21T05:25:46.123Z - b\n";
        answers.lines(7, &web, text.to_vec());
        answers.end(7);
        answers.error(8, Failure::new(Failure::DENIED, "no", ""));
        let mut got = Vec::new();
        while let Some(byte) = answers.next().first().copied() {
            got.push(byte);
            answers.taken(1);
        }
        assert!(answers.is_empty() && answers.waiting() == 0);
        let want = concat!(
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":17,"#,
            r#""stream":"output","line":"a�\u001b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"time":"2026-11-21T05:25:46.123Z","unit":"web","run":null,"#,
            r#""stream":"logger","line":"b","continued":false}}"#,
            "\n",
            r#"{"v":1,"id":7,"ok":{"end":true}}"#,
            "\n",
            r#"{"v":1,"id":8,"error":{"kind":"denied","message":"no","hint":""}}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(got).unwrap(), want);
    }
}

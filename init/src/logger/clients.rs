//! The connections to `log.sock`: access, requests, and unsent answers. [`super::query`] composes
//! the answers.
//!
//! Users other than root are limited in connections, in work for each turn of the loop, and in
//! simultaneous reads of old lines. So root always gets an answer.

use crate::base::credentials;
use crate::logger::history::Found;
use crate::logger::{files, limit};
use crate::sys::no_linger::close_without_linger;
use crate::sys::socket;
use crate::sys::socket::{Peer, accept_stream};
use groundstate_units::control::answer::{End, Failure, Line};
use groundstate_units::control::log_line::{LogLine, ShownLine};
use groundstate_units::control::log_query::LogQuery;
use groundstate_units::limit::REQUEST_LINE;
use groundstate_units::text::name::Name;
use mio::net::{UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

/// Failure kind: the client read its answer too slowly.
const SLOW: &str = "slow";

/// One connection.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    uid: u32,
    /// True for root of this user namespace.
    root: bool,
    /// The last time it sent a request or read bytes.
    moved: Instant,
    /// True if work is left beyond its share of the turn.
    more: bool,
    /// The users that may read logs, if this client may not.
    refused: Option<String>,
    asked: Vec<u8>,
    answers: Answers,
    follows: Option<Follow>,
    /// Old lines being read, and new ones that follow them.
    history: Option<Reading>,
    /// True if it sends no more requests; it is closed when everything is sent.
    last: bool,
}

/// An answer being read from files.
#[derive(Debug)]
struct Reading {
    id: u64,
    /// `None` if everything is read and only later lines are left.
    from: Option<Receiver<Found>>,
    /// Followed lines that arrived meanwhile.
    later: VecDeque<(Name, Vec<u8>)>,
    bytes: usize,
}

/// A subscription to new lines.
#[derive(Debug)]
pub(crate) struct Follow {
    /// Id of the request.
    pub(crate) id: u64,
    /// Targets or units; empty means all.
    pub(crate) names: Vec<Name>,
}

/// All connections, by token.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: Option<UnixListener>,
    by_token: BTreeMap<usize, Client>,
    listener_token: Token,
    /// True if connections may wait to be accepted.
    accepts: bool,
    /// Clients that may have sent a request.
    due: BTreeSet<usize>,
    /// The client other than root that was served last.
    served: usize,
    /// The readers of logs.
    pub(crate) readers: Readers,
}

/// The group of `log-readers`.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    name: String,
    /// `None` if the group does not exist.
    group: Option<u32>,
}

impl Readers {
    /// Looks up the group.
    pub(crate) fn new(name: &str) -> Readers {
        Readers { name: name.to_string(), group: files::group(name) }
    }

    /// The users that may read logs, in words.
    fn in_words(&self) -> String {
        let name = &self.name;
        match self.group {
            Some(_) => {
                format!("root, the user init runs as and the group {name} (log-readers) may")
            }
            None => format!(
                "only root and the user init runs as may; the group {name} (log-readers) does not exist"
            ),
        }
    }
}

impl Clients {
    /// Tokens from `listener_token` on are reserved: [`limit::CLIENTS`] plus one.
    pub(crate) fn new(listener_token: Token, readers: Readers) -> Clients {
        Clients {
            listener: None,
            by_token: BTreeMap::new(),
            listener_token,
            accepts: false,
            due: BTreeSet::new(),
            served: 0,
            readers,
        }
    }

    /// Listens on this socket. The backlog of the previous one is accepted first.
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

    /// Notes that connections wait to be accepted.
    pub(crate) fn note_callers(&mut self) {
        self.accepts = true;
    }

    /// Accepts new connections, up to the share of a turn.
    pub(crate) fn accept(&mut self, registry: &Registry) {
        for _ in 0..limit::ACCEPTS_A_TURN {
            let Some(listener) = self.listener.as_ref().filter(|_| self.accepts) else { return };
            match accept_stream(listener.as_fd()) {
                // Over a limit, or disconnected: dropping closes it.
                Ok(stream) => drop(close_without_linger(|| self.admit(registry, stream))),
                Err(error) => self.accepts = error.kind() == io::ErrorKind::Interrupted,
            }
        }
    }

    /// Notes that the client may have sent a request or can read more of its answer.
    pub(crate) fn note_due(&mut self, token: usize) {
        if self.by_token.contains_key(&token) {
            self.due.insert(token);
        }
    }

    /// The clients that are due, with true for root: root first, then the others, starting behind
    /// the one served last.
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

    /// Starts to serve the client.
    pub(crate) fn begin(&mut self, token: usize) {
        self.due.remove(&token);
        if self.by_token.get(&token).is_some_and(|client| !client.root) {
            self.served = token;
        }
    }

    /// Returns true if connections or clients are left over from this turn.
    pub(crate) fn has_more(&self) -> bool {
        self.accepts || !self.due.is_empty()
    }

    fn admit(&mut self, registry: &Registry, mut stream: UnixStream) -> io::Result<()> {
        let peer = socket::credentials_of_peer(&stream)?;
        // As at the control socket: root of another user namespace is not root here.
        let is_ours = credentials::shares_user_namespace(&stream, peer.pid, peer.uid);
        let root = peer.uid == 0 && is_ours;
        let most = limit::CLIENTS - if root { 0 } else { limit::CLIENTS_FOR_ROOT };
        let first = self.listener_token.0 + 1;
        let same = self.by_token.values().filter(|client| client.uid == peer.uid).count();
        let has_quota = root || same < limit::CLIENTS_OF_A_UID;
        if !has_quota || self.by_token.len() >= most {
            self.evict(|client| !client.root && (has_quota || client.uid == peer.uid))?;
        }
        let free = (first..first + most).find(|token| !self.by_token.contains_key(token));
        let token = free.ok_or(io::ErrorKind::QuotaExceeded)?;
        let allowed = root
            || is_ours
                && (peer.uid == nix::unistd::geteuid().as_raw()
                    || self.is_log_reader(&stream, peer));
        registry.register(&mut stream, Token(token), Interest::READABLE | Interest::WRITABLE)?;
        let client = Client {
            stream,
            uid: peer.uid,
            root,
            moved: Instant::now(),
            more: false,
            refused: (!allowed).then(|| self.readers.in_words()),
            asked: Vec::new(),
            answers: Answers::default(),
            follows: None,
            history: None,
            last: false,
        };
        self.by_token.insert(token, client);
        self.due.insert(token);
        Ok(())
    }

    /// Disconnects the matching client that has been idle longest.
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

    /// Returns true if the peer is in the group `log-readers`.
    fn is_log_reader(&self, stream: &UnixStream, peer: Peer) -> bool {
        let is_in = |group| group == peer.gid || socket::groups_of_peer(stream).contains(&group);
        self.readers.group.is_some_and(is_in)
    }

    /// Sends queued bytes, then reads. Returns the next request once earlier answers are sent; call
    /// it again until it returns `None`.
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

    /// The queue of answers of a client.
    pub(crate) fn answers(&mut self, token: usize) -> Option<&mut Answers> {
        self.by_token.get_mut(&token).map(|client| &mut client.answers)
    }

    /// Subscribes the client to new lines.
    pub(crate) fn follow(&mut self, token: usize, follow: Follow) {
        if let Some(client) = self.by_token.get_mut(&token) {
            client.follows = Some(follow);
        }
    }

    /// Reads the answer to this request from `from`; followed lines come after it.
    pub(crate) fn history(&mut self, token: usize, id: u64, from: Receiver<Found>) {
        if let Some(client) = self.by_token.get_mut(&token) {
            client.history =
                Some(Reading { id, from: Some(from), later: VecDeque::new(), bytes: 0 });
        }
    }

    /// Returns true if another answer may be read from files for this client. To make room, it
    /// disconnects a client that has stopped reading its own answer from files.
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

    /// Returns true if a client follows new lines.
    pub(crate) fn any_follows(&self) -> bool {
        self.by_token.values().any(|client| client.follows.is_some())
    }

    /// Sends new lines of a unit with these targets to its followers. A follower that does not read
    /// gets an error and is disconnected.
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

    /// Marks all clients as due whose answers are read from files.
    pub(crate) fn readers_are_due(&mut self) {
        let reading = self.by_token.iter().filter(|(_, client)| client.history.is_some());
        self.due.extend(reading.map(|(token, _)| *token));
    }
}

/// The client is gone, or is to be disconnected.
#[derive(Debug)]
struct Gone;

impl Client {
    /// Returns true if the client waits for no answer and has been idle for a while.
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
            // The kernel closes passed descriptors in this call.
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

    /// Sends an error to a client that reads too slowly, and then disconnects it.
    fn cut_off(&mut self, id: u64) {
        self.follows = None;
        self.history = None;
        self.last = true;
        self.asked.clear();
        let message = "lines come faster than they are read";
        self.answers.cut(id, Failure::new(SLOW, message, "retry with `since`"));
    }

    /// Takes the next piece of lines read from files. Returns false if it is not available yet.
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
                let message = format!("{unit}: the logs contain no such unit or target");
                let hint = "`initctl status` lists them";
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
                    self.answers.note_sent(taken);
                    self.moved = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }
}

// Answers: stored lines are converted to JSON only as fast as the client reads

/// Bytes of JSON prepared ahead.
const AHEAD: usize = limit::READ;

/// Queued answers, in order.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pieces: VecDeque<Piece>,
    /// Bytes of the stored lines in `pieces`.
    bytes: usize,
    /// JSON to send.
    ready: VecDeque<u8>,
}

#[derive(Debug)]
enum Piece {
    Lines { id: u64, unit: Name, text: Vec<u8>, at: usize },
    End(u64),
    Error(u64, Failure),
}

impl Answers {
    /// Queues stored lines of a unit.
    pub(crate) fn lines(&mut self, id: u64, unit: &Name, text: Vec<u8>) {
        self.bytes += text.len();
        self.pieces.push_back(Piece::Lines { id, unit: unit.clone(), text, at: 0 });
    }

    /// Queues the end of an answer.
    pub(crate) fn end(&mut self, id: u64) {
        self.pieces.push_back(Piece::End(id));
    }

    /// Queues an error.
    pub(crate) fn error(&mut self, id: u64, failure: Failure) {
        self.pieces.push_back(Piece::Error(id, failure));
    }

    /// Ends the answer with an error and drops lines not yet converted.
    pub(crate) fn cut(&mut self, id: u64, failure: Failure) {
        self.pieces.clear();
        self.bytes = 0;
        self.error(id, failure);
    }

    /// Stored bytes not yet converted.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Returns true if all bytes were sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.ready.is_empty()
    }

    /// The next bytes to send; empty if there are none.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.ready.is_empty() {
            self.ready.shrink_to(AHEAD);
            while self.ready.len() < AHEAD && self.render() {}
        }
        self.ready.as_slices().0
    }

    /// Notes that so many of them were sent.
    pub(crate) fn note_sent(&mut self, bytes: usize) {
        self.ready.drain(..bytes.min(self.ready.len()));
    }

    /// Converts one line or object to JSON. Returns false if there is none.
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

fn write(to: &mut VecDeque<u8>, answer: &impl Serialize) {
    // Writing to memory cannot fail, and these types have no maps with invalid keys.
    if serde_json::to_writer(&mut *to, answer).is_ok() {
        to.push_back(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::socket::tests::with_the_longest_path;
    use nix::sys::socket::{UnixAddr, connect};
    use std::os::fd::AsRawFd;

    #[test]
    fn log_client_with_the_longest_socket_path_is_answered() {
        let poll = mio::Poll::new().unwrap();
        let directory = std::env::temp_dir();
        let path = directory.join(format!("gs-logs-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mut clients = Clients::new(Token(1), Readers::new(""));
        clients.listen(poll.registry(), listener.into()).unwrap();
        clients.note_callers();
        let caller = with_the_longest_path(&directory);
        connect(caller.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        clients.accept(poll.registry());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(clients.by_token.len(), 1);
    }

    #[test]
    fn answers_stay_in_order_when_read_in_small_pieces() {
        let mut answers = Answers::default();
        let web = Name::new("web").unwrap();
        let text = b"2026-11-21T05:25:46.123Z 17 a\xff\x1b\nno stored line\n2026-11-21T05:25:46.123Z - b\n";
        answers.lines(7, &web, text.to_vec());
        answers.end(7);
        answers.error(8, Failure::new(Failure::DENIED, "no", ""));
        let mut got = Vec::new();
        while let Some(byte) = answers.next().first().copied() {
            got.push(byte);
            answers.note_sent(1);
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

//! A fake overloaded etcd: it accepts every call and answers with etcd's error for overload, over a
//! minimal HTTP/2.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Polling interval for the end.
const LOOK: Duration = Duration::from_millis(20);
/// Length of a client's preface.
const PREFACE: usize = 24;
/// Size of a frame header: length, type, flags, stream.
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
/// Flag of a settings or ping acknowledgement.
const ACK: u8 = 1;
/// Flags of a complete header block that ends the stream.
const WHOLE: u8 = 5;

#[derive(Default)]
struct Shared {
    ended: AtomicBool,
    answered: AtomicU64,
}

/// The fake etcd; it ends with its connections on drop.
pub(crate) struct Busy {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    pub(crate) fn at(address: SocketAddr) -> Busy {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let shared: Arc<Shared> = Arc::default();
        let inner = shared.clone();
        let thread = std::thread::spawn(move || {
            let mut connections = Vec::new();
            while !inner.ended.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        let shared = inner.clone();
                        connections.push(std::thread::spawn(move || answer(stream, &shared)));
                    }
                    Err(_) => std::thread::park_timeout(LOOK),
                }
            }
            connections.into_iter().for_each(|one| one.join().unwrap());
        });
        Busy { shared, thread: Some(thread) }
    }

    /// Number of answered calls.
    pub(crate) fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn frame(kind: u8, flags: u8, stream: [u8; 4], body: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[..], &[kind, flags], &stream, body].concat()
}

/// Encodes a header without a table: its name by index or literally.
fn header(name: &[u8], value: &str) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    [name, &[length], value.as_bytes()].concat()
}

/// Encodes status 200 with gRPC status 8, resource exhausted.
fn refusal() -> Vec<u8> {
    let spelled = |name: &str| [&[0, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat();
    let headers = [
        vec![0x88],
        header(&[0x0f, 0x10], "application/grpc"),
        header(&spelled("grpc-status"), "8"),
        header(&spelled("grpc-message"), "etcdserver: too many requests"),
    ];
    headers.concat()
}

fn answer(mut stream: TcpStream, shared: &Shared) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(LOOK)).unwrap();
    let _ = stream.write_all(&frame(SETTINGS, 0, [0; 4], &[]));
    let mut known = Vec::new();
    let mut piece = [0; 4096];
    while !shared.ended.load(Ordering::Relaxed) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => known.extend_from_slice(&piece[..read]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        while let Some(end) = frame_end(&known) {
            let begins = PREFACE + HEAD;
            let (kind, flags) = (known[PREFACE + 3], known[PREFACE + 4]);
            let number = [5, 6, 7, 8].map(|at| known[PREFACE + at]);
            let answer = match kind {
                HEADERS => {
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    frame(HEADERS, WHOLE, number, &refusal())
                }
                SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, number, &[]),
                PING if flags & ACK == 0 => frame(PING, ACK, number, &known[begins..end]),
                _ => Vec::new(),
            };
            known.drain(PREFACE..end);
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// Returns the end of the first frame after the preface, or `None` if it is incomplete.
fn frame_end(known: &[u8]) -> Option<usize> {
    let head = known.get(PREFACE..PREFACE + HEAD)?;
    let length = head[..3].iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let end = PREFACE + HEAD + length;
    (known.len() >= end).then_some(end)
}

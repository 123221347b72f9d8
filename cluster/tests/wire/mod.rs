//! A faulty wire between fleetd and etcd. All bytes pass through this process. It can delay them,
//! hold back one or both directions, break the connection, or cut an answer short. Held bytes
//! arrive late, like retransmissions.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Polling interval.
const LOOK: Duration = Duration::from_millis(10);
/// Maximum chunk size.
const PIECE: usize = 16 * 1024;

/// The fault of the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault.
    None,
    /// Each chunk is delayed.
    Slow(Duration),
    /// The connection breaks after each so many chunks.
    BreaksEach(u64),
    /// Bytes to etcd are held back.
    HoldsQuestions,
    /// Bytes from etcd are held back.
    HoldsAnswers,
    /// Both directions are held back; connections stay open.
    HoldsAll,
    /// Every so many answers, one ends in the middle.
    CutsEach(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    ToEtcd,
    FromEtcd,
}

struct Shared {
    fault: Mutex<Fault>,
    pieces: AtomicU64,
    affected: AtomicU64,
    ended: AtomicBool,
}

/// The wire.
pub(crate) struct Wire {
    shared: Arc<Shared>,
    /// Its listen addresses, in the order of the targets.
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Wire {
    /// Opens a wire from each address to its target, in the namespace `network`.
    pub(crate) fn open(ends: Vec<(SocketAddr, SocketAddr)>, network: Option<File>) -> Wire {
        let shared = Arc::new(Shared {
            fault: Mutex::new(Fault::None),
            pieces: AtomicU64::new(0),
            affected: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        });
        let (listening, opened) = mpsc::channel();
        let inner = shared.clone();
        // A thread enters the namespace, and so do the threads it starts.
        std::thread::spawn(move || {
            if let Some(network) = network {
                setns(network, CloneFlags::CLONE_NEWNET).unwrap();
            }
            let bound = |(from, target): &(SocketAddr, SocketAddr)| {
                let listener = TcpListener::bind(from).unwrap();
                listener.set_nonblocking(true).unwrap();
                (listener, *target)
            };
            let listeners: Vec<_> = ends.iter().map(bound).collect();
            let addresses = listeners.iter().map(|(one, _)| one.local_addr().unwrap());
            listening.send(addresses.collect()).unwrap();
            accept(&listeners, &inner);
        });
        Wire { addresses: opened.recv().unwrap(), shared }
    }

    /// Sets the fault. Held bytes are released.
    pub(crate) fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
    }

    /// Number of chunks affected by a fault; with none, the test proves nothing.
    pub(crate) fn affected(&self) -> u64 {
        self.shared.affected.load(Ordering::Relaxed)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
    }
}

fn accept(listeners: &[(TcpListener, SocketAddr)], shared: &Arc<Shared>) {
    while !shared.ended.load(Ordering::Relaxed) {
        let mut none = true;
        for (listener, target) in listeners {
            let Ok((near, _)) = listener.accept() else { continue };
            none = false;
            let (shared, target) = (shared.clone(), *target);
            std::thread::spawn(move || connect(&near, target, &shared));
        }
        if none {
            std::thread::park_timeout(LOOK);
        }
    }
}

fn connect(near: &TcpStream, target: SocketAddr, shared: &Arc<Shared>) {
    let Ok(far) = TcpStream::connect_timeout(&target, Duration::from_secs(5)) else { return };
    let pair = || Some((near.try_clone().ok()?, far.try_clone().ok()?));
    let (Some((from, to)), Some((back_to, back_from))) = (pair(), pair()) else { return };
    let other = shared.clone();
    let back = std::thread::spawn(move || pass(back_from, back_to, Way::FromEtcd, &other));
    pass(from, to, Way::ToEtcd, shared);
    let _ = back.join();
}

/// Forwards one direction of a connection; when one ends, both end.
fn pass(mut from: TcpStream, mut to: TcpStream, way: Way, shared: &Shared) {
    let _ = from.set_nonblocking(false);
    let _ = from.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = to.set_nodelay(true);
    let mut piece = [0; PIECE];
    while !shared.ended.load(Ordering::Relaxed) {
        let read = match from.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => break,
        };
        let length = apply_fault(read, way, shared);
        if to.write_all(&piece[..length]).is_err() || length < read {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Applies the fault to a chunk. Returns how much of it is forwarded.
fn apply_fault(read: usize, way: Way, shared: &Shared) -> usize {
    let number = shared.pieces.fetch_add(1, Ordering::Relaxed);
    let began = Instant::now();
    let mut touched = false;
    loop {
        let fault = *shared.fault.lock().unwrap();
        let (waits, length) = match fault {
            Fault::None => (false, read),
            Fault::Slow(time) => (began.elapsed() < time, read),
            Fault::BreaksEach(many) => (false, if number.is_multiple_of(many) { 0 } else { read }),
            Fault::CutsEach(many) => {
                let cut = way == Way::FromEtcd && number.is_multiple_of(many);
                (false, if cut { read / 2 } else { read })
            }
            Fault::HoldsQuestions => (way == Way::ToEtcd, read),
            Fault::HoldsAnswers => (way == Way::FromEtcd, read),
            Fault::HoldsAll => (true, read),
        };
        if !touched && (waits || length < read) {
            touched = true;
            shared.affected.fetch_add(1, Ordering::Relaxed);
        }
        if !waits || shared.ended.load(Ordering::Relaxed) {
            return length;
        }
        std::thread::park_timeout(LOOK);
    }
}

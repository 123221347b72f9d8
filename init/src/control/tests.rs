//! Tests of connection limits and order, with the test's own clock.

use super::*;
use crate::sys::socket;
use nix::sys::socket::{UnixAddr, connect};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Fills all slots for users other than root with idle connections, as many of each uid as allowed,
/// each `pause` after the previous one. Also returns the time of the last one.
fn full(name: &str, pause: Duration) -> (Control, Time) {
    let poll = mio::Poll::new().unwrap();
    let path = std::env::temp_dir().join(format!("gs-{name}-{}", std::process::id()));
    let mut control = Control::listen(poll.registry(), path.to_str().unwrap(), || None).unwrap();
    let mut now = Time::from_nanos(1);
    for uid in (1000..).flat_map(|uid| [uid; limit::CLIENTS_OF_A_UID]) {
        if !control.has_room(stranger(uid), now) {
            return (control, now);
        }
        let (stream, _) = UnixStream::pair().unwrap();
        let client = Client::new(stream, stranger(uid), now);
        control.clients.insert(control.next, client);
        control.next += 1;
        now = now.after(pause);
    }
    unreachable!("the number of slots is limited")
}

fn stranger(uid: u32) -> Caller {
    Caller { uid, pid: 0, is_proven: true, trusted: false }
}

const ROOT: Caller = Caller { uid: 0, pid: 0, is_proven: true, trusted: true };

#[test]
fn idle_client_is_evicted_only_after_its_patience() {
    let others = limit::CLIENTS - limit::CLIENTS_FOR_ROOT;
    let (mut control, begin) = full("silent", Duration::ZERO);
    assert_eq!(control.clients.len(), others);
    let (same, another) = (stranger(1000), stranger(5000));
    let soon = begin.after(limit::CLIENT_PATIENCE);
    assert!(!control.has_room(same, soon) && !control.has_room(another, soon));
    assert!(control.has_room(ROOT, soon), "its slots are reserved");
    assert_eq!(control.clients.len(), others, "no client was disconnected for it");
    let late = soon.after(Duration::from_nanos(1));
    for caller in [same, another] {
        assert!(control.has_room(caller, late), "{caller:?}");
        assert_eq!(control.clients.len(), others - 1, "one client was evicted for it");
        let (stream, _) = UnixStream::pair().unwrap();
        control.clients.insert(control.next, Client::new(stream, caller, late));
        control.next += 1;
    }
}

#[test]
fn longest_idle_client_is_evicted_first() {
    let pause = Duration::from_millis(1);
    let (mut control, now) = full("longest", pause);
    let late = now.after(limit::CLIENT_PATIENCE);
    let first = |control: &Control| *control.clients.keys().next().unwrap();
    let oldest = first(&control);
    // A client of the same uid, if that uid is at its limit.
    assert!(control.has_room(stranger(1003), late));
    assert!(control.clients.contains_key(&oldest));
    let own = oldest + 3 * limit::CLIENTS_OF_A_UID;
    assert!(!control.clients.contains_key(&own), "the oldest client of its uid");
    let (stream, _) = UnixStream::pair().unwrap();
    control.clients.insert(own, Client::new(stream, stranger(1003), late));
    // Any client, if all slots are in use. A client that waits for an answer is not idle.
    control.clients.get_mut(&oldest).unwrap().waits.push(1);
    assert!(control.has_room(stranger(5000), late));
    assert!(!control.clients.contains_key(&(oldest + 1)));
    assert!(control.clients.contains_key(&oldest));
}

#[test]
fn client_numbers_in_use_are_skipped_after_a_wrap_around() {
    let last = token::RUNS - 1;
    let taken: BTreeMap<usize, ()> =
        [last, token::CLIENTS, token::CLIENTS + 1].map(|number| (number, ())).into();
    let mut next = last;
    assert_eq!(unused(&mut next, &taken), token::CLIENTS + 2);
    assert_eq!(unused(&mut next, &taken), token::CLIENTS + 3);
    next = last - 1;
    assert_eq!((unused(&mut next, &taken), next), (last - 1, last));
}

#[test]
fn root_is_served_first_and_other_clients_in_rotation() {
    let poll = mio::Poll::new().unwrap();
    let path = std::env::temp_dir().join(format!("gs-order-{}", std::process::id()));
    let mut control = Control::listen(poll.registry(), path.to_str().unwrap(), || None).unwrap();
    for (number, caller) in [(1, stranger(7)), (2, ROOT), (3, stranger(7)), (4, stranger(8))] {
        let (stream, _) = UnixStream::pair().unwrap();
        control.clients.insert(number, Client::new(stream, caller, Time::from_nanos(1)));
    }
    for (served, order) in [(0, [2, 1, 3, 4]), (1, [2, 3, 4, 1]), (3, [2, 4, 1, 3])] {
        control.served = served;
        assert_eq!(control.order(), order);
    }
    // A single long answer does not use up the uid's limit.
    let most = vec![0; limit::UNREAD_OF_A_UID];
    control.clients.get_mut(&3).unwrap().queue(&most);
    assert!(control.has_room_for_answer(stranger(7)));
    // Several clients with large backlogs hold back only their own uid.
    let now = Time::from_nanos(2).after(limit::CLIENT_PATIENCE);
    for number in 5..8 {
        let (stream, _) = UnixStream::pair().unwrap();
        let mut client = Client::new(stream, stranger(7), now);
        client.queue(&most);
        control.clients.insert(number, client);
    }
    let may = |caller| control.has_room_for_answer(caller);
    assert!(!may(stranger(7)) && may(stranger(8)) && may(ROOT));
    // A follower that reads is not disconnected, and a client that waits for room is not late.
    assert!(!control.cut_off_follower(1) && control.cut_off_follower(3));
    for (number, caller) in [(10, stranger(7)), (11, stranger(8))] {
        let (stream, mut other) = UnixStream::pair().unwrap();
        let mut client = Client::new(stream, caller, Time::from_nanos(1));
        other.write_all(b"{").unwrap();
        assert!(matches!(client.line(Time::from_nanos(1), false), client::Line::None));
        assert!(client.is_stuck(now.after(Duration::from_secs(1))));
        control.clients.insert(number, client);
    }
    let later = now.after(Duration::from_secs(1));
    control.reset_time_limits(later);
    let is_stuck = |number: usize| control.clients.get(&number).unwrap().is_stuck(later);
    assert!(!is_stuck(10) && is_stuck(11) && is_stuck(3));
}

#[test]
fn client_with_the_longest_socket_path_is_accepted() {
    let poll = mio::Poll::new().unwrap();
    let directory = std::env::temp_dir();
    let path = directory.join(format!("gs-longest-path-{}", std::process::id()));
    let mut control = Control::listen(poll.registry(), path.to_str().unwrap(), || None).unwrap();
    let now = Time::from_nanos(1);
    let mut callers = Vec::new();
    for former in [false, true] {
        let caller = socket::tests::with_the_longest_path(&directory);
        connect(caller.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        callers.push(caller);
        if former {
            control.listen_again(poll.registry()).unwrap();
        }
        control.accept(poll.registry(), now);
        assert_eq!(control.clients.len(), callers.len());
        assert_eq!((control.rests_until, control.turned_away), (None, 0));
    }
    // A client's line is read; a client without one does not block.
    callers.remove(0).write_all(b"{}\n").unwrap();
    let mut lines = control.clients.values_mut().map(|client| client.line(now, false));
    assert!(matches!(lines.next(), Some(client::Line::Whole(..))));
    assert!(matches!(lines.next(), Some(client::Line::None)));
}

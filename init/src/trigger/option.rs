//! The options of a socket unit's sockets: socket(7), ip(7), ipv6(7), tcp(7), unix(7).

use crate::sys::socket::set_option;
use groundstate_units::trigger::address::Sort;
use groundstate_units::trigger::{Socket, Timestamping, V6Only};
use nix::sys::socket::{setsockopt, sockopt};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

const SOCKET: i32 = libc::SOL_SOCKET;

/// Those that have to be there when the address is taken.
pub(super) fn before_bind(
    opened: &OwnedFd,
    socket: &Socket,
    family: i32,
    sort: Sort,
) -> io::Result<()> {
    let inet = family == libc::AF_INET || family == libc::AF_INET6;
    let set = |wanted: bool, level: i32, name: i32| match wanted {
        true => set_option(opened.as_fd(), level, name, 1),
        false => Ok(()),
    };
    if inet {
        if sort == Sort::Stream {
            set_option(opened.as_fd(), SOCKET, libc::SO_REUSEADDR, 1)?;
        }
        set(socket.reuse_port, SOCKET, libc::SO_REUSEPORT)?;
        set(socket.free_bind, libc::IPPROTO_IP, libc::IP_FREEBIND)?;
        set(socket.transparent, libc::IPPROTO_IP, libc::IP_TRANSPARENT)?;
    }
    if family == libc::AF_INET6 {
        match socket.v6only {
            V6Only::Default => {}
            V6Only::Both => {
                set_option(opened.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
            }
            V6Only::Only => {
                set_option(opened.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
            }
        }
    }
    if let Some(device) = &socket.device {
        setsockopt(opened, sockopt::BindToDevice, &OsString::from(device))?;
    }
    // Before a connection is there, or it would not have them.
    buffer(opened, socket.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
    buffer(opened, socket.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

/// The rest.
pub(super) fn after_bind(opened: &OwnedFd, socket: &Socket, sort: Sort) -> io::Result<()> {
    let fd = opened.as_fd();
    let family = domain(opened)?;
    let (v4, v6) = (family == libc::AF_INET, family == libc::AF_INET6);
    let tcp = (v4 || v6) && sort == Sort::Stream;
    let local = family == libc::AF_UNIX || family == libc::AF_NETLINK;
    let wanted = [
        (socket.keepalive && tcp, SOCKET, libc::SO_KEEPALIVE, 1),
        (socket.broadcast && (v4 || v6), SOCKET, libc::SO_BROADCAST, 1),
        (socket.nodelay && tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (socket.pass_credentials && local, SOCKET, libc::SO_PASSCRED, 1),
        (socket.pass_security && local, SOCKET, libc::SO_PASSSEC, 1),
        (socket.pass_packet_info && (v4 || v6), libc::IPPROTO_IP, libc::IP_PKTINFO, 1),
        (socket.pass_packet_info && v6, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1),
        (
            socket.pass_packet_info && family == libc::AF_NETLINK,
            libc::SOL_NETLINK,
            libc::NETLINK_PKTINFO,
            1,
        ),
        (socket.timestamping == Timestamping::Microseconds, SOCKET, libc::SO_TIMESTAMP, 1),
        (socket.timestamping == Timestamping::Nanoseconds, SOCKET, libc::SO_TIMESTAMPNS, 1),
    ];
    for (wanted, level, name, value) in wanted {
        if wanted {
            set_option(fd, level, name, value)?;
        }
    }
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    if let Some(priority) = socket.priority {
        set_option(fd, SOCKET, libc::SO_PRIORITY, number(priority))?;
    }
    if let Some(mark) = socket.mark {
        set_option(fd, SOCKET, libc::SO_MARK, mark.cast_signed())?;
    }
    if tcp {
        of_tcp(opened, socket)?;
    }
    of_ip(opened, socket, family)
}

/// Of TCP. Connections take them over from the socket they came by.
fn of_tcp(opened: &OwnedFd, socket: &Socket) -> io::Result<()> {
    let seconds = |span: Duration| i32::try_from(span.as_secs()).unwrap_or(i32::MAX).max(1);
    let numbers = [
        (socket.keepalive_time.map(seconds), libc::TCP_KEEPIDLE),
        (socket.keepalive_interval.map(seconds), libc::TCP_KEEPINTVL),
        (socket.keepalive_probes.and_then(|count| i32::try_from(count).ok()), libc::TCP_KEEPCNT),
        (socket.defer_accept.map(seconds), libc::TCP_DEFER_ACCEPT),
    ];
    for (value, name) in numbers {
        if let Some(value) = value {
            set_option(opened.as_fd(), libc::IPPROTO_TCP, name, value)?;
        }
    }
    match &socket.congestion {
        Some(name) => Ok(setsockopt(opened, sockopt::TcpCongestion, &OsString::from(name))?),
        None => Ok(()),
    }
}

/// Of IP. A socket of IPv6 may have connections of both.
fn of_ip(opened: &OwnedFd, socket: &Socket, family: i32) -> io::Result<()> {
    let (v4, v6) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6);
    for (value, level, name) in [
        (socket.tos, v4, libc::IP_TOS),
        (socket.ttl, v4, libc::IP_TTL),
        (socket.tos, v6, libc::IPV6_TCLASS),
        (socket.ttl, v6, libc::IPV6_UNICAST_HOPS),
    ] {
        let is_known = family == libc::AF_INET6 || family == libc::AF_INET && level == v4;
        if let Some(value) = value.and_then(|value| i32::try_from(value).ok()).filter(|_| is_known)
        {
            set_option(opened.as_fd(), level, name, value)?;
        }
    }
    Ok(())
}

fn domain(opened: &OwnedFd) -> io::Result<i32> {
    crate::sys::socket::option(opened.as_fd(), SOCKET, libc::SO_DOMAIN)
}

/// Beyond the system's limit where init may, else up to it.
fn buffer(opened: &OwnedFd, size: Option<u64>, force: i32, ask: i32) -> io::Result<()> {
    let Some(size) = size else { return Ok(()) };
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    match set_option(opened.as_fd(), SOCKET, force, size) {
        Err(_) => set_option(opened.as_fd(), SOCKET, ask, size),
        Ok(()) => Ok(()),
    }
}

/// A FIFO's size, as far as the system allows it (F_SETPIPE_SZ of fcntl(2)).
pub(super) fn pipe(opened: &OwnedFd, socket: &Socket) {
    if let Some(size) = socket.pipe_size.and_then(|size| i32::try_from(size).ok()) {
        let _ = nix::fcntl::fcntl(opened, nix::fcntl::FcntlArg::F_SETPIPE_SZ(size));
    }
}

//! Sockets of units that an image of init before this one had opened, told by their addresses where
//! its state is lost: a service may have them, so that they can not be opened anew, and who waits
//! in them would be turned away. Whose they are, as far as that is written, is [`super::door`]'s.

use crate::sys::memfd;
use crate::sys::socket::unix_name;
use groundstate_units::trigger::Socket;
use groundstate_units::trigger::address::{Address, Listen, Sort};
use nix::fcntl::readlink;
use nix::sys::socket::{SockType, SockaddrStorage, UnixAddr, getsockname, getsockopt, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// It may be one: bound, and nobody's who has connected. Asked of the descriptor, never of what is
/// behind it.
pub(crate) fn may_listen(fd: &OwnedFd) -> bool {
    let Ok(kind) = getsockopt(fd, sockopt::SockType) else {
        return path_of(fd.as_fd()).is_some_and(|path| path.starts_with(b"/"))
            && !memfd::is_memory(fd);
    };
    // The kernel tells by the length alone that one has no name.
    let unix = unix_name(fd);
    let is_bound = unix.is_none_or(|unix| unix.path().is_some() || unix.as_abstract().is_some());
    let connects = matches!(kind, SockType::Stream | SockType::SeqPacket);
    is_bound && (!connects || getsockopt(fd, sockopt::AcceptConn).unwrap_or(false))
}

/// Those of this unit, in its order, if all are among them.
pub(super) fn claim<T: AsFd>(socket: &Socket, all: &mut Vec<T>) -> Option<Vec<T>> {
    let mut places: Vec<usize> = Vec::new();
    for one in &socket.listen {
        let is_free = |(at, fd): &(usize, &T)| !places.contains(at) && is_at(one, fd.as_fd());
        let (at, _) = all.iter().enumerate().find(is_free)?;
        places.push(at);
    }
    let mut taken: Vec<Option<T>> = std::mem::take(all).into_iter().map(Some).collect();
    let claimed = places.into_iter().filter_map(|at| taken.get_mut(at)?.take()).collect();
    all.extend(taken.into_iter().flatten());
    Some(claimed)
}

/// With this one open nobody else can listen to all of that.
pub(super) fn is_in_the_way(socket: &Socket, fd: BorrowedFd<'_>) -> bool {
    let port = || ip_of(fd).map(|(_, port)| port);
    socket.listen.iter().any(|one| match one.address {
        Address::Port(at) | Address::Inet(_, at, _) => port() == Some(at),
        Address::Path(_) | Address::Abstract(_) | Address::Netlink(..) | Address::Vsock(..) => {
            is_at(one, fd)
        }
    })
}

fn ip_of(fd: BorrowedFd<'_>) -> Option<(IpAddr, u16)> {
    let name = getsockname::<SockaddrStorage>(fd.as_raw_fd()).ok()?;
    match (name.as_sockaddr_in(), name.as_sockaddr_in6()) {
        (Some(four), _) => Some((IpAddr::V4(four.ip()), four.port())),
        (None, Some(six)) => Some((IpAddr::V6(six.ip()), six.port())),
        (None, None) => None,
    }
}

fn path_of(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let link = readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()).as_str()).ok()?;
    Some(link.as_bytes().to_vec())
}

fn is_at(one: &Listen, fd: BorrowedFd<'_>) -> bool {
    let kind = match one.sort {
        Sort::Stream => SockType::Stream,
        Sort::Datagram => SockType::Datagram,
        Sort::Seqpacket => SockType::SeqPacket,
        Sort::Fifo | Sort::Special => {
            let is_socket = getsockopt(&fd, sockopt::SockType).is_ok();
            let path = path_of(fd).filter(|_| !is_socket);
            return matches!(&one.address, Address::Path(at) if path.as_deref() == Some(at.as_bytes()));
        }
        // Anybody may have another, and it has no address that tells which protocol it speaks.
        Sort::Netlink => return false,
    };
    if getsockopt(&fd, sockopt::SockType) != Ok(kind) {
        return false;
    }
    let number = fd.as_raw_fd();
    let Ok(name) = getsockname::<SockaddrStorage>(number) else { return false };
    let unix = unix_name(fd);
    let ip = ip_of(fd);
    match &one.address {
        Address::Path(path) => unix.as_ref().and_then(UnixAddr::path) == Some(Path::new(path)),
        Address::Abstract(text) => {
            unix.as_ref().and_then(UnixAddr::as_abstract) == Some(text.as_bytes())
        }
        Address::Port(port) => {
            let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
            any.into_iter().any(|any| ip == Some((any, *port)))
        }
        Address::Inet(at, port, _) => ip == Some((*at, *port)),
        Address::Vsock(cid, port) => name.as_vsock_addr().is_some_and(|vsock| {
            vsock.port() == *port && cid.unwrap_or(libc::VMADDR_CID_ANY) == vsock.cid()
        }),
        Address::Netlink(_, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::trigger::address::parse;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixListener;

    fn at(sort: Sort, text: &str) -> Listen {
        parse(sort, text).unwrap()
    }

    #[test]
    fn a_socket_is_known_by_its_address_and_by_nothing_that_somebody_connected() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let (client, udp) = (
            TcpStream::connect(("127.0.0.1", port)).unwrap(),
            UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let path = std::env::temp_dir().join(format!("again-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let unix = UnixListener::bind(&path).unwrap();
        let accepted = tcp.accept().unwrap().0;
        let text = path.to_str().unwrap().to_string();
        let (tcp, udp, unix): (OwnedFd, OwnedFd, OwnedFd) = (tcp.into(), udp.into(), unix.into());
        let address = format!("127.0.0.1:{port}");
        let is_at = |one: &Listen, fd: &OwnedFd| is_at(one, fd.as_fd());
        assert!(is_at(&at(Sort::Stream, &address), &tcp) && is_at(&at(Sort::Stream, &text), &unix));
        assert!(!is_at(&at(Sort::Datagram, &address), &tcp));
        assert!(!is_at(&at(Sort::Stream, &port.to_string()), &tcp), "it is of one address alone");
        assert!(
            !is_at(&at(Sort::Seqpacket, &text), &unix) && !is_at(&at(Sort::Fifo, &text), &unix)
        );
        assert!([&tcp, &udp, &unix].into_iter().all(may_listen));
        let (client, accepted): (OwnedFd, OwnedFd) = (client.into(), accepted.into());
        let (one, _other) = crate::sys::socket::pair().unwrap();
        assert!(![&client, &accepted, &one].into_iter().any(may_listen));
        assert!(!may_listen(&memfd::create(c"none").unwrap()));
        std::fs::remove_file(&path).unwrap();
    }
}

//! Opens the sockets of one unit, in a child: directories, binds, owners, modes, options, links. It
//! passes the open sockets to PID 1, which itself never opens a network socket and never waits for
//! a disk.

use crate::sys::socket as raw;
use crate::sys::socket::set_option;
use crate::trigger::socket::Answer;
use groundstate_units::spec::Ids;
use groundstate_units::trigger::address::{Address, Listen, Sort};
use groundstate_units::trigger::{Socket, Timestamping, V6Only};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, FcntlArg, OFlag, fcntl, openat, readlinkat};
use nix::sys::socket::{
    Backlog, NetlinkAddr, SockaddrLike, SockaddrStorage, UnixAddr, VsockAddr, bind, connect,
    listen, setsockopt, sockopt,
};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstatat, mkdirat, umask};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, geteuid, mkfifoat, symlinkat, unlinkat};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// Opens all sockets in order, or none on an error, which is the answer to PID 1.
pub(crate) fn all(socket: &Socket, ids: Option<&Ids>) -> Result<Vec<OwnedFd>, Answer> {
    let opener = Opener { socket, ids };
    let broken = |what: String| {
        |error: io::Error| Answer::Broken(what, error.raw_os_error().unwrap_or(libc::EIO))
    };
    // A umask sets the permission bits at creation; fchmod would leave a moment with other bits.
    umask(Mode::from_bits_truncate(!socket.mode & 0o777));
    let mut opened = Vec::new();
    for one in &socket.listen {
        opened.push(opener.open(one).map_err(broken(one.to_string()))?);
    }
    let path = socket.listen.iter().find_map(|one| {
        let Address::Path(path) = &one.address else { return None };
        Some(path)
    });
    for (link, path) in socket.symlinks.iter().zip(path.into_iter().cycle()) {
        opener.link(link, path).map_err(broken(link.clone()))?;
    }
    Ok(opened)
}

/// Removes paths and links (`socket-remove`) if they still have the created kind.
pub(crate) fn remove(socket: &Socket) {
    let remove = |path: &str, created: SFlag| {
        let Ok((parent, name)) = parent(path, None) else { return };
        if kind(&parent, &name).is_ok_and(|kind| kind == created) {
            let _ = unlinkat(&parent, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    };
    for one in &socket.listen {
        let Address::Path(path) = &one.address else { continue };
        remove(path, if one.sort == Sort::Fifo { SFlag::S_IFIFO } else { SFlag::S_IFSOCK });
    }
    socket.symlinks.iter().for_each(|link| remove(link, SFlag::S_IFLNK));
}

/// The type of a socket for socket(2).
fn kind_of(sort: Sort) -> i32 {
    match sort {
        Sort::Stream => libc::SOCK_STREAM,
        Sort::Datagram => libc::SOCK_DGRAM,
        Sort::Seqpacket => libc::SOCK_SEQPACKET,
        Sort::Netlink | Sort::Fifo | Sort::Special => libc::SOCK_RAW,
    }
}

struct Opener<'a> {
    socket: &'a Socket,
    ids: Option<&'a Ids>,
}

impl Opener<'_> {
    fn open(&self, one: &Listen) -> io::Result<OwnedFd> {
        match (&one.address, one.sort) {
            (Address::Path(path), Sort::Fifo) => self.fifo(path),
            (Address::Path(path), Sort::Special) => self.special(path),
            (Address::Path(path), _) => self.unix(one.sort, path),
            (Address::Abstract(name), _) => {
                let address = UnixAddr::new_abstract(name.as_bytes())?;
                self.bound(one.sort, libc::AF_UNIX, 0, &address)
            }
            (Address::Port(port), _) => self.port(one.sort, *port),
            (Address::Inet(IpAddr::V4(ip), port, _), _) => {
                self.inet(one.sort, SocketAddrV4::new(*ip, *port).into())
            }
            (Address::Inet(IpAddr::V6(ip), port, scope), _) => {
                let scope = scope.as_deref().map_or(Ok(0), scope_number)?;
                self.inet(one.sort, SocketAddrV6::new(*ip, *port, 0, scope).into())
            }
            (Address::Netlink(family, group), _) => {
                let address = NetlinkAddr::new(0, *group);
                self.bound(one.sort, libc::AF_NETLINK, *family, &address)
            }
            (Address::Vsock(cid, port), _) => {
                let address = VsockAddr::new(cid.unwrap_or(libc::VMADDR_CID_ANY), *port);
                self.bound(one.sort, libc::AF_VSOCK, 0, &address)
            }
        }
    }

    fn fresh(&self, sort: Sort, family: i32, protocol: i32) -> io::Result<OwnedFd> {
        let opened = raw::open(family, kind_of(sort), protocol)?;
        before_bind(&opened, self.socket, family, sort)?;
        Ok(opened)
    }

    fn bound(
        &self,
        sort: Sort,
        family: i32,
        protocol: i32,
        address: &dyn SockaddrLike,
    ) -> io::Result<OwnedFd> {
        let opened = self.fresh(sort, family, protocol)?;
        bind(opened.as_raw_fd(), address)?;
        self.listening(sort, family, opened)
    }

    fn listening(&self, sort: Sort, family: i32, opened: OwnedFd) -> io::Result<OwnedFd> {
        after_bind(&opened, self.socket, family, sort)?;
        if sort.connects() {
            let most = i32::try_from(self.socket.backlog).unwrap_or(i32::MAX);
            listen(&opened, Backlog::new(most.min(libc::SOMAXCONN.max(4096)))?)?;
        }
        Ok(opened)
    }

    fn port(&self, sort: Sort, port: u16) -> io::Result<OwnedFd> {
        let everywhere = |ip: IpAddr| self.inet(sort, SocketAddr::new(ip, port));
        match everywhere(Ipv6Addr::UNSPECIFIED.into()) {
            // The kernel or a sandbox provides no IPv6.
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
                ) =>
            {
                everywhere(Ipv4Addr::UNSPECIFIED.into())
            }
            made => made,
        }
    }

    fn inet(&self, sort: Sort, address: SocketAddr) -> io::Result<OwnedFd> {
        let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        self.bound(sort, family, 0, &SockaddrStorage::from(address))
    }

    fn unix(&self, sort: Sort, path: &str) -> io::Result<OwnedFd> {
        let (parent, name) = parent(path, Some(self.socket.directory_mode))?;
        let opened = self.fresh(sort, libc::AF_UNIX, 0)?;
        let address = UnixAddr::new(path)?;
        match bind(opened.as_raw_fd(), &address) {
            Err(Errno::EADDRINUSE) if self.is_stale(sort, &parent, &name, &address) => {
                unlinkat(&parent, name.as_str(), UnlinkatFlags::NoRemoveDir)?;
                bind(opened.as_raw_fd(), &address)?;
            }
            bound => bound?,
        }
        // The kernel resolved the path again in bind(2): check that it led to the same place.
        if kind(&parent, &name)? != SFlag::S_IFSOCK {
            return Err(Errno::EACCES.into());
        }
        self.own(&parent, &name)?;
        self.listening(sort, libc::AF_UNIX, opened)
    }

    /// Returns true for a socket file on which no process listens any more. Other files are never
    /// stale.
    fn is_stale(&self, sort: Sort, parent: &OwnedFd, name: &str, address: &UnixAddr) -> bool {
        if !matches!(kind(parent, name), Ok(SFlag::S_IFSOCK)) {
            return false;
        }
        let Ok(probe) = raw::open(libc::AF_UNIX, kind_of(sort), 0) else { return false };
        let flags = OFlag::O_NONBLOCK;
        let _ = fcntl(&probe, FcntlArg::F_SETFL(flags));
        matches!(connect(probe.as_raw_fd(), address), Err(Errno::ECONNREFUSED))
    }

    /// Sets the owner of the new file, and the mode bits that a umask cannot set.
    fn own(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        if let Some(ids) = self.ids {
            let (uid, gid) = (ids.uid.map(Uid::from_raw), ids.gid.map(Gid::from_raw));
            fchownat(parent, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        // For a socket the kernel checks only these bits; a default ACL of the directory may have
        // overridden the umask.
        let mode = Mode::from_bits_truncate(self.socket.mode);
        match fchmodat(parent, name, mode, FchmodatFlags::NoFollowSymlink) {
            // Before Linux 6.6 no call avoids following a link, so the kind is checked first.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                if kind(parent, name)? == SFlag::S_IFLNK {
                    return Err(Errno::EACCES.into());
                }
                Ok(fchmodat(parent, name, mode, FchmodatFlags::FollowSymlink)?)
            }
            done => Ok(done?),
        }
    }

    fn fifo(&self, path: &str) -> io::Result<OwnedFd> {
        let (parent, name) = parent(path, Some(self.socket.directory_mode))?;
        match mkfifoat(&parent, name.as_str(), Mode::from_bits_truncate(self.socket.mode)) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlag::O_RDWR | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = openat(&parent, name.as_str(), flags, Mode::empty())?;
        let stat = nix::sys::stat::fstat(&opened)?;
        if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFIFO {
            return Err(Errno::EEXIST.into());
        }
        self.own(&parent, &name)?;
        pipe(&opened, self.socket);
        blocking(&opened)?;
        Ok(opened)
    }

    fn special(&self, path: &str) -> io::Result<OwnedFd> {
        let access = if self.socket.writable { OFlag::O_RDWR } else { OFlag::O_RDONLY };
        let flags = access | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let opened = nix::fcntl::open(path, flags, Mode::empty())?;
        let stat = nix::sys::stat::fstat(&opened)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFCHR && kind != SFlag::S_IFREG {
            return Err(Errno::EEXIST.into());
        }
        // PID 1 polls this file, and a FUSE server might not answer.
        if fstatfs(&opened)?.filesystem_type() == FUSE_SUPER_MAGIC {
            return Err(Errno::ENOTSUP.into());
        }
        blocking(&opened)?;
        Ok(opened)
    }

    /// Creates a link. An existing link is replaced; any other file is left alone.
    fn link(&self, link: &str, path: &str) -> io::Result<()> {
        let (parent, name) = parent(link, Some(self.socket.directory_mode))?;
        match symlinkat(path, &parent, name.as_str()) {
            Err(Errno::EEXIST) if kind(&parent, &name)? == SFlag::S_IFLNK => {
                unlinkat(&parent, name.as_str(), UnlinkatFlags::NoRemoveDir)?;
                Ok(symlinkat(path, &parent, name.as_str())?)
            }
            made => Ok(made?),
        }
    }
}

/// Makes the descriptor blocking, as services expect.
fn blocking(opened: &OwnedFd) -> io::Result<()> {
    let flags = OFlag::from_bits_truncate(fcntl(opened, FcntlArg::F_GETFL)?);
    fcntl(opened, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
    Ok(())
}

/// The number of a network interface, by name or number.
fn scope_number(scope: &str) -> io::Result<u32> {
    if let Ok(number) = scope.parse() {
        return Ok(number);
    }
    let text = std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex"));
    let number = text.ok().and_then(|text| text.trim().parse().ok());
    number.ok_or_else(|| Errno::ENODEV.into())
}

/// Discards the pending data of a descriptor (`socket-flush`). Runs in a child.
pub(crate) fn flush(one: &Listen, opened: BorrowedFd<'_>) {
    const MOST: usize = 1_024;
    let flags = fcntl(opened, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    let Ok(flags) = flags else { return };
    if fcntl(opened, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).is_err() {
        return;
    }
    let mut buffer = [0; 4_096];
    for _ in 0..MOST {
        let more = if one.sort.connects() {
            raw::accept(opened).map(drop)
        } else {
            match nix::unistd::read(opened, &mut buffer) {
                // A datagram may be empty; for a file, 0 bytes mean its end.
                Ok(0) if one.sort == Sort::Special => Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        if more.is_err() {
            break;
        }
    }
    let _ = fcntl(opened, FcntlArg::F_SETFL(flags));
}

// Options of sockets: socket(7), ip(7), ipv6(7), tcp(7), unix(7)

const SOCKET: i32 = libc::SOL_SOCKET;

/// Sets the options that must be set before bind(2).
fn before_bind(opened: &OwnedFd, socket: &Socket, family: i32, sort: Sort) -> io::Result<()> {
    let inet = family == libc::AF_INET || family == libc::AF_INET6;
    let wanted = [
        (inet && sort == Sort::Stream, SOCKET, libc::SO_REUSEADDR),
        (inet && socket.reuse_port, SOCKET, libc::SO_REUSEPORT),
        (inet && socket.free_bind, libc::IPPROTO_IP, libc::IP_FREEBIND),
        (inet && socket.transparent, libc::IPPROTO_IP, libc::IP_TRANSPARENT),
    ];
    enable(opened, &wanted)?;
    if family == libc::AF_INET6 {
        let alone = i32::from(socket.v6only == V6Only::Only);
        if socket.v6only != V6Only::Default {
            set_option(opened.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, alone)?;
        }
    }
    if let Some(device) = &socket.device {
        setsockopt(opened, sockopt::BindToDevice, &OsString::from(device))?;
    }
    // Before any connection exists, because connections inherit them.
    buffer(opened, socket.receive_buffer, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
    buffer(opened, socket.send_buffer, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
}

/// Turns on those options that are wanted.
fn enable(opened: &OwnedFd, options: &[(bool, i32, i32)]) -> io::Result<()> {
    let mut wanted = options.iter().filter(|(wanted, _, _)| *wanted);
    wanted.try_for_each(|(_, level, name)| set_option(opened.as_fd(), *level, *name, 1))
}

/// Sets the other options.
fn after_bind(opened: &OwnedFd, socket: &Socket, family: i32, sort: Sort) -> io::Result<()> {
    let fd = opened.as_fd();
    let (v4, v6) = (family == libc::AF_INET, family == libc::AF_INET6);
    let tcp = (v4 || v6) && sort == Sort::Stream;
    let local = family == libc::AF_UNIX || family == libc::AF_NETLINK;
    let packets = socket.pass_packet_info;
    let wanted = [
        (socket.keepalive && tcp, SOCKET, libc::SO_KEEPALIVE),
        (socket.broadcast && (v4 || v6), SOCKET, libc::SO_BROADCAST),
        (socket.nodelay && tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY),
        (socket.pass_credentials && local, SOCKET, libc::SO_PASSCRED),
        (socket.pass_security && local, SOCKET, libc::SO_PASSSEC),
        (packets && (v4 || v6), libc::IPPROTO_IP, libc::IP_PKTINFO),
        (packets && v6, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        (packets && family == libc::AF_NETLINK, libc::SOL_NETLINK, libc::NETLINK_PKTINFO),
        (socket.timestamping == Timestamping::Microseconds, SOCKET, libc::SO_TIMESTAMP),
        (socket.timestamping == Timestamping::Nanoseconds, SOCKET, libc::SO_TIMESTAMPNS),
    ];
    enable(opened, &wanted)?;
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

/// Sets the options of TCP. Connections inherit them from the listening socket.
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

/// Sets the options of IP. An IPv6 socket may have connections of both families.
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

/// Sets a buffer size, above the system's limit if init may, else up to it.
fn buffer(opened: &OwnedFd, size: Option<u64>, force: i32, ask: i32) -> io::Result<()> {
    let Some(size) = size else { return Ok(()) };
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    match set_option(opened.as_fd(), SOCKET, force, size) {
        Err(_) => set_option(opened.as_fd(), SOCKET, ask, size),
        Ok(()) => Ok(()),
    }
}

/// Sets the size of a FIFO, as far as the system allows (F_SETPIPE_SZ of fcntl(2)).
fn pipe(opened: &OwnedFd, socket: &Socket) {
    if let Some(size) = socket.pipe_size.and_then(|size| i32::try_from(size).ok()) {
        let _ = nix::fcntl::fcntl(opened, nix::fcntl::FcntlArg::F_SETPIPE_SZ(size));
    }
}

// Resolves a path on which a file is to be created, and creates missing directories. It opens each
// directory in turn and follows a symbolic link only if the link belongs to root or to init's own
// user. So no other user can redirect the creation. Runs in children of PID 1, because these calls
// may wait for a disk.

/// Links on one path; the kernel's own limit (path_resolution(7)).
const LINKS: usize = 40;
/// Components of one path, including those of links.
const PARTS: usize = 4_096;

/// Opens the directory that contains a path and returns it with the last component. With `make`,
/// missing directories are created with those permission bits.
fn parent(path: &str, make: Option<u32>) -> io::Result<(OwnedFd, String)> {
    let trimmed = path.trim_end_matches('/');
    let (dirs, last) = trimmed.rsplit_once('/').ok_or(Errno::EINVAL)?;
    if last.is_empty() || last == "." || last == ".." {
        return Err(Errno::EINVAL.into());
    }
    Ok((directory(dirs, make)?, last.to_string()))
}

/// Opens the directory `path`; with `make`, missing directories are created.
pub(super) fn directory(path: &str, make: Option<u32>) -> io::Result<OwnedFd> {
    let mut left: VecDeque<OsString> = parts(path.as_bytes());
    let mut way = vec![root()?];
    let (mut links, mut steps) = (0, 0);
    while let Some(part) = left.pop_front() {
        steps += 1;
        if steps > PARTS {
            return Err(Errno::ENAMETOOLONG.into());
        }
        if part.as_bytes() == b".." {
            if way.len() > 1 {
                way.pop();
            }
            continue;
        }
        let Some(here) = way.last() else { return Err(Errno::ENOENT.into()) };
        let step = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let found = match openat(here, part.as_os_str(), step, Mode::empty()) {
            Err(Errno::ENOENT) if make.is_some() => {
                let mode = Mode::from_bits_truncate(make.unwrap_or(0o755));
                // The umask is for the socket itself, not for its directories.
                let before = umask(Mode::empty());
                let made = mkdirat(here, part.as_os_str(), mode);
                umask(before);
                match made {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(here, part.as_os_str(), step, Mode::empty())?
            }
            found => found?,
        };
        let stat = nix::sys::stat::fstat(&found)?;
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => way.push(found),
            SFlag::S_IFLNK => {
                links += 1;
                if links > LINKS {
                    return Err(Errno::ELOOP.into());
                }
                if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
                    return Err(Errno::EACCES.into());
                }
                let target = readlinkat(&found, "")?.into_vec();
                if target.starts_with(b"/") {
                    way = vec![root()?];
                }
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
            }
            _ => return Err(Errno::ENOTDIR.into()),
        }
    }
    way.pop().ok_or_else(|| Errno::ENOENT.into())
}

fn root() -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open("/", flags, Mode::empty())?)
}

fn parts(path: &[u8]) -> VecDeque<OsString> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(part, [] | [b'.']));
    parts.map(|part| OsString::from_vec(part.to_vec())).collect()
}

/// The file type of the entry with that name, without following links.
fn kind(parent: &OwnedFd, name: &str) -> io::Result<SFlag> {
    let stat = fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    Ok(SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT)
}

#[cfg(test)]
mod safe_mkdir_path_tests {
    use super::*;

    #[test]
    fn missing_directories_are_created_and_own_links_followed() {
        let dir = std::env::temp_dir().join(format!("gs-way-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::symlink("real", dir.join("link")).unwrap();
        std::fs::create_dir(dir.join("real")).unwrap();
        let path = format!("{}/link/a/../b/x.sock", dir.display());
        let (parent, last) = parent(&path, Some(0o755)).unwrap();
        assert_eq!(last, "x.sock");
        assert!(dir.join("real/b").is_dir());
        assert!(kind(&parent, "x.sock").is_err());
        assert!(super::parent(&format!("{}/none/x", dir.display()), None).is_err());
        std::os::unix::fs::symlink("loop", dir.join("loop")).unwrap();
        let looped = super::parent(&format!("{}/loop/x", dir.display()), None).unwrap_err();
        assert_eq!(looped.raw_os_error(), Some(libc::ELOOP));
        std::fs::remove_dir_all(dir).unwrap();
    }
}

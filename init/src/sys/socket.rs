//! Unix sockets that carry descriptors and credentials: to the logger (SEQPACKET) and from services
//! (the notify socket). unix(7), cmsg(3).
//!
//! Each received descriptor becomes owned at once, so none leaks whatever the caller does. Nothing
//! here blocks, except [`accept`] on a blocking socket.

use crate::sys::no_linger::{InterruptTimer, close_without_linger};
use crate::sys::{Pid, check, device, inbox};
use mio::net::UnixStream;
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, SockaddrStorage, UnixAddr,
    getsockname, getsockopt, sendmsg, setsockopt, socketpair, sockopt,
};
use std::io::{self, IoSlice};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Descriptors of one message: the kernel's limit (SCM_MAX_FD).
const DESCRIPTORS: usize = 253;

/// A received message.
#[derive(Debug)]
pub(crate) struct Received {
    /// Bytes written to the buffer. On a stream or SEQPACKET socket, 0 means that the peer is
    /// closed. (An empty SEQPACKET message looks the same, but none of ours is empty.)
    pub length: usize,
    /// True if the message was longer than the buffer or carried too many descriptors. The kernel
    /// has dropped the excess.
    pub truncated: bool,
    /// The passed descriptors.
    pub fds: Vec<OwnedFd>,
    /// The sender, if SO_PASSCRED is set.
    pub peer: Option<Peer>,
}

/// A pair of connected SEQPACKET sockets, CLOEXEC and non-blocking.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?)
}

/// A new blocking socket, CLOEXEC.
pub(crate) fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes numbers.
    let fd = check(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: a fresh descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Accepts the next connection, CLOEXEC. Blocks if the listening socket does.
pub(crate) fn accept(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    accept_with(socket, 0)
}

/// Accepts from a socket with a path; the connection does not block. It does not ask for the peer's
/// path: the length of a 108-byte path exceeds its buffer, on which mio's own `accept` panics.
pub(crate) fn accept_stream(socket: BorrowedFd<'_>) -> io::Result<UnixStream> {
    accept_with(socket, libc::SOCK_NONBLOCK).map(UnixStream::from)
}

fn accept_with(socket: BorrowedFd<'_>, flags: i32) -> io::Result<OwnedFd> {
    let (none, length) = (std::ptr::null_mut(), std::ptr::null_mut());
    let flags = flags | libc::SOCK_CLOEXEC;
    // SAFETY: accept4(2) takes null if the address is not wanted.
    let fd = check(unsafe { libc::accept4(socket.as_raw_fd(), none, length, flags) })?;
    // SAFETY: a fresh descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The name of a unix socket. Returns `None` for other sockets and for a 108-byte path. For that
/// path the kernel reports a length greater than the size of an address. `getsockname::<UnixAddr>`
/// would copy that many bytes and write beyond its own address.
pub(crate) fn unix_name(socket: impl AsFd) -> Option<UnixAddr> {
    let name = getsockname::<SockaddrStorage>(socket.as_fd().as_raw_fd()).ok()?;
    name.as_unix_addr().copied()
}

/// Sets an option that is a number.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    name: i32,
    value: i32,
) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<i32>()).unwrap_or(0);
    // SAFETY: the kernel reads the 4 bytes of `value`.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length)
    };
    check(result).map(drop)
}

/// The control data of a message, aligned as cmsghdr(3) requires.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

const CONTROL: usize = space(DESCRIPTORS * size_of::<RawFd>()) + space(size_of::<libc::ucred>());

const _: () = assert!(CONTROL <= crate::sys::inbox::CONTROL_ROOM);

/// Sends one message with up to [`DESCRIPTORS`] descriptors; never blocks. `WouldBlock` means that
/// nothing was sent; retry when it is writable. `ETOOMANYREFS` means too many descriptors in flight
/// for this user.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let numbers: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control = if numbers.is_empty() { &[] } else { rights.as_slice() };
    let (part, flags) = ([IoSlice::new(bytes)], MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &part, control, flags, None) {
            Err(Errno::EINTR) => {}
            sent => return Ok(sent?),
        }
    }
}

/// Returns true if the peer is gone. ECONNRESET means that it left messages unread; the kernel
/// reports that only once.
pub(crate) fn is_over(got: &io::Result<Received>) -> bool {
    let is_reset = |error: &io::Error| error.raw_os_error() == Some(libc::ECONNRESET);
    got.as_ref().map_or_else(is_reset, |got| got.length == 0)
}

/// Receives one message; never blocks (`WouldBlock`).
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    receive_with(socket, buffer, CONTROL, 0)
}

/// Reads the next message without removing it; its descriptors are duplicates. `WouldBlock` means
/// that there are no more.
pub(crate) fn look(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    receive_with(socket, buffer, CONTROL, libc::MSG_PEEK)
}

/// Makes urgent bytes (MSG_OOB) ordinary bytes of the stream (SO_OOBINLINE of socket(7)). Otherwise
/// a receive skips them and closes their descriptors, and a peek does not show them.
pub(crate) fn keep_urgent_bytes(stream: BorrowedFd<'_>) -> io::Result<()> {
    set_option(stream, libc::SOL_SOCKET, libc::SO_OOBINLINE, 1)
}

/// Receives bytes of a stream with at most `most` of their descriptors; the kernel closes the
/// others. For a socket without credentials, and with [`keep_urgent_bytes`] if it is a stream.
pub(crate) fn receive_some(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    most: usize,
) -> io::Result<Received> {
    // Without room for control data, the flags tell whether descriptors come with the bytes.
    let next = receive_with(socket, buffer, 0, libc::MSG_PEEK)?;
    if next.truncated {
        // The kernel closes excess descriptors in this call.
        return close_without_linger(|| receive_with(socket, buffer, room_for(most), 0));
    }
    receive_with(socket, buffer.get_mut(..next.length).unwrap_or_default(), 0, 0)
}

/// The control data size for so many descriptors; at most [`CONTROL`] minus the credentials, which
/// come first. Not rounded up, because the kernel would fill the rounding with another descriptor.
fn room_for(most: usize) -> usize {
    let descriptors = HEAD + most.min(DESCRIPTORS) * size_of::<RawFd>();
    if most == 0 { 0 } else { descriptors }
}

/// The control data size for credentials.
const CREDENTIALS: usize = space(size_of::<libc::ucred>());

/// `room`: size of the control data, at most [`CONTROL`]. `how`: flags of recvmsg(2).
fn receive_with(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    room: usize,
    how: libc::c_int,
) -> io::Result<Received> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; CONTROL]);
    let mut message = header(&mut control, room);
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC | how;
    // SAFETY: `message` points at buffers that live past the call and are valid for writing.
    let receive = || unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let length = uninterrupted(receive)?;
    // SAFETY: the kernel has filled the header.
    Ok(unsafe { received(&message, length) })
}

/// A message header that has `room` bytes of control data, and no other buffer.
fn header(control: &mut Control, room: usize) -> libc::msghdr {
    // SAFETY: msghdr is plain data; all zeroes is a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = room.min(CONTROL) as _;
    message
}

/// The message that the kernel has received with this header; `length` bytes are in the buffer.
///
/// # Safety
/// The control data is valid and new: each of its descriptors becomes owned.
unsafe fn received(message: &libc::msghdr, length: usize) -> Received {
    let truncated = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    let (control, written) = (message.msg_control.cast::<u8>(), message.msg_controllen);
    // SAFETY: by the contract of this function; no control data is longer.
    let (numbers, peer) =
        parse(unsafe { std::slice::from_raw_parts(control, written.min(CONTROL)) });
    // Always true. The check shows the compiler that `from_raw_fd` does not panic.
    let owned = numbers.into_iter().filter(|number| *number >= 0).map(|number| {
        // SAFETY: a fresh descriptor that the kernel installed for this process.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        do_not_linger(&fd);
        fd
    });
    Received { length, truncated, fds: owned.collect(), peer }
}

/// Returns true if the next message has descriptors. Fails with `WouldBlock` without a message.
fn carries_descriptors(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let mut control = Control([0; CONTROL]);
    let mut message = header(&mut control, CREDENTIALS);
    let flags = libc::MSG_DONTWAIT | libc::MSG_PEEK;
    // SAFETY: `message` points at a buffer that lives past the call and is valid for writing.
    let receive = || unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    uninterrupted(receive)?;
    Ok(message.msg_flags & libc::MSG_CTRUNC != 0)
}

/// Repeats a call that a signal has interrupted.
fn uninterrupted(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match usize::try_from(call()).map_err(|_| io::Error::last_os_error()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            got => return got,
        }
    }
}

/// Like [`receive_some`], for a datagram socket. The kernel writes the datagram into the inbox, so
/// that a crash does not lose it.
pub(crate) fn receive_into_inbox(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    most: usize,
) -> io::Result<Received> {
    let room = CREDENTIALS + room_for(most);
    let Some(hand) = inbox::message_in_hand() else {
        return close_without_linger(|| receive_with(socket, buffer, room, 0));
    };
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    let _timer = carries_descriptors(socket)?.then(InterruptTimer::begin);
    // SAFETY: the header and all it points at lie in memory that stays mapped and is used only
    // here; the kernel also writes the length of the message there.
    unsafe {
        (*hand.header).msg_len = 0;
        (*hand.header).msg_hdr.msg_controllen = room as _;
    }
    // SAFETY: one message, as above; without a timeout.
    let receive = || unsafe {
        libc::recvmmsg(socket.as_raw_fd(), hand.header, 1, flags as _, std::ptr::null_mut()) as _
    };
    uninterrupted(receive)?;
    // SAFETY: as above; the kernel has written it.
    let header = unsafe { &mut *hand.header };
    // SAFETY: the kernel has filled the header.
    let got = unsafe { received(&header.msg_hdr, (header.msg_len as usize).min(buffer.len())) };
    let taken = buffer.get_mut(..got.length).unwrap_or_default();
    // SAFETY: the kernel wrote that many bytes there.
    unsafe { std::ptr::copy_nonoverlapping(hand.bytes, taken.as_mut_ptr(), taken.len()) };
    if let Some(peer) = got.peer.filter(|_| !got.truncated) {
        inbox::record_message(peer.pid.as_raw(), taken);
    }
    header.msg_len = 0;
    Ok(got)
}

/// Disables SO_LINGER: otherwise closing the last descriptor of a socket would block as long as its
/// sender decided (socket(7)). No effect on other files.
fn do_not_linger(fd: &OwnedFd) {
    let _ = setsockopt(fd, sockopt::Linger, &libc::linger { l_onoff: 0, l_linger: 0 });
}

// Control data of unix sockets: the kernel's struct cmsghdr, read and written as bytes. cmsg(3),
// unix(7). Descriptors are plain numbers here.
//
// Reading is total: it never reads beyond the given bytes.

/// Credentials of the sender of a message, or those that the kernel recorded at connect(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Process; 0 when it is outside this pid namespace.
    pub pid: Pid,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Size of the header of each part.
const HEAD: usize = 16;
const _: () = assert!(size_of::<libc::cmsghdr>() == HEAD && size_of::<usize>() == 8);
const _: () = assert!(offset_of!(libc::cmsghdr, cmsg_level) == 8);
const _: () = assert!(offset_of!(libc::cmsghdr, cmsg_type) == 12);

/// CMSG_SPACE: header and data, each rounded up to the word.
const fn space(bytes: usize) -> usize {
    HEAD + bytes.next_multiple_of(8)
}

/// The descriptors and the sender in the control data. Each part starts with its length (u64), its
/// level and its type. Ends at the first invalid part; incomplete numbers are ignored.
fn parse(control: &[u8]) -> (Vec<RawFd>, Option<Peer>) {
    let (mut fds, mut peer, mut rest) = (Vec::new(), None, control);
    while let Some(length) = rest.first_chunk().copied().map(usize::from_ne_bytes) {
        let length = length.min(rest.len());
        let (words, _) = rest.get(..length).unwrap_or_default().as_chunks();
        let words: Vec<i32> = words.iter().copied().map(i32::from_ne_bytes).collect();
        match words.as_slice() {
            [_, _, libc::SOL_SOCKET, libc::SCM_RIGHTS, numbers @ ..] => {
                fds.extend(numbers.iter().copied().filter(|number| *number >= 0));
            }
            // struct ucred.
            [_, _, libc::SOL_SOCKET, libc::SCM_CREDENTIALS, pid, uid, gid, ..] => {
                let (uid, gid) = (uid.cast_unsigned(), gid.cast_unsigned());
                peer = Some(Peer { pid: Pid::from_raw(*pid), uid, gid });
            }
            [_, _, _, _, ..] => {}
            _ => break,
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    (fds, peer)
}

// Credentials of the process that made a connection: unix(7). The kernel records them at
// connect(2), so passing the connection on, or reusing the pid, changes nothing.
// [`crate::base::credentials`] derives the rights of a caller from them.

/// PIDFD_GET_USER_NAMESPACE of linux/pidfd.h (Linux 6.11): _IO(0xff, 9).
const GET_USER_NAMESPACE: libc::c_ulong = 0xff09;
/// NS_GET_OWNER_UID of linux/nsfs.h (Linux 4.11): _IO(0xb7, 4).
const GET_OWNER_UID: libc::c_ulong = 0xb704;
/// Supplementary groups of a process (NGROUPS_MAX of Linux).
const GROUPS_MAX: usize = 65_536;

/// The credentials of the peer at its connect.
pub(crate) fn credentials_of_peer(socket: impl AsFd) -> io::Result<Peer> {
    let found = getsockopt(&socket, sockopt::PeerCredentials)?;
    Ok(Peer { pid: Pid::from_raw(found.pid()), uid: found.uid(), gid: found.gid() })
}

/// A pidfd of the process that connected, even if its pid was reused (SO_PEERPIDFD). Returns `None`
/// if the kernel cannot give one (before Linux 6.5) or init has no free descriptor. An error means
/// that the process is gone.
pub(crate) fn process_of_peer(socket: impl AsFd) -> nix::Result<Option<OwnedFd>> {
    match getsockopt(&socket, sockopt::PeerPidfd) {
        Ok(process) => Ok(Some(process)),
        Err(error @ (Errno::ESRCH | Errno::EINVAL)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The user namespace of a process: device and inode of its nsfs file. Fails with ENOTTY or EINVAL
/// before Linux 6.11, and with ESRCH once the process is reaped.
pub(crate) fn user_namespace(process: impl AsFd) -> io::Result<(u64, u64)> {
    // SAFETY: this ioctl takes no argument and gives a fresh descriptor.
    let fd = check(unsafe { libc::ioctl(process.as_fd().as_raw_fd(), GET_USER_NAMESPACE, 0) })?;
    // SAFETY: the descriptor is fresh and has no other owner; the kernel sets CLOEXEC.
    let namespace = unsafe { OwnedFd::from_raw_fd(fd) };
    let found = nix::sys::stat::fstat(&namespace)?;
    Ok((found.st_dev, found.st_ino))
}

/// The owner of this process's user namespace, as a uid in that namespace.
pub(crate) fn own_namespace_owner() -> io::Result<u32> {
    let namespace = std::fs::File::open("/proc/self/ns/user")?;
    device::number_by(&namespace, GET_OWNER_UID, 0).map(i32::cast_unsigned)
}

/// Supplementary groups of the peer at its connect (SO_PEERGROUPS, Linux 4.13). Empty if the kernel
/// does not tell.
pub(crate) fn groups_of_peer(socket: impl AsFd) -> Vec<u32> {
    let mut groups = vec![0u32; GROUPS_MAX];
    let mut length = libc::socklen_t::try_from(size_of::<u32>() * groups.len()).unwrap_or(0);
    // SAFETY: the kernel writes at most `length` bytes to `groups`, and to `length` what it wrote
    // (or, with ERANGE, what it would need).
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let count = if result == 0 { length as usize / size_of::<u32>() } else { 0 };
    groups.truncate(count);
    groups
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// A socket in this directory with the longest possible path: 108 bytes without a terminator
    /// (unix(7)).
    pub(crate) fn with_the_longest_path(directory: &Path) -> std::os::unix::net::UnixStream {
        let fd = open(libc::AF_UNIX, libc::SOCK_STREAM, 0).unwrap();
        let room = 108 - directory.as_os_str().len() - 1;
        let path = directory.join("x".repeat(room));
        let _ = std::fs::remove_file(&path);
        // SAFETY: zeroes are an address without a path.
        let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (byte, one) in address.sun_path.iter_mut().zip(path.as_os_str().as_bytes()) {
            *byte = libc::c_char::from_ne_bytes([*one]);
        }
        let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: the kernel reads that many bytes of `address`.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) }).unwrap();
        std::fs::remove_file(&path).unwrap();
        fd.into()
    }

    #[test]
    #[cfg_attr(miri, ignore = "getsockname")]
    fn socket_name_longer_than_its_buffer_is_not_returned() {
        let longest = with_the_longest_path(&std::env::temp_dir());
        assert_eq!(unix_name(&longest).and_then(|name| name.path().map(Path::to_owned)), None);
        let (unnamed, _) = pair().unwrap();
        assert!(unix_name(&unnamed).is_some_and(|name| name.is_unnamed()));
        let other = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(unix_name(&other), None);
        let named = nix::sys::socket::socket(
            AddressFamily::Unix,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            None,
        );
        let name = UnixAddr::new_abstract(&[b'x'; 107]).unwrap();
        let named = named.unwrap();
        nix::sys::socket::bind(named.as_raw_fd(), &name).unwrap();
        assert_eq!(unix_name(&named), Some(name), "the longest name that fits is returned");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sendmsg")]
    fn descriptors_arrive_owned_and_in_order() {
        let (ours, theirs) = pair().unwrap();
        let (mut read, write) = io::pipe().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send(ours.as_fd(), b"two", &[write.as_fd(), null.as_fd()]).unwrap();
        drop(write);
        let mut buffer = [0; 16];
        let mut got = receive(theirs.as_fd(), &mut buffer).unwrap();
        assert_eq!((&buffer[..got.length], got.truncated, got.fds.len()), (&b"two"[..], false, 2));
        let mut write = std::fs::File::from(got.fds.remove(0));
        write.write_all(b"x").unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    #[cfg_attr(miri, ignore = "sendmsg")]
    fn linger_of_a_received_connection_is_disabled() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let sent = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        setsockopt(&sent, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 3600 }).unwrap();
        let (ours, theirs) = pair().unwrap();
        send(ours.as_fd(), b"x", &[sent.as_fd()]).unwrap();
        let got = receive(theirs.as_fd(), &mut [0; 4]).unwrap();
        assert_eq!(nix::sys::socket::getsockopt(&got.fds[0], sockopt::Linger).unwrap().l_onoff, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "setsockopt")]
    fn message_with_dropped_descriptors_keeps_its_sender_and_counts_as_truncated() {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        setsockopt(&theirs, sockopt::PassCred, &true).unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send(ours.as_fd(), b"x", &[null.as_fd()]).unwrap();
        let got = receive_into_inbox(theirs.as_fd(), &mut [0; 4], 0).unwrap();
        assert_eq!((got.length, got.truncated, got.fds.len()), (1, true, 0));
        assert_eq!(got.peer.unwrap().pid, nix::unistd::getpid());
        // Neither an odd nor an even number is rounded.
        let (one, other) = pair().unwrap();
        for most in [0, 1, 2, 3] {
            send(ours.as_fd(), b"x", &[null.as_fd(); 4]).unwrap();
            let got = receive_into_inbox(theirs.as_fd(), &mut [0; 4], most).unwrap();
            assert_eq!((got.truncated, got.fds.len()), (true, most));
            send(one.as_fd(), b"x", &[null.as_fd(); 4]).unwrap();
            let got = receive_some(other.as_fd(), &mut [0; 4], most).unwrap();
            assert_eq!((got.truncated, got.fds.len()), (true, most), "without credentials");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "sendmsg")]
    fn as_many_descriptors_as_the_kernel_allows_pass_and_more_are_refused() {
        let (ours, theirs) = pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let many = vec![null.as_fd(); DESCRIPTORS];
        send(ours.as_fd(), b"x", &many).unwrap();
        assert_eq!(receive(theirs.as_fd(), &mut [0; 4]).unwrap().fds.len(), DESCRIPTORS);
        let more = vec![null.as_fd(); DESCRIPTORS + 1];
        assert!(send(ours.as_fd(), b"x", &more).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "recvmsg")]
    fn socket_calls_do_not_wait_for_the_peer() {
        let (ours, theirs) = pair().unwrap();
        let empty = receive(theirs.as_fd(), &mut [0; 4]).unwrap_err();
        assert_eq!(empty.kind(), io::ErrorKind::WouldBlock);
        let full = loop {
            if let Err(error) = send(ours.as_fd(), &[7; 4096], &[]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    #[cfg_attr(miri, ignore = "setsockopt")]
    fn truncated_datagram_is_marked_and_keeps_its_sender() {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        setsockopt(&theirs, sockopt::PassCred, &true).unwrap();
        ours.send(b"0123456789").unwrap();
        ours.send(b"").unwrap();
        let got = receive(theirs.as_fd(), &mut [0; 4]).unwrap();
        assert_eq!((got.length, got.truncated), (4, true));
        assert_eq!(got.peer.unwrap().pid, nix::unistd::getpid());
        let empty = receive(theirs.as_fd(), &mut [0; 4]).unwrap();
        assert_eq!((empty.length, empty.truncated), (0, false));
    }

    /// A part as the kernel writes it, with the given length field.
    fn part(length: usize, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([libc::SOL_SOCKET, kind].into_iter().flat_map(i32::to_ne_bytes));
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0xee);
        bytes
    }

    fn of(kind: i32, ints: &[i32]) -> Vec<u8> {
        let data: Vec<u8> = ints.iter().flat_map(|number| number.to_ne_bytes()).collect();
        part(HEAD + data.len(), kind, &data)
    }

    #[test]
    fn control_data_of_the_kernel_is_parsed() {
        let sender = Peer { pid: Pid::from_raw(7), uid: u32::MAX, gid: 9 };
        let bytes = [
            of(libc::SCM_CREDENTIALS, &[7, -1, 9]),
            of(0x7777, &[1, 2, 3]),
            of(libc::SCM_RIGHTS, &[3, 4, 5]),
        ]
        .concat();
        assert_eq!(parse(&bytes), (vec![3, 4, 5], Some(sender)));
        // The last part is not rounded up if there is no room.
        assert_eq!(parse(&bytes[..bytes.len() - 4]), (vec![3, 4, 5], Some(sender)));
    }

    #[test]
    fn control_data_with_a_wrong_length_is_read_within_its_bounds() {
        let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
        for length in [24, 25, 32, 1 << 20, usize::MAX - 7, usize::MAX] {
            let bytes = part(length, libc::SCM_RIGHTS, &numbers);
            assert_eq!(parse(&bytes), (vec![3, 4], None), "{length}");
        }
        for length in [0, 1, 15] {
            assert_eq!(parse(&part(length, libc::SCM_RIGHTS, &numbers)), (vec![], None));
        }
        // Incomplete numbers and an incomplete sender are ignored.
        assert_eq!(parse(&part(HEAD + 6, libc::SCM_RIGHTS, &numbers)).0, [3]);
        assert_eq!(parse(&of(libc::SCM_RIGHTS, &[-1, i32::MIN, 5])).0, [5]);
        assert_eq!(parse(&of(libc::SCM_CREDENTIALS, &[7, 8])), (vec![], None));
    }

    #[test]
    fn any_control_data_is_parsed_within_its_bounds() {
        let whole =
            [of(libc::SCM_CREDENTIALS, &[7, 8, 9]), of(libc::SCM_RIGHTS, &[3, 4, 5])].concat();
        for length in 0..whole.len() {
            assert!(parse(&whole[..length]).0.len() <= 3);
            // Alignment does not matter.
            parse(whole.get(length..).unwrap());
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bytes).0.len() <= 10);
        }
        for byte in [0, 1, 255] {
            parse(&[byte; 333]);
        }
    }
}

#[cfg(test)]
mod peer_tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "getsockopt")]
    fn groups_of_a_peer_are_those_of_its_process() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = nix::unistd::getgroups().unwrap();
        let mut own: Vec<u32> = own.iter().map(|group| group.as_raw()).collect();
        let mut seen = groups_of_peer(&ours);
        own.sort_unstable();
        seen.sort_unstable();
        assert_eq!(own, seen);
    }
}

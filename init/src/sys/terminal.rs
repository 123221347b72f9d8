//! The ioctls of consoles, terminals and the loopback device.

use super::check;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// linux/kd.h: the caller gets the signal for Alt-Up.
const KDSIGACCEPT: libc::c_ulong = 0x4B4E;

/// Makes Alt-Up on the virtual console `console` send `signal` to this process.
pub(crate) fn accept_keyboard_request(console: BorrowedFd<'_>, signal: u8) -> io::Result<()> {
    // SAFETY: KDSIGACCEPT takes a number (ioctl_console(2)).
    let result =
        unsafe { libc::ioctl(console.as_raw_fd(), KDSIGACCEPT as _, libc::c_ulong::from(signal)) };
    check(result).map(drop)
}

/// Makes the terminal the controlling one of this session leader. With `force`, root may take it
/// from another session. ioctl_tty(2).
pub(crate) fn take(terminal: BorrowedFd<'_>, force: bool) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes a number.
    let result = unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY as _, libc::c_ulong::from(force))
    };
    check(result).map(drop)
}

/// Disconnects all processes that have the terminal open, including the caller (vhangup(2) of any
/// terminal).
pub(crate) fn hang_up(terminal: BorrowedFd<'_>) -> io::Result<()> {
    const TIOCVHANGUP: libc::c_ulong = 0x5437;
    // SAFETY: TIOCVHANGUP takes no argument.
    check(unsafe { libc::ioctl(terminal.as_raw_fd(), TIOCVHANGUP as _) }).map(drop)
}

/// Ends exclusive mode, and sets a virtual console to text mode. Errors are ignored: not every
/// terminal supports both.
pub(crate) fn make_plain(terminal: BorrowedFd<'_>) {
    const KDSETMODE: libc::c_ulong = 0x4B3A;
    const KD_TEXT: libc::c_ulong = 0;
    // SAFETY: both take numbers at most.
    unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCNXCL as _);
        libc::ioctl(terminal.as_raw_fd(), KDSETMODE as _, KD_TEXT);
    }
}

/// Brings up the device `lo`. netdevice(7).
pub(crate) fn loopback_up() -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: ifreq is plain data; all zeroes is a value of it.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::try_from(*from).unwrap_or(0);
    }
    // SAFETY: `request` is a valid ifreq with a terminated name, for reading and writing.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) })?;
    // SAFETY: SIOCGIFFLAGS filled this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or(0);
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: as above.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) })
        .map(drop)
}

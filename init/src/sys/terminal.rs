//! The ioctls of a machine's consoles and of its loopback device.

use super::check;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// linux/kd.h: the signal for Ctrl-Alt-Up goes to the caller.
const KDSIGACCEPT: libc::c_ulong = 0x4B4E;

/// Ctrl-Alt-Up on the virtual console `console` sends `signal` to this process.
pub(crate) fn accept_keyboard_request(console: BorrowedFd<'_>, signal: u8) -> io::Result<()> {
    // SAFETY: KDSIGACCEPT takes a number (ioctl_console(2)).
    let result =
        unsafe { libc::ioctl(console.as_raw_fd(), KDSIGACCEPT as _, libc::c_ulong::from(signal)) };
    check(result).map(drop)
}

/// Brings the device `lo` up. netdevice(7).
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

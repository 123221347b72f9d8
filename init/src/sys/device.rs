//! System calls on devices: those that release devices in the final unmount (swapoff(2), loop(4),
//! device mapper), and the ioctls of the watchdog, of pipes, consoles, terminals and the loopback
//! device. It also writes utmp records.

use crate::sys::check;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// LOOP_CLR_FD of linux/loop.h.
const LOOP_CLEAR: libc::c_ulong = 0x4c01;
/// WDIOC_SETTIMEOUT of linux/watchdog.h: _IOWR('W', 6, int).
const WATCHDOG_TIMEOUT: libc::c_ulong = 0xc004_5706;
/// Bytes of struct dm_ioctl of linux/dm-ioctl.h.
const MAPPER: usize = 312;
/// DM_DEV_REMOVE: _IOWR(0xfd, 4, struct dm_ioctl).
const MAPPER_REMOVE: libc::c_ulong = 0xc138_fd04;
/// The place of the name in it, with the terminator.
const MAPPER_NAME: std::ops::Range<usize> = 48..176;

/// Disables a swap space.
pub(crate) fn swap_off(path: &CStr) -> io::Result<()> {
    // SAFETY: swapoff(2) reads the path, which is terminated.
    check(unsafe { libc::swapoff(path.as_ptr()) }).map(drop)
}

/// An ioctl that takes a number, or nothing.
fn command(device: impl AsFd, request: libc::c_ulong, number: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the requests here take numbers; the kernel ignores a surplus one.
    let result = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), request as _, number) };
    check(result).map(drop)
}

/// An ioctl that takes an int or returns one in its place.
pub(super) fn number_by(device: impl AsFd, request: libc::c_ulong, number: i32) -> io::Result<i32> {
    let mut number = number;
    // SAFETY: the kernel reads and writes one int, which outlives the call.
    let result = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), request as _, &raw mut number) };
    check(result).map(|_| number)
}

/// Detaches the file of a loop device. A device in use loses it with its last user.
pub(crate) fn loop_clear(device: impl AsFd) -> io::Result<()> {
    command(device, LOOP_CLEAR, 0)
}

/// Removes a mapped device. `control` is /dev/mapper/control.
pub(crate) fn unmap(control: impl AsFd, name: &str) -> io::Result<()> {
    let too_long = || io::Error::from_raw_os_error(libc::ENAMETOOLONG);
    let mut request = removal(name).ok_or_else(too_long)?;
    let fd = control.as_fd().as_raw_fd();
    // SAFETY: the request is as long as it says, and outlives the call, which writes into it.
    check(unsafe { libc::ioctl(fd, MAPPER_REMOVE, request.as_mut_ptr()) }).map(drop)
}

/// The request to remove this device. Returns `None` if the name is too long.
fn removal(name: &str) -> Option<[u8; MAPPER]> {
    let mut request = [0u8; MAPPER];
    let mut put = |at: usize, number: u32| {
        if let Some(place) = request.get_mut(at..at + 4) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
    };
    // Version 4.0.0; the total size; the offset of the data.
    put(0, 4);
    put(12, 312);
    put(16, 312);
    let room = request.get_mut(MAPPER_NAME)?.get_mut(..name.len())?;
    if name.len() >= MAPPER_NAME.len() {
        return None;
    }
    room.copy_from_slice(name.as_bytes());
    Some(request)
}

/// The number of unread bytes in a pipe.
pub(crate) fn unread(pipe: impl AsFd) -> io::Result<i32> {
    number_by(pipe, libc::FIONREAD as _, 0)
}

/// Sets the watchdog's timeout in seconds. Returns the timeout that it accepted.
pub(crate) fn watchdog_timeout(device: impl AsFd, seconds: i32) -> io::Result<i32> {
    number_by(device, WATCHDOG_TIMEOUT, seconds)
}

// The ioctls of consoles, terminals and the loopback device.

/// linux/kd.h: the caller gets the signal for Alt-Up.
const KDSIGACCEPT: libc::c_ulong = 0x4B4E;

/// Makes Alt-Up on the virtual console `console` send `signal` to this process: ioctl_console(2).
pub(crate) fn accept_keyboard_request(console: BorrowedFd<'_>, signal: u8) -> io::Result<()> {
    command(console, KDSIGACCEPT, signal.into())
}

/// Makes the terminal the controlling one of this session leader. With `force`, root may take it
/// from another session. ioctl_tty(2).
pub(crate) fn take(terminal: BorrowedFd<'_>, force: bool) -> io::Result<()> {
    command(terminal, libc::TIOCSCTTY as _, force.into())
}

/// Releases the controlling terminal of this session leader, so that another session can take it.
/// The kernel sends SIGHUP and SIGCONT to the foreground processes.
pub(crate) fn release(terminal: impl AsFd) -> io::Result<()> {
    command(terminal, libc::TIOCNOTTY as _, 0)
}

/// Disconnects all processes that have the terminal open, including the caller (vhangup(2) of any
/// terminal).
pub(crate) fn hang_up(terminal: BorrowedFd<'_>) -> io::Result<()> {
    const TIOCVHANGUP: libc::c_ulong = 0x5437;
    command(terminal, TIOCVHANGUP, 0)
}

/// Ends exclusive mode, and sets a virtual console to text mode. Errors are ignored: not every
/// terminal supports both.
pub(crate) fn make_plain(terminal: BorrowedFd<'_>) {
    const KDSETMODE: libc::c_ulong = 0x4B3A;
    const KD_TEXT: libc::c_ulong = 0;
    let _ = command(terminal, libc::TIOCNXCL as _, 0);
    let _ = command(terminal, KDSETMODE, KD_TEXT);
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

// Writes utmp(5) records with the C library's functions. They read and lock a file, so only
// children of PID 1 use them.

/// Writes a record: a terminal waits for a login (`begins`), or the login has ended.
pub(crate) fn record(id: &str, line: &str, pid: i32, begins: bool) {
    // SAFETY: utmpx is plain data; all zeroes is a value of it.
    let mut entry: libc::utmpx = unsafe { std::mem::zeroed() };
    entry.ut_type = if begins { libc::INIT_PROCESS } else { libc::DEAD_PROCESS };
    entry.ut_pid = pid;
    fill(&mut entry.ut_id, id);
    fill(&mut entry.ut_line, line);
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = seconds.map(|since| since.as_secs()).unwrap_or_default();
    entry.ut_tv.tv_sec = seconds.try_into().unwrap_or_default();
    // SAFETY: `entry` is a whole record; this process has one thread.
    unsafe {
        libc::setutxent();
        libc::pututxline(&raw const entry);
        libc::endutxent();
    }
}

fn fill(to: &mut [libc::c_char], from: &str) {
    for (to, from) in to.iter_mut().zip(from.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_device_name_must_fit_its_request() {
        let request = removal("vg-root").unwrap();
        assert_eq!(&request[MAPPER_NAME][..8], b"vg-root\0");
        assert_eq!(u32::from_ne_bytes(request[12..16].try_into().unwrap()), 312);
        let longest = removal(&"x".repeat(127)).unwrap();
        assert_eq!((longest[174], longest[175], longest[176]), (b'x', 0, 0));
        for length in [128, 129, 312, 5000] {
            assert!(removal(&"x".repeat(length)).is_none());
        }
    }
}

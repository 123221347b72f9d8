//! The last of the file systems: everything is written, swap spaces are given up, each mount is
//! taken away from the last to the first, loop and mapped devices are let go, in rounds, until a
//! round changes nothing. What is busy then is made read-only.
//!
//! All of it in children of PID 1: a dead disk or a server that does not answer holds the one
//! that asks it, for [`limit::UNMOUNT_ONE`], and nobody else.

use crate::shutdown::console;
use crate::sys::{Pid, device, process, signal, wait};
use crate::watchdog::Watchdog;
use crate::{clock, limit, mounted};
use groundstate_units::spec::Exit;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::time::Duration;

const KILL: u8 = 9;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// What the end itself stands on, with what the kernel has mounted below it.
const KEPT: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// The initramfs's own, who takes it apart itself.
const INITRAMFS: &str = "/run/initramfs";

/// Does it all in a child, and waits as long as something moves.
pub(crate) fn with_deadline(mut watchdog: Option<&mut Watchdog>) {
    let Ok(child) = process::fork(&[], all) else { return by_the_kernel(watchdog) };
    let last = clock::now().after(limit::FINAL_SYNC_LONGEST);
    let mut until = clock::now().after(limit::FINAL_SYNC);
    let mut least = unwritten();
    loop {
        let now = clock::now();
        if now >= until || now >= last {
            break;
        }
        if let Some(watchdog) = &mut watchdog {
            watchdog.feed(now);
        }
        match wait::reap(child) {
            Ok(None) => std::thread::sleep(PAUSE),
            Ok(Some(_)) | Err(_) => return,
        }
        let left = unwritten();
        if left < least {
            least = left;
            until = now.after(limit::FINAL_SYNC);
        }
    }
    console("not all file systems could be synced in time");
}

/// No process is to be had: workers of the kernel write everything and make it read-only, and
/// nobody waits but for time. See sysrq.rst of the kernel.
fn by_the_kernel(mut watchdog: Option<&mut Watchdog>) {
    for key in ["s", "u"] {
        if let Err(error) = fs::write("/proc/sysrq-trigger", key) {
            console(&format!("file systems can not be synced: {error}"));
        }
    }
    let until = clock::now().after(limit::FINAL_SYNC);
    while unwritten() > 0 && clock::now() < until {
        if let Some(watchdog) = &mut watchdog {
            watchdog.feed(clock::now());
        }
        std::thread::sleep(PAUSE);
    }
}

/// KiB that are not on their disks yet.
fn unwritten() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    let those =
        text.lines().filter(|line| line.starts_with("Dirty:") || line.starts_with("Writeback:"));
    those.filter_map(number).sum()
}

/// How one piece of work went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    Well,
    Badly,
    /// It waits still, and may for ever.
    Nowhere,
}

/// In a child of this child, for so long at most.
fn patiently(patience: Duration, work: impl FnOnce() -> bool) -> Went {
    let Ok(child) = process::fork(&[], || u8::from(!work())) else { return Went::Badly };
    let until = clock::now().after(patience);
    loop {
        match wait::reap(child) {
            Ok(None) if clock::now() < until => std::thread::sleep(PAUSE),
            Ok(None) => return give_up(child),
            Ok(Some(ended)) if ended.exit == Exit::Code(0) => return Went::Well,
            Ok(Some(_)) | Err(_) => return Went::Badly,
        }
    }
}

fn give_up(child: Pid) -> Went {
    // One that can not be killed is left.
    let _ = signal::kill(child, KILL);
    Went::Nowhere
}

/// The whole work; the status of the child.
fn all() -> u8 {
    let sync = || {
        nix::unistd::sync();
        true
    };
    if patiently(limit::FINAL_SYNC_LONGEST, sync) == Went::Nowhere {
        return 1;
    }
    let mut given_up = BTreeSet::new();
    for _ in 0..limit::UNMOUNT_ROUNDS {
        if !round(&mut given_up) {
            break;
        }
    }
    let mut left = points();
    left.retain(|(id, _)| !given_up.contains(id));
    for (id, point) in left.into_iter().rev() {
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        let read_only = || mount(None::<&str>, point.as_str(), None::<&str>, flags, None::<&str>);
        let went = patiently(limit::UNMOUNT_ONE, || read_only().is_ok());
        if went == Went::Nowhere {
            given_up.insert(id);
        }
        if went != Went::Well || point != "/" {
            let how = if went == Went::Well { "made read-only" } else { "busy" };
            console(&format!("{point} stays mounted: {how}"));
        }
    }
    let _ = patiently(limit::FINAL_SYNC, sync);
    u8::from(!given_up.is_empty())
}

/// True: something went away, so that something else may now.
fn round(given_up: &mut BTreeSet<String>) -> bool {
    let mut progress = false;
    for path in swaps() {
        progress |= patiently(limit::FINAL_SYNC, || device::swap_off(&path).is_ok()) == Went::Well;
    }
    for (id, point) in points().into_iter().rev() {
        if point == "/" || given_up.contains(&id) {
            continue;
        }
        let flags = MntFlags::UMOUNT_NOFOLLOW;
        match patiently(limit::UNMOUNT_ONE, || umount2(point.as_str(), flags).is_ok()) {
            Went::Well => progress = true,
            Went::Badly => {}
            Went::Nowhere => {
                console(&format!("{point} does not answer"));
                given_up.insert(id);
            }
        }
    }
    progress
        | let_go("loop", "loop/backing_file", |name, _| {
            let device = open(format!("/dev/{name}").as_str(), OFlag::O_CLOEXEC, Mode::empty());
            device.is_ok_and(|device| device::loop_clear(device).is_ok())
        })
        | let_go("dm-", "dm/name", |_, mapped| {
            let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
            let control = open("/dev/mapper/control", flags, Mode::empty());
            control.is_ok_and(|control| device::unmap(control, mapped).is_ok())
        })
}

/// Block devices whose name begins so and that have this file.
fn let_go(prefix: &str, mark: &str, work: impl Fn(&str, &str) -> bool) -> bool {
    let mut progress = false;
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(prefix) {
            continue;
        }
        let Ok(text) = fs::read_to_string(entry.path().join(mark)) else { continue };
        let went = patiently(limit::UNMOUNT_ONE, || work(&name, text.trim_end()));
        // A loop device that is in use goes with its last user: that is no progress yet.
        progress |= went == Went::Well && !entry.path().join(mark).exists();
    }
    progress
}

/// Number and place of each mount, the first mounted first.
fn points() -> Vec<(String, String)> {
    points_of(&mounted::table().unwrap_or_default())
}

fn points_of(table: &str) -> Vec<(String, String)> {
    let is_at_or_below = |point: &str, top: &str| {
        point.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    // A disk somebody has plugged in is below /run too.
    let is_kept = |point: &str, holds_data: bool| {
        let stands = |kept: &str| is_at_or_below(point, kept) && (point == kept || !holds_data);
        KEPT.iter().any(|kept| stands(kept)) || is_at_or_below(point, INITRAMFS)
    };
    let all = mounted::places(table).map(|(id, at, data)| (id.to_string(), unescape(at), data));
    all.filter(|(_, point, data)| !is_kept(point, *data)).map(|(id, at, _)| (id, at)).collect()
}

fn swaps() -> Vec<CString> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let paths = table.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().next());
    paths.filter_map(|path| CString::new(unescape(path)).ok()).collect()
}

/// `\040` and the like, see proc_pid_mountinfo(5).
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_mount_point_with_a_space_is_read_as_it_is() {
        assert_eq!(unescape(r"/mnt/a\040b\134c"), r"/mnt/a b\c");
        assert_eq!(unescape(r"/plain\"), r"/plain\");
    }

    #[test]
    fn a_disk_below_run_is_taken_away_and_what_the_kernel_has_there_is_not() {
        let table = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            23 22 0:21 / /run rw - tmpfs tmpfs rw\n\
            24 23 8:17 / /run/media/ann/stick rw - vfat /dev/sdb1 rw\n\
            25 23 0:22 / /run/user/1000 rw - tmpfs tmpfs rw\n\
            26 22 0:5 / /dev rw - devtmpfs udev rw\n\
            27 26 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
            28 23 7:0 / /run/initramfs/live ro - squashfs /dev/loop0 ro\n\
            31 22 0:42 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n\
            29 22 0:40 / /srv rw - tmpfs tmpfs rw\n\
            30 23 0:41 / /run/far rw - nfs4 server:/x rw\n";
        let points: Vec<String> = points_of(table).into_iter().map(|(_, at)| at).collect();
        assert_eq!(points, ["/", "/run/media/ann/stick", "/srv", "/run/far"]);
    }

    #[test]
    fn who_does_not_come_back_is_given_up() {
        let begun = Instant::now();
        let went = patiently(Duration::from_millis(20), || {
            nix::unistd::pause();
            true
        });
        assert_eq!(went, Went::Nowhere);
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
}

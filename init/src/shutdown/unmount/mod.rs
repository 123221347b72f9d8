//! The final unmount. It syncs, disables swap, unmounts each mount once nothing is mounted on it,
//! and releases loop and mapped devices, until nothing more can be released. Busy file systems are
//! then remounted read-only. File systems of this machine come first, then remote ones.
//!
//! Children of a child of PID 1 do this in parallel ([`rounds`]). The work continues after
//! [`limit::UNMOUNT_ONE`] without a child that has not returned. At the end it waits for such
//! children while something moves (a slow disk may have much to write), in total up to
//! [`limit::UNMOUNT_LONGEST`]. It reports those that have not returned.

mod rounds;

use self::rounds::{Patience, Reading, Rounds, Task};
use crate::base::mount_table::Mount;
use crate::base::{clock, limit, mount_table};
use crate::shutdown::console;
use crate::shutdown::watchdog::Watchdog;
use crate::sys::{device, process, wait};
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Mount points that the end itself needs, with the kernel's mounts below them.
const KEPT: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// Mounts of the initramfs, which releases them itself.
const INITRAMFS: &str = "/run/initramfs";

/// Pauses between two checks.
fn pause() {
    clock::pause(limit::UNMOUNT_PAUSE);
}

/// Does all of it in a child, with a limit for each step.
pub(crate) fn with_deadline(mut watchdog: Option<&mut Watchdog>) {
    let Ok(child) = process::fork(&[], all) else { return by_the_kernel(watchdog) };
    let until = clock::now().after(limit::FINAL_LONGEST);
    while clock::now() < until {
        if let Some(watchdog) = &mut watchdog {
            watchdog.feed(clock::now());
        }
        match wait::reap(child) {
            Ok(None) => pause(),
            Ok(Some(_)) | Err(_) => return,
        }
    }
    console("not all file systems could be synced in time");
}

/// Without a child, lets kernel workers sync and remount read-only, and waits for a limited time.
/// See sysrq.rst of the kernel.
fn by_the_kernel(mut watchdog: Option<&mut Watchdog>) {
    for key in ["s", "u"] {
        if let Err(error) = fs::write("/proc/sysrq-trigger", key) {
            console(&format!("cannot sync file systems: {error}"));
        }
    }
    let until = clock::now().after(limit::FINAL_STILL);
    while unwritten() > 0 && clock::now() < until {
        if let Some(watchdog) = &mut watchdog {
            watchdog.feed(clock::now());
        }
        pause();
    }
}

/// KiB that are not written yet.
fn unwritten() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let number = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    let those =
        text.lines().filter(|line| line.starts_with("Dirty:") || line.starts_with("Writeback:"));
    those.filter_map(number).sum()
}

/// Reads progress indicators from the kernel.
fn reading() -> Reading {
    let text = fs::read_to_string("/proc/diskstats").unwrap_or_default();
    // Counts finished reads and writes, but no waiting requests. See iostats.rst of the kernel.
    let done = text.lines().map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (reads, writes) = (fields.nth(3), fields.nth(3));
        let number = |field: Option<&str>| field?.parse::<u64>().ok();
        number(reads).unwrap_or(0).wrapping_add(number(writes).unwrap_or(0))
    });
    Reading { unwritten: unwritten(), done: done.fold(0, u64::wrapping_add) }
}

/// Runs in the child; returns its exit status. File systems of this machine are handled first, so
/// that unresponsive remote ones do not affect them.
fn all() -> u8 {
    let rounds = &mut Rounds::begin(Patience::USUAL, reading);
    rounds.go_on(sync, |rounds| rounds.moves() && rounds.age() < limit::FINAL_SYNC_LONGEST);
    if rounds.is_under_way(SYNC) {
        console("not all file systems could be synced in time");
    }
    let is_new = |rounds: &Rounds| rounds.has_young() && !rounds.is_over();
    take_away(rounds, false, is_new);
    take_away(rounds, true, is_new);
    for of in rounds.left() {
        console(&format!("waiting for {of}"));
    }
    take_away(rounds, true, Rounds::moves);
    tell_of_the_left(rounds);
    read_only_by_force(rounds);
    let writes = |rounds: &Rounds| rounds.is_under_way(SYNC);
    rounds.go_on(sync, |rounds| writes(rounds) && (rounds.has_young() || rounds.moves()));
    let is_done = rounds.left().next().is_none();
    rounds.give_up();
    u8::from(!is_done)
}

const SYNC: &str = "sync";

fn sync() -> Vec<Task> {
    let work = || {
        nix::unistd::sync();
        false
    };
    vec![Task { id: SYNC.into(), of: "sync".into(), work: Box::new(work) }]
}

/// Releases as much as possible and remounts the rest read-only.
fn take_away(rounds: &mut Rounds, of_others: bool, waits: impl Fn(&Rounds) -> bool) {
    rounds.go_on(|| departures(of_others), waits);
    let left = || points(of_others).into_iter().filter(|point| !point.is_read_only);
    let made = |point: Point| {
        let at = point.at.clone();
        let work = move || {
            // A remount releases nothing.
            let _ = read_only(&at);
            false
        };
        point.task(work)
    };
    rounds.go_on(|| left().map(made).collect(), Rounds::has_young);
}

/// Writable disks of this machine, as far as they respond.
fn busy_disks(rounds: &Rounds) -> Vec<Point> {
    let mut disks = points(false);
    disks.retain(|it| it.is_disk && !it.is_read_only && !rounds.is_under_way(&it.id));
    disks
}

fn tell_of_the_left(rounds: &Rounds) {
    for of in rounds.left() {
        console(&format!("{of} does not respond"));
    }
    let is_said = |it: &Point| rounds.is_under_way(&it.id) || (it.is_read_only && it.at == "/");
    for point in points(true).into_iter().filter(|point| !is_said(point)) {
        let how = if point.is_read_only { "made read-only" } else { "busy" };
        console(&format!("{} stays mounted: {how}", point.at.display()));
    }
}

/// Last resort for a disk that an unkillable process writes to: a kernel worker remounts all file
/// systems read-only. See sysrq.rst of the kernel.
fn read_only_by_force(rounds: &mut Rounds) {
    if busy_disks(rounds).is_empty() || fs::write("/proc/sysrq-trigger", "u").is_err() {
        return;
    }
    let until = clock::now().after(limit::UNMOUNT_ONE);
    rounds.go_on(Vec::new, |rounds| clock::now() < until && !busy_disks(rounds).is_empty());
    if busy_disks(rounds).is_empty() {
        console("busy file systems were remounted read-only");
    }
}

fn read_only(point: &OsStr) -> bool {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    let none = None::<&str>;
    mount(none, point, none, flags, none).is_ok()
}

/// The work that is possible now: mounts without mounts on them, and devices. A busy one is refused
/// until something else is released.
fn departures(of_others: bool) -> Vec<Task> {
    let table = mount_table::table().unwrap_or_default();
    let is_laid_over = mount_table::is_laid_over(&table);
    let away = |point: Point| {
        let at = point.at.clone();
        // A layer of an overlay that is unmounted is still in use.
        let is_read_only_first = is_laid_over && point.is_disk && !point.is_read_only;
        point.task(move || {
            let is_fit = !is_read_only_first || read_only(&at);
            is_fit && umount2(at.as_os_str(), MntFlags::UMOUNT_NOFOLLOW).is_ok()
        })
    };
    let points = points_of(&table, of_others).into_iter();
    let mut tasks: Vec<Task> =
        points.filter(|point| point.is_bare && point.at != "/").map(away).collect();
    tasks.extend(swaps().into_iter().map(|path| {
        let of = path.to_string_lossy().into_owned();
        let work = Box::new(move || device::swap_off(&path).is_ok());
        Task { id: format!("swap {of}"), of, work }
    }));
    tasks.extend(blocks("loop", "loop/backing_file").into_iter().map(|(name, _, mark)| {
        let path = format!("/dev/{name}");
        let work = Box::new(move || {
            let device = open(path.as_str(), OFlag::O_CLOEXEC, Mode::empty());
            let is_let_go = device.is_ok_and(|device| device::loop_clear(device).is_ok());
            // A device in use is released by its last user, so there is no progress yet.
            is_let_go && !mark.exists()
        });
        Task { id: name.clone(), of: name, work }
    }));
    tasks.extend(blocks("dm-", "dm/name").into_iter().map(|(name, mapped, _)| {
        let work = Box::new(move || {
            let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
            let control = open("/dev/mapper/control", flags, Mode::empty());
            control.is_ok_and(|control| device::unmap(control, mapped.trim_end()).is_ok())
        });
        Task { id: name.clone(), of: name, work }
    }));
    tasks
}

/// Block devices with this name prefix and this file, with the file's content.
fn blocks(prefix: &str, mark: &str) -> Vec<(String, String, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let mark = entry.path().join(mark);
        if name.starts_with(prefix)
            && let Ok(text) = fs::read_to_string(&mark)
        {
            found.push((name, text, mark));
        }
    }
    found
}

/// The relevant properties of a mount.
struct Point {
    id: String,
    at: OsString,
    is_disk: bool,
    is_read_only: bool,
    /// True if nothing is mounted on it.
    is_bare: bool,
}

impl Point {
    fn task(self, work: impl FnOnce() -> bool + 'static) -> Task {
        Task { id: self.id, of: self.at.display().to_string(), work: Box::new(work) }
    }
}

/// Mounts of this machine, or all, the last one mounted first.
fn points(of_others: bool) -> Vec<Point> {
    points_of(&mount_table::table().unwrap_or_default(), of_others)
}

fn points_of(table: &[u8], of_others: bool) -> Vec<Point> {
    let is_at_or_below = |point: &OsStr, top: &str| Path::new(point).starts_with(top);
    // A user may have mounted a disk below /run too.
    let is_kept = |point: &OsStr, holds_data: bool| {
        let stands = |kept: &str| is_at_or_below(point, kept) && (point == kept || !holds_data);
        KEPT.iter().any(|kept| stands(kept)) || is_at_or_below(point, INITRAMFS)
    };
    let is_chosen = |mount: &Mount<'_>| {
        (of_others || mount.is_of_here()) && !is_kept(&mount.at, mount.holds_data())
    };
    let below: BTreeSet<&str> = mount_table::mounts(table).map(|mount| mount.parent).collect();
    let point = |mount: Mount<'_>| Point {
        is_disk: mount.is_disk(),
        is_read_only: mount.is_read_only(),
        is_bare: !below.contains(mount.id),
        id: mount.id.to_string(),
        at: mount.at,
    };
    let mut all: Vec<Point> = mount_table::mounts(table).filter(is_chosen).map(point).collect();
    all.reverse();
    all
}

fn swaps() -> Vec<CString> {
    let table = fs::read("/proc/swaps").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    let paths = paths.filter(|path| !path.is_empty());
    paths.filter_map(|path| CString::new(mount_table::unescape(path).into_vec()).ok()).collect()
}

#[cfg(test)]
mod tests;

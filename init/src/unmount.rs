//! The last of the file systems: everything is written, swap spaces are given up, each mount is
//! taken away from the last to the first, loop and mapped devices are let go, in rounds, until a
//! round changes nothing. What is busy then is made read-only. First all that is of this machine, then
//! what others answer for.
//!
//! All of it in children of PID 1, one for each file system, at one time: dead disks and servers that do not
//! answer hold who asks them for [`limit::UNMOUNT_ONE`], however many they are, and all of it together for
//! [`limit::UNMOUNT_ALL`] beyond the sync.

use crate::mounted::Mount;
use crate::shutdown::console;
use crate::sys::{Pid, device, process, signal, wait};
use crate::watchdog::Watchdog;
use crate::{clock, limit, mounted};
use groundstate_units::spec::Exit;
use groundstate_units::time::Time;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KILL: u8 = 9;
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// What the end itself stands on, with what the kernel has mounted below it.
const KEPT: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// The initramfs's own, who takes it apart itself.
const INITRAMFS: &str = "/run/initramfs";

/// Does it all in a child, each step of which has its own limit.
pub(crate) fn with_deadline(mut watchdog: Option<&mut Watchdog>) {
    let Ok(child) = process::fork(&[], all) else { return by_the_kernel(watchdog) };
    let until = clock::now().after(limit::FINAL_LONGEST);
    while clock::now() < until {
        if let Some(watchdog) = &mut watchdog {
            watchdog.feed(clock::now());
        }
        match wait::reap(child) {
            Ok(None) => clock::pause(PAUSE),
            Ok(Some(_)) | Err(_) => return,
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
        clock::pause(PAUSE);
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

/// What is left of the time that all of it has.
#[derive(Clone, Copy)]
struct Patience {
    until: Time,
}

impl Patience {
    /// From now on.
    fn begins() -> Patience {
        Patience { until: clock::now().after(limit::UNMOUNT_ALL) }
    }

    /// For one step, which has this long by itself: the last disk has its moment too.
    fn with(self, own: Duration) -> Duration {
        own.min(self.until.since(clock::now()).max(limit::UNMOUNT_LEAST))
    }

    /// A step for each of these, at once; what does not come back is given up.
    fn each<T>(
        self,
        own: Duration,
        all: &[(String, T)],
        given_up: &mut BTreeSet<String>,
        work: impl Fn(&T) -> bool,
    ) -> Vec<Went> {
        let work = &work;
        let some = all.chunks(limit::UNMOUNT_AT_ONCE);
        let went: Vec<Went> = some
            .flat_map(|some| {
                together(self.with(own), some.iter().map(|(_, what)| move || work(what)))
            })
            .collect();
        let lost = all.iter().zip(&went).filter(|(_, went)| **went == Went::Nowhere);
        given_up.extend(lost.map(|((id, _), _)| id.clone()));
        went
    }
}

/// In a child of this child, for so long at most.
fn patiently(patience: Duration, work: impl FnOnce() -> bool) -> Went {
    let until = clock::now().after(patience);
    as_long_as(|| clock::now() < until, work)
}

/// As long as ever less is left to be written; a server that is dead holds up no disk.
fn sync_all() -> Went {
    let last = clock::now().after(limit::FINAL_SYNC_LONGEST);
    let (mut least, mut until) = (unwritten(), clock::now().after(limit::FINAL_SYNC));
    let moves = || {
        let (left, now) = (unwritten(), clock::now());
        if left < least {
            (least, until) = (left, now.after(limit::FINAL_SYNC));
        }
        now < until.min(last)
    };
    as_long_as(moves, || {
        nix::unistd::sync();
        true
    })
}

fn as_long_as(waits: impl FnMut() -> bool, work: impl FnOnce() -> bool) -> Went {
    begin(work).map_or(Went::Badly, |child| end_of(child, waits))
}

/// Several at once, each in a child of its own, all of them for so long at most.
fn together<W: FnOnce() -> bool>(patience: Duration, all: impl Iterator<Item = W>) -> Vec<Went> {
    let children: Vec<Option<Pid>> = all.map(begin).collect();
    let until = clock::now().after(patience);
    let end = |child: Option<Pid>| {
        child.map_or(Went::Badly, |child| end_of(child, || clock::now() < until))
    };
    children.into_iter().map(end).collect()
}

fn begin(work: impl FnOnce() -> bool) -> Option<Pid> {
    process::fork(&[], || u8::from(!work())).ok()
}

fn end_of(child: Pid, mut waits: impl FnMut() -> bool) -> Went {
    loop {
        match wait::reap(child) {
            Ok(None) if waits() => clock::pause(PAUSE),
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

/// The whole work; the status of the child. What is of this machine is done with first: whoever
/// does not answer after that takes nothing with it.
fn all() -> u8 {
    let synced = sync_all();
    if synced == Went::Nowhere {
        console("not all file systems could be synced in time");
    }
    let mut given_up = BTreeSet::new();
    let patience = Patience::begins();
    if !take_away(patience, false, &mut given_up).is_empty() && let_waiters_go(patience) {
        take_away(patience, false, &mut given_up);
    }
    let busy = take_away(patience, true, &mut given_up);
    if !busy.is_empty() {
        read_only_by_force(patience, &busy);
    }
    if synced != Went::Nowhere {
        let _ = patiently(patience.with(limit::FINAL_SYNC), || {
            nix::unistd::sync();
            true
        });
    }
    u8::from(!given_up.is_empty())
}

/// As many as can be. Which disks of this machine are still written to.
fn take_away(
    patience: Patience,
    of_others: bool,
    given_up: &mut BTreeSet<String>,
) -> Vec<OsString> {
    for _ in 0..limit::UNMOUNT_ROUNDS {
        if !round(patience, of_others, given_up) {
            break;
        }
    }
    make_read_only(patience, of_others, given_up)
}

/// What could not be taken away; said of what is left in the end.
fn make_read_only(
    patience: Patience,
    of_others: bool,
    given_up: &mut BTreeSet<String>,
) -> Vec<OsString> {
    let (mut left, mut busy) = (points(of_others), Vec::new());
    let disks: BTreeSet<String> =
        points_that(|mount| mount.is_disk()).into_iter().map(|(id, _)| id).collect();
    left.retain(|(id, _)| !given_up.contains(id));
    let all = patience.each(limit::UNMOUNT_ONE, &left, given_up, |point| read_only(point));
    for ((id, point), went) in left.into_iter().zip(all) {
        if went == Went::Nowhere {
            console(&format!("{} does not answer", point.display()));
            continue;
        }
        if of_others && (went != Went::Well || point != "/") {
            let how = if went == Went::Well { "made read-only" } else { "busy" };
            console(&format!("{} stays mounted: {how}", point.display()));
        }
        if went == Went::Badly && disks.contains(&id) {
            busy.push(point);
        }
    }
    busy
}

/// Who waits for a server that is gone can not be killed, and keeps what it has open on disks of this machine.
/// Such a server is not waited for any more: see MNT_FORCE of umount(2). True: there was one.
fn let_waiters_go(patience: Patience) -> bool {
    let mut far = points_that(|mount| !mount.is_of_here() && mount.at != "/");
    far.truncate(limit::UNMOUNT_AT_ONCE);
    let asks = far.iter().map(|(_, point)| move || statvfs(point.as_os_str()).is_ok());
    let went = together(patience.with(limit::UNMOUNT_ONE), asks);
    let deaf: Vec<&OsString> = far
        .iter()
        .zip(went)
        .filter(|(_, went)| *went == Went::Nowhere)
        .map(|((_, point), _)| point)
        .collect();
    for point in &deaf {
        console(&format!("{} does not answer: nobody waits for it any more", point.display()));
    }
    // Whoever has failed with one question asks the next before it ends.
    let force = |point: &OsStr| loop {
        match umount2(point, MntFlags::MNT_FORCE | MntFlags::UMOUNT_NOFOLLOW) {
            Err(Errno::EBUSY) => clock::pause(PAUSE),
            went => return went.is_ok(),
        }
    };
    let own = patience.with(limit::UNMOUNT_ONE);
    together(own, deaf.iter().map(|point| move || force(point)));
    !deaf.is_empty()
}

/// The last that can be done for a disk to which somebody who can not be killed writes: a worker of the
/// kernel makes all of them read-only, whoever has what open. See sysrq.rst of the kernel.
fn read_only_by_force(patience: Patience, busy: &[OsString]) {
    let went = patiently(patience.with(limit::UNMOUNT_ONE), || {
        if fs::write("/proc/sysrq-trigger", "u").is_err() {
            return false;
        }
        while !busy.iter().all(|point| read_only(point)) {
            clock::pause(PAUSE);
        }
        true
    });
    if went == Went::Well {
        console("what was busy has been made read-only");
    }
}

fn read_only(point: &OsStr) -> bool {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    let none = None::<&str>;
    mount(none, point, none, flags, none).is_ok()
}

/// True: something went away, so that something else may now.
fn round(patience: Patience, of_others: bool, given_up: &mut BTreeSet<String>) -> bool {
    let named = |path: CString| (path.to_string_lossy().into_owned(), path);
    let mut swaps: Vec<_> = swaps().into_iter().map(named).collect();
    swaps.retain(|(name, _)| !given_up.contains(name));
    let off = |path: &CString| device::swap_off(path).is_ok();
    let mut went = patience.each(limit::FINAL_SYNC, &swaps, given_up, off);
    let is_laid_over = mounted::table().is_ok_and(|table| mounted::is_laid_over(&table));
    let mut points = points(of_others);
    points.retain(|(id, point)| point != "/" && !given_up.contains(id));
    let away = |point: &OsString| {
        // What the root is laid over has no mount afterwards, and is in use all the same.
        let _ = is_laid_over && read_only(point);
        umount2(point.as_os_str(), MntFlags::UMOUNT_NOFOLLOW).is_ok()
    };
    // One with another upon it is busy until the next round.
    let of_points = patience.each(limit::UNMOUNT_ONE, &points, given_up, away);
    for ((_, point), _) in points.iter().zip(&of_points).filter(|(_, w)| **w == Went::Nowhere) {
        console(&format!("{} does not answer", point.display()));
    }
    went.extend(of_points);
    let progress = went.contains(&Went::Well);
    progress
        | let_go(patience, "loop", "loop/backing_file", |name, _| {
            let device = open(format!("/dev/{name}").as_str(), OFlag::O_CLOEXEC, Mode::empty());
            device.is_ok_and(|device| device::loop_clear(device).is_ok())
        })
        | let_go(patience, "dm-", "dm/name", |_, mapped| {
            let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC;
            let control = open("/dev/mapper/control", flags, Mode::empty());
            control.is_ok_and(|control| device::unmap(control, mapped).is_ok())
        })
}

/// Block devices whose name begins so and that have this file.
fn let_go(patience: Patience, prefix: &str, mark: &str, work: impl Fn(&str, &str) -> bool) -> bool {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if !name.starts_with(prefix) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(entry.path().join(mark)) {
            found.push((name, (text, entry.path().join(mark))));
        }
    }
    let each = |(name, (text, _)): &(String, (String, PathBuf))| work(name, text.trim_end());
    let all: Vec<_> = found.into_iter().map(|one| (one.0.clone(), one)).collect();
    let went = patience.each(limit::UNMOUNT_ONE, &all, &mut BTreeSet::new(), each);
    // A loop device that is in use goes with its last user: that is no progress yet.
    let has_gone = |mark: &PathBuf| !mark.exists();
    all.iter().zip(went).any(|((_, (_, (_, mark))), went)| went == Went::Well && has_gone(mark))
}

/// Number and place of each mount, the last one mounted first: those of this machine, or all.
fn points(of_others: bool) -> Vec<(String, OsString)> {
    points_of(&mounted::table().unwrap_or_default(), of_others)
}

fn points_of(table: &[u8], of_others: bool) -> Vec<(String, OsString)> {
    chosen(table, |mount| of_others || mount.is_of_here())
}

/// The same of those of this kind.
fn points_that(is_meant: impl Fn(&Mount<'_>) -> bool) -> Vec<(String, OsString)> {
    chosen(&mounted::table().unwrap_or_default(), is_meant)
}

fn chosen(table: &[u8], is_meant: impl Fn(&Mount<'_>) -> bool) -> Vec<(String, OsString)> {
    let is_at_or_below = |point: &OsStr, top: &str| Path::new(point).starts_with(top);
    // A disk somebody has plugged in is below /run too.
    let is_kept = |point: &OsStr, holds_data: bool| {
        let stands = |kept: &str| is_at_or_below(point, kept) && (point == kept || !holds_data);
        KEPT.iter().any(|kept| stands(kept)) || is_at_or_below(point, INITRAMFS)
    };
    let is_chosen = |mount: &Mount<'_>| is_meant(mount) && !is_kept(&mount.at, mount.holds_data());
    let all = mounted::mounts(table).filter(is_chosen);
    let mut all: Vec<_> = all.map(|mount| (mount.id.to_string(), mount.at)).collect();
    all.reverse();
    all
}

fn swaps() -> Vec<CString> {
    let table = fs::read("/proc/swaps").unwrap_or_default();
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    let paths = paths.filter(|path| !path.is_empty());
    paths.filter_map(|path| CString::new(mounted::unescape(path).into_vec()).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_disk_below_run_is_taken_away_and_what_the_kernel_has_there_is_not() {
        let table = b"22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            23 22 0:21 / /run rw - tmpfs tmpfs rw\n\
            24 23 8:17 / /run/media/ann/stick rw - vfat /dev/sdb1 rw\n\
            25 23 0:22 / /run/user/1000 rw - tmpfs tmpfs rw\n\
            26 22 0:5 / /dev rw - devtmpfs udev rw\n\
            27 26 0:24 / /dev/shm rw - tmpfs tmpfs rw\n\
            28 23 7:0 / /run/initramfs/live ro - squashfs /dev/loop0 ro\n\
            31 22 0:42 / /sys/fs/fuse/connections rw - fusectl fusectl rw\n\
            29 22 0:40 / /srv rw - tmpfs tmpfs rw\n\
            30 23 0:41 / /run/far rw - nfs4 server:/x rw\n\
            32 22 8:18 / /srv/\xff rw - ext4 /dev/sdb2 rw\n";
        let points = |of_others| -> Vec<String> {
            let all = points_of(table, of_others).into_iter();
            all.map(|(_, at)| at.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(points(false), ["/srv/\u{fffd}", "/srv", "/run/media/ann/stick", "/"]);
        assert_eq!(
            points(true),
            ["/srv/\u{fffd}", "/run/far", "/srv", "/run/media/ann/stick", "/"],
            "those that may not answer come after all of this machine"
        );
    }

    #[test]
    fn several_that_do_not_come_back_are_given_up_at_once() {
        let begun = Instant::now();
        let works = (0..40).map(|number| {
            move || {
                if number % 2 == 0 {
                    nix::unistd::pause();
                }
                number % 4 == 1
            }
        });
        let went = together(Duration::from_secs(1), works);
        let expected = [Went::Nowhere, Went::Well, Went::Nowhere, Went::Badly];
        assert!(went.iter().eq(expected.iter().cycle().take(40)), "{went:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "one after the other it takes 20 s");
    }

    #[test]
    fn however_many_hang_none_takes_the_time_of_another() {
        let begun = Instant::now();
        let all: Vec<_> = (0..300).map(|number: usize| (number.to_string(), number)).collect();
        let mut given_up = BTreeSet::new();
        let until = clock::now();
        let went =
            Patience { until }.each(Duration::from_secs(60), &all, &mut given_up, |number| {
                if number % 2 == 0 {
                    nix::unistd::pause();
                }
                true
            });
        assert_eq!(went.iter().filter(|went| **went == Went::Well).count(), 150);
        assert!(given_up.len() == 150 && given_up.contains("298"));
        let least = limit::UNMOUNT_LEAST * 2;
        assert!(begun.elapsed() >= least, "each has its moment");
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
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

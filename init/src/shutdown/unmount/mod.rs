//! The final unmount. It syncs, disables swap, unmounts each mount once nothing is mounted on it,
//! and releases loop and mapped devices, until nothing more can be released. Busy file systems are
//! then remounted read-only. File systems of this machine come first, then remote ones.
//!
//! Children of a child of PID 1 do this in parallel ([`Rounds`]). If a child has not returned after
//! [`limit::UNMOUNT_ONE`], the work continues without it. At the end it waits for such children
//! while something moves (a slow disk may have much to write), in total up to
//! [`limit::UNMOUNT_LONGEST`]. It reports those that have not returned.

#[cfg(test)]
mod tests;

use crate::base::mount_table::Mount;
use crate::base::{clock, limit, mount_table};
use crate::shutdown::watchdog::Watchdog;
use crate::shutdown::{console, exit_of, feed_until};
use crate::sys::{Pid, device, process, signal, wait};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Mount points that the end itself needs, with the kernel's mounts below them.
const KEPT: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// Mounts of the initramfs, which releases them itself.
const INITRAMFS: &str = "/run/initramfs";

/// Pauses between two checks.
fn pause() {
    clock::pause(limit::UNMOUNT_PAUSE);
}

/// Runs the final unmount in a child, with a limit for each step.
pub(crate) fn with_deadline(watchdog: &mut Option<Watchdog>) {
    let Ok(child) = process::fork(&[], all) else { return by_the_kernel(watchdog) };
    if exit_of(child, limit::FINAL_LONGEST, watchdog).is_none() {
        console("not all file systems could be synced in time");
    }
}

/// Without a child, lets kernel workers sync and remount read-only, and waits for a limited time.
/// See sysrq.rst of the kernel.
fn by_the_kernel(watchdog: &mut Option<Watchdog>) {
    for key in ["s", "u"] {
        if let Err(error) = fs::write("/proc/sysrq-trigger", key) {
            console(&format!("cannot sync file systems: {error}"));
        }
    }
    feed_until(limit::FINAL_STILL, watchdog, || (unwritten() == 0).then_some(()));
}

/// The KiB that are not written to disk yet.
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
    rounds.run_while(sync, |rounds| rounds.is_moving() && rounds.age() < limit::FINAL_SYNC_LONGEST);
    if rounds.is_under_way(SYNC) {
        console("not all file systems could be synced in time");
    }
    let is_new = |rounds: &Rounds| rounds.has_young() && !rounds.is_over();
    release_all(rounds, false, is_new);
    if !busy_disks(rounds).is_empty() && abort_unresponsive_mounts(rounds) {
        release_all(rounds, false, is_new);
    }
    release_all(rounds, true, is_new);
    for of in rounds.left() {
        console(&format!("waiting for {of}"));
    }
    release_all(rounds, true, Rounds::is_moving);
    report_survivors(rounds);
    read_only_by_force(rounds);
    let writes = |rounds: &Rounds| rounds.is_under_way(SYNC);
    rounds.run_while(sync, |rounds| writes(rounds) && (rounds.has_young() || rounds.is_moving()));
    let is_done = rounds.left().next().is_none();
    rounds.give_up(|_| true);
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
fn release_all(rounds: &mut Rounds, with_remote: bool, waits: impl Fn(&Rounds) -> bool) {
    rounds.run_while(|| possible_tasks(with_remote), waits);
    let is_meant = |mount: &Mount<'_>| with_remote || mount.is_local();
    let left = || points(is_meant).into_iter().filter(|point| !point.is_read_only);
    let made = |point: Point| {
        let at = point.at.clone();
        let work = move || {
            // A remount releases nothing.
            let _ = read_only(&at);
            false
        };
        point.task(work)
    };
    rounds.run_while(|| left().map(made).collect(), Rounds::has_young);
}

/// Writable disks of this machine, as far as they respond.
fn busy_disks(rounds: &Rounds) -> Vec<Point> {
    let mut disks = points(|mount| mount.is_local());
    disks.retain(|it| it.is_disk && !it.is_read_only && !rounds.is_under_way(&it.id));
    disks
}

fn report_survivors(rounds: &Rounds) {
    for of in rounds.left() {
        console(&format!("{of} does not respond"));
    }
    let is_said = |it: &Point| rounds.is_under_way(&it.id) || (it.is_read_only && it.at == "/");
    for point in points(|_| true).into_iter().filter(|point| !is_said(point)) {
        let how = if point.is_read_only { "made read-only" } else { "busy" };
        console(&format!("{} stays mounted: {how}", point.at.display()));
    }
}

/// Gives up servers that do not respond. A process that waits for one cannot be killed, and keeps
/// its open files on disks of this machine: see MNT_FORCE of umount(2). Returns true if there was
/// one.
fn abort_unresponsive_mounts(rounds: &mut Rounds) -> bool {
    let asking = |id: &str| format!("ask {id}");
    let mut far = points(|mount| !mount.is_local() && mount.at != "/");
    let asked = |point: &Point| {
        let at = point.at.clone();
        let work = move || {
            let _ = statvfs(at.as_os_str());
            false
        };
        Task { id: asking(&point.id), ..point.clone().task(work) }
    };
    rounds.run_while(|| far.iter().map(asked).collect(), Rounds::has_young);
    far.retain(|point| rounds.is_under_way(&asking(&point.id)));
    rounds.give_up(|id| far.iter().any(|point| id == asking(&point.id)));
    for point in &far {
        console(&format!("{} does not respond: its server is given up", point.at.display()));
    }
    let forced = |point: &Point| {
        let at = point.at.clone();
        // A process whose request fails may send another one before it exits.
        let work = move || loop {
            match umount2(at.as_os_str(), MntFlags::MNT_FORCE | MntFlags::UMOUNT_NOFOLLOW) {
                Err(Errno::EBUSY) => pause(),
                went => return went.is_ok(),
            }
        };
        point.clone().task(work)
    };
    rounds.run_while(|| far.iter().map(forced).collect(), Rounds::has_young);
    rounds.give_up(|id| far.iter().any(|point| id == point.id));
    !far.is_empty()
}

/// Last resort for a disk that an unkillable process writes to: a kernel worker remounts all file
/// systems read-only. See sysrq.rst of the kernel.
fn read_only_by_force(rounds: &mut Rounds) {
    if busy_disks(rounds).is_empty() || fs::write("/proc/sysrq-trigger", "u").is_err() {
        return;
    }
    let until = clock::now().after(limit::UNMOUNT_ONE);
    rounds.run_while(Vec::new, |rounds| clock::now() < until && !busy_disks(rounds).is_empty());
    if busy_disks(rounds).is_empty() {
        console("busy file systems were remounted read-only");
    }
}

fn read_only(point: &OsStr) -> bool {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    let none = None::<&str>;
    mount(none, point, none, flags, none).is_ok()
}

/// The tasks that are possible now: to release each mount without mounts on it, and each device.
/// The task of a busy one fails until something else is released.
fn possible_tasks(with_remote: bool) -> Vec<Task> {
    let table = mount_table::table().unwrap_or_default();
    let has_overlay = mount_table::has_overlay(&table);
    let away = |point: Point| {
        let at = point.at.clone();
        // An overlay keeps using an unmounted layer, so the layer is made read-only first.
        let is_read_only_first = has_overlay && point.is_disk && !point.is_read_only;
        point.task(move || {
            let is_fit = !is_read_only_first || read_only(&at);
            is_fit && umount2(at.as_os_str(), MntFlags::UMOUNT_NOFOLLOW).is_ok()
        })
    };
    let points = points_of(&table, |mount| with_remote || mount.is_local()).into_iter();
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
            let is_released = device.is_ok_and(|device| device::loop_clear(device).is_ok());
            // A device in use is released by its last user, so there is no progress yet.
            is_released && !mark.exists()
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
#[derive(Clone)]
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

/// The present mounts of this kind, the last one mounted first.
fn points(is_meant: impl Fn(&Mount<'_>) -> bool) -> Vec<Point> {
    points_of(&mount_table::table().unwrap_or_default(), is_meant)
}

fn points_of(table: &[u8], is_meant: impl Fn(&Mount<'_>) -> bool) -> Vec<Point> {
    let is_at_or_below = |point: &OsStr, top: &str| Path::new(point).starts_with(top);
    // A user may have mounted a disk below /run too.
    let is_kept = |point: &OsStr, holds_data: bool| {
        let stands = |kept: &str| is_at_or_below(point, kept) && (point == kept || !holds_data);
        KEPT.iter().any(|kept| stands(kept)) || is_at_or_below(point, INITRAMFS)
    };
    let is_chosen = |mount: &Mount<'_>| is_meant(mount) && !is_kept(&mount.at, mount.holds_data());
    let below: BTreeSet<&str> = mount_table::mounts(table).map(|mount| mount.parent).collect();
    let point = |mount: Mount<'_>| Point {
        is_disk: mount.is_disk(),
        is_read_only: mount.is_read_only,
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

// Runs tasks that may block in the kernel for ever, each in a child of its own. It tracks the
// running children and whether anything moves. A blocked task is not started twice and delays no
// other; its child is reaped whenever it exits.

const KILL: u8 = 9;

/// The task of one child.
pub(super) struct Task {
    /// The id of its object: two tasks with one id never run at the same time.
    pub(super) id: String,
    /// The name of its object in messages.
    pub(super) of: String,
    /// Returns true if it has released something, so that other tasks may now succeed.
    pub(super) work: Box<dyn FnOnce() -> bool>,
}

/// A running child.
struct Child {
    pid: Pid,
    since: Time,
    of: String,
}

/// Indicators of progress.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// KiB that are not written to disk yet. A value lower than all earlier ones is progress.
    pub(super) unwritten: u64,
    /// Number of finished reads and writes. A change of it is progress.
    pub(super) done: u64,
}

/// Time limits.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// The time for which a running child counts against the parallel limit.
    pub(super) least: Duration,
    /// The time for which the next step waits for a running child.
    pub(super) own: Duration,
    /// The whole work ends when nothing has moved for this time.
    pub(super) still: Duration,
    /// The whole work ends after this time, even if something still moves.
    pub(super) longest: Duration,
}

impl Patience {
    /// The limits of a machine.
    pub(super) const USUAL: Patience = Patience {
        least: limit::UNMOUNT_LEAST,
        own: limit::UNMOUNT_ONE,
        still: limit::FINAL_STILL,
        longest: limit::UNMOUNT_LONGEST,
    };
}

/// The running tasks, and the progress of the whole unmount.
pub(super) struct Rounds {
    patience: Patience,
    start: Time,
    under_way: BTreeMap<String, Child>,
    /// Tasks started since something was last released: a repeat would fail again.
    tried: BTreeSet<String>,
    read: Box<dyn Fn() -> Reading>,
    reading: Reading,
    moved: Time,
}

impl Rounds {
    /// Starts the clock.
    pub(super) fn begin(patience: Patience, read: impl Fn() -> Reading + 'static) -> Rounds {
        let (reading, now) = (read(), clock::now());
        Rounds {
            patience,
            start: now,
            under_way: BTreeMap::new(),
            tried: BTreeSet::new(),
            read: Box::new(read),
            reading,
            moved: now,
        }
    }

    /// Starts all tasks that are not running and reaps finished ones. Asks for tasks again whenever
    /// one has released something, as long as `waits` returns true.
    pub(super) fn run_while(
        &mut self,
        tasks: impl Fn() -> Vec<Task>,
        waits: impl Fn(&Rounds) -> bool,
    ) {
        self.tried.clear();
        let mut is_due = true;
        loop {
            is_due |= self.collect();
            // Asks again only with room for a batch, not after each of many small changes.
            if is_due && self.room() > limit::UNMOUNT_AT_ONCE / 2 {
                is_due = self.begin_some(tasks());
            }
            if !(waits(self) || (is_due && !self.is_over())) {
                return;
            }
            pause();
        }
    }

    /// Starts tasks. Returns true if there was no room for all.
    fn begin_some(&mut self, mut tasks: Vec<Task>) -> bool {
        tasks.retain(|task| !self.tried.contains(&task.id) && !self.is_under_way(&task.id));
        let room = self.room();
        let is_too_many = tasks.len() > room;
        for Task { id, of, work } in tasks.into_iter().take(room) {
            self.tried.insert(id.clone());
            if let Ok(pid) = process::fork(&[], || u8::from(!work())) {
                self.under_way.insert(id, Child { pid, since: clock::now(), of });
            }
        }
        is_too_many
    }

    /// Reaps children. Returns true if one has exited.
    fn collect(&mut self) -> bool {
        let (before, now) = (self.under_way.len(), clock::now());
        let mut has_gone = false;
        self.under_way.retain(|_, child| match wait::reap(child.pid) {
            Ok(None) => true,
            Ok(Some(ended)) => {
                has_gone |= ended.exit == Exit::Code(0);
                false
            }
            Err(_) => false,
        });
        if has_gone {
            self.tried.clear();
        }
        let Reading { unwritten, done } = (self.read)();
        if has_gone || unwritten < self.reading.unwritten || done != self.reading.done {
            self.moved = now;
        }
        self.reading = Reading { unwritten: unwritten.min(self.reading.unwritten), done };
        self.under_way.len() < before
    }

    fn younger_than(&self, age: Duration) -> usize {
        let now = clock::now();
        self.under_way.values().filter(|child| now.since(child.since) < age).count()
    }

    /// The number of tasks that may be started.
    fn room(&self) -> usize {
        limit::UNMOUNT_AT_ONCE.saturating_sub(self.younger_than(self.patience.least))
    }

    /// Returns true if a child has not used up its time, which is short once the total time is
    /// over.
    pub(super) fn has_young(&self) -> bool {
        let own = if self.is_over() { self.patience.least } else { self.patience.own };
        self.younger_than(own) > 0
    }

    /// Returns true if the total time is over.
    pub(super) fn is_over(&self) -> bool {
        self.age() >= self.patience.longest
    }

    /// The time since the start.
    pub(super) fn age(&self) -> Duration {
        clock::now().since(self.start)
    }

    /// Returns true if a child is running and waiting for it is worthwhile.
    pub(super) fn is_moving(&self) -> bool {
        let is_still = clock::now().since(self.moved) >= self.patience.still;
        !self.under_way.is_empty() && !is_still && !self.is_over()
    }

    /// Returns true if the task with this id is running.
    pub(super) fn is_under_way(&self, id: &str) -> bool {
        self.under_way.contains_key(id)
    }

    /// The objects of running tasks.
    pub(super) fn left(&self) -> impl Iterator<Item = &str> {
        self.under_way.values().map(|child| child.of.as_str())
    }

    /// Kills the children of these tasks that still run, and stops waiting for them.
    pub(super) fn give_up(&mut self, is_meant: impl Fn(&str) -> bool) {
        self.under_way.retain(|id, child| {
            if is_meant(id) {
                // A child that cannot be killed is left behind.
                let _ = signal::kill(child.pid, KILL);
            }
            !is_meant(id)
        });
    }
}

#[cfg(test)]
mod rounds_tests {
    use super::*;
    use crate::spawn::tests::is_alone;
    use nix::sys::stat::Mode;
    use nix::unistd::{mkfifo, pause};
    use std::cell::Cell;
    use std::fs::{self, File};
    use std::io::Write;
    use std::path::{Path, PathBuf};
    use std::rc::Rc;
    use std::time::Instant;

    /// A directory whose files stand for objects; removed at the end.
    struct Place(PathBuf);

    impl Place {
        fn with(name: &str, files: impl Iterator<Item = String>) -> Place {
            let place = std::env::temp_dir().join(format!("gs-{name}-{}", std::process::id()));
            fs::create_dir_all(&place).unwrap();
            files.for_each(|file| drop(File::create(place.join(file)).unwrap()));
            Place(place)
        }

        fn holds(&self, name: &str) -> bool {
            self.0.join(name).exists()
        }

        /// A task for each of these files, which removes it if `work` returns true.
        fn tasks(&self, names: &[String], work: fn(&Path, &str) -> bool) -> Vec<Task> {
            let task = |name: &String| {
                let (place, name) = (self.0.clone(), name.clone());
                let (id, of) = (name.clone(), name.clone());
                let goes = move || {
                    // A failing test leaves no child behind.
                    process::die_with_parent().unwrap();
                    work(&place, &name) && fs::remove_file(place.join(&name)).is_ok()
                };
                Task { id, of, work: Box::new(goes) }
            };
            names.iter().filter(|name| self.holds(name)).map(task).collect()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(100);
    const USUAL: Patience = Patience { least: SHORT, own: SHORT, still: LONG, longest: LONG };

    #[test]
    fn slow_unmount_is_started_once_awaited_and_blocks_no_other() {
        let names = ["slow", "quick", "upon"].map(String::from);
        let place = Place::with("slow", names.iter().cloned());
        let gate = place.0.join("gate");
        mkfifo(&gate, Mode::S_IRWXU).unwrap();
        let work = |place: &Path, name: &str| match name {
            "slow" => {
                let file = File::options().append(true).create(true).open(place.join("runs"));
                file.unwrap().write_all(b"x").unwrap();
                File::open(place.join("gate")).is_ok()
            }
            "upon" => !place.join("slow").exists(),
            _ => true,
        };
        let (looks, opened, last) = (Cell::new(0), Cell::new(None), Rc::new(Cell::new(None)));
        let is_last = last.clone();
        let read = move || {
            looks.set(looks.get() + 1);
            // By then, the last `run_while` below waits for the child of `slow`.
            if last.get().is_some_and(|start: Instant| start.elapsed() > SHORT * 2) {
                last.take();
                // Both ends, so that no open blocks.
                opened.set(Some(File::options().read(true).write(true).open(&gate).unwrap()));
            }
            Reading { unwritten: 0, done: looks.get() }
        };
        let mut rounds = Rounds::begin(USUAL, read);
        let tasks = || place.tasks(&names, work);
        rounds.run_while(tasks, Rounds::has_young);
        assert!(rounds.is_under_way("slow") && place.holds("upon") && !place.holds("quick"));
        rounds.run_while(tasks, Rounds::has_young);
        assert!(rounds.is_under_way("slow"), "the work continues without it at once");
        is_last.set(Some(Instant::now()));
        rounds.run_while(tasks, Rounds::is_moving);
        assert_eq!(rounds.left().next(), None);
        assert!(!place.holds("slow") && !place.holds("upon"), "`upon` is unmounted after `slow`");
        assert_eq!(fs::read(place.0.join("runs")).unwrap(), b"x");
    }

    #[test]
    fn unmounts_without_progress_are_not_awaited_and_are_named() {
        for (still, longest) in [(SHORT, LONG), (LONG, SHORT)] {
            let names = ["hung".to_owned()];
            let place = Place::with("still", names.iter().cloned());
            let patience = Patience { still, longest, ..USUAL };
            let looks = Cell::new(0);
            let read = move || {
                looks.set(looks.get() + 1);
                // More unwritten data is no progress; constant movement ends with the total time.
                let done = if longest < still { looks.get() } else { 7 };
                Reading { unwritten: looks.get(), done }
            };
            let mut rounds = Rounds::begin(patience, read);
            let hangs = |_: &Path, _: &str| {
                pause();
                true
            };
            let start = Instant::now();
            rounds.run_while(|| place.tasks(&names, hangs), Rounds::is_moving);
            assert!(start.elapsed() >= SHORT && start.elapsed() < LONG);
            assert!(rounds.left().eq(["hung"]));
            rounds.give_up(|_| true);
            assert_eq!(rounds.left().next(), None);
        }
    }

    #[test]
    fn unmount_started_after_the_deadline_has_a_minimum_time() {
        let names = ["late".to_owned()];
        let place = Place::with("late", names.iter().cloned());
        let own = Duration::from_secs(10);
        let patience = Patience { own, longest: Duration::ZERO, ..USUAL };
        let mut rounds = Rounds::begin(patience, || Reading { unwritten: 0, done: 0 });
        let hangs = |_: &Path, _: &str| {
            pause();
            true
        };
        let start = Instant::now();
        rounds.run_while(|| place.tasks(&names, hangs), Rounds::has_young);
        assert!(start.elapsed() >= SHORT && start.elapsed() < own, "{:?}", start.elapsed());
        assert!(rounds.left().eq(["late"]));
        rounds.give_up(|_| true);
    }

    #[test]
    fn hanging_unmounts_of_any_number_delay_no_other() {
        // Each fork copies the page tables of all parallel tests.
        let own = "shutdown::unmount::rounds_tests::hanging_unmounts_of_any_number_delay_no_other";
        if !is_alone(own) {
            return;
        }
        let names: Vec<String> = (0..600).map(|number| number.to_string()).collect();
        let place = Place::with("many", names.iter().cloned());
        let is_even = |name: &str| name.ends_with(['0', '2', '4', '6', '8']);
        let work = |_: &Path, name: &str| {
            if name.ends_with(['0', '2', '4', '6', '8']) {
                pause();
            }
            true
        };
        let start = Instant::now();
        let mut rounds = Rounds::begin(USUAL, || Reading { unwritten: 0, done: 0 });
        rounds.run_while(|| place.tasks(&names, work), Rounds::has_young);
        assert_eq!(rounds.left().count(), 300);
        assert!(names.iter().all(|name| place.holds(name) == is_even(name)));
        assert!(start.elapsed() >= SHORT * 2, "each had its minimum time: {:?}", start.elapsed());
        assert!(start.elapsed() < LONG, "{:?}", start.elapsed());
        rounds.give_up(|_| true);
    }
}

//! Tests of the final unmount in a mount namespace with a root of its own, apart from the machine's
//! mounts. Files replace the interfaces to the whole kernel (SysRq, the table of swap spaces).

use super::{all, points_of};
use crate::spawn::tests::is_alone;
use crate::sys::{Pid, process, signal, wait};
use groundstate_units::spec::Exit;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{chdir, pivot_root};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KILL: u8 = 9;
const NONE: Option<&str> = None;
/// Exit status if mounting is impossible.
const UNFIT: u8 = 2;

/// The directory of the roots; removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("gs-end-{name}-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        Place(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn folder(top: &Path, name: &str) -> PathBuf {
    let path = top.join(name);
    fs::create_dir_all(&path).unwrap();
    path
}

fn memory(at: &Path) -> nix::Result<()> {
    mount(Some("memory"), at, Some("tmpfs"), MsFlags::empty(), NONE)
}

/// Enters a root in memory, once `furnish` has mounted file systems in it.
fn enter<T>(place: &Path, furnish: impl FnOnce(&Path) -> nix::Result<T>) -> nix::Result<T> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    memory(place)?;
    let (proc, old) = (folder(place, "proc"), folder(place, "old"));
    mount(Some("/proc"), &proc, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?;
    for door in ["sysrq-trigger", "swaps"] {
        let file = place.join(door);
        File::create(&file).unwrap();
        // The kernel may lack the first.
        match mount(Some(&file), &proc.join(door), NONE, MsFlags::MS_BIND, NONE) {
            Err(Errno::ENOENT) => {}
            mounted => mounted?,
        }
    }
    let furnished = furnish(place)?;
    pivot_root(place, &old)?;
    chdir("/")?;
    umount2("/old", MntFlags::MNT_DETACH)?;
    Ok(furnished)
}

/// A process in such a root that runs the final unmount and then checks the remaining mounts.
fn machine<T>(
    place: &Place,
    furnish: impl FnOnce(&Path) -> nix::Result<T>,
    look: impl FnOnce(T),
) -> Pid {
    let work = || {
        let Ok(furnished) = enter(&place.0, furnish) else { return UNFIT };
        all();
        look(furnished);
        0
    };
    process::fork(&[], work).unwrap()
}

/// The mount points in the root of that process.
fn mounted(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default()
}

#[test]
fn deeply_stacked_mounts_are_all_unmounted() {
    // Each fork copies the page tables of all parallel tests.
    let own = "shutdown::unmount::tests::deeply_stacked_mounts_are_all_unmounted";
    if !is_alone(own) {
        return;
    }
    let place = Place::new("deep");
    let furnish = |top: &Path| {
        let mut at = top.to_owned();
        for _ in 0..300 {
            at = folder(&at, "d");
            memory(&at)?;
        }
        Ok(())
    };
    let child = machine(&place, furnish, |()| assert!(!mounted("self").contains(" /d")));
    let exit = wait::await_end(child).unwrap();
    if exit == Exit::Code(UNFIT) {
        return crate::not_run!("it takes root");
    }
    assert_eq!(exit, Exit::Code(0));
}

/// A small disk.
fn disk(top: &Path, name: &str) -> nix::Result<()> {
    let (image, at) = (top.join(format!("{name}.image")), folder(top, name));
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let runs = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    let is_made = runs(Command::new("mke2fs").arg("-F").arg(&image))
        && runs(Command::new("mount").args(["-o", "loop"]).args([&image, &at]));
    if is_made { Ok(()) } else { Err(Errno::ENODEV) }
}

/// A process that keeps the present mounts visible after this process has unmounted them.
fn witness() -> Pid {
    let (mut ready, says) = std::io::pipe().unwrap();
    let sees = || {
        process::die_with_parent().unwrap();
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        (&says).write_all(b"x").unwrap();
        nix::unistd::pause();
        0
    };
    let pid = process::fork(&[says.as_fd()], sees).unwrap();
    ready.read_exact(&mut [0]).unwrap();
    pid
}

#[test]
fn layers_of_a_busy_overlay_become_read_only_or_stay_mounted() {
    // A file that is open for reading allows a remount read-only, one open for writing does not.
    for writes in [false, true] {
        let place = Place::new("laid-over");
        let furnish = |top: &Path| {
            disk(top, "disk")?;
            let [lower, upper, work] =
                ["lower", "upper", "work"].map(|name| folder(&top.join("disk"), name));
            let over = folder(top, "over");
            fs::write(lower.join("file"), "x").unwrap();
            let (lower, upper, work) = (lower.display(), upper.display(), work.display());
            let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
            mount(Some("over"), &over, Some("overlay"), MsFlags::empty(), Some(options.as_str()))?;
            let held = File::options().read(true).write(writes).open(over.join("file")).unwrap();
            Ok((held, witness()))
        };
        let child = machine(&place, furnish, |(_held, witness)| {
            let (left, seen) = (mounted("self"), mounted(&witness.to_string()));
            let disk = seen.lines().find(|line| line.contains("/disk ")).unwrap();
            let is_read_only = disk.split(' ').next_back().unwrap().starts_with("ro");
            assert!(left.contains(" /over "), "{left}");
            assert_eq!((left.contains(" /disk "), is_read_only), (writes, !writes), "{disk}");
        });
        let exit = wait::await_end(child).unwrap();
        if exit == Exit::Code(UNFIT) {
            return crate::not_run!("it takes root and loop devices");
        }
        assert_eq!(exit, Exit::Code(0));
    }
}

/// A file system whose server never responds, not even to its first request.
fn mute(at: &Path) -> nix::Result<File> {
    let Ok(server) = File::options().read(true).write(true).open("/dev/fuse") else {
        return Err(Errno::ENODEV);
    };
    let number = server.as_raw_fd();
    let options = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
    mount(Some("far"), at, Some("fuse.far"), MsFlags::empty(), Some(options.as_str()))?;
    Ok(server)
}

#[test]
fn unresponsive_swap_space_delays_no_unmount() {
    let place = Place::new("swap");
    let furnish = |top: &Path| {
        memory(&folder(top, "data"))?;
        fs::write(top.join("swaps"), "Filename\n/far/swap file 1 0 -2\n").unwrap();
        mute(&folder(top, "far"))
    };
    let child = machine(&place, furnish, drop);
    let (start, pid) = (Instant::now(), child.to_string());
    let is_so = || {
        let left = mounted(&pid);
        left.contains(" /far ") && !left.contains(" /data ")
    };
    while !is_so() && wait::is_living_child(child) && start.elapsed() < Duration::from_secs(15) {
        std::thread::yield_now();
    }
    let (is_so, took) = (is_so(), start.elapsed());
    signal::kill(child, KILL).unwrap();
    let exit = wait::await_end(child).unwrap();
    if exit == Exit::Code(UNFIT) {
        return crate::not_run!("it takes root and FUSE");
    }
    assert!(is_so, "{took:?}");
}

#[test]
fn disk_below_run_is_unmounted_and_kernel_mounts_there_are_kept() {
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
    let points = |with_remote| -> Vec<String> {
        let all = points_of(table, |mount| with_remote || mount.is_local()).into_iter();
        all.map(|point| point.at.to_string_lossy().into_owned()).collect()
    };
    assert_eq!(points(false), ["/srv/\u{fffd}", "/srv", "/run/media/ann/stick", "/"]);
    assert_eq!(
        points(true),
        ["/srv/\u{fffd}", "/run/far", "/srv", "/run/media/ann/stick", "/"],
        "those that may not answer come after all of this machine"
    );
    let is_bare = |at: &str| points_of(table, |_| true).iter().any(|it| it.is_bare && it.at == at);
    assert!(is_bare("/srv") && is_bare("/run/far") && !is_bare("/"));
}

//! Programs that init executes at the end of a machine:
//!
//! - this program from memory, if its file was deleted and would keep the root file system busy;
//! - `/run/initramfs/shutdown`, if the initramfs left one, to dismantle its devices;
//! - this program again, if it crashes after all units are down.

use crate::base::Mode;
use crate::base::reexec;
use crate::base::{clock, limit};
use crate::fd;
use crate::output::console_log::ConsoleLog;
use crate::output::parent_notify::Outer;
use crate::shutdown::watchdog::{Passed, Watchdog};
use crate::shutdown::{End, Haste, exit_of};
use crate::sys::{fault, memfd, process};
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::Exit;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{AccessFlags, access, chdir, execv, pivot_root};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;

/// The directory of the initramfs for the shutdown.
const INITRAMFS: &str = "/run/initramfs";

/// Mounts that move to it.
const SHARED: [(&str, MsFlags); 4] = [
    ("/proc", MsFlags::MS_MOVE),
    ("/sys", MsFlags::MS_MOVE),
    ("/dev", MsFlags::MS_MOVE),
    ("/run", MsFlags::MS_BIND.union(MsFlags::MS_REC)),
];

fn word(how: Shutdown) -> &'static CStr {
    match how {
        Shutdown::Reboot => c"reboot",
        Shutdown::Halt => c"halt",
        Shutdown::Poweroff | Shutdown::Exit(_) => c"poweroff",
    }
}

/// Returns true if the running binary's file was replaced and the program does not run from memory.
pub(crate) fn image_is_deleted() -> bool {
    let is_so = |path: &str| path.ends_with(" (deleted)") && !path.starts_with("/memfd:");
    fs::read_link("/proc/self/exe").is_ok_and(|path| is_so(&path.to_string_lossy()))
}

/// The state of the final steps, for the image that continues them.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Shutdown,
    haste: Option<Haste>,
    #[serde(default)]
    crashes: u32,
    watchdog: Option<Passed>,
}

/// The argument with which the next image continues the final steps.
fn end_word(end: &End, crashes: u32, watchdog: Option<Passed>) -> String {
    let rest = Rest { how: end.how, haste: end.haste, crashes, watchdog };
    // These types have no maps with invalid keys.
    format!("--end={}", serde_json::to_string(&rest).unwrap_or_default())
}

/// Parses that argument; an invalid one means power off.
fn end_of(mode: Mode, word: &str) -> End {
    let fallback = Rest { how: Shutdown::Poweroff, haste: None, crashes: 0, watchdog: None };
    let Rest { how, haste, crashes, watchdog } = serde_json::from_str(word).unwrap_or(fallback);
    // After repeated crashes, init skips these steps and goes straight to the kernel.
    let haste = if crashes > limit::CRASHES_IN_A_ROW { Some(Haste::AtOnce) } else { haste };
    let watchdog = watchdog.and_then(|passed| Watchdog::inherited(passed, clock::now()));
    let outer = Outer::at(std::env::var("NOTIFY_SOCKET").ok().as_deref());
    End { how, mode, outer, haste, watchdog, crashes }
}

/// Arms crash recovery for the end: the next image continues it. The state of the units is useless
/// here, because its descriptors are being closed.
pub(crate) fn arm(end: &End) {
    let Some(binary) = reexec::own_binary() else { return };
    let passed = end.watchdog.as_ref().map(Watchdog::passed);
    let word = end_word(end, end.crashes.saturating_add(1), passed);
    // If this fails, a crash restores the state of the units.
    let _ = fault::arm(binary.as_fd(), None, reexec::arguments(word), reexec::environment());
    // The descriptor must stay open for this image's lifetime.
    std::mem::forget(binary);
}

/// Executes a copy of the binary in memory. Returns if that is impossible.
pub(crate) fn execute_from_memory(end: &mut End) {
    let Ok(memory) = memfd::program(c"init") else { return };
    let copy = || -> io::Result<()> {
        let mut own = File::open("/proc/self/exe")?.take(limit::IMAGE);
        io::copy(&mut own, &mut File::from(memory.try_clone()?)).map(drop)
    };
    // A child copies, because reading may block on the disk.
    let Ok(child) = process::fork(&[memory.as_fd()], || u8::from(copy().is_err())) else { return };
    if exit_of(child, limit::IMAGE_COPY, &mut end.watchdog) == Some(Exit::Code(0)) {
        let passed = end.watchdog.as_ref().and_then(Watchdog::hand_on);
        let word = CString::new(end_word(end, end.crashes, passed)).unwrap_or_default();
        // It returns if memory is short; then init continues as it is.
        let _ = process::execute(memory.as_fd(), &[c"init".to_owned(), word], &[]);
    }
}

/// Continues an end (`--end`), as the copy in memory or after a crash.
pub(crate) fn continue_end(mode: Mode, word: &str) -> u8 {
    let mut end = end_of(mode, word);
    fd::close_rest();
    // After too many crashes the kernel ends the machine. A supervisor is not armed, because any
    // user may start this by hand.
    if mode != Mode::Supervisor && end.crashes <= limit::CRASHES_IN_A_ROW {
        // Forks the log writer before arming, so that the next image knows its process.
        drop(ConsoleLog::of(mode, None));
        arm(&end);
    }
    end.carry_out()
}

/// Executes the initramfs's own shutdown program. Returns if there is none.
pub(crate) fn to_initramfs(how: Shutdown) {
    let program = format!("{INITRAMFS}/shutdown");
    if access(program.as_str(), AccessFlags::X_OK).is_err() {
        return;
    }
    if let Err(error) = enter() {
        crate::shutdown::console(&format!("{INITRAMFS}: {error}"));
        return;
    }
    let Err(error) = execv(c"/shutdown", &[c"/shutdown", word(how)]);
    crate::shutdown::console(&format!("{program}: {error}"));
}

/// Makes the directory the root; the old root becomes `/oldroot` without our mounts.
fn enter() -> nix::Result<()> {
    let none = None::<&str>;
    let go = |from: &str, to: &str, how: MsFlags| mount(Some(from), to, none, how, none);
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    go(INITRAMFS, INITRAMFS, MsFlags::MS_BIND)?;
    for (shared, how) in SHARED {
        let place = format!("{INITRAMFS}{shared}");
        // It usually exists already.
        let _ = fs::create_dir(&place);
        go(shared, &place, how)?;
    }
    // It usually exists already.
    let _ = fs::create_dir(format!("{INITRAMFS}/oldroot"));
    chdir(INITRAMFS)?;
    pivot_root(".", "oldroot")?;
    nix::unistd::chroot(".")?;
    chdir("/")?;
    // It contains the new root, so it could not be moved.
    umount2("/oldroot/run", MntFlags::MNT_DETACH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_image_continues_the_same_end() {
        let again = |how, haste, crashes| {
            let watchdog = None;
            let end =
                End { how, mode: Mode::Machine, outer: Outer::at(None), haste, watchdog, crashes };
            let word = end_word(&end, end.crashes, None);
            let word = word.strip_prefix("--end=").unwrap();
            let next = end_of(Mode::Machine, word);
            (next.how, next.haste, next.crashes)
        };
        for how in [Shutdown::Poweroff, Shutdown::Reboot, Shutdown::Halt, Shutdown::Exit(3)] {
            for haste in [None, Some(Haste::Kill), Some(Haste::AtOnce)] {
                assert_eq!(again(how, haste, 2), (how, haste, 2));
            }
        }
        let crashes = limit::CRASHES_IN_A_ROW + 1;
        assert_eq!(again(Shutdown::Halt, None, crashes).1, Some(Haste::AtOnce));
        assert_eq!(end_of(Mode::Machine, "x").how, Shutdown::Poweroff);
    }
}

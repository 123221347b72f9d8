//! Who goes on when init has stopped everything on a machine: this program from memory, when its
//! own file is gone and would keep the root file system busy; the initramfs, where it left a
//! `/run/initramfs/shutdown` that knows how to take apart what it had put together.

use crate::boot::Mode;
use crate::outer::Outer;
use crate::shutdown::End;
use crate::sys::{memfd, process, wait};
use crate::watchdog::Watchdog;
use crate::{clock, limit};
use groundstate_units::machine::event::Shutdown;
use groundstate_units::spec::Exit;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{AccessFlags, access, chdir, execv, pivot_root};
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Duration;

/// Where initramfs leave what is to be gone on with.
const INITRAMFS: &str = "/run/initramfs";
/// What goes along to it.
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

/// Another file has taken the place of the one that runs.
pub(crate) fn image_is_deleted() -> bool {
    fs::read_link("/proc/self/exe").is_ok_and(|path| path.to_string_lossy().ends_with(" (deleted)"))
}

/// Becomes a copy of itself that has no file. Comes back when that can not be had.
pub(crate) fn go_on_in_memory(how: Shutdown, watchdog: &mut Option<Watchdog>) {
    let Ok(memory) = memfd::program(c"init") else { return };
    let copy = || -> io::Result<()> {
        let mut own = File::open("/proc/self/exe")?.take(limit::IMAGE);
        io::copy(&mut own, &mut File::from(memory.try_clone()?)).map(drop)
    };
    // Reading waits for the disk.
    let Ok(child) = process::fork(&[memory.as_fd()], || u8::from(copy().is_err())) else { return };
    let until = clock::now().after(limit::IMAGE_COPY);
    while clock::now() < until {
        if let Some(watchdog) = watchdog {
            watchdog.feed(clock::now());
        }
        match wait::reap(child) {
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Ok(Some(ended)) if ended.exit == Exit::Code(0) => {
                let fed = watchdog.as_ref().and_then(Watchdog::hand_on).unwrap_or_default();
                let end = format!("--end={},{fed}", word(how).to_string_lossy());
                let end = CString::new(end).unwrap_or_default();
                // It comes back when there is no memory for it: then as we are.
                let _ = process::execute(memory.as_fd(), &[c"init".to_owned(), end], &[]);
                return;
            }
            Ok(Some(_)) | Err(_) => return,
        }
    }
}

/// `--end`: the copy goes on where the original was. Comes back where there is no machine.
pub(crate) fn ends(mode: Mode, how: &str) {
    if mode != Mode::Machine {
        return;
    }
    let (how, fed) = how.split_once(',').unwrap_or((how, ""));
    let watchdog = Watchdog::again(fed, clock::now());
    let how = match how {
        "reboot" => Shutdown::Reboot,
        "halt" => Shutdown::Halt,
        _ => Shutdown::Poweroff,
    };
    let mut end = End { how, mode, outer: Outer::at(None), haste: None, watchdog };
    end.unmount();
    end.tell_the_kernel()
}

/// Becomes the initramfs's own end, if there is one. Comes back if not.
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

/// The folder becomes the root; what was it is `/oldroot`, with nothing of ours on it.
fn enter() -> nix::Result<()> {
    let none = None::<&str>;
    let go = |from: &str, to: &str, how: MsFlags| mount(Some(from), to, none, how, none);
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    go(INITRAMFS, INITRAMFS, MsFlags::MS_BIND)?;
    for (shared, how) in SHARED {
        let place = format!("{INITRAMFS}{shared}");
        // There already, as a rule.
        let _ = fs::create_dir(&place);
        go(shared, &place, how)?;
    }
    // The same.
    let _ = fs::create_dir(format!("{INITRAMFS}/oldroot"));
    chdir(INITRAMFS)?;
    pivot_root(".", "oldroot")?;
    nix::unistd::chroot(".")?;
    chdir("/")?;
    // The folder was in it: it could not be moved.
    umount2("/oldroot/run", MntFlags::MNT_DETACH)
}

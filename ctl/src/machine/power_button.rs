//! The power button: a press powers the machine off. The host of a virtual machine presses it to
//! shut the machine down (`virsh shutdown`, ACPI).

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::Command;

/// Input devices, and their capabilities as the kernel lists them (input-programming.rst).
const DEVICES: &str = "/dev/input";
const CLASS: &str = "/sys/class/input";
/// From linux/input-event-codes.h.
const EV_KEY: u16 = 1;
const KEY_POWER: u16 = 116;
/// Bytes of `struct input_event` (linux/input.h); type, code and value follow two longs.
const EVENT: usize = 24;
/// Limit of open devices.
const BUTTONS: usize = 32;

/// Waits for presses of power buttons, including buttons that are plugged in later, and runs
/// `command` at each press.
///
/// # Errors
///
/// The kernel refuses to watch /dev/input, or the command cannot be executed.
pub(crate) fn watch(command: &[&str]) -> io::Result<()> {
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
    // udev sets a device's owner after the node exists.
    inotify.add_watch(DEVICES, AddWatchFlags::IN_CREATE | AddWatchFlags::IN_ATTRIB)?;
    let mut buttons = BTreeMap::new();
    loop {
        add_buttons(&mut buttons)?;
        let mut ready: Vec<PollFd<'_>> = buttons
            .values()
            .map(|file: &File| PollFd::new(file.as_fd(), PollFlags::POLLIN))
            .collect();
        ready.push(PollFd::new(inotify.as_fd(), PollFlags::POLLIN));
        match poll(&mut ready, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            result => result?,
        };
        let is_ready: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        let mut is_pressed = false;
        let mut ready = is_ready.into_iter();
        // A device that was unplugged cannot be read.
        buttons.retain(|_, file| {
            !ready.next().unwrap_or(false)
                || read_events(file).inspect(|pressed| is_pressed |= pressed).is_ok()
        });
        match inotify.read_events() {
            Ok(_) | Err(Errno::EAGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        if is_pressed && let Some((program, words)) = command.split_first() {
            Command::new(program).args(words).status()?;
        }
    }
}

/// Opens the devices that have a power button and are not open yet.
fn add_buttons(buttons: &mut BTreeMap<String, File>) -> io::Result<()> {
    for entry in fs::read_dir(DEVICES)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with("event") || buttons.contains_key(&name) || buttons.len() >= BUTTONS {
            continue;
        }
        let keys = fs::read_to_string(format!("{CLASS}/{name}/device/capabilities/key"));
        if has_power_key(&keys.unwrap_or_default())
            && let Ok(file) = File::open(format!("{DEVICES}/{name}"))
        {
            buttons.insert(name, file);
        }
    }
    Ok(())
}

/// Returns true if the bitmap has KEY_POWER. The bitmap has hexadecimal words of 64 bits, with the
/// last bits first.
fn has_power_key(bitmap: &str) -> bool {
    let word = bitmap.split_whitespace().rev().nth(usize::from(KEY_POWER / 64));
    word.and_then(|word| u64::from_str_radix(word, 16).ok())
        .is_some_and(|bits| bits >> (KEY_POWER % 64) & 1 == 1)
}

/// Reads the events of a device that is ready. Returns true if the key was pressed.
fn read_events(file: &mut File) -> io::Result<bool> {
    let mut bytes = [0; EVENT * 64];
    let count = file.read(&mut bytes)?;
    let events = bytes.get(..count).unwrap_or_default().chunks_exact(EVENT);
    Ok(events.into_iter().any(is_press))
}

/// Returns true for the event that KEY_POWER is pressed.
fn is_press(event: &[u8]) -> bool {
    let expected = [EV_KEY.to_ne_bytes(), KEY_POWER.to_ne_bytes()].concat();
    event.get(16..20) == Some(&expected[..]) && event.get(20..24) == Some(&1i32.to_ne_bytes()[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_key_is_detected_only_by_bit_116_of_the_bitmap() {
        assert!(has_power_key("10000000000000 0\n"));
        assert!(has_power_key("7 1000000000 0 40000 10000000000000 0"));
        for other in ["", "0 0", "10000000000000", "8000000000000 0", "10000000000000 0 0", "x 0"] {
            assert!(!has_power_key(other), "{other}");
        }
    }

    #[test]
    fn key_press_is_distinguished_from_release_and_other_keys() {
        let event = |kind: u16, code: u16, value: i32| {
            let head = [0u8; 16].into_iter();
            let tail = [kind.to_ne_bytes(), code.to_ne_bytes()].concat();
            head.chain(tail).chain(value.to_ne_bytes()).collect::<Vec<u8>>()
        };
        assert!(is_press(&event(1, 116, 1)));
        for (kind, code, value) in [(1, 116, 0), (1, 30, 1), (0, 116, 1), (1, 116, 2)] {
            assert!(!is_press(&event(kind, code, value)));
        }
        assert!(!is_press(&[0; 8]));
    }
}

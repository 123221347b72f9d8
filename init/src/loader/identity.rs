//! The host name and machine-id of a machine. The loader child sets both before the first load,
//! because the first unit needs them. PID 1 does not, because reading the root file system may
//! block.

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{sethostname, write};
use std::fs;

/// See machine-id(5).
const MACHINE_ID: &str = "/etc/machine-id";

/// Sets both. Returns a message for each failure.
pub(crate) fn establish() -> Vec<String> {
    [host_name(), machine_id()].into_iter().filter_map(Result::err).collect()
}

/// Sets the host name from the first line of /etc/hostname that is not a comment, see hostname(5).
fn host_name() -> Result<(), String> {
    let Ok(text) = fs::read_to_string("/etc/hostname") else { return Ok(()) };
    let lines = text.lines().map(str::trim);
    let Some(name) = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'))
    else {
        return Ok(());
    };
    let sound = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if name.len() > 64 || !name.chars().all(sound) {
        return Err(format!("/etc/hostname: {name:?} is not a valid host name"));
    }
    sethostname(name).map_err(|error| format!("cannot set the host name: {error}"))
}

/// Creates the machine-id once: in /etc if it is writable, else for this boot in /run, bind-mounted
/// over an empty /etc/machine-id if there is one.
fn machine_id() -> Result<(), String> {
    if fs::read_to_string(MACHINE_ID).is_ok_and(|text| is_id(text.trim())) {
        return Ok(());
    }
    let text = new_id()?;
    if put(MACHINE_ID, &text).is_ok() {
        return Ok(());
    }
    let passing = "/run/machine-id";
    put(passing, &text).map_err(|error| format!("cannot keep a machine-id: {error}"))?;
    if fs::metadata(MACHINE_ID).is_ok() {
        let bound = mount(Some(passing), MACHINE_ID, None::<&str>, MsFlags::MS_BIND, None::<&str>);
        bound.map_err(|error| format!("cannot mount {passing} over /etc/machine-id: {error}"))?;
    }
    Ok(())
}

/// A random UUID from the kernel, see random(4). It is not read from /dev/urandom, whose first read
/// early in a boot blocks until the kernel has entropy (Linux 5.18 and later). An id must be
/// unique, not secret.
fn new_id() -> Result<String, String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid");
    let uuid = uuid.map_err(|error| format!("cannot make a machine-id: {error}"))?;
    let text = uuid.trim().replace('-', "");
    is_id(&text).then_some(text).ok_or_else(|| format!("cannot make a machine-id of {uuid:?}"))
}

fn put(path: &str, text: &str) -> nix::Result<()> {
    umask(Mode::empty());
    let how = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_CLOEXEC;
    let file = open(path, how, Mode::from_bits_truncate(0o444))?;
    write(&file, format!("{text}\n").as_bytes())?;
    Ok(())
}

fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()) && text != "0".repeat(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_machine_id_is_valid_and_unique() {
        let id = new_id().unwrap();
        assert!(is_id(&id), "{id}");
        assert_ne!(id, new_id().unwrap());
    }

    #[test]
    fn only_thirty_two_hexadecimal_digits_are_a_machine_id() {
        assert!(is_id("0123456789abcdef0123456789abcdef"));
        for wrong in ["", "uninitialized", "0123", &"0".repeat(32), &"g".repeat(32)] {
            assert!(!is_id(wrong), "{wrong}");
        }
    }
}

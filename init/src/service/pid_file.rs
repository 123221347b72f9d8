//! Reads the pid file of a background-pidfile unit. The file may be written by an untrusted user,
//! so it is only a hint: [`crate::event_loop`] accepts the pid only if the process belongs to the
//! run.
//!
//! A file that is not in memory is read by a child, because its file system may not respond.

use crate::base::limit;
use crate::base::mount_table::open_on;
use crate::state::carried::KeptFd;
use crate::sys::{Pid, wait};
use groundstate_units::spec::Exit;
use groundstate_units::text::fields;
use groundstate_units::text::time::Time;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{UnlinkatFlags, read, unlinkat};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::os::fd::OwnedFd;

/// The content of a pid file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Said {
    /// The file is missing or still empty.
    Nothing,
    /// A pid greater than 1.
    Pid(i32),
    /// Invalid: what is wrong with the file, in words that follow its name.
    Wrong(Cow<'static, str>),
}

impl Said {
    /// Its file system did not respond in time, or no child could be started.
    pub(crate) const SILENT: Said =
        Said::Wrong(Cow::Borrowed("is on a file system that does not respond"));

    const fn wrong(what: &'static str) -> Said {
        Said::Wrong(Cow::Borrowed(what))
    }
}

/// Reads the pid file, without following links and at most [`limit::PID_FILE`] bytes. Only a child
/// may block; PID 1 reads no file outside of memory.
pub(crate) fn look(path: &str, may_block: bool) -> Said {
    let how = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = match open_on(path, how, |mount| may_block || mount.is_memory()) {
        Ok(file) => file,
        Err(Errno::ENOENT) => return Said::Nothing,
        Err(Errno::ELOOP) => return Said::wrong("is a symbolic link"),
        Err(Errno::EXDEV) => return Said::wrong("leads to another file system"),
        Err(_) => return Said::wrong("cannot be opened"),
    };
    let regular = fstat(&file).is_ok_and(|status| {
        SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
    });
    if !regular {
        return Said::wrong("is not a regular file");
    }
    let mut bytes = [0u8; limit::PID_FILE + 1];
    match read(&file, &mut bytes) {
        Ok(length) => meaning(bytes.get(..length).unwrap_or_default()),
        Err(_) => Said::wrong("cannot be read"),
    }
}

fn meaning(bytes: &[u8]) -> Said {
    if bytes.len() > limit::PID_FILE {
        return Said::wrong("is longer than a pid");
    }
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Said::Nothing;
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return Said::wrong("does not hold one number");
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    match number {
        Some(pid) if pid > 1 => Said::Pid(pid),
        _ => Said::wrong("does not hold the pid of a service"),
    }
}

/// Removes the pid file of an earlier run. `may_block` as in [`look`].
pub(crate) fn remove(path: &str, may_block: bool) -> Result<(), Errno> {
    let Some((parent, name)) = path.rsplit_once('/') else { return Err(Errno::EINVAL) };
    let how = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let removed = open_on(&format!("{parent}/"), how, |mount| may_block || mount.is_memory())
        .and_then(|parent| unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir));
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

// Looks at pid files
//
// Init reads a file in memory itself; otherwise a child does, which may block on a disk. The child
// belongs to the run, so that no other run of the unit starts meanwhile. Init waits at most
// [`limit::PID_FILE_ANSWER`].

const KILL: u8 = 9;
/// Bytes of a child's answer at most.
const ANSWER: usize = 64;

/// The decision that an answer is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The main process of the run.
    First,
    /// The process that succeeds the main process, if there is one. The main process has exited
    /// with this result.
    Next(Exit),
    /// The same after a reload; true if the reload has succeeded.
    Reloaded(bool),
}

/// A look in progress.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Look {
    pub(crate) question: Question,
    /// The child that reads the file.
    pub(crate) pid: i32,
    /// The pipe on which the child sends its answer before it exits.
    pub(crate) answer: KeptFd<OwnedFd>,
    /// The deadline.
    #[serde(default)]
    pub(crate) until: Time,
}

impl Look {
    /// Reads the child's answer.
    pub(crate) fn said(&self) -> Said {
        let mut bytes = [0; ANSWER];
        let length = read(&self.answer, &mut bytes).unwrap_or(0);
        let said = bytes.get(..length).and_then(|said| fields::decode(said).ok());
        said.unwrap_or(Said::SILENT)
    }

    /// Abandons the look. A kill that fails means that the child has exited.
    pub(crate) fn give_up(self) {
        let _ = wait::kill_made(Pid::from_raw(self.pid), KILL);
    }
}

/// The exit status of the child that removes a pid file: 0, or the errno.
pub(crate) fn removal_status(removed: Result<(), Errno>) -> u8 {
    removed.err().map_or(0, |error| u8::try_from(error as i32).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn pid_file_must_contain_one_number_above_one() {
        let table: [(&[u8], Said); 13] = [
            (b"42", Said::Pid(42)),
            (b"42\n", Said::Pid(42)),
            (b" 42 \n", Said::Pid(42)),
            (b"", Said::Nothing),
            (b"\n", Said::Nothing),
            (b"0", Said::wrong("does not hold the pid of a service")),
            (b"1\n", Said::wrong("does not hold the pid of a service")),
            (b"-5", Said::wrong("does not hold one number")),
            (b"2147483648", Said::wrong("does not hold the pid of a service")),
            (b"12\n13\n", Said::wrong("does not hold one number")),
            (b"42 junk", Said::wrong("does not hold one number")),
            (b"4\x002", Said::wrong("does not hold one number")),
            (&[b'1'; 33], Said::wrong("is longer than a pid")),
        ];
        for (bytes, said) in table {
            assert_eq!(meaning(bytes), said, "{bytes:?}");
        }
    }

    #[test]
    fn pid_file_that_is_no_regular_file_is_neither_followed_nor_waited_for() {
        let dir = std::env::temp_dir().join(format!("groundstate-pid-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let at = |name: &str| dir.join(name).to_str().expect("text").to_string();
        nix::unistd::mkfifo(dir.join("fifo").as_path(), Mode::S_IRWXU).expect("a fifo");
        std::os::unix::fs::symlink("/proc/1/stat", dir.join("link")).expect("a link");
        assert_eq!(look(&at("fifo"), true), Said::wrong("is not a regular file"));
        assert_eq!(look(&at("link"), true), Said::wrong("is a symbolic link"));
        assert_eq!(look(dir.to_str().expect("text"), true), Said::wrong("is not a regular file"));
        assert_eq!(look(&at("none"), true), Said::Nothing);
        std::fs::write(dir.join("stale"), "77\n").expect("written");
        assert_eq!(look(&at("stale"), true), Said::Pid(77));
        remove(&at("stale"), true).expect("removed");
        remove(&at("stale"), true).expect("already gone");
        assert_eq!(look(&at("stale"), true), Said::Nothing);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}

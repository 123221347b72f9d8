//! The pid file of a background-pidfile unit. It is a hint: often written by who must
//! not be trusted with it, so it is read with care here, and believed only when the
//! process belongs to the run ([`super`] asks that).

use crate::limit;
use crate::mounted::open_here;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{SFlag, fstat};
use nix::unistd::{UnlinkatFlags, read, unlinkat};

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// There is none, or nothing in it yet.
    Nothing,
    /// This pid, greater than 1.
    Pid(i32),
    /// Something else; the sentence says what.
    Wrong(&'static str),
}

/// Reads it. No link is followed, no file system is asked that need not answer, and no
/// more than [`limit::PID_FILE`] bytes are looked at.
pub(crate) fn look(path: &str) -> Said {
    let how = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = match open_here(path, how) {
        Ok(file) => file,
        Err(Errno::ENOENT) => return Said::Nothing,
        Err(Errno::ELOOP) => return Said::Wrong("is a symbolic link"),
        Err(Errno::EXDEV) => return Said::Wrong("is on a file system that need not answer"),
        Err(_) => return Said::Wrong("can not be opened"),
    };
    let regular = fstat(&file).is_ok_and(|status| {
        SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
    });
    if !regular {
        return Said::Wrong("is no regular file");
    }
    let mut bytes = [0u8; limit::PID_FILE + 1];
    match read(&file, &mut bytes) {
        Ok(length) => meaning(bytes.get(..length).unwrap_or_default()),
        Err(_) => Said::Wrong("can not be read"),
    }
}

fn meaning(bytes: &[u8]) -> Said {
    if bytes.len() > limit::PID_FILE {
        return Said::Wrong("is longer than a pid");
    }
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Said::Nothing;
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return Said::Wrong("does not hold one number");
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
    match number {
        Some(pid) if pid > 1 => Said::Pid(pid),
        _ => Said::Wrong("does not hold the pid of a service"),
    }
}

/// Removes what an earlier run left.
pub(crate) fn remove(path: &str) -> Result<(), Errno> {
    let Some((parent, name)) = path.rsplit_once('/') else { return Err(Errno::EINVAL) };
    let removed = open_here(&format!("{parent}/"), OFlag::O_PATH | OFlag::O_DIRECTORY)
        .and_then(|parent| unlinkat(&parent, name, UnlinkatFlags::NoRemoveDir));
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[test]
    fn only_one_number_above_one_is_a_pid() {
        let table: [(&[u8], Said); 13] = [
            (b"42", Said::Pid(42)),
            (b"42\n", Said::Pid(42)),
            (b" 42 \n", Said::Pid(42)),
            (b"", Said::Nothing),
            (b"\n", Said::Nothing),
            (b"0", Said::Wrong("does not hold the pid of a service")),
            (b"1\n", Said::Wrong("does not hold the pid of a service")),
            (b"-5", Said::Wrong("does not hold one number")),
            (b"2147483648", Said::Wrong("does not hold the pid of a service")),
            (b"12\n13\n", Said::Wrong("does not hold one number")),
            (b"42 junk", Said::Wrong("does not hold one number")),
            (b"4\x002", Said::Wrong("does not hold one number")),
            (&[b'1'; 33], Said::Wrong("is longer than a pid")),
        ];
        for (bytes, said) in table {
            assert_eq!(meaning(bytes), said, "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_plain_file_is_neither_followed_nor_waited_for() {
        let dir = std::env::temp_dir().join(format!("groundstate-pid-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let at = |name: &str| dir.join(name).to_str().expect("text").to_string();
        nix::unistd::mkfifo(dir.join("fifo").as_path(), Mode::S_IRWXU).expect("a fifo");
        std::os::unix::fs::symlink("/proc/1/stat", dir.join("link")).expect("a link");
        assert_eq!(look(&at("fifo")), Said::Wrong("is no regular file"));
        assert_eq!(look(&at("link")), Said::Wrong("is a symbolic link"));
        assert_eq!(look(dir.to_str().expect("text")), Said::Wrong("is no regular file"));
        assert_eq!(look(&at("none")), Said::Nothing);
        std::fs::write(dir.join("stale"), "77\n").expect("written");
        assert_eq!(look(&at("stale")), Said::Pid(77));
        remove(&at("stale")).expect("removed");
        remove(&at("stale")).expect("already gone");
        assert_eq!(look(&at("stale")), Said::Nothing);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}

//! Opens the files and terminals that become a unit's descriptors 0, 1 and 2, in its child.
//!
//! The unit's own user may control the directory and have replaced the file by a link to a file of
//! root, or by a FIFO. So the child opens it as that user first. A file that only root may open is
//! opened without following links and must have a single name.

use crate::spawn::directory::Owner;
use crate::sys::{device, memfd};
use groundstate_units::spec::{Input, Opening, Output, Stdio};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, OpenHow, ResolveFlag, fcntl, open, openat2};
use nix::sys::stat::{Mode, SFlag, fchmod, fstat};
use nix::sys::termios::{
    ControlFlags, InputFlags, LocalFlags, OutputFlags, SetArg, tcgetattr, tcsetattr,
};
use nix::unistd::{
    Gid, Uid, dup2_stderr, dup2_stdin, dup2_stdout, fchown, ftruncate, setegid, seteuid,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The default terminal.
pub(super) const CONSOLE: &str = "/dev/console";

/// The stream that could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Descriptor 0.
    Input = 1,
    /// Descriptor 1.
    Output,
    /// Descriptor 2.
    Error,
    /// The terminal of any of them.
    Terminal,
}

impl Stream {
    /// The file of the stream with this number. Returns `None` if it is not a file.
    pub(super) fn path(number: u32, stdio: &Stdio) -> Option<&str> {
        const ALL: [Stream; 4] = [Stream::Input, Stream::Output, Stream::Error, Stream::Terminal];
        let stream = ALL.into_iter().find(|stream| *stream as u32 == number)?;
        match (stream, &stdio.input, &stdio.output, &stdio.error) {
            (Stream::Terminal, ..) => Some(terminal_path(stdio)),
            (Stream::Input, Input::File(path), ..)
            | (Stream::Output, _, Output::File { path, .. }, _)
            | (Stream::Error, .., Output::File { path, .. }) => Some(path),
            (Stream::Input | Stream::Output | Stream::Error, ..) => None,
        }
    }
}

fn terminal_path(stdio: &Stdio) -> &str {
    if stdio.tty.path.is_empty() { CONSOLE } else { &stdio.tty.path }
}

/// Opens the files and terminals and installs them as descriptors.
pub(super) fn arrange(stdio: &Stdio, owner: Owner) -> Result<(), (Stream, io::Error)> {
    arrange_terminal(stdio, owner).map_err(|error| (Stream::Terminal, error))?;
    if stdio.input == Input::Inherit {
        // This fails if it is no terminal, or that of another session.
        let _ = device::take(io::stdin().as_fd(), false);
    }
    let of = |stream: Stream| move |error: io::Error| (stream, error);
    if let Input::File(path) = &stdio.input {
        let file = open_file(path, OFlag::O_RDONLY, owner);
        file.and_then(|file| Ok(dup2_stdin(file)?)).map_err(of(Stream::Input))?;
    }
    if let Output::File { path, opening } = &stdio.output {
        let file = open_output(path, *opening, owner);
        file.and_then(|file| Ok(dup2_stdout(file)?)).map_err(of(Stream::Output))?;
    }
    if let Output::File { path, opening } = &stdio.error {
        // One file for both is opened once, so that neither overwrites the other's lines.
        let same = matches!(&stdio.output, Output::File { path: other, .. } if other == path);
        let done = if same {
            dup2_stderr(io::stdout()).map_err(io::Error::from)
        } else {
            let file = open_output(path, *opening, owner);
            file.and_then(|file| Ok(dup2_stderr(file)?))
        };
        done.map_err(of(Stream::Error))?;
    }
    Ok(())
}

fn arrange_terminal(stdio: &Stdio, owner: Owner) -> io::Result<()> {
    if stdio.has_terminal() || stdio.tty.reset || stdio.tty.hangup {
        let terminal = open_terminal(stdio, owner)?;
        if let Input::Terminal { .. } = stdio.input {
            dup2_stdin(&terminal)?;
        }
        if stdio.output == Output::Terminal {
            dup2_stdout(&terminal)?;
        }
        if stdio.error == Output::Terminal {
            dup2_stderr(&terminal)?;
        }
    }
    Ok(())
}

fn open_output(path: &str, opening: Opening, owner: Owner) -> io::Result<OwnedFd> {
    let append = if opening == Opening::Append { OFlag::O_APPEND } else { OFlag::empty() };
    let file = open_file(path, OFlag::O_WRONLY | OFlag::O_CREAT | append, owner)?;
    if opening == Opening::Truncate && is_file(file.as_fd())? {
        ftruncate(&file, 0)?;
    }
    Ok(file)
}

fn is_file(file: BorrowedFd<'_>) -> io::Result<bool> {
    let kind = SFlag::from_bits_truncate(fstat(file)?.st_mode) & SFlag::S_IFMT;
    Ok(kind == SFlag::S_IFREG)
}

/// Opens as the unit's user, else as root without following links.
fn open_file(path: &str, flags: OFlag, owner: Owner) -> io::Result<OwnedFd> {
    let flags = flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY | OFlag::O_NONBLOCK;
    let mode = Mode::from_bits_truncate(0o644);
    let file = match (owner.uid, owner.gid) {
        (Some(uid), gid) if Uid::effective().is_root() && uid != 0 => {
            match as_user(uid, gid, || open(path, flags, mode)) {
                Ok(file) => file,
                Err(Errno::EACCES | Errno::EPERM) => open_with_care(path, flags, mode)?,
                Err(error) => return Err(error.into()),
            }
        }
        _ => open(path, flags, mode)?,
    };
    // Opened without blocking; the program itself may block.
    let set = OFlag::from_bits_truncate(fcntl(&file, FcntlArg::F_GETFL)?) - OFlag::O_NONBLOCK;
    fcntl(&file, FcntlArg::F_SETFL(set))?;
    Ok(file)
}

/// Runs `work` as the unit's user and group. Its supplementary groups are left out, because they
/// could only add rights.
fn as_user<T>(
    uid: u32,
    gid: Option<u32>,
    work: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let (own, own_group) = (Uid::effective(), Gid::effective());
    if let Some(gid) = gid {
        setegid(Gid::from_raw(gid))?;
    }
    seteuid(Uid::from_raw(uid))?;
    let outcome = work();
    seteuid(own)?;
    setegid(own_group)?;
    outcome
}

fn open_with_care(path: &str, flags: OFlag, mode: Mode) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(flags)
        .mode(if flags.contains(OFlag::O_CREAT) { mode } else { Mode::empty() })
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let file = openat2(nix::fcntl::AT_FDCWD, path, how)?;
    let about = fstat(&file)?;
    let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
    match kind {
        SFlag::S_IFREG if about.st_nlink == 1 => Ok(file),
        SFlag::S_IFREG => Err(Errno::EMLINK.into()),
        SFlag::S_IFCHR => Ok(file),
        _ => Err(Errno::EPERM.into()),
    }
}

fn open_terminal(stdio: &Stdio, owner: Owner) -> io::Result<OwnedFd> {
    let path = terminal_path(stdio);
    // Opening a serial line without a carrier would block.
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let mut line = open(path, flags, Mode::empty())?;
    if stdio.tty.reset {
        reset(line.as_fd())?;
    }
    if stdio.tty.hangup {
        device::hang_up(line.as_fd())?;
        line = open(path, flags, Mode::empty())?;
    }
    if let Input::Terminal { force } = stdio.input {
        device::take(line.as_fd(), force)?;
    }
    if let (Some(uid), true) = (owner.uid, Uid::effective().is_root()) {
        fchown(&line, Some(Uid::from_raw(uid)), None)?;
        fchmod(&line, Mode::from_bits_truncate(0o620))?;
    }
    let set = OFlag::from_bits_truncate(fcntl(&line, FcntlArg::F_GETFL)?) - OFlag::O_NONBLOCK;
    fcntl(&line, FcntlArg::F_SETFL(set))?;
    Ok(line)
}

/// Resets a terminal to the default settings: lines, echo, signals by keys. termios(3).
fn reset(line: BorrowedFd<'_>) -> io::Result<()> {
    device::make_plain(line);
    let mut settings = tcgetattr(line)?;
    settings.input_flags &= !(InputFlags::IGNBRK
        | InputFlags::BRKINT
        | InputFlags::ISTRIP
        | InputFlags::INLCR
        | InputFlags::IGNCR);
    settings.input_flags |= InputFlags::ICRNL | InputFlags::IMAXBEL | InputFlags::IUTF8;
    settings.output_flags |= OutputFlags::ONLCR | OutputFlags::OPOST;
    settings.control_flags |= ControlFlags::CREAD;
    settings.local_flags = LocalFlags::ISIG
        | LocalFlags::ICANON
        | LocalFlags::IEXTEN
        | LocalFlags::ECHO
        | LocalFlags::ECHOE
        | LocalFlags::ECHOK
        | LocalFlags::ECHOCTL
        | LocalFlags::ECHOKE;
    let keys: [(usize, u8); 10] = [
        (libc::VINTR, 3),
        (libc::VQUIT, 28),
        (libc::VERASE, 127),
        (libc::VKILL, 21),
        (libc::VEOF, 4),
        (libc::VSTART, 17),
        (libc::VSTOP, 19),
        (libc::VSUSP, 26),
        (libc::VMIN, 1),
        (libc::VTIME, 0),
    ];
    for (index, key) in keys {
        if let Some(character) = settings.control_chars.get_mut(index) {
            *character = key;
        }
    }
    Ok(tcsetattr(line, SetArg::TCSANOW, &settings)?)
}

// Stand-ins for input and output: /dev/null, opened once. Without /dev/null (no /dev yet, a bare
// container) they are a closed pipe and a sealed memfd that refuses writes.

/// The stand-ins for input and for output.
#[derive(Clone, Debug)]
pub(crate) struct Null {
    /// A file without bytes.
    pub input: Rc<OwnedFd>,
    /// Discards all writes, or refuses them with EPERM without /dev/null.
    pub output: Rc<OwnedFd>,
}

impl Null {
    /// Opens both files.
    pub(crate) fn open() -> io::Result<Null> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        match open("/dev/null", flags, Mode::empty()) {
            Ok(null) => {
                let null = Rc::new(null);
                Ok(Null { input: null.clone(), output: null })
            }
            Err(_) => Null::stand_in(),
        }
    }

    fn stand_in() -> io::Result<Null> {
        let (end, _) = io::pipe()?;
        let sealed = memfd::create(c"null")?;
        memfd::seal(&sealed)?;
        Ok(Null { input: Rc::new(end.into()), output: Rc::new(sealed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn file_of_root_is_opened_without_following_links() {
        let top = std::env::temp_dir().join(format!("groundstate-steps-{}", std::process::id()));
        std::fs::create_dir_all(top.join("in/side")).unwrap();
        std::fs::write(top.join("in/side/file"), "it").unwrap();
        std::os::unix::fs::symlink("in", top.join("link")).unwrap();
        std::os::unix::fs::symlink("file", top.join("in/side/other")).unwrap();
        let paths = [
            ("in/side/file", true),
            ("in//side/../side/./file", true),
            ("in/side/new", true),
            ("link/side/file", false),
            ("in/side/other", false),
            ("in/side/file/", false),
            ("in/side/file/more", false),
            ("in/missing/file", false),
            ("in/side/", false),
        ];
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o600);
        for (path, is_opened) in paths {
            let path = format!("{}/{path}", top.display());
            assert_eq!(open_with_care(&path, flags, mode).is_ok(), is_opened, "{path}");
        }
        let magic = format!("/proc/self/root{}/in/side/file", top.display());
        assert!(open_with_care(&magic, flags, mode).is_err());
        std::fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn null_device_and_its_stand_in_read_nothing_and_never_block() {
        for null in [Null::open().unwrap(), Null::stand_in().unwrap()] {
            let mut input = File::from(null.input.try_clone().unwrap());
            assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
            let mut output = File::from(null.output.try_clone().unwrap());
            let written = output.write(&[0; 8]);
            assert!(matches!(written, Ok(8)) || written.unwrap_err().raw_os_error() == Some(1));
        }
    }
}

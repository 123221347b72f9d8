//! The code of the program `listener`: takes the passed sockets and answers on them. Descriptors
//! are plain numbers here, as in the protocol.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{MsgFlags, UnixAddr, accept, recv, recvfrom, send, sendto};
use nix::unistd::Pid;
use std::fs::File;
use std::io::Read;
use std::os::fd::RawFd;
use std::sync::mpsc::{Sender, channel};

/// The first passed descriptor.
const FIRST: RawFd = 3;

/// The command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--answers`.
    pub answers: Option<usize>,
    /// `--deaf`.
    pub deaf: Option<i32>,
    /// `--notify`.
    pub notify: bool,
}

impl Flags {
    /// Parses the words after the program's name.
    ///
    /// # Errors
    /// The invalid word.
    pub fn parse(words: &[String]) -> Result<Flags, String> {
        let mut flags = Flags::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().and_then(|value| value.parse::<u16>().ok());
            match word.as_str() {
                "--answers" => flags.answers = Some(value().ok_or(word)?.into()),
                "--deaf" => flags.deaf = Some(value().ok_or(word)?.into()),
                "--notify" => flags.notify = true,
                _ => return Err(word.clone()),
            }
        }
        Ok(flags)
    }
}

/// Serves until it is told to end and returns the exit status. 3: no socket was passed.
pub fn serve(flags: &Flags) -> i32 {
    if let Some(code) = flags.deaf {
        return code;
    }
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let count = variable("LISTEN_FDS").parse::<RawFd>().unwrap_or(0);
    let names = variable("LISTEN_FDNAMES");
    if variable("LISTEN_PID") != std::process::id().to_string() || count < 1 {
        return 3;
    }
    if flags.notify {
        let _ = crate::daemon::notify::send("READY=1");
    }
    let (answered, answers) = channel();
    for fd in FIRST..FIRST + count {
        let (names, answered) = (names.clone(), answered.clone());
        std::thread::spawn(move || listen(fd, &names, &answered));
    }
    let mut count = 0;
    while answers.recv().is_ok() {
        count += 1;
        if flags.answers == Some(count) {
            return 0;
        }
    }
    4
}

fn reply(names: &str, line: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let line = text.trim_end();
    if line == "die" {
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
    format!("{} {names} {line}\n", std::process::id()).into_bytes()
}

fn listen(fd: RawFd, names: &str, answered: &Sender<()>) {
    let mut buffer = [0; 4096];
    loop {
        match accept(fd) {
            Ok(connection) => {
                if let Ok(got) = recv(connection, &mut buffer, MsgFlags::empty())
                    && got > 0
                {
                    let _ = send(connection, &reply(names, &buffer[..got]), MsgFlags::MSG_NOSIGNAL);
                }
                let _ = nix::unistd::close(connection);
            }
            Err(Errno::EOPNOTSUPP) => {
                if let Ok((got, from)) = recvfrom::<UnixAddr>(fd, &mut buffer)
                    && let Some(from) = from
                {
                    let _ = sendto(fd, &reply(names, &buffer[..got]), &from, MsgFlags::empty());
                }
            }
            Err(Errno::ENOTSOCK) => {
                let file = File::open(format!("/proc/self/fd/{fd}"));
                let Ok(mut file) = file else { return };
                let Ok(got) = file.read(&mut buffer) else { return };
                print!("{}", String::from_utf8_lossy(&reply(names, &buffer[..got])));
            }
            Err(Errno::EINTR) => continue,
            Err(error) => {
                eprintln!("descriptor {fd}: {error}");
                return;
            }
        }
        if answered.send(()).is_err() {
            return;
        }
    }
}

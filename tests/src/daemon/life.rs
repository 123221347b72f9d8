//! The main loop of the stand-in: signals, orders and timers. Signals are blocked and read
//! from a signalfd, so an ignored signal is read without an effect.

use super::flags::{End, Flags, Ready};
use super::order::Order;
use super::{bomb, mute, notify};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::Mode;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The interval at which it looks for a file it waits for.
const LOOK: Duration = Duration::from_millis(10);

/// The signals that it reads from the signalfd.
const READ: [Signal; 5] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGCHLD];

/// A running stand-in.
struct Life {
    flags: Flags,
    /// The other end of a socket pair whose first end init has.
    other_end: Option<std::os::fd::OwnedFd>,
    ready: bool,
    ready_at: Option<Instant>,
    ends_at: Option<Instant>,
    pings: Option<(Duration, Instant)>,
    children: Vec<Child>,
    orders: Option<File>,
    line: Vec<u8>,
}

/// Runs according to the flags and returns the exit status.
///
/// # Errors
/// A system call of its own that failed.
pub fn live(flags: Flags) -> std::io::Result<i32> {
    if flags.fail_unless.as_deref().is_some_and(|file| !file.exists()) {
        eprintln!("{}: something it needs is missing", flags.name);
        return Ok(1);
    }
    if flags.pid_file.is_some() && !flags.background {
        return go_to_background(&flags);
    }
    let mut set = SigSet::empty();
    READ.into_iter().for_each(|signal| set.add(signal));
    set.thread_block()?;
    if flags.multiply {
        bomb::multiply();
    }
    if let Some(place) = &flags.mute_mount {
        mute::mount(place)?;
    }
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
    Life::begin(flags)?.turn(signals)
}

/// The first half of a double fork. It starts the second half in a session of its own, and returns
/// once the pid file exists or the second half has exited.
fn go_to_background(flags: &Flags) -> std::io::Result<i32> {
    let file = flags.pid_file.clone().unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let mut again: Vec<String> = std::env::args().skip(1).collect();
    again.push("--background".to_owned());
    let mut child = Command::new("/proc/self/exe").args(again).spawn()?;
    loop {
        if std::fs::metadata(&file).is_ok_and(|facts| facts.len() > 0 || !facts.is_file()) {
            return Ok(0);
        }
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(1));
        }
        std::thread::park_timeout(LOOK);
    }
}

impl Life {
    fn begin(flags: Flags) -> std::io::Result<Life> {
        let mut life = Life {
            ready: false,
            ready_at: None,
            ends_at: None,
            other_end: None,
            pings: None,
            children: Vec::new(),
            orders: flags.control.as_deref().map(open_orders).transpose()?,
            line: Vec::new(),
            flags,
        };
        life.trace(&format!("start {}", std::process::id()));
        if life.flags.background {
            let _ = nix::unistd::setsid();
        }
        life.pings = notify::ping_interval()
            .filter(|_| life.flags.watchdog)
            .map(|every| (every, Instant::now()));
        life.fork(life.flags.children)?;
        life.orphan(life.flags.orphans)?;
        if let Some(line) = &life.flags.adopts {
            nix::sys::prctl::set_child_subreaper(true)?;
            Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).status()?;
        }
        match life.flags.ready {
            Ready::AtOnce => life.become_ready()?,
            Ready::After(span) => life.ready_at = Some(Instant::now() + span),
            Ready::When(_) | Ready::OnOrder => {}
        }
        Ok(life)
    }

    /// The main loop. Returns the exit status.
    fn turn(mut self, signals: SignalFd) -> std::io::Result<i32> {
        loop {
            if let Some(status) = self.timers()? {
                return Ok(status);
            }
            let mut fds = vec![PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            if let Some(orders) = &self.orders {
                fds.push(PollFd::new(orders.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut fds, self.next_timeout()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Ok(Some(info)) = signals.read_signal() {
                let signal = i32::try_from(info.ssi_signo).ok();
                if let Some(status) = self.signal(signal.and_then(|n| n.try_into().ok()))? {
                    return Ok(status);
                }
            }
            if let Some(status) = self.take_orders()? {
                return Ok(status);
            }
        }
    }

    fn timers(&mut self) -> std::io::Result<Option<i32>> {
        let now = Instant::now();
        let there = matches!(&self.flags.ready, Ready::When(file) if file.exists());
        if !self.ready && (there || self.ready_at.is_some_and(|at| at <= now)) {
            self.become_ready()?;
        }
        if let Some((every, at)) = self.pings
            && at <= now
        {
            notify::send("WATCHDOG=1")?;
            self.pings = Some((every, now + every));
        }
        if self.ends_at.is_some_and(|at| at <= now) {
            let end = self.flags.end.clone().unwrap_or(End::Exit(0));
            return self.end(&end).map(Some);
        }
        Ok(None)
    }

    fn next_timeout(&self) -> PollTimeout {
        let looking = !self.ready && matches!(self.flags.ready, Ready::When(_));
        let now = Instant::now();
        let waits = [self.ready_at.filter(|_| !self.ready), self.ends_at, self.pings.map(|p| p.1)]
            .into_iter()
            .flatten()
            .map(|at| at.saturating_duration_since(now) + Duration::from_millis(1))
            .chain(looking.then_some(LOOK));
        match waits.min() {
            Some(span) => PollTimeout::try_from(span).unwrap_or(PollTimeout::MAX),
            None => PollTimeout::NONE,
        }
    }

    fn become_ready(&mut self) -> std::io::Result<()> {
        self.ready = true;
        self.trace("ready");
        if let Some(file) = &self.flags.pid_file {
            let pid = std::process::id().to_string();
            let text = self.flags.pid_text.clone().unwrap_or(format!("{pid}\n"));
            let fresh = file.with_extension("new");
            std::fs::write(&fresh, text.replace("\\n", "\n"))?;
            std::fs::rename(fresh, file)?;
        }
        for line in &self.flags.say {
            println!("{line}");
        }
        for line in &self.flags.say_err {
            eprintln!("{line}");
        }
        self.lines(self.flags.output);
        std::io::stdout().flush()?;
        if self.flags.notify {
            notify::send("READY=1")?;
        }
        if self.flags.end.is_some() {
            self.ends_at = Some(Instant::now() + self.flags.end_after);
        }
        Ok(())
    }

    fn lines(&self, count: usize) {
        for n in 1..=count {
            println!("{} line {n}", self.flags.name);
        }
    }

    fn signal(&mut self, signal: Option<Signal>) -> std::io::Result<Option<i32>> {
        let Some(signal) = signal else { return Ok(None) };
        let name = signal.as_str().trim_start_matches("SIG");
        if signal == Signal::SIGCHLD {
            self.children.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
            return Ok(None);
        }
        self.trace(&name.to_lowercase());
        if self.flags.reload.as_deref() == Some(name) {
            let clock = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)?;
            let micros = clock.tv_sec() * 1_000_000 + clock.tv_nsec() / 1_000;
            notify::send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"))?;
            println!("{} reloaded", self.flags.name);
            notify::send("READY=1")?;
            return Ok(None);
        }
        if self.flags.ignore.iter().any(|ignored| ignored == name) {
            return Ok(None);
        }
        self.trace("stop");
        for child in &mut self.children {
            let _ = child.kill();
        }
        Ok(Some(0))
    }

    fn take_orders(&mut self) -> std::io::Result<Option<i32>> {
        let Some(orders) = &mut self.orders else { return Ok(None) };
        let mut bytes = [0u8; 4096];
        let count = match orders.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.line.extend_from_slice(&bytes[..count]);
        while let Some(end) = self.line.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match Order::parse(line.trim_end()) {
                Ok(order) => {
                    if let Some(status) = self.obey(order)? {
                        return Ok(Some(status));
                    }
                }
                Err(error) => eprintln!("{}: {error}", self.flags.name),
            }
        }
        Ok(None)
    }

    fn obey(&mut self, order: Order) -> std::io::Result<Option<i32>> {
        match order {
            Order::Ready => self.become_ready()?,
            Order::End(end) => return self.end(&end).map(Some),
            Order::Say(text) => println!("{text}"),
            Order::Err(text) => eprintln!("{text}"),
            Order::Notify(text) => notify::send(&text)?,
            Order::Flood(count, text) => {
                for _ in 0..count {
                    notify::send(&text)?;
                }
            }
            Order::Pass(datagrams, each, path) => notify::pass(datagrams, each, &path)?,
            Order::Store(path, text) => self.other_end = notify::store(&path, &text)?,
            Order::Fork(count) => self.fork(count)?,
            Order::Orphan(count) => self.orphan(count)?,
            Order::Pings(true) => {
                self.pings = notify::ping_interval().map(|every| (every, Instant::now()));
            }
            Order::Pings(false) => self.pings = None,
            Order::Lines(count) => self.lines(count),
            Order::Ignore(signal) => self.flags.ignore.push(signal),
        }
        std::io::stdout().flush()?;
        Ok(None)
    }

    fn end(&self, end: &End) -> std::io::Result<i32> {
        match end {
            End::Exit(code) => {
                self.trace(&format!("exit {code}"));
                Ok(*code)
            }
            End::Signal(name) => {
                self.trace(&format!("die {name}"));
                let signal: Signal = format!("SIG{name}").parse()?;
                let mut set = SigSet::empty();
                set.add(signal);
                set.thread_unblock()?;
                // The first signal may only remove the standard library's own handler.
                raise(signal)?;
                raise(signal)?;
                Ok(128 + signal as i32)
            }
        }
    }

    /// Starts idle children: the same program, with the same ignored signals.
    fn fork(&mut self, count: usize) -> std::io::Result<()> {
        for _ in 0..count {
            let child = self.plain_child().spawn()?;
            self.trace(&format!("child {}", child.id()));
            self.children.push(child);
        }
        Ok(())
    }

    /// Like [`Life::fork`], but through a shell that exits at once.
    fn orphan(&self, count: usize) -> std::io::Result<()> {
        for _ in 0..count {
            let child = self.plain_child();
            let status = Command::new("/bin/sh")
                .args(["-c", "\"$0\" \"$@\" & exit 0"])
                .arg(std::fs::read_link("/proc/self/exe")?)
                .args(child.get_args())
                .stdin(Stdio::null())
                .status()?;
            self.trace(&format!("orphan {status}"));
        }
        Ok(())
    }

    fn plain_child(&self) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--name", &format!("{}-child", self.flags.name)]).stdin(Stdio::null());
        for signal in &self.flags.ignore {
            command.args(["--ignore", signal]);
        }
        command
    }

    fn trace(&self, word: &str) {
        let Some(path) = &self.flags.trace else { return };
        let file = OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(format!("{word}\n").as_bytes()))
        {
            eprintln!("{}: {}: {error}", self.flags.name, path.display());
        }
    }
}

/// Opens the pipe for reading and writing, so that it never reports its end.
fn open_orders(path: &Path) -> std::io::Result<File> {
    match nix::unistd::mkfifo(path, Mode::from_bits_truncate(0o600)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = (OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

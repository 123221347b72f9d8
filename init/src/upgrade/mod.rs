//! `initctl upgrade`: init executes another image of its program and keeps its state.
//!
//! A child opens the new binary, passes its descriptor to init, and executes it with a copy of the
//! state (`--check-resume`). A dead disk blocks the child, not init. A binary that cannot read the
//! state, or crashes, is refused and nothing has changed. If the binary can read it, init commits
//! its state, blocks signals and executes the binary (`--resume`). If the exec fails, the event
//! loop continues.

pub(crate) mod switch_root;

use crate::base::limit;
use crate::base::reexec::{arguments, environment, own_binary};
use crate::loader::Asker;
use crate::state::store::Store;
use crate::sys::{Pid, fault, inbox, inherit, memfd, process, socket};
use groundstate_units::control::answer::{Commits, Failure};
use groundstate_units::spec::Exit;
use groundstate_units::text::time::Time;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// The result of a successful trial.
pub(crate) struct Passed {
    pub(crate) binary: OwnedFd,
    pub(crate) root: Option<OwnedFd>,
}

/// A binary that is being tried.
pub(crate) struct Upgrade {
    pub(crate) asker: Asker,
    pub(crate) child: Pid,
    said: OwnedFd,
    /// The deadline of the trial.
    pub(crate) until: Time,
    /// True if init is to enter another root.
    pub(crate) to_root: bool,
    pub(crate) passed: Option<Passed>,
}

impl Upgrade {
    /// Starts a child that tries the binary with this copy of the state.
    pub(crate) fn begin(
        asker: Asker,
        wanted: &Wanted,
        state: &OwnedFd,
        now: Time,
    ) -> io::Result<Upgrade> {
        let (said, theirs) = socket::pair()?;
        let child = process::fork_whole(|| {
            let _ = process::die_with_parent();
            try_it(wanted, state, &theirs)
        })?;
        let until = now.after(limit::UPGRADE_TRIAL);
        let to_root = matches!(wanted, Wanted::InRoot(..));
        Ok(Upgrade { asker, child, said, until, to_root, passed: None })
    }

    /// Handles the reaped child. An error says why the binary cannot be used.
    pub(crate) fn take_result(&mut self, exit: Exit) -> Result<(), String> {
        let (mut brought, mut why) = (Vec::new(), String::new());
        let mut buffer = [0u8; limit::UPGRADE_REASON];
        while let Ok(got) = socket::receive(self.said.as_fd(), &mut buffer) {
            if got.length == 0 {
                break;
            }
            let text = buffer.get(..got.length).unwrap_or_default();
            why = String::from_utf8_lossy(text).into_owned();
            brought.extend(got.fds);
        }
        let mut brought = brought.into_iter();
        let (binary, root) = (brought.next(), brought.next());
        match (exit, binary) {
            (Exit::Code(0), Some(binary)) if why == PASSED => {
                self.passed = Some(Passed { binary, root });
                self.until = Time::NEVER;
                Ok(())
            }
            (Exit::Code(0), _) => Err("it is not an init that can read the state".to_string()),
            (Exit::Code(_), _) => Err(why),
            (Exit::Signal { signal, .. }, _) => {
                Err(format!("its trial was killed by signal {signal}"))
            }
        }
    }
}

pub(crate) fn cannot(why: &str) -> Failure {
    Failure::new("upgrade", why, "init continues unchanged")
}

// The trial child: finds the binary, passes its descriptor to init, and executes it with a copy of
// the state.

/// The message of a binary that can read the state.
pub(crate) const PASSED: &str = "it can read the state";

/// The location of the next binary.
pub(crate) enum Wanted {
    /// In this root; `None` means the path of the present binary.
    Here(Option<String>),
    /// In another root (root, program), which becomes the root.
    InRoot(String, String),
}

/// The path of the present binary. The kernel appends `(deleted)` to a replaced one.
fn own_path() -> io::Result<String> {
    let path = std::fs::read_link("/proc/self/exe")?.to_string_lossy().into_owned();
    Ok(path.strip_suffix(" (deleted)").map_or(path.clone(), str::to_string))
}

/// The path for messages, the binary, and the root it is in.
fn find(wanted: &Wanted) -> Result<(String, OwnedFd, Option<OwnedFd>), String> {
    let path = match wanted {
        Wanted::InRoot(root, program) => {
            let (root, binary) = switch_root::find(root, program)?;
            return Ok((program.clone(), binary, Some(root)));
        }
        Wanted::Here(Some(path)) => path.clone(),
        Wanted::Here(None) => own_path().map_err(|error| format!("/proc/self/exe: {error}"))?,
    };
    let opened = open(path.as_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
    let binary = opened.map_err(|error| format!("{path}: {error}"))?;
    Ok((path, binary, None))
}

/// Runs in the child: finds the binary, passes it to init, and executes it.
fn try_it(wanted: &Wanted, state: &OwnedFd, said: &OwnedFd) -> u8 {
    let say = |why: &str| {
        let _ = socket::send(said.as_fd(), why.as_bytes(), &[]);
        1
    };
    let (path, binary, root) = match find(wanted) {
        Ok(found) => found,
        Err(why) => return say(&why),
    };
    let is_file = fstat(&binary).is_ok_and(|found| found.st_mode & libc::S_IFMT == libc::S_IFREG);
    if !is_file {
        return say(&format!("{path} is not a regular file"));
    }
    let brought: Vec<_> = std::iter::once(&binary).chain(&root).map(AsFd::as_fd).collect();
    if let Err(error) = socket::send(said.as_fd(), b"it is not an init", &brought) {
        return say(&format!("{path}: {error}"));
    }
    let check = Check { store: state.as_raw_fd(), said: said.as_raw_fd() };
    if let Some(Err(why)) = root.as_ref().map(|root| switch_root::rehearse(root.as_fd())) {
        return say(&why);
    }
    inherit::keep_all();
    let error = process::execute(
        binary.as_fd(),
        &arguments(word("--check-resume", &check)),
        &environment(),
    );
    say(&format!("{path}: {error}"))
}

// The images of init: the previous, the present and the next. This module arms the fault handler
// ([`crate::sys::fault`]) with the binary and the arguments of the next image.

/// The previous, present and next image of this init.
#[derive(Default)]
pub(crate) struct Images {
    /// The running binary, opened so that it can be executed after its file is removed.
    pub(crate) binary: Option<OwnedFd>,
    /// The previous binary and the end of its probation.
    pub(crate) previous: Option<(OwnedFd, Time)>,
    /// The state store for the next image. `None` if the kernel has no memfds.
    pub(crate) store: Option<Store>,
    /// The commit counters, for `stats`.
    pub(crate) commits: Commits,
    /// Inputs since the last commit. The fault handler writes to it too.
    pub(crate) inbox: Option<File>,
    /// The time until which another crash counts as one in a row.
    pub(crate) steady_at: Option<Time>,
    /// Number of crashes in a row.
    pub(crate) row: u32,
    /// The upgrade in progress.
    pub(crate) upgrade: Option<Upgrade>,
}

// Arguments on the command line of the next image.

/// `--resume=`: continue from the state of the previous image.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Resume {
    /// Descriptor of the state store.
    pub(crate) store: RawFd,
    /// Descriptor of the previous binary.
    pub(crate) previous: Option<RawFd>,
    /// Signals that were received and not handled.
    pub(crate) arrived: u64,
    /// True if the upgraded image crashed at startup and this one replaces it.
    pub(crate) gave_way: bool,
    /// True for the first image in this root.
    pub(crate) in_root: bool,
    /// Descriptor of the previous root, whose memory is to be freed.
    pub(crate) old: Option<RawFd>,
}

/// `--rescue=`: continue after a crash of the previous image.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rescue {
    /// Descriptors of the state store and of the inbox.
    pub(crate) store: RawFd,
    pub(crate) inbox: RawFd,
    /// Number of crashes, in total and in a row.
    pub(crate) crashes: u32,
    pub(crate) row: u32,
    /// Descriptor of the newer binary, for a previous one that cannot read the state.
    pub(crate) newer: Option<RawFd>,
}

/// `--check-resume=`: only check that the state can be read.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Check {
    /// Descriptors of a copy of the state and of the socket for the result.
    pub(crate) store: RawFd,
    pub(crate) said: RawFd,
}

/// The argument for the next image.
pub(crate) fn word(option: &str, given: &impl Serialize) -> String {
    format!("{option}={}", serde_json::to_string(given).unwrap_or_default())
}

/// Reads the value of such an argument.
pub(crate) fn read_word<T: DeserializeOwned>(value: &str) -> io::Result<T> {
    serde_json::from_str(value).map_err(|error| io::Error::other(format!("{value}: {error}")))
}

impl Images {
    /// The images of an init that does not continue after a crash, with its store.
    pub(crate) fn with(store: Option<Store>) -> Images {
        let inbox = memfd::create(c"inbox").ok().map(File::from);
        if let Some(inbox) = &inbox {
            // Without an inbox a crash loses the inputs of its turn.
            let _ = inbox::begin(inbox.as_fd());
        }
        Images { binary: own_binary(), store, inbox, ..Images::default() }
    }

    /// The images of an init that continues after a crash, with the store and inbox of the crashed
    /// image. Arms crash recovery at once.
    pub(crate) fn after_crash(
        store: Store,
        inbox: File,
        Rescue { crashes, row, .. }: Rescue,
    ) -> Images {
        let (store, inbox, binary) = (Some(store), Some(inbox), own_binary());
        binary.iter().for_each(|binary| inherit::mark_as_new(binary.as_fd()));
        let images = Images { binary, store, inbox, row, ..Images::default() };
        // A failure is reported when init arms again.
        let _ = images.arm(crashes);
        images
    }

    /// Arms the fault handler with the next image.
    pub(crate) fn arm(&self, crashes: u32) -> io::Result<()> {
        let own = self.binary.as_ref().ok_or_else(|| io::Error::other("/proc is missing"))?;
        let memory = self.store.as_ref().zip(self.inbox.as_ref());
        let (store, inbox) =
            memory.ok_or_else(|| io::Error::other("the kernel has no memfd_create(2)"))?;
        let previous = self.previous.as_ref().map(|(binary, _)| binary);
        // During probation, a crash falls back to the previous binary. If that binary cannot read
        // the state, it executes the newer one.
        let binary = previous.unwrap_or(own);
        let rescue = Rescue {
            store: store.descriptor_number(),
            inbox: inbox.as_raw_fd(),
            crashes: crashes.saturating_add(1),
            row: self.row.saturating_add(1),
            newer: previous.map(|_| own.as_raw_fd()),
        };
        let words = arguments(word("--rescue", &rescue));
        fault::arm(binary.as_fd(), Some(inbox.as_fd()), words, environment())
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let trial = self.upgrade.as_ref().map(|upgrade| upgrade.until);
        let probation = self.previous.as_ref().map(|(_, until)| *until);
        [trial, probation, self.steady_at].into_iter().flatten().min()
    }
}

/// Arms the fault handler with the previous binary until the new image is ready: a crash executes
/// that binary with the same state.
pub(crate) fn arm_fallback(previous: &OwnedFd, resume: &Resume) {
    let resume = Resume { previous: None, gave_way: true, ..resume.clone() };
    // If this fails, a crash has no fallback.
    let words = arguments(word("--resume", &resume));
    let _ = fault::arm(previous.as_fd(), None, words, environment());
}

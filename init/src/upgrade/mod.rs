//! `initctl upgrade`: init becomes another image of its program and keeps its state.
//!
//! A child opens the new binary, hands its descriptor to init, and executes it with a copy of the state
//! (`--check-resume`). A dead disk holds up the child, not init. A binary that cannot read the state, or crashes, is
//! refused, and nothing has changed. Then init commits its state, holds signals back and executes the binary
//! (`--resume`). If the exec fails, the event loop continues.

pub(crate) mod images;
pub(crate) mod switch_root;

use crate::base::reexec::{arguments, environment};
use crate::loader::Asker;
use crate::sys::{Pid, inherit, process, socket};
use groundstate_units::control::answer::Failure;
use groundstate_units::text::time::Time;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// What a trial has shown to be good.
pub(crate) struct Passed {
    pub(crate) binary: OwnedFd,
    pub(crate) root: Option<OwnedFd>,
}

/// A binary that is being tried.
pub(crate) struct Upgrade {
    pub(crate) asker: Asker,
    pub(crate) child: Pid,
    pub(crate) said: OwnedFd,
    pub(crate) until: Time,
    /// Another root is to be entered.
    pub(crate) to_root: bool,
    pub(crate) passed: Option<Passed>,
}

impl Upgrade {
    /// It can be gone on as.
    pub(crate) fn has_passed(&self) -> bool {
        self.passed.is_some()
    }
}

pub(crate) fn cannot(why: &str) -> Failure {
    Failure::new("upgrade", why, "init goes on as it is")
}

// The child that tries the binary init is to go on as: it finds it, hands its descriptor over, and
// becomes it, with a copy of the whole state to read.

/// What a binary says that can read the state.
pub(crate) const PASSED: &str = "it can read the state";

/// The same where it is to begin in another root.
pub(crate) const PASSED_ROOT: &str = "it can read the state and begin in another root";

/// Where the next binary is.
pub(crate) enum Wanted {
    /// Here; no path: at the place of the present one.
    Here(Option<String>),
    /// In another root, which is to be the root.
    InRoot(String, String),
}

/// Path of the present binary; it says `(deleted)` behind one that was replaced.
fn own_path() -> io::Result<String> {
    let path = std::fs::read_link("/proc/self/exe")?.to_string_lossy().into_owned();
    Ok(path.strip_suffix(" (deleted)").map_or(path.clone(), str::to_string))
}

/// The path to be shown, the binary, the root it is in.
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

/// The child: finds the binary, hands it over, becomes it.
pub(crate) fn try_it(wanted: &Wanted, state: &OwnedFd, said: &OwnedFd) -> u8 {
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
        return say(&format!("{path} is no file"));
    }
    let brought: Vec<_> = std::iter::once(&binary).chain(&root).map(AsFd::as_fd).collect();
    if let Err(error) = socket::send(said.as_fd(), b"it is no init", &brought) {
        return say(&format!("{path}: {error}"));
    }
    let mut word = format!("--check-resume={},{}", state.as_raw_fd(), said.as_raw_fd());
    if let Some(root) = &root {
        word.push_str(",1");
        if let Err(why) = switch_root::rehearse(root.as_fd()) {
            return say(&why);
        }
    }
    inherit::keep_all();
    let error = process::execute(binary.as_fd(), &arguments(word), &environment());
    say(&format!("{path}: {error}"))
}

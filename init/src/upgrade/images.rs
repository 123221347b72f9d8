//! The images of init: the previous, the present and the next. This module arms the fault handler
//! ([`crate::sys::fault`]) with the binary and the arguments of the next image.

use crate::base::own_limits::Given;
use crate::base::reexec::{arguments, environment, own_binary};
use crate::loader::Asker;
use crate::state::store::Store;
use crate::sys::{fault, inbox, inherit, memfd};
use crate::upgrade::Upgrade;
use groundstate_units::text::time::Time;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

/// The previous, present and next image of this init.
#[derive(Default)]
pub(crate) struct Images {
    /// Number of crashes that init has survived.
    pub(crate) crashes: u32,
    /// The time at which init continued after the last crash.
    pub(crate) resumed: Option<Time>,
    /// The running binary, opened so that it can be executed after its file is removed.
    pub(crate) binary: Option<OwnedFd>,
    /// The previous binary and the end of its probation.
    pub(crate) previous: Option<(OwnedFd, Time)>,
    /// The state store for the next image. `None` if the kernel has no memfds.
    pub(crate) store: Option<Store>,
    /// Inputs since the last commit. The fault handler writes to it too.
    pub(crate) inbox: Option<File>,
    /// The original limits that init raised for itself.
    pub(crate) given: Vec<Given>,
    /// Until then, another crash counts as one in a row.
    pub(crate) steady_at: Option<Time>,
    /// Number of crashes in a row.
    pub(crate) row: u32,
    /// The upgrade in progress.
    pub(crate) upgrade: Option<Upgrade>,
    /// The client whose upgrade is about to happen or has just happened.
    pub(crate) upgraded: Option<Asker>,
}

/// How an image starts that continues after another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    /// True if the upgraded image crashed at startup and this one replaces it.
    pub(crate) gave_way: bool,
    /// True for the first image in this root.
    pub(crate) in_root: bool,
    /// Descriptor of the previous root, whose memory is to be freed; -1 if there is none.
    pub(crate) old: RawFd,
}

impl Begins {
    /// A start in another root.
    pub(crate) fn in_root(old: Option<&OwnedFd>) -> Begins {
        Begins { gave_way: false, in_root: true, old: old.map_or(-1, AsRawFd::as_raw_fd) }
    }

    /// The suffix for the numbers of `--resume`.
    pub(crate) fn word(self) -> String {
        let how = u8::from(self.gave_way) + 2 * u8::from(self.in_root);
        if self.in_root { format!(",{how},{}", self.old) } else { format!(",{how}") }
    }

    pub(crate) fn of(numbers: &[u64]) -> Begins {
        let how = numbers.get(3).copied().unwrap_or(0);
        let old = numbers.get(4).and_then(|number| RawFd::try_from(*number).ok()).unwrap_or(-1);
        Begins { gave_way: how & 1 != 0, in_root: how & 2 != 0, old }
    }
}

/// Crash counters, total and in a row, and init's original limits.
#[derive(Clone, Debug)]
pub(crate) struct Crashed {
    pub(crate) crashes: u32,
    pub(crate) row: u32,
    pub(crate) given: Vec<Given>,
}

impl Images {
    /// The images at a first start.
    pub(crate) fn begins() -> Images {
        Images::with(Store::new().ok())
    }

    /// The images of one that continues with the store of the previous image.
    pub(crate) fn with(store: Option<Store>) -> Images {
        let inbox = memfd::create(c"inbox").ok().map(File::from);
        if let Some(inbox) = &inbox {
            // Without an inbox a crash loses the inputs of its turn.
            let _ = inbox::begin(inbox.as_fd());
        }
        Images { binary: own_binary(), store, inbox, ..Images::default() }
    }

    /// The images of one that continues after a crash, with the store and inbox of the crashed
    /// image. It arms crash recovery at once.
    pub(crate) fn after_crash(
        store: Store,
        inbox: File,
        Crashed { crashes, row, given }: Crashed,
    ) -> Images {
        let (store, inbox, binary) = (Some(store), Some(inbox), own_binary());
        binary.iter().for_each(|binary| inherit::is_new(binary.as_fd()));
        let images = Images { binary, store, inbox, crashes, row, given, ..Images::default() };
        // A failure is reported when init arms again.
        let _ = images.arm();
        images
    }

    /// Arms the fault handler with the next image.
    pub(crate) fn arm(&self) -> io::Result<()> {
        let own = self.binary.as_ref().ok_or_else(|| io::Error::other("/proc is missing"))?;
        let memory = self.store.as_ref().zip(self.inbox.as_ref());
        let (store, inbox) =
            memory.ok_or_else(|| io::Error::other("the kernel has no memfd_create(2)"))?;
        let previous = self.previous.as_ref().map(|(binary, _)| binary);
        // During probation, a crash falls back to the previous binary.
        let binary = previous.unwrap_or(own);
        let (store, number) = (store.number(), inbox.as_raw_fd());
        let (crashes, row) = (self.crashes.saturating_add(1), self.row.saturating_add(1));
        let given = self.given.iter();
        let given: String =
            given.map(|(number, soft, hard)| format!(",{number},{soft},{hard}")).collect();
        let word = format!("--rescue={store},{number},{crashes},{row}{given}");
        fault::arm(binary.as_fd(), Some(inbox.as_fd()), arguments(word), environment())
    }

    /// Returns true if a binary has passed its trial and waits only for the load in flight.
    pub(crate) fn waits_for_loader(&self) -> bool {
        self.upgrade.as_ref().is_some_and(Upgrade::has_passed)
    }

    /// The earliest deadline.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let trial = self.upgrade.as_ref().map(Upgrade::deadline);
        let probation = self.previous.as_ref().map(|(_, until)| *until);
        [trial, probation, self.steady_at].into_iter().flatten().min()
    }
}

/// Arms the fault handler with the previous binary until the new image is ready: a crash executes
/// that binary with the same state.
pub(crate) fn gives_way_to(previous: &OwnedFd, store: &Store, rung: u64, begins: Begins) {
    let word = format!("--resume={},-1,{rung}{}", store.number(), begins.word());
    // If this fails, a crash has no fallback.
    let _ = fault::arm(previous.as_fd(), None, arguments(word), environment());
}

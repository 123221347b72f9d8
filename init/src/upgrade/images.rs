//! The images of init: the one before, the present one, the next. The fault handler ([`crate::sys::fault`]) is
//! armed here with the binary and the arguments of the next image.

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

/// The images of this init: the one before, the present one, the next.
#[derive(Default)]
pub(crate) struct Images {
    /// Crashes that were survived.
    pub(crate) crashes: u32,
    /// When it went on after the last of them.
    pub(crate) resumed: Option<Time>,
    /// The binary that runs, to be executed when its file is gone.
    pub(crate) binary: Option<OwnedFd>,
    /// The one before it, until then.
    pub(crate) previous: Option<(OwnedFd, Time)>,
    /// The state, as the next image finds it. None: there are no memfds here.
    pub(crate) store: Option<Store>,
    /// Inputs between two commits; the fault handler writes there, too.
    pub(crate) inbox: Option<File>,
    /// What init was given of the limits it raised for itself.
    pub(crate) given: Vec<Given>,
    /// Until then a crash counts as one more of a row.
    pub(crate) steady_at: Option<Time>,
    /// Crashes in a row so far.
    pub(crate) row: u32,
    /// A binary that is being tried.
    pub(crate) upgrade: Option<Upgrade>,
    /// Who asked for the upgrade that is about to be, or has just been.
    pub(crate) upgraded: Option<Asker>,
}

/// How an image begins that goes on after another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The one it was to give way to has crashed at once.
    pub(crate) gave_way: bool,
    /// It is the first in this root.
    pub(crate) in_root: bool,
    /// The memory of the root before, which is to be given back.
    pub(crate) old: RawFd,
}

impl Begins {
    /// In another root.
    pub(crate) fn in_root(old: Option<&OwnedFd>) -> Begins {
        Begins { gave_way: false, in_root: true, old: old.map_or(-1, AsRawFd::as_raw_fd) }
    }

    /// What stands behind the other numbers of `--resume`.
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

/// Crashes so far, in all and in a row, and the limits init was given before it raised them.
#[derive(Clone, Debug)]
pub(crate) struct Crashed {
    pub(crate) crashes: u32,
    pub(crate) row: u32,
    pub(crate) given: Vec<Given>,
}

impl Images {
    /// With the present image alone.
    pub(crate) fn begins() -> Images {
        Images::with(Store::new().ok())
    }

    /// The present image goes on with the store of the one before it.
    pub(crate) fn with(store: Option<Store>) -> Images {
        let inbox = memfd::create(c"inbox").ok().map(File::from);
        if let Some(inbox) = &inbox {
            // Without an inbox a crash loses the inputs of its turn.
            let _ = inbox::begin(inbox.as_fd());
        }
        Images { binary: own_binary(), store, inbox, ..Images::default() }
    }

    /// The present image goes on after one that crashed, with its store and its inbox. The next crash is
    /// survived from here on.
    pub(crate) fn after_crash(
        store: Store,
        inbox: File,
        Crashed { crashes, row, given }: Crashed,
    ) -> Images {
        let (store, inbox, binary) = (Some(store), Some(inbox), own_binary());
        binary.iter().for_each(|binary| inherit::is_new(binary.as_fd()));
        let images = Images { binary, store, inbox, crashes, row, given, ..Images::default() };
        // Said when it is armed again.
        let _ = images.arm();
        images
    }

    /// From now on a crash is survived.
    pub(crate) fn arm(&self) -> io::Result<()> {
        let own = self.binary.as_ref().ok_or_else(|| io::Error::other("there is no /proc"))?;
        let memory = self.store.as_ref().zip(self.inbox.as_ref());
        let (store, inbox) =
            memory.ok_or_else(|| io::Error::other("there is no memfd_create(2)"))?;
        let previous = self.previous.as_ref().map(|(binary, _)| binary);
        // One that has just come, and crashes, gives way to the one before it.
        let binary = previous.unwrap_or(own);
        let (store, number) = (store.number(), inbox.as_raw_fd());
        let (crashes, row) = (self.crashes.saturating_add(1), self.row.saturating_add(1));
        let given = self.given.iter();
        let given: String =
            given.map(|(number, soft, hard)| format!(",{number},{soft},{hard}")).collect();
        let word = format!("--rescue={store},{number},{crashes},{row}{given}");
        fault::arm(binary.as_fd(), Some(inbox.as_fd()), arguments(word), environment())
    }

    /// A binary has passed that waits for the load under way, and for no other.
    pub(crate) fn waits_for_loader(&self) -> bool {
        self.upgrade.as_ref().is_some_and(Upgrade::has_passed)
    }

    /// When something is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let trial = self.upgrade.as_ref().map(Upgrade::deadline);
        let probation = self.previous.as_ref().map(|(_, until)| *until);
        [trial, probation, self.steady_at].into_iter().flatten().min()
    }
}

/// Until it is armed for good, a crash of this new image executes the one before it, which goes on
/// with the same state.
pub(crate) fn gives_way_to(previous: &OwnedFd, store: &Store, rung: u64, begins: Begins) {
    let word = format!("--resume={},-1,{rung}{}", store.number(), begins.word());
    // Refused: then it is as if there had been none before.
    let _ = fault::arm(previous.as_fd(), None, arguments(word), environment());
}

//! What of the state is a descriptor or a process: written as its number, with what tells it
//! from another of that number, and taken over by it. For `#[serde(with = "carried")]` and its neighbours on the fields of live types.

use crate::sys::{Pid, inherit};
use mio::net::{UnixListener, UnixStream};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;

/// The number that stands for none.
const NONE: RawFd = -1;

/// Something that holds one descriptor.
pub(crate) trait Carried: Sized {
    /// Its number.
    fn number(&self) -> RawFd;
    /// Takes it over. EBADF: it is not there.
    fn of(number: RawFd, identity: u64) -> io::Result<Self>;
}

impl Carried for OwnedFd {
    fn number(&self) -> RawFd {
        self.as_raw_fd()
    }
    fn of(number: RawFd, identity: u64) -> io::Result<OwnedFd> {
        inherit::take_same(number, identity)
    }
}

impl Carried for File {
    fn number(&self) -> RawFd {
        self.as_raw_fd()
    }
    fn of(number: RawFd, identity: u64) -> io::Result<File> {
        inherit::take_same(number, identity).map(File::from)
    }
}

impl Carried for UnixListener {
    fn number(&self) -> RawFd {
        self.as_raw_fd()
    }
    fn of(number: RawFd, identity: u64) -> io::Result<UnixListener> {
        inherit::take_same(number, identity).map(|fd| UnixListener::from_std(fd.into()))
    }
}

impl Carried for UnixStream {
    fn number(&self) -> RawFd {
        self.as_raw_fd()
    }
    fn of(number: RawFd, identity: u64) -> io::Result<UnixStream> {
        inherit::take_same(number, identity).map(|fd| UnixStream::from_std(fd.into()))
    }
}

impl<T: Carried> Carried for Rc<T> {
    fn number(&self) -> RawFd {
        T::number(self)
    }
    fn of(number: RawFd, identity: u64) -> io::Result<Rc<T>> {
        T::of(number, identity).map(Rc::new)
    }
}

impl<T: Carried> Carried for Option<T> {
    fn number(&self) -> RawFd {
        self.as_ref().map_or(NONE, T::number)
    }
    fn of(number: RawFd, identity: u64) -> io::Result<Option<T>> {
        if number == NONE { Ok(None) } else { T::of(number, identity).map(Some) }
    }
}

pub(crate) fn serialize<T: Carried, S: Serializer>(it: &T, to: S) -> Result<S::Ok, S::Error> {
    let number = it.number();
    (number, inherit::identity(number)).serialize(to)
}

pub(crate) fn deserialize<'de, T: Carried, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let (number, identity) = <(RawFd, u64)>::deserialize(from)?;
    T::of(number, identity).map_err(D::Error::custom)
}

/// A process.
pub(crate) mod pid {
    use super::{Deserialize, Deserializer, Pid, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(pid: &Pid, to: S) -> Result<S::Ok, S::Error> {
        pid.as_raw().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pid, D::Error> {
        i32::deserialize(from).map(Pid::from_raw)
    }
}

/// A process, or none.
pub(crate) mod maybe_pid {
    use super::{Deserialize, Deserializer, Pid, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(pid: &Option<Pid>, to: S) -> Result<S::Ok, S::Error> {
        pid.map(Pid::as_raw).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pid>, D::Error> {
        Ok(Option::<i32>::deserialize(from)?.map(Pid::from_raw))
    }
}

/// A word of a known few, which are kept as they are in the program.
pub(crate) mod word {
    use super::{Deserializer, Error};
    use serde::Deserialize;

    /// All words that stand in the state: of the event log, and how a main process ended.
    const KNOWN: [&str; 18] = [
        "boot",
        "set-target",
        "want",
        "unwant",
        "policy",
        "source",
        "reload",
        "restart",
        "reload-unit",
        "retry",
        "shutdown",
        "resume",
        "timeout",
        "watchdog",
        "oom-kill",
        "exec-condition",
        "protocol",
        "state",
    ];

    fn known<E: Error>(word: &str) -> Result<&'static str, E> {
        let found = KNOWN.iter().find(|known| **known == word);
        found.copied().ok_or_else(|| E::custom("a word nobody knows"))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<&'static str, D::Error> {
        known(&String::deserialize(from)?)
    }

    pub(crate) fn maybe<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<&'static str>, D::Error> {
        Option::<String>::deserialize(from)?.map(|word| known(&word)).transpose()
    }
}

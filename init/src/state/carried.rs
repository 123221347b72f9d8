//! Descriptors and processes in the state. The record of a descriptor is its number and its
//! identity, because numbers are reused. The next image takes it over by both.

use crate::sys::{Pid, inherit};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// A descriptor that is part of the state. Its record is its number and its identity, which is read
/// from the kernel once: at the first commit.
#[derive(Debug)]
pub(crate) struct KeptFd<T> {
    held: T,
    /// The identity of the file; zero if it has not been read yet.
    identity: Cell<u64>,
}

impl<T> KeptFd<T> {
    /// Returns the descriptor, which is then no longer part of the state.
    pub(crate) fn into_inner(self) -> T {
        self.held
    }
}

impl<T> From<T> for KeptFd<T> {
    fn from(held: T) -> KeptFd<T> {
        KeptFd { held, identity: Cell::new(0) }
    }
}

impl<T> Deref for KeptFd<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.held
    }
}

impl<T> DerefMut for KeptFd<T> {
    /// The caller may replace the descriptor, so its identity is read again.
    fn deref_mut(&mut self) -> &mut T {
        self.identity.set(0);
        &mut self.held
    }
}

impl<T: AsFd> AsFd for KeptFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.held.as_fd()
    }
}

impl<T: AsRawFd> Serialize for KeptFd<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let number = self.held.as_raw_fd();
        if self.identity.get() == 0 {
            self.identity.set(inherit::identity(number));
        }
        (number, self.identity.get()).serialize(to)
    }
}

impl<'de, T: From<OwnedFd>> Deserialize<'de> for KeptFd<T> {
    /// Takes the descriptor over, or a stand-in if the number refers to another file or is closed.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<KeptFd<T>, D::Error> {
        let (number, identity) = <(RawFd, u64)>::deserialize(from)?;
        let held = inherit::take_same(number, identity).map_err(D::Error::custom)?;
        Ok(KeptFd::from(T::from(held)))
    }
}

/// Serializes a process id.
pub(crate) mod pid {
    use super::{Deserialize, Deserializer, Pid, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(pid: &Pid, to: S) -> Result<S::Ok, S::Error> {
        pid.as_raw().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pid, D::Error> {
        i32::deserialize(from).map(Pid::from_raw)
    }
}

/// Serializes an optional process id.
pub(crate) mod maybe_pid {
    use super::{Deserialize, Deserializer, Pid, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(pid: &Option<Pid>, to: S) -> Result<S::Ok, S::Error> {
        pid.map(Pid::as_raw).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Pid>, D::Error> {
        Ok(Option::<i32>::deserialize(from)?.map(Pid::from_raw))
    }
}

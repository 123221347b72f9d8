//! The sealed bytes a generation came in. They are kept as long as it is in force: an init
//! that goes on as another image reads it anew from them, and nothing has to be written.

use super::{Loader, parcel};
use crate::journal::carried;
use groundstate_units::generation::Generation;
use mio::Registry;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

#[derive(Serialize, Deserialize)]
struct Sealed {
    number: u32,
    #[serde(with = "carried")]
    memory: OwnedFd,
}

/// Of the generation in force, and of the latest delivery, which may be taken or not.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    present: Option<Sealed>,
    delivered: Option<Sealed>,
    /// Of a generation before, which the state that stands was kept under: a crash goes back to that until another is
    /// kept.
    #[serde(skip)]
    stands: Option<Sealed>,
}

impl Origin {
    /// A generation came, to be taken or refused. No memory: it came by a pipe.
    pub(super) fn delivered(&mut self, number: u32, memory: Option<OwnedFd>) {
        self.delivered = memory.map(|memory| Sealed { number, memory });
    }

    /// The generation of that number is in force. False: its bytes are not there.
    pub(crate) fn keeps(&mut self, number: u32) -> bool {
        if let Some(taken) = self.delivered.take_if(|sealed| sealed.number == number) {
            let before = self.present.replace(taken);
            self.stands = self.stands.take().or(before);
        }
        number == 0 || self.present.as_ref().is_some_and(|sealed| sealed.number == number)
    }

    /// A state was kept: no older one is gone back to.
    pub(crate) fn is_kept(&mut self) {
        self.stands = None;
    }

    /// It is read anew. The error is for people.
    pub(crate) fn generation(&self, number: u32) -> Result<Generation, String> {
        let Some(sealed) = self.present.as_ref().filter(|sealed| sealed.number == number) else {
            return if number == 0 { Ok(Generation::default()) } else { Err("it is gone".into()) };
        };
        let memory = sealed.memory.try_clone().map_err(|error| error.to_string())?;
        let mut generation = parcel::unwrap(memory)?.generation;
        generation.number = number;
        Ok(generation)
    }
}

impl Loader {
    /// The one at work tells by a pipe.
    pub(crate) fn rewatch(&self, registry: &Registry) -> std::io::Result<()> {
        self.working.as_ref().map_or(Ok(()), |working| working.parcel.rewatch(registry))
    }
}

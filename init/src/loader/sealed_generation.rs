//! The sealed bytes a generation came in. They are kept as long as it is in force: an init
//! that goes on as another image reads it anew from them, and nothing has to be written.

use super::{Loader, transfer};
use crate::state::carried::KeptFd;
use groundstate_units::unit::generation::Generation;
use mio::Registry;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;

#[derive(Serialize, Deserialize)]
struct Sealed {
    number: u32,
    memory: KeptFd<OwnedFd>,
}

/// Of the generation in force, and of the latest delivery, which may be taken or not.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Origin {
    present: Option<Sealed>,
    delivered: Option<Sealed>,
    /// Of the generation that the committed state is of, until the next commit.
    #[serde(skip)]
    before: Vec<Sealed>,
}

impl Origin {
    /// A generation came, to be taken or refused. No memory: it came by a pipe. `in_force`: no state may have been kept
    /// under that yet.
    pub(super) fn delivered(&mut self, in_force: u32, number: u32, memory: Option<OwnedFd>) {
        self.keeps(in_force);
        self.delivered = memory.map(|memory| Sealed { number, memory: memory.into() });
    }

    /// [`Origin::keeps`] would change nothing.
    pub(crate) fn has(&self, number: u32) -> bool {
        let is_it = |sealed: &Sealed| sealed.number == number;
        let is_there = number == 0 || self.present.as_ref().is_some_and(is_it);
        is_there && !self.delivered.as_ref().is_some_and(is_it)
    }

    /// The generation of that number is in force. False: its bytes are not there.
    pub(crate) fn keeps(&mut self, number: u32) -> bool {
        if let Some(taken) = self.delivered.take_if(|sealed| sealed.number == number) {
            self.before.extend(self.present.replace(taken));
        }
        number == 0 || self.present.as_ref().is_some_and(|sealed| sealed.number == number)
    }

    /// The committed state is of the generation in force: those before are needed no more.
    pub(crate) fn committed(&mut self) {
        self.before.clear();
    }

    /// It is read anew. The error is for people.
    pub(crate) fn generation(&self, number: u32) -> Result<Generation, String> {
        let Some(sealed) = self.present.as_ref().filter(|sealed| sealed.number == number) else {
            return if number == 0 { Ok(Generation::default()) } else { Err("it is gone".into()) };
        };
        let memory = sealed.memory.try_clone().map_err(|error| error.to_string())?;
        let mut generation = transfer::unwrap(memory)?.generation;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn memory() -> Option<OwnedFd> {
        Some(File::open("/dev/null").unwrap().into())
    }

    fn open(origin: &Origin) -> Vec<u32> {
        origin.before.iter().chain(&origin.present).map(|sealed| sealed.number).collect()
    }

    #[test]
    fn what_is_in_force_is_there_though_another_came_before_a_state_was_kept() {
        let mut origin = Origin::default();
        origin.delivered(0, 1, memory());
        // A plan, or one that is refused.
        origin.delivered(1, 2, memory());
        origin.delivered(1, 2, memory());
        assert!(origin.keeps(1));
        assert!(origin.keeps(2) && !origin.keeps(1));
    }

    #[test]
    fn the_units_of_the_committed_state_are_there_until_the_next_commit() {
        let mut origin = Origin::default();
        for number in 1..=2 {
            origin.delivered(number - 1, number, memory());
            assert!(origin.keeps(number));
        }
        assert_eq!(open(&origin), [1, 2]);
        origin.committed();
        assert_eq!(open(&origin), [2]);
        assert!(origin.keeps(2));
    }
}

//! The transfer of the loader's result: a memfd that the child seals. PID 1 reads it once, after
//! the child has exited. Any bytes decode to a result or an error.

use crate::state::carried::KeptFd;
use crate::sys::memfd;
use groundstate_units::limit::GENERATION;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::fields::{self, bytes};
use groundstate_units::unit::generation::Generation;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// The result of a loader.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LoadResult {
    /// Problems that are not about units: the host name, the machine-id.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    /// True if an error concerns more than single units: a boot installs the result nevertheless,
    /// a reload does not.
    #[serde(default)]
    pub(crate) refused: bool,
    /// The refusal of a request: nothing changes.
    pub(crate) refusal: Option<Refusal>,
    /// The loaded generation, in its own encoding, whose decoder validates it.
    #[serde(with = "proven")]
    pub(crate) generation: Generation,
    /// The memfd that it came in.
    #[serde(skip)]
    pub(crate) memory: Option<OwnedFd>,
}

/// Encodes a generation. Decodes and validates it.
mod proven {
    use super::{Deserializer, Error, Generation, Serializer, bytes};

    pub(super) fn serialize<S: Serializer>(
        generation: &Generation,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes::serialize(&generation.encode(), to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Generation, D::Error> {
        let bytes: Vec<u8> = bytes::deserialize(from)?;
        let mut generation = Generation::decode(&bytes).map_err(D::Error::custom)?;
        generation.pack();
        Ok(generation)
    }
}

/// Decodes the content of a sealed memfd.
pub(crate) fn unwrap(memory: OwnedFd) -> Result<LoadResult, String> {
    if !memfd::is_sealed(&memory) {
        return Err("not sealed".to_string());
    }
    let memory = File::from(memory);
    let bytes = read_memory(&memory, GENERATION).map_err(|error| error.to_string())?;
    Ok(LoadResult { memory: Some(memory.into()), ..decode(&bytes)? })
}

pub(crate) fn decode(bytes: &[u8]) -> Result<LoadResult, String> {
    fields::decode(bytes)
}

/// Copies the content into init's own memory instead of mapping another process's memory.
pub(super) fn read_memory(memory: &File, most: usize) -> io::Result<Vec<u8>> {
    let size = usize::try_from(memory.metadata()?.len()).unwrap_or(usize::MAX);
    if size > most {
        return Err(io::Error::other("too large"));
    }
    let mut bytes = vec![0u8; size];
    memory.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Writes the result and seals the memfd. Runs in the child.
pub(crate) fn fill(memory: &OwnedFd, delivery: &LoadResult) -> io::Result<()> {
    let bytes = fields::encode(delivery).map_err(io::Error::other)?;
    let mut to = File::from(memory.try_clone()?);
    // The entries of files in progress were here.
    to.set_len(0)?;
    to.write_all(&bytes)?;
    memfd::seal(&to)
}

// Sealed generations
//
// Init keeps the sealed bytes of a generation while it is in force. A new image decodes it again
// from them, so that nothing has to be written.

#[derive(Serialize, Deserialize)]
struct Sealed {
    number: u32,
    memory: KeptFd<OwnedFd>,
}

/// The memory of the present generation, and of the latest result, which may be installed or not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Origin {
    present: Option<Sealed>,
    delivered: Option<Sealed>,
    /// Memory of the generation in the committed state, until the next commit.
    #[serde(skip)]
    before: Vec<Sealed>,
}

impl Origin {
    /// Records a new generation. `in_force` is the present generation, whose state may not be
    /// committed yet.
    pub(crate) fn record_generation(
        &mut self,
        in_force: u32,
        number: u32,
        memory: Option<OwnedFd>,
    ) {
        self.install(in_force);
        self.delivered = memory.map(|memory| Sealed { number, memory: memory.into() });
    }

    /// Returns true if [`Origin::install`] would change nothing.
    pub(crate) fn is_installed(&self, number: u32) -> bool {
        let is_it = |sealed: &Sealed| sealed.number == number;
        let is_there = number == 0 || self.present.as_ref().is_some_and(is_it);
        is_there && !self.delivered.as_ref().is_some_and(is_it)
    }

    /// Makes this the present generation. Returns false if its bytes are missing.
    pub(crate) fn install(&mut self, number: u32) -> bool {
        if let Some(taken) = self.delivered.take_if(|sealed| sealed.number == number) {
            self.before.extend(self.present.replace(taken));
        }
        number == 0 || self.present.as_ref().is_some_and(|sealed| sealed.number == number)
    }

    /// Drops the memory of earlier generations after a commit of the present one.
    pub(crate) fn note_commit(&mut self) {
        self.before.clear();
    }

    /// Decodes the generation again. The error is a message for people.
    pub(crate) fn decode_generation(&self, number: u32) -> Result<Generation, String> {
        let Some(sealed) = self.present.as_ref().filter(|sealed| sealed.number == number) else {
            return if number == 0 {
                Ok(Generation::default())
            } else {
                Err("its bytes are lost".into())
            };
        };
        let memory = sealed.memory.try_clone().map_err(|error| error.to_string())?;
        let mut generation = unwrap(memory)?.generation;
        generation.number = number;
        Ok(generation)
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
    fn generation_in_force_is_kept_when_others_arrive_before_a_commit() {
        let mut origin = Origin::default();
        origin.record_generation(0, 1, memory());
        // A planned or refused generation.
        origin.record_generation(1, 2, memory());
        origin.record_generation(1, 2, memory());
        assert!(origin.install(1));
        assert!(origin.install(2) && !origin.install(1));
    }

    #[test]
    fn generation_of_the_committed_state_is_kept_until_the_next_commit() {
        let mut origin = Origin::default();
        for number in 1..=2 {
            origin.record_generation(number - 1, number, memory());
            assert!(origin.install(number));
        }
        assert_eq!(open(&origin), [1, 2]);
        origin.note_commit();
        assert_eq!(open(&origin), [2]);
        assert!(origin.install(2));
    }
}

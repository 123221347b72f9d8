//! How the loader's work travels: a memfd that the child seals, or, where the kernel
//! has none, a pipe with the length in front. Either way PID 1 reads it once, after
//! the child has ended, and decodes it totally.

use super::Loader;
use crate::base::token;
use crate::state::carried::KeptFd;
use crate::sys::memfd;
use groundstate_units::limit::GENERATION;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::fields::{self, bytes};
use groundstate_units::unit::generation::Generation;
use mio::Registry;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// What the loader brings.
#[derive(Debug, Default)]
pub(crate) struct LoadResult {
    /// What went wrong besides the units: a host name, a machine-id.
    pub(crate) notes: Vec<String>,
    /// More than single units is wrong: a boot takes it all the same, a reload does not.
    pub(crate) refused: bool,
    /// A put that can not be: nothing was read, nothing is to change.
    pub(crate) refusal: Option<Refusal>,
    /// What was read.
    pub(crate) generation: Generation,
    /// Where it came in.
    pub(crate) memory: Option<OwnedFd>,
}

/// The same on its way; the generation has an encoding of its own, with a proof.
#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default)]
    refused: bool,
    refusal: Option<Refusal>,
    #[serde(with = "bytes")]
    generation: Vec<u8>,
}

/// PID 1's end.
#[derive(Serialize, Deserialize)]
pub(crate) enum Parcel {
    /// To be sealed by the child.
    Memory(KeptFd<OwnedFd>),
    /// Length, then bytes.
    Pipe {
        /// Non-blocking.
        from: KeptFd<File>,
        /// Read so far.
        #[serde(with = "bytes")]
        bytes: Vec<u8>,
    },
}

/// The child's end.
pub(crate) enum Transport {
    /// To be sealed.
    Memory(OwnedFd),
    /// Length, then bytes.
    Pipe(OwnedFd),
}

impl Parcel {
    /// Both ends.
    pub(crate) fn new(registry: &Registry) -> io::Result<(Parcel, Transport)> {
        if let Ok(memory) = memfd::create(c"generation") {
            let other = memory.try_clone()?;
            return Ok((Parcel::Memory(memory.into()), Transport::Memory(other)));
        }
        let (from, to) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        fcntl(&from, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        token::watch(registry, &from, token::LOADER)?;
        Ok((Parcel::Pipe { from: File::from(from).into(), bytes: Vec::new() }, Transport::Pipe(to)))
    }

    /// Takes what a pipe has, so that the child can go on.
    pub(crate) fn read_some(&mut self) {
        let Parcel::Pipe { from, bytes } = self else { return };
        let mut piece = [0u8; 65_536];
        while bytes.len() <= GENERATION {
            match (&**from).read(&mut piece) {
                Ok(0) => return,
                Ok(length) => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    /// What is in it, once the child has ended.
    pub(crate) fn open(mut self) -> Result<LoadResult, String> {
        self.read_some();
        let bytes = match self {
            Parcel::Memory(memory) => return unwrap(memory.into_inner()),
            Parcel::Pipe { bytes, .. } => {
                let (length, rest) = bytes.split_first_chunk::<8>().ok_or("it is cut short")?;
                if usize::try_from(u64::from_le_bytes(*length)) != Ok(rest.len()) {
                    return Err("it is cut short".to_string());
                }
                rest.to_vec()
            }
        };
        decode(&bytes)
    }

    /// The poll tells of a pipe.
    pub(crate) fn rewatch(&self, registry: &Registry) -> io::Result<()> {
        let Parcel::Pipe { from, .. } = self else { return Ok(()) };
        token::watch(registry, &**from, token::LOADER)
    }
}

/// What a sealed memfd holds.
pub(crate) fn unwrap(memory: OwnedFd) -> Result<LoadResult, String> {
    if !memfd::is_sealed(&memory) {
        return Err("it is not sealed".to_string());
    }
    let memory = File::from(memory);
    let bytes = read_memory(&memory, GENERATION).map_err(|error| error.to_string())?;
    Ok(LoadResult { memory: Some(memory.into()), ..decode(&bytes)? })
}

pub(crate) fn decode(bytes: &[u8]) -> Result<LoadResult, String> {
    let wire: Wire = fields::decode(bytes)?;
    let mut generation = Generation::decode(&wire.generation).map_err(|error| error.to_string())?;
    generation.pack();
    let Wire { notes, refused, refusal, .. } = wire;
    Ok(LoadResult { notes, refused, refusal, generation, memory: None })
}

/// Read into our own memory: nothing is mapped that somebody else made.
pub(super) fn read_memory(memory: &File, most: usize) -> io::Result<Vec<u8>> {
    let size = usize::try_from(memory.metadata()?.len()).unwrap_or(usize::MAX);
    if size > most {
        return Err(io::Error::other("it is too large"));
    }
    let mut bytes = vec![0u8; size];
    memory.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

impl Transport {
    /// The descriptor the child keeps.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Transport::Memory(fd) | Transport::Pipe(fd) => fd.as_fd(),
        }
    }

    /// Where the child notes the files it is at work on.
    pub(super) fn memory(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Transport::Memory(fd) => Some(fd.as_fd()),
            Transport::Pipe(_) => None,
        }
    }

    /// Puts it in; in the child.
    pub(crate) fn fill(&self, delivery: &LoadResult) -> io::Result<()> {
        let wire = Wire {
            notes: delivery.notes.clone(),
            refused: delivery.refused,
            refusal: delivery.refusal.clone(),
            generation: delivery.generation.encode(),
        };
        let bytes = fields::encode(&wire).map_err(io::Error::other)?;
        let mut to = File::from(self.as_fd().try_clone_to_owned()?);
        match self {
            Transport::Memory(memory) => {
                // The files at work stood here.
                to.set_len(0)?;
                to.write_all(&bytes)?;
                memfd::seal(memory)
            }
            Transport::Pipe(_) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                to.write_all(&length.to_le_bytes())?;
                to.write_all(&bytes)
            }
        }
    }
}

// The sealed bytes a generation came in. They are kept as long as it is in force: an init
// that goes on as another image reads it anew from them, and nothing has to be written.

#[derive(Serialize, Deserialize)]
struct Sealed {
    number: u32,
    memory: KeptFd<OwnedFd>,
}

/// Of the generation in force, and of the latest delivery, which may be taken or not.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
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
    pub(crate) fn delivered(&mut self, in_force: u32, number: u32, memory: Option<OwnedFd>) {
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
        let mut generation = unwrap(memory)?.generation;
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

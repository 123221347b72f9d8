//! init's own limits: raised for itself, kept as they were for its children. Those of which one that is
//! low could end it or keep it from its work, whoever has started it.

use crate::limit;
use crate::sys::orders::Limit;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// What init asks for itself, in bytes, descriptors or seconds; see getrlimit(2). The stack is looked at
/// as it grows. What the loader delivers and what outlives a crash are files, to the kernel.
const WANTED: [(Resource, u64); 6] = [
    (Resource::RLIMIT_NOFILE, limit::OPEN_FILES),
    (Resource::RLIMIT_STACK, limit::STACK),
    (Resource::RLIMIT_FSIZE, RLIM_INFINITY),
    (Resource::RLIMIT_AS, RLIM_INFINITY),
    (Resource::RLIMIT_DATA, RLIM_INFINITY),
    (Resource::RLIMIT_CPU, RLIM_INFINITY),
];

/// A limit before it was raised: its number, soft, hard.
pub(crate) type Given = (u32, u64, u64);

/// These as they are written on a command line, one number after the other.
pub(crate) fn given(numbers: &[u64]) -> Vec<Given> {
    let (all, _) = numbers.as_chunks::<3>();
    all.iter()
        .filter_map(|[of, soft, hard]| Some((u32::try_from(*of).ok()?, *soft, *hard)))
        .collect()
}

/// What init was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnLimits {
    /// Those that were too low.
    pub(crate) given: Vec<Given>,
}

impl OwnLimits {
    /// Raises the soft limits as far as allowed, and the hard ones where init may. Once: an image that
    /// comes after another has them as they are, and is told what init was given.
    pub(crate) fn raise() -> OwnLimits {
        let mut limits = OwnLimits::default();
        for (resource, wanted) in WANTED {
            let Ok((soft, hard)) = getrlimit(resource) else { continue };
            if soft >= wanted {
                continue;
            }
            if setrlimit(resource, wanted, hard.max(wanted)).is_err() {
                // Only root may raise the hard limit.
                let _ = setrlimit(resource, wanted.min(hard), hard);
            }
            limits.given.push((resource as u32, soft, hard));
        }
        limits
    }

    /// What children are given back, as the spawner takes it: no more than init itself may
    /// have at this moment, for somebody may have lowered that.
    pub(crate) fn of_children(&self) -> Vec<Limit> {
        let own = |number: u32| {
            let (resource, _) =
                WANTED.into_iter().find(|(resource, _)| *resource as u32 == number)?;
            Some(getrlimit(resource).map_or(u64::MAX, |(_, hard)| hard))
        };
        let back = |(resource, soft, hard): &Given| {
            let most = own(*resource)?;
            Some(Limit { resource: *resource, soft: (*soft).min(most), hard: (*hard).min(most) })
        };
        self.given.iter().filter_map(back).collect()
    }
}

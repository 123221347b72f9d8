//! init's own limits: raised for itself, kept as they were for its children. Those of which one that is
//! low could end it or keep it from its work, whoever has started it.

use crate::base::limit;
use crate::sys::child_setup::Limit;
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

/// Stands among them for the OOM score that init was started with, counted from the lowest there is; no limit
/// has this number.
const SCORE: u32 = u32::MAX;
/// OOM_SCORE_ADJ_MIN of linux/oom.h.
pub(crate) const LOWEST_SCORE: i16 = -1000;

/// These as they are written on a command line, one number after the other.
pub(crate) fn given(numbers: &[u64]) -> Vec<Given> {
    let (all, _) = numbers.as_chunks::<3>();
    all.iter()
        .filter_map(|[of, soft, hard]| Some((u32::try_from(*of).ok()?, *soft, *hard)))
        .collect()
}

/// What init was given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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

    /// The OOM score that init was started with. None: it has it still.
    pub(crate) fn score(&self) -> Option<i16> {
        let (_, above, _) = self.given.iter().find(|(number, _, _)| *number == SCORE)?;
        Some(i16::try_from(*above).ok()?.saturating_add(LOWEST_SCORE))
    }

    /// It has been started with this one, and has another from now on.
    pub(crate) fn had_score(&mut self, score: i16) {
        let above = u64::try_from(score.saturating_sub(LOWEST_SCORE)).unwrap_or(0);
        self.given.push((SCORE, above, 0));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_init_was_started_with_goes_along_and_is_no_limit() {
        for score in [-1000, -1, 0, 300, 1000] {
            let mut limits = OwnLimits { given: vec![(7, 16, 16)] };
            assert_eq!(limits.score(), None);
            limits.had_score(score);
            assert_eq!(limits.score(), Some(score));
            assert!(limits.of_children().iter().all(|limit| limit.resource == 7));
            let numbers: Vec<u64> = limits
                .given
                .iter()
                .flat_map(|(of, soft, hard)| [u64::from(*of), *soft, *hard])
                .collect();
            assert_eq!(OwnLimits { given: given(&numbers) }, limits);
        }
    }
}

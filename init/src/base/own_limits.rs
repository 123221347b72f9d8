//! The resource limits of init. Init raises those whose low value could end it or block its work,
//! and gives its children the original ones.

use crate::base::limit;
use crate::sys::child_setup::Limit;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limits that init wants, in bytes, descriptors or seconds; see getrlimit(2). The kernel
/// checks the stack limit as the stack grows, so a raised one applies at once. FSIZE covers memfds:
/// the loader's result and the state are files to the kernel.
const WANTED: [(Resource, u64); 6] = [
    (Resource::RLIMIT_NOFILE, limit::OPEN_FILES),
    (Resource::RLIMIT_STACK, limit::STACK),
    (Resource::RLIMIT_FSIZE, RLIM_INFINITY),
    (Resource::RLIMIT_AS, RLIM_INFINITY),
    (Resource::RLIMIT_DATA, RLIM_INFINITY),
    (Resource::RLIMIT_CPU, RLIM_INFINITY),
];

/// A limit before it was raised: number, soft, hard.
type Given = (u32, u64, u64);

/// Marks the entry for the OOM score that init was started with, stored as its distance from the
/// lowest score. No limit has this number.
const SCORE: u32 = u32::MAX;
/// OOM_SCORE_ADJ_MIN of linux/oom.h.
pub(crate) const LOWEST_SCORE: i16 = -1000;

/// The limits that init was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OwnLimits {
    /// Those that were too low.
    given: Vec<Given>,
}

impl OwnLimits {
    /// Raises the soft limits as far as allowed, and the hard ones if init may. It runs once: a
    /// later image inherits the raised limits, and the state has the original ones.
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

    /// The OOM score that init was started with. Returns `None` if it was not changed.
    pub(crate) fn score(&self) -> Option<i16> {
        let (_, above, _) = self.given.iter().find(|(number, _, _)| *number == SCORE)?;
        Some(i16::try_from(*above).ok()?.saturating_add(LOWEST_SCORE))
    }

    /// Records the OOM score that init was started with, when init changes its own.
    pub(crate) fn record_score(&mut self, score: i16) {
        let above = u64::try_from(score.saturating_sub(LOWEST_SCORE)).unwrap_or(0);
        self.given.push((SCORE, above, 0));
    }

    /// The limits for children, as the spawner takes them.
    pub(crate) fn child_limits(&self) -> Vec<Limit> {
        let back = |(resource, soft, hard): &Given| {
            (*resource != SCORE).then_some(Limit { resource: *resource, soft: *soft, hard: *hard })
        };
        self.given.iter().filter_map(back).collect()
    }
}

/// The processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::text::fields;

    #[test]
    fn original_oom_score_is_kept_in_the_state_and_is_no_limit() {
        for score in [-1000, -1, 0, 300, 1000] {
            let mut limits = OwnLimits { given: vec![(7, 16, 16)] };
            assert_eq!(limits.score(), None);
            limits.record_score(score);
            assert_eq!(limits.score(), Some(score));
            assert!(limits.child_limits().iter().all(|limit| limit.resource == 7));
            let bytes = fields::encode(&limits).unwrap();
            assert_eq!(fields::decode::<OwnLimits>(&bytes).unwrap(), limits);
        }
    }
}

//! init's own limit of open files: raised for itself, kept as it was for its children.

use crate::limit;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// RLIMIT_NOFILE, soft and hard; `None` where it could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenFiles {
    /// What init was given.
    pub(crate) given: Option<(u64, u64)>,
}

impl OpenFiles {
    /// Raises the soft limit as far as allowed, and the hard one where init may. `given`: what an image
    /// before this one was, which has done so.
    pub(crate) fn raise(given: Option<(u64, u64)>) -> OpenFiles {
        let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
            return OpenFiles { given };
        };
        let wanted = limit::OPEN_FILES.max(soft);
        let beyond = hard.max(wanted);
        if setrlimit(Resource::RLIMIT_NOFILE, wanted, beyond).is_err() {
            // Only root may raise the hard limit.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard);
        }
        OpenFiles { given: given.or(Some((soft, hard))) }
    }
}

impl OpenFiles {
    /// What children are given back, as the spawner takes it: no more than init itself may
    /// have at this moment, for somebody may have lowered that.
    pub(crate) fn of_children(&self) -> Vec<crate::sys::orders::Limit> {
        let resource = libc::RLIMIT_NOFILE;
        let most = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
        self.given
            .map(|(soft, hard)| (soft.min(most), hard.min(most)))
            .map(|(soft, hard)| crate::sys::orders::Limit { resource, soft, hard })
            .into_iter()
            .collect()
    }
}

//! The state of the cluster that a request is answered from.

use super::page::{List, Pages};
use crate::snapshot::Snapshot;

/// The input of a decision.
#[derive(Clone, Copy, Debug)]
pub struct View<'p> {
    /// The newest snapshot.
    pub now: &'p Snapshot,
    /// The snapshot of an earlier page of this list, while it is kept.
    pub then: Option<&'p Snapshot>,
    /// Items on a page.
    pub limit: u16,
    /// True if programs outside the cluster may write to its etcd.
    pub insecure: bool,
}

impl View<'_> {
    /// The list with its page size.
    pub fn pages(&self, list: List) -> Pages {
        Pages { list, limit: self.limit }
    }
}

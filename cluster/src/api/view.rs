//! The state of the cluster that a request is answered from. Which module answers is
//! [`super::route`]'s.

use super::page::{List, Pages};
use crate::snapshot::Snapshot;

/// What a request is judged against.
#[derive(Clone, Copy, Debug)]
pub struct View<'p> {
    /// The newest snapshot.
    pub now: &'p Snapshot,
    /// The snapshot an earlier page of this list came from, while it is kept.
    pub then: Option<&'p Snapshot>,
    /// Items on a page.
    pub limit: u16,
    /// Others than the cluster's own may write to its etcd.
    pub insecure: bool,
}

impl View<'_> {
    /// That list as it is cut here.
    pub fn pages(&self, list: List) -> Pages {
        Pages { list, limit: self.limit }
    }
}

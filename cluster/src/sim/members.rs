//! The members of the simulation's etcd, and what they say of a leader when each is asked by
//! itself. Whether they have one is [`super::etcd`]'s.

use crate::store::driven::Reply;
use crate::store::membership::{Membership, Word};

/// Their ids.
pub const MEMBERS: [u64; 3] = [1, 2, 3];
/// The id of our etcd.
pub const OURS: u64 = 1;
/// That of another one, which a machine may be led to.
pub const FOREIGN: u64 = 2;

/// Members of that etcd, each with whom it follows.
pub fn members(cluster: u64, said: &[(u64, u64)]) -> Reply {
    let known = Membership { cluster: OURS, voters: MEMBERS.into() };
    let word = |&(member, leader): &(u64, u64)| Word { cluster, member, leader };
    Reply::Members(known, said.iter().map(word).collect())
}

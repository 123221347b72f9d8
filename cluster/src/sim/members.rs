//! The members of the simulated etcd and their answers about the leader. [`super::etcd`] decides
//! whether they have one.

use crate::store::driven::Reply;
use crate::store::membership::{MemberAnswer, Membership};

/// The ids of the members.
pub const MEMBERS: [u64; 3] = [1, 2, 3];
/// The id of our cluster.
pub const OURS: u64 = 1;
/// The id of the foreign cluster that a machine may be connected to.
pub const FOREIGN: u64 = 2;

/// Returns the answers of members of a cluster, each with its leader.
pub fn members(cluster: u64, answers: &[(u64, u64)]) -> Reply {
    let known = Membership { cluster: OURS, voters: MEMBERS.into() };
    let word = |&(member, leader): &(u64, u64)| MemberAnswer { cluster, member, leader };
    Reply::Members(known, answers.iter().map(word).collect())
}

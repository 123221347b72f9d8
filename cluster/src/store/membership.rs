//! Evaluates whether most etcd members have no leader, given the last member list.
//! Pure; the store asks the members. Two addresses of one member count once, and members of another
//! cluster do not count.

use crate::mutant::{Mutant, planted};
use std::collections::BTreeSet;

/// The id of an etcd cluster and its voting members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The cluster id.
    pub cluster: u64,
    /// The ids of voting members, including new ones that have not started yet.
    pub voters: BTreeSet<u64>,
}

/// The answer of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberAnswer {
    /// The cluster id.
    pub cluster: u64,
    /// The member id.
    pub member: u64,
    /// The leader's id, or 0 for none.
    pub leader: u64,
}

impl Membership {
    /// Returns true if more than half of the voters have no leader, so that no quorum can decide.
    pub fn is_leaderless(&self, answers: &[MemberAnswer]) -> bool {
        if planted(Mutant::CountsUrls) {
            return !answers.is_empty() && answers.iter().all(|answer| answer.leader == 0);
        }
        let counts = |answer: &&MemberAnswer| {
            answer.leader == 0
                && answer.cluster == self.cluster
                && self.voters.contains(&answer.member)
        };
        let leaderless: BTreeSet<u64> =
            answers.iter().filter(counts).map(|answer| answer.member).collect();
        leaderless.len() * 2 > self.voters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(member: u64, leader: u64) -> MemberAnswer {
        MemberAnswer { cluster: 7, member, leader }
    }

    #[test]
    fn two_addresses_of_one_member_count_once() {
        let three = Membership { cluster: 7, voters: BTreeSet::from([1, 2, 3]) };
        let table: [(&[MemberAnswer], bool); 8] = [
            (&[], false),
            (&[answer(1, 0)], false),
            (&[answer(1, 0), answer(1, 0), answer(1, 0)], false),
            (&[answer(1, 0), answer(2, 0)], true),
            (&[answer(1, 0), answer(2, 3), answer(3, 3)], false),
            (&[answer(1, 0), answer(4, 0)], false),
            (&[answer(1, 0), MemberAnswer { cluster: 8, ..answer(2, 0) }], false),
            (&[answer(1, 0), answer(1, 0), answer(2, 0), answer(3, 0)], true),
        ];
        for (answers, leaderless) in table {
            assert_eq!(three.is_leaderless(answers), leaderless, "{answers:?}");
        }
        let two = Membership { cluster: 7, voters: BTreeSet::from([1, 2]) };
        assert!(!two.is_leaderless(&[answer(1, 0), answer(1, 0)]));
        let unknown = Membership::default();
        assert!(!unknown.is_leaderless(&[answer(1, 0)]), "an empty membership tells nothing");
    }
}

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
pub struct Word {
    /// The cluster id.
    pub cluster: u64,
    /// The member id.
    pub member: u64,
    /// The leader's id, or 0 for none.
    pub leader: u64,
}

impl Membership {
    /// Returns true if more than half of the voters have no leader, so that no quorum can decide.
    pub fn is_leaderless(&self, words: &[Word]) -> bool {
        if planted(Mutant::CountsUrls) {
            return !words.is_empty() && words.iter().all(|word| word.leader == 0);
        }
        let counts = |word: &&Word| {
            word.leader == 0 && word.cluster == self.cluster && self.voters.contains(&word.member)
        };
        let leaderless: BTreeSet<u64> =
            words.iter().filter(counts).map(|word| word.member).collect();
        leaderless.len() * 2 > self.voters.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(member: u64, leader: u64) -> Word {
        Word { cluster: 7, member, leader }
    }

    #[test]
    fn two_addresses_of_one_member_count_once() {
        let three = Membership { cluster: 7, voters: BTreeSet::from([1, 2, 3]) };
        let table: [(&[Word], bool); 8] = [
            (&[], false),
            (&[word(1, 0)], false),
            (&[word(1, 0), word(1, 0), word(1, 0)], false),
            (&[word(1, 0), word(2, 0)], true),
            (&[word(1, 0), word(2, 3), word(3, 3)], false),
            (&[word(1, 0), word(4, 0)], false),
            (&[word(1, 0), Word { cluster: 8, ..word(2, 0) }], false),
            (&[word(1, 0), word(1, 0), word(2, 0), word(3, 0)], true),
        ];
        for (words, leaderless) in table {
            assert_eq!(three.is_leaderless(words), leaderless, "{words:?}");
        }
        let two = Membership { cluster: 7, voters: BTreeSet::from([1, 2]) };
        assert!(!two.is_leaderless(&[word(1, 0), word(1, 0)]));
        let unknown = Membership::default();
        assert!(!unknown.is_leaderless(&[word(1, 0)]), "an empty membership tells nothing");
    }
}

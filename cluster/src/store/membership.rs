//! Who the members of etcd are, as etcd said it while it could, and whether most of them say now
//! that they have no leader. Pure: who is asked, and when, is the store's affair. A member that
//! is asked at two of its addresses is one member, and one of another cluster is none.

use crate::mutant::{Mutant, planted};
use std::collections::BTreeSet;

/// One etcd, and those of its members that vote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The id of the whole.
    pub cluster: u64,
    /// Their ids; those that were added and have not come up yet are among them.
    pub voters: BTreeSet<u64>,
}

/// What one of the addresses answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Of which etcd it is.
    pub cluster: u64,
    /// Which member.
    pub member: u64,
    /// Whom it follows; 0: nobody.
    pub leader: u64,
}

impl Membership {
    /// More than half of them follow nobody: no other half can decide on anything.
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
    fn members_are_counted_and_not_the_addresses_they_answer_at() {
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
        assert!(!unknown.is_leaderless(&[word(1, 0)]), "of nobody nothing is known");
    }
}

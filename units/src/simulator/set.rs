//! A set of up to 64 unit or target numbers, for fixed points. The simulator never draws more. Read
//! on in [`crate::simulator::oracle`].

/// Up to 64 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(u64);

impl Set {
    /// The empty set.
    pub const EMPTY: Set = Set(0);

    /// Returns true if the set contains `unit`.
    pub fn has(self, unit: usize) -> bool {
        self.0 >> unit & 1 == 1
    }

    /// Inserts `unit`. Returns false if the set contained it.
    pub fn add(&mut self, unit: usize) -> bool {
        let new = !self.has(unit);
        self.0 |= 1 << unit;
        new
    }

    /// Returns the set with `unit`.
    pub fn with(self, unit: usize) -> Set {
        Set(self.0 | 1 << unit)
    }

    /// Returns the intersection.
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// Returns the union.
    pub fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// Returns the difference.
    pub fn less(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of elements.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns the elements that fit.
    pub fn filter(self, fits: impl Fn(usize) -> bool) -> Set {
        self.iter().filter(|unit| fits(*unit)).collect()
    }

    /// Returns the union of the sets that `of` gives for the units.
    pub fn union(self, of: impl Fn(usize) -> Set) -> Set {
        self.iter().fold(Set::EMPTY, |all, unit| all.or(of(unit)))
    }

    /// Returns the least superset to which `grow` adds nothing.
    pub fn least(self, grow: impl Fn(Set) -> Set) -> Set {
        let mut all = self;
        loop {
            let next = all.or(grow(all));
            if next == all {
                return all;
            }
            all = next;
        }
    }

    /// Returns the elements in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let unit = rest.trailing_zeros();
            (rest != 0).then(|| {
                rest &= rest - 1;
                unit as usize
            })
        })
    }
}

impl FromIterator<usize> for Set {
    fn from_iter<I: IntoIterator<Item = usize>>(units: I) -> Set {
        units.into_iter().fold(Set::EMPTY, Set::with)
    }
}

//! A small set of unit or target numbers, as fixed points want it. Not for more than 64:
//! the simulator never draws more. Read on in [`crate::simulator::oracle`].

/// Up to 64 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Set(u64);

impl Set {
    /// Nobody.
    pub const EMPTY: Set = Set(0);

    /// `unit` is in it.
    pub fn has(self, unit: usize) -> bool {
        self.0 >> unit & 1 == 1
    }

    /// Puts `unit` in; false when it was there.
    pub fn add(&mut self, unit: usize) -> bool {
        let new = !self.has(unit);
        self.0 |= 1 << unit;
        new
    }

    /// With `unit`.
    pub fn with(self, unit: usize) -> Set {
        Set(self.0 | 1 << unit)
    }

    /// In both.
    pub fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// In either.
    pub fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// In this one only.
    pub fn less(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// Nobody is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Those that fit.
    pub fn filter(self, fits: impl Fn(usize) -> bool) -> Set {
        self.iter().filter(|unit| fits(*unit)).collect()
    }

    /// All that its units lead to.
    pub fn union(self, of: impl Fn(usize) -> Set) -> Set {
        self.iter().fold(Set::EMPTY, |all, unit| all.or(of(unit)))
    }

    /// The least set with this one that `grow` adds nothing to.
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

    /// Ascending.
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

//! The simulator's own random numbers: splitmix64. They are small, seeded, and the same on every
//! machine, so that a seed always gives the same schedule. Not for secrets.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns an independent stream for one purpose. Other draws do not affect it.
    pub fn of(seed: u64, what: u64, which: u64) -> Rng {
        let mut mix = Rng(seed ^ what.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = mix.draw();
        Rng(first ^ which.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// Returns the next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`; 0 for an empty range.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.draw() % end as u64) as usize }
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// Returns true in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.draw() % 100 < u64::from(percent)
    }

    /// Returns one of the items; `None` if there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }

    /// Returns the index of one of these weights; 0 if all are zero.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let mut left = if sum == 0 { 0 } else { self.draw() % sum };
        for (place, weight) in weights.iter().enumerate() {
            if left < u64::from(*weight) {
                return place;
            }
            left -= u64::from(*weight);
        }
        0
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }
}

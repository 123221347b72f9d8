//! The simulator's own random numbers: splitmix64. Small, seeded, and the same on every
//! machine, so that a seed means one schedule for ever. Not for secrets.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// An independent stream for one purpose, the same whatever else is drawn.
    pub fn of(seed: u64, what: u64, which: u64) -> Rng {
        let mut mix = Rng(seed ^ what.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let first = mix.draw();
        Rng(first ^ which.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0 ≤ it < `end`; 0 for an empty range.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.draw() % end as u64) as usize }
    }

    /// `low` ≤ it ≤ `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low + 1)
    }

    /// True in `percent` of 100.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.draw() % 100 < u64::from(percent)
    }

    /// One of them; none of nothing.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        of.get(self.below(of.len())).copied()
    }

    /// The place of one of these weights; 0 where all are zero.
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

    /// In a random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            let other = self.below(at + 1);
            list.swap(at, other);
        }
    }
}

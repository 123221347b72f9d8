//! Reads bytes as instructions: a fuzz target that knows the form of its input draws its choices
//! from them. When the bytes are used up, every draw returns the first choice.
#![allow(dead_code, reason = "each target draws a part of it")]

/// See the module.
pub struct Composed<'a>(&'a [u8]);

impl<'a> Composed<'a> {
    pub fn of(bytes: &'a [u8]) -> Composed<'a> {
        Composed(bytes)
    }

    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// One of them.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = if from.len() > 256 {
            usize::from(self.byte()) * 256 + usize::from(self.byte())
        } else {
            usize::from(self.byte())
        };
        from[at % from.len()]
    }

    /// Returns true in one of this many cases.
    pub fn one_in(&mut self, many: u8) -> bool {
        self.byte() % many == many - 1
    }

    /// Up to this many bytes unchanged.
    pub fn raw(&mut self, most: u8) -> &'a [u8] {
        let length = (usize::from(self.byte()) % (usize::from(most) + 1)).min(self.0.len());
        let (raw, rest) = self.0.split_at(length);
        self.0 = rest;
        raw
    }

    /// The same as text.
    pub fn text(&mut self, most: u8) -> String {
        String::from_utf8_lossy(self.raw(most)).into_owned()
    }

    /// Changes, adds or removes up to this many of the bytes, of which there must be one at least.
    pub fn damage(&mut self, bytes: &mut Vec<u8>, most: u8) {
        for _ in 0..self.byte() % (most + 1) {
            let at = usize::from(self.byte()) * 256 + usize::from(self.byte());
            let (at, what) = (at % bytes.len(), self.byte());
            match self.byte() % 8 {
                0 => bytes.insert(at, what),
                1 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] = what,
            }
        }
    }
}

//! A hash of a state: FNV-1a, the same on every machine. Not for secrets.

use std::fmt::{self, Debug, Write};
use std::hash::Hasher;

/// A hash under construction.
pub struct Digest(u64);

impl Digest {
    /// Hashes the debug form of `it`.
    pub fn of(it: &impl Debug) -> u64 {
        let mut digest = Digest::default();
        // Writing into a hash cannot fail.
        _ = write!(digest, "{it:?}");
        digest.0
    }
}

impl Default for Digest {
    fn default() -> Digest {
        Digest(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        Hasher::write(self, text.as_bytes());
        Ok(())
    }
}

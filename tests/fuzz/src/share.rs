//! Counts the inputs and those that passed the parser, and prints the numbers regularly: a fuzzer
//! whose input is always refused has tested nothing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The interval of the lines.
const PAUSE: Duration = Duration::from_secs(2);

struct Count {
    all: u64,
    past: u64,
    said: Option<Instant>,
}

static COUNT: Mutex<Count> = Mutex::new(Count { all: 0, past: 0, said: None });

/// Counts an input.
pub fn count(is_past: bool) {
    let Ok(mut count) = COUNT.lock() else { return };
    count.all += 1;
    count.past += u64::from(is_past);
    if count.said.is_none_or(|said| said.elapsed() >= PAUSE) {
        count.said = Some(Instant::now());
        eprintln!("past the parser: {} of {}", count.past, count.all);
    }
}

/// Defines a target: the function of the module with that name, and the results that count as a
/// planted bug (feature `planted-bug`).
#[macro_export]
macro_rules! target {
    ($name:ident, $planted:expr) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            let found = $crate::$name::$name(bytes);
            $crate::share::count(found.is_some());
            #[cfg(feature = "planted-bug")]
            if let Some(found) = &found {
                let is_planted: fn(&_) -> bool = $planted;
                assert!(!is_planted(found), "the planted bug");
            }
        });
    };
}

/// For a target that composes its input if the byte at this position is above 127. The fuzzer makes
/// that byte so in one of four mutated inputs. Otherwise it would keep to raw bytes, almost none of
/// which pass a parser.
#[macro_export]
macro_rules! composes_behind {
    ($place:expr) => {
        libfuzzer_sys::fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
            let size = libfuzzer_sys::fuzzer_mutate(bytes, size, most);
            if seed.is_multiple_of(4)
                && let Some(marker) = bytes.get_mut(..size).and_then(|all| all.get_mut($place))
            {
                *marker |= 128;
            }
            size
        });
    };
}

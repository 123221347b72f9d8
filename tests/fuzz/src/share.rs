//! How many inputs there were, and how many of them came past the parser, said as it goes on:
//! a fuzzer that only ever sees its input refused has looked at nothing.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// From one line to the next.
const PAUSE: Duration = Duration::from_secs(2);

struct Count {
    all: u64,
    past: u64,
    said: Option<Instant>,
}

static COUNT: Mutex<Count> = Mutex::new(Count { all: 0, past: 0, said: None });

/// One input more.
pub fn count(is_past: bool) {
    let Ok(mut count) = COUNT.lock() else { return };
    count.all += 1;
    count.past += u64::from(is_past);
    if count.said.is_none_or(|said| said.elapsed() >= PAUSE) {
        count.said = Some(Instant::now());
        eprintln!("past the parser: {} of {}", count.past, count.all);
    }
}

/// A target: the function of the module of that name, and what of its results stands for a
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

/// For a target that reads bytes as they are, but behind a byte above 127 at this place composes what
/// it reads: of each four changes to an input one makes it such a one. Almost nothing of bytes as
/// they are comes past a parser, and left alone the fuzzer would keep to these.
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

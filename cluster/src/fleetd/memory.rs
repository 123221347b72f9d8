//! Freed memory goes back to the kernel. malloc(3) keeps it for the next request: without this a
//! leader that once held 10,000 units would keep their memory until it ends.

use crate::clock::Clock;
use std::time::Duration;

/// Between two returns. One that finds nothing free takes microseconds.
const EVERY: Duration = Duration::from_secs(30);

/// Gives free memory back again and again, for ever.
pub(super) async fn give_back_for_ever(clock: Clock) {
    loop {
        clock.sleep(EVERY).await;
        give_back();
    }
}

/// malloc_trim(3); nothing where the C library has none.
#[allow(unsafe_code, reason = "no safe function of any library does it")]
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

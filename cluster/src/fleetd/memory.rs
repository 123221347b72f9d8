//! Returns freed memory to the kernel, because malloc(3) keeps it for later requests: a leader that
//! once held 10,000 units would keep their memory until it exits.

use crate::clock::Clock;
use std::time::Duration;

/// Interval between returns; one that finds nothing takes microseconds.
const EVERY: Duration = Duration::from_secs(30);

/// Returns free memory periodically, forever.
pub(super) async fn give_back_for_ever(clock: Clock) {
    loop {
        clock.sleep(EVERY).await;
        give_back();
    }
}

/// Calls malloc_trim(3) where the C library has it.
#[allow(unsafe_code, reason = "no safe function of any library does it")]
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

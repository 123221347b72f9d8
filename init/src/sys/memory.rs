//! Free memory of malloc goes back to the kernel: malloc keeps what was freed for the next request, and
//! after a load, which needs much for a moment, PID 1 would keep it.

/// Free memory goes back to the kernel. malloc_trim(3); nothing where the C library has none.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! Returns memory to the kernel. malloc keeps freed memory, so PID 1 would keep the peak of a load
//! for ever.

/// Returns freed memory to the kernel with malloc_trim(3), if the C library has it.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! Giving memory back. malloc keeps what was freed for the next request; after a load, which
//! needs much for a moment, PID 1 would keep it for ever. So it is with the program itself: the
//! kernel maps 64 KiB around each page that was ever run (fault-around), and what a boot needs is
//! not what the loop needs.

use std::ffi::{c_int, c_void};

/// Free memory goes back to the kernel. malloc_trim(3); nothing where the C library has none.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Code and constants are no longer mapped; what is used again is found in the page cache, by
/// minor faults. Pages that are not used are taken away under memory pressure whether they are
/// mapped or not, so nothing is more likely to be read from a disk than it was. madvise(2).
pub(crate) fn forget_program() {
    // SAFETY: the callback keeps to the contract of dl_iterate_phdr(3) and needs no data.
    unsafe {
        libc::dl_iterate_phdr(Some(forget_segments), std::ptr::null_mut());
    }
}

/// Only the first object, which is the program; only whole pages of segments that nobody can
/// write, and so nobody has written: relocated constants are in a writable one.
unsafe extern "C" fn forget_segments(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut c_void,
) -> c_int {
    const PAGE: usize = 4096;
    // SAFETY: dl_iterate_phdr(3) gives a valid object, whose headers live as long as the program.
    let (base, headers) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object.dlpi_addr as usize, headers)
    };
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        let start = base.wrapping_add(header.p_vaddr as usize);
        let end = start.wrapping_add(header.p_memsz as usize) / PAGE * PAGE;
        let start = start.next_multiple_of(PAGE);
        // SAFETY: a private mapping of a file that was never written to: what is dropped comes
        // back the same. The pages of this very function too.
        unsafe {
            libc::madvise(start as *mut c_void, end.saturating_sub(start), libc::MADV_DONTNEED);
        }
    }
    1
}

//! Returns memory to the kernel. malloc keeps freed memory, so PID 1 would keep the peak of a load
//! for ever. The kernel maps 64 KiB around each executed page of the program (fault-around), so
//! pages that only the boot needed stay mapped.

use std::ffi::{c_int, c_void};

/// Returns freed memory to the kernel with malloc_trim(3), if the C library has it.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Unmaps code and constants. Pages that are used again come from the page cache by minor faults.
/// Memory pressure evicts unused pages whether they are mapped or not, so this causes no more disk
/// reads. madvise(2).
pub(crate) fn forget_program() {
    // SAFETY: the callback keeps to the contract of dl_iterate_phdr(3) and needs no data.
    unsafe {
        libc::dl_iterate_phdr(Some(forget_segments), std::ptr::null_mut());
    }
}

/// Handles only the first object, which is the program, and only whole pages of read-only segments.
/// Relocated constants are in a writable segment.
unsafe extern "C" fn forget_segments(
    object: *mut libc::dl_phdr_info,
    _: libc::size_t,
    _: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr(3) gives a valid object, whose headers live as long as the program.
    let (base, headers) = unsafe {
        let object = &*object;
        let headers = std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into());
        (object.dlpi_addr as usize, headers)
    };
    for (start, length) in headers.iter().filter_map(|header| whole_pages(base, header)) {
        let start = std::ptr::without_provenance_mut::<c_void>(start);
        // SAFETY: a private mapping of a file that was never written to: dropped pages come back
        // unchanged, also those of this function.
        unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) };
    }
    1
}

/// The address and length of the pages that belong to a segment alone. Returns `None` if there are
/// none or the segment is writable.
fn whole_pages(base: usize, header: &libc::Elf64_Phdr) -> Option<(usize, usize)> {
    const PAGE: usize = 4096;
    if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
        return None;
    }
    let start = base.wrapping_add(usize::try_from(header.p_vaddr).ok()?);
    let end = start.checked_add(usize::try_from(header.p_memsz).ok()?)? / PAGE * PAGE;
    let start = start.checked_next_multiple_of(PAGE)?;
    (start < end).then(|| (start, end.wrapping_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(kind: u32, flags: u32, at: u64, length: u64) -> libc::Elf64_Phdr {
        // SAFETY: plain data; all zeroes is a value of it.
        let mut header: libc::Elf64_Phdr = unsafe { std::mem::zeroed() };
        (header.p_type, header.p_flags, header.p_vaddr, header.p_memsz) = (kind, flags, at, length);
        header
    }

    #[test]
    fn only_whole_pages_that_nobody_writes_are_forgotten() {
        let code = libc::PF_R | libc::PF_X;
        let pages = |at, length| whole_pages(0x10_0000, &segment(libc::PT_LOAD, code, at, length));
        assert_eq!(pages(0, 0x3000), Some((0x10_0000, 0x3000)));
        assert_eq!(pages(0x800, 0x3000), Some((0x10_1000, 0x2000)), "both ends are shared");
        assert_eq!(pages(0x1001, 0x1ffe), None);
        assert_eq!((pages(0, 0), pages(0, 0xfff)), (None, None));
        let written = segment(libc::PT_LOAD, code | libc::PF_W, 0, 0x3000);
        let other = segment(libc::PT_NOTE, code, 0, 0x3000);
        assert_eq!((whole_pages(0, &written), whole_pages(0, &other)), (None, None));
    }

    #[test]
    fn a_segment_that_ends_beyond_all_memory_is_none() {
        for (at, length) in
            [(0, u64::MAX), (u64::MAX, u64::MAX), (u64::MAX - 0x1000, 0x1000), (1, u64::MAX - 1)]
        {
            let header = segment(libc::PT_LOAD, libc::PF_R, at, length);
            let found = whole_pages(0, &header).into_iter().chain(whole_pages(usize::MAX, &header));
            for (start, length) in found {
                assert!(
                    start % 4096 == 0 && length % 4096 == 0 && start.checked_add(length).is_some()
                );
            }
        }
    }
}

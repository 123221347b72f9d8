//! A mapped memfd of PID 1 whose contents survive an exec of init. mmap(2), memfd_create(2),
//! fallocate(2).
//!
//! All pages are allocated at the start, so that no later store fails. A forked child does not
//! inherit the mapping (MADV_DONTFORK).

use crate::sys::memfd;
use nix::fcntl::{FallocateFlags, OFlag, fallocate};
use nix::sys::stat::fstat;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One mapped memfd.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    base: NonNull<u8>,
    length: usize,
    file: OwnedFd,
}

impl SharedMemory {
    /// Creates zeroed memory of `length` bytes. Fails with ENOSYS or EPERM without memfds, else
    /// with ENOMEM or ENOSPC.
    pub(crate) fn new(name: &std::ffi::CStr, length: usize) -> io::Result<SharedMemory> {
        let file = memfd::create(name)?;
        let size = i64::try_from(length).map_err(io::Error::other)?;
        fallocate(&file, FallocateFlags::empty(), 0, size)?;
        SharedMemory::map(file, length)
    }

    /// Maps the memory behind a descriptor inherited from an earlier image of init.
    pub(crate) fn adopt(file: OwnedFd) -> io::Result<SharedMemory> {
        let length = usize::try_from(fstat(&file)?.st_size).map_err(io::Error::other)?;
        SharedMemory::map(file, length)
    }

    fn map(file: OwnedFd, length: usize) -> io::Result<SharedMemory> {
        let base = super::map(length, libc::MAP_SHARED, Some(file.as_fd()))?;
        // SAFETY: exactly the mapping just made. If it fails, children inherit the mapping and do
        // not use it.
        unsafe { libc::madvise(base.as_ptr().cast(), length, libc::MADV_DONTFORK) };
        Ok(SharedMemory { base, length, file })
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn file(&self) -> &OwnedFd {
        &self.file
    }

    /// Replaces the memory of `self` by the other one, under the same descriptor number (dup3(2)).
    pub(crate) fn replace_file_of(&mut self, other: SharedMemory) -> io::Result<()> {
        nix::unistd::dup3(&other.file, &mut self.file, OFlag::O_CLOEXEC)?;
        let mut other = other;
        std::mem::swap(&mut self.base, &mut other.base);
        std::mem::swap(&mut self.length, &mut other.length);
        Ok(())
    }

    /// The bytes of a range. Returns `None` if it is not within the memory.
    pub(crate) fn get(&self, at: usize, length: usize) -> Option<&[u8]> {
        let end = at.checked_add(length).filter(|end| *end <= self.length)?;
        // SAFETY: within the mapping, which lives as long as `self`; only `&mut self` writes there.
        Some(unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(end - length), length) })
    }

    /// Writes these bytes. Returns false, without writing, if they do not fit.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let Some(end) = at.checked_add(bytes.len()).filter(|end| *end <= self.length) else {
            return false;
        };
        // SAFETY: within the mapping; `bytes` cannot overlap it while `self` is borrowed mutably.
        unsafe {
            let to = self.base.as_ptr().add(end - bytes.len());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        true
    }

    /// The word at this offset, a multiple of 8. Returns zero outside of the memory.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.atomic(at).map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Stores a word atomically, after everything that was put before.
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        fence(Ordering::SeqCst);
        if let Some(word) = self.atomic(at) {
            word.store(value, Ordering::SeqCst);
        }
    }

    fn atomic(&self, at: usize) -> Option<&AtomicU64> {
        let fits = at.is_multiple_of(8) && at.checked_add(8).is_some_and(|end| end <= self.length);
        // SAFETY: aligned, because mappings start at a page; within the mapping; any bytes are a
        // value.
        fits.then(|| unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; no reference into it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

// Returns memory to the kernel. malloc keeps freed memory, so PID 1 would keep the peak of a load
// for ever.

/// Returns freed memory to the kernel with malloc_trim(3), if the C library has it.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim(3) may be called at any time; it touches free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn bytes_written_through_one_mapping_are_read_through_another() {
        let mut memory = SharedMemory::new(c"test", 4096).unwrap();
        assert!(memory.put(8, b"abc") && !memory.put(4094, b"abc"));
        memory.set_word(16, 7);
        let again = SharedMemory::adopt(memory.file().try_clone().unwrap()).unwrap();
        assert_eq!((again.length(), again.get(8, 3), again.word(16)), (4096, Some(&b"abc"[..]), 7));
        assert_eq!((again.get(4094, 3), again.get(usize::MAX, 2), again.word(4)), (None, None, 0));
    }
}

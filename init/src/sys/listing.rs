//! Lists directories: getdents64(2). The C library's readers, and Rust's on top of them, panic if
//! another piece of code has closed the descriptor; this one does not.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Read size.
const BYTES: usize = 4096;
/// Offsets in struct linux_dirent64, getdents(2): the length of an entry, its type and its name.
const LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// A directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'b> {
    /// The name, without the NUL.
    pub(crate) name: &'b [u8],
    /// True for a directory. False also if the file system does not report types.
    pub(crate) is_directory: bool,
}

/// Visits the entries of a directory that was just opened, including `.` and `..`.
pub(crate) fn list(directory: BorrowedFd<'_>, mut see: impl FnMut(Entry<'_>)) -> io::Result<()> {
    let mut bytes = [0u8; BYTES];
    loop {
        let (number, room) = (directory.as_raw_fd(), bytes.as_mut_ptr());
        // SAFETY: the kernel writes at most BYTES bytes into `bytes`.
        let read = unsafe { libc::syscall(libc::SYS_getdents64, number, room, BYTES) };
        match usize::try_from(check(read)?) {
            Ok(length) if length > 0 => {
                entries(bytes.get(..length).unwrap_or_default()).for_each(&mut see);
            }
            Ok(_) | Err(_) => return Ok(()),
        }
    }
}

/// The entries in a buffer of the kernel. Allocates nothing.
fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[low, high], kind) =
            (rest.get(LENGTH_AT..TYPE_AT)?.first_chunk()?, rest.get(TYPE_AT)?);
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let name = rest.get(NAME_AT..length).unwrap_or_default();
        rest = rest.get(length.max(NAME_AT)..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Entry { name, is_directory: *kind == libc::DT_DIR })
    })
}

#[cfg(test)]
mod tests {
    use super::super::{process, wait};
    use super::*;
    use groundstate_units::spec::Exit;
    use std::collections::BTreeSet;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    #[cfg_attr(miri, ignore = "getdents64")]
    fn each_entry_of_a_large_directory_is_listed_once() {
        let dir = std::env::temp_dir().join(format!("groundstate-listing-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        let files: BTreeSet<String> = (0..500).map(|n| format!("a file of number {n}")).collect();
        files.iter().for_each(|name| drop(File::create(dir.join(name)).unwrap()));
        let (mut seen, mut below) = (Vec::new(), Vec::new());
        let see = |entry: Entry<'_>| {
            let name = String::from_utf8(entry.name.to_vec()).unwrap();
            if entry.is_directory { below.push(name) } else { seen.push(name) }
        };
        list(File::open(&dir).unwrap().as_fd(), see).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        below.sort();
        assert_eq!(below, [".", "..", "below"]);
        assert_eq!((seen.len(), seen.into_iter().collect()), (files.len(), files));
    }

    #[test]
    fn invalid_directory_entries_end_the_listing() {
        assert_eq!(entries(&[]).count(), 0);
        assert_eq!(entries(&[0; 18]).count(), 0);
        assert_eq!(entries(&[0; 19]).count(), 1);
        assert_eq!(entries(&[255; 4096]).count(), 1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "fork")]
    fn directory_descriptor_closed_by_other_code_is_an_error_and_no_panic() {
        let child = process::fork(&[], || {
            let directory = File::open("/proc/self").unwrap();
            let mut count = 0;
            let first = list(directory.as_fd(), |_| count += 1);
            // SAFETY: this child opens nothing after it.
            unsafe { libc::close(directory.as_raw_fd()) };
            let second = list(directory.as_fd(), |_| {});
            // Debug builds abort when a closed descriptor is closed again.
            std::mem::forget(directory);
            u8::from(first.is_ok() && count > 2 && second.is_err())
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(1));
    }
}

//! Memory with a descriptor and seals. The loader passes a generation to PID 1 in it, and init runs
//! from it when its file is gone. memfd_create(2), fcntl(2) "File Sealing".

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// MFD_NOEXEC_SEAL (Linux 6.3): never executable; asked for by `vm.memfd_noexec=2`.
const NOEXEC_SEAL: u32 = 0x0008;

/// MFD_EXEC (Linux 6.3): executable, whatever the default of `vm.memfd_noexec=1`.
const EXEC: u32 = 0x0010;

/// The four seals that make the contents final.
fn all() -> SealFlag {
    SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE
}

/// Creates an empty memfd that can be sealed, with close-on-exec. ENOSYS or EPERM mean that the
/// system has none.
pub(crate) fn create(name: &CStr) -> io::Result<OwnedFd> {
    made(name, MFdFlags::MFD_ALLOW_SEALING, NOEXEC_SEAL)
}

/// Creates an empty executable memfd, with close-on-exec.
pub(crate) fn program(name: &CStr) -> io::Result<OwnedFd> {
    made(name, MFdFlags::empty(), EXEC)
}

/// `new`: a flag that an older kernel refuses, and that it does not need.
fn made(name: &CStr, flags: MFdFlags, new: u32) -> io::Result<OwnedFd> {
    let flags = flags | MFdFlags::MFD_CLOEXEC;
    match memfd_create(name, flags | MFdFlags::from_bits_retain(new)) {
        Err(nix::errno::Errno::EINVAL) => Ok(memfd_create(name, flags)?),
        made => Ok(made?),
    }
}

/// Makes the contents final.
pub(crate) fn seal(fd: impl AsFd) -> io::Result<()> {
    fcntl(fd, FcntlArg::F_ADD_SEALS(all()))?;
    Ok(())
}

/// Returns true for a memfd or a file of a tmpfs.
pub(crate) fn is_memory(fd: impl AsFd) -> bool {
    fcntl(fd, FcntlArg::F_GET_SEALS).is_ok()
}

/// Returns true if no process can write, grow or shrink the contents. Returns false if it is not a
/// memfd.
pub(crate) fn is_sealed(fd: impl AsFd) -> bool {
    fcntl(fd, FcntlArg::F_GET_SEALS)
        .is_ok_and(|bits| SealFlag::from_bits_truncate(bits).contains(all()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create")]
    fn write_to_a_sealed_memfd_fails_with_an_error() {
        let mut file = std::fs::File::from(create(c"test").unwrap());
        file.write_all(b"abc").unwrap();
        assert!(!is_sealed(&file));
        seal(&file).unwrap();
        assert!(is_sealed(&file));
        assert!(file.write_all(b"d").is_err());
        assert!(file.set_len(0).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "fcntl(F_GET_SEALS)")]
    fn an_ordinary_file_is_not_sealed() {
        assert!(!is_sealed(std::fs::File::open("/dev/null").unwrap()));
    }
}

//! Capabilities of a child between clone and exec: reduced before the change of user, set after it.
//! The rules of [`super::child`] apply: system calls through [`super::raw`] only, no allocation, no
//! panic. capabilities(7), prctl(2), capset(2).

use super::child_setup::Rights;
use super::raw;

/// prctl(2).
unsafe fn prctl(option: i32, arguments: [usize; 3]) -> Result<isize, isize> {
    let [a, b, c] = arguments;
    // SAFETY: the options used here take numbers.
    done(unsafe { raw::call(libc::SYS_prctl, [option as usize, a, b, c, 0, 0]) })
}

/// The kernel's answer, or its negative errno.
fn done(result: isize) -> Result<isize, isize> {
    if result < 0 { Err(result) } else { Ok(result) }
}

/// The highest number of capabilities.
const CAPABILITIES: usize = 64;

/// Reduces the bounding set and, if needed, keeps the capabilities over the change of user.
pub(super) unsafe fn before_user(rights: &Rights, changes: bool) -> Result<(), isize> {
    // SAFETY: numbers only.
    unsafe {
        if let Some(bound) = rights.bound {
            let mut number: usize = 0;
            while number < CAPABILITIES {
                match prctl(libc::PR_CAPBSET_READ, [number, 0, 0]) {
                    Ok(1) if bound & (1u64 << (number & 63)) == 0 => {
                        prctl(libc::PR_CAPBSET_DROP, [number, 0, 0])?;
                    }
                    Ok(_) => {}
                    // The kernel has no capability of this number or above.
                    Err(errno) if errno == -(libc::EINVAL as isize) => break,
                    Err(errno) => return Err(errno),
                }
                number = number.wrapping_add(1);
            }
        }
        if changes && (rights.ambient != 0 || rights.secure_bits != 0) {
            prctl(libc::PR_SET_KEEPCAPS, [1, 0, 0])?;
        }
    }
    Ok(())
}

/// Applies the rest as the user: the secure bits while that is still allowed, then the sets.
pub(super) unsafe fn after_user(rights: &Rights, changed: bool) -> Result<(), isize> {
    let keeps = rights.ambient != 0 || rights.secure_bits != 0;
    // SAFETY: only numbers, and arrays of `set_capabilities`.
    unsafe {
        if keeps && changed {
            // The kept capabilities are only permitted, so they must become effective again.
            raise_effective()?;
        }
        if rights.secure_bits != 0 {
            prctl(libc::PR_SET_SECUREBITS, [rights.secure_bits as usize, 0, 0])?;
        }
        if keeps {
            set_capabilities(rights.ambient, changed)?;
        }
        let mut number: usize = 0;
        while number < CAPABILITIES {
            if rights.ambient & (1u64 << (number & 63)) != 0 {
                let raise = libc::PR_CAP_AMBIENT_RAISE as usize;
                prctl(libc::PR_CAP_AMBIENT, [raise, number, 0])?;
            }
            number = number.wrapping_add(1);
        }
        if rights.no_new {
            prctl(libc::PR_SET_NO_NEW_PRIVS, [1, 0, 0])?;
        }
    }
    Ok(())
}

/// _LINUX_CAPABILITY_VERSION_3 of linux/capability.h, this process.
const HEADER: [u32; 2] = [0x2008_0522, 0];

/// Reads the three sets in two halves each: effective, permitted, inheritable, twice.
unsafe fn capabilities() -> Result<[u32; 6], isize> {
    let (mut header, mut sets) = (HEADER, [0u32; 6]);
    let args = [header.as_mut_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: capget(2) of version 3 writes 24 bytes.
    done(unsafe { raw::call(libc::SYS_capget, args) })?;
    Ok(sets)
}

unsafe fn write_capabilities(sets: &[u32; 6]) -> Result<isize, isize> {
    let header = HEADER;
    let args = [header.as_ptr() as usize, sets.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: capset(2) of version 3 reads 24 bytes.
    done(unsafe { raw::call(libc::SYS_capset, args) })
}

/// Makes all permitted capabilities effective.
unsafe fn raise_effective() -> Result<isize, isize> {
    // SAFETY: the array is ours.
    unsafe {
        let [_, permitted, inheritable, _, more, inheritable_more] = capabilities()?;
        write_capabilities(&[permitted, permitted, inheritable, more, more, inheritable_more])
    }
}

/// With `only`, the process has these capabilities and no others. Otherwise they become
/// inheritable, in addition to its own.
unsafe fn set_capabilities(set: u64, only: bool) -> Result<isize, isize> {
    let (low, high) = (set as u32, (set >> 32) as u32);
    // SAFETY: the array is ours.
    unsafe {
        if only {
            return write_capabilities(&[low, low, low, high, high, high]);
        }
        let [effective, permitted, inheritable, a, b, c] = capabilities()?;
        write_capabilities(&[effective, permitted, inheritable | low, a, b, c | high])
    }
}

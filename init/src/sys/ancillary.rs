//! What comes along with a message of a unix socket: the kernel's struct cmsghdr, read and written
//! as bytes. cmsg(3), unix(7). Descriptors are only numbers here, and nothing is unsafe; who makes
//! them its own is [`super::socket`].
//!
//! Reading is total: whatever the bytes are, no more is read than is there.

use super::Pid;
use std::mem::{offset_of, size_of};
use std::os::fd::RawFd;

/// Credentials that the kernel recorded at connect(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Process; 0 when it is outside this pid namespace.
    pub pid: Pid,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Bytes before the data of each part.
pub(super) const HEAD: usize = 16;
/// Where they say what it is. They begin with how long it is, the head too: u64.
const LEVEL_AT: usize = 8;
const KIND_AT: usize = 12;

const _: () = assert!(size_of::<libc::cmsghdr>() == HEAD && size_of::<usize>() == 8);
const _: () = assert!(offset_of!(libc::cmsghdr, cmsg_level) == LEVEL_AT);
const _: () = assert!(offset_of!(libc::cmsghdr, cmsg_type) == KIND_AT);

/// CMSG_SPACE: header and data, each rounded up to the word.
pub(super) const fn space(bytes: usize) -> usize {
    HEAD + bytes.next_multiple_of(8)
}

/// One of the parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'b> {
    /// Numbers of descriptors, four bytes each; what is left over is none.
    Descriptors(&'b [u8]),
    /// Who sent it.
    Sender(Peer),
}

/// What the kernel has written, part by part. Ends at the first that can be none.
pub(super) fn parts(bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        loop {
            let length = usize::from_ne_bytes(*rest.first_chunk()?).min(rest.len());
            let (level, kind) = (int(rest, LEVEL_AT)?, int(rest, KIND_AT)?);
            let data = rest.get(HEAD..length)?;
            rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => return Some(Part::Descriptors(data)),
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) => {
                    if let Some(sender) = sender(data) {
                        return Some(Part::Sender(sender));
                    }
                }
                _ => {}
            }
        }
    })
}

/// The numbers in [`Part::Descriptors`].
pub(super) fn numbers(data: &[u8]) -> impl Iterator<Item = RawFd> {
    data.chunks_exact(size_of::<RawFd>())
        .filter_map(|bytes| int(bytes, 0))
        .filter(|number| *number >= 0)
}

/// struct ucred.
fn sender(data: &[u8]) -> Option<Peer> {
    let id = |at: usize| int(data, at).map(i32::cast_unsigned);
    Some(Peer { pid: Pid::from_raw(int(data, 0)?), uid: id(4)?, gid: id(8)? })
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().copied().map(i32::from_ne_bytes)
}

/// One part of these descriptors at the beginning of `to`. Gives how long it is; 0: there are none,
/// or they find no room.
pub(super) fn write_descriptors(numbers: &[RawFd], to: &mut [u8]) -> usize {
    let data = size_of_val(numbers);
    let Some(room) = to.get_mut(..space(data)).filter(|_| data > 0) else { return 0 };
    let length = HEAD.saturating_add(data).to_ne_bytes();
    let what = [libc::SOL_SOCKET, libc::SCM_RIGHTS];
    let ints = what.iter().chain(numbers).flat_map(|number| number.to_ne_bytes());
    room.iter_mut().zip(length.into_iter().chain(ints)).for_each(|(to, from)| *to = from);
    room.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part as the kernel writes it, that says it is so long.
    fn part(length: usize, kind: i32, data: &[u8]) -> Vec<u8> {
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend([libc::SOL_SOCKET, kind].into_iter().flat_map(i32::to_ne_bytes));
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0xee);
        bytes
    }

    fn of(kind: i32, ints: &[i32]) -> Vec<u8> {
        let data: Vec<u8> = ints.iter().flat_map(|number| number.to_ne_bytes()).collect();
        part(HEAD + data.len(), kind, &data)
    }

    fn seen(bytes: &[u8]) -> (Vec<RawFd>, Option<Peer>) {
        let (mut all, mut from) = (Vec::new(), None);
        for part in parts(bytes) {
            match part {
                Part::Descriptors(data) => all.extend(numbers(data)),
                Part::Sender(sender) => from = Some(sender),
            }
        }
        (all, from)
    }

    #[test]
    fn what_came_along_is_read_as_the_kernel_writes_it() {
        let sender = Peer { pid: Pid::from_raw(7), uid: u32::MAX, gid: 9 };
        let bytes = [
            of(libc::SCM_CREDENTIALS, &[7, -1, 9]),
            of(0x7777, &[1, 2, 3]),
            of(libc::SCM_RIGHTS, &[3, 4, 5]),
        ]
        .concat();
        assert_eq!(seen(&bytes), (vec![3, 4, 5], Some(sender)));
        // The last one is not rounded up where there is no room for that.
        assert_eq!(seen(&bytes[..bytes.len() - 4]), (vec![3, 4, 5], Some(sender)));
        let mut written = [0; 64];
        let length = write_descriptors(&[3, 4, 5], &mut written);
        assert_eq!((length, seen(&written[..length])), (space(12), (vec![3, 4, 5], None)));
        assert_eq!(&written[..length - 4], &of(libc::SCM_RIGHTS, &[3, 4, 5])[..length - 4]);
        assert_eq!(write_descriptors(&[], &mut written), 0);
        assert_eq!(write_descriptors(&[1; 20], &mut written), 0, "no room");
    }

    #[test]
    fn a_part_that_lies_about_its_length_gives_no_more_than_is_there() {
        let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
        for length in [24, 25, 32, 1 << 20, usize::MAX - 7, usize::MAX] {
            let bytes = part(length, libc::SCM_RIGHTS, &numbers);
            assert_eq!(seen(&bytes), (vec![3, 4], None), "{length}");
        }
        for length in [0, 1, 15] {
            assert_eq!(seen(&part(length, libc::SCM_RIGHTS, &numbers)), (vec![], None));
        }
        // Half a number, no number, and half a sender are none.
        assert_eq!(seen(&part(HEAD + 6, libc::SCM_RIGHTS, &numbers)).0, [3]);
        assert_eq!(seen(&of(libc::SCM_RIGHTS, &[-1, i32::MIN, 5])).0, [5]);
        assert_eq!(seen(&of(libc::SCM_CREDENTIALS, &[7, 8])), (vec![], None));
    }

    #[test]
    fn any_bytes_are_read_to_their_end_and_not_beyond() {
        let whole =
            [of(libc::SCM_CREDENTIALS, &[7, 8, 9]), of(libc::SCM_RIGHTS, &[3, 4, 5])].concat();
        for length in 0..whole.len() {
            assert!(seen(&whole[..length]).0.len() <= 3);
            // Nor does it matter where they lie.
            seen(whole.get(length..).unwrap());
        }
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(seen(&bytes).0.len() <= 10);
        }
        for byte in [0, 1, 255] {
            seen(&[byte; 333]);
        }
    }
}

//! Notes in plain memory: what is done with the mapping, without one. Miri, which knows neither memfds nor
//! forks, has the tests of [`crate::journal`] write here: all but what is asked of the kernel is the same.

use super::*;

/// Aligned as a page is where it counts: to an entry.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Entry([u8; ENTRY]);

const _: () = assert!(notes::BYTES.is_multiple_of(ENTRY));

fn memory(byte: u8) -> Vec<Entry> {
    vec![Entry([byte; ENTRY]); notes::BYTES / ENTRY]
}

/// What `work` notes, as an image before this one would have left it: behind `before`, in this turn, or
/// behind nothing. One at a time, as in PID 1.
#[cfg(miri)]
pub(crate) fn noted(before: Option<(&[u8], &Past, u32)>, work: impl FnOnce()) -> Vec<u8> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap();
    let mut memory = memory(0);
    let base: *mut u8 = memory.as_mut_ptr().cast();
    lose();
    known(last());
    match before {
        Some((bytes, past, turn)) => {
            assert_eq!(bytes.len(), notes::BYTES);
            // SAFETY: the memory is that long, and nobody else's.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), base, bytes.len()) };
            go_on_at(base, past, turn);
        }
        None => stand_at(base, 0, 0),
    }
    work();
    forget();
    // SAFETY: all of it, which nobody writes to any more.
    unsafe { std::slice::from_raw_parts(base, notes::BYTES) }.to_vec()
}

#[test]
fn a_damaged_page_does_not_say_where_a_message_goes() {
    let mut memory = memory(255);
    let base: *mut u8 = memory.as_mut_ptr().cast();
    // SAFETY: it is as long and as aligned as a mapping, and nobody else's.
    let (header, part) = unsafe {
        prepare(base);
        let header = base.add(notes::HEADER).cast::<libc::mmsghdr>().read();
        (header, header.msg_hdr.msg_iov.read())
    };
    let at = |pointer: *mut libc::c_void| pointer.addr().wrapping_sub(base.addr());
    let message = header.msg_hdr;
    assert!(message.msg_name.is_null() && message.msg_namelen == 0);
    assert_eq!((message.msg_iov.cast(), message.msg_iovlen), (base.wrapping_add(notes::PART), 1));
    assert_eq!((at(part.iov_base), part.iov_len), (notes::MESSAGE, notes::RING - notes::MESSAGE));
    assert_eq!(at(message.msg_control), notes::CONTROL);
    // What was read and is not noted yet is read by who goes on.
    assert_eq!(header.msg_len, u32::MAX);
}

//! Tests of a child's plan, read as the kernel reads it. Under Miri they run the whole child: a
//! simulated kernel answers, and exits unwind.

use super::super::child_setup::Rights;
use super::*;
use std::ffi::CStr;

/// A frame that uses every setting.
pub(in crate::sys) fn frame() -> Frame {
    Frame {
        cgroup: Some(20),
        joins_by_itself: true,
        score: Some(b"300".to_vec()),
        stdio: [21, 22, 23],
        passed: vec![24, 25],
        report: Some(26),
        placed: Some((27, 9)),
    }
}

/// Orders that use every setting.
pub(in crate::sys) fn orders() -> Orders {
    let strings = |words: &[&str]| words.iter().map(|word| CString::new(*word).unwrap()).collect();
    Orders {
        programs: strings(&["/a/b", "/c/b"]),
        argv: strings(&["b", "-x"]),
        envp: strings(&["N=V"]),
        listen_pid: true,
        limits: vec![
            Limit { resource: 7, soft: 5, hard: 6 },
            Limit { resource: 8, soft: 1, hard: 1 },
        ],
        groups: Some(vec![3, 4]),
        gid: Some(5),
        uid: Some(6),
        rights: Some(Rights { bound: Some(3), ambient: 1 << 40, secure_bits: 4, no_new: true }),
        root: Some(CString::from(c"/root-of-it")),
        dir: CString::from(c"/missing"),
        dir_optional: true,
        umask: 0o22,
    }
}

/// Programs, words and environment of a plan.
///
/// # Safety
/// It is valid and not written to.
pub(in crate::sys) unsafe fn words(plan: *const Plan) -> [Vec<String>; 3] {
    // SAFETY: by the contract of this function; the lists end in null.
    unsafe {
        let lists = [(*plan).programs.as_ptr(), (*plan).argv.as_ptr(), (*plan).envp.as_ptr()];
        lists.map(|list| {
            let until_null = (0..).map(|at| *list.add(at)).take_while(|word| !word.is_null());
            until_null.map(|word| CStr::from_ptr(word).to_str().unwrap().to_owned()).collect()
        })
    }
}

#[test]
fn number_is_written_with_a_terminator_and_nothing_behind_it() {
    for number in [0, 9, 10, 99, 100, 4_194_304, 999_999_999, u32::MAX] {
        let mut room = [b'x'; 12];
        // SAFETY: it holds twelve bytes.
        unsafe { write_number(room.as_mut_ptr(), number) };
        let text = CStr::from_bytes_until_nul(&room).unwrap().to_str().unwrap();
        assert_eq!(text, number.to_string());
        assert!(room[text.len() + 1..].iter().all(|byte| *byte == b'x'));
    }
}

#[test]
fn empty_word_lists_of_a_plan_are_terminated() {
    let (slot, frame) = (Slot::default(), frame());
    let mut orders = orders();
    (orders.argv, orders.envp, orders.listen_pid) = (Vec::new(), Vec::new(), false);
    // SAFETY: all three live here, longer than the plan.
    let words = unsafe { words(&Plan::new(&slot, &frame, &orders)) };
    assert_eq!(words, [vec!["/a/b".to_owned(), "/c/b".to_owned()], vec![], vec![]]);
}

/// The calls of a child with this plan until it exits.
///
/// # Safety
/// As [`run`].
#[cfg(miri)]
pub(in crate::sys) unsafe fn pretended(plan: *mut Plan) -> Vec<raw::pretended::Call> {
    use std::cell::RefCell;
    use std::rc::Rc;

    let calls = Rc::new(RefCell::new(Vec::new()));
    let (told, mut programs) = (Rc::clone(&calls), 0);
    raw::pretended::answer(move |call| {
        told.borrow_mut().push(call);
        let error = match call.0 {
            libc::SYS_openat => return 30,
            libc::SYS_getpid => return 4_194_304,
            libc::SYS_execve => {
                programs += 1;
                if programs == 1 { libc::EACCES } else { libc::ENOENT }
            }
            // The first one follows the chroot; the second enters the missing working directory.
            libc::SYS_chdir if told.borrow().iter().filter(|it| it.0 == call.0).count() == 2 => {
                libc::ENOENT
            }
            libc::SYS_faccessat => libc::ENOENT,
            libc::SYS_exit_group => std::panic::resume_unwind(Box::new(())),
            _ => 0,
        };
        -(error as isize)
    });
    let all = || {
        // SAFETY: by the contract of this function.
        unsafe {
            apply_frame((*plan).slot, (*plan).frame, u64::MAX, false);
            become_program(plan)
        }
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)).is_err());
    calls.take()
}

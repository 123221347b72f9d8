//! The binary, arguments and environment with which init executes its program again.

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::ffi::{CString, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Opens the binary of this process. It can be executed even after its file is removed.
pub(crate) fn own_binary() -> Option<OwnedFd> {
    open("/proc/self/exe", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).ok()
}

/// The arguments of this process, plus `word`, which tells the next image how to start.
pub(crate) fn arguments(word: String) -> Vec<CString> {
    arguments_in(word, false)
}

/// Like [`arguments`], without `--target` if that belonged to the previous root. The words after
/// `--` are a command's.
pub(crate) fn arguments_in(word: String, is_new_root: bool) -> Vec<CString> {
    let is_ours = |given: &OsString| {
        let bytes = given.as_bytes();
        [&b"--resume="[..], b"--rescue=", b"--end="].iter().any(|ours| bytes.starts_with(ours))
    };
    let mut given: Vec<OsString> = std::env::args_os().collect();
    let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
    let command = given.split_off(end);
    given.retain(|given| !is_ours(given));
    if is_new_root {
        given = without_target(given);
    }
    given.insert(given.len().min(1), OsString::from(word));
    given.into_iter().chain(command).filter_map(|word| CString::new(word.into_vec()).ok()).collect()
}

fn without_target(given: Vec<OsString>) -> Vec<OsString> {
    let mut is_value = false;
    let stays = |word: &OsString| {
        let was_value = std::mem::replace(&mut is_value, word == "--target");
        !(was_value || is_value || word.as_bytes().starts_with(b"--target="))
    };
    given.into_iter().filter(stays).collect()
}

pub(crate) fn environment() -> Vec<CString> {
    let all = std::env::vars_os().map(|(mut name, value)| {
        name.push("=");
        name.push(value);
        CString::new(name.into_vec())
    });
    all.filter_map(Result::ok).collect()
}

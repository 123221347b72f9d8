//! A file system whose server reads every request and answers only the first: a process that uses
//! it blocks and cannot be killed. Uses FUSE, see `include/uapi/linux/fuse.h`. Option
//! `--mute-mount` of the stand-in.

use nix::mount::MsFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

/// The minimum buffer of a server: FUSE_MIN_READ_BUFFER.
const REQUEST: usize = 8192;
/// Bytes of a `fuse_in_header`, of a `fuse_out_header`, and of a `fuse_init_out`.
const ASKED: usize = 40;
const ANSWERED: u32 = 16;
const INIT: u32 = 64;

/// Mounts it, and serves it while this process lives.
///
/// # Errors
/// No /dev/fuse, no permission to mount, or an unexpected first request.
pub(super) fn mount(place: &Path) -> io::Result<()> {
    let mut device = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    nix::mount::mount(Some("mute"), place, Some("fuse"), MsFlags::empty(), Some(options.as_str()))?;
    let mut request = vec![0; REQUEST];
    let length = device.read(&mut request)?;
    greet(&mut device, request.get(..length).unwrap_or_default())?;
    std::thread::spawn(move || while device.read(&mut request).is_ok() {});
    Ok(())
}

/// Answers FUSE_INIT with version 7.31.
fn greet(device: &mut File, request: &[u8]) -> io::Result<()> {
    let unique = request.get(8..16).filter(|_| request.len() > ASKED);
    let unique = unique.ok_or_else(|| io::Error::other("the kernel asks for nothing"))?;
    let mut answer = Vec::new();
    answer.extend((ANSWERED + INIT).to_ne_bytes());
    answer.extend(0i32.to_ne_bytes());
    answer.extend(unique);
    answer.extend([7u32, 31].into_iter().flat_map(u32::to_ne_bytes));
    answer.resize((ANSWERED + INIT) as usize, 0);
    device.write_all(&answer)
}

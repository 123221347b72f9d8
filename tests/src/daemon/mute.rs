//! A file system whose server takes every request and answers none but the first: who asks it for
//! anything waits, and can not be killed. As FUSE has it, see `include/uapi/linux/fuse.h`; no more of
//! it than that. `--mute-mount` of the stand-in.

use nix::mount::MsFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

/// The least that a server has to have room for: FUSE_MIN_READ_BUFFER.
const REQUEST: usize = 8192;
/// Bytes of a `fuse_in_header`, of a `fuse_out_header`, and of a `fuse_init_out`.
const ASKED: usize = 40;
const ANSWERED: u32 = 16;
const INIT: u32 = 64;

/// Mounts it, and serves it for as long as this process lives.
///
/// # Errors
/// No /dev/fuse, no right to mount, not what a kernel says first.
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

/// Answers FUSE_INIT, its one question, with version 7.31 and nothing else.
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

//! Messages of the kernel, from /dev/kmsg. Each read(2) returns one record:
//! `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`, a newline, and lines with fields. The kernel's
//! sources describe it in `Documentation/ABI/testing/dev-kmsg`.

use nix::errno::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// The file of the messages.
pub(crate) const FILE: &str = "/dev/kmsg";
/// The size limit of a record: `CONSOLE_EXT_LOG_MAX` of the kernel.
const RECORD: usize = 8 * 1024;
/// Records that are read in a row, before other sources have their turn.
const IN_A_ROW: usize = 64;

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The number of the message since the boot.
    pub(crate) sequence: u64,
    /// The syslog(3) level.
    pub(crate) level: u8,
    /// The kernel wrote the message. Otherwise a process wrote it to /dev/kmsg; the kernel gives such
    /// a message another facility than its own.
    pub(crate) is_of_kernel: bool,
    /// The time since the boot, without the time of suspends.
    pub(crate) micros: u64,
    /// The text on one line.
    pub(crate) text: String,
}

impl Record {
    fn parse(record: &[u8]) -> Option<Record> {
        let (head, rest) = record.split_at(record.iter().position(|byte| *byte == b';')?);
        let text = rest.get(1..)?.split(|byte| *byte == b'\n').next()?;
        let mut fields = std::str::from_utf8(head).ok()?.split(',');
        let priority: u64 = fields.next()?.parse().ok()?;
        Some(Record {
            sequence: fields.next()?.parse().ok()?,
            level: (priority & 7) as u8,
            is_of_kernel: priority >> 3 == 0,
            micros: fields.next()?.parse().ok()?,
            text: unescaped(text),
        })
    }

    /// The text with the time in the form of dmesg(1), for example `[    1.234567] text`.
    pub(crate) fn stamped(&self) -> String {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        format!("[{seconds:5}.{micros:06}] {}", self.text)
    }
}

/// Splits a text of [`Record::stamped`] into microseconds and the rest.
pub(crate) fn without_stamp(text: &str) -> Option<(u64, &str)> {
    let (stamp, rest) = text.strip_prefix('[')?.split_once("] ")?;
    let (seconds, micros) = stamp.trim_start().split_once('.')?;
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok().filter(|_| micros.len() == 6)?;
    Some((seconds.checked_mul(1_000_000)?.checked_add(micros)?, rest))
}

/// Replaces `\xNN`, with which the kernel escapes a byte. A newline becomes `#012`, as in messages of
/// syslog(3).
fn unescaped(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let byte = rest
            .strip_prefix(b"\\x")
            .and_then(|hex| hex.get(..2))
            .and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { rest.get(4..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).replace('\n', "#012")
}

/// The result of [`Kernel::next`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A message.
    Record(Record),
    /// The kernel has overwritten messages before they were read.
    Lost,
    /// There is no further message at present.
    End,
}

/// The open file. Its first message is the oldest that the kernel has.
#[derive(Debug)]
pub(crate) struct Kernel {
    file: File,
    record: Vec<u8>,
}

impl Kernel {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// The file does not exist, as in a container, or this user may not read it (`kernel.dmesg_restrict`).
    pub(crate) fn open() -> io::Result<Kernel> {
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        Ok(Kernel::of(OpenOptions::new().read(true).custom_flags(flags).open(FILE)?))
    }

    fn of(file: File) -> Kernel {
        Kernel { file, record: vec![0; RECORD] }
    }

    /// Returns the next message, without waiting for one.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        loop {
            let read = match self.file.read(&mut self.record) {
                Ok(0) => return Ok(Next::End),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Next::End),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.raw_os_error() == Some(Errno::EPIPE as i32) => {
                    return Ok(Next::Lost);
                }
                Err(error) => return Err(error),
            };
            if let Some(record) = Record::parse(self.record.get(..read).unwrap_or_default()) {
                return Ok(Next::Record(record));
            }
        }
    }
}

impl AsFd for Kernel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Reads each message of a boot once, although the reading program may be restarted.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) kernel: Kernel,
    /// The number of the next message.
    next: u64,
    /// Stores `next`. `None` if there is no place for it: then a restarted program reads all messages
    /// again.
    saved: Option<File>,
    is_saved: bool,
}

impl Intake {
    /// `saved` is a file that exists for one boot.
    pub(super) fn new(kernel: Kernel, saved: Option<PathBuf>) -> Intake {
        let text = saved.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let next = text.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let open = |path| OpenOptions::new().write(true).create(true).truncate(false).open(path);
        Intake { kernel, next, saved: saved.and_then(|path| open(path).ok()), is_saved: true }
    }

    /// Returns the messages that this program has not seen, at most [`IN_A_ROW`], and true if messages
    /// were lost.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub(super) fn read(&mut self) -> io::Result<(Vec<Record>, bool)> {
        let (mut records, mut has_lost) = (Vec::new(), false);
        for _ in 0..IN_A_ROW {
            match self.kernel.next()? {
                Next::End => break,
                Next::Lost => has_lost = true,
                Next::Record(record) if record.sequence >= self.next => {
                    self.next = record.sequence.saturating_add(1);
                    self.is_saved = false;
                    records.push(record);
                }
                Next::Record(_) => {}
            }
        }
        Ok((records, has_lost))
    }

    /// Stores the position, once the messages of [`Self::read`] are in the log. A failure only means
    /// that a restarted program repeats messages.
    pub(super) fn save(&mut self) {
        if !std::mem::replace(&mut self.is_saved, true)
            && let Some(file) = &self.saved
        {
            // All numbers have the same length, so one write(2) replaces the old one.
            let _ = file.write_all_at(format!("{:020}\n", self.next).as_bytes(), 0);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    /// A stand-in for the file: a read returns one record, or fails if there is none.
    pub(crate) fn stand_in(records: &[&str]) -> (UnixDatagram, Kernel) {
        let (there, here) = UnixDatagram::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        for record in records {
            there.send(record.as_bytes()).unwrap();
        }
        (there, Kernel::of(File::from(OwnedFd::from(here))))
    }

    #[test]
    fn record_of_the_kernel_is_read_with_its_level_time_and_text() {
        let read = |record: &str| Record::parse(record.as_bytes());
        let record =
            read("6,339,5140900,-;usb 1-1: \\xc3\\xa4\\x5c\\x0aend\n SUBSYSTEM=usb\n").unwrap();
        let want = Record {
            sequence: 339,
            level: 6,
            is_of_kernel: true,
            micros: 5_140_900,
            text: "usb 1-1: ä\\#012end".to_string(),
        };
        assert_eq!(record, want);
        assert_eq!(record.stamped(), "[    5.140900] usb 1-1: ä\\#012end");
        assert_eq!(without_stamp("[    5.140900] usb: a"), Some((5_140_900, "usb: a")));
        for other in
            ["", "usb", "[    5] a", "[1.5] a", "[x.140900] a", "[18446744073709551615.000000] a"]
        {
            assert_eq!(without_stamp(other), None, "{other}");
        }
        // Facility 1, user.
        assert!(!read("12,340,1,-,caller=T1;a\\x").unwrap().is_of_kernel);
        for bad in ["", "6,1,1", ";", "6,1;a", "x,1,1,-;a", "6,-1,1,-;a", "\u{e9};"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn restarted_intake_continues_behind_the_last_saved_message() {
        let saved = std::env::temp_dir().join(format!("groundstate-kmsg-{}", std::process::id()));
        let records = ["6,0,1,-;a\n", "broken", "6,1,2,-;b\n"];
        let intake = |records: &[&str]| {
            let (there, kernel) = stand_in(records);
            let mut intake = Intake::new(kernel, Some(saved.clone()));
            let texts: Vec<String> =
                intake.read().unwrap().0.into_iter().map(|record| record.text).collect();
            drop(there);
            (intake, texts)
        };
        // A program that is killed before it saves repeats its messages.
        assert_eq!(intake(&records).1, ["a", "b"]);
        let (mut first, texts) = intake(&records);
        first.save();
        assert_eq!(texts, ["a", "b"]);
        let later = [&records[..], &["6,2,3,-;c\n"]].concat();
        assert_eq!(intake(&later).1, ["c"]);
        fs::write(&saved, "not a number").unwrap();
        assert_eq!(intake(&records).1, ["a", "b"]);
        fs::remove_file(&saved).unwrap();
    }
}

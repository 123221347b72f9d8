//! Messages of the kernel. The unit [`UNIT`] reads them from /dev/kmsg and prints each as a line,
//! which init's logger keeps:
//!
//! ```text
//! <LEVEL>kernel: [SECONDS] TEXT   a message of the kernel
//! <LEVEL>kmsg: [SECONDS] TEXT     a message that a process wrote to /dev/kmsg
//! ```
//!
//! Each read(2) of the file returns one record: `PRIORITY,SEQUENCE,MICROSECONDS,FLAGS;TEXT`, a
//! newline, and lines with fields. The kernel's sources describe it in
//! `Documentation/ABI/testing/dev-kmsg`.

use super::boot_mark::boot_id;
use super::syslog::{Budget, wait};
use groundstate_units::control::log_line::ShownLine;
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat, major, minor};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The unit whose log has the messages.
pub(crate) const UNIT: &str = "kernel-log";
/// The file of the messages.
const FILE: &str = "/dev/kmsg";
/// Major and minor number of [`FILE`].
const DEVICE: (u64, u64) = (1, 11);
/// The size limit of a record: `CONSOLE_EXT_LOG_MAX` of the kernel.
const RECORD: usize = 8 * 1024;
/// The most records that are printed before their position is stored.
const IN_A_ROW: usize = 64;
/// The most messages in the first span of the [`Budget`]. The messages that the kernel keeps from
/// before the start of this program fit.
const FIRST_MESSAGES: u32 = 10_000;

/// The origin of a line that is not output of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A message of syslog(3).
    Syslog,
    /// A message of the kernel.
    Kernel,
    /// A message that a process wrote to /dev/kmsg.
    Kmsg,
}

impl Origin {
    /// The value of [`ShownLine::stream`]. A line of [`UNIT`] begins with it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Origin::Syslog => "syslog",
            Origin::Kernel => "kernel",
            Origin::Kmsg => "kmsg",
        }
    }

    /// Returns the origin of a line, or `None` for output of a unit.
    pub(crate) fn of(line: &ShownLine) -> Option<Origin> {
        let all = [Origin::Syslog, Origin::Kernel, Origin::Kmsg];
        all.into_iter().find(|origin| origin.name() == line.stream)
    }

    /// Splits a line of [`UNIT`] into the origin and the text of [`Record::stamped`]. Returns
    /// `None` for a line of another form, such as an error of the program.
    pub(crate) fn split(line: &str) -> Option<(Origin, &str)> {
        let (name, text) = line.split_once(": ")?;
        let origin = [Origin::Kernel, Origin::Kmsg].into_iter().find(|it| it.name() == name)?;
        Some((origin, text))
    }
}

/// A message of the file.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    /// The number of the message since the boot.
    sequence: u64,
    /// The syslog(3) level.
    level: u8,
    /// True if the kernel wrote the message. A process can write messages to /dev/kmsg, but not
    /// with the kernel's facility.
    is_of_kernel: bool,
    /// The time since the boot, without the time of suspends.
    micros: u64,
    /// The text, with `#012` for each newline.
    text: String,
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

    /// Returns the text with the time in the form of dmesg(1), for example `[    1.234567] text`.
    fn stamped(&self) -> String {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        format!("[{seconds:5}.{micros:06}] {}", self.text)
    }

    fn line(&self) -> String {
        let origin = if self.is_of_kernel { Origin::Kernel } else { Origin::Kmsg };
        format!("<{}>{}: {}\n", self.level, origin.name(), self.stamped())
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

/// Replaces `\xNN`, with which the kernel escapes a byte. A newline becomes `#012`, as in messages
/// of syslog(3).
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
enum Next {
    Record(Record),
    /// The kernel has overwritten messages before this program read them.
    Lost,
    /// The kernel has no further message at present.
    End,
}

/// The open file. Its first message is the oldest that the kernel has.
#[derive(Debug)]
struct Kernel<R = File> {
    file: R,
    record: Vec<u8>,
}

impl Kernel {
    /// Opens the file. Returns `None` if the kernel's messages cannot be read here. That is the
    /// case in a container that has no such file, has another file in its place, or may not read
    /// the messages.
    fn open(path: &Path) -> io::Result<Option<Kernel>> {
        let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) => {
                let kinds = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
                let is_absent = kinds.contains(&error.kind())
                    || error.raw_os_error() == Some(Errno::ENXIO as i32);
                return if is_absent { Ok(None) } else { Err(error) };
            }
        };
        let found = fstat(&file)?;
        let is_device = SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits())
            == SFlag::S_IFCHR
            && (major(found.st_rdev), minor(found.st_rdev)) == DEVICE;
        Ok(is_device.then(|| Kernel::of(file)))
    }
}

impl<R: Read> Kernel<R> {
    fn of(file: R) -> Kernel<R> {
        Kernel { file, record: vec![0; RECORD] }
    }

    /// Returns the next message, without waiting for one.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has an end, which the kernel's file never has.
    fn next(&mut self) -> io::Result<Next> {
        loop {
            let read = match self.file.read(&mut self.record) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
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

/// Reads each message of a boot once, although the reading program may be restarted.
#[derive(Debug)]
struct Intake<R = File> {
    kernel: Kernel<R>,
    boot: String,
    /// The number of the next message.
    next: u64,
    /// Stores the boot and `next`. `None` if the file cannot be opened: then a restarted program
    /// reads all messages again.
    saved: Option<File>,
    is_saved: bool,
}

/// The result of [`Intake::read`].
#[derive(Debug, Default, PartialEq, Eq)]
struct Batch {
    records: Vec<Record>,
    /// The number of messages that the kernel has overwritten before this program read them.
    lost: u64,
}

impl<R: Read> Intake<R> {
    /// `saved` is the file with the position. A position of another boot does not count.
    fn new(kernel: Kernel<R>, boot: String, saved: Option<PathBuf>) -> Intake<R> {
        let text = saved.as_ref().and_then(|path| fs::read_to_string(path).ok());
        let number = |text: &String| text.strip_prefix(&boot)?.trim().parse().ok();
        let next = text.as_ref().and_then(number).unwrap_or(0);
        let open = |path| OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let saved = saved.and_then(|path| open(path).ok());
        Intake { kernel, boot, next, saved, is_saved: true }
    }

    /// Returns the messages that this program has not seen, at most [`IN_A_ROW`].
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    fn read(&mut self) -> io::Result<Batch> {
        let mut batch = Batch::default();
        for _ in 0..IN_A_ROW {
            match self.kernel.next()? {
                Next::End => break,
                // The number of the next message tells how many were lost.
                Next::Lost => {}
                Next::Record(record) if record.sequence >= self.next => {
                    batch.lost = batch.lost.saturating_add(record.sequence - self.next);
                    self.next = record.sequence.saturating_add(1);
                    self.is_saved = false;
                    batch.records.push(record);
                }
                Next::Record(_) => {}
            }
        }
        Ok(batch)
    }

    /// Stores the position, once the messages of [`Self::read`] are in the log. A failure only
    /// means that a restarted program repeats messages.
    fn save(&mut self) {
        if !std::mem::replace(&mut self.is_saved, true)
            && let Some(file) = &self.saved
        {
            // All positions have the same length, so one write(2) replaces the old one.
            let _ = file.write_all_at(format!("{} {:020}\n", self.boot, self.next).as_bytes(), 0);
        }
    }
}

/// Prints the messages of the kernel. Returns only with an error, or if they cannot be read here.
///
/// # Errors
///
/// The file cannot be read, or the log cannot be written.
pub(crate) fn print_messages(log: &mut impl Write) -> io::Result<()> {
    let Some(kernel) = Kernel::open(Path::new(FILE))? else {
        return writeln!(
            log,
            "<5>the messages of the kernel cannot be read here: no readable {FILE}"
        );
    };
    let saved =
        std::env::var_os("RUNTIME_DIRECTORY").map(|dir| PathBuf::from(dir).join("position"));
    print_all(Intake::new(kernel, boot_id()?, saved), log)
}

fn print_all(mut intake: Intake<impl Read + AsFd>, log: &mut impl Write) -> io::Result<()> {
    let mut budget = Budget::new("the kernel", FIRST_MESSAGES);
    loop {
        let batch = intake.read()?;
        if batch.lost > 0 {
            let lost = batch.lost;
            writeln!(log, "<4>{lost} kernel messages lost: overwritten before they were read")?;
        }
        for record in &batch.records {
            if budget.allows(Instant::now(), log)? {
                log.write_all(record.line().as_bytes())?;
            }
        }
        log.flush()?;
        intake.save();
        wait(intake.kernel.file.as_fd(), &mut budget, log)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixDatagram;

    /// A stand-in for the file: a read returns one record, or fails if there is none.
    fn stand_in(records: &[&str]) -> (UnixDatagram, Kernel) {
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
        let intake = |boot: &str, records: &[&str]| {
            let (there, kernel) = stand_in(records);
            let mut intake = Intake::new(kernel, boot.repeat(32), Some(saved.clone()));
            let batch = intake.read().unwrap();
            let texts: Vec<String> = batch.records.into_iter().map(|record| record.text).collect();
            drop(there);
            (intake, texts)
        };
        // A program that is killed before it saves repeats its messages.
        assert_eq!(intake("1", &records).1, ["a", "b"]);
        let (mut first, texts) = intake("1", &records);
        first.save();
        assert_eq!(texts, ["a", "b"]);
        let later = [&records[..], &["6,2,3,-;c\n"]].concat();
        assert_eq!(intake("1", &later).1, ["c"]);
        // A directory that outlives the boot drops no messages.
        assert_eq!(intake("2", &records).1, ["a", "b"]);
        fs::write(&saved, "not a number").unwrap();
        assert_eq!(intake("1", &records).1, ["a", "b"]);
        fs::remove_file(&saved).unwrap();
    }

    /// Returns the results in their order.
    struct Reads(Vec<io::Result<&'static str>>);

    impl Read for Reads {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let text = self.0.remove(0)?;
            text.as_bytes().read(to)
        }
    }

    #[test]
    fn overwritten_messages_are_counted_and_the_reader_continues() {
        let overwritten = || Err(Errno::EPIPE.into());
        let reads =
            vec![Ok("6,0,1,-;a\n"), overwritten(), Ok("6,8,9,-;b\n"), Err(Errno::EAGAIN.into())];
        let mut intake = Intake::new(Kernel::of(Reads(reads)), String::new(), None);
        let batch = intake.read().unwrap();
        assert_eq!((batch.lost, batch.records.len()), (7, 2));
        assert_eq!(Kernel::of(Reads(vec![overwritten()])).next().unwrap(), Next::Lost);
    }

    #[test]
    fn end_of_the_file_is_an_error() {
        let ended = Kernel::of(Reads(vec![Ok("")])).next();
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn file_that_is_not_the_device_of_the_kernel_is_not_read() {
        for path in ["/dev/null", "/proc/self/status", "/no/such/file"] {
            assert!(Kernel::open(Path::new(path)).unwrap().is_none(), "{path}");
        }
    }

    #[test]
    fn messages_of_the_kernel_are_printed_with_their_level_and_time() {
        let (kernel, source) = stand_in(&["4,7,1234567,-;usb 1-1: reset\n SUBSYSTEM=usb\n"]);
        kernel.send(b"12,8,1234568,-;init: hello\n").unwrap();
        // The end of the log ends the program.
        let (mut read, mut log) = io::pipe().unwrap();
        let program = std::thread::spawn(move || {
            print_all(Intake::new(source, String::new(), None), &mut log)
        });
        let mut lines = String::new();
        while lines.lines().count() < 3 {
            let mut bytes = [0; 999];
            let count = read.read(&mut bytes).unwrap();
            lines.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        drop(read);
        kernel.send(b"6,9,1234569,-;end\n").unwrap();
        assert_eq!(program.join().unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let want = "<4>7 kernel messages lost: overwritten before they were read\n\
                    <4>kernel: [    1.234567] usb 1-1: reset\n<4>kmsg: [    1.234568] init: hello\n";
        assert_eq!(lines, want);
    }

    #[test]
    fn process_cannot_write_a_line_of_the_kernel() {
        for text in ["kernel: a", "[    1.000000] kernel: a", "\\x0akernel: [    1.000000] a"] {
            let record = Record::parse(format!("8,1,1,-;{text}\n").as_bytes()).unwrap();
            let line = record.line();
            let line = line.strip_prefix("<0>").unwrap().strip_suffix('\n').unwrap();
            assert!(!line.contains('\n'), "{line}");
            assert!(matches!(Origin::split(line), Some((Origin::Kmsg, _))), "{line}");
        }
        for other in ["dropped 3 messages of the kernel", "kernel-log: a: b", "", "kernel:"] {
            assert_eq!(Origin::split(other), None, "{other}");
        }
    }
}

//! Records of the boot and the shutdown in utmp and wtmp (utmp(5)), which who(1) and last(1) show.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The logins since the boot.
const UTMP: &str = "/run/utmp";
/// All logins and boots.
const WTMP: &str = "/var/log/wtmp";
/// Offsets and lengths of the text fields.
const LINE: usize = 8;
const ID: usize = 40;
const USER: usize = 44;
const HOST: usize = 76;
/// The offset of the session. The time follows the session.
const SESSION: usize = 336;
/// glibc has 32-bit times on x86-64 only (`__WORDSIZE_TIME64_COMPAT32`).
const HAS_32_BIT_TIMES: bool = cfg!(target_arch = "x86_64");
const RECORD: usize = if HAS_32_BIT_TIMES { 384 } else { 400 };

/// The event to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    /// The kernel has booted: BOOT_TIME.
    Boot,
    /// The machine shuts down: RUN_LVL, as sysvinit and systemd write it.
    Shutdown,
}

impl Record {
    /// The bytes of the record with the kernel's release and the time since 1970.
    fn bytes(self, release: &str, at: Duration) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        let (kind, user): (i16, &str) = match self {
            Record::Boot => (2, "reboot"),
            Record::Shutdown => (1, "shutdown"),
        };
        let mut put = |offset: usize, value: &[u8]| {
            bytes.iter_mut().skip(offset).zip(value).for_each(|(to, from)| *to = *from);
        };
        put(0, &kind.to_ne_bytes());
        put(LINE, b"~");
        put(ID, b"~~");
        put(USER, user.as_bytes());
        put(HOST, release.as_bytes().get(..255).unwrap_or(release.as_bytes()));
        if HAS_32_BIT_TIMES {
            put(SESSION + 4, &(at.as_secs() as u32).to_ne_bytes());
            put(SESSION + 8, &at.subsec_micros().to_ne_bytes());
        } else {
            put(SESSION + 8, &at.as_secs().to_ne_bytes());
            put(SESSION + 16, &u64::from(at.subsec_micros()).to_ne_bytes());
        }
        bytes
    }
}

/// Writes the record to the start of utmp, which exists for one boot, and to the end of wtmp. It
/// does not create a missing file, because a machine without the file keeps no such records.
///
/// # Errors
///
/// The path of the first file that could not be written, with the error.
pub(crate) fn write(record: Record) -> Result<(), (&'static str, io::Error)> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let bytes = record.bytes(release.trim(), now.unwrap_or_default());
    let replaced = existing(OpenOptions::new().write(true).open(UTMP))
        .and_then(|file| file.map_or(Ok(()), |file| file.write_all_at(&bytes, 0)));
    let appended = existing(OpenOptions::new().append(true).open(WTMP))
        .and_then(|file| file.map_or(Ok(()), |mut file| file.write_all(&bytes)));
    replaced.map_err(|error| (UTMP, error)).and(appended.map_err(|error| (WTMP, error)))
}

fn existing(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn who_and_utmpdump_read_the_records() {
        let file = std::env::temp_dir().join(format!("groundstate-utmp-{}", std::process::id()));
        let records = [Record::Boot, Record::Shutdown]
            .map(|record| record.bytes("6.1.0-test", Duration::from_secs(1_700_000_000)));
        fs::write(&file, records.concat()).unwrap();
        let run = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).arg(&file).env("TZ", "UTC").env("LC_ALL", "C.UTF-8");
            let output = command.output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        let who = run("who", &["-b"]);
        let dump = run("utmpdump", &[]);
        fs::remove_file(&file).unwrap();
        assert!(who.contains("system boot  2023-11-14 22:13"), "{who}");
        assert!(
            dump.contains("[2] [00000] [~~  ] [reboot  ] [~           ] [6.1.0-test"),
            "{dump}"
        );
        assert!(
            dump.contains("[1] [00000] [~~  ] [shutdown] [~           ] [6.1.0-test"),
            "{dump}"
        );
        assert!(dump.contains("2023-11-14T22:13:20,000000+00:00"), "{dump}");
    }
}

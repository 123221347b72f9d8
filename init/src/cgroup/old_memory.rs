//! Kills for want of memory where memory is a controller of cgroup v1. The kernel counts them in the cgroup of
//! who is killed (`oom_kill` in memory.oom_control; memory.rst of cgroup-v1), and children of init are in
//! init's own unless somebody has put them elsewhere. So all units have one count: it is looked at when
//! a main process has died of a SIGKILL, and has risen since the last look, or it was not the kernel. A
//! kill of another process than a main one raises it too, and would be taken for that of a main process
//! that somebody kills before the next look: nothing else is known. Never polled; other ends cost nothing.

use crate::clock;
use crate::process;
use groundstate_units::time::Time;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Where its hierarchy is mounted.
const MOUNT: &str = "/sys/fs/cgroup/memory";
/// Bytes of the file that are read.
const LENGTH: u64 = 4096;
/// Of several killed at once the last may be reaped so much later than the first.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The count of init's own cgroup.
#[derive(Debug)]
pub(super) struct OldMemory {
    /// None: there is none.
    file: Option<String>,
    seen: u64,
    /// Kills whose process has not been seen to die.
    left: u64,
    /// They are believed until then.
    until: Time,
}

impl Default for OldMemory {
    /// What was killed before this is nobody's.
    fn default() -> OldMemory {
        let own = process::own_memory();
        // In a container the hierarchy often begins with its own cgroup, whatever that is called outside.
        let places = own.iter().flat_map(|own| [own.trim_end_matches('/'), ""]);
        let mut files = places.map(|place| format!("{MOUNT}{place}/memory.oom_control"));
        OldMemory::of(files.find(|file| Path::new(file).exists()))
    }
}

impl OldMemory {
    fn of(file: Option<String>) -> OldMemory {
        let mut memory = OldMemory { file, seen: 0, left: 0, until: Time::ZERO };
        memory.seen = memory.kills().unwrap_or(0);
        memory
    }

    fn kills(&self) -> Option<u64> {
        let (mut text, file) = (String::new(), File::open(self.file.as_ref()?).ok()?);
        file.take(LENGTH).read_to_string(&mut text).ok()?;
        text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// Somebody has died of a SIGKILL: it was the kernel's, as far as can be told.
    pub(super) fn has_killed(&mut self) -> bool {
        if self.file.is_none() {
            return false;
        }
        self.has_killed_at(clock::now())
    }

    fn has_killed_at(&mut self, now: Time) -> bool {
        let kills = self.kills().unwrap_or(self.seen);
        if now >= self.until {
            self.left = 0;
        }
        let more = kills.saturating_sub(self.seen);
        self.seen = kills;
        if more > 0 {
            self.left = self.left.saturating_add(more);
            self.until = now.after(AT_ONCE);
        }
        let is_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_one_process_s_and_not_of_one_who_dies_long_after() {
        let path = std::env::temp_dir().join(format!("gs-oom-control-{}", std::process::id()));
        let count = |kills: u64| {
            let text = format!("oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n");
            std::fs::write(&path, text).unwrap();
        };
        count(3);
        let mut memory = OldMemory::of(path.to_str().map(str::to_string));
        let mut now = clock::now();
        assert!(!memory.has_killed_at(now), "what was before is nobody's");
        count(5);
        assert!(memory.has_killed_at(now) && memory.has_killed_at(now), "two at once");
        assert!(!memory.has_killed_at(now), "the third was somebody's else");
        count(7);
        assert!(memory.has_killed_at(now));
        now = now.after(AT_ONCE);
        assert!(!memory.has_killed_at(now), "the other has died unseen");
        std::fs::remove_file(&path).unwrap();
        assert!(!memory.has_killed_at(now));
        assert!(!OldMemory::of(None).has_killed());
    }
}

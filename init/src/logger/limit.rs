//! Every limit of the logger, and of the data that PID 1 keeps for it.

use std::time::Duration;

/// Descriptors in one message. The kernel's own limit is 253 (SCM_MAX_FD, unix(7)).
pub(crate) const FDS_A_MESSAGE: usize = 64;
/// Size limit of a report of the logger; the longest contains a path.
pub(crate) const REPORT: usize = 8 * 1024;
/// Size limit of a message between PID 1 and the logger.
pub(crate) const MESSAGE: usize = 64 * 1024;
/// Bytes of target names sent with one run; `logs` does not know further targets.
pub(crate) const TARGET_NAMES: usize = 4 * 1024;
/// Orders that PID 1 queues for a logger that does not read; further ones are dropped. Orders with
/// descriptors are not queued: their runs stay in the stash.
pub(crate) const UNSENT: usize = 1024;
/// Time without an answer after which a logger is killed and replaced.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// The first pause before an exited logger is restarted; doubled each time it exits within
/// [`STEADY`] of its start.
pub(crate) const RESTART_DELAY: Duration = Duration::from_millis(10);
/// The longest such pause.
pub(crate) const RESTART_DELAY_MAX: Duration = Duration::from_secs(2);
/// Pause between two reports of lost lines.
pub(crate) const LOST_TOLD: Duration = Duration::from_millis(500);
/// Run time after which a logger counts as stable.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// Bytes of lines that were read and are not in their files yet; they survive the logger.
pub(crate) const STAGE: u64 = 8 * 1024 * 1024;
/// Bytes of one line; longer ones are stored in pieces.
pub(crate) const LINE: usize = 64 * 1024;
/// Bytes of one stored line: time, run, text, newline.
pub(crate) const STORED_LINE: usize = LINE + 64;
/// Bytes read at once from one run before the next run's turn.
pub(crate) const READ: usize = 64 * 1024;
/// Bytes read to drain a run (a pipe holds 64 KiB, or up to 1 MiB if a privileged owner enlarges
/// it, pipe(7)).
pub(crate) const DRAIN: usize = 1024 * 1024;
/// Buffer kept for the unfinished line of a run.
pub(crate) const PARTIAL_KEPT: usize = 1024;
/// Memory of the lazy matcher of one pattern.
pub(crate) const PATTERN_CACHE: usize = 256 * 1024;

/// Bytes of all tails.
pub(crate) const TAILS: usize = 2 * 1024 * 1024;
/// Bytes of one unit's tail with few units.
pub(crate) const TAIL: usize = 64 * 1024;
/// Bytes of one unit's tail with any number of units.
pub(crate) const TAIL_LEAST: usize = 512;
/// Units that the logger remembers.
pub(crate) const UNITS: usize = groundstate_units::limit::UNITS;

/// Bytes queued for one destination (all files, the console …). Runs that fill it are not read
/// until there is room.
pub(crate) const LANE: usize = 512 * 1024;
/// Time without progress after which a full destination counts as stuck: its lines are dropped and
/// counted until it moves again.
pub(crate) const STUCK: Duration = Duration::from_secs(2);
/// Stack size of a writing thread.
pub(crate) const STACK: usize = 128 * 1024;
/// Pause before a pipe with an unfinished line is checked again; it grows each time.
pub(crate) const UNFINISHED_LEAST: Duration = Duration::from_millis(5);
/// The longest pause between two such checks.
pub(crate) const UNFINISHED_MOST: Duration = Duration::from_secs(1);
/// Pause after a failed write or open of a log file.
pub(crate) const FILE_REST: Duration = Duration::from_secs(1);
/// Log files open at once.
pub(crate) const FILES_OPEN: usize = 128;
/// Files beyond `log-keep` removed at one rotation.
pub(crate) const ROTATED_REMOVED: usize = 64;
/// Size limit of a record for /dev/kmsg (the kernel takes 1024 with its prefix, LOG_LINE_MAX).
pub(crate) const KERNEL_RECORD: usize = 900;
/// Size limit of a datagram for /dev/log (RFC 5424 asks receivers to take 2048).
pub(crate) const SYSLOG_RECORD: usize = 2048;
/// When it exits, the logger waits for pending writes until nothing has moved for this long. PID 1
/// limits the total time.
pub(crate) const LAST_WRITES: Duration = Duration::from_secs(2);
/// Open pipes of one unit's ended runs; beyond that, the oldest are closed. Init checks all units
/// whenever it has made this number of pipes.
pub(crate) const PIPES_OF_A_UNIT: usize = 64;

/// Connections to `log.sock`.
pub(crate) const CLIENTS: usize = 64;
/// Of those, reserved for root.
pub(crate) const CLIENTS_FOR_ROOT: usize = 8;
/// Of those, by one uid other than root.
pub(crate) const CLIENTS_OF_A_UID: usize = 16;
/// Connections accepted in one turn of the loop.
pub(crate) const ACCEPTS_A_TURN: usize = 16;
/// Requests of one client handled in one turn of the loop.
pub(crate) const REQUESTS_A_TURN: usize = 16;
/// Pieces of an answer sent to one client, and pieces of its request read, in one turn of the loop.
pub(crate) const STEPS_A_TURN: usize = 64;
/// Time in one turn of the loop for requests of users other than root. At least one request is
/// handled.
pub(crate) const SERVING_A_TURN: Duration = Duration::from_millis(5);
/// Idle time after which a client may be disconnected to make room for another.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Unread bytes of a client before it is disconnected.
pub(crate) const UNREAD: usize = 1024 * 1024;
/// Names in one request.
pub(crate) const QUERY_TARGETS: usize = 1024;
/// Lines of each unit one request may ask for.
pub(crate) const QUERY_LINES: u64 = 1_000_000;
/// Default number of lines of each unit.
pub(crate) const QUERY_DEFAULT: u64 = 10;
/// Bytes of /etc/group that are read.
pub(crate) const GROUP_FILE: u64 = 4 * 1024 * 1024;
/// Rotated files read for one unit.
pub(crate) const HISTORY_FILES: u32 = 64;
/// Units of one request whose files are read; with more, only lines in memory are shown.
pub(crate) const HISTORY_UNITS: usize = 64;
/// Requests that read files at the same time.
pub(crate) const HISTORIES: usize = 8;
/// Of those, reserved for root.
pub(crate) const HISTORIES_FOR_ROOT: usize = 2;
/// Of those, by one uid other than root.
pub(crate) const HISTORIES_OF_A_UID: usize = 2;
/// Bytes read from a file at once.
pub(crate) const HISTORY_BUFFER: usize = 16 * 1024;
/// Pieces of at most [`READ`] bytes read ahead of a client.
pub(crate) const HISTORY_AHEAD: usize = 2;
/// Bytes of new lines kept for a follower whose old lines are still being read.
pub(crate) const HISTORY_LATER: usize = 4 * 1024 * 1024;

//! Every limit of the logger, and of what PID 1 keeps for it.

use std::time::Duration;

/// Descriptors in one message. The kernel's own limit is 253 (SCM_MAX_FD, unix(7)).
pub(crate) const FDS_A_MESSAGE: usize = 64;
/// Bytes of one report of the logger: the longest is about a file, with its path.
pub(crate) const REPORT: usize = 8 * 1024;
/// Bytes of one message between PID 1 and the logger.
pub(crate) const MESSAGE: usize = 64 * 1024;
/// Bytes of target names sent with one run; further targets are not known to `logs`.
pub(crate) const TARGET_NAMES: usize = 4 * 1024;
/// Messages PID 1 keeps for a logger that does not read. Each stands for up to 64 runs or one
/// request; past it requests are refused, runs stay in the stash.
pub(crate) const UNSENT: usize = 1024;
/// A logger that does not answer for this long is killed and replaced.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// The first pause before a logger that ended is started again; doubled each time it ends
/// within [`STEADY`] of its start.
pub(crate) const RESTART_DELAY: Duration = Duration::from_millis(10);
/// The longest such pause.
pub(crate) const RESTART_DELAY_MAX: Duration = Duration::from_secs(2);
/// Between two reports of lines that were lost.
pub(crate) const LOST_TOLD: Duration = Duration::from_millis(500);
/// A logger that ran this long counts as sound.
pub(crate) const STEADY: Duration = Duration::from_secs(10);

/// Bytes of lines that are taken and not yet in their files, kept over the end of a logger.
pub(crate) const STAGE: u64 = 8 * 1024 * 1024;
/// Bytes of one line; longer ones are stored in pieces.
pub(crate) const LINE: usize = 64 * 1024;
/// Bytes of one stored line: time, run, text, newline.
pub(crate) const STORED_LINE: usize = LINE + 64;
/// Bytes read at once, from one run; then it is the next run's turn.
pub(crate) const READ: usize = 64 * 1024;
/// Bytes read to answer one request to drain a run (a pipe holds 64 KiB, a privileged owner
/// may make it 1 MiB, pipe(7)).
pub(crate) const DRAIN: usize = 1024 * 1024;
/// Room kept for the unfinished line of one run once it is finished.
pub(crate) const PARTIAL_KEPT: usize = 1024;
/// Bytes a lazy matcher may use for one pattern while it looks.
pub(crate) const PATTERN_CACHE: usize = 256 * 1024;

/// Bytes of all tails together.
pub(crate) const TAILS: usize = 2 * 1024 * 1024;
/// Bytes of one unit's tail when there are few units.
pub(crate) const TAIL: usize = 64 * 1024;
/// Bytes of one unit's tail however many units there are.
pub(crate) const TAIL_LEAST: usize = 512;
/// Units the logger remembers.
pub(crate) const UNITS: usize = groundstate_units::limit::UNITS;

/// Bytes waiting for one place of output (all files, the console …). What fills it is not
/// read further until there is room.
pub(crate) const LANE: usize = 512 * 1024;
/// A full place of output that takes nothing for this long is stuck: lines for it are
/// dropped and counted until it moves again.
pub(crate) const STUCK: Duration = Duration::from_secs(2);
/// Bytes of stack of a thread that writes.
pub(crate) const STACK: usize = 128 * 1024;
/// A pipe that keeps an unfinished line is looked at again after this long, and then less and less often.
pub(crate) const UNFINISHED_LEAST: Duration = Duration::from_millis(5);
/// The longest pause between two such looks.
pub(crate) const UNFINISHED_MOST: Duration = Duration::from_secs(1);
/// After a failed write or open, a log file is left alone this long.
pub(crate) const FILE_REST: Duration = Duration::from_secs(1);
/// Log files open at once.
pub(crate) const FILES_OPEN: usize = 128;
/// Files beyond `log-keep` removed at one rotation.
pub(crate) const ROTATED_REMOVED: usize = 64;
/// Bytes of one record of /dev/kmsg (the kernel takes 1024 with its prefix, LOG_LINE_MAX).
pub(crate) const KERNEL_RECORD: usize = 900;
/// Bytes of one datagram to /dev/log (RFC 5424 asks receivers to take 2048).
pub(crate) const SYSLOG_RECORD: usize = 2048;
/// When the logger ends it waits for what is still to be written, unless nothing moved for
/// this long. (How long it may take in all is PID 1's to say.)
pub(crate) const LAST_WRITES: Duration = Duration::from_secs(2);
/// Pipes of one unit's runs that somebody has open; with more the oldest are closed, and as often as so many
/// are made it is looked whether there are.
pub(crate) const PIPES_OF_A_UNIT: usize = 64;

/// Connections to `log.sock`.
pub(crate) const CLIENTS: usize = 64;
/// Of those, kept for root.
pub(crate) const CLIENTS_FOR_ROOT: usize = 8;
/// Of those, by one uid other than root.
pub(crate) const CLIENTS_OF_A_UID: usize = 16;
/// Connections accepted in one turn of the loop.
pub(crate) const ACCEPTS_A_TURN: usize = 16;
/// Requests of one client served in one turn of the loop.
pub(crate) const REQUESTS_A_TURN: usize = 16;
/// Pieces of an answer given to one client in one turn of the loop, and pieces of its request taken.
pub(crate) const STEPS_A_TURN: usize = 64;
/// Time in one turn of the loop for requests of users other than root; at least one is served.
pub(crate) const SERVING_A_TURN: Duration = Duration::from_millis(5);
/// A client that asks nothing, or takes nothing of its answer, for this long makes room for another.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a client may leave unread before it is disconnected.
pub(crate) const UNREAD: usize = 1024 * 1024;
/// Names in one request.
pub(crate) const QUERY_TARGETS: usize = 1024;
/// Lines of each unit one request may ask for.
pub(crate) const QUERY_LINES: u64 = 1_000_000;
/// Lines of each unit where the request does not say.
pub(crate) const QUERY_DEFAULT: u64 = 10;
/// Bytes of /etc/group that are read.
pub(crate) const GROUP_FILE: u64 = 4 * 1024 * 1024;
/// Rotated files looked at for one unit.
pub(crate) const HISTORY_FILES: u32 = 64;
/// Units of one request whose files are read; with more, only what is in memory is shown.
pub(crate) const HISTORY_UNITS: usize = 64;
/// Requests that read files at once.
pub(crate) const HISTORIES: usize = 8;
/// Of those, kept for root.
pub(crate) const HISTORIES_FOR_ROOT: usize = 2;
/// Of those, by one uid other than root.
pub(crate) const HISTORIES_OF_A_UID: usize = 2;
/// Bytes read from a file at once.
pub(crate) const HISTORY_BUFFER: usize = 16 * 1024;
/// Pieces of at most [`READ`] bytes read ahead of a client.
pub(crate) const HISTORY_AHEAD: usize = 2;
/// Bytes of new lines kept for a follower whose old ones are still being read.
pub(crate) const HISTORY_LATER: usize = 4 * 1024 * 1024;

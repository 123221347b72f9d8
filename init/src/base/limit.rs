//! The limits of PID 1 at run time. Limits of the contents of units are in
//! `groundstate_units::limit`.

use std::time::Duration;

/// A pause between two attempts. Unit tests make as many attempts with a tenth of the pause.
const fn paced(pause: Duration) -> Duration {
    match pause.checked_div(10) {
        Some(tenth) if cfg!(test) => tenth,
        _ => pause,
    }
}

/// Simultaneous connections to the control socket.
pub(crate) const CLIENTS: usize = 256;
/// Of those, by one uid other than root.
pub(crate) const CLIENTS_OF_A_UID: usize = 16;
/// Of those, reserved for root.
pub(crate) const CLIENTS_FOR_ROOT: usize = 8;
/// Requests of one client handled in one turn of the loop.
pub(crate) const REQUESTS_A_TURN: usize = 16;
/// Time in one turn of the loop for requests of users other than root. At least one request is
/// handled.
pub(crate) const SERVING_A_TURN: Duration = Duration::from_millis(5);
/// Backlog of `log.sock`.
pub(crate) const LOG_BACKLOG: i32 = 64;
/// Connections accepted in one turn of the loop.
pub(crate) const ACCEPTS_A_TURN: usize = 64;
/// Unread bytes of a client before it is disconnected. One answer may be longer.
pub(crate) const UNREAD: usize = 1024 * 1024;
/// Unread bytes that a client following the events may always have, however much others leave
/// unread.
pub(crate) const UNREAD_OF_A_FOLLOWER: usize = 64 * 1024;
/// Unread bytes of all clients of one uid other than root. Above it, init reads no more requests of
/// that uid.
pub(crate) const UNREAD_OF_A_UID: usize = 4 * UNREAD;
/// Unread bytes of all clients other than root. Above it, init reads no more requests of theirs.
pub(crate) const UNREAD_OF_OTHERS: usize = 32 * UNREAD;
/// After this much was unread at once, init returns the memory to the kernel when all of it has
/// been read.
pub(crate) const MUCH_UNREAD: usize = 128 * 1024;
/// After this many simultaneous clients, init returns their memory to the kernel when half of them
/// have gone.
pub(crate) const CROWD: usize = 16;
/// Time limit for a partial request line and for an unread answer.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Replaced listening sockets on which clients may still be waiting.
pub(crate) const FORMER_LISTENERS: usize = 4;
/// Pause of accepting when no file descriptor is left.
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(250);
/// Datagrams of the notify socket read in one turn.
pub(crate) const NOTIFICATIONS_A_TURN: usize = 1024;
/// Datagrams of the notify socket read in a second, after a burst of the same size. Each costs init
/// some 20 µs, so a flood takes a fifth of a processor. Its sender then waits for room in the queue
/// like all others.
pub(crate) const NOTIFICATIONS_A_SECOND: u32 = 8192;
/// Pause in reading the notify socket once the rate is used up.
pub(crate) const NOTIFY_REST: Duration = Duration::from_millis(10);
/// Starts between two reads of the notify socket in a burst of starts.
pub(crate) const STARTS_BETWEEN_FETCHES: usize = 4;
/// Bytes of one datagram; longer ones are dropped.
pub(crate) const NOTIFICATION: usize = crate::sys::inbox::MESSAGE_ROOM;
/// Bytes of a STATUS= text that are kept.
pub(crate) const STATUS_TEXT: usize = 1024;
/// Inotify events of cgroups read in one turn: the kernel's default queue size.
pub(crate) const WATCHES_READ_A_TURN: usize = 128;
/// Pause between two checks of cgroups that cannot be watched.
pub(crate) const CGROUP_PAUSE: Duration = Duration::from_millis(100);
/// Starts that wait for one commit. Prepared starts hold descriptors, and each clone copies the
/// descriptor table.
pub(crate) const STARTS_A_COMMIT: usize = 16;
/// Effects that wait for one commit. Each commit writes all exits that are not handled yet, so a
/// small number makes the stop of many services slow.
pub(crate) const EFFECTS_A_COMMIT: usize = 256;
/// Pause between two checks of a child that was adopted after a crash and has not executed yet.
pub(crate) const ADOPTED_LOOK: Duration = Duration::from_millis(20);
/// Children reaped in one turn.
pub(crate) const REAPS_A_TURN: usize = 1024;
/// Lines of the event log kept in memory.
pub(crate) const EVENTS: usize = 4096;
/// Time limit of a load.
pub(crate) const LOADER: Duration = Duration::from_secs(30);
/// The loader is killed if it starts no further unit file for this long while it reads one.
pub(crate) const LOADER_FILE: Duration = Duration::from_secs(8);
/// Retries of a load without the files that broke it.
pub(crate) const LOADER_ROUNDS: u8 = 16;
/// Time limit of a load of a source by its owner.
pub(crate) const LOADER_SOURCE: Duration = Duration::from_secs(12);
/// Remaining time of a load by another user once root asks for one.
pub(crate) const LOADER_GIVES_WAY: Duration = Duration::from_secs(1);
/// Pause before a source that took too long may be loaded again; doubles each time.
pub(crate) const SOURCE_PAUSE: Duration = Duration::from_secs(10);
/// The longest pause of a source.
pub(crate) const SOURCE_PAUSE_LONGEST: Duration = Duration::from_secs(640);
/// Time that init waits for a killed loader to exit.
pub(crate) const LOADER_DYING: Duration = Duration::from_secs(2);
/// Killed loaders that have not exited; with this many, no load is started.
pub(crate) const LOADERS_LEFT: usize = 8;
/// Attempts of the first load.
pub(crate) const BOOT_LOADS: u8 = 5;
/// Immediate attempts for a resource that init needs at startup.
pub(crate) const ASKED_AT_ONCE: u32 = 3;
/// The first pause of later attempts after a transient error; doubles each time.
pub(crate) const RETRY_PAUSE: Duration = paced(Duration::from_millis(1));
/// The longest pause of these attempts.
pub(crate) const RETRY_PAUSE_LONGEST: Duration = paced(Duration::from_millis(512));
/// Address space of the loader, in bytes.
pub(crate) const LOADER_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// Threads in which the loader reads unit files.
pub(crate) const LOADER_THREADS: usize = 4;
/// CPU seconds of the loader.
pub(crate) const LOADER_CPU: u64 = 60;
/// Time that the exit of a starting run with `ready-grep` waits for the last lines.
pub(crate) const LAST_LINES: Duration = Duration::from_millis(100);
/// Bytes of a pid file that are read.
pub(crate) const PID_FILE: usize = 32;
/// Time limit for reading a pid file.
pub(crate) const PID_FILE_ANSWER: Duration = Duration::from_secs(5);
/// Time after the launcher's exit in which a pid file may appear.
pub(crate) const PID_FILE_WAIT: Duration = Duration::from_millis(100);
/// Burst of init's own log lines.
pub(crate) const LINES_AT_ONCE: u32 = 256;
/// Time limit for writing the last log lines when init ends.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
/// Init's own log lines per second after the burst.
pub(crate) const LINES_A_SECOND: u32 = 32;
/// The final unmount ends when nothing has changed for this long.
pub(crate) const FINAL_STILL: Duration = Duration::from_secs(20);
/// Time limit of the final sync, which may have much data to write. After this time the unmounts
/// start, and the sync continues beside them.
pub(crate) const FINAL_SYNC_LONGEST: Duration = Duration::from_secs(90);
/// Time limit of the child that syncs and unmounts.
pub(crate) const FINAL_LONGEST: Duration = Duration::from_secs(150);
/// After this time the child that syncs and unmounts waits no longer, even if something still
/// changes. Each remaining step then has [`UNMOUNT_LEAST`], except the forced remount. Up to seven
/// steps may be left.
pub(crate) const UNMOUNT_LONGEST: Duration = Duration::from_secs(130);
/// Time that a step of the unmount waits for one file system, swap space or device.
pub(crate) const UNMOUNT_ONE: Duration = Duration::from_secs(5);
/// Time after which a file system, swap space or device that is still being released gives up its
/// slot to another one.
pub(crate) const UNMOUNT_LEAST: Duration = Duration::from_secs(1);
const _: () = {
    let last = FINAL_LONGEST.as_secs() - UNMOUNT_LONGEST.as_secs();
    assert!(7 * UNMOUNT_LEAST.as_secs() + UNMOUNT_ONE.as_secs() < last);
    assert!(FINAL_SYNC_LONGEST.as_secs() + 7 * UNMOUNT_ONE.as_secs() < UNMOUNT_LONGEST.as_secs());
};
/// Pause between two checks of the unmounting children.
pub(crate) const UNMOUNT_PAUSE: Duration = paced(Duration::from_millis(5));
/// File systems handled in parallel.
pub(crate) const UNMOUNT_AT_ONCE: usize = 256;
/// Size limit of the copy of this program in memory, made when its file is gone.
pub(crate) const IMAGE: u64 = 64 * 1024 * 1024;
/// Time limit of that copy.
pub(crate) const IMAGE_COPY: Duration = Duration::from_secs(5);
/// A boot of this age counts as slow: init shows its progress from then on.
pub(crate) const SLOW_BOOT: Duration = Duration::from_secs(10);
/// Pause between two lists of the units that block a shutdown.
pub(crate) const BLOCKERS: Duration = Duration::from_secs(5);
/// Units named in one list.
pub(crate) const BLOCKERS_NAMED: usize = 8;
/// A second request by key within this time counts as the same one.
pub(crate) const ASKED_AGAIN: Duration = Duration::from_secs(2);
/// Default shutdown timeout on a machine.
pub(crate) const SHUTDOWN_MACHINE: Duration = Duration::from_secs(90);
/// Default shutdown timeout elsewhere.
pub(crate) const SHUTDOWN_CONTAINER: Duration = Duration::from_secs(9);
/// Extra time for the child that kills the remaining processes, beyond the grace period.
pub(crate) const KILL_REST: Duration = Duration::from_secs(2);
/// Time limit of a vsock connection to the outer manager.
pub(crate) const OUTER: Duration = Duration::from_secs(1);
/// Messages queued for the outer manager.
pub(crate) const OUTER_WAITING: usize = 16;
/// Pause between two attempts to send one.
pub(crate) const OUTER_PAUSE: Duration = Duration::from_millis(10);
/// Init's stack limit in bytes: the kernel's default.
pub(crate) const STACK: u64 = 8 * 1024 * 1024;
/// Init's limit of open files.
pub(crate) const OPEN_FILES: u64 = 65_536;
/// Reads of one ready-fd in one turn, of a KiB each.
pub(crate) const READY_READS_A_TURN: usize = 16;
/// The longest pause between two looks for a pid file.
pub(crate) const PID_FILE_PAUSE: Duration = Duration::from_millis(100);
/// Time for the logger to write its remaining output at the end.
pub(crate) const LOGGER_FINISH: Duration = Duration::from_secs(3);
/// Pause between two emergency shells.
pub(crate) const SHELL_PAUSE: Duration = paced(Duration::from_secs(1));
/// Descriptors of one client that wait for their request line.
pub(crate) const DESCRIPTORS: usize = 4;
/// Queued loads.
pub(crate) const LOADS_WAITING: usize = 64;
/// Of those, by one uid other than root.
pub(crate) const LOADS_OF_A_UID: usize = 16;
/// Of those, reserved for root.
pub(crate) const LOADS_FOR_ROOT: usize = 8;
/// Unanswered requests of one client; further ones are not read.
pub(crate) const REQUESTS_PENDING: usize = 64;
/// Children that close descriptors received from other processes; each may block for ever. It is
/// also the number of descriptors accepted with one message.
pub(crate) const CLOSERS: usize = 64;
/// Received descriptors waiting to be closed; with this many, none are accepted.
pub(crate) const DESCRIPTORS_LEFT: usize = 1024;
/// Descriptors of all socket units. Each clone of PID 1 copies the descriptor table.
pub(crate) const SOCKETS: usize = 1024;
/// Time that a child that opens or removes socket paths waits for earlier children with the same
/// paths.
pub(crate) const OPENER_PATIENCE: Duration = Duration::from_secs(10);
/// Stored descriptors of all units. Each clone of PID 1 copies the descriptor table.
pub(crate) const STORED: usize = 1024;
/// Bytes of the name of a stored descriptor.
pub(crate) const FD_NAME: usize = 255;
/// Bytes of all names of one unit's stored descriptors, separators included.
pub(crate) const STORED_NAMES: usize = 64 * 1024;
/// Bytes of LISTEN_FDNAMES: the limit of execve(2) for one variable (MAX_ARG_STRLEN) minus its
/// name.
pub(crate) const LISTEN_NAMES: usize = 128 * 1024 - 16;
/// Stored descriptors with a closed peer that are handled at a time.
pub(crate) const ENDS_AT_A_TIME: usize = 64;
/// Accepted connections of all sockets that wait for the start of their unit.
pub(crate) const CONNECTIONS_HELD: usize = 256;
/// Pause before an exited lookout is replaced; doubles each time.
pub(crate) const LOOKOUT_DELAY: Duration = Duration::from_millis(100);
/// The longest delay before the next lookout.
pub(crate) const LOOKOUT_DELAY_MAX: Duration = Duration::from_secs(60);
/// The running time of a lookout after which the delay is the first one again.
pub(crate) const LOOKOUT_STEADY: Duration = Duration::from_secs(60);
/// Reports of one lookout handled in one turn.
pub(crate) const REPORTS_A_TURN: usize = 256;
/// Orders queued for a lookout; one with more is replaced.
pub(crate) const LOOKOUT_UNSENT: usize = 16_384;
/// Immediate repeats of a look at a path that changes while its watches are set up. After that the
/// path is polled.
pub(crate) const LOOKS_IN_A_ROW: usize = 64;
/// Dismissed lookouts of timers and paths that have not exited.
pub(crate) const LOOKOUTS: usize = 16;
/// Lookouts of paths that may block, including dismissed ones that have not exited.
pub(crate) const LOOKOUTS_APART: usize = 16;
/// Paths without an answer for this long are reported.
pub(crate) const PATHS_ANSWER: Duration = Duration::from_secs(10);
/// Pause between two looks at paths that cannot be watched.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Children without an exec result before init checks the oldest ones.
pub(crate) const CHILDREN_UNKNOWN: usize = 16;
/// Of those, checked for each new child.
pub(crate) const CHILDREN_LOOKED_AT: usize = 4;
/// Children without an exec result that init checks in each turn. It learns the result of others
/// from the poll or at their exit.
pub(crate) const CHILDREN_UNKNOWN_MOST: usize = 4096;
/// Time for a new binary to confirm that it can read the state.
pub(crate) const UPGRADE_TRIAL: Duration = Duration::from_secs(10);
/// Depth to which an old initramfs is emptied.
pub(crate) const DEPTH_OF_OLD_ROOT: usize = 256;
/// Bytes of the error message of a new binary.
pub(crate) const UPGRADE_REASON: usize = 1024;
/// Time that the previous binary is kept as the fallback.
pub(crate) const UPGRADE_PROBATION: Duration = Duration::from_secs(60);
/// An image that has run this long has not crashed at startup.
pub(crate) const STEADY: Duration = Duration::from_millis(250);
/// Crashes in a row that init recovers from. After the next one it becomes a caretaker.
pub(crate) const CRASHES_IN_A_ROW: u32 = 3;
/// Pause before a watchdog device that could not be opened is retried.
pub(crate) const WATCHDOG_AGAIN: Duration = Duration::from_millis(250);
/// Log ids of helper pipes reserved for each image.
pub(crate) const HELPER_LOG_IDS_OF_AN_IMAGE: u64 = 1 << 32;

//! Every limit of the running of PID 1 in one place. Limits of what a unit may say
//! are in `groundstate_units::limit`.

use std::time::Duration;

/// A pause between two tries. The tests beside the code make as many, each a tenth as long.
const fn paced(pause: Duration) -> Duration {
    match pause.checked_div(10) {
        Some(tenth) if cfg!(test) => tenth,
        _ => pause,
    }
}

/// Connections to the control socket at once.
pub(crate) const CLIENTS: usize = 256;
/// Of those, by one uid other than root.
pub(crate) const CLIENTS_OF_A_UID: usize = 16;
/// Of those, kept for root.
pub(crate) const CLIENTS_FOR_ROOT: usize = 8;
/// Requests of one client served in one turn of the loop.
pub(crate) const REQUESTS_A_TURN: usize = 16;
/// Time in one turn of the loop for requests of users other than root; at least one is served.
pub(crate) const SERVING_A_TURN: Duration = Duration::from_millis(5);
/// Connections to `log.sock` that wait to be accepted.
pub(crate) const LOG_BACKLOG: i32 = 64;
/// Connections accepted in one turn of the loop.
pub(crate) const ACCEPTS_A_TURN: usize = 64;
/// Bytes a client may leave unread before it is disconnected (one answer may be longer).
pub(crate) const UNREAD: usize = 1024 * 1024;
/// Bytes that who follows the events may leave unread however much others do.
pub(crate) const UNREAD_OF_A_FOLLOWER: usize = 64 * 1024;
/// Bytes that all clients of one uid other than root may leave unread before one of them is served …
pub(crate) const UNREAD_OF_A_UID: usize = 4 * UNREAD;
/// … and all clients of all of these.
pub(crate) const UNREAD_OF_OTHERS: usize = 32 * UNREAD;
/// Where that much was unread at once, what it took is given back when all of it has been read.
pub(crate) const MUCH_UNREAD: usize = 128 * 1024;
/// So many clients at once are a crowd: what they took is given back when half of them have gone.
pub(crate) const CROWD: usize = 16;
/// A begun line that does not end, and an answer that is not read, are given up after this.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(10);
/// Listening sockets that were replaced and may still have somebody waiting at them.
pub(crate) const FORMER_LISTENERS: usize = 4;
/// Accepting rests this long when there is no file descriptor left.
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(250);
/// Datagrams of the notify socket read in one turn.
pub(crate) const NOTIFICATIONS_A_TURN: usize = 1024;
/// … and in a second, once as many were read at once. Each costs init some 20 µs: who floods has a fifth of a
/// processor of it, and then waits for room in the socket's queue, in line with all others.
pub(crate) const NOTIFICATIONS_A_SECOND: u32 = 8192;
/// Then the socket is not read for so long.
pub(crate) const NOTIFY_REST: Duration = Duration::from_millis(10);
/// In a burst of starts the notify socket is read each time after as many.
pub(crate) const STARTS_BETWEEN_FETCHES: usize = 4;
/// Bytes of one datagram; longer ones are dropped.
pub(crate) const NOTIFICATION: usize = crate::sys::inbox_layout::MESSAGE_ROOM;
/// Bytes of a STATUS= text that are kept.
pub(crate) const STATUS_TEXT: usize = 1024;
/// Reads of what the kernel tells of cgroups in one turn: all that its queue holds by default.
pub(crate) const WATCHES_READ_A_TURN: usize = 128;
/// Between two looks at cgroups that are waited for and can not be watched.
pub(crate) const CGROUP_PAUSE: Duration = Duration::from_millis(100);
/// Effects that wait at most for the commit after which they are carried out; a commit costs less than one
/// start.
pub(crate) const EFFECTS_A_COMMIT: usize = 16;
/// Between two looks at a child that was adopted after a crash and has not become its program.
pub(crate) const ADOPTED_LOOK: Duration = Duration::from_millis(20);
/// Children reaped in one turn.
pub(crate) const REAPS_A_TURN: usize = 1024;
/// Lines of the event log kept in memory.
pub(crate) const EVENTS: usize = 4096;
/// The loader has this long.
pub(crate) const LOADER: Duration = Duration::from_secs(30);
/// The loader is ended when it has started and finished no unit file for this long.
pub(crate) const LOADER_FILE: Duration = Duration::from_secs(8);
/// Loads that are repeated without the files that ended the loader.
pub(crate) const LOADER_ROUNDS: u8 = 16;
/// A load of a source by its owner has this long.
pub(crate) const LOADER_SOURCE: Duration = Duration::from_secs(12);
/// A load by another user than root has this long at most once root asks for one.
pub(crate) const LOADER_GIVES_WAY: Duration = Duration::from_secs(1);
/// A source that took too long to load is not loaded again sooner, and twice as long each time …
pub(crate) const SOURCE_PAUSE: Duration = Duration::from_secs(10);
/// … up to this.
pub(crate) const SOURCE_PAUSE_LONGEST: Duration = Duration::from_secs(640);
/// Killed then, it is not waited for any longer than this.
pub(crate) const LOADER_DYING: Duration = Duration::from_secs(2);
/// Loaders that not even a kill has ended, before there is no other load.
pub(crate) const LOADERS_LEFT: usize = 8;
/// A first load that brought nothing is done again so often.
pub(crate) const BOOT_LOADS: u8 = 5;
/// What init can not do without is asked for so often at once as it begins …
pub(crate) const ASKED_AT_ONCE: u32 = 3;
/// … and where the want may pass, again after this, and twice as long each time …
pub(crate) const INSISTENCE_PAUSE: Duration = paced(Duration::from_millis(1));
/// … up to this.
pub(crate) const INSISTENCE_LONGEST: Duration = paced(Duration::from_millis(512));
/// Memory the loader may use, bytes of address space.
pub(crate) const LOADER_MEMORY: u64 = 2 * 1024 * 1024 * 1024;
/// CPU seconds the loader may use.
pub(crate) const LOADER_CPU: u64 = 60;
/// An exit of a starting run with `ready-grep` waits this long for its last lines.
pub(crate) const LAST_LINES: Duration = Duration::from_millis(100);
/// Bytes of a pid file that are looked at.
pub(crate) const PID_FILE: usize = 32;
/// How long the file system of a pid file may take to answer.
pub(crate) const PID_FILE_ANSWER: Duration = Duration::from_secs(5);
/// How long a background-pidfile's file may come after its launcher's exit.
pub(crate) const PID_FILE_WAIT: Duration = Duration::from_millis(100);
/// Lines init says at once, before it is held back.
pub(crate) const LINES_AT_ONCE: u32 = 256;
/// Who writes what init says has this long for the last of it, as init ends.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(200);
/// Lines init says per second when held back.
pub(crate) const LINES_A_SECOND: u32 = 32;
/// At the end nothing is waited for in which nothing has moved for so long.
pub(crate) const FINAL_STILL: Duration = Duration::from_secs(20);
/// The sync has this long before the unmounts begin beside it: what is still to be written may be much.
pub(crate) const FINAL_SYNC_LONGEST: Duration = Duration::from_secs(90);
/// The child that syncs and unmounts has this long.
pub(crate) const FINAL_LONGEST: Duration = Duration::from_secs(150);
/// It waits for so long as long as anything moves. After that each step has [`UNMOUNT_LEAST`], but for the one by force:
/// as it may be that all but the first are to come, that is seven of them at most.
pub(crate) const UNMOUNT_LONGEST: Duration = Duration::from_secs(130);
/// One file system, swap space or device has this long before others go on without it …
pub(crate) const UNMOUNT_ONE: Duration = Duration::from_secs(5);
/// … and this long before others are begun in its place.
pub(crate) const UNMOUNT_LEAST: Duration = Duration::from_secs(1);
const _: () = {
    let last = FINAL_LONGEST.as_secs() - UNMOUNT_LONGEST.as_secs();
    assert!(7 * UNMOUNT_LEAST.as_secs() + UNMOUNT_ONE.as_secs() < last);
    assert!(FINAL_SYNC_LONGEST.as_secs() + 7 * UNMOUNT_ONE.as_secs() < UNMOUNT_LONGEST.as_secs());
};
/// Between two looks at who does that.
pub(crate) const UNMOUNT_PAUSE: Duration = paced(Duration::from_millis(5));
/// File systems that are asked, or taken away, at one time.
pub(crate) const UNMOUNT_AT_ONCE: usize = 256;
/// Bytes of this program, copied to memory when its file is gone.
pub(crate) const IMAGE: u64 = 64 * 1024 * 1024;
/// The copy has this long.
pub(crate) const IMAGE_COPY: Duration = Duration::from_secs(5);
/// Between two lists of what an end waits for.
pub(crate) const BLOCKERS: Duration = Duration::from_secs(5);
/// Units named in one list.
pub(crate) const BLOCKERS_NAMED: usize = 8;
/// A second request by key that comes sooner after the first is the same one.
pub(crate) const ASKED_AGAIN: Duration = Duration::from_secs(2);
/// The deadline of a shutdown on a machine, where the settings name none.
pub(crate) const SHUTDOWN_MACHINE: Duration = Duration::from_secs(90);
/// The deadline of a shutdown elsewhere, where the settings name none.
pub(crate) const SHUTDOWN_CONTAINER: Duration = Duration::from_secs(9);
/// Who ends what is left has this long beyond the patience it shows.
pub(crate) const KILL_REST: Duration = Duration::from_secs(2);
/// What is said to an outer manager over vsock waits this long for its connection.
pub(crate) const OUTER: Duration = Duration::from_secs(1);
/// Messages that wait so.
pub(crate) const OUTER_WAITING: usize = 16;
/// Between two tries to send one.
pub(crate) const OUTER_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of stack init asks for itself: what the kernel gives by default.
pub(crate) const STACK: u64 = 8 * 1024 * 1024;
/// File descriptors init asks for itself.
pub(crate) const OPEN_FILES: u64 = 65_536;
/// Reads of one ready-fd in one turn, of a KiB each.
pub(crate) const READY_READS_A_TURN: usize = 16;
/// The longest pause between two looks for a pid file.
pub(crate) const PID_FILE_PAUSE: Duration = Duration::from_millis(100);
/// The logger has this long to write what it has, at the end.
pub(crate) const LOGGER_FINISH: Duration = Duration::from_secs(3);
/// Between two emergency shells.
pub(crate) const SHELL_PAUSE: Duration = paced(Duration::from_secs(1));
/// Descriptors of one client that wait for the line they came with.
pub(crate) const DESCRIPTORS: usize = 4;
/// Loads that wait for the one under way.
pub(crate) const LOADS_WAITING: usize = 64;
/// Of those, asked for by one uid other than root.
pub(crate) const LOADS_OF_A_UID: usize = 16;
/// Of those, kept for root.
pub(crate) const LOADS_FOR_ROOT: usize = 8;
/// Requests of one client that wait for an answer; more are not read before.
pub(crate) const REQUESTS_PENDING: usize = 64;
/// Bytes of a page of memory; the unit of /proc/PID/statm on the machines init is built for.
pub(crate) const PAGE: u64 = 4096;
/// Children that close descriptors which others have passed; each may wait for ever. With one
/// message as many descriptors are taken as there can be more of them.
pub(crate) const CLOSERS: usize = 64;
/// Such descriptors that children have been given, or wait for one; with more none are taken.
pub(crate) const DESCRIPTORS_LEFT: usize = 1024;
/// Descriptors of all socket units together: each clone of PID 1 copies the table they are in.
pub(crate) const SOCKETS: usize = 1024;
/// So long who opens sockets, or removes their paths, waits for who had to do with the same before it.
pub(crate) const OPENER_PATIENCE: Duration = Duration::from_secs(10);
/// Descriptors kept for all units together: each clone of PID 1 copies the table they are in.
pub(crate) const STORED: usize = 1024;
/// Bytes of the name of one.
pub(crate) const FD_NAME: usize = 255;
/// Bytes of the names of those of one unit, each with what parts it from the next.
pub(crate) const STORED_NAMES: usize = 64 * 1024;
/// Bytes of LISTEN_FDNAMES: what execve(2) takes of one variable (MAX_ARG_STRLEN), less its name.
pub(crate) const LISTEN_NAMES: usize = 128 * 1024 - 16;
/// Ends of stored descriptors heard of at a time.
pub(crate) const ENDS_AT_A_TIME: usize = 64;
/// Accepted connections that wait until their unit is started, of all sockets together.
pub(crate) const CONNECTIONS_HELD: usize = 256;
/// The pause before a lookout that has ended is replaced; twice as long each time …
pub(crate) const LOOKOUT_DELAY: Duration = Duration::from_millis(100);
/// … up to this …
pub(crate) const LOOKOUT_DELAY_MAX: Duration = Duration::from_secs(60);
/// … until one has lived this long.
pub(crate) const LOOKOUT_STEADY: Duration = Duration::from_secs(60);
/// Reports of one lookout heard in one turn.
pub(crate) const REPORTS_A_TURN: usize = 256;
/// Orders that wait until a lookout takes them; one that lets more wait is replaced.
pub(crate) const LOOKOUT_UNSENT: usize = 16_384;
/// How often in a row a path is looked at that changes while its watches are being set; then it is
/// looked at from time to time.
pub(crate) const LOOKS_IN_A_ROW: usize = 64;
/// Lookouts of timers and paths that are not needed any more and have not ended.
pub(crate) const LOOKOUTS: usize = 16;
/// Lookouts of paths at which a look may block, with those that are not needed any more and have not ended.
pub(crate) const LOOKOUTS_APART: usize = 16;
/// Paths that have not answered for this long are said not to.
pub(crate) const PATHS_ANSWER: Duration = Duration::from_secs(10);
/// Between two looks at paths that can not be watched.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Children not yet known to have become their programs, before one is looked after.
pub(crate) const CHILDREN_UNKNOWN: usize = 16;
/// Of those, looked at for each that is added.
pub(crate) const CHILDREN_LOOKED_AT: usize = 4;
/// Children whose reports are remembered so; those before are left to the poll.
pub(crate) const CHILDREN_UNKNOWN_MOST: usize = 4096;
/// A binary that is to be gone on as has this long to read the state.
pub(crate) const UPGRADE_TRIAL: Duration = Duration::from_secs(10);
/// Folders below each other that are emptied where an initramfs was.
pub(crate) const DEPTH_OF_OLD_ROOT: usize = 256;
/// Bytes of what it says when it can not.
pub(crate) const UPGRADE_REASON: usize = 1024;
/// The binary before it is kept this long.
pub(crate) const UPGRADE_PROBATION: Duration = Duration::from_secs(60);
/// An image that has lived so long has not crashed at its beginning.
pub(crate) const STEADY: Duration = Duration::from_millis(250);
/// After so many crashes in a row init becomes a caretaker.
pub(crate) const CRASHES_IN_A_ROW: u32 = 3;
/// A watchdog that was refused is not tried again sooner.
pub(crate) const WATCHDOG_AGAIN: Duration = Duration::from_millis(250);
/// Numbers an image has for pipes aside before those of the next one begin.
pub(crate) const ASIDES_OF_AN_IMAGE: u64 = 1 << 32;

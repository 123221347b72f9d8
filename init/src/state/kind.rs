//! The kinds of records, and the keys of tables.

use groundstate_units::machine::event::RunId;
use groundstate_units::text::name::Name;

/// The subject of a record: the first byte of its key. A number is never reused for another kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Facts about init itself.
    Head = 1,
    /// The machine as a whole; its units are [`Kind::Unit`].
    Machine = 2,
    /// One unit of the machine, by its place.
    Unit = 3,
    /// One run, by its number.
    Run = 4,
    /// The cgroup and the children of a run.
    Tracked = 5,
    /// The processes of a run, without cgroups.
    ProcessTree = 6,
    /// The output of a run.
    Log = 7,
    /// The cgroups, without the runs.
    Tracker = 8,
    /// The memory shared with children.
    ChildMemory = 9,
    /// Descriptors that services have stored.
    Store = 10,
    /// The control socket and its connections.
    Control = 11,
    /// The notify socket.
    Notify = 12,
    /// The logger, without the runs.
    Logger = 13,
    /// Loads in flight.
    Loader = 14,
    /// One line of the event log, by its number.
    Event = 16,
    /// The latest start of a unit.
    Start = 18,
    /// The first start of a unit that became ready.
    FirstStart = 19,
    /// How often init has restarted a unit.
    Restarts = 20,
    /// Sockets, timers and paths.
    Triggers = 21,
    /// The shutdown.
    Ending = 22,
    /// Pid files that are being read.
    Looks = 23,
    /// Units whose event was in progress at a crash.
    Suspects = 24,
    /// Facts, effects and reaped processes that are not handled yet.
    Pending = 25,
    /// A child created by init, by its pid.
    Child = 26,
    /// The data of a run that does not change after its start.
    Constants = 27,
    /// The orders of one event that are not all carried out yet, by the event's number.
    Order = 28,
}

impl Kind {
    /// The highest number in use.
    pub(crate) const LAST: u8 = Kind::Order as u8;

    /// Returns true if this version writes records of this kind. It removes those of others: a
    /// newer init wrote them, or an older one (15 and 17, parts of the event log).
    pub(crate) fn is_in_use(number: u8) -> bool {
        number <= Kind::LAST && ![15, 17].contains(&number)
    }

    /// The key of the only record of this kind.
    pub(crate) fn key(self) -> [u8; 1] {
        [self as u8]
    }

    /// The key of one of many records of this kind.
    pub(crate) fn key_of(self, entry: &impl Key) -> Vec<u8> {
        let mut key = Vec::with_capacity(9);
        self.put_key_of(entry, &mut key);
        key
    }

    /// Replaces the contents of `key` by that of [`Kind::key_of`].
    pub(crate) fn put_key_of(self, entry: &impl Key, key: &mut Vec<u8>) {
        key.clear();
        key.push(self as u8);
        entry.put(key);
    }
}

/// The key of an entry of a table.
pub(crate) trait Key: Ord + Clone {
    /// Appends the key. The order of the bytes is the order of the keys.
    fn put(&self, to: &mut Vec<u8>);
    /// The key of these bytes. Returns `None` if they are not a key.
    fn of(bytes: &[u8]) -> Option<Self>;
}

impl Key for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.to_be_bytes());
    }

    fn of(bytes: &[u8]) -> Option<u64> {
        bytes.try_into().ok().map(u64::from_be_bytes)
    }
}

/// A pid.
impl Key for i32 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.to_be_bytes());
    }

    fn of(bytes: &[u8]) -> Option<i32> {
        bytes.try_into().ok().map(i32::from_be_bytes)
    }
}

impl Key for RunId {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn of(bytes: &[u8]) -> Option<RunId> {
        u64::of(bytes).map(RunId)
    }
}

impl Key for Name {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self.as_str().as_bytes());
    }

    fn of(bytes: &[u8]) -> Option<Name> {
        Name::new(std::str::from_utf8(bytes).ok()?).ok()
    }
}

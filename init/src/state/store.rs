//! The state store: records in shared memory, as they were after the last commit.
//!
//! The memory is a header and a log of frames. Of two frames with one key the later one counts; an
//! empty frame removes the record. A commit appends the changed records of a turn, and then stores
//! one word with the end of the valid log. A crash before that word leaves all records of the
//! previous turn.
//!
//! When the log is full, the commit writes the current records into a new memory of three times
//! their size, and then gives it the descriptor number of the old one.
//!
//! ```text
//! header: magic and format (8) | commit word: the end of the valid log (8)
//! frame:  length of the value (4) | CRC-32 of what follows (4) | length of the key (2) | key | value
//! ```
//!
//! All numbers are little-endian. Reading is total: any bytes give records or an error.

use super::kind::{Key, Kind};
use super::table::Table;
use super::table::Watched;
use crate::base::retry::retry_now;
use crate::sys::shared_memory::SharedMemory;
use foldhash::fast::FixedState;
use groundstate_units::text::fields;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// The last byte is the format of the header and of frames. Records have named fields instead of a
/// format.
const MAGIC: [u8; 8] = *b"GS-STOR\x03";
/// Bytes of the header.
const HEADER: usize = 64;
/// The offset of the commit word. Zero means that nothing is committed.
const COMMIT: usize = 8;
/// The minimum size of a log in bytes.
const LOG: usize = 512 * 1024;
/// The maximum size of a log in bytes.
const LOG_MOST: usize = 512 * 1024 * 1024;
/// Bytes of a frame before its key.
const FRAME: usize = 10;
/// Bytes of a frame before the part that its CRC covers.
const UNSUMMED: usize = 8;

/// The place of a record's value: its offset in the log, and its length. An offset behind the end
/// of the log is that of a staged frame.
type Place = (usize, usize);
/// Records by key. A hash map, because each commit looks up each changed record. The keys come from
/// init, so the hash needs no secret.
type Index = HashMap<Box<[u8]>, Place, FixedState>;

/// The state store.
#[derive(Debug)]
pub(crate) struct Store {
    memory: SharedMemory,
    /// The end of the valid log.
    end: usize,
    /// The place of each record after the next commit.
    index: Index,
    /// Bytes of the frames in the index.
    live: usize,
    /// The maximum size of a log in bytes.
    limit: usize,
    /// The frames of the changes since the last successful commit. They continue the log.
    staged: Vec<u8>,
    /// True if a changed record could not be encoded, so that the log lacks a part of the state.
    is_incomplete: bool,
}

impl Store {
    /// Creates an empty store. Fails with ENOSYS or EPERM without memfds, or with ENOMEM or ENOSPC.
    pub(crate) fn new() -> io::Result<Store> {
        Ok(Store::of(memory_for(LOG)?, 0))
    }

    /// Creates the store of this memory, without an index of its log.
    fn of(memory: SharedMemory, end: usize) -> Store {
        let (index, staged) = (Index::default(), Vec::new());
        let limit = LOG_MOST;
        Store { memory, end, index, live: 0, limit, staged, is_incomplete: false }
    }

    /// Opens the store of an earlier image of init. The error is for the console.
    pub(crate) fn open(file: OwnedFd) -> Result<Store, String> {
        let memory = SharedMemory::adopt(file).map_err(|error| error.to_string())?;
        let magic = memory.get(0, MAGIC.len()).unwrap_or_default();
        match magic.split_last() {
            Some((format, name)) if MAGIC.starts_with(name) && MAGIC.last() != Some(format) => {
                return Err("the state has the format of another version of init".to_string());
            }
            Some(_) if magic == MAGIC => {}
            Some(_) | None => return Err("the state is damaged: its header".to_string()),
        }
        let word = memory.word(COMMIT);
        if word == 0 {
            return Err("no state was committed".to_string());
        }
        let end = usize::try_from(word).unwrap_or(usize::MAX);
        let mut store = Store::of(memory, end);
        let log = store.memory.get(HEADER, end).ok_or(0);
        (store.index, store.live) =
            log.and_then(index_of).map_err(|at| format!("the state is damaged at byte {at}"))?;
        Ok(store)
    }

    /// The store's descriptor, for the next image.
    pub(crate) fn descriptor_number(&self) -> RawFd {
        self.memory.file().as_raw_fd()
    }

    /// Returns true if there is a committed state.
    pub(crate) fn is_committed(&self) -> bool {
        self.memory.word(COMMIT) != 0
    }

    /// Returns `length` bytes of the log, or of the staged frames behind its end.
    fn bytes(&self, at: usize, length: usize) -> &[u8] {
        let bytes = match at.checked_sub(self.end) {
            Some(at) => self.staged.get(at..at + length),
            None => self.memory.get(HEADER + at, length),
        };
        bytes.unwrap_or_default()
    }

    /// Returns the record of this key after the next commit.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.index.get(key).map(|(at, length)| self.bytes(*at, *length))
    }

    /// Returns true if there will be a record of this key after the next commit.
    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        self.index.contains_key(key)
    }

    /// Returns all records whose key starts with this byte, in any order.
    pub(crate) fn all(&self, kind: u8) -> impl Iterator<Item = (&[u8], &[u8])> {
        let of_kind = self.index.iter().filter(move |(key, _)| key.first() == Some(&kind));
        of_kind.map(|(key, (at, length))| (&**key, self.bytes(*at, *length)))
    }

    /// Stages a record; an unchanged one adds no bytes. If the value is too long or cannot be
    /// encoded, the log lacks a record, and no later commit succeeds.
    pub(crate) fn put(&mut self, key: &[u8], value: &impl Serialize) {
        if self.is_incomplete {
            return;
        }
        let begin = self.staged.len();
        let at = open_frame(&mut self.staged, key);
        let is_encoded = fields::append(value, &mut self.staged).is_ok();
        if is_encoded && self.get(key) == self.staged.get(at..) {
            return self.staged.truncate(begin);
        }
        self.close_frame(key, begin, is_encoded);
    }

    /// Stages the frame at `begin`, unless its value is incomplete or too long.
    fn close_frame(&mut self, key: &[u8], begin: usize, is_encoded: bool) {
        if !is_encoded || !seal_frame(&mut self.staged, begin, key.len()) {
            self.staged.truncate(begin);
            self.is_incomplete = true;
            return self.invalidate();
        }
        let at = begin + FRAME + key.len();
        let place = (self.end + at, self.staged.len() - at);
        let before = match self.index.get_mut(key) {
            _ if place.1 == 0 => self.index.remove(key),
            Some(known) => Some(std::mem::replace(known, place)),
            None => self.index.insert(Box::from(key), place),
        };
        let size = |(_, length): Place| FRAME + key.len() + length;
        self.live += if place.1 == 0 { 0 } else { size(place) };
        self.live -= before.map_or(0, size);
    }

    /// Stages a value that may have changed since the last call.
    pub(crate) fn put_watched<T: Serialize>(&mut self, kind: Kind, value: &mut Watched<T>) {
        if value.take_change() {
            return self.put(&kind.key(), &**value);
        }
        debug_assert!(
            self.is_incomplete || self.has(kind, &**value),
            "{kind:?} has changed and is not marked so"
        );
    }

    /// Returns true if the record of this kind has this value.
    fn has(&self, kind: Kind, value: &impl Serialize) -> bool {
        let bytes = fields::encode(value).ok();
        bytes.as_deref() == self.get(&kind.key())
    }

    /// Stages the changed entries of a table.
    pub(crate) fn put_table<K: Key, V: Serialize>(&mut self, kind: Kind, table: &mut Table<K, V>) {
        let mut key = Vec::new();
        for name in table.take_changes() {
            kind.put_key_of(&name, &mut key);
            match table.get(&name) {
                Some(value) => self.put(&key, value),
                None => self.remove(&key),
            }
        }
    }

    /// Decodes the record of this key. The error is for the console.
    pub(crate) fn read<T: DeserializeOwned>(&self, kind: Kind) -> Result<Option<T>, String> {
        self.get(&kind.key()).map(|bytes| decode(kind, bytes)).transpose()
    }

    /// Decodes the entries of a table. The error is for the console.
    pub(crate) fn read_table<K: Key, V: DeserializeOwned>(
        &self,
        kind: Kind,
    ) -> Result<BTreeMap<K, V>, String> {
        let of = |(key, bytes): (&[u8], &[u8])| {
            let key = key.get(1..).and_then(K::of).ok_or(format!("{kind:?}: a key is damaged"))?;
            Ok((key, decode(kind, bytes)?))
        };
        self.all(kind as u8).map(of).collect()
    }

    /// Decodes the values of this kind, in the order of keys. The error is for the
    /// console.
    pub(crate) fn read_values<T: DeserializeOwned>(&self, kind: Kind) -> Result<Vec<T>, String> {
        let mut found: Vec<_> = self.all(kind as u8).collect();
        found.sort_unstable_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, bytes)| decode(kind, bytes)).collect()
    }

    /// Stages the removal of a record.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        if self.has_key(key) {
            self.put_bytes(key, &[]);
        }
    }

    /// Stages a record that is already encoded. An empty one removes the record.
    pub(crate) fn put_bytes(&mut self, key: &[u8], record: &[u8]) {
        let begin = self.staged.len();
        open_frame(&mut self.staged, key);
        self.staged.extend(record);
        self.close_frame(key, begin, true);
    }

    /// Stages the removal of all records whose key this function rejects.
    pub(crate) fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        let gone: BTreeSet<Box<[u8]>> =
            self.index.keys().filter(|key| !stays(key)).cloned().collect();
        gone.iter().for_each(|key| self.remove(key));
    }

    /// Commits everything that was staged, at once.
    ///
    /// # Errors
    /// The store cannot grow, and keeps the state of the previous commit. Or a record could not be
    /// encoded, and no later commit succeeds.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        if self.is_incomplete {
            return Err(io::Error::other("a record cannot be written"));
        }
        if self.staged.is_empty() && self.is_committed() {
            return Ok(());
        }
        if self.memory.put(HEADER + self.end, &self.staged) {
            self.end += self.staged.len();
            self.memory.set_word(COMMIT, self.end as u64);
        } else if let Err(error) = self.compact() {
            // The staged frames wait for the next commit.
            self.keep_last_frames();
            return Err(error);
        }
        self.staged.clear();
        // Releases the large buffer of a large turn.
        if self.staged.capacity() > LOG {
            self.staged = Vec::new();
        }
        Ok(())
    }

    /// Drops staged frames that a later one replaces, and removals of records that were never
    /// committed. Otherwise each turn would add some while commits fail.
    fn keep_last_frames(&mut self) {
        let log = self.memory.get(HEADER, self.end).unwrap_or_default();
        let Ok((committed, _)) = index_of(log) else { return };
        let mut kept = Vec::new();
        let staged = self.index.iter_mut().filter(|(_, place)| place.0 >= self.end);
        #[allow(clippy::iter_over_hash_type, reason = "the log may have any order")]
        for (key, (at, length)) in staged {
            let value = *at - self.end;
            let frame = value - FRAME - key.len()..value + *length;
            *at = self.end + kept.len() + FRAME + key.len();
            kept.extend(self.staged.get(frame).unwrap_or_default());
        }
        #[allow(clippy::iter_over_hash_type, reason = "each key is there once")]
        for key in committed.keys().filter(|key| !self.index.contains_key(*key)) {
            let begin = kept.len();
            open_frame(&mut kept, key);
            seal_frame(&mut kept, begin, key.len());
        }
        self.staged = kept;
    }

    /// Moves the current records, staged ones included, to a new memory under the same descriptor
    /// number.
    fn compact(&mut self) -> io::Result<()> {
        let size = self.live.saturating_mul(3).max(LOG);
        if size > self.limit {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut memory = memory_for(size)?;
        let mut to = 0;
        #[allow(clippy::iter_over_hash_type, reason = "the log may have any order")]
        for (key, (at, length)) in &self.index {
            let before = FRAME + key.len();
            if !memory.put(HEADER + to, self.bytes(at - before, before + length)) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            to += before + length;
        }
        memory.set_word(COMMIT, to as u64);
        // From here on a crash finds the new memory.
        self.memory.replace_file_of(memory)?;
        self.end = to;
        to = 0;
        #[allow(clippy::iter_over_hash_type, reason = "the same order as above")]
        for (key, (at, length)) in &mut self.index {
            *at = to + FRAME + key.len();
            to = *at + *length;
        }
        Ok(())
    }

    /// Marks the store as without a committed state, because an old state would be worse than none.
    pub(crate) fn invalidate(&mut self) {
        self.memory.set_word(COMMIT, 0);
    }

    /// Returns a copy of the committed state, for a process that only reads it.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        let mut memory = SharedMemory::new(c"state copy", self.memory.length())?;
        let all = self.memory.get(0, self.memory.length()).unwrap_or_default();
        memory.put(0, all);
        memory.file().try_clone()
    }
}

/// Creates the memory of an empty store. `log` is the size of its log in bytes.
fn memory_for(log: usize) -> io::Result<SharedMemory> {
    // A signal ends fallocate(2) with EINTR.
    let mut memory = retry_now(|| SharedMemory::new(c"state", HEADER + log))?;
    memory.put(0, &MAGIC);
    Ok(memory)
}

fn decode<T: DeserializeOwned>(kind: Kind, bytes: &[u8]) -> Result<T, String> {
    fields::decode(bytes).map_err(|error| format!("{kind:?}: {error}"))
}

/// Appends a frame without a value. Returns the start of its value.
fn open_frame(bytes: &mut Vec<u8>, key: &[u8]) -> usize {
    bytes.extend([0; FRAME]);
    bytes.extend(key);
    bytes.len()
}

/// Fills in the head of the frame at `begin`. Returns false if its key or its value is too long.
fn seal_frame(bytes: &mut [u8], begin: usize, key: usize) -> bool {
    let Some(frame) = bytes.get_mut(begin..) else { return false };
    let Some(length) = frame.len().checked_sub(FRAME + key) else { return false };
    let (Ok(length), Ok(key)) = (u32::try_from(length), u16::try_from(key)) else { return false };
    let Some((head, rest)) = frame.split_first_chunk_mut::<UNSUMMED>() else { return false };
    let Some((key_length, _)) = rest.split_first_chunk_mut() else { return false };
    *key_length = key.to_le_bytes();
    let [a, b, c, d] = length.to_le_bytes();
    let [e, f, g, h] = crc32fast::hash(rest).to_le_bytes();
    *head = [a, b, c, d, e, f, g, h];
    true
}

/// Returns the records of a log, and the bytes of their frames. The error is the offset of the
/// first damaged frame.
fn index_of(log: &[u8]) -> Result<(Index, usize), usize> {
    let (mut at, mut index, mut live) = (0, Index::default(), 0usize);
    while at < log.len() {
        let (key, place) = frame(log, at).ok_or(at)?;
        let size = FRAME + key.len() + place.1;
        let before = match place.1 {
            0 => index.remove(key),
            _ => index.insert(Box::from(key), place),
        };
        live += if place.1 == 0 { 0 } else { size };
        live -= before.map_or(0, |(_, length): Place| FRAME + key.len() + length);
        at += size;
    }
    Ok((index, live))
}

/// Returns the key of the frame at `at`, and the place of its value. Returns `None` if it is
/// damaged.
fn frame(log: &[u8], at: usize) -> Option<(&[u8], Place)> {
    let (&[a, b, c, d, e, f, g, h], rest) = log.get(at..)?.split_first_chunk::<UNSUMMED>()?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let (&key, body) = rest.split_first_chunk()?;
    let key = usize::from(u16::from_le_bytes(key));
    let summed = rest.get(..(FRAME - UNSUMMED + key).checked_add(length)?)?;
    let is_whole = crc32fast::hash(summed) == u32::from_le_bytes([e, f, g, h]);
    let name = body.get(..key).filter(|_| is_whole)?;
    Some((name, (at + FRAME + key, length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::text::name::Name;

    fn key(number: u64) -> Vec<u8> {
        [&[7u8][..], &number.to_be_bytes()].concat()
    }

    fn open(store: &Store) -> Result<Store, String> {
        Store::open(store.memory.file().try_clone().unwrap())
    }

    /// Keys and values, as found by an image that opens the store.
    fn found(store: &Store) -> Vec<(Vec<u8>, u64)> {
        let of = |(key, value): (&[u8], &[u8])| (key.to_vec(), fields::decode(value).unwrap());
        let found: BTreeMap<_, _> = open(store).unwrap().all(7).map(of).collect();
        found.into_iter().collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn a_crash_finds_all_records_of_a_commit_or_none() {
        let mut store = Store::new().unwrap();
        assert_eq!(open(&store).err().as_deref(), Some("no state was committed"));
        store.put(&key(1), &1u64);
        store.put(&key(2), &2u64);
        assert!(open(&store).is_err());
        store.commit().unwrap();
        assert_eq!(found(&store), [(key(1), 1), (key(2), 2)]);
        store.put(&key(2), &3u64);
        store.remove(&key(1));
        store.put(&[8], &0u64);
        assert_eq!(found(&store), [(key(1), 1), (key(2), 2)], "nothing is committed yet");
        store.commit().unwrap();
        assert_eq!(found(&store), [(key(2), 3)]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn a_store_that_is_compacted_and_grows_keeps_its_records_and_its_descriptor_number() {
        let mut store = Store::of(memory_for(1024).unwrap(), 0);
        let number = store.descriptor_number();
        let mut all = BTreeMap::new();
        let mut random = 7u64;
        let mut sizes = BTreeSet::new();
        for turn in 0..60_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(turn);
            let which = (random >> 33) % (1 + turn / 3);
            if random.is_multiple_of(5) {
                store.remove(&key(which));
                all.remove(&key(which));
            } else {
                store.put(&key(which), &turn);
                all.insert(key(which), turn);
            }
            store.commit().unwrap();
            sizes.insert(store.memory.length());
            if turn.is_multiple_of(997) {
                assert_eq!(found(&store), all.clone().into_iter().collect::<Vec<_>>());
            }
        }
        assert_eq!(store.descriptor_number(), number);
        assert!(sizes.len() > 2, "a full log of few records, and a full log of many: {sizes:?}");
        let again = open(&store).unwrap();
        assert_eq!((again.live, again.end, again.index), (store.live, store.end, store.index));
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn a_record_that_did_not_change_is_not_written_again() {
        let mut store = Store::new().unwrap();
        store.put(&key(1), &1u64);
        store.commit().unwrap();
        let end = store.end;
        store.put(&key(1), &1u64);
        store.remove(&key(2));
        store.commit().unwrap();
        assert_eq!(store.end, end);
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn nothing_is_committed_after_a_record_that_cannot_be_encoded() {
        struct Unencodable;
        impl Serialize for Unencodable {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("no"))
            }
        }
        let mut store = Store::new().unwrap();
        store.put(&key(1), &1u64);
        store.commit().unwrap();
        store.put(&key(2), &2u64);
        store.put(&key(3), &Unencodable);
        assert_eq!(open(&store).err().as_deref(), Some("no state was committed"));
        assert!(store.commit().is_err());
        store.put(&key(1), &4u64);
        assert!(store.commit().is_err(), "the log lacks a record");
        assert_eq!(open(&store).err().as_deref(), Some("no state was committed"));
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn key_of_the_longest_name_fits_a_frame() {
        let name = Name::new(&"x".repeat(groundstate_units::limit::NAME)).unwrap();
        let mut table: Table<Name, u64> = Table::of(BTreeMap::from([(name.clone(), 1)]));
        let mut store = Store::new().unwrap();
        store.put_table(Kind::Restarts, &mut table);
        store.commit().unwrap();
        let kept = || open(&store).unwrap().read_table(Kind::Restarts);
        assert_eq!(kept(), Ok(BTreeMap::from([(name.clone(), 1u64)])));
        table.remove(&name);
        store.put_table(Kind::Restarts, &mut table);
        store.commit().unwrap();
        assert_eq!(
            open(&store).unwrap().read_table::<Name, u64>(Kind::Restarts),
            Ok(BTreeMap::new())
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn record_that_exceeds_a_frame_leaves_nothing_staged() {
        let mut store = Store::new().unwrap();
        store.put(&key(1), &1u64);
        let staged = store.staged.clone();
        store.put(&[7; 1 << 16], &1u64);
        assert_eq!(store.staged, staged);
        store.remove(&[7; 1 << 16]);
        assert_eq!(store.staged, staged);
        assert!(store.commit().is_err());
    }

    /// A full store of 45 records that may not grow.
    fn full() -> Store {
        let mut store = Store::of(memory_for(1024).unwrap(), 0);
        (0..45).for_each(|number| store.put(&key(number), &number));
        store.commit().unwrap();
        store.limit = 0;
        store
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn failed_commits_leave_the_last_frame_of_each_key() {
        let mut store = full();
        for turn in 0..100u64 {
            // The record of a run that ends soon, and a record that changes often.
            store.put(&key(100 + turn), &[turn; 32]);
            store.put(&key(1), &[turn; 32]);
            assert!(store.commit().is_err());
            store.remove(&key(100 + turn));
            assert!(store.commit().is_err());
        }
        assert!(store.staged.len() < 100);
        store.put(&key(1), &1000u64);
        store.limit = LOG_MOST;
        store.commit().unwrap();
        let all = (0..45).map(|number| (key(number), if number == 1 { 1000 } else { number }));
        assert_eq!(found(&store), all.collect::<Vec<_>>());
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn retain_removes_records_that_no_commit_has_written_yet() {
        let mut store = full();
        (40..60).for_each(|number| store.put(&key(number), &(1000 + number)));
        assert!(store.commit().is_err());
        store.retain(|name| name == key(44) || name == key(45));
        store.limit = LOG_MOST;
        store.commit().unwrap();
        assert_eq!(found(&store), [(key(44), 1044), (key(45), 1045)]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "memfd_create, and mmap of a file")]
    fn any_damaged_byte_of_the_log_is_found() {
        let mut store = Store::new().unwrap();
        (0..9).for_each(|number| store.put(&key(number), &number));
        store.remove(&key(3));
        store.commit().unwrap();
        for at in 0..store.end {
            let byte = store.memory.get(HEADER + at, 1).unwrap()[0];
            store.memory.put(HEADER + at, &[byte ^ 0x10]);
            assert!(open(&store).is_err(), "byte {at}");
            store.memory.put(HEADER + at, &[byte]);
        }
        for word in [1, 1 << 63, u64::MAX, store.end as u64 - 1] {
            store.memory.set_word(COMMIT, word);
            let _ = open(&store).err();
        }
        store.memory.put(7, &[9]);
        assert!(open(&store).err().is_some_and(|why| why.contains("another version")));
    }
}

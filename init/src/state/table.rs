//! Values that track changes since the last commit: a map, and a whole component.

use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// A map of records. Reading uses [`Deref`]; each write marks the key as changed.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    entries: BTreeMap<K, V>,
    /// Keys of changed entries, in the order of the changes. A key may be there several times.
    changed: Vec<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Table<K, V> {
        Table { entries: BTreeMap::new(), changed: Vec::new() }
    }
}

impl<K, V> Deref for Table<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.entries
    }
}

impl<K: Ord + Clone, V> Table<K, V> {
    /// The entry, marked as changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let Table { entries, changed } = self;
        let value = entries.get_mut(key)?;
        if changed.last() != Some(key) {
            changed.push(key.clone());
        }
        Some(value)
    }

    /// The entry, for changes of parts that are not recorded.
    pub(crate) fn unmarked(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    /// The entry, marked as changed; created with the default if missing.
    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.changed.push(key.clone());
        self.entries.entry(key).or_default()
    }

    /// The entry, marked as changed; created with this value if missing.
    pub(crate) fn get_or_insert(&mut self, key: &K, value: V) -> &mut V {
        self.changed.push(key.clone());
        self.entries.entry(key.clone()).or_insert(value)
    }

    /// All entries, marked as changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.changed.extend(self.entries.keys().cloned());
        self.entries.iter_mut()
    }

    /// Adds or replaces an entry and returns the previous one.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.changed.push(key.clone());
        self.entries.insert(key, value)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.entries.remove(key)?;
        self.changed.push(key.clone());
        Some(value)
    }

    /// Removes all entries for which `stays` is false.
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&K, &V) -> bool) {
        let Table { entries, changed } = self;
        entries.retain(|key, value| {
            let stays = stays(key, value);
            if !stays {
                changed.push(key.clone());
            }
            stays
        });
    }

    /// A table of stored entries. All count as changed, so that they are written again: records of
    /// another version of init may have fields that this one does not know.
    pub(crate) fn of(entries: BTreeMap<K, V>) -> Table<K, V> {
        let changed = entries.keys().cloned().collect();
        Table { entries, changed }
    }

    /// The keys that [`Table::take_changes`] would return, in any order, perhaps several times.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &K> {
        self.changed.iter()
    }

    /// Takes the keys of entries that may have changed, or were removed, since the last call, in
    /// order.
    pub(crate) fn take_changes(&mut self) -> Vec<K> {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}

/// A component stored as one record. Reading uses [`Deref`]; [`DerefMut`] marks it as changed. In
/// debug builds each commit checks that an unmarked value has not changed.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: T,
    is_changed: bool,
}

impl<T> Watched<T> {
    /// The value, for changes of parts that are separate records or not part of the state.
    pub(crate) fn unmarked(&mut self) -> &mut T {
        &mut self.value
    }

    /// Calls `act` and marks the value as changed if `record` of it differs afterwards. For calls
    /// that rarely change anything. `record` must reflect all changes that the call can make.
    pub(crate) fn watch<R: PartialEq, S>(
        &mut self,
        record: impl Fn(&T) -> R,
        act: impl FnOnce(&mut T) -> S,
    ) -> S {
        let before = record(&self.value);
        let result = act(&mut self.value);
        self.is_changed |= record(&self.value) != before;
        result
    }

    /// Returns true if the value may have changed since the last call.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

impl<T> From<T> for Watched<T> {
    /// A value without a record.
    fn from(value: T) -> Watched<T> {
        Watched { value, is_changed: true }
    }
}

impl<T: Default> Default for Watched<T> {
    fn default() -> Watched<T> {
        T::default().into()
    }
}

impl<T> Deref for Watched<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Watched<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.is_changed = true;
        &mut self.value
    }
}

impl<T: Serialize> Serialize for Watched<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_written_or_removed_entry_is_a_change_and_a_read_one_is_not() {
        let mut table: Table<u8, u8> = Table::of((1..=4).map(|key| (key, key)).collect());
        assert_eq!(table.take_changes().len(), 4);
        assert!(table.get(&1).is_some() && table.get_mut(&9).is_none());
        assert!(table.take_changes().is_empty());
        table.get_mut(&2);
        table.remove(&3);
        table.retain(|key, _| *key != 4);
        *table.get_or_default(5) = 1;
        assert_eq!(table.take_changes(), [2, 3, 4, 5]);
        table.iter_mut().for_each(drop);
        assert_eq!(table.take_changes(), [1, 2, 5]);
    }

    #[test]
    fn a_value_is_marked_by_each_mutable_borrow_and_by_no_other() {
        let mut value = Watched::from(vec![1]);
        assert!(value.take_change(), "a new value has no record");
        assert_eq!(value.len(), 1);
        value.unmarked().clear();
        assert!(!value.take_change());
        value.watch(Vec::len, |value| value.truncate(9));
        assert!(!value.take_change());
        value.watch(Vec::len, |value| value.push(1));
        assert!(value.take_change());
        value.push(2);
        assert!(value.take_change() && !value.take_change());
    }
}

//! A value that knows whether it may have changed since its last commit.

use serde::{Serialize, Serializer};
use std::ops::{Deref, DerefMut};

/// A component that is one record. Reading goes through [`Deref`]; [`DerefMut`] marks it as
/// changed. In debug builds each commit checks that an unmarked value is what it was.
#[derive(Debug)]
pub(crate) struct Watched<T> {
    value: T,
    is_changed: bool,
}

impl<T> Watched<T> {
    /// The value, for changes of parts that are records of their own or no part of the state.
    pub(crate) fn unmarked(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value may have changed since the last call.
    pub(crate) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

impl<T> From<T> for Watched<T> {
    /// A value with no record yet.
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
    fn a_value_is_marked_by_each_mutable_borrow_and_by_no_other() {
        let mut value = Watched::from(vec![1]);
        assert!(value.take_change(), "a new value has no record");
        assert_eq!(value.len(), 1);
        value.unmarked().clear();
        assert!(!value.take_change());
        value.push(2);
        assert!(value.take_change() && !value.take_change());
    }
}

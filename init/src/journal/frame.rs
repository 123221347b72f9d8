//! The form of notes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Two values as the text of a note, the one behind the other: who knows of no second one reads the first.
pub(super) fn behind(first: &impl Serialize, more: &impl Serialize) -> Vec<u8> {
    let first = postcard::to_allocvec(first).unwrap_or_default();
    postcard::to_extend(more, first).unwrap_or_default()
}

/// Both of them. Another image's may end before the second.
pub(super) fn both<T: DeserializeOwned, M: DeserializeOwned + Default>(
    text: &[u8],
) -> Option<(T, M)> {
    let (first, more) = postcard::take_from_bytes(text).ok()?;
    Some((first, postcard::from_bytes(more).unwrap_or_default()))
}

//! Values as bytes in which each field has its name: CBOR, RFC 8949. State, generations and
//! messages between processes of init are written so, because another version of init may read
//! them: it skips a field that it does not know, and a field that is missing takes its default.
//!
//! Decoding is total. It never recurses deeper than the type that is read: no type here contains
//! itself, and unknown values are skipped in a loop.

use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;

/// Appends the value. On an error, `to` may end in a part of it.
///
/// # Errors
/// The value's own, in words.
pub fn append(value: &impl Serialize, to: &mut Vec<u8>) -> Result<(), String> {
    let mut to = minicbor_serde::Serializer::new(to);
    value.serialize(&mut to).map_err(|error| error.to_string())
}

/// The value as bytes.
///
/// # Errors
/// As for [`append`].
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    append(value, &mut bytes).map(|()| bytes)
}

/// The value of these bytes, all of them.
///
/// # Errors
/// The bytes are those of no such value; in words.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match decode_front(bytes)? {
        (value, []) => Ok(value),
        (_, _) => Err("there are bytes behind the value".to_string()),
    }
}

/// The value that these bytes begin with, and the bytes behind it.
///
/// # Errors
/// As for [`decode`].
pub fn decode_front<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), String> {
    let mut from = minicbor_serde::Deserializer::new(bytes);
    let value = T::deserialize(&mut from).map_err(|error| error.to_string())?;
    Ok((value, bytes.get(from.decoder().position()..).unwrap_or_default()))
}

/// A field with its default is not written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `#[serde(with)]`: bytes as they are. As a sequence, each above 23 would take two.
pub mod bytes {
    use super::{Deserializer, PhantomData, Plain, Serializer};

    /// Writes them.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes.as_ref())
    }

    /// Reads them.
    ///
    /// # Errors
    /// There is another value.
    pub fn deserialize<'de, D: Deserializer<'de>, T: for<'a> From<&'a [u8]>>(
        from: D,
    ) -> Result<T, D::Error> {
        from.deserialize_bytes(Plain(PhantomData))
    }
}

struct Plain<T>(PhantomData<T>);

impl<'de, T: for<'a> From<&'a [u8]>> Visitor<'de> for Plain<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<T, E> {
        Ok(T::from(bytes))
    }

    /// JSON has no bytes.
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<T, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = all.next_element()? {
            bytes.push(byte);
        }
        Ok(T::from(&bytes))
    }
}

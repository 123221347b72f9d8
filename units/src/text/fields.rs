//! Encodes values as bytes with named fields: CBOR, RFC 8949. State, generations and messages
//! between processes of init use this form, because another version of init may read them. A reader
//! skips an unknown field; a missing field gets its default.
//!
//! Decoding is total. Its recursion is bounded by the type that is read: no type here contains
//! itself, and unknown values are skipped in a loop.

use minicbor::encode::Write;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

/// Appends the value. After an error, `to` may end in a part of the value.
///
/// # Errors
/// The value's own error, in words.
pub fn append(value: &impl Serialize, to: &mut Vec<u8>) -> Result<(), String> {
    let mut to = minicbor_serde::Serializer::new(Appended(to));
    value.serialize(&mut to).map_err(|error| error.to_string())
}

/// The end of a vector. The encoder mostly writes one byte at a time; inlined, a push takes half the
/// time of the encoder's own call.
struct Appended<'a>(&'a mut Vec<u8>);

impl Write for Appended<'_> {
    type Error = Infallible;

    #[allow(clippy::inline_always, reason = "a release build is optimised for size")]
    #[inline(always)]
    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        match bytes {
            [byte] => self.0.push(*byte),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(())
    }
}

/// Returns the value as bytes.
///
/// # Errors
/// As for [`append`].
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    append(value, &mut bytes).map(|()| bytes)
}

/// Decodes a value from all of these bytes.
///
/// # Errors
/// The bytes are no such value; in words.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match decode_front(bytes)? {
        (value, []) => Ok(value),
        (_, _) => Err("there are bytes behind the value".to_string()),
    }
}

/// Decodes the value at the start of these bytes. Also returns the bytes after it.
///
/// # Errors
/// As for [`decode`].
pub fn decode_front<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), String> {
    let mut from = minicbor_serde::Deserializer::new(bytes);
    let value = T::deserialize(&mut from).map_err(|error| error.to_string())?;
    Ok((value, bytes.get(from.decoder().position()..).unwrap_or_default()))
}

/// Returns true for a default value, which is not written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `#[serde(with)]`: encodes bytes as a byte string. In a sequence each byte above 23 takes
/// two.
pub mod bytes {
    use super::{Deserializer, PhantomData, Plain, Serializer};

    /// Writes the bytes.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &impl AsRef<[u8]>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes.as_ref())
    }

    /// Reads the bytes.
    ///
    /// # Errors
    /// The value is no byte string.
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

    /// JSON has no byte strings.
    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<T, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = all.next_element()? {
            bytes.push(byte);
        }
        Ok(T::from(&bytes))
    }
}

//! A unit's signature: whoever has the key says that a file is to run under a name, in one
//! cluster, and no older one any more. Ed25519 (RFC 8032) by the library that TLS uses, keys in
//! the files that `openssl` writes. Which of them count on a machine is [`crate::trust`]'s.

use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Keys one machine trusts, at most.
pub const MOST_KEYS: usize = 64;
/// Bytes of a file of keys.
pub const LARGEST_FILE: usize = 64 * 1024;
/// What stands before the 32 bytes of an Ed25519 key (RFC 8410), in a `PUBLIC KEY`.
const HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of a signature.
const LENGTH: usize = 64;
/// What is signed is never anything else's.
const CONTEXT: &str = "groundstate unit signature 1";

/// As it stands beside a unit's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// The larger is the newer; milliseconds since 1970 by the clock of who signed.
    pub serial: u64,
    /// Of all that is signed, in hex.
    pub value: String,
}

impl Signature {
    /// It has the form of one.
    pub fn is_well_formed(&self) -> bool {
        bytes_of(&self.value).is_some()
    }
}

/// What a signature says: this file, under this name, in this cluster, as of this serial.
fn message(cluster: &str, name: &UnitName, serial: u64, file: &UnitFile) -> Vec<u8> {
    let (serial, text) = (serial.to_string(), file.text());
    let mut message = Vec::new();
    // Each with its length: no two different ones are the same bytes.
    for part in [CONTEXT, cluster, name.as_str(), &serial, &text] {
        message.extend((part.len() as u64).to_be_bytes());
        message.extend(part.as_bytes());
    }
    message
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.len() == 2 * LENGTH && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    digits.then(|| (0..LENGTH).map(|n| byte(2 * n)).collect())?
}

/// The key of somebody who may say what runs.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    cluster: String,
}

impl SigningKey {
    /// From the PEM file of `openssl genpkey -algorithm ed25519`, for one cluster.
    ///
    /// # Errors
    /// It is none.
    pub fn of(pem: &[u8], cluster: &str) -> Result<SigningKey, String> {
        let hint = "a key of `openssl genpkey -algorithm ed25519` is wanted";
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem)
            .map_err(|_| format!("there is no PRIVATE KEY in it: {hint}"))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
            .map_err(|error| format!("it is no Ed25519 key ({error}): {hint}"))?;
        Ok(SigningKey { pair, cluster: cluster.to_string() })
    }

    /// Signs a file under a name.
    pub fn sign(&self, name: &UnitName, file: &UnitFile, serial: u64) -> Signature {
        let signed = self.pair.sign(&message(&self.cluster, name, serial, file));
        Signature { serial, value: hex(signed.as_ref()) }
    }

    /// It was this key that signed that file under that name, for the same cluster.
    pub fn has_signed(&self, name: &UnitName, file: &UnitFile, signature: &Signature) -> bool {
        vouches(self.pair.public_key().as_ref(), &self.cluster, name, file, signature)
    }
}

/// The keys of those whose word counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKeys {
    keys: Vec<[u8; 32]>,
}

impl TrustedKeys {
    /// From a PEM file with one or more of `openssl pkey -pubout`.
    ///
    /// # Errors
    /// One of them is none, there is none, or there are too many.
    pub fn of(pem: &[u8]) -> Result<TrustedKeys, String> {
        if pem.len() > LARGEST_FILE {
            return Err(format!("it has {} bytes, the most is {LARGEST_FILE}", pem.len()));
        }
        let mut keys = Vec::new();
        for der in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
            let der = der.map_err(|error| format!("key {}: {error}", keys.len() + 1))?;
            let key = der.strip_prefix(&HEAD).and_then(|key| <[u8; 32]>::try_from(key).ok());
            let none = || format!("key {} is none of Ed25519", keys.len() + 1);
            keys.push(key.ok_or_else(none)?);
        }
        match keys.len() {
            0 => Err("there is no PUBLIC KEY in it (`openssl pkey -in KEY -pubout`)".to_string()),
            1..=MOST_KEYS => Ok(TrustedKeys { keys }),
            count => Err(format!("it has {count} keys, the most is {MOST_KEYS}")),
        }
    }

    /// One of them says so.
    pub fn vouch_for(
        &self,
        cluster: &str,
        name: &UnitName,
        file: &UnitFile,
        signature: &Signature,
    ) -> bool {
        self.keys.iter().any(|key| vouches(key, cluster, name, file, signature))
    }
}

fn vouches(
    key: &[u8],
    cluster: &str,
    name: &UnitName,
    file: &UnitFile,
    signature: &Signature,
) -> bool {
    let Some(value) = bytes_of(&signature.value) else { return false };
    let message = message(cluster, name, signature.serial, file);
    UnparsedPublicKey::new(&ED25519, key).verify(&message, &value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Of `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`, made for this test.
    const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEJqVZE9NvkxFWZbMJO4F8sMz9MkvYVK46Qy5TU0KXMX\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc+bZxG+m8G8u6F3FKfGDIeduWwLGycWvFzzWffEggSg=\n-----END PUBLIC KEY-----\n";
    const OTHER: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgVlentjOFwGlu8NaAzN9d/ZArnUad4o/8A1iF5WTbcA=\n-----END PUBLIC KEY-----\n";

    fn name(text: &str) -> UnitName {
        UnitName::new(text).unwrap()
    }

    #[test]
    fn a_signature_is_of_this_key_file_name_cluster_and_serial_alone() {
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let other = UnitFile::parse("[Service]\nExecStart=/bin/false\n").unwrap();
        let key = SigningKey::of(KEY, "prod").unwrap();
        let good = key.sign(&name("a.service"), &file, 7);
        assert!(good.is_well_formed());
        let trusted = TrustedKeys::of(&[OTHER, PUBLIC].concat()).unwrap();
        let says =
            |keys: &TrustedKeys, cluster: &str, unit: &str, file: &UnitFile, of: &Signature| {
                keys.vouch_for(cluster, &name(unit), file, of)
            };
        assert!(says(&trusted, "prod", "a.service", &file, &good));
        assert!(!says(&trusted, "prod", "a.service", &other, &good), "another file");
        assert!(key.has_signed(&name("a.service"), &file, &good));
        assert!(!key.has_signed(&name("a.service"), &other, &good));
        let elsewhere = SigningKey::of(KEY, "test").unwrap();
        assert!(!elsewhere.has_signed(&name("a.service"), &file, &good));
        assert!(!says(&trusted, "prod", "b.service", &file, &good), "another name");
        assert!(!says(&trusted, "test", "a.service", &file, &good), "another cluster");
        let newer = Signature { serial: 8, ..good.clone() };
        assert!(!says(&trusted, "prod", "a.service", &file, &newer), "another serial");
        let strangers = TrustedKeys::of(OTHER).unwrap();
        assert!(!says(&strangers, "prod", "a.service", &file, &good), "another key");
        let mut bent = good.clone();
        bent.value.replace_range(0..1, if bent.value.starts_with('0') { "1" } else { "0" });
        for bad in [bent.value, String::new(), "0".repeat(127), "é".repeat(64), "g".repeat(128)] {
            let bad = Signature { value: bad, ..good.clone() };
            assert!(!says(&trusted, "prod", "a.service", &file, &bad), "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_told() {
        let secret = SigningKey::of(PUBLIC, "c").err().unwrap();
        assert!(secret.contains("openssl genpkey"), "{secret}");
        for (text, part) in [
            (&b""[..], "no PUBLIC KEY"),
            (KEY, "no PUBLIC KEY"),
            (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "key 1 is none"),
            (b"-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", "key 1: "),
        ] {
            let told = TrustedKeys::of(text).unwrap_err();
            assert!(told.contains(part), "{told}");
        }
        let many = TrustedKeys::of(&PUBLIC.repeat(MOST_KEYS + 1)).unwrap_err();
        assert!(many.contains("has 65 keys"), "{many}");
        assert!(TrustedKeys::of(&vec![b' '; LARGEST_FILE + 1]).is_err());
    }
}

//! Signatures of units: the holder of a key approves a file under one name in one cluster, and
//! revokes all older files.
//! Ed25519 (RFC 8032) from the TLS library, with key files in the format of `openssl`.
//! [`crate::trust`] decides which keys count on a machine.

use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Maximum number of trusted keys on a machine.
pub const MOST_KEYS: usize = 64;
/// Maximum size of a key file in bytes.
pub const LARGEST_FILE: usize = 64 * 1024;
/// DER prefix of the 32 bytes of an Ed25519 `PUBLIC KEY` (RFC 8410).
const HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Length of a signature in bytes.
const LENGTH: usize = 64;
/// Domain separator: no other protocol signs messages with this text.
const CONTEXT: &str = "groundstate unit signature 1";

/// A signature as stored with the unit's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Milliseconds since 1970 by the signer's clock; a larger serial is newer.
    pub serial: u64,
    /// The signature of the whole message, in hex.
    pub value: String,
}

impl Signature {
    /// Returns true if the value has the form of a signature.
    pub fn is_well_formed(&self) -> bool {
        bytes_of(&self.value).is_some()
    }
}

/// Builds the signed message from cluster, name, serial and file.
fn message(cluster: &str, name: &UnitName, serial: u64, file: &UnitFile) -> Vec<u8> {
    let (serial, text) = (serial.to_string(), file.text());
    let mut message = Vec::new();
    // Length prefixes keep different inputs from encoding to the same bytes.
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

/// A private key that approves units.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    cluster: String,
}

impl SigningKey {
    /// Reads the PEM file of `openssl genpkey -algorithm ed25519`, for one cluster.
    ///
    /// # Errors
    /// The file holds no such key.
    pub fn of(pem: &[u8], cluster: &str) -> Result<SigningKey, String> {
        let hint = "create one with `openssl genpkey -algorithm ed25519`";
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem)
            .map_err(|_| format!("the file has no PRIVATE KEY: {hint}"))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
            .map_err(|error| format!("not an Ed25519 key ({error}): {hint}"))?;
        Ok(SigningKey { pair, cluster: cluster.to_string() })
    }

    /// Signs a file under a name.
    pub fn sign(&self, name: &UnitName, file: &UnitFile, serial: u64) -> Signature {
        let signed = self.pair.sign(&message(&self.cluster, name, serial, file));
        Signature { serial, value: hex(signed.as_ref()) }
    }

    /// Returns true if this key made the signature for the file, name and cluster.
    pub fn has_signed(&self, name: &UnitName, file: &UnitFile, signature: &Signature) -> bool {
        verifies(self.pair.public_key().as_ref(), &self.cluster, name, file, signature)
    }
}

/// The trusted public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKeys {
    keys: Vec<[u8; 32]>,
}

impl TrustedKeys {
    /// Reads a PEM file with one or more keys of `openssl pkey -pubout`.
    ///
    /// # Errors
    /// A key is invalid, the file has no key, or it has too many.
    pub fn of(pem: &[u8]) -> Result<TrustedKeys, String> {
        if pem.len() > LARGEST_FILE {
            return Err(format!(
                "it has {} bytes, more than the limit of {LARGEST_FILE}",
                pem.len()
            ));
        }
        let mut keys = Vec::new();
        for der in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
            let der = der.map_err(|error| format!("key {}: {error}", keys.len() + 1))?;
            let key = der.strip_prefix(&HEAD).and_then(|key| <[u8; 32]>::try_from(key).ok());
            let none = || format!("key {} is not an Ed25519 key", keys.len() + 1);
            keys.push(key.ok_or_else(none)?);
        }
        match keys.len() {
            0 => Err("the file has no PUBLIC KEY (create one with `openssl pkey -in KEY -pubout`)"
                .to_string()),
            1..=MOST_KEYS => Ok(TrustedKeys { keys }),
            count => Err(format!("it has {count} keys, more than the limit of {MOST_KEYS}")),
        }
    }

    /// Returns true if one of the keys made the signature.
    pub fn verify(
        &self,
        cluster: &str,
        name: &UnitName,
        file: &UnitFile,
        signature: &Signature,
    ) -> bool {
        self.keys.iter().any(|key| verifies(key, cluster, name, file, signature))
    }
}

fn verifies(
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

    // Made for this test with `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout`.
    const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEJqVZE9NvkxFWZbMJO4F8sMz9MkvYVK46Qy5TU0KXMX\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc+bZxG+m8G8u6F3FKfGDIeduWwLGycWvFzzWffEggSg=\n-----END PUBLIC KEY-----\n";
    const OTHER: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAgVlentjOFwGlu8NaAzN9d/ZArnUad4o/8A1iF5WTbcA=\n-----END PUBLIC KEY-----\n";

    fn name(text: &str) -> UnitName {
        UnitName::new(text).unwrap()
    }

    #[test]
    fn signature_is_valid_only_for_its_key_file_name_cluster_and_serial() {
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let other = UnitFile::parse("[Service]\nExecStart=/bin/false\n").unwrap();
        let key = SigningKey::of(KEY, "prod").unwrap();
        let good = key.sign(&name("a.service"), &file, 7);
        assert!(good.is_well_formed());
        let trusted = TrustedKeys::of(&[OTHER, PUBLIC].concat()).unwrap();
        let says =
            |keys: &TrustedKeys, cluster: &str, unit: &str, file: &UnitFile, of: &Signature| {
                keys.verify(cluster, &name(unit), file, of)
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
    fn file_without_an_ed25519_key_is_refused_with_a_hint() {
        let secret = SigningKey::of(PUBLIC, "c").err().unwrap();
        assert!(secret.contains("openssl genpkey"), "{secret}");
        for (text, part) in [
            (&b""[..], "no PUBLIC KEY"),
            (KEY, "no PUBLIC KEY"),
            (
                b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                "key 1 is not an Ed25519 key",
            ),
            (b"-----BEGIN PUBLIC KEY-----\n!\n-----END PUBLIC KEY-----\n", "key 1: "),
        ] {
            let error = TrustedKeys::of(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let many = TrustedKeys::of(&PUBLIC.repeat(MOST_KEYS + 1)).unwrap_err();
        assert!(many.contains("has 65 keys"), "{many}");
        assert!(TrustedKeys::of(&vec![b' '; LARGEST_FILE + 1]).is_err());
    }
}

//! Decides which units a machine runs if it requires signatures.
//! It knows the trusted keys, and the newest serial seen per name, so that an old signature is not
//! accepted again. Pure; [`crate::fleetd`] stores the serials across restarts.

use crate::mutant::{Mutant, planted};
use crate::signature::TrustedKeys;
use crate::snapshot::{Content, Snapshot};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of names with a known serial. Beyond it, the oldest serials of deleted units are
/// replaced by a common floor.
pub const MOST_NAMES: usize = 65_536;

/// The newest serial seen of each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serials {
    /// Serials up to this value are rejected for unknown names.
    floor: u64,
    newest: BTreeMap<UnitName, u64>,
}

impl Serials {
    /// Restores saved serials.
    pub fn of(floor: u64, newest: BTreeMap<UnitName, u64>) -> Serials {
        Serials { floor, newest }
    }

    /// The smallest serial that is accepted for a name.
    pub fn least(&self, name: &UnitName) -> u64 {
        self.newest.get(name).copied().unwrap_or(self.floor.saturating_add(1))
    }

    /// Serials up to this value are rejected for unknown names.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The newest serial of each known name.
    pub fn newest(&self) -> &BTreeMap<UnitName, u64> {
        &self.newest
    }

    /// Records a serial of an existing unit. Returns true if it is new.
    pub fn raise(&mut self, name: &UnitName, serial: u64) -> bool {
        let news = match self.newest.get(name) {
            Some(known) => serial > *known,
            None => serial > self.floor,
        };
        if !news {
            return false;
        }
        self.newest.insert(name.clone(), serial);
        true
    }

    /// Forgets the oldest serials of deleted units while there are more than `most`.
    pub fn shrink(&mut self, most: usize, is_unit: impl Fn(&UnitName) -> bool) {
        let over = self.newest.len().saturating_sub(most);
        if over == 0 {
            return;
        }
        let gone = self.newest.iter().filter(|(name, _)| !is_unit(name));
        let mut gone: Vec<(u64, UnitName)> =
            gone.map(|(name, serial)| (*serial, name.clone())).collect();
        gone.sort();
        for (serial, name) in gone.into_iter().take(over) {
            self.floor = self.floor.max(serial);
            self.newest.remove(&name);
        }
    }
}

/// See the head of the module.
#[derive(Clone, Debug)]
pub struct Trust {
    cluster: String,
    keys: Arc<TrustedKeys>,
    serials: Serials,
    /// Checked units, and whether a trusted key signed them.
    checked: BTreeMap<UnitName, (Arc<Content>, bool)>,
}

impl Trust {
    /// Creates the trust of a cluster with saved serials.
    pub fn new(cluster: &str, keys: Arc<TrustedKeys>, serials: Serials) -> Trust {
        Trust { cluster: cluster.to_string(), keys, serials, checked: BTreeMap::new() }
    }

    /// Replaces the trusted keys.
    pub fn set_keys(&mut self, keys: Arc<TrustedKeys>) {
        if keys != self.keys {
            self.keys = keys;
            self.checked.clear();
        }
    }

    /// The newest serials.
    pub fn serials(&self) -> &Serials {
        &self.serials
    }

    /// Records the serials of all signed units. The caller saves the returned new ones before it
    /// acts on them.
    pub fn observe(&mut self, snapshot: &Snapshot) -> Vec<(UnitName, u64)> {
        self.checked.retain(|name, _| snapshot.units.contains_key(name));
        let mut news = Vec::new();
        for (name, kept) in &snapshot.units {
            let Some(signature) = &kept.record.signature else { continue };
            if self.is_verified(name, &kept.record) && self.serials.raise(name, signature.serial) {
                news.push((name.clone(), signature.serial));
            }
        }
        self.serials.shrink(MOST_NAMES, |name| snapshot.units.contains_key(name));
        news
    }

    /// Checks the signature, regardless of its age.
    ///
    /// # Errors
    /// Why the unit is not run here.
    pub fn verify(&mut self, name: &UnitName, content: &Arc<Content>) -> Result<u64, String> {
        let Some(signature) = &content.signature else {
            return Err("it is not signed, and this machine runs only signed units".to_string());
        };
        if !self.is_verified(name, content) {
            return Err(
                "its signature is not by a key trusted here, or is for another file, name, \
                        serial or cluster"
                    .to_string(),
            );
        }
        Ok(signature.serial)
    }

    /// Checks the signature and its age.
    ///
    /// # Errors
    /// Why the unit is not run here.
    pub fn judge(&mut self, name: &UnitName, content: &Arc<Content>) -> Result<(), String> {
        let (serial, least) = (self.verify(name, content)?, self.serials.least(name));
        if serial < least && !planted(Mutant::OldSignatureRuns) {
            return Err(format!(
                "its signature is outdated: serial {serial} is older than {least}, seen before"
            ));
        }
        Ok(())
    }

    fn is_verified(&mut self, name: &UnitName, content: &Arc<Content>) -> bool {
        let Some(signature) = &content.signature else { return false };
        if let Some((seen, good)) = self.checked.get(name)
            && Arc::ptr_eq(seen, content)
        {
            return *good;
        }
        let good = self.keys.verify(&self.cluster, name, &content.file, signature);
        self.checked.insert(name.clone(), (content.clone(), good));
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Keys, Subject};
    use crate::record::{UnitRecord, encode};
    use crate::signature::SigningKey;
    use crate::transaction::{Change, Entry};
    use crate::unit_file::UnitFile;
    use proptest::prelude::*;

    // Made for this test with `openssl genpkey -algorithm ed25519`, and the public part of the
    // first.
    const KEYS: [&[u8]; 2] = [
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEJqVZE9NvkxFWZbMJO4F8sMz9MkvYVK46Qy5TU0KXMX\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIFa7/3kqpPbrUgFX0SdQUH1o/VGWC95hQjukHnVxCIlq\n-----END PRIVATE KEY-----\n",
    ];
    const PUBLIC: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc+bZxG+m8G8u6F3FKfGDIeduWwLGycWvFzzWffEggSg=\n-----END PUBLIC KEY-----\n";

    fn unit(n: usize) -> UnitName {
        UnitName::new(&format!("u{n}.service")).unwrap()
    }

    fn file(n: usize) -> UnitFile {
        UnitFile::parse(&format!("[Service]\nExecStart=/bin/{n}\n")).unwrap()
    }

    /// A write to etcd: a file under a name, with a signature by a key for a file, name and serial.
    #[derive(Clone, Debug)]
    struct SignedWrite {
        written: (usize, usize),
        signed: (usize, usize),
        serial: u64,
        key: usize,
        bare: bool,
    }

    prop_compose! {
        fn signed_writes()(written in (0..2_usize, 0..2_usize), signed in (0..2_usize, 0..2_usize), honest in any::<bool>(), serial in 1..7_u64, key in 0..8_usize, bare in 0..8_u8) -> SignedWrite {
            let signed = if honest { written } else { signed };
            SignedWrite { written, signed, serial, key: usize::from(key == 7), bare: bare == 7 }
        }
    }

    proptest! {
        #[test]
        fn file_runs_only_with_a_valid_signature_and_the_newest_serial(all in prop::collection::vec(signed_writes(), 1..24), again in 0..24_usize) {
            let signing = KEYS.map(|key| SigningKey::of(key, "c").unwrap());
            let trusted = Arc::new(TrustedKeys::of(PUBLIC).unwrap());
            let keys = Keys::under("/p");
            let mut snapshot = Snapshot::new(keys.clone());
            let mut trust = Trust::new("c", trusted.clone(), Serials::default());
            // Reference model: the newest serial of each name that the trusted key has signed.
            let mut newest: BTreeMap<usize, u64> = BTreeMap::new();
            for (at, write) in all.iter().enumerate() {
                let (name, text) = write.written;
                let signature = signing[write.key].sign(&unit(write.signed.0), &file(write.signed.1), write.serial);
                let signature = Some(signature).filter(|_| !write.bare);
                let record = UnitRecord { options: file(text), signature };
                let revision = i64::try_from(at).unwrap() + 1;
                let key = keys.of(&Subject::Unit(unit(name)));
                let entry = Entry { key, value: encode(&record), created: revision, modified: revision, lease: 0 };
                snapshot.apply(&Change::Put(entry));
                if at == again {
                    // fleetd restarts with its saved serials.
                    trust = Trust::new("c", trusted.clone(), trust.serials().clone());
                }
                trust.observe(&snapshot);
                let good = !write.bare && write.key == 0 && write.signed == write.written;
                let least = newest.get(&name).copied().unwrap_or_default();
                if good {
                    newest.insert(name, least.max(write.serial));
                }
                let content = &snapshot.units[&unit(name)].record.clone();
                prop_assert_eq!(trust.judge(&unit(name), content).is_ok(), good && write.serial >= least);
            }
        }
    }

    #[test]
    fn forgotten_serial_is_not_accepted_again() {
        let name = |n: usize| UnitName::new(&format!("u{n}.service")).unwrap();
        let mut serials = Serials::default();
        for n in 0..10 {
            assert!(serials.raise(&name(n), 100 + n as u64));
            assert!(!serials.raise(&name(n), 50), "an older serial is not new");
        }
        serials.shrink(4, |unit| *unit == name(0));
        assert_eq!(serials.newest().len(), 4);
        assert_eq!(serials.least(&name(0)), 100, "an existing unit is never forgotten");
        assert_eq!((serials.floor(), serials.least(&name(3))), (106, 107));
        assert_eq!(serials.least(&name(99)), 107, "the floor applies to unknown names");
        for old in [103, 106] {
            assert!(!serials.raise(&name(3), old), "a serial below the floor is not new");
            assert_eq!(serials.least(&name(3)), 107, "a serial below the floor is not recorded");
        }
        assert!(serials.raise(&name(3), 107));
        assert_eq!(serials.least(&name(3)), 107);
        serials.shrink(4, |unit| *unit == name(0) || *unit == name(3));
        serials.shrink(0, |_| true);
        assert_eq!(serials.newest().len(), 4);
    }
}

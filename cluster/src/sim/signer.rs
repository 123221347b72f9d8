//! Signers in a simulated cluster that requires signatures, and what machines have seen.
//! [`crate::trust`] checks signatures; this module knows the true signers.

use crate::fleetd::trusted_keys::TrustKeeper;
use crate::signature::{Signature, SigningKey, TrustedKeys};
use crate::sim::world::{Shared, World, lock};
use crate::snapshot::Content;
use crate::trust::{Serials, Trust};
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// `cluster_name`
const CLUSTER: &str = "s";
/// Made for the simulation with `openssl genpkey -algorithm ed25519`.
const OURS: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIKhTrK9uQMAgWN3vRcoe8YMHZ37lRiTEAB9WhQMd5HAj\n-----END PRIVATE KEY-----\n";
/// The public part of it.
const TRUSTED: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA3OklpE9cy3KY3YbIeK1duITXrcDkmzogsEQjZtqZoJY=\n-----END PUBLIC KEY-----\n";
/// An untrusted key.
const STRANGERS: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIMv32lv/Oxz08IGgz2ec2DD8Utdym3LybvSJjL6blvtw\n-----END PRIVATE KEY-----\n";

/// The signer of a unit's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signer {
    /// The trusted key.
    Ours,
    /// An untrusted key.
    Stranger,
    /// The trusted key, for another unit's file.
    OfAnother,
    /// No signature.
    None,
}

impl Signer {
    /// Returns the signature of this signer.
    pub(super) fn sign(self, name: &UnitName, file: &UnitFile, serial: u64) -> Option<Signature> {
        let key = if self == Signer::Stranger { STRANGERS } else { OURS };
        let key = SigningKey::of(key, CLUSTER).ok()?;
        match self {
            Signer::None => None,
            Signer::Ours | Signer::Stranger => Some(key.sign(name, file, serial)),
            Signer::OfAnother => Some(key.sign(&UnitName::new("z.service").ok()?, file, serial)),
        }
    }
}

/// Recorded signatures and serials.
#[derive(Default)]
pub struct Signed {
    /// Signatures by the trusted key, by name and text.
    good: BTreeMap<(UnitName, String), Vec<Signature>>,
    /// The newest serial of each name that a machine has run or must have seen.
    pub seen: BTreeMap<(usize, UnitName), u64>,
    /// The serials that machines save across restarts of fleetd.
    kept: BTreeMap<usize, Serials>,
}

impl Signed {
    /// Returns the newest serial that is valid for the file.
    pub fn newest(&self, name: &UnitName, text: &str) -> Option<u64> {
        self.of(name, text).iter().map(|one| one.serial).max()
    }

    fn of(&self, name: &UnitName, text: &str) -> &[Signature] {
        self.good.get(&(name.clone(), text.to_string())).map_or(&[], Vec::as_slice)
    }

    /// Returns true if the trusted key made the signature. A stranger may use the same serial.
    fn is_good(&self, name: &UnitName, content: &Content) -> bool {
        let signature = content.signature.as_ref();
        signature.is_some_and(|one| self.of(name, &content.file.text()).contains(one))
    }

    /// Returns the newest serial of the name, for any text.
    fn newest_of(&self, name: &UnitName) -> Option<u64> {
        let own = self.good.iter().filter(|((signed, _), _)| signed == name);
        own.flat_map(|(_, signatures)| signatures).map(|one| one.serial).max()
    }
}

/// Time after which a machine without faults has seen a write.
const SEEN: Duration = Duration::from_secs(8);

impl World {
    /// Records a signature.
    pub(super) fn note_signature(
        &mut self,
        by: Signer,
        name: &UnitName,
        text: String,
        signature: Option<&Signature>,
    ) {
        self.coverage.count(if by == Signer::Ours { "unit signed" } else { "unit wrongly signed" });
        if let Some(signature) = signature.filter(|_| by == Signer::Ours) {
            let good = self.book.signed.good.entry((name.clone(), text)).or_default();
            good.push(signature.clone());
        }
    }

    /// Returns true if the unit's present signature is valid and the newest of its name.
    pub fn is_well_signed(&self, name: &UnitName) -> bool {
        let Some(content) = self.truth.units.get(name).map(|kept| &kept.record) else {
            return false;
        };
        let serial = content.signature.as_ref().map(|signature| signature.serial);
        let signed = &self.book.signed;
        signed.is_good(name, content) && serial == signed.newest_of(name)
    }

    /// Records the serials that machines must have seen by now.
    pub fn note_signed(&mut self) {
        if !self.plan.signed || self.book.last_write + SEEN > self.now {
            return;
        }
        let units = self.truth.units.iter();
        let serials: Vec<(UnitName, u64)> = units
            .filter_map(|(name, kept)| {
                let serial = kept.record.signature.as_ref()?.serial;
                let good = self.book.signed.is_good(name, &kept.record);
                good.then(|| (name.clone(), serial))
            })
            .collect();
        for machine in 0..self.machines.len() {
            if !self.is_calm(machine, SEEN) {
                continue;
            }
            for (name, serial) in &serials {
                let seen = self.book.signed.seen.entry((machine, name.clone())).or_default();
                *seen = (*seen).max(*serial);
            }
        }
    }

    /// Records the serials of the files that a machine runs.
    pub(super) fn run_signed(&mut self, machine: usize, files: &BTreeMap<String, String>) {
        for (file, text) in files {
            let Ok(name) = UnitName::new(file) else { continue };
            let Some(newest) = self.book.signed.newest(&name, text) else { continue };
            // With several signatures of one text, it is unknown which one the machine saw.
            let good = self.book.signed.of(&name, text).iter();
            let least = good.map(|one| one.serial).min().unwrap_or(newest);
            let seen = self.book.signed.seen.entry((machine, name)).or_default();
            *seen = (*seen).max(least);
        }
    }
}

/// Returns the trust of a machine, if signatures are required.
pub(super) fn trust_keeper(shared: &Shared, machine: usize) -> Option<TrustKeeper> {
    let world = lock(shared);
    if !world.plan.signed {
        return None;
    }
    let keys = Arc::new(TrustedKeys::of(TRUSTED).ok()?);
    let serials = world.book.signed.kept.get(&machine).cloned().unwrap_or_default();
    let (trust, shared) = (Trust::new(CLUSTER, keys.clone(), serials), shared.clone());
    let keep = move |all: &Serials| {
        lock(&shared).book.signed.kept.insert(machine, all.clone());
    };
    Some(TrustKeeper::kept_by(trust, keys, Box::new(keep)))
}

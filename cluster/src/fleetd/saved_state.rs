//! Saves the cluster id, its revision and the machine's units in fleetd's runtime directory while
//! units run.
//! A restarted fleetd thus judges its first reading as its predecessor would
//! ([`crate::snapshot::Snapshot::doubt`], [`crate::suspicious_read_guard`]). Otherwise a wrong
//! prefix, or a foreign, emptied or restored etcd would stop all units.

use super::config::Config;
use super::identity::Identity;
use crate::agent::{self, Goal, Wanted};
use crate::desired::Desired;
use crate::fence::ClaimValidity;
use crate::log;
use crate::machine::MachineId;
use crate::record::UnitRecord;
use crate::snapshot::{Content, Known, Snapshot};
use crate::unit_name::UnitName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file in the parent folder of `units_directory`. An operator who removes it and restarts
/// fleetd accepts whatever etcd contains.
pub const FILE: &str = "cluster";
/// The file with the units: JSON, from names to [`UnitRecord`]s. It is valid only together with
/// [`FILE`].
const RAN: &str = "ran";

/// The file with the claims: JSON, valid only together with the other two.
const HELD: &str = "held";

/// The claims of the exclusive units that run here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The claimed units.
    pub units: BTreeSet<UnitName>,
    /// The lease of the claims.
    pub lease: i64,
    /// The last proof of that lease, as time since boot.
    pub proof: Option<Duration>,
    /// The granted time of the lease; `None` from an older fleetd.
    #[serde(default)]
    pub ttl: Option<Duration>,
    /// Units whose claim may still be under an earlier lease, with its validity.
    #[serde(default)]
    pub earlier: BTreeMap<UnitName, ClaimValidity>,
}

/// The state that a fleetd saves for the next one on the same machine.
#[derive(Clone, Debug, Default)]
pub struct SavedState {
    /// The cluster.
    pub known: Option<Known>,
    /// The units that belonged here and were not refused.
    pub ran: Goal,
    /// The claims among them.
    pub held: Held,
    /// The units that kept running without a trace in etcd.
    pub withheld: BTreeSet<UnitName>,
    /// File hashes that running units were started with, where they differ from the units' current
    /// files.
    pub running: BTreeMap<UnitName, String>,
}

#[derive(Serialize, Deserialize)]
struct RanRecord {
    #[serde(flatten)]
    unit: UnitRecord,
    #[serde(default = "launched")]
    desired: Desired,
    #[serde(default)]
    withheld: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    running: Option<String>,
}

/// The default for records of an older fleetd.
fn launched() -> Desired {
    Desired::Launched
}

#[derive(Serialize, Deserialize)]
struct HeldRecord {
    boot: String,
    held: Held,
}

impl SavedState {
    /// Returns the state to save for a goal and its snapshot, or `None` if the machine is in no
    /// cluster.
    pub fn of(snapshot: &Snapshot, goal: Goal) -> Option<SavedState> {
        let ran: Goal = goal.into_iter().filter(|(_, one)| one.refusal.is_none()).collect();
        let withheld = snapshot.withheld.iter().filter(|name| ran.contains_key(*name)).cloned();
        let withheld = withheld.collect();
        Some(SavedState { known: Some(snapshot.known()?), ran, withheld, ..SavedState::default() })
    }

    /// Returns the state to save for a later snapshot on which the machine has not acted. It leaves
    /// out new units, which were not checked and do not run here.
    pub fn later(snapshot: &Snapshot, me: &MachineId, goal: &Goal) -> Option<SavedState> {
        let now = agent::goal(snapshot, me, goal);
        let stays = goal.iter().filter(|(name, _)| now.contains_key(*name));
        SavedState::of(snapshot, stays.map(|(name, one)| (name.clone(), one.clone())).collect())
    }

    /// Returns true if the units, their states and their started files are the same.
    pub fn has_same_units(&self, other: &SavedState) -> bool {
        let what = |of: &SavedState| {
            let one = |(name, one): (&UnitName, &Wanted)| {
                (name.clone(), one.desired, one.content.clone())
            };
            of.ran.iter().map(one).collect::<Vec<_>>()
        };
        what(self) == what(other)
            && self.withheld == other.withheld
            && self.running == other.running
    }
}

/// Saves the state for the next fleetd.
pub type Keep = Box<dyn FnMut(&SavedState) + Send>;

/// The files of the saved state.
#[derive(Clone)]
pub struct StateFiles {
    folder: PathBuf,
    boot: String,
}

impl StateFiles {
    /// The files of a machine.
    pub fn of(config: &Config, identity: &Identity) -> StateFiles {
        let folder = config.units_directory.parent().unwrap_or(&config.units_directory);
        StateFiles { folder: folder.to_path_buf(), boot: identity.boot.clone() }
    }

    /// Reads the state that was saved in this boot. If no unit ran, returns nothing: the machine
    /// may then join any cluster.
    pub fn recall(&self) -> SavedState {
        let known = self.known();
        let ran = known.as_ref().and_then(|_| self.ran());
        if ran.as_ref().is_some_and(|ran| ran.ran.is_empty()) {
            return SavedState::default();
        }
        // Without the units, fleetd does not know which of them to keep when it gives claims up.
        let held = ran.as_ref().and_then(|_| self.held()).unwrap_or_default();
        SavedState { known, held, ..ran.unwrap_or_default() }
    }

    fn held(&self) -> Option<Held> {
        let text = std::fs::read(self.folder.join(HELD)).ok()?;
        let record: HeldRecord = serde_json::from_slice(&text).ok()?;
        (record.boot == self.boot).then_some(record.held)
    }

    fn known(&self) -> Option<Known> {
        let text = std::fs::read_to_string(self.folder.join(FILE)).ok()?;
        let mut words = text.strip_suffix('\n')?.split(' ');
        let (boot, revision, id) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        (boot == self.boot && words.next().is_none() && !id.is_empty())
            .then(|| Known { cluster: id.to_string(), revision })
    }

    /// Returns the saved units; init knows whether they still run.
    fn ran(&self) -> Option<SavedState> {
        let text = std::fs::read(self.folder.join(RAN)).ok()?;
        let units: BTreeMap<UnitName, RanRecord> = serde_json::from_slice(&text).ok()?;
        let mut all = SavedState::default();
        for (name, RanRecord { unit, desired, withheld, running }) in units {
            let content = Content::of(&name, unit.options).signed(unit.signature);
            let refusal = agent::refusal(&name, &content.file);
            let content = Arc::new(content);
            if withheld {
                all.withheld.insert(name.clone());
            }
            all.running.extend(running.map(|hash| (name.clone(), hash)));
            all.ran.insert(name, Wanted { content, desired, refusal });
        }
        Some(all)
    }

    /// Deletes the files, once the machine has left the cluster and nothing runs.
    pub fn forget(&self) {
        for name in [FILE, RAN, HELD] {
            let removed = std::fs::remove_file(self.folder.join(name));
            if let Err(error) = removed
                && error.kind() != std::io::ErrorKind::NotFound
            {
                log::error(format_args!(
                    "cannot remove {}: {error}",
                    self.folder.join(name).display()
                ));
            }
        }
    }

    /// Returns a function that saves each new state.
    pub fn keeper(self) -> Keep {
        let mut kept = self.recall();
        let mut fault = String::new();
        Box::new(move |next| {
            let units_changed = !kept.has_same_units(next) || !fault.is_empty();
            let claims_changed = kept.held != next.held || !fault.is_empty();
            let written = self.write(next, units_changed, claims_changed);
            let error = written.err().map(|error| error.to_string()).unwrap_or_default();
            if !error.is_empty() && error != fault {
                log::error(format_args!(
                    "cannot save the state for the next fleetd in {}: {error}",
                    self.folder.display()
                ));
            }
            fault = error;
            kept = next.clone();
        })
    }

    fn write(
        &self,
        state: &SavedState,
        units_changed: bool,
        claims_changed: bool,
    ) -> std::io::Result<()> {
        std::fs::create_dir_all(&self.folder)?;
        if units_changed {
            let record = |(name, one): (&UnitName, &Wanted)| {
                let Content { file, signature, .. } = &*one.content;
                let unit = UnitRecord { options: file.clone(), signature: signature.clone() };
                let withheld = state.withheld.contains(name);
                let running = state.running.get(name).cloned();
                (name.clone(), RanRecord { unit, desired: one.desired, withheld, running })
            };
            let units: BTreeMap<UnitName, RanRecord> = state.ran.iter().map(record).collect();
            self.replace(RAN, &serde_json::to_vec(&units)?)?;
        }
        if claims_changed {
            let record = HeldRecord { boot: self.boot.clone(), held: state.held.clone() };
            self.replace(HELD, &serde_json::to_vec(&record)?)?;
        }
        let Some(known) = &state.known else { return Ok(()) };
        let line = format!("{} {} {}\n", self.boot, known.revision, known.cluster);
        self.replace(FILE, line.as_bytes())
    }

    /// Writes a file that only its owner may read: units may contain secrets.
    fn replace(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let fresh = self.folder.join(format!("{name}.new"));
        let mut options = std::fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        std::fs::rename(&fresh, self.folder.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_file::UnitFile;

    #[test]
    fn saved_units_are_recalled_only_in_the_same_boot_and_with_the_cluster_file() {
        let folder = std::env::temp_dir().join(format!("fleet-ran.{}", std::process::id()));
        let of = |boot: &str| StateFiles { folder: folder.clone(), boot: boot.to_string() };
        let name = UnitName::new("a.service").unwrap();
        let file = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let content = Arc::new(Content::of(&name, file));
        let one = Wanted { content, desired: Desired::Launched, refusal: None };
        let known = Some(Known { cluster: "c".to_string(), revision: 7 });
        let held = Held {
            units: BTreeSet::from([name.clone()]),
            lease: i64::MAX,
            proof: Some(Duration::from_millis(12_345)),
            ttl: Some(Duration::from_secs(6)),
            earlier: BTreeMap::from([(
                name.clone(),
                ClaimValidity { proof: None, ttl: Duration::ZERO },
            )]),
        };
        let idle = Wanted { desired: Desired::Loaded, ..one.clone() };
        let withheld = BTreeSet::from([name.clone()]);
        let running = BTreeMap::from([(name.clone(), "0a".to_string())]);
        let ran = Goal::from([(name, one), (UnitName::new("b.service").unwrap(), idle)]);
        let recalled = SavedState { known, ran, held, withheld, running };
        of("now").write(&recalled, true, true).unwrap();
        let found = of("now").recall();
        assert_eq!((&found.known, &found.ran), (&recalled.known, &recalled.ran));
        assert_eq!((&found.held, &found.withheld), (&recalled.held, &recalled.withheld));
        assert_eq!(found.running, recalled.running);
        let later = of("later").recall();
        assert!(later.ran.is_empty(), "no unit of another boot runs");
        assert_eq!(later.held, Held::default());
        std::fs::remove_file(folder.join(FILE)).unwrap();
        assert!(of("now").recall().ran.is_empty(), "without the file the machine accepts any etcd");
        of("now").write(&recalled, true, true).unwrap();
        of("now").forget();
        assert_eq!(
            std::fs::read_dir(&folder).unwrap().count(),
            0,
            "a machine that left keeps no files"
        );
        of("now").forget();
        let idle = SavedState { known: recalled.known, ..SavedState::default() };
        of("now").write(&idle, true, true).unwrap();
        assert!(of("now").recall().known.is_none(), "no unit runs that another cluster could stop");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! The values behind the keys: JSON with a version, small, each telling one fact. A
//! value that can not be read is that key's fault alone: it is told and passed over,
//! never taken for an absence.

use crate::desired::Desired;
use crate::machine::MachineId;
use crate::signature::Signature;
use crate::unit_file::UnitFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What we write, and the newest we read.
pub const VERSION: u32 = 1;
/// Bytes a value may have.
pub const LARGEST: usize = 1024 * 1024;

/// A value that is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// Over [`LARGEST`].
    TooLarge(usize),
    /// Not the JSON it should be; why.
    Malformed(String),
    /// Written by a newer version of the cluster.
    Newer(u32),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::TooLarge(bytes) => write!(f, "{bytes} bytes, the most is {LARGEST}"),
            RecordError::Malformed(why) => f.write_str(why),
            RecordError::Newer(version) => {
                write!(f, "format {version}, newer than ours ({VERSION})")
            }
        }
    }
}

impl std::error::Error for RecordError {}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    v: u32,
    #[serde(flatten)]
    record: T,
}

/// As it is written.
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    // A record of strings and numbers is always JSON.
    serde_json::to_vec(&Versioned { v: VERSION, record }).unwrap_or_default()
}

/// # Errors
/// It is too large, no record of this kind, or of a newer version.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    if bytes.len() > LARGEST {
        return Err(RecordError::TooLarge(bytes.len()));
    }
    let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
    let version: Version = serde_json::from_slice(bytes).map_err(malformed)?;
    if version.v > VERSION {
        return Err(RecordError::Newer(version.v));
    }
    let versioned: Versioned<T> = serde_json::from_slice(bytes).map_err(malformed)?;
    Ok(versioned.record)
}

/// `cluster`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// Unlike any other's.
    pub id: String,
}

/// `leader`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The machine whose engine decides.
    pub machine: MachineId,
}

/// `unit/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// The file, in the order the options came.
    pub options: UnitFile,
    /// Who answers for it, where somebody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// `desired/NAME`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredRecord {
    /// What is wished.
    pub desired: Desired,
}

/// `place/NAME` and `claim/MACHINE/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// Where it is.
    pub machine: MachineId,
}

/// `schedule/MACHINE/NAME` and `global/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// What is wished.
    pub desired: Desired,
    /// Of the file; the machine fetches it when it has another.
    pub hash: String,
    /// Of a global unit whose file is rolled out: the machines that take it. The others keep the one
    /// they have. `None`: all take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<BTreeSet<MachineId>>,
    /// What stood there before that, to be given back where the rollout fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<UnitRecord>,
}

impl ScheduleRecord {
    /// For whoever reads it.
    pub fn new(desired: Desired, hash: String) -> ScheduleRecord {
        ScheduleRecord { desired, hash, first: None, before: None }
    }
}

/// `why/NAME`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyRecord {
    /// In one sentence.
    pub text: String,
    /// Each machine's reason, the first [`WhyRecord::MACHINES`] of them.
    pub machines: BTreeMap<MachineId, String>,
}

impl WhyRecord {
    /// Machines it names; a cluster of a thousand need not be spelled out for each unit.
    pub const MACHINES: usize = 32;

    /// How many more of so many there are than are named, in words behind a sentence.
    pub fn beyond(count: usize) -> String {
        match count.checked_sub(WhyRecord::MACHINES) {
            None | Some(0) => String::new(),
            Some(more) => format!(" ({} of them are named, and {more} more)", WhyRecord::MACHINES),
        }
    }
}

/// `machine/ID`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// Where the others reach it; empty when it does not say.
    pub ip: String,
    /// What it says of itself.
    pub metadata: BTreeMap<String, String>,
    /// One run of the machine; from the kernel.
    pub boot: String,
    /// Made at random once a boot and kept in the runtime directory: tells a restarted fleetd
    /// from a second machine with the same id.
    pub instance: String,
    /// Made at random once and kept on the machine's disk: tells a machine that was booted anew
    /// from another one with the same id. Copies of a disk share it; `None`: it is kept nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Of fleetd.
    pub version: String,
    /// `ADDRESS:PORT` of its API over TLS, when it has one.
    #[serde(default)]
    pub listen: Option<String>,
}

/// `claim/MACHINE/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// Who may run it.
    pub machine: MachineId,
    /// Of the machine's key when it was claimed; `None`: it does not say.
    #[serde(default)]
    pub instance: Option<String>,
}

/// `metadata/ID/KEY`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataRecord {
    /// `None` hides what the machine says.
    pub value: Option<String>,
}

/// `drain/ID`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {}

/// `state/MACHINE/NAME`: in the words of systemd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Of the file that runs.
    pub hash: String,
    /// `loaded`, `not-found`, `error`, `masked`.
    pub load: String,
    /// `active`, `failed`…
    pub active: String,
    /// `running`, `dead`…
    pub sub: String,
    /// How far the machine has come with what it was told.
    pub reached: Desired,
    /// What is wrong, in words, where something is.
    #[serde(default)]
    pub reason: Option<String>,
    /// What came of it, where it is inactive and does not wait for anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Its present run, by the number that init gave it: each start has another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

/// Why nobody needs to wait for a unit that is to run and is `inactive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// It has run, and that went well.
    Done,
    /// One of its conditions is not met.
    Skipped,
    /// What it needs has failed, or is not there.
    Failed,
}

impl Ended {
    /// As clients are told.
    pub fn as_str(self) -> &'static str {
        match self {
            Ended::Done => "done",
            Ended::Skipped => "skipped",
            Ended::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back() {
        let unit = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let record = UnitRecord { options: unit, signature: None };
        assert_eq!(decode::<UnitRecord>(&encode(&record)), Ok(record));
        let desired = DesiredRecord { desired: Desired::Launched };
        assert_eq!(encode(&desired), br#"{"v":1,"desired":"launched"}"#);
    }

    #[test]
    fn a_value_that_is_none_is_told_apart_from_an_absence() {
        let read = |bytes: &[u8]| decode::<DesiredRecord>(bytes).unwrap_err();
        assert!(matches!(read(b"{"), RecordError::Malformed(_)));
        assert!(matches!(read(br#"{"v":1,"desired":"flying"}"#), RecordError::Malformed(_)));
        assert_eq!(read(br#"{"v":2,"desired":{}}"#), RecordError::Newer(2));
        assert!(matches!(read(&vec![b' '; LARGEST + 1]), RecordError::TooLarge(_)));
    }

    #[test]
    fn unknown_fields_of_our_version_do_not_hurt() {
        let read = decode::<DesiredRecord>(br#"{"v":1,"desired":"loaded","new":[1]}"#);
        assert_eq!(read.map(|record| record.desired), Ok(Desired::Loaded));
    }
}

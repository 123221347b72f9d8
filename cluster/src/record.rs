//! The values of the keys: small versioned JSON records, one fact each.
//! An unreadable value affects only its own key. It is reported and skipped, and never treated as
//! absent.

use crate::desired::Desired;
use crate::machine::MachineId;
use crate::signature::Signature;
use crate::unit_file::UnitFile;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The version that is written, and the newest that is read.
pub const VERSION: u32 = 1;
/// Maximum size of a value in bytes.
pub const LARGEST: usize = 1024 * 1024;

/// Why a value cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// The value exceeds [`LARGEST`].
    TooLarge(usize),
    /// The value is not the expected JSON, with the reason.
    Malformed(String),
    /// A newer version of the cluster wrote the value.
    Newer(u32),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::TooLarge(bytes) => {
                write!(f, "{bytes} bytes, more than the limit of {LARGEST}")
            }
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

/// Encodes a record.
pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    // A record of strings and numbers always encodes.
    serde_json::to_vec(&Versioned { v: VERSION, record }).unwrap_or_default()
}

/// Decodes a record.
///
/// # Errors
/// The value is too large, not a record of this kind, or of a newer version.
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
    /// Unique id of the cluster.
    pub id: String,
}

/// `leader`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// The leading machine.
    pub machine: MachineId,
}

/// `unit/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitRecord {
    /// The file, with its options in their original order.
    pub options: UnitFile,
    /// The signature, if the unit is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// `desired/NAME`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredRecord {
    /// The desired state.
    pub desired: Desired,
}

/// `place/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceRecord {
    /// The machine.
    pub machine: MachineId,
}

/// `schedule/MACHINE/NAME` and `global/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// The desired state.
    pub desired: Desired,
    /// Hash of the file. While `unit/NAME` has another file, the unit stays as it is on its machine.
    pub hash: String,
    /// Of a global unit in a rollout: the machines that take the file. The others keep theirs.
    /// `None` if all machines take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<BTreeSet<MachineId>>,
    /// The previous file, restored if the rollout fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<UnitRecord>,
}

impl ScheduleRecord {
    /// A record for all machines.
    pub fn new(desired: Desired, hash: String) -> ScheduleRecord {
        ScheduleRecord { desired, hash, first: None, before: None }
    }
}

/// `why/NAME`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyRecord {
    /// The reason in one sentence.
    pub text: String,
    /// Each machine's reason; at most [`WhyRecord::MACHINES`] entries.
    pub machines: BTreeMap<MachineId, String>,
}

impl WhyRecord {
    /// Maximum number of machines in the record, to bound its size in a large cluster.
    pub const MACHINES: usize = 32;

    /// Returns a suffix for the sentence that tells how many machines are not listed.
    pub fn beyond(count: usize) -> String {
        match count.checked_sub(WhyRecord::MACHINES) {
            None | Some(0) => String::new(),
            Some(more) => format!(" ({} of them are listed, {more} are not)", WhyRecord::MACHINES),
        }
    }
}

/// `machine/ID`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineRecord {
    /// The address for other machines; empty if unknown.
    pub ip: String,
    /// The machine's own metadata.
    pub metadata: BTreeMap<String, String>,
    /// Boot id from the kernel; identifies one run of the machine.
    pub boot: String,
    /// Random id, created once per boot in the runtime directory. It tells a restarted fleetd from
    /// a second machine with the same id.
    pub instance: String,
    /// Random id, created once on the machine's disk. It tells a rebooted machine from another one
    /// with the same id. Copies of a disk share it. `None` if it is not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Version of fleetd.
    pub version: String,
    /// `ADDRESS:PORT` of its API over TLS, if enabled.
    #[serde(default)]
    pub listen: Option<String>,
}

/// `claim/MACHINE/NAME`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The machine that may run the unit.
    pub machine: MachineId,
    /// `instance` of the machine's key when it claimed the unit; `None` if not recorded.
    #[serde(default)]
    pub instance: Option<String>,
}

/// `metadata/ID/KEY`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataRecord {
    /// The value; `None` hides the machine's own value.
    pub value: Option<String>,
}

/// `drain/ID`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainRecord {}

/// `state/MACHINE/NAME`, in systemd's vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateRecord {
    /// Hash of the file that runs.
    pub hash: String,
    /// `loaded`, `not-found` or `error`.
    pub load: String,
    /// `active`, `failed`…
    pub active: String,
    /// `running`, `dead`…
    pub sub: String,
    /// How far the machine has applied the desired state.
    pub reached: Desired,
    /// The fault in words, if any.
    #[serde(default)]
    pub reason: Option<String>,
    /// The result, if the unit is inactive and waits for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// init's id of the current run; each start has another id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

/// The final result of a launched unit that is `inactive`, so that clients need not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// The unit has run and succeeded.
    Done,
    /// One of its conditions is not met.
    Skipped,
    /// A dependency has failed, is missing or is masked.
    Failed,
}

impl Ended {
    /// The word in the API.
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
    fn encoded_record_decodes_unchanged() {
        let unit = UnitFile::parse("[Service]\nExecStart=/bin/true\n").unwrap();
        let record = UnitRecord { options: unit, signature: None };
        assert_eq!(decode::<UnitRecord>(&encode(&record)), Ok(record));
        let desired = DesiredRecord { desired: Desired::Launched };
        assert_eq!(encode(&desired), br#"{"v":1,"desired":"launched"}"#);
    }

    #[test]
    fn unreadable_value_is_an_error_with_its_reason() {
        let read = |bytes: &[u8]| decode::<DesiredRecord>(bytes).unwrap_err();
        assert!(matches!(read(b"{"), RecordError::Malformed(_)));
        assert!(matches!(read(br#"{"v":1,"desired":"flying"}"#), RecordError::Malformed(_)));
        assert_eq!(read(br#"{"v":2,"desired":{}}"#), RecordError::Newer(2));
        assert!(matches!(read(&vec![b' '; LARGEST + 1]), RecordError::TooLarge(_)));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let read = decode::<DesiredRecord>(br#"{"v":1,"desired":"loaded","new":[1]}"#);
        assert_eq!(read.map(|record| record.desired), Ok(Desired::Loaded));
    }
}

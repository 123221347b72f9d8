//! The JSON entities of API v1, for `fleetd` and `fleetctl`. Fields are in alphabetical order and
//! empty fields are left out, because clients of fleet 1.0 compare bytes. [`crate::api`] defines
//! the requests.

use crate::signature::Signature;
use crate::unit_file::UnitOption;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A unit with its desired state and its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unit {
    /// The state its machine has reached; empty for a global unit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_state: String,
    /// `inactive`, `loaded` or `launched`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub desired_state: String,
    /// Its machine; empty if it has none or is a global unit.
    #[serde(rename = "machineID", skip_serializing_if = "String::is_empty")]
    pub machine_id: String,
    /// `NAME.TYPE`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<UnitOption>,
    /// Its signature; left out if unsigned. An extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// PUT of a global unit: the machines that take this file now; the others keep theirs. An empty
    /// list means all. An extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Vec<String>>,
    /// PUT: the hash of the file that must still be stored; otherwise the server answers 412 and
    /// writes nothing. An extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// PUT: the desired state that must still be stored; otherwise the server answers 412 and
    /// writes nothing. An extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of_state: Option<String>,
    /// The file that a running rollout restores if it fails; ignored in a PUT. An extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// A previous unit file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Before {
    /// Its options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<UnitOption>,
    /// Its signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// One page of units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitPage {
    /// Token of the next page; empty on the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
    /// The units, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
}

/// The state of a unit on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitState {
    /// Result of a unit that is `inactive` and waits for nothing: `done`, `skipped`, `failed`. An
    /// extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
    /// SHA-1 of the file that runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// The machine.
    #[serde(rename = "machineID", skip_serializing_if = "String::is_empty")]
    pub machine_id: String,
    /// The unit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Id of the current run, unique on that machine. An extension.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// `active`, `failed`…
    #[serde(skip_serializing_if = "String::is_empty")]
    pub systemd_active_state: String,
    /// `loaded`, `error`…
    #[serde(skip_serializing_if = "String::is_empty")]
    pub systemd_load_state: String,
    /// `running`, `dead`…
    #[serde(skip_serializing_if = "String::is_empty")]
    pub systemd_sub_state: String,
}

/// Health of the daemon that answers. An extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Why programs outside the cluster may write to its etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub insecure: Vec<String>,
    /// `ok`
    pub status: String,
}

impl Default for Health {
    fn default() -> Health {
        Health { insecure: Vec::new(), status: "ok".to_string() }
    }
}

/// One page of states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitStatePage {
    /// True if programs outside the cluster may write to its etcd; left out if false or unknown. An
    /// extension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Token of the next page; empty on the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
    /// The states, by unit, then machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<UnitState>,
}

/// A machine of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// True if the machine is being drained; left out if false. An extension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// Its machine-id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Its own metadata merged with the operators' overrides.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The address for other machines.
    #[serde(rename = "primaryIP", skip_serializing_if = "String::is_empty")]
    pub primary_ip: String,
}

/// One page of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePage {
    /// The machines, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
    /// Token of the next page; empty on the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// The place of a unit with its reason, or why it has none. An extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Why {
    /// The store revision that created the unit; a re-created unit has another. 0 if unknown.
    pub created: i64,
    /// The state its machine has reached.
    pub current_state: String,
    /// The desired state.
    pub desired_state: String,
    /// Its machine; empty if it has none.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// Each machine's reason not to have the unit; for a global unit, its state or fault there.
    pub machines: BTreeMap<String, String>,
    /// The unit.
    pub name: String,
    /// Of a global unit: the number of machines that cannot have it because of their metadata or a
    /// unit they have.
    pub refusals: usize,
    /// The explanation in one sentence.
    pub text: String,
    /// True if the engine found no machine that may have the unit.
    pub unplaceable: bool,
}

/// A change. An extension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// True if the subject was removed.
    pub gone: bool,
    /// `unit`, `desired`, `place`, `why`, `claim`, `machine`, `metadata`, `drain`, `state`,
    /// `leader`; or `resync` if events may have been missed.
    pub kind: String,
    /// The machine, if the event is about one.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// The unit, if the event is about one.
    pub name: String,
    /// The store revision.
    pub revision: i64,
    /// The new value, in a word or a sentence.
    pub text: String,
}

/// An error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The HTTP status.
    pub code: u16,
    /// The message for users.
    #[serde(default)]
    pub message: String,
}

/// The body of every error answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorEntity {
    /// The error.
    pub error: Fault,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sorted_and_empty_ones_left_out() {
        let json = |unit: &Unit| serde_json::to_string(unit).unwrap();
        assert_eq!(json(&Unit::default()), "{}");
        let unit = Unit {
            current_state: "inactive".into(),
            desired_state: "launched".into(),
            machine_id: "m1".into(),
            name: "a.service".into(),
            options: vec![UnitOption::new("Service", "ExecStart", "/bin/true")],
            signature: None,
            machines: None,
            instead_of: None,
            instead_of_state: None,
            before: None,
        };
        assert_eq!(
            json(&unit),
            r#"{"currentState":"inactive","desiredState":"launched","machineID":"m1","name":"a.service","options":[{"name":"ExecStart","section":"Service","value":"/bin/true"}]}"#
        );
    }
}

//! What goes over the wire of API v1: the entities as JSON, for `fleetd` and `fleetctl`
//! alike. Fields stand in alphabetical order and empty ones are left out, because
//! clients of fleet 1.0 compare bytes. What a request may be is [`crate::api`]'s.

use crate::signature::Signature;
use crate::unit_file::UnitOption;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A unit: what is wished for it, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unit {
    /// How far its machine has come; empty for a global unit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub current_state: String,
    /// `inactive`, `loaded` or `launched`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub desired_state: String,
    /// Where it is; empty: nowhere, or a global unit.
    #[serde(rename = "machineID", skip_serializing_if = "String::is_empty")]
    pub machine_id: String,
    /// `NAME.TYPE`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<UnitOption>,
    /// Who answers for it; ours, and left out where nobody does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
    /// Of a global unit, in a PUT: the machines that take this file now, the others keep the one they
    /// have; none of them: all take it. Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<Vec<String>>,
    /// In a PUT: the hash of the file that is to stand there still; where it does not, nothing is written
    /// (412). Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<String>,
    /// The same of what is wished for it. Ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of_state: Option<String>,
    /// What a rollout that is under way gives back where it fails. Ours; in a PUT it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
}

/// A unit's file as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Before {
    /// Its options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<UnitOption>,
    /// Who answered for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<Signature>,
}

/// Units, as many as one answer has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitPage {
    /// Where the next page is; empty: this is the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
    /// By name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
}

/// What a unit is doing on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitState {
    /// Of one that is `inactive` and waits for nothing: `done`, `skipped`, `failed`. Ours.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ended: String,
    /// SHA-1 of the file that runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// Where.
    #[serde(rename = "machineID", skip_serializing_if = "String::is_empty")]
    pub machine_id: String,
    /// Of the unit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its present run, unlike any other on that machine. Ours.
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

/// How the daemon that answers fares; ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Why others than the cluster's own may write to its etcd.
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

/// States, as many as one answer has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UnitStatePage {
    /// Others than the cluster's own may write to its etcd; ours, and left out where that is
    /// not so, or not known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Where the next page is; empty: this is the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
    /// By unit, then machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<UnitState>,
}

/// A machine of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// It is being emptied; ours, and left out where it is not so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
    /// Its machine-id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What it says of itself, and what was laid over that.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Where the others reach it.
    #[serde(rename = "primaryIP", skip_serializing_if = "String::is_empty")]
    pub primary_ip: String,
}

/// Machines, as many as one answer has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachinePage {
    /// By id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
    /// Where the next page is; empty: this is the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next_page_token: String,
}

/// Where a unit is and why, or why it is nowhere; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Why {
    /// The revision of the store that made it: one that is made anew has another. 0: not known.
    pub created: i64,
    /// How far its machine has come.
    pub current_state: String,
    /// What is wished.
    pub desired_state: String,
    /// Where it is; empty: nowhere.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// Each machine's reason not to have it.
    pub machines: BTreeMap<String, String>,
    /// Of the unit.
    pub name: String,
    /// Of a global unit: machines that cannot have it, for their metadata or a unit they have.
    pub refusals: usize,
    /// In one sentence.
    pub text: String,
    /// The engine looked, and no machine can have it.
    pub unplaceable: bool,
}

/// What changed; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// It was removed.
    pub gone: bool,
    /// `unit`, `desired`, `place`, `why`, `claim`, `machine`, `metadata`, `drain`, `state`,
    /// `leader`; or `resync`: something may have been missed.
    pub kind: String,
    /// Which machine, where it is about one.
    #[serde(rename = "machineID")]
    pub machine_id: String,
    /// Which unit, where it is about one.
    pub name: String,
    /// Of the store.
    pub revision: i64,
    /// What it is now, in a word or a sentence.
    pub text: String,
}

/// What went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The HTTP status.
    pub code: u16,
    /// For people.
    #[serde(default)]
    pub message: String,
}

/// The body of every refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorEntity {
    /// What it says.
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

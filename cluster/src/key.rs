//! All etcd keys of the cluster. Every key is under the configured prefix and `v3/`;
//! [`crate::record`] defines the values.
//!
//! ```text
//! cluster                     the id of the cluster: written once, at its creation
//! leader                      the leading machine; bound to its lease
//! unit/NAME                   the unit file, as submitted
//! desired/NAME                inactive, loaded or launched
//! place/NAME                  the unit's machine; absent if it has none
//! schedule/MACHINE/NAME       the unit's desired state and file hash, for its machine
//! global/NAME                 the same of a wanted global unit, for every machine
//! why/NAME                    why the unit is on no machine
//! machine/ID                  a registered machine; bound to its lease
//! metadata/ID/KEY             overrides the machine's own metadata
//! drain/ID                    the machine is being drained
//! claim/MACHINE/NAME          the machine runs an exclusive unit; bound to its lease
//! state/MACHINE/NAME          the unit's state there; bound to the machine's lease
//! ```
//!
//! A machine writes only under its own id: `machine/ID`, `claim/ID/` and `state/ID/`. Engines and
//! the API write everything else. So etcd roles can keep a machine from writing for another
//! (`contrib/etcd-roles`).

use crate::machine::MachineId;
use crate::unit_name::UnitName;

/// The keys of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    root: String,
}

/// The meaning of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// `cluster`
    Cluster,
    /// `leader`
    Leader,
    /// `unit/…`
    Unit(UnitName),
    /// `desired/…`
    Desired(UnitName),
    /// `place/…`
    Place(UnitName),
    /// `schedule/…/…`
    Schedule(MachineId, UnitName),
    /// `global/…`
    Global(UnitName),
    /// `why/…`
    Why(UnitName),
    /// `claim/…/…`
    Claim(MachineId, UnitName),
    /// `machine/…`
    Machine(MachineId),
    /// `metadata/…/…`
    Metadata(MachineId, String),
    /// `drain/…`
    Drain(MachineId),
    /// `state/…/…`
    State(MachineId, UnitName),
}

impl Subject {
    /// Returns the subject of `metadata/ID/KEY`, or `None` if no such key can exist.
    pub fn metadata(machine: &MachineId, key: &str) -> Option<Subject> {
        (!key.is_empty() && !key.contains('/'))
            .then(|| Subject::Metadata(machine.clone(), key.to_string()))
    }

    /// The unit whose file, desired state or place the key holds.
    pub fn unit(&self) -> Option<&UnitName> {
        match self {
            Subject::Unit(name)
            | Subject::Desired(name)
            | Subject::Place(name)
            | Subject::Schedule(_, name)
            | Subject::Global(name) => Some(name),
            Subject::Cluster
            | Subject::Leader
            | Subject::Why(_)
            | Subject::Claim(..)
            | Subject::Machine(_)
            | Subject::Metadata(..)
            | Subject::Drain(_)
            | Subject::State(..) => None,
        }
    }
}

impl Keys {
    /// Returns the keys under a prefix; a missing trailing `/` is added.
    pub fn under(prefix: &str) -> Keys {
        Keys { root: format!("{}/v3/", prefix.trim_end_matches('/')) }
    }

    /// The common prefix of all keys.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The key of a subject.
    pub fn of(&self, subject: &Subject) -> String {
        let root = &self.root;
        match subject {
            Subject::Cluster => format!("{root}cluster"),
            Subject::Leader => format!("{root}leader"),
            Subject::Unit(name) => format!("{root}unit/{name}"),
            Subject::Desired(name) => format!("{root}desired/{name}"),
            Subject::Place(name) => format!("{root}place/{name}"),
            Subject::Schedule(machine, name) => format!("{root}schedule/{machine}/{name}"),
            Subject::Global(name) => format!("{root}global/{name}"),
            Subject::Why(name) => format!("{root}why/{name}"),
            Subject::Claim(machine, name) => format!("{root}claim/{machine}/{name}"),
            Subject::Machine(id) => format!("{root}machine/{id}"),
            Subject::Metadata(id, key) => format!("{root}metadata/{id}/{key}"),
            Subject::Drain(id) => format!("{root}drain/{id}"),
            Subject::State(machine, name) => format!("{root}state/{machine}/{name}"),
        }
    }

    /// The prefix of a machine's schedule.
    pub fn schedule_of(&self, machine: &MachineId) -> String {
        format!("{}schedule/{machine}/", self.root)
    }

    /// The prefix of all unit files.
    pub fn units(&self) -> String {
        format!("{}unit/", self.root)
    }

    /// Returns the subject of a key, or `None` if it is not a key of the cluster.
    pub fn subject(&self, key: &str) -> Option<Subject> {
        let rest = key.strip_prefix(&self.root)?;
        if rest == "cluster" {
            return Some(Subject::Cluster);
        }
        if rest == "leader" {
            return Some(Subject::Leader);
        }
        let (kind, rest) = rest.split_once('/')?;
        let name = |text: &str| UnitName::new(text).ok();
        let id = |text: &str| MachineId::new(text).ok();
        let pair = || rest.split_once('/').and_then(|(machine, rest)| Some((id(machine)?, rest)));
        Some(match kind {
            "unit" => Subject::Unit(name(rest)?),
            "desired" => Subject::Desired(name(rest)?),
            "place" => Subject::Place(name(rest)?),
            "global" => Subject::Global(name(rest)?),
            "why" => Subject::Why(name(rest)?),
            "machine" => Subject::Machine(id(rest)?),
            "drain" => Subject::Drain(id(rest)?),
            "schedule" => pair().and_then(|(id, rest)| Some(Subject::Schedule(id, name(rest)?)))?,
            "claim" => pair().and_then(|(id, rest)| Some(Subject::Claim(id, name(rest)?)))?,
            "state" => pair().and_then(|(id, rest)| Some(Subject::State(id, name(rest)?)))?,
            "metadata" => pair().map(|(id, rest)| Subject::Metadata(id, rest.to_string()))?,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_parsed_back_to_its_subject() {
        let keys = Keys::under("/_coreos.com/fleet");
        let (name, id) = (UnitName::new("a@1.service").unwrap(), MachineId::new("m1").unwrap());
        let all = [
            Subject::Cluster,
            Subject::Leader,
            Subject::Unit(name.clone()),
            Subject::Desired(name.clone()),
            Subject::Place(name.clone()),
            Subject::Schedule(id.clone(), name.clone()),
            Subject::Global(name.clone()),
            Subject::Why(name.clone()),
            Subject::Claim(id.clone(), name.clone()),
            Subject::Machine(id.clone()),
            Subject::Metadata(id.clone(), "region".to_string()),
            Subject::Drain(id.clone()),
            Subject::State(id, name),
        ];
        for subject in all {
            assert_eq!(keys.subject(&keys.of(&subject)), Some(subject));
        }
        assert_eq!(keys.root(), "/_coreos.com/fleet/v3/");
    }

    #[test]
    fn key_with_a_malformed_name_has_no_subject() {
        let keys = Keys::under("/p/");
        for rest in ["unit/../x", "unit/a", "schedule/m1", "machine/a/b", "other/a.service", "unit"]
        {
            assert_eq!(keys.subject(&format!("/p/v3/{rest}")), None, "{rest}");
        }
    }
}

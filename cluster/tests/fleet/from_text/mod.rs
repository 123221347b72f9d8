//! Makes names, machines and units of a scheduler from texts.

use cluster::desired::Desired;
use cluster::machine::{Machine, MachineId};
use cluster::placement::Unit;
use cluster::requirement::Requirement;
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;
use std::sync::Arc;

pub(crate) fn name(text: &str) -> UnitName {
    UnitName::new(text).unwrap()
}

pub(crate) fn id(text: &str) -> MachineId {
    MachineId::new(text).unwrap()
}

pub(crate) fn machine(metadata: &[(&str, &str)]) -> Machine {
    let pair = |(key, value): &(&str, &str)| (key.to_string(), value.to_string());
    Machine { metadata: metadata.iter().map(pair).collect(), ..Machine::default() }
}

pub(crate) fn unit(own: &str, options: &str, desired: Desired, on: Option<&str>) -> Unit {
    let file = UnitFile::parse(&format!("[X-Fleet]\n{options}\n")).unwrap();
    let asks = Requirement::of(&file, Some(&name(own)));
    Unit { asks: Arc::new(asks), desired, machine: on.map(id), since: 0 }
}

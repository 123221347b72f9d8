//! A small cluster as stored in etcd, into which the fuzz targets of the cluster write garbage and
//! to which they send requests. Two machines, with units of each kind on them and on none.

use cluster::desired::Desired;
use cluster::key::{Keys, Subject};
use cluster::machine::MachineId;
use cluster::record::{
    ClaimRecord, ClusterRecord, DesiredRecord, Leader, MachineRecord, MetadataRecord, PlaceRecord,
    ScheduleRecord, StateRecord, UnitRecord, WhyRecord, encode,
};
use cluster::unit_file::UnitFile;
use cluster::unit_name::UnitName;

/// Units and machines for composed keys and paths.
pub const UNITS: [&str; 8] = [
    "a.service",
    "b@.service",
    "b@1.service",
    "global.service",
    "idle.service",
    "only.service",
    "nowhere.service",
    "new.service",
];
pub const MACHINES: [&str; 3] = ["m1", "m2", "m3"];

pub fn keys() -> Keys {
    Keys::under("/f")
}

pub fn machine(id: &str) -> MachineId {
    MachineId::new(id).expect("an id")
}

/// Keys and values.
pub fn entries() -> Vec<(String, Vec<u8>)> {
    let mut all = Entries(vec![]);
    all.put(Subject::Cluster, &ClusterRecord { id: "c1".to_string() });
    all.put(Subject::Leader, &Leader { machine: machine("m1") });
    for (id, region) in [("m1", "here"), ("m2", "there")] {
        let record = MachineRecord {
            ip: "10.0.0.1".to_string(),
            metadata: [("region".to_string(), region.to_string())].into(),
            boot: "boot".to_string(),
            instance: "one".to_string(),
            disk: None,
            version: "1".to_string(),
            listen: None,
        };
        all.put(Subject::Machine(machine(id)), &record);
    }
    let over = MetadataRecord { value: Some("disk".to_string()) };
    all.put(Subject::Metadata(machine("m2"), "role".to_string()), &over);
    all.unit("a.service", "", Desired::Launched, Some("m1"));
    all.unit("b@.service", "", Desired::Inactive, None);
    all.unit("b@1.service", "Conflicts=b@*.service", Desired::Launched, Some("m2"));
    all.unit("idle.service", "MachineOf=a.service", Desired::Inactive, None);
    all.unit("only.service", "Exclusive=true", Desired::Launched, Some("m2"));
    let only = UnitName::new("only.service").expect("a name");
    let claim = ClaimRecord { machine: machine("m2"), instance: Some("one".to_string()) };
    all.put(Subject::Claim(machine("m2"), only), &claim);
    let global = all.unit("global.service", "Global=true", Desired::Launched, None);
    let name = UnitName::new("global.service").expect("a name");
    let told = ScheduleRecord::new(Desired::Launched, global);
    all.put(Subject::Global(name), &told);
    all.unit("nowhere.service", "MachineMetadata=region=far", Desired::Launched, None);
    let name = UnitName::new("nowhere.service").expect("a name");
    all.put(Subject::Why(name), &WhyRecord { text: "far".to_string(), ..WhyRecord::default() });
    all.0
}

struct Entries(Vec<(String, Vec<u8>)>);

impl Entries {
    fn put<T: serde::Serialize>(&mut self, subject: Subject, record: &T) {
        self.0.push((keys().of(&subject), encode(record)));
    }

    /// Returns the hash of the unit.
    fn unit(&mut self, name: &str, asks: &str, desired: Desired, on: Option<&str>) -> String {
        let name = UnitName::new(name).expect("a name");
        let text = format!("[Service]\nExecStart=/bin/sleep 9\n\n[X-Fleet]\n{asks}\n");
        let options = UnitFile::parse(&text).expect("a file");
        let hash = options.hash();
        self.put(Subject::Unit(name.clone()), &UnitRecord { options, signature: None });
        self.put(Subject::Desired(name.clone()), &DesiredRecord { desired });
        if let Some(id) = on.map(machine) {
            let told = ScheduleRecord::new(desired, hash.clone());
            let state = StateRecord {
                hash: hash.clone(),
                load: "loaded".to_string(),
                active: "active".to_string(),
                sub: "running".to_string(),
                reached: desired,
                reason: None,
                ended: None,
                run: None,
            };
            self.put(Subject::Place(name.clone()), &PlaceRecord { machine: id.clone() });
            self.put(Subject::Schedule(id.clone(), name.clone()), &told);
            self.put(Subject::State(id, name), &state);
        }
        hash
    }
}

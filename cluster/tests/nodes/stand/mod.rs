//! A real cluster on one host: each node has a network, an etcd, an init and a fleetd, in
//! namespaces that end with this process.

pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod program;
pub(crate) mod ssh;

use crate::wire::{Fault, Wire};
use network::Network;
use node::{Node, NodePlan};
use program::until;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The cluster. Node numbers start at one.
pub(crate) struct Cluster {
    pub(crate) folder: PathBuf,
    pub(crate) network: Network,
    /// Faulty wires between each node's fleetd and etcd, with [`WIRED`]; otherwise empty.
    pub(crate) wires: Vec<Wire>,
    nodes: Vec<Node>,
    /// The extra lines of fleet.conf of this cluster.
    pub(crate) conf: String,
    passed: bool,
}

/// Port of a node's wire to the first etcd member; those to the others follow.
const WIRES: u16 = 23791;
/// fleet.conf line that reaches etcd through wires.
pub(crate) const WIRED: &str =
    "etcd_servers=http://127.0.0.1:23791,http://127.0.0.1:23792,http://127.0.0.1:23793\n";

/// Returns the nodes with an etcd member.
fn members(nodes: u8) -> Vec<u8> {
    let most = if nodes < 3 { 1 } else { 3 };
    (1..=most).collect()
}

fn wire_of(network: &Network, number: u8, nodes: u8) -> Wire {
    let end = |member: &u8| {
        let at = SocketAddr::from(([127, 0, 0, 1], WIRES + u16::from(*member) - 1));
        (at, format!("{}:2379", network::address(*member)).parse().unwrap())
    };
    Wire::open(members(nodes).iter().map(end).collect(), Some(network.file(number)))
}

/// Number of clusters booted so far, for folder names.
static BOOTED: AtomicUsize = AtomicUsize::new(0);

/// Deletes folders of stands whose process is gone.
fn sweep() {
    for entry in std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name.strip_prefix("fleet-nodes.").and_then(|rest| rest.split('.').next());
        let of = of.and_then(|pid| pid.parse::<u32>().ok());
        if of.is_some_and(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Cluster {
    /// Boots this many nodes and waits until all are registered. `conf` has extra lines of
    /// fleet.conf.
    pub(crate) fn boot(nodes: u8, conf: &str) -> Cluster {
        sweep();
        let number = BOOTED.fetch_add(1, Ordering::Relaxed);
        let name = format!("fleet-nodes.{}.{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("files")).unwrap();
        let network = Network::of(nodes, &folder.join("network.log"));
        let plan = |number| NodePlan {
            number,
            members: members(nodes),
            id: node::id(number),
            conf: conf.to_string(),
            // One node runs unprivileged as in contrib/cluster.d.
            unprivileged: number == 1,
        };
        let made = (1..=nodes).map(|number| Node::new(&folder, plan(number))).collect();
        let wired = (1..=nodes).filter(|_| conf.contains(WIRED));
        let wires = wired.map(|number| wire_of(&network, number, nodes)).collect();
        let conf = conf.to_string();
        let mut cluster = Cluster { folder, network, wires, nodes: made, conf, passed: false };
        for number in 1..=nodes {
            cluster.boot_node(number);
        }
        cluster.when_machines(nodes.into());
        cluster
    }

    pub(crate) fn count(&self) -> u8 {
        u8::try_from(self.nodes.len()).unwrap()
    }

    pub(crate) fn node(&self, number: u8) -> &Node {
        &self.nodes[usize::from(number) - 1]
    }

    pub(crate) fn node_mut(&mut self, number: u8) -> &mut Node {
        &mut self.nodes[usize::from(number) - 1]
    }

    pub(crate) fn boot_node(&mut self, number: u8) {
        self.network.heal(number);
        let on = self.network.on(number);
        self.node_mut(number).boot(&on);
    }

    /// Kills a node like a power failure.
    pub(crate) fn kill_node(&mut self, number: u8) {
        self.network.cut(number);
        self.node_mut(number).kill();
    }

    /// Returns the number of the node with that machine id.
    pub(crate) fn number_of(&self, id: &str) -> u8 {
        let found = self.nodes.iter().find(|node| node.id() == id);
        found.unwrap_or_else(|| panic!("no node has the id {id:?}")).plan.number
    }

    /// Sets the fault of a node's wire.
    pub(crate) fn set_wire(&self, number: u8, fault: Fault) {
        self.wires[usize::from(number) - 1].set(fault);
    }

    /// Writes a unit file for fleetctl.
    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join("files").join(name), text).unwrap();
    }

    /// Reads what a unit's processes left for the test.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.join("files").join(name)).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join("files").join(name).display().to_string()
    }

    /// Waits until each running node lists this many machines.
    pub(crate) fn when_machines(&mut self, count: usize) {
        let mut up = BTreeSet::new();
        for node in &mut self.nodes {
            if node.is_up() {
                up.insert(node.plan.number);
            }
        }
        for number in up {
            until(&format!("{count} machines, by n{number}"), || {
                (self.node(number).list("list-machines")?.len() == count).then_some(())
            });
        }
    }

    /// Returns the units with machine and states, by their machines' reports.
    pub(crate) fn units(&self, by: u8) -> Option<Vec<UnitLine>> {
        let field = |state: &Value, key: &str| state[key].as_str().unwrap_or_default().to_string();
        let line = |state: &Value| UnitLine {
            unit: field(state, "name"),
            node: self.number_of(&field(state, "machineID")),
            active: field(state, "systemdActiveState"),
            sub: field(state, "systemdSubState"),
            load: field(state, "systemdLoadState"),
        };
        Some(self.node(by).list("list-units")?.iter().map(line).collect())
    }

    /// Returns the active units with their nodes.
    pub(crate) fn active(&self, by: u8) -> Option<BTreeMap<String, BTreeSet<u8>>> {
        let mut active: BTreeMap<String, BTreeSet<u8>> = BTreeMap::new();
        for line in self.units(by)?.into_iter().filter(|line| line.active == "active") {
            active.entry(line.unit).or_default().insert(line.node);
        }
        Some(active)
    }

    /// Waits until this many units are active, by node `by`.
    pub(crate) fn when_active(&self, by: u8, count: usize) -> BTreeMap<String, BTreeSet<u8>> {
        let mut last = None;
        let found = program::within(program::PATIENCE, || {
            last = self.active(by);
            last.clone().filter(|active| active.values().map(BTreeSet::len).sum::<usize>() == count)
        });
        found.unwrap_or_else(|| panic!("{count} active units were not reached; there are {last:?}"))
    }

    /// Waits until a unit is active on exactly one node, and returns it.
    pub(crate) fn when_on(&self, by: u8, unit: &str) -> u8 {
        self.when_on_other(by, unit, 0)
    }

    /// Like [`Self::when_on`], on another node than `old`.
    pub(crate) fn when_on_other(&self, by: u8, unit: &str, old: u8) -> u8 {
        until(&format!("{unit} is active on one node, and not on n{old}"), || {
            let on = self.active(by)?.remove(unit)?;
            on.first().copied().filter(|first| on.len() == 1 && *first != old)
        })
    }

    /// Returns the inits' events of a unit, with their nodes.
    pub(crate) fn events(&self, unit: &str) -> Vec<String> {
        let of = |node: &Node| node.initctl(&["events"]);
        let printed: Vec<String> = self.nodes.iter().map(of).collect();
        let lines = printed.iter().flat_map(|text| text.lines());
        lines.filter(|line| line.contains(unit)).map(str::to_string).collect()
    }

    /// Returns the unit files by name, with desired state and machine.
    pub(crate) fn unit_files(&self, by: u8) -> Vec<Value> {
        until("list-unit-files", || self.node(by).list("list-unit-files"))
    }

    /// Connects to a port of a node from outside and returns what it sends.
    pub(crate) fn connect(&self, number: u8, port: u16) -> Option<String> {
        let address = network::address(number);
        let line = format!("exec 3<>/dev/tcp/{address}/{port} && timeout 5 head -n 1 <&3");
        let mut words = self.network.on(0);
        words.extend(["timeout", "6", "bash", "-c", &line].map(str::to_string));
        let output = program::output(&words);
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns the metrics of an etcd member.
    pub(crate) fn metrics_of_etcd(&self, number: u8) -> String {
        let line = "exec 3<>/dev/tcp/127.0.0.1/2379 && printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3 \
                    && timeout 2 cat <&3";
        let mut words = self.network.on(number);
        words.extend(["timeout", "3", "bash", "-c", line].map(str::to_string));
        String::from_utf8_lossy(&program::output(&words).stdout).into_owned()
    }

    /// Returns the node of etcd's leader.
    pub(crate) fn leads_etcd(&self) -> Option<u8> {
        let leads = |number: &u8| self.metrics_of_etcd(*number).contains("etcd_server_is_leader 1");
        members(self.count()).into_iter().find(leads)
    }

    /// Restores the initial state for a case: no units, all nodes up.
    pub(crate) fn mend(&mut self) {
        self.wires.iter().for_each(|wire| wire.set(Fault::None));
        for number in 1..=self.count() {
            self.network.heal(number);
            if !self.node_mut(number).is_up() {
                self.boot_node(number);
            }
        }
        for number in 1..=self.count() {
            until("init answers", || self.node(number).status());
            self.node(number).start_fleetd();
        }
        self.when_machines(self.nodes.len());
        let names = self.unit_files(1);
        let names: Vec<&str> = names.iter().filter_map(|unit| unit["name"].as_str()).collect();
        if !names.is_empty() {
            self.node(1).fleetctl(&[&["destroy"][..], &names].concat());
        }
        for number in 1..=self.count() {
            until("no unit is anywhere", || self.units(number)?.is_empty().then_some(()));
            until("init has no unit of fleetd", || {
                let status = self.node(number).status()?;
                assert_eq!(status["crashes"], 0, "init of n{number} crashed");
                let mut ours = status["units"].as_array()?.iter();
                ours.all(|unit| unit["source"].is_null()).then_some(())
            });
        }
    }

    /// Marks that no files need to be kept for inspection.
    pub(crate) fn pass(&mut self) {
        self.passed = true;
    }

    /// Returns the ends of all logs.
    pub(crate) fn last_words(&self) -> String {
        self.nodes.iter().map(Node::last_words).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.clear();
        if self.passed {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A row of list-units.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UnitLine {
    pub(crate) unit: String,
    pub(crate) node: u8,
    pub(crate) active: String,
    pub(crate) sub: String,
    pub(crate) load: String,
}

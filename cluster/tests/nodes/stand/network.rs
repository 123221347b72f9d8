//! A network of namespaces: one with a bridge, and one per node with a veth. A sleeping process
//! keeps each namespace. The namespace of the stand itself gets no interface.

use super::program::{Running, call, until};
use std::fs::File;
use std::path::Path;

/// Number of the stand's end of the bridge.
const BRIDGE: u8 = 254;

pub(crate) struct Network {
    bridge: Running,
    ends: Vec<Running>,
}

/// Address of node `number`, from one; 254 is the stand.
pub(crate) fn address(number: u8) -> String {
    format!("10.77.0.{number}")
}

fn namespace(log: &Path) -> Running {
    let held = Running::start(&["unshare", "-n", "sleep", "infinity"], log);
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    until("a network namespace", || {
        let its = std::fs::read_link(format!("/proc/{}/ns/net", held.pid())).ok()?;
        (its != own).then_some(())
    });
    held
}

/// Returns the command prefix for the network of a process.
fn within(pid: u32) -> Vec<String> {
    vec!["nsenter".to_string(), format!("--net=/proc/{pid}/ns/net")]
}

fn ip(pid: u32, line: &str) {
    let mut words = within(pid);
    words.push("ip".to_string());
    words.extend(line.split(' ').map(str::to_string));
    call(&words);
}

impl Network {
    pub(crate) fn of(nodes: u8, log: &Path) -> Network {
        let bridge = namespace(log);
        let hub = bridge.pid();
        ip(hub, "link add br0 type bridge");
        ip(hub, &format!("addr add {}/24 dev br0", address(BRIDGE)));
        ip(hub, "link set br0 up");
        let end = |number: u8| {
            let held = namespace(log);
            let pid = held.pid();
            ip(hub, &format!("link add v{number} type veth peer name eth0 netns {pid}"));
            ip(hub, &format!("link set v{number} master br0 up"));
            ip(pid, "link set lo up");
            ip(pid, &format!("addr add {}/24 dev eth0", address(number)));
            ip(pid, "link set eth0 up");
            held
        };
        let ends = (1..=nodes).map(end).collect();
        Network { bridge, ends }
    }

    /// Returns the command prefix for a node; 0 is outside the nodes.
    pub(crate) fn on(&self, number: u8) -> Vec<String> {
        let end = usize::from(number).checked_sub(1).and_then(|at| self.ends.get(at));
        within(end.unwrap_or(&self.bridge).pid())
    }

    /// The namespace of a node, for a thread that enters it.
    pub(crate) fn file(&self, number: u8) -> File {
        let pid = self.ends[usize::from(number) - 1].pid();
        File::open(format!("/proc/{pid}/ns/net")).unwrap()
    }

    /// Unplugs a node: packets are lost silently.
    pub(crate) fn cut(&self, number: u8) {
        ip(self.bridge.pid(), &format!("link set v{number} down"));
    }

    pub(crate) fn heal(&self, number: u8) {
        ip(self.bridge.pid(), &format!("link set v{number} up"));
    }
}

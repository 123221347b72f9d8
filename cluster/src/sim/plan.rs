//! The schedule of a seed: machines with clocks and settings, network faults and their rates, and
//! timed deeds. It is plain data, so that a failing schedule can be shrunk.

use crate::sim::partial::Hidden;
use crate::sim::signer::Signer;
use crate::sim::{sequel, story, swarm};
use crate::transaction::MOST_OPERATIONS;
use groundstate_units::simulator::rng::Rng;
use std::time::Duration;

/// Possible unit names; the last one is a template.
pub const UNITS: [&str; 8] = [
    "a.service",
    "b.service",
    "c.service",
    "d.service",
    "e.service",
    "f.service",
    "t@1.service",
    "t@.service",
];
/// Values of the metadata key `k`.
pub const VALUES: [&str; 3] = ["0", "1", "2"];

/// A deed, with its unit or machine, the machine whose API gets the request (`at`), and its
/// duration.
#[allow(missing_docs, reason = "described above for all variants")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Creates a unit or replaces its file, and reads it back.
    Put { unit: usize, asks: String, desired: &'static str, at: usize },
    /// Changes the desired state.
    Wish { unit: usize, desired: &'static str, at: usize },
    /// Destroys a unit.
    Destroy { unit: usize, at: usize },
    /// Reads a unit.
    Get { unit: usize, at: usize },
    /// Overrides metadata of a machine, or hides it without a value.
    Metadata { of: usize, value: Option<&'static str>, at: usize },
    /// Drains a machine, or undrains it.
    Drain { of: usize, on: bool, at: usize },
    /// Cuts a machine off from etcd.
    Cut { machine: usize, requests: bool, answers: bool, time: Duration },
    /// Pauses a machine; `None` for the leader.
    Pause { machine: Option<usize>, time: Duration },
    /// Kills fleetd; it restarts later.
    CrashFleetd { machine: usize, time: Duration },
    /// Cuts a machine's power; it boots later.
    CrashMachine { machine: usize, time: Duration },
    /// Stops fleetd in good order; it restarts later.
    Leave { machine: usize, time: Duration },
    /// Adds a second machine with the same id.
    Clone { of: usize, time: Duration },
    /// Takes the quorum from etcd, so that it has no leader.
    QuorumLoss { time: Duration },
    /// Ends the watches of a machine.
    BreakWatches { machine: usize },
    /// Silences the watches of a machine.
    SilenceWatches { machine: usize },
    /// Makes the watches of a machine repeat events.
    RepeatWatches { machine: usize },
    /// Compacts etcd.
    Compact,
    /// Makes an init unresponsive.
    InitAway { machine: usize, time: Duration },
    /// Revokes a machine's lease, as an operator would.
    EndLease { machine: usize },
    /// Connects a machine to a foreign etcd.
    Foreign { machine: usize, time: Duration },
    /// Like `Put`, with a signature by this signer.
    PutSigned { unit: usize, asks: String, by: Signer, serial: u64, at: usize },
    /// Makes the value of the `which`-th key of a kind unreadable, modulo their number.
    Garble { kind: &'static str, which: usize, time: Duration },
    /// Makes a machine's readings incomplete.
    Hide { machine: usize, what: Hidden, time: Duration },
}

/// Fault rates of the network, in percent of the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// The answer is lost.
    pub lost: u32,
    /// The write is delayed by up to 8 s; its caller gives up after 1 s.
    pub late: u32,
    /// The call is refused at once.
    pub refused: u32,
    /// Maximum latency of a message in milliseconds.
    pub latency: u64,
    /// init executes a put and its answer is lost.
    pub init: u32,
}

/// A schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed that determines everything else.
    pub seed: u64,
    /// Number of machines at the start.
    pub machines: usize,
    /// The number of machines that may lead, from the first.
    pub engines: usize,
    /// True if machines require signatures.
    pub signed: bool,
    /// Clock drift of the machines, in ppm.
    pub drift: Vec<i64>,
    /// `agent_ttl`
    pub ttl: Duration,
    /// `engine_reconcile_interval`
    pub interval: Duration,
    /// `reschedule_grace`
    pub grace: Duration,
    /// Maximum number of operations in one write of an engine.
    pub room: usize,
    /// Network faults.
    pub rates: Rates,
    /// The deeds, in order.
    pub deeds: Vec<(Duration, Deed)>,
    /// When all faults end.
    pub heal: Duration,
}

/// Draws the schedule of a seed.
pub fn draw(seed: u64) -> Plan {
    let mut chance = Rng::of(seed, 1, 0);
    let machines = chance.between(2, 4) as usize;
    let some = |chance: &mut Rng, most: u64| {
        if chance.percent(50) { chance.between(1, most) as u32 } else { 0 }
    };
    let rates = Rates {
        lost: some(&mut chance, 8),
        late: some(&mut chance, 6),
        refused: some(&mut chance, 6),
        latency: [2, 20, 100][chance.below(3)],
        init: some(&mut chance, 10),
    };
    let drift = (0..machines).map(|_| chance.between(0, 20_000) as i64 - 10_000).collect();
    let faults = chance.draw();
    let count = chance.between(8, 30);
    let mut deeds: Vec<(Duration, Deed)> = Vec::new();
    for unit in 0..UNITS.len() {
        if chance.percent(50) {
            let at = Duration::from_millis(chance.between(500, 4_000));
            deeds.push((at, put(&mut chance, unit, machines)));
        }
    }
    for _ in 0..count {
        let at = Duration::from_millis(chance.between(3_000, 40_000));
        let deed = match chance.percent(50) {
            true => wish(&mut chance, machines),
            false => fault(&mut chance, machines, faults),
        };
        deeds.push((at, deed));
    }
    deeds.sort_by_key(|(at, _)| *at);
    let mut plan = Plan {
        seed,
        machines,
        engines: machines,
        signed: false,
        drift,
        ttl: Duration::from_secs(chance.between(6, 12)),
        interval: Duration::from_millis(chance.between(800, 2_000)),
        grace: Duration::from_secs([0, 0, 4, 8][chance.below(4)]),
        room: MOST_OPERATIONS,
        rates,
        deeds,
        heal: Duration::from_secs(45),
    };
    swarm::thicken(&mut plan);
    if !story::tell(&mut plan) {
        sequel::tell(&mut plan);
    }
    plan
}

fn desired(chance: &mut Rng) -> &'static str {
    ["launched", "launched", "launched", "loaded", "inactive"][chance.below(5)]
}

fn put(chance: &mut Rng, unit: usize, machines: usize) -> Deed {
    let at = chance.below(machines);
    Deed::Put { unit, asks: asks(chance, machines), desired: desired(chance), at }
}

fn asks(chance: &mut Rng, machines: usize) -> String {
    let other = UNITS[chance.below(6)];
    let value = VALUES[chance.below(VALUES.len())];
    match chance.below(16) {
        0 | 1 => format!("MachineOf={other}\n"),
        2 => format!("Conflicts={other}\n"),
        3 => "Conflicts=[a-c].service\n".to_string(),
        4 => format!("MachineID=m{}\n", chance.below(machines)),
        5 => format!("MachineMetadata=k={value}\n"),
        6 => format!("MachineMetadata=k={value}\nMachineMetadata=n={}\n", chance.below(machines)),
        7 => format!("Replaces={other}\n"),
        8 => "Global=true\n".to_string(),
        9 => format!("Global=true\nMachineMetadata=k={value}\n"),
        10 => format!("Global=true\nConflicts={other}\n"),
        11 | 12 => "Replaces=[a-c].service\n".to_string(),
        13 | 14 => "Exclusive=true\n".to_string(),
        _ => String::new(),
    }
}

fn wish(chance: &mut Rng, machines: usize) -> Deed {
    let (unit, at) = (chance.below(UNITS.len()), chance.below(machines));
    let of = chance.below(machines);
    match chance.below(12) {
        0..=3 => put(chance, unit, machines),
        4..=6 => Deed::Wish { unit, desired: desired(chance), at },
        7 => Deed::Destroy { unit, at },
        8 => Deed::Get { unit, at },
        9 | 10 => {
            let value = chance.percent(80).then(|| VALUES[chance.below(VALUES.len())]);
            Deed::Metadata { of, value, at }
        }
        _ => Deed::Drain { of, on: chance.percent(50), at },
    }
}

/// Draws a fault of the kinds in this schedule, one bit of `faults` each.
fn fault(chance: &mut Rng, machines: usize, faults: u64) -> Deed {
    let mut kind = chance.below(16);
    for _ in 0..16 {
        if faults & (1 << kind) != 0 {
            break;
        }
        kind = chance.below(16);
    }
    let machine = chance.below(machines);
    let longest = [500, 3_000, 9_000, 20_000][chance.below(4)];
    let time = Duration::from_millis(chance.between(100, longest));
    match kind {
        0 | 1 => {
            let ways = [(true, true), (true, true), (true, false), (false, true)];
            let (requests, answers) = ways[chance.below(4)];
            Deed::Cut { machine, requests, answers, time }
        }
        2 => Deed::Pause { machine: Some(machine), time },
        3 => Deed::Pause { machine: None, time },
        4 => Deed::CrashFleetd { machine, time: time.min(Duration::from_millis(1_500)) },
        5 => Deed::CrashMachine { machine, time },
        6 => Deed::Leave { machine, time },
        7 => Deed::Clone { of: machine, time },
        8 => Deed::QuorumLoss { time },
        9 => Deed::BreakWatches { machine },
        10 => Deed::SilenceWatches { machine },
        11 => Deed::RepeatWatches { machine },
        12 => Deed::Compact,
        13 => Deed::InitAway { machine, time: time.min(Duration::from_secs(3)) },
        14 => Deed::EndLease { machine },
        _ => Deed::Foreign { machine, time },
    }
}

//! Short stories: deeds that matter only together, in order and within a short time. Examples: a
//! unit loses the only machine that may have it; a machine pauses for almost a lease; a fleetd
//! starts while its first request is lost. Independent random deeds ([`crate::sim::plan`],
//! [`crate::sim::swarm`]) rarely combine in this way. Each story names the rule that it tests.

use crate::sim::plan::{Deed, Plan, Rates, UNITS, VALUES};
use groundstate_units::simulator::rng::Rng;
use std::time::Duration;

/// Percentage of schedules with a story.
const TOLD: u32 = 35;
/// When the units of a story are created, in milliseconds.
const PROLOGUE: (u64, u64) = (700, 3_000);
/// When the story starts.
const BEGIN: (u64, u64) = (8_000, 18_000);
/// A unit that the rest of the schedule rarely uses.
const HERO: usize = 5;
/// A second unit.
const OTHER: usize = 4;

/// Adds a story to a plan, depending on its seed. Returns true if it did.
pub fn tell(plan: &mut Plan) -> bool {
    let mut chance = Rng::of(plan.seed, 4, 0);
    if !chance.percent(TOLD) {
        return false;
    }
    let mut story = Story { begin: 0, machine: 0, chance, plan };
    story.begin = story.chance.between(BEGIN.0, BEGIN.1);
    story.machine = story.chance.below(story.plan.machines);
    match story.chance.below(12) {
        0 => story.company(),
        1 => story.lonely(),
        2 => story.brink(),
        3 => story.restarted(),
        4 => story.heir(),
        5 => story.ghost(),
        6 => story.same_again(),
        7 => story.stuck(),
        8 => story.deserted(),
        9 => story.asleep(),
        10 => story.round(),
        _ => story.farewell(),
    }
    story.plan.deeds.sort_by_key(|(at, _)| *at);
    true
}

struct Story<'p> {
    begin: u64,
    machine: usize,
    chance: Rng,
    plan: &'p mut Plan,
}

impl Story<'_> {
    fn add(&mut self, at: u64, deed: Deed) {
        self.plan.deeds.push((Duration::from_millis(at), deed));
    }

    fn some(&mut self, (from, to): (u64, u64)) -> u64 {
        self.chance.between(from, to)
    }

    fn at(&mut self) -> usize {
        self.chance.below(self.plan.machines)
    }

    fn other_machine(&mut self) -> usize {
        let step = 1 + self.chance.below(self.plan.machines - 1);
        (self.machine + step) % self.plan.machines
    }

    fn put(&mut self, when: u64, unit: usize, asks: String) {
        let at = self.at();
        self.add(when, Deed::Put { unit, asks, desired: "launched", at });
    }

    fn prologue(&mut self, unit: usize, asks: String) {
        let when = self.some(PROLOGUE);
        self.put(when, unit, asks);
    }

    fn cut(&mut self, at: u64, machine: usize, time: u64) {
        let time = Duration::from_millis(time);
        self.add(at, Deed::Cut { machine, requests: true, answers: true, time });
    }

    fn ttl(&self) -> u64 {
        u64::try_from(self.plan.ttl.as_millis()).unwrap_or_default()
    }

    fn grace(&self) -> u64 {
        u64::try_from(self.plan.grace.as_millis()).unwrap_or_default()
    }

    /// No message is lost.
    fn quiet_network(&mut self) {
        (self.plan.rates.lost, self.plan.rates.refused) = (0, 0);
    }

    /// Removes all other deeds and network faults from the plan.
    fn calm(&mut self) {
        let latency = self.plan.rates.latency;
        self.plan.rates = Rates { latency, ..Rates::default() };
        self.plan.deeds.clear();
    }

    /// A global unit with a follower disappears and returns within a moment: a move based on its
    /// absence must fail.
    fn company(&mut self) {
        self.plan.rates.latency = 100;
        self.prologue(OTHER, "Global=true\n".to_string());
        self.prologue(HERO, "MachineOf=e.service\n".to_string());
        let at = self.at();
        for round in 0..8 {
            let gone = self.begin + round * 2_500;
            self.add(gone, Deed::Wish { unit: OTHER, desired: "inactive", at });
            let back = gone + self.some((80, 330));
            let other = self.other_machine();
            self.add(back, Deed::Wish { unit: OTHER, desired: "launched", at: other });
        }
    }

    /// The only machine that may have a unit is away longer than its lease, and returns. Meanwhile
    /// the unit has no place, which is no reason to stop it.
    fn lonely(&mut self) {
        let machine = self.machine;
        self.prologue(HERO, format!("MachineMetadata=n={machine}\n"));
        let away = self.ttl() + self.grace() + self.some((1_500, 6_000));
        let begin = self.begin;
        self.cut(begin, machine, away);
    }

    /// The machine of an exclusive unit is repeatedly paused or cut off for almost its lease.
    fn brink(&mut self) {
        if self.chance.percent(70) {
            self.quiet_network();
        }
        let machine = self.machine;
        self.prologue(HERO, format!("Exclusive=true\nMachineID=m{machine}\n"));
        let mut begin = self.begin;
        for _ in 0..3 {
            let ttl = self.ttl();
            let time = self.some((ttl * 55 / 100, ttl * 105 / 100));
            match self.chance.percent(60) {
                true => {
                    let time = Duration::from_millis(time);
                    self.add(begin, Deed::Pause { machine: Some(machine), time });
                }
                false => {
                    self.cut(begin, machine, time);
                    // The machine is back only for a moment, so a claim made now would expire soon.
                    if self.chance.percent(50) {
                        let moment = self.some((50, 700));
                        self.cut(begin + time + moment, machine, ttl / 2);
                    }
                }
            }
            begin += time + ttl;
        }
    }

    /// A fleetd restarts while its first requests are lost. Units under a claim of its predecessor
    /// keep running, and missing information is not taken as absence.
    fn restarted(&mut self) {
        let machine = self.machine;
        let asks = if self.chance.percent(50) { "Exclusive=true\n" } else { "" };
        self.prologue(HERO, format!("{asks}MachineID=m{machine}\n"));
        self.prologue(OTHER, "Exclusive=true\n".to_string());
        let mut begin = self.begin;
        for _ in 0..3 {
            let down = self.some((100, 900));
            let time = Duration::from_millis(down);
            self.add(begin, Deed::CrashFleetd { machine, time });
            let up = begin + down;
            if self.chance.percent(50) {
                // The reading is lost, but the following watch is not.
                self.cut(begin, machine, down + 500);
                for _ in 0..8 {
                    let when = up + self.some((1_000, 1_450));
                    self.add(when, Deed::Get { unit: HERO, at: machine });
                }
            } else {
                // During its first writes.
                let from = up + self.some((20, 700));
                let time = self.some((300, 1_200));
                self.cut(from, machine, time);
            }
            begin += 9_000;
        }
    }

    /// The leader disappears with units that require its metadata, which its successor has never
    /// received.
    fn heir(&mut self) {
        for unit in [HERO, OTHER, 3] {
            let value = VALUES[self.chance.below(VALUES.len())];
            self.prologue(unit, format!("MachineMetadata=k={value}\n"));
        }
        let time = Duration::from_millis(self.ttl() + self.grace() + self.some((1_000, 9_000)));
        let (begin, leads) = (self.begin, None);
        self.add(begin, Deed::Pause { machine: leads, time });
    }

    /// A request is lost while another client destroys the unit: no client may be told that it
    /// succeeded.
    fn ghost(&mut self) {
        let machine = self.machine;
        self.prologue(HERO, String::new());
        let mut begin = self.begin;
        for desired in ["loaded", "launched", "inactive", "loaded"] {
            let time = Duration::from_millis(self.some((200, 900)));
            self.add(begin, Deed::Cut { machine, requests: true, answers: false, time });
            self.add(begin + 10, Deed::Wish { unit: HERO, desired, at: machine });
            let (when, other) = (begin + self.some((20, 800)), self.other_machine());
            self.add(when, Deed::Destroy { unit: HERO, at: other });
            begin += 3_500;
            let at = self.other_machine();
            let asks = String::new();
            self.add(begin - 1_500, Deed::Put { unit: HERO, asks, desired: "launched", at });
        }
    }

    /// An unplaceable unit is re-created with the same requirements: its reason was deleted and
    /// must be recorded again.
    fn same_again(&mut self) {
        if self.chance.percent(70) {
            // The leader is undisturbed, and its next full reading is far.
            self.calm();
            self.plan.interval = Duration::from_secs(2);
        }
        let asks = "MachineID=m9\n".to_string();
        self.prologue(HERO, asks.clone());
        let mut begin = self.begin;
        for _ in 0..3 {
            let when = begin + self.some((0, 900));
            self.put(when, HERO, asks.clone());
            begin += 9_000;
        }
    }

    /// The leader's watch falls silent while a machine is away: its decision fails, and it must
    /// wait for changes without a busy loop.
    fn stuck(&mut self) {
        let machine = self.machine;
        self.plan.grace = Duration::from_secs(4);
        let (own, other) = (VALUES[machine % 3], VALUES[(machine + 1) % 3]);
        self.prologue(HERO, format!("MachineMetadata=k={own}\n"));
        self.prologue(OTHER, format!("MachineMetadata=k={own}\n"));
        let (begin, at) = (self.begin, self.other_machine());
        for silent in (0..self.plan.machines).filter(|silent| *silent != machine) {
            self.add(begin, Deed::SilenceWatches { machine: silent });
        }
        let away = self.ttl() + 7_000;
        self.cut(begin + 500, machine, away);
        let changed = begin + self.some((4_000, 11_000));
        self.add(changed, Deed::Metadata { of: machine, value: Some(other), at });
        let back = changed + self.some((1_000, 4_000));
        self.add(back, Deed::Metadata { of: machine, value: Some(own), at });
    }

    /// A machine disappears for long and nothing else happens: its units must move soon, with an
    /// undisturbed leader.
    fn deserted(&mut self) {
        let latency = self.plan.rates.latency;
        self.plan.rates = Rates { latency, ..Rates::default() };
        self.plan.deeds.retain(|(at, deed)| {
            at.as_millis() < u128::from(BEGIN.0) && matches!(deed, Deed::Put { .. })
        });
        let (begin, machine) = (self.begin.min(10_000), self.machine);
        if self.chance.percent(50) {
            // With silent watches, an engine that relies on full readings would react late.
            for deaf in 0..self.plan.machines {
                self.add(begin, Deed::SilenceWatches { machine: deaf });
            }
        }
        let time = Duration::from_millis(self.ttl() + self.grace() + 25_000);
        self.add(begin, Deed::CrashMachine { machine, time });
    }

    /// The machine of an exclusive unit is paused longer than its lease. When it resumes, etcd has
    /// no quorum and another machine has the unit.
    fn asleep(&mut self) {
        self.plan.grace = Duration::ZERO;
        self.quiet_network();
        self.prologue(HERO, "Exclusive=true\n".to_string());
        let (begin, ttl) = (self.begin, self.ttl());
        let time = ttl + self.some((4_000, 6_000));
        let lost = begin + time - self.some((300, 1_500));
        for machine in [Some(self.machine), None] {
            self.add(begin, Deed::Pause { machine, time: Duration::from_millis(time) });
        }
        self.add(lost, Deed::QuorumLoss { time: Duration::from_millis(ttl) });
    }

    /// Units that replace each other are created at the same moment, through several machines.
    fn round(&mut self) {
        self.plan.rates.latency = 100;
        for turn in 0..4 {
            let begin = self.begin + turn * 5_000;
            for (unit, other) in [(HERO, OTHER), (OTHER, HERO)] {
                let when = begin + self.some((0, 60));
                self.put(when, unit, format!("Replaces={}\n", UNITS[other]));
            }
            for unit in [HERO, OTHER] {
                let (when, at) = (begin + 3_000, self.at());
                self.add(when, Deed::Destroy { unit, at });
            }
        }
    }

    /// Late in the schedule an exclusive unit is destroyed, and its claim cannot be released at
    /// once.
    fn farewell(&mut self) {
        self.plan.rates.refused = 30;
        self.prologue(HERO, "Exclusive=true\n".to_string());
        self.prologue(OTHER, "Exclusive=true\n".to_string());
        for unit in [HERO, OTHER] {
            let (when, at) = (self.some((36_000, 43_500)), self.at());
            let deed = match self.chance.percent(50) {
                true => Deed::Destroy { unit, at },
                false => Deed::Wish { unit, desired: "inactive", at },
            };
            self.add(when, deed);
        }
    }
}

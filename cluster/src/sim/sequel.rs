//! More stories, for schedules without one of [`crate::sim::story`]. They last for most of the
//! schedule: incomplete readings, a flapping machine, no possible leader, a silent watch, signed
//! units.

use crate::sim::partial::{Hidden, OF_UNITS};
use crate::sim::plan::{Deed, Plan, Rates};
use crate::sim::signer::Signer;
use groundstate_units::simulator::rng::Rng;
use std::time::Duration;

/// Percentage of the schedules without a story of [`crate::sim::story`] that get one of these
/// stories.
const TOLD: u32 = 40;
/// Percentage of the remaining schedules that get each story of [`restart`].
const RESTARTS: u32 = 6;
/// When the units of a story are created, in milliseconds.
const PROLOGUE: u64 = 700;
/// When the story starts.
const BEGIN: u64 = 8_000;
/// When it ends, a while before all faults end.
const END: u64 = 42_000;

/// Adds a story to a plan, or none, depending on its seed.
pub fn tell(plan: &mut Plan) {
    let mut chance = Rng::of(plan.seed, 5, 0);
    if !chance.percent(TOLD) {
        return restart(plan);
    }
    let mut sequel = Sequel { chance, plan };
    match sequel.chance.below(6) {
        0 => sequel.blind(),
        1 => sequel.restless(),
        2 => sequel.unled(),
        3 => sequel.deaf(),
        4 => sequel.overdue(),
        _ => sequel.signed(),
    }
    sequel.plan.deeds.sort_by_key(|(at, _)| *at);
}

/// Adds one of three stories to a few plans without another story: two restarts of a fleetd, and an
/// exclusive unit that changes machines. All other plans stay the same.
fn restart(plan: &mut Plan) {
    let mut chance = Rng::of(plan.seed, 6, 0);
    if chance.percent(RESTARTS) {
        let mut sequel = Sequel { chance, plan };
        sequel.restarted_while_cut_off();
        return sequel.plan.deeds.sort_by_key(|(at, _)| *at);
    }
    let mut chance = Rng::of(plan.seed, 7, 0);
    if chance.percent(RESTARTS) {
        let mut sequel = Sequel { chance, plan };
        sequel.half_way_in();
        return sequel.plan.deeds.sort_by_key(|(at, _)| *at);
    }
    let mut chance = Rng::of(plan.seed, 8, 0);
    if chance.percent(RESTARTS) {
        let mut sequel = Sequel { chance, plan };
        sequel.exchanged();
        sequel.plan.deeds.sort_by_key(|(at, _)| *at);
    }
}

struct Sequel<'p> {
    chance: Rng,
    plan: &'p mut Plan,
}

impl Sequel<'_> {
    fn add(&mut self, at: u64, deed: Deed) {
        self.plan.deeds.push((Duration::from_millis(at), deed));
    }

    fn machine(&mut self) -> usize {
        self.chance.below(self.plan.machines)
    }

    fn put(&mut self, when: u64, unit: usize, asks: String, at: usize) {
        self.add(when, Deed::Put { unit, asks, desired: "launched", at });
    }

    /// Removes all other deeds and network faults from the plan.
    fn calm(&mut self) {
        let latency = self.plan.rates.latency;
        self.plan.rates = Rates { latency, ..Rates::default() };
        self.plan.deeds.clear();
    }

    /// A machine with many units repeatedly gets incomplete readings; etcd may be compacted and
    /// fleetd restarted.
    fn blind(&mut self) {
        self.calm();
        let machine = self.machine();
        for unit in 0..self.chance.between(3, 6) as usize {
            let asks = match self.chance.below(8) {
                0 => "Global=true\n".to_string(),
                1 => "Exclusive=true\n".to_string(),
                2 => String::new(),
                _ => format!("MachineID=m{machine}\n"),
            };
            let (when, at) = (PROLOGUE + self.chance.between(0, 2_000), self.machine());
            self.put(when, unit, asks, at);
        }
        let mut begin = BEGIN + self.chance.between(0, 4_000);
        while begin < END {
            let what = match self.chance.below(8) {
                0 => Hidden::All,
                1 => Hidden::Half(OF_UNITS),
                2 => Hidden::Half(&["schedule/"]),
                3 => Hidden::Kinds(&["unit/"]),
                4 => Hidden::Kinds(&["unit/", "desired/"]),
                5 => Hidden::Kinds(&["schedule/", "global/"]),
                _ => Hidden::Kinds(OF_UNITS),
            };
            let time = Duration::from_millis(self.chance.between(1_000, 9_000));
            self.add(begin, Deed::Hide { machine, what, time });
            if self.chance.percent(60) {
                let when = begin + self.chance.between(0, 300);
                self.add(when, Deed::Compact);
            }
            if self.chance.percent(30) {
                let when = begin + self.chance.between(0, 900);
                let time = Duration::from_millis(self.chance.between(100, 900));
                self.add(when, Deed::CrashFleetd { machine, time });
            }
            if self.chance.percent(40) {
                let (unit, at) = (self.chance.below(6), self.machine());
                let when = begin + self.chance.between(0, 6_000);
                let deed = match self.chance.percent(50) {
                    true => Deed::Destroy { unit, at },
                    false => Deed::Wish { unit, desired: "inactive", at },
                };
                self.add(when, deed);
            }
            begin += self.chance.between(4_000, 12_000);
        }
    }

    /// A machine comes and goes every few seconds. New units are placed there because it has the
    /// fewest. After a few times it keeps its units.
    fn restless(&mut self) {
        self.calm();
        // The leader is undisturbed and counts the departures.
        let machine = self.plan.machines - 1;
        for unit in 0..self.plan.machines {
            let (when, at) = (PROLOGUE + self.chance.between(0, 2_000), self.machine());
            self.put(when, unit, String::new(), at);
        }
        let mut begin = BEGIN;
        for turn in 0.. {
            self.add(begin, Deed::EndLease { machine });
            let (unit, at) = (turn % 6, self.chance.below(machine));
            let when = begin + self.chance.between(1_200, 2_000);
            self.put(when, unit, String::new(), at);
            begin += self.chance.between(2_500, 4_500);
            if begin >= END {
                return;
            }
        }
    }

    /// Two units per machine, most of them exclusive.
    fn exclusive_ones(&mut self) {
        for unit in 0..self.plan.machines * 2 {
            let asks = if unit % 3 == 2 { "" } else { "Exclusive=true\n" };
            let (when, at) = (PROLOGUE + self.chance.between(0, 2_000), self.machine());
            self.put(when, unit.min(5), asks.to_string(), at);
        }
    }

    /// A fleetd restarts and is cut off during its registration. Its claims are still under the
    /// earlier lease. A drain can take the units when that lease expires.
    fn half_way_in(&mut self) {
        self.calm();
        self.plan.rates.refused = 40;
        self.exclusive_ones();
        let machine = self.machine();
        let begin = BEGIN + self.chance.between(0, 6_000);
        let down = self.chance.between(1_000, 1_500);
        let time = Duration::from_millis(down);
        self.add(begin, Deed::CrashFleetd { machine, time });
        let cut = begin + down + self.chance.between(50, 700);
        let time = Duration::from_millis(END - cut);
        self.add(cut, Deed::Cut { machine, requests: true, answers: true, time });
        let at = (machine + 1) % self.plan.machines;
        self.add(cut + 100, Deed::Drain { of: machine, on: true, at });
    }

    /// An exclusive unit becomes non-exclusive. While its first run stops, it becomes exclusive on
    /// another machine.
    fn exchanged(&mut self) {
        self.calm();
        let mut begin = PROLOGUE;
        while begin < END {
            let (unit, machine, at) = (self.chance.below(3), self.machine(), self.machine());
            let next = (machine + 1) % self.plan.machines;
            let exclusive = |on: usize| format!("Exclusive=true\nMachineID=m{on}\n");
            self.put(begin, unit, exclusive(machine), at);
            begin += self.chance.between(3_000, 6_000);
            self.put(begin, unit, format!("MachineID=m{machine}\n"), at);
            begin += self.chance.between(50, 900);
            self.put(begin, unit, exclusive(next), at);
            begin += self.chance.between(3_000, 6_000);
        }
    }

    /// A machine with exclusive units is cut off for long, and its fleetd restarts in that time.
    fn restarted_while_cut_off(&mut self) {
        self.calm();
        self.exclusive_ones();
        let machine = self.machine();
        let begin = BEGIN + self.chance.between(0, 6_000);
        let time = Duration::from_millis(END - begin);
        self.add(begin, Deed::Cut { machine, requests: true, answers: true, time });
        // The next fleetd must know the deadline for giving up the claims.
        let time = Duration::from_millis(self.chance.between(100, 300));
        let when = begin + self.chance.between(0, 1_200);
        self.add(when, Deed::CrashFleetd { machine, time });
    }

    /// Only one machine may lead, and it is away for long. The others keep their units and follow
    /// changed desired states. Some of their fleetds restart or are cut off.
    fn unled(&mut self) {
        self.calm();
        self.plan.engines = 1;
        for unit in 0..6 {
            let asks = match self.chance.below(6) {
                0 => "Global=true\n".to_string(),
                1 => "Exclusive=true\n".to_string(),
                2 => format!("MachineID=m{}\n", self.machine()),
                _ => String::new(),
            };
            let when = PROLOGUE + self.chance.between(0, 2_000);
            self.put(when, unit, asks, 0);
        }
        let begin = BEGIN + self.chance.between(0, 4_000);
        let time = Duration::from_millis(END - begin);
        let gone = match self.chance.below(3) {
            0 => Deed::CrashMachine { machine: 0, time },
            1 => Deed::CrashFleetd { machine: 0, time },
            _ => Deed::Cut { machine: 0, requests: true, answers: true, time },
        };
        self.add(begin, gone);
        for _ in 0..self.chance.between(3, 9) {
            let when = begin + self.chance.between(5_000, END - begin - 5_000);
            let (unit, machine) = (self.chance.below(6), self.other_than_the_first());
            let at = self.other_than_the_first();
            let deed = match self.chance.below(8) {
                0 => Deed::Wish { unit, desired: "inactive", at },
                1 => Deed::Wish { unit, desired: "loaded", at },
                2 | 3 => Deed::Wish { unit, desired: "launched", at },
                4 => Deed::Destroy { unit, at },
                5 => {
                    let time = Duration::from_millis(self.chance.between(100, 900));
                    Deed::CrashFleetd { machine, time }
                }
                6 => {
                    let time = Duration::from_millis(self.chance.between(500, 3_000));
                    Deed::Cut { machine, requests: true, answers: true, time }
                }
                _ => Deed::BreakWatches { machine },
            };
            self.add(when, deed);
        }
    }

    fn other_than_the_first(&mut self) -> usize {
        1 + self.chance.below(self.plan.machines - 1)
    }

    /// All watches fall silent early. Units are created long after full readings have replaced the
    /// silent watches, and the leader must learn of them at once.
    fn deaf(&mut self) {
        self.calm();
        self.plan.interval = Duration::from_secs(2);
        for machine in 0..self.plan.machines {
            self.add(3_000, Deed::SilenceWatches { machine });
        }
        let mut begin = 66_000 + self.chance.between(0, 3_000);
        while begin < 92_000 {
            let (unit, at) = (self.chance.below(6), self.machine());
            self.put(begin, unit, String::new(), at);
            begin += self.chance.between(7_500, 9_500);
        }
    }

    /// Two machines leave, one after the other. The units of the first are re-created while the
    /// leader receives nothing. Its decision at the end of the first grace fails, and then the
    /// second grace ends.
    fn overdue(&mut self) {
        if self.plan.machines < 3 {
            return;
        }
        self.calm();
        self.plan.grace = Duration::from_secs(4);
        self.plan.interval = Duration::from_secs(2);
        let (first, second) = (self.plan.machines - 1, self.plan.machines - 2);
        self.put(PROLOGUE, 0, format!("MachineID=m{first}\n"), 0);
        self.put(PROLOGUE, 1, format!("MachineID=m{second}\n"), 0);
        let begin = BEGIN + self.chance.between(0, 8_000);
        let (time, later) = (Duration::from_secs(22), self.chance.between(1_000, 2_500));
        for (when, machine) in [(begin, first), (begin + later, second)] {
            self.add(when, Deed::CrashMachine { machine, time });
            self.add(when + 1, Deed::EndLease { machine });
        }
        let silent = begin + self.chance.between(2_900, 3_500);
        for machine in 0..second {
            self.add(silent, Deed::SilenceWatches { machine });
        }
        self.put(silent + 100, 0, format!("MachineID=m{first}\n"), 0);
    }

    /// Machines that require signatures get files that are unsigned, signed by a stranger, signed
    /// for another name, or outdated.
    fn signed(&mut self) {
        self.calm();
        self.plan.signed = true;
        let (mut when, mut serial) = (PROLOGUE, 20);
        while when < END {
            let (unit, at, machine) = (self.chance.below(3), self.machine(), self.machine());
            let asks = match self.chance.percent(50) {
                true => format!("MachineID=m{machine}\n"),
                false => String::new(),
            };
            serial += 1;
            let (by, serial) = match self.chance.below(10) {
                0 => (Signer::Stranger, serial),
                1 => (Signer::OfAnother, serial),
                2 => (Signer::None, serial),
                3..=5 => (Signer::Ours, serial - self.chance.between(1, 6)),
                _ => (Signer::Ours, serial),
            };
            self.add(when, Deed::PutSigned { unit, asks, by, serial, at });
            if self.chance.percent(25) {
                // While a machine's fleetd is down, a file that it has seen is replaced with an
                // older one.
                let (by, asks) = (Signer::Ours, format!("MachineID=m{machine}\n"));
                let (later, time) = (when + 3_000, Duration::from_millis(900));
                self.add(later, Deed::CrashFleetd { machine, time });
                let at = (machine + 1) % self.plan.machines;
                let old = Deed::PutSigned { unit, asks, by, serial: serial - 5, at };
                self.add(later + 100, old);
            }
            if self.chance.percent(20) {
                let time = Duration::from_millis(self.chance.between(100, 900));
                let later = when + self.chance.between(0, 3_000);
                self.add(later, Deed::CrashFleetd { machine, time });
            }
            if self.chance.percent(15) {
                let time = Duration::from_millis(self.chance.between(500, 4_000));
                let cut = Deed::Cut { machine, requests: true, answers: true, time };
                let later = when + self.chance.between(0, 3_000);
                self.add(later, cut);
            }
            when += [1_500, 9_500][self.chance.below(2)] + self.chance.between(0, 2_000);
        }
    }
}

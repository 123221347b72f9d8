//! More stories, told to schedules to which [`crate::sim::story`] tells none. They are about states
//! that last and not about moments: readings that have less in them than there is, a machine that
//! comes and goes without end.

use crate::sim::partial::{Hidden, OF_UNITS};
use crate::sim::plan::{Deed, Plan, Rates};
use groundstate_units::sim::chance::Chance;
use std::time::Duration;

/// Of a hundred schedules without another story so many tell one of these.
const TOLD: u32 = 20;
/// When the units of a story are made, in milliseconds.
const PROLOGUE: u64 = 700;
/// When it begins.
const BEGIN: u64 = 8_000;
/// It is over a while before all faults end.
const END: u64 = 42_000;

/// Adds a story to a plan, or none, as its seed has it.
pub fn tell(plan: &mut Plan) {
    let mut chance = Chance::of(plan.seed, 5, 0);
    if !chance.percent(TOLD) {
        return;
    }
    let mut sequel = Sequel { chance, plan };
    match sequel.chance.below(2) {
        0 => sequel.blind(),
        _ => sequel.restless(),
    }
    sequel.plan.deeds.sort_by_key(|(at, _)| *at);
}

struct Sequel<'p> {
    chance: Chance,
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

    /// Nothing happens but what is told here.
    fn calm(&mut self) {
        let latency = self.plan.rates.latency;
        self.plan.rates = Rates { latency, ..Rates::default() };
        self.plan.deeds.clear();
    }

    /// The readings of a machine on which many units run have less in them than there is, again and
    /// again; the past may be gone, too, and fleetd begin anew.
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

    /// A machine comes and goes every few seconds, and whatever is made meanwhile comes to it, for
    /// it has the least: after a few times it keeps its units.
    fn restless(&mut self) {
        self.calm();
        // Who leads is calm, and counts.
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
}

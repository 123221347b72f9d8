//! The processes of the simulated world. Each run's behaviour is drawn from the seed, the unit and
//! the number of its runs, so that dropping an event elsewhere leaves it the same. Processes know
//! nothing about unit states; they produce the facts that init would see.

use crate::machine::event::{Event, ExecFailure, RunId, Stage};
use crate::simulator::fault::{FAULTS, Fault, Rates};
use crate::simulator::rng::Rng;
use crate::spec::{Exit, Kind, Readiness};
use crate::text::time::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// One process.
#[derive(Clone, Debug)]
struct Life {
    main: bool,
    unit: usize,
    readiness: Readiness,
    rng: Rng,
    stubborn: bool,
    immortal: bool,
}

/// All processes and the pending facts.
#[derive(Clone, Debug)]
pub struct Processes {
    seed: u64,
    rates: Rates,
    /// Faults are enabled.
    pub faulty: bool,
    lives: BTreeMap<RunId, Life>,
    births: BTreeMap<usize, u64>,
    facts: BTreeMap<(Time, u64), (Event, Option<Fault>)>,
    last: u64,
}

const MS: Duration = Duration::from_millis(1);

impl Processes {
    /// Creates a world without processes.
    pub fn new(seed: u64, rates: Rates) -> Processes {
        Processes {
            seed,
            rates,
            faulty: true,
            lives: BTreeMap::new(),
            births: BTreeMap::new(),
            facts: BTreeMap::new(),
            last: 0,
        }
    }

    /// Returns the time of the next fact.
    pub fn next_time(&self) -> Option<Time> {
        self.facts.keys().next().map(|(at, _)| *at)
    }

    /// Returns the next fact that is due, and the fault that caused it.
    pub fn next_fact(&mut self, now: Time) -> Option<(Event, Option<Fault>)> {
        loop {
            let key = *self.facts.keys().next().filter(|(at, _)| *at <= now)?;
            let (fact, fault) = self.facts.remove(&key)?;
            if self.happens(&fact, fault) {
                return Some((fact, fault));
            }
        }
    }

    /// Disables faults: runs that hang or resist give in.
    pub fn calm(&mut self, now: Time) {
        self.faulty = false;
        let runs: Vec<RunId> = self.lives.keys().copied().collect();
        self.facts.retain(|_, (_, fault)| fault.is_none() || *fault == Some(Fault::Late));
        for run in runs {
            let Some(life) = self.lives.get_mut(&run) else { continue };
            let refused = life.stubborn || life.immortal;
            (life.stubborn, life.immortal) = (false, false);
            let (readiness, main) = (life.readiness, life.main);
            if refused || !main {
                self.end(run, now, 20 * MS, Exit::Signal { signal: 9, core: false });
            } else if readiness == Readiness::Exit {
                self.push(now.after(20 * MS), Event::Ended(run, Exit::Code(0)), None);
            } else if readiness == Readiness::Reported {
                self.push(now.after(20 * MS), Event::Ready(run), None);
            }
        }
    }

    fn push(&mut self, at: Time, fact: Event, fault: Option<Fault>) {
        self.last += 1;
        self.facts.insert((at, self.last), (fact, fault));
    }

    /// Applies a fact to the world. Returns false if it does not fit the live runs any more.
    fn happens(&mut self, fact: &Event, fault: Option<Fault>) -> bool {
        if fault == Some(Fault::Stale) {
            return true;
        }
        let Some(run) = fact.run() else { return true };
        let Some(life) = self.lives.get_mut(&run) else { return false };
        match fact {
            Event::Exited(..) => std::mem::replace(&mut life.main, false),
            Event::Ended(..) => {
                let was = life.main;
                if was {
                    self.lives.remove(&run);
                }
                was
            }
            Event::Gone(_) => {
                let ended = !life.main;
                if ended {
                    self.lives.remove(&run);
                }
                ended
            }
            Event::StartFailed(..) | Event::Skipped(..) => self.lives.remove(&run).is_some(),
            Event::Reloaded(..) => true,
            _ => life.main,
        }
    }

    /// Starts a run.
    pub fn start(&mut self, now: Time, unit: usize, run: RunId, kind: Kind, readiness: Readiness) {
        let birth = self.births.entry(unit).or_default();
        *birth += 1;
        let mut rng = Rng::of(self.seed, 7 + unit as u64, *birth);
        let mut strikes = self.rates.map(|rate| rng.percent(rate));
        if !self.faulty {
            strikes = [false; FAULTS];
        }
        let has = |fault: Fault| strikes[fault as usize];
        let mut life = Life {
            main: true,
            unit,
            readiness,
            stubborn: has(Fault::IgnoresTerm),
            immortal: has(Fault::Unkillable),
            rng: rng.clone(),
        };
        if kind.is_instant() {
            if kind.is_trigger() && has(Fault::ExecError) {
                self.lives.insert(run, life);
                let failure = failed(Stage::Listen, [98, 11][rng.below(2)]);
                let at = now.after(MS * rng.between(0, 500) as u32);
                self.push(at, Event::StartFailed(run, failure), Some(Fault::ExecError));
            }
            return;
        }
        let soon = now.after(MS * rng.between(0, 3) as u32);
        life.rng = rng.clone();
        self.lives.insert(run, life);
        if has(Fault::Skipped) {
            let fact = Event::Skipped(run, "path-exists /drawn".to_string());
            return self.push(soon, fact, Some(Fault::Skipped));
        }
        if has(Fault::ForkError) {
            let fact = Event::StartFailed(run, failed(Stage::Fork, 11));
            return self.push(soon, fact, Some(Fault::ForkError));
        }
        if has(Fault::ExecError) {
            let fact = Event::StartFailed(run, failed(Stage::Execve, 2));
            return self.push(soon, fact, Some(Fault::ExecError));
        }
        self.push(soon, Event::Executed(run), None);
        self.grow(soon, run, readiness, strikes, &mut rng);
        if has(Fault::Stale) {
            let facts = [
                Event::Ready(run),
                Event::Exited(run, Exit::Code(1)),
                Event::Gone(run),
                Event::Reloaded(run, true),
                Event::StartFailed(run, failed(Stage::Execve, 2)),
                Event::WatchdogTrigger(run),
                Event::Protocol(run, "late".to_string()),
            ];
            for _ in 0..3 {
                let at = now.after(MS * rng.between(2_000, 90_000) as u32);
                if let Some(fact) = facts.get(rng.below(facts.len())) {
                    self.push(at, fact.clone(), Some(Fault::Stale));
                }
            }
        }
    }

    /// Draws the facts from the exec on.
    fn grow(
        &mut self,
        soon: Time,
        run: RunId,
        readiness: Readiness,
        strikes: [bool; FAULTS],
        rng: &mut Rng,
    ) {
        let has = |fault: Fault| strikes[fault as usize];
        let quick = MS * rng.between(1, 400) as u32;
        let late = MS * rng.between(1_000, 15_000) as u32;
        let ready_at = soon.after(if has(Fault::Late) { late } else { quick });
        let late = has(Fault::Late).then_some(Fault::Late);
        self.talk(soon, ready_at, run, rng);
        if has(Fault::Protocol) {
            let fact = Event::Protocol(run, "no pid in the pid file".to_string());
            self.push(ready_at, fact, Some(Fault::Protocol));
        }
        if has(Fault::EarlyExit) {
            let exit = exit(rng, false);
            let at = soon.after(quick / 2);
            return self.ends(at, run, exit, has(Fault::Leftovers), Fault::EarlyExit, rng);
        }
        if has(Fault::Hang) && readiness != Readiness::Exec {
            return;
        }
        match readiness {
            Readiness::Exit => {
                let rest = has(Fault::Leftovers);
                let exit = Exit::Code(0);
                let fact = if rest { Event::Exited(run, exit) } else { Event::Ended(run, exit) };
                self.push(ready_at, fact, late);
                if rest && rng.percent(60) {
                    let at = ready_at.after(MS * rng.between(10, 20_000) as u32);
                    self.push(at, Event::Gone(run), Some(Fault::Leftovers));
                }
                return;
            }
            Readiness::Reported => self.push(ready_at, Event::Ready(run), late),
            Readiness::Instant | Readiness::Exec | Readiness::Wait(_) => {}
        }
        self.live(ready_at, run, strikes, rng);
    }

    /// Draws notifications with little effect.
    fn talk(&mut self, soon: Time, ready_at: Time, run: RunId, rng: &mut Rng) {
        if rng.percent(70) {
            return;
        }
        let later = |rng: &mut Rng| MS * rng.between(1, 20_000) as u32;
        self.push(soon, Event::Status(run, "hello".to_string()), None);
        if rng.percent(50) {
            let span = later(rng);
            self.push(soon, Event::ExtendTimeout(run, span), None);
        }
        if rng.percent(30) {
            let at = ready_at.after(later(rng));
            self.push(at, Event::Stopping(run), None);
            if rng.percent(50) {
                let span = later(rng);
                self.push(at.after(MS), Event::ExtendTimeout(run, span), None);
            }
        }
    }

    /// Draws the facts from readiness on.
    fn live(&mut self, from: Time, run: RunId, strikes: [bool; FAULTS], rng: &mut Rng) {
        let has = |fault: Fault| strikes[fault as usize];
        if has(Fault::Watchdog) {
            let every = MS * rng.between(100, 3_000) as u32;
            self.push(from, Event::WatchdogEvery(run, every), Some(Fault::Watchdog));
            let mut at = from;
            for _ in 0..rng.below(4) {
                at = at.after(every / 2);
                self.push(at, Event::WatchdogPing(run), Some(Fault::Watchdog));
            }
            if rng.percent(30) {
                self.push(at, Event::WatchdogTrigger(run), Some(Fault::Watchdog));
            } else if rng.percent(30) {
                self.push(at, Event::WatchdogEvery(run, Duration::ZERO), Some(Fault::Watchdog));
            }
        }
        if has(Fault::BadReload) {
            let at = from.after(MS * rng.between(0, 3_000) as u32);
            self.push(at, Event::Reloading(run), Some(Fault::BadReload));
            if rng.percent(60) {
                let at = at.after(MS * rng.between(0, 3_000) as u32);
                self.push(at, Event::Ready(run), None);
            }
        }
        let age = MS * [50, 900, 5_000, 30_000, 61_000][rng.below(5)];
        let at = from.after(age + MS * rng.between(0, 99) as u32);
        if has(Fault::OutOfMemory) {
            self.push(at, Event::OutOfMemory(run), Some(Fault::OutOfMemory));
            let exit = Exit::Signal { signal: 9, core: false };
            return self.ends(at, run, exit, has(Fault::Leftovers), Fault::OutOfMemory, rng);
        }
        if has(Fault::Crash) {
            let exit = exit(rng, false);
            return self.ends(at, run, exit, has(Fault::Leftovers), Fault::Crash, rng);
        }
        if has(Fault::ExitZero) {
            let exit = exit(rng, true);
            self.ends(at, run, exit, has(Fault::Leftovers), Fault::ExitZero, rng);
        }
    }

    fn ends(&mut self, at: Time, run: RunId, exit: Exit, rest: bool, fault: Fault, rng: &mut Rng) {
        if !rest {
            return self.push(at, Event::Ended(run, exit), Some(fault));
        }
        self.push(at, Event::Exited(run, exit), Some(fault));
        if rng.percent(50) {
            let gone = at.after(MS * rng.between(0, 8_000) as u32);
            self.push(gone, Event::Gone(run), Some(Fault::Leftovers));
        }
    }

    /// Tells the run to stop. A run without processes runs its exec-stop.
    pub fn stop(&mut self, now: Time, unit: usize, run: RunId) {
        let seed = self.seed;
        let life = self.lives.entry(run).or_insert_with(|| Life {
            main: false,
            unit,
            readiness: Readiness::Exec,
            rng: Rng::of(seed, 5, run.0),
            stubborn: false,
            immortal: false,
        });
        let wait = MS * life.rng.between(0, 300) as u32;
        if life.stubborn || life.immortal {
            return;
        }
        let exit = if life.rng.percent(50) { Exit::Code(0) } else { exit(&mut life.rng, false) };
        self.end(run, now, wait, exit);
    }

    /// Sends SIGKILL to a run.
    pub fn kill(&mut self, now: Time, run: RunId) {
        let Some(life) = self.lives.get_mut(&run) else { return };
        let mut wait = MS * life.rng.between(0, 30) as u32;
        if life.immortal {
            if life.rng.percent(20) {
                return; // for good
            }
            wait = MS * life.rng.between(1_000, 12_000) as u32;
        }
        self.end(run, now, wait, Exit::Signal { signal: 9, core: false });
    }

    fn end(&mut self, run: RunId, now: Time, wait: Duration, exit: Exit) {
        let Some(life) = self.lives.get_mut(&run) else { return };
        let at = now.after(wait);
        if !life.main {
            self.push(at, Event::Gone(run), None);
        } else if life.rng.percent(60) {
            self.push(at, Event::Ended(run, exit), None);
        } else {
            let gone = at.after(MS * life.rng.between(0, 200) as u32);
            self.push(at, Event::Exited(run, exit), None);
            self.push(gone, Event::Gone(run), None);
        }
    }

    /// Starts a reload of the run.
    pub fn reload(&mut self, now: Time, run: RunId) {
        let rate = self.rates[Fault::BadReload as usize];
        let faulty = self.faulty;
        let Some(life) = self.lives.get_mut(&run) else {
            return self.push(now.after(MS), Event::Reloaded(run, true), Some(Fault::Stale));
        };
        let at = now.after(MS * life.rng.between(1, 500) as u32);
        let bad = faulty && life.rng.percent(rate);
        let hangs = life.rng.percent(50);
        if !(bad && hangs) {
            self.push(at, Event::Reloaded(run, !bad), bad.then_some(Fault::BadReload));
        }
    }

    /// Forgets a run of which nothing is left.
    pub fn forget(&mut self, run: RunId) {
        self.lives.remove(&run);
    }

    /// Returns the unit of a live run.
    pub fn whose(&self, run: RunId) -> Option<usize> {
        self.lives.get(&run).map(|life| life.unit)
    }
}

fn failed(stage: Stage, errno: i32) -> ExecFailure {
    ExecFailure { stage, errno, path: "/drawn".to_string() }
}

fn exit(rng: &mut Rng, well: bool) -> Exit {
    match rng.below(4) {
        _ if well => Exit::Code(0),
        0 => Exit::Signal { signal: [6, 9, 11, 15][rng.below(4)], core: false },
        _ => Exit::Code(rng.between(1, 3) as u8),
    }
}

//! Coverage of the schedules: every state with every kind of event, every fault in every state
//! where it can strike, and every kind of action. Counts have floors, because a run that reached
//! less proves less.

use crate::machine::event::Event;
use crate::machine::reason::State;
use crate::simulator::fault::{FAULTS, Fault};
use crate::simulator::view::{Order, View};
use std::fmt;

/// Names of the kinds of event.
pub const EVENTS: [&str; 28] = [
    "boot",
    "set-goal",
    "want",
    "unwant",
    "set-policy",
    "reload",
    "restart",
    "reload-unit",
    "retry",
    "shutdown",
    "executed",
    "ready",
    "reloading",
    "reloaded",
    "notify-stopping",
    "status",
    "extend",
    "watchdog-every",
    "ping",
    "trigger",
    "exited",
    "ended",
    "gone",
    "skipped",
    "start-failed",
    "protocol",
    "out-of-memory",
    "fire",
];

/// Returns the row of an event, or `None` for an event that is not counted in a row.
pub fn row(event: &Event) -> Option<usize> {
    Some(match event {
        Event::Boot { .. } => 0,
        Event::SetGoal(_) => 1,
        Event::Want { .. } => 2,
        Event::Unwant(_) => 3,
        Event::SetPolicy(_) => 4,
        Event::Reload { .. } => 5,
        Event::Restart(_) => 6,
        Event::ReloadUnit(_) => 7,
        Event::Retry(_) => 8,
        Event::Shutdown(_) => 9,
        Event::Executed(_) => 10,
        Event::Ready(_) => 11,
        Event::Reloading(_) => 12,
        Event::Reloaded(..) => 13,
        Event::Stopping(_) => 14,
        Event::Status(..) => 15,
        Event::ExtendTimeout(..) => 16,
        Event::WatchdogEvery(..) => 17,
        Event::WatchdogPing(_) => 18,
        Event::WatchdogTrigger(_) => 19,
        Event::Exited(..) => 20,
        Event::Ended(..) => 21,
        Event::Gone(_) => 22,
        Event::Skipped(..) => 23,
        Event::StartFailed(..) => 24,
        Event::Protocol(..) => 25,
        Event::OutOfMemory(_) => 26,
        Event::Fire(_) => 27,
        // The simulator has no stop commands; a scenario covers them.
        Event::StopFailed(..) | Event::Tick => return None,
    })
}

/// The counts.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// Event × state of its unit; a wish counts for every unit.
    pub cells: [[u64; 8]; 28],
    /// Fault × state of its unit.
    pub faults: [[u64; 8]; FAULTS],
    /// Actions: start, stop, kill, reload-unit, finish.
    pub orders: [u64; 5],
    /// Schedules by shape of the graph.
    pub shapes: [u64; 5],
    /// Number of schedules.
    pub schedules: u64,
    /// Number of events.
    pub events: u64,
    /// Number of refused wishes.
    pub refused: u64,
    /// Number of units of each world, for the median.
    pub sizes: [u64; 32],
    /// The least number of events of a schedule.
    pub shortest: u64,
    /// Number of schedules in liveness mode.
    pub lively: u64,
}

impl Default for Coverage {
    fn default() -> Coverage {
        Coverage {
            cells: [[0; 8]; 28],
            faults: [[0; 8]; FAULTS],
            orders: [0; 5],
            shapes: [0; 5],
            schedules: 0,
            events: 0,
            refused: 0,
            sizes: [0; 32],
            shortest: u64::MAX,
            lively: 0,
        }
    }
}

impl Coverage {
    /// Counts one event; `about` is the unit of a fact.
    pub fn count(&mut self, view: &View, about: Option<usize>, fault: Option<Fault>) {
        self.events += 1;
        self.refused += u64::from(view.refused);
        let place = |unit: usize| view.before.state(unit) as usize;
        if let Some(row) = row(view.event) {
            match about {
                Some(unit) => self.cells[row][place(unit)] += 1,
                None => (0..met(view)).for_each(|unit| {
                    self.cells[row][place(unit)] += 1;
                }),
            }
        }
        if let (Some(fault), Some(unit)) = (fault, about) {
            self.faults[fault as usize][place(unit)] += 1;
        }
        for order in view.orders {
            let kind = match order {
                Order::Start(..) => 0,
                Order::Stop(..) => 1,
                Order::Kill(..) => 2,
                Order::Reload(..) => 3,
                Order::Finish => 4,
            };
            self.orders[kind] += 1;
        }
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Coverage) {
        let sum = |a: &mut [u64], b: &[u64]| a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        self.cells.iter_mut().zip(&other.cells).for_each(|(a, b)| sum(a, b));
        self.faults.iter_mut().zip(&other.faults).for_each(|(a, b)| sum(a, b));
        sum(&mut self.orders, &other.orders);
        sum(&mut self.shapes, &other.shapes);
        sum(&mut self.sizes, &other.sizes);
        self.schedules += other.schedules;
        self.events += other.events;
        self.refused += other.refused;
        self.lively += other.lively;
        self.shortest = self.shortest.min(other.shortest);
    }

    /// Returns the median number of units.
    pub fn median(&self) -> usize {
        let half = self.sizes.iter().sum::<u64>().div_ceil(2);
        let mut seen = 0;
        self.sizes
            .iter()
            .position(|count| {
                seen += count;
                seen >= half
            })
            .unwrap_or(0)
    }

    /// Returns the cells below their floor, in words. A fact of a live run cannot meet a unit that
    /// never ran, so only reachable cells have a floor.
    pub fn shortfalls(&self, floor: u64) -> Vec<String> {
        let mut short = Vec::new();
        if self.shortest < 100 {
            short.push(format!("the shortest schedule has {} events of 100", self.shortest));
        }
        let mut need = |what: String, count: u64| {
            if count < floor {
                short.push(format!("{what}: {count} of {floor}"));
            }
        };
        for (row, event) in EVENTS.iter().enumerate() {
            for (place, state) in State::ALL.iter().enumerate() {
                if reachable(event, *state) {
                    need(format!("{event} × {}", state.as_str()), self.cells[row][place]);
                }
            }
        }
        for fault in Fault::ALL {
            for state in fault.strikes_in() {
                let count = self.faults[fault as usize][*state as usize];
                need(format!("fault {fault:?} × {}", state.as_str()), count);
            }
        }
        for (kind, name) in ["start", "stop", "kill", "reload-unit", "finish"].iter().enumerate() {
            need(format!("order {name}"), self.orders[kind]);
        }
        for (shape, name) in crate::simulator::shape::SHAPES.iter().enumerate() {
            need(format!("shape {name}"), self.shapes[shape]);
        }
        short
    }
}

/// Returns the number of units that an event counts for if it is a wish. Before the boot the
/// machine knows no units, so the first event counts for those known after it.
fn met(view: &View) -> usize {
    match view.event {
        Event::Boot { .. } => view.after.states.len(),
        _ => view.before.states.len(),
    }
}

/// Returns true if the simulator can deliver `event` to a unit in `state`.
fn reachable(event: &str, state: State) -> bool {
    let wish = row_of(event) < 10 && event != "boot" || event == "fire";
    match event {
        "boot" => state == State::Disabled,
        _ if wish => true,
        "executed" | "skipped" => matches!(state, State::Starting | State::Stopping),
        _ => matches!(state, State::Starting | State::Running | State::Stopping),
    }
}

fn row_of(event: &str) -> usize {
    EVENTS.iter().position(|name| *name == event).unwrap_or(usize::MAX)
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>16}", "event × state")?;
        for state in State::ALL {
            write!(f, "{:>11}", state.as_str())?;
        }
        writeln!(f)?;
        let faults = Fault::ALL.map(|fault| format!("! {fault:?}"));
        let rows = EVENTS.iter().map(|name| name.to_string()).zip(self.cells.iter());
        for (name, row) in rows.chain(faults.into_iter().zip(self.faults.iter())) {
            write!(f, "{name:>16}")?;
            for count in row {
                write!(f, "{count:>11}")?;
            }
            writeln!(f)?;
        }
        let [start, stop, kill, reload, finish] = self.orders;
        writeln!(
            f,
            "orders: start {start}, stop {stop}, kill {kill}, reload-unit {reload}, finish {finish}"
        )?;
        let shapes = crate::simulator::shape::SHAPES.iter().zip(self.shapes);
        let shapes: Vec<String> = shapes.map(|(name, count)| format!("{name} {count}")).collect();
        writeln!(
            f,
            "graphs: {}; median {} units; shortest schedule {} events; {} schedules in liveness mode; {} wishes refused",
            shapes.join(", "),
            self.median(),
            self.shortest,
            self.lively,
            self.refused
        )
    }
}

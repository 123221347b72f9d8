//! The machine with a virtual clock: timers due before an event fire first, those due at its time
//! fire after it. The actions of each step are recorded.

use crate::machine::Machine;
use crate::machine::action::Action;
use crate::machine::event::Event;
use crate::text::time::Time;
use crate::unit::policy::Policy;
use std::time::Duration;

/// The shutdown deadline if the settings of a case have none, as on a machine.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(90);
/// Limit of timers in one step; more means a loop.
const TICKS: usize = 100_000;

/// The machine and its clock.
pub(super) struct Clock {
    pub(super) machine: Machine,
    pub(super) now: Time,
    /// The operator's present policy.
    pub(super) policy: Policy,
}

/// The actions of one step, without notes, and its refusal.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) deeds: Vec<String>,
    pub(super) refused: Option<String>,
}

impl Seen {
    fn add(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Start { name, .. } => self.deeds.push(format!("start {name}")),
                Action::Stop { name, .. } => self.deeds.push(format!("stop {name}")),
                Action::Kill { name, .. } => self.deeds.push(format!("kill {name}")),
                Action::ReloadUnit { name, .. } => self.deeds.push(format!("reload {name}")),
                Action::Emergency => self.deeds.push("emergency".to_string()),
                Action::Note(_) | Action::Finish(_) => {}
            }
        }
    }
}

impl Clock {
    pub(super) fn new(policy: Policy) -> Clock {
        Clock { machine: Machine::new(SHUTDOWN_DEADLINE), now: Time::ZERO, policy }
    }

    /// Sets the clock to `at` and fires the timers that were due before.
    pub(super) fn approach(&mut self, at: Time, seen: &mut Seen) -> Result<(), String> {
        if at < self.now {
            return Err("time goes backwards".to_string());
        }
        self.now = at;
        self.ticks(seen, |due| due < at)
    }

    pub(super) fn event(&mut self, event: Event, seen: &mut Seen) -> Result<(), String> {
        let outcome = self.machine.step(self.now, event);
        seen.add(outcome.actions);
        if let Some(refusal) = outcome.refused {
            seen.refused = Some(format!("{}: {}", refusal.kind, refusal.message));
        }
        self.machine.audit()
    }

    /// Fires the timers of this moment.
    pub(super) fn strike(&mut self, seen: &mut Seen) -> Result<(), String> {
        let now = self.now;
        self.ticks(seen, |due| due <= now)
    }

    fn ticks(&mut self, seen: &mut Seen, due: impl Fn(Time) -> bool) -> Result<(), String> {
        for _ in 0..TICKS {
            let Some(next) = self.machine.next_deadline().filter(|next| due(*next)) else {
                return Ok(());
            };
            let outcome = self.machine.step(next, Event::Tick);
            seen.add(outcome.actions);
            self.machine.audit()?;
        }
        Err(format!("more than {TICKS} timers before the next event"))
    }
}

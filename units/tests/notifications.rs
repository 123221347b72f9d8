//! Notifications of a process in every state of its unit. A notification of an old run changes
//! nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::control::view::{self, Facts};
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, Goal, RunId};
use groundstate_units::spec::Exit;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::policy::Policy;
use memory::Memory;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

const SET: [(&str, &str); 5] = [
    ("/u/all.yaml", "unit: all\nwants: web, waits, job, never\n"),
    (
        "/u/web.yaml",
        "unit: web\ntype: foreground-notified\nrestart-delay: 30s\nexec-start: /bin/x\n",
    ),
    ("/u/waits.yaml", "unit: waits\ndepends-on: web\nexec-start: /bin/x\n"),
    ("/u/job.yaml", "unit: job\ntype: oneshot\nexec-start: /bin/x\n"),
    ("/u/never.yaml", "unit: never\nrestart: never\nexec-start: /bin/x\n"),
];

/// The longest time that a service can request: 2^64 - 1 µs.
const LONGEST: Duration = Duration::from_micros(u64::MAX);

fn at(seconds: u64) -> Time {
    Time::ZERO.after(Duration::from_secs(seconds))
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// All notifications of a run.
fn words(run: RunId) -> Vec<Event> {
    vec![
        Event::Ready(run),
        Event::Reloading(run),
        Event::Status(run, "said".to_owned()),
        Event::ExtendTimeout(run, Duration::ZERO),
        Event::ExtendTimeout(run, LONGEST),
        Event::WatchdogEvery(run, Duration::from_micros(1)),
        Event::WatchdogEvery(run, LONGEST),
        Event::WatchdogPing(run),
        Event::WatchdogTrigger(run),
        Event::Stopping(run),
    ]
}

fn booted() -> Machine {
    let generation = Memory::new(&SET).check("/u");
    assert!(generation.diagnostics.is_empty(), "{:?}", generation.diagnostics);
    let mut machine = Machine::new(Duration::from_secs(90));
    let targets = vec![name("all")];
    machine.step(at(1), Event::Boot { generation: Arc::new(generation), targets });
    machine
}

fn run(machine: &Machine, unit: &str) -> RunId {
    machine.run(machine.generation().find_unit(unit).unwrap()).unwrap()
}

fn shown(machine: &Machine) -> Value {
    let facts = Facts { now: at(9), wall: Duration::from_secs(1), ..Facts::default() };
    serde_json::to_value(view::status(machine, &facts, &[]).unwrap()).unwrap()
}

/// Returns the state and the kind of its reason.
fn state(machine: &Machine, unit: &str) -> (String, String) {
    let status = shown(machine);
    let units = status["units"].as_array().unwrap();
    let unit = units.iter().find(|it| it["unit"] == unit).unwrap();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (word(&unit["state"]), word(&unit["reason"]["kind"]))
}

#[test]
fn notification_of_an_old_run_changes_nothing_in_any_state() {
    let mut machine = booted();
    let (web, job, never) = (run(&machine, "web"), run(&machine, "job"), run(&machine, "never"));
    for run in [web, job, never] {
        machine.step(at(2), Event::Executed(run));
    }
    machine.step(at(3), Event::Ended(web, Exit::Code(1)));
    machine.step(at(3), Event::Ended(job, Exit::Code(0)));
    machine.step(at(3), Event::Ended(never, Exit::Code(1)));
    let states = ["web", "waits", "job", "never"].map(|unit| state(&machine, unit));
    let states: Vec<(&str, &str)> = states.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert_eq!(
        states,
        [("waiting", "backoff"), ("waiting", "on"), ("exited", ""), ("failed", "exit")]
    );
    let before = (shown(&machine), machine.next_deadline());
    // Run 77 never existed.
    for run in [web, job, never, RunId(77)] {
        for word in words(run) {
            let outcome = machine.step(at(4), word.clone());
            assert!(
                outcome.actions.is_empty() && outcome.refused.is_none(),
                "{word:?}: {outcome:?}"
            );
            assert_eq!((shown(&machine), machine.next_deadline()), before, "{word:?}");
        }
    }
    // The goal no longer needs the unit.
    let goal = Goal { targets: vec![name("job")], ..Goal::default() };
    machine.step(at(5), Event::SetGoal(goal));
    for word in words(web) {
        machine.step(at(5), word);
        assert_eq!(state(&machine, "web").0, "disabled");
    }
}

#[test]
fn maximum_timeout_extension_is_accepted_in_every_state() {
    let mut machine = booted();
    let web = run(&machine, "web");
    let longest = || [Event::ExtendTimeout(web, LONGEST), Event::WatchdogEvery(web, LONGEST)];
    let extend = |machine: &mut Machine, seconds: u64, wanted: &str| {
        for word in longest() {
            machine.step(at(seconds), word);
            machine.step(at(seconds), Event::Tick);
            assert_eq!(state(machine, "web").0, wanted);
        }
    };
    extend(&mut machine, 1, "starting");
    machine.step(at(2), Event::Executed(web));
    // Longer than any start timeout.
    extend(&mut machine, 2, "starting");
    extend(&mut machine, 100_000, "starting");
    machine.step(at(100_001), Event::Ready(web));
    extend(&mut machine, 100_002, "running");
    machine.step(at(100_003), Event::Reloading(web));
    extend(&mut machine, 200_000, "reloading");
    machine.step(at(200_001), Event::Ready(web));
    let policy = Policy { mask: [name("web")].into(), ..Policy::default() };
    machine.step(at(200_002), Event::SetPolicy(policy));
    extend(&mut machine, 200_002, "stopping");
    extend(&mut machine, 300_000, "stopping");
    machine.step(at(300_001), Event::Ended(web, Exit::Code(0)));
    assert_eq!(state(&machine, "web").0, "disabled");
}

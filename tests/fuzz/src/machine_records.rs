//! Checks of the fuzz target `machine_records` for any bytes as the records of a machine: they are
//! refused, or are a machine that can be queried, gets events and time, and stops, without a panic
//! and without endless work.
//!
//! A first byte above 127: the bytes are those of a running machine, which the rest changes by
//! events and damages.

use super::composed::Composed;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, Goal, RunId, Shutdown};
use groundstate_units::spec::{DependencyKind, ExecLine, Exit, Kind, Piece, Run};
use groundstate_units::text::diagnostic::Place;
use groundstate_units::text::fields;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::assembly::{Draft, Edge, assemble};
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::settings::Settings;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The machine, if it is one. Panics if a promise is broken.
pub fn machine_records(bytes: &[u8]) -> Option<Machine> {
    let machine = decoded(&meant(bytes)?)?;
    assert!(decoded(&encoded(&machine)).is_some(), "records of a machine are refused");
    live(machine.clone());
    Some(machine)
}

fn encoded(machine: &Machine) -> Vec<u8> {
    fields::encode(&machine.records()).expect("records can be encoded")
}

fn decoded(bytes: &[u8]) -> Option<Machine> {
    Machine::from_records(fields::decode(bytes).ok()?, at_work().0.clone()).ok()
}

/// The records of an input.
pub fn meant(input: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = input.split_first()?;
    Some(if *first < 128 { rest.to_vec() } else { damaged(rest) })
}

/// Queries the machine, sends it events and time, and stops it.
pub fn live(mut machine: Machine) {
    let name = Name::new("u1").expect("a name");
    let _ = machine.next_deadline();
    let _ = machine.plan(Time::from_nanos(5), Event::SetGoal(Goal::default()));
    let goal = Goal { targets: vec![name.clone()], ..Goal::default() };
    let facts = (0..8).flat_map(|run| {
        let run = RunId(run);
        [
            Event::Executed(run),
            Event::Ready(run),
            Event::Exited(run, Exit::Code(1)),
            Event::Gone(run),
        ]
    });
    let wishes = [
        Event::SetGoal(goal),
        Event::Restart(vec![name.clone()]),
        Event::Retry(vec![name.clone()]),
        Event::Reload { generation: at_work().0.clone(), no_restart: false, tolerant: true },
        Event::Fire(name),
        Event::Shutdown(Shutdown::Halt),
    ];
    let mut now = Time::from_nanos(2_000_000_000);
    for event in facts.chain(wishes) {
        machine.step(now, event);
        now = now.after(Duration::from_secs(40));
        machine.step(now, Event::Tick);
    }
}

fn damaged(by: &[u8]) -> Vec<u8> {
    let (_, machine) = at_work();
    let (mut machine, mut from) = (machine.clone(), Composed::of(by));
    let mut now = Time::from_nanos(1_000_000_000);
    for _ in 0..from.byte() % 16 {
        let run = RunId(u64::from(from.byte() % 12));
        now = now.after(Duration::from_secs(u64::from(from.byte() % 64)));
        let facts = [
            Event::Tick,
            Event::Executed(run),
            Event::Ready(run),
            Event::Exited(run, Exit::Code(1)),
            Event::Gone(run),
            Event::Stopping(run),
        ];
        machine.step(now, facts[usize::from(from.byte()) % facts.len()].clone());
    }
    let mut bytes = encoded(&machine);
    from.damage(&mut bytes, 3);
    bytes
}

/// A machine with eight units: some running, one starting, one in backoff, one stopping.
pub fn at_work() -> &'static (Arc<Generation>, Machine) {
    static WORK: OnceLock<(Arc<Generation>, Machine)> = OnceLock::new();
    WORK.get_or_init(|| {
        let generation = Arc::new(eight());
        let mut machine = Machine::new(Duration::from_secs(90));
        let now = Time::from_nanos(1_000_000_000);
        let targets = vec![Name::new("u7").expect("a name")];
        machine.step(now, Event::Boot { generation: generation.clone(), targets });
        for run in 1..5 {
            machine.step(now, Event::Executed(RunId(run)));
            machine.step(now, Event::Ready(RunId(run)));
        }
        machine.step(now, Event::Exited(RunId(2), Exit::Code(1)));
        machine.step(now, Event::Gone(RunId(2)));
        machine.step(now, Event::Restart(vec![Name::new("u1").expect("a name")]));
        assert_eq!(machine.audit(), Ok(()));
        (generation, machine)
    })
}

fn eight() -> Generation {
    let name = |number: u8| Name::new(&format!("u{number}")).expect("a name");
    let kinds =
        [Kind::ForegroundNotified, Kind::ForegroundSupervised, Kind::Oneshot, Kind::Virtual];
    let edges = [DependencyKind::DependsOn, DependencyKind::WaitsFor, DependencyKind::DependsMs];
    let drafts = (0..8u8).map(|number| {
        let at = Place { file: "/etc/a.yaml".into(), line: 3, column: 1 };
        let kind = kinds[usize::from(number) % kinds.len()];
        let mut draft = Draft::new(name(number), at, kind, &Settings::default());
        if kind != Kind::Virtual {
            let words = vec![vec![Piece::Literal("/bin/x".to_string())]];
            let exec_start = vec![ExecLine { words, ..ExecLine::default() }];
            draft.set_run(&Run { exec_start, ..Run::of(kind) });
        }
        for below in 0..number.min(4) {
            let kind = edges[usize::from(below + number) % edges.len()];
            let (target, line) = (name(number - 1 - below), u32::from(below) + 4);
            draft.dependencies.push(Edge { kind, target, optional: false, imported: false, line });
        }
        draft
    });
    assemble(drafts.collect(), [])
}

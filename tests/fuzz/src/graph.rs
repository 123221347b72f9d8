//! Checks of the fuzz target `graph` for any units with any edges:
//!
//! - The input order of the units changes nothing.
//! - The graph's order has each unit once and after its dependencies, except for broken units.
//! - A machine that boots with them stays consistent for any events. It is restored unchanged from
//!   its records.
//!
//! The bytes choose up to twenty-four units, their edges, and then events.

use super::composed::Composed;
use groundstate_units::graph::Graph;
use groundstate_units::machine::Machine;
use groundstate_units::machine::action::Action;
use groundstate_units::machine::event::{Event, Goal, RunId, Shutdown};
use groundstate_units::spec::{DependencyKind, ExecLine, Exit, Kind, Piece, Run};
use groundstate_units::text::diagnostic::Place;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::assembly::{Draft, Edge, assemble};
use groundstate_units::unit::generation::{Generation, UnitId};
use groundstate_units::unit::policy::Policy;
use groundstate_units::unit::settings::Settings;
use std::sync::Arc;
use std::time::Duration;

const KINDS: [Kind; 6] = [
    Kind::Virtual,
    Kind::Oneshot,
    Kind::ForegroundNotified,
    Kind::ForegroundSupervised,
    Kind::BackgroundScripted,
    Kind::BackgroundPidfile,
];

/// The number of units that are not broken. Returns `None` if all are. Panics if a promise is
/// broken.
pub fn graph(bytes: &[u8]) -> Option<usize> {
    let mut from = Composed::of(bytes);
    let drafts = drafts(&mut from);
    let mut backwards = drafts.clone();
    backwards.reverse();
    backwards.iter_mut().for_each(|draft| draft.provides.reverse());
    let (generation, other) = (assemble(drafts, []), assemble(backwards, []));
    assert_eq!(generation.prove(), Ok(()));
    assert_eq!(generation.encode(), other.encode(), "the order of files counts");
    let (graph, faults) = Graph::resolve(&generation, &Policy::default());
    let fine = in_order(&generation, &graph);
    assert!(fine == generation.units.len() || !faults.is_empty(), "broken without a word");
    live(generation, from);
    (fine > 0).then_some(fine)
}

fn name(number: u8) -> Name {
    Name::new(&format!("u{}", number % 24)).expect("a name")
}

fn drafts(from: &mut Composed<'_>) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = Vec::new();
    for number in 0..=from.byte() % 24 {
        let at = Place { file: format!("u{number}.yaml").into(), line: 1, column: 1 };
        let kind = from.pick(&KINDS);
        let mut draft = Draft::new(name(number), at, kind, &Settings::default());
        if kind != Kind::Virtual {
            let words = vec![vec![Piece::Literal("/bin/x".to_string())]];
            let exec_start = vec![ExecLine { words, ..ExecLine::default() }];
            draft.set_run(&Run { exec_start, ..Run::of(kind) });
        }
        if from.one_in(8) {
            draft.provides = vec![name(number), name(from.byte())];
            draft.provides.sort();
            draft.provides.dedup();
        }
        for _ in 0..from.byte() % 6 {
            let (kind, target) = (from.pick(&DependencyKind::ALL), name(from.byte()));
            let (optional, imported) = (from.one_in(4), from.one_in(4));
            // On different lines, as in a file: the line decides which edge gives way.
            let line = u32::try_from(draft.dependencies.len()).unwrap_or(0) + 2;
            draft.dependencies.push(Edge { kind, target, optional, imported, line });
        }
        drafts.push(draft);
    }
    drafts
}

/// The number of intact units.
fn in_order(generation: &Generation, graph: &Graph) -> usize {
    let mut place = vec![None; generation.units.len()];
    for (at, unit) in graph.order().iter().enumerate() {
        let before = place[unit.0 as usize].replace(at);
        assert_eq!(before, None, "a unit twice");
    }
    let units = (0..generation.units.len()).map(|unit| UnitId(unit as u32));
    let whole = units.filter(|unit| graph.broken(*unit).is_none());
    whole
        .inspect(|unit| {
            for edge in graph.edges(*unit).iter().filter(|edge| edge.kind.orders()) {
                let Some(provider) = edge.provider else { continue };
                let (own, its) = (place[unit.0 as usize], place[provider.0 as usize]);
                assert!(its < own, "a unit before what it waits for");
            }
        })
        .count()
}

/// Runs a machine with it.
fn live(generation: Generation, mut from: Composed<'_>) {
    let generation = Arc::new(generation);
    let mut machine = Machine::new(Duration::from_secs(90));
    let mut now = Time::from_nanos(1_000_000_000);
    let (mut runs, mut steps) = (vec![RunId(0)], 0);
    let targets = vec![name(from.byte()), name(from.byte())];
    let mut event = Event::Boot { generation: generation.clone(), targets };
    while steps < 64 {
        let outcome = machine.step(now, event);
        assert_eq!(machine.audit(), Ok(()));
        for action in &outcome.actions {
            if let Action::Start { run, .. } = action {
                runs.push(*run);
            }
        }
        if from.is_over() {
            break;
        }
        now = now.after(from.pick(&[
            Duration::ZERO,
            Duration::from_millis(10),
            Duration::from_secs(61),
        ]));
        event = next(&mut from, &runs, &generation);
        steps += 1;
    }
    let again = Machine::from_records(machine.records(), machine.generation().clone());
    let again = again.expect("records of a machine are read back");
    assert_eq!(again.same(&machine), Ok(()));
    assert_eq!(again.audit(), Ok(()));
}

fn next(from: &mut Composed<'_>, runs: &[RunId], generation: &Arc<Generation>) -> Event {
    let run =
        |from: &mut Composed<'_>| runs[runs.len() - 1 - usize::from(from.byte()) % runs.len()];
    let one = |from: &mut Composed<'_>| vec![name(from.byte())];
    match from.byte() % 18 {
        0 | 1 => Event::Tick,
        2 => Event::Executed(run(from)),
        3 | 4 => Event::Ready(run(from)),
        5 => Event::Exited(run(from), Exit::Code(from.byte())),
        6 => Event::Ended(run(from), Exit::Code(from.byte() % 2)),
        7 | 8 => Event::Gone(run(from)),
        9 => Event::Stopping(run(from)),
        10 => Event::Reloading(run(from)),
        11 => Event::SetGoal(Goal { targets: one(from), ..Goal::default() }),
        12 => Event::Want { target: name(from.byte()), until: None },
        13 => Event::Restart(one(from)),
        14 => Event::Retry(one(from)),
        15 => {
            let generation = generation.clone();
            Event::Reload { generation, no_restart: from.one_in(2), tolerant: from.one_in(2) }
        }
        16 => {
            Event::SetPolicy(Policy { mask: one(from).into_iter().collect(), ..Policy::default() })
        }
        _ if from.one_in(8) => Event::Shutdown(Shutdown::Poweroff),
        _ => Event::Protocol(run(from), String::new()),
    }
}

//! Checks of the fuzz target `generation` for any bytes from a loader to PID 1. They are refused,
//! or are a valid set of units: it is encoded again unchanged, the graph accepts it, and a machine
//! boots and stops with it. There is no panic.
//!
//! A first byte above 127: the rest changes a real generation and then damages its bytes.

use super::composed::Composed;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, Shutdown};
use groundstate_units::spec::{DependencyKind, ExecLine, Kind, Piece, Run};
use groundstate_units::text::diagnostic::Place;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::trigger::Trigger;
use groundstate_units::unit::assembly::{Draft, Edge, assemble};
use groundstate_units::unit::generation::{Generation, TargetId};
use groundstate_units::unit::settings::Settings;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The generation, if it is one. Panics if a promise is broken.
pub fn generation(bytes: &[u8]) -> Option<Generation> {
    let (_, rest) = bytes.split_first()?;
    let _ = (Run::decode(rest), Trigger::decode(rest));
    let mut generation = Generation::decode(&meant(bytes)?).ok()?;
    assert_eq!(generation.prove(), Ok(()));
    assert_eq!(Generation::decode(&generation.encode()).as_ref(), Ok(&generation));
    generation.pack();
    assert_eq!(generation.prove(), Ok(()), "packed, it is another");
    live(&Arc::new(generation.clone()));
    Some(generation)
}

/// The encoded generation of an input.
pub fn meant(input: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = input.split_first()?;
    Some(if *first < 128 { rest.to_vec() } else { damaged(rest) })
}

/// Boots, reloads and stops a machine with it.
pub fn live(generation: &Arc<Generation>) {
    let mut machine = Machine::new(Duration::from_secs(90));
    let targets: Vec<Name> = generation.targets.iter().take(8).map(|it| it.name.clone()).collect();
    let now = Time::from_nanos(1);
    machine.step(now, Event::Boot { generation: generation.clone(), targets });
    assert_eq!(machine.audit(), Ok(()));
    machine.step(now.after(Duration::from_secs(7)), Event::Tick);
    let reload =
        Event::Reload { generation: generation.clone(), no_restart: false, tolerant: true };
    machine.step(now.after(Duration::from_secs(8)), reload);
    assert_eq!(machine.audit(), Ok(()));
    machine.step(now.after(Duration::from_secs(9)), Event::Shutdown(Shutdown::Halt));
    machine.step(now.after(Duration::from_secs(200)), Event::Tick);
    assert_eq!(machine.audit(), Ok(()));
}

fn damaged(by: &[u8]) -> Vec<u8> {
    static REAL: OnceLock<Generation> = OnceLock::new();
    let mut generation = REAL.get_or_init(real).clone();
    let mut from = Composed::of(by);
    for _ in 0..from.byte() % 8 {
        change(&mut generation, &mut from);
    }
    let mut bytes = generation.encode();
    from.damage(&mut bytes, 2);
    bytes
}

/// Changes a number, a list or a kind.
fn change(generation: &mut Generation, from: &mut Composed<'_>) {
    let target = TargetId(u32::from(from.byte() % 12));
    let count = generation.units.len();
    let Some(unit) = generation.units.get_mut(usize::from(from.byte()) % count) else { return };
    match from.byte() % 12 {
        0 => unit.kind = from.pick(&[Kind::Socket, Kind::Timer, Kind::Path, Kind::Virtual]),
        1 => unit.provides.push(target),
        2 => unit.activates = Some(target),
        3 => unit.dependencies.iter_mut().for_each(|edge| edge.target = target),
        4 => unit
            .dependencies
            .iter_mut()
            .for_each(|edge| edge.kind = from.pick(&DependencyKind::ALL)),
        5 => unit.wanted_by = [target].into(),
        6 => Arc::make_mut(&mut unit.live).failure_verdict = u32::from(from.byte() % 16),
        7 => unit.name = Name::new(&format!("u{}", from.byte() % 8)).expect("a name"),
        8 => unit.run = from.raw(40).into(),
        9 => {
            Arc::make_mut(&mut unit.live).restart_delay =
                Duration::from_nanos(u64::from(from.byte()) << 56)
        }
        10 => {
            Arc::make_mut(&mut unit.live).start_timeout = Some(Duration::new(u64::MAX, 999_999_999))
        }
        _ => generation.settings.max_starting = u32::from(from.byte()) << 24,
    }
}

/// Units of several kinds, with edges and triggers.
fn real() -> Generation {
    let name = |text: &str| Name::new(text).expect("a name");
    let settings = Settings::default();
    let kinds = [Kind::Virtual, Kind::Oneshot, Kind::ForegroundNotified, Kind::BackgroundPidfile];
    let mut drafts = Vec::new();
    for (number, (kind, edge)) in kinds.into_iter().zip(DependencyKind::ALL).enumerate() {
        let at = Place { file: "/etc/a.yaml".into(), line: 3, column: 1 };
        let mut draft = Draft::new(name(&format!("u{number}")), at, kind, &settings);
        draft.provides = vec![name(&format!("t{number}")), name(&format!("u{number}"))];
        if kind != Kind::Virtual {
            let words = vec![vec![Piece::Literal("/bin/x".to_string()), Piece::MainPid]];
            let exec_start = vec![ExecLine { words, ..ExecLine::default() }];
            let env = vec![("A".to_string(), "b".to_string())];
            draft.set_run(&Run { exec_start, env, ..Run::of(kind) });
        }
        let target = name(&format!("t{}", (number + 1) % 4));
        draft.dependencies.push(Edge {
            kind: edge,
            target,
            optional: true,
            imported: true,
            line: 4,
        });
        draft.wanted_by.push(name("t0"));
        drafts.push(draft);
    }
    assemble(drafts, [])
}

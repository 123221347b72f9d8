//! Properties of the machine that a scenario file cannot test: the cost of a step, the chain of
//! reasons, the notes, and robustness against any input.

mod dense;
mod plan;
mod record;
mod removed;
mod second_boot;
mod slots;

use super::*;
use crate::machine::event::{Goal, Shutdown};
use crate::machine::reason::{Reason, State};
use crate::spec::{DependencyKind, Exit, Kind, Readiness};
use crate::text::diagnostic::Place;
use crate::text::fields;
use crate::text::name::Name;
use crate::unit::assembly::{Draft, Edge, assemble};
use crate::unit::generation::UnitId;
use crate::unit::policy::Policy;
use crate::unit::settings::Settings;
use proptest::prelude::*;

pub(super) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(super) fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

pub(super) fn unit(text: &str, kind: Kind, edges: &[(DependencyKind, &str)]) -> Draft {
    let place = Place { file: format!("{text}.yaml").into(), line: 1, column: 1 };
    let mut draft = Draft::new(name(text), place, kind, &Settings::default());
    draft.readiness = match kind {
        Kind::Oneshot | Kind::BackgroundScripted => Readiness::Exit,
        Kind::ForegroundNotified | Kind::BackgroundPidfile => Readiness::Reported,
        Kind::ForegroundSupervised => Readiness::Exec,
        Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => Readiness::Instant,
    };
    draft.dependencies = edges
        .iter()
        .map(|(kind, target)| Edge {
            kind: *kind,
            target: name(target),
            optional: false,
            imported: false,
            line: 2,
        })
        .collect();
    draft
}

pub(super) fn service(text: &str, edges: &[(DependencyKind, &str)]) -> Draft {
    unit(text, Kind::ForegroundSupervised, edges)
}

pub(super) fn boot(drafts: Vec<Draft>, target: &str) -> (Machine, Outcome) {
    let mut machine = Machine::new(Duration::from_secs(90));
    let generation = Arc::new(assemble(drafts, []));
    let outcome = machine.step(at(0), Event::Boot { generation, targets: vec![name(target)] });
    (machine, outcome)
}

pub(super) fn id(machine: &Machine, text: &str) -> UnitId {
    machine.generation().find_unit(text).unwrap()
}

pub(super) fn run(machine: &Machine, text: &str) -> RunId {
    machine.run(id(machine, text)).unwrap()
}

/// Makes every starting run ready, until no more runs start.
pub(super) fn bring_up(machine: &mut Machine, outcome: Outcome) {
    let mut queue: std::collections::VecDeque<RunId> = started(&outcome).into();
    while let Some(run) = queue.pop_front() {
        let outcome = machine.step(at(1), Event::Ready(run));
        queue.extend(started(&outcome));
    }
}

fn started(outcome: &Outcome) -> Vec<RunId> {
    let start = |action: &Action| {
        if let Action::Start { run, .. } = action { Some(*run) } else { None }
    };
    outcome.actions.iter().filter_map(start).collect()
}

fn strings(waves: &[Vec<Name>]) -> Vec<Vec<&str>> {
    waves.iter().map(|wave| wave.iter().map(Name::as_str).collect()).collect()
}

/// Returns ten thousand units, each with three providers among the earlier units.
fn large() -> Vec<Draft> {
    let label = |i: usize| format!("u{i:05}");
    let mut drafts: Vec<Draft> = (0..10_000)
        .map(|i| {
            let providers = [i / 2, i / 3, i / 5].map(label);
            let kinds =
                [DependencyKind::DependsMs, DependencyKind::WaitsFor, DependencyKind::After];
            let edges: Vec<_> =
                kinds.into_iter().zip(providers.iter().map(String::as_str)).collect();
            service(&label(i), if i == 0 { &[] } else { &edges })
        })
        .collect();
    let all: Vec<String> = (0..10_000).map(label).collect();
    let edges: Vec<_> = all.iter().map(|text| (DependencyKind::Wants, text.as_str())).collect();
    drafts.push(unit("all", Kind::Virtual, &edges));
    drafts
}

#[test]
fn event_visits_only_the_neighbours_of_its_unit() {
    let (mut machine, outcome) = boot(large(), "all");
    bring_up(&mut machine, outcome);
    machine.audit().unwrap();
    let leaf = run(&machine, "u09999");
    machine.step(at(100), Event::Ended(leaf, Exit::Code(1)));
    assert_eq!(machine.visited(), 1, "its dependents only want it");
    let inner = id(&machine, "u01000");
    let dependents = machine.graph().back(inner).len();
    let inner = run(&machine, "u01000");
    machine.step(at(100), Event::Ended(inner, Exit::Code(1)));
    assert!(machine.visited() <= 1 + dependents, "{} looked at", machine.visited());
    machine.audit().unwrap();
}

#[test]
fn why_chain_ends_in_the_exit_status() {
    let mut disk = unit("disk", Kind::Oneshot, &[]);
    disk.provides = vec![name("storage")];
    let drafts = vec![
        disk,
        service("db", &[(DependencyKind::DependsOn, "storage")]),
        service("web", &[(DependencyKind::DependsMs, "db")]),
        unit("all", Kind::Virtual, &[(DependencyKind::Wants, "web")]),
    ];
    let (mut machine, _) = boot(drafts, "all");
    let disk = run(&machine, "disk");
    machine.step(at(1), Event::Ended(disk, Exit::Code(32)));
    let chain = machine.why(id(&machine, "web"));
    let units: Vec<Option<UnitId>> = chain.iter().map(|link| link.unit).collect();
    let expected = ["web", "db", "disk"].map(|text| Some(id(&machine, text)));
    assert_eq!(units, expected);
    assert_eq!(chain[1].target, name("db"));
    assert_eq!(chain[2].target, name("storage"));
    assert_eq!(chain[2].reason, Some(Reason::Exit(Exit::Code(32))));
    let chain = machine.why(id(&machine, "all"));
    assert_eq!(chain.first().unwrap().state, State::Running);
    assert_eq!(chain.last().unwrap().reason, Some(Reason::Exit(Exit::Code(32))));
}

#[test]
fn why_names_the_missing_target() {
    let drafts = vec![
        service("web", &[(DependencyKind::DependsOn, "nosuch")]),
        unit("all", Kind::Virtual, &[(DependencyKind::Wants, "web")]),
    ];
    let (machine, _) = boot(drafts, "all");
    let chain = machine.why(id(&machine, "web"));
    assert_eq!(chain.len(), 2);
    assert_eq!(chain[1].unit, None);
    assert_eq!(chain[1].reason, Some(Reason::Missing { target: name("nosuch") }));
}

#[test]
fn why_names_the_milestone_that_lost_its_provider() {
    let drafts = vec![
        service("db", &[]),
        service("web", &[(DependencyKind::DependsMs, "db")]),
        unit("all", Kind::Virtual, &[(DependencyKind::Wants, "web")]),
    ];
    let (mut machine, outcome) = boot(drafts, "all");
    bring_up(&mut machine, outcome);
    assert_eq!(machine.why(id(&machine, "all")).len(), 1, "all is well");
    let mask = [name("db")].into();
    machine.step(at(2), Event::SetPolicy(Policy { mask, ..Policy::default() }));
    assert_eq!(machine.degraded().len(), 2);
    let masked = Some(Reason::Masked { target: name("db") });
    for (asked, links) in [("web", 2), ("all", 3)] {
        let chain = machine.why(id(&machine, asked));
        assert_eq!(chain.len(), links, "{chain:?}");
        let last = chain.last().unwrap();
        assert_eq!((last.unit, &last.target, &last.reason), (None, &name("db"), &masked));
    }
}

#[test]
fn every_change_of_a_shown_state_is_noted_once() {
    let drafts = vec![service("db", &[]), service("web", &[(DependencyKind::DependsOn, "db")])];
    let (mut machine, outcome) = boot(drafts, "web");
    let notes = |outcome: &Outcome| -> Vec<(String, State, State)> {
        let note = |action: &Action| {
            let Action::Note(note) = action else { return None };
            Some((note.unit.to_string(), note.from, note.to))
        };
        outcome.actions.iter().filter_map(note).collect()
    };
    let of = |text: &str, from, to| (text.to_string(), from, to);
    assert_eq!(
        notes(&outcome),
        [of("db", State::Disabled, State::Starting), of("web", State::Disabled, State::Waiting)]
    );
    let db = run(&machine, "db");
    let outcome = machine.step(at(1), Event::Ready(db));
    assert_eq!(
        notes(&outcome),
        [of("db", State::Starting, State::Running), of("web", State::Waiting, State::Starting)]
    );
    assert!(notes(&machine.step(at(2), Event::Tick)).is_empty());
}

#[test]
fn report_about_an_old_run_changes_nothing() {
    let (mut machine, _) = boot(vec![service("web", &[])], "web");
    let old = run(&machine, "web");
    machine.step(at(1), Event::Ended(old, Exit::Code(1)));
    machine.step(at(2), Event::Tick);
    let new = run(&machine, "web");
    assert_ne!(old, new);
    let before = format!("{machine:?}");
    for event in [Event::Ready(old), Event::Ended(old, Exit::Code(1)), Event::Gone(old)] {
        let outcome = machine.step(at(3), event);
        assert!(outcome.actions.is_empty());
    }
    let after = format!("{machine:?}");
    assert_eq!(before.replace("visited: 1", ""), after.replace("visited: 0", ""));
}

#[test]
fn due_timer_does_not_fire_before_the_tick() {
    let (mut machine, _) = boot(vec![service("web", &[])], "web");
    assert_eq!(machine.next_deadline(), Some(at(60)));
    let web = run(&machine, "web");
    let late = machine.step(at(61), Event::Ready(web));
    assert!(!late.actions.iter().any(|action| matches!(action, Action::Stop { .. })));
    assert_eq!(machine.next_deadline(), None, "ready in time, told late");
}

#[test]
fn finish_is_emitted_once_when_all_units_are_down() {
    let (mut machine, _) = boot(vec![service("web", &[])], "web");
    let web = run(&machine, "web");
    let finish = |outcome: &Outcome| {
        outcome.actions.iter().any(|a| matches!(a, Action::Finish(Shutdown::Reboot)))
    };
    assert!(!finish(&machine.step(at(1), Event::Shutdown(Shutdown::Reboot))));
    assert!(finish(&machine.step(at(2), Event::Gone(web))));
    assert!(!finish(&machine.step(at(3), Event::Tick)));
}

#[test]
fn shutdown_ends_despite_an_unkillable_process() {
    let (mut machine, _) = boot(vec![service("web", &[])], "web");
    machine.step(at(1), Event::Shutdown(Shutdown::Poweroff));
    let mut finished = None;
    while let Some(due) = machine.next_deadline() {
        let outcome = machine.step(due, Event::Tick);
        if outcome.actions.contains(&Action::Finish(Shutdown::Poweroff)) {
            finished = Some(due);
            break;
        }
    }
    assert_eq!(finished, Some(at(13)), "ten seconds, KILL, two seconds");
}

#[test]
fn exit_of_the_exit_with_unit_shuts_down_with_its_status() {
    let mut generation = assemble(vec![unit("job", Kind::Oneshot, &[]), service("side", &[])], []);
    generation.settings.exit_with = Some(name("job"));
    let mut machine = Machine::new(Duration::from_secs(9));
    let targets = vec![name("job"), name("side")];
    machine.step(at(0), Event::Boot { generation: Arc::new(generation), targets });
    let job = run(&machine, "job");
    machine.step(at(1), Event::Ended(job, Exit::Signal { signal: 15, core: false }));
    assert_eq!(machine.ending(), Some(Shutdown::Exit(143)));
    let side = run(&machine, "side");
    let outcome = machine.step(at(2), Event::Gone(side));
    assert!(outcome.actions.contains(&Action::Finish(Shutdown::Exit(143))));
}

proptest! {
    /// Any facts about any runs cause no panic and keep the audit valid. A second machine gives the
    /// same actions.
    #[test]
    fn any_facts_keep_the_machine_consistent_and_deterministic(
        events in prop::collection::vec((0u8..20, 0u64..12, 0u64..4), 1..60),
    ) {
        let drafts = vec![
            service("a", &[]),
            service("b", &[(DependencyKind::DependsOn, "a")]),
            unit("c", Kind::Oneshot, &[(DependencyKind::WaitsFor, "b")]),
            unit("d", Kind::BackgroundScripted, &[(DependencyKind::RestartWith, "a")]),
            unit("e", Kind::Virtual, &[(DependencyKind::Wants, "d"), (DependencyKind::DependsMs, "c")]),
        ];
        let (mut machine, _) = boot(drafts.clone(), "e");
        let (mut again, _) = boot(drafts, "e");
        let mut now = 0;
        for (what, which, later) in events {
            now += later;
            let run = RunId(which);
            let event = match what {
                0 | 1 => Event::Executed(run),
                2 | 3 => Event::Ready(run),
                4 => Event::Exited(run, Exit::Code(0)),
                5 => Event::Exited(run, Exit::Code(1)),
                6 => Event::Ended(run, Exit::Code(0)),
                7 => Event::Ended(run, Exit::Code(1)),
                8 | 9 => Event::Gone(run),
                10 => Event::Reloading(run),
                11 => Event::WatchdogEvery(run, Duration::from_secs(1)),
                12 => Event::Skipped(run, "x".to_string()),
                13 => Event::Protocol(run, "x".to_string()),
                14 => Event::Restart(vec![name("a")]),
                15 => Event::SetGoal(Goal { targets: vec![name("b")], ..Goal::default() }),
                16 => Event::SetGoal(Goal { targets: vec![name("e")], ..Goal::default() }),
                17 => Event::Retry(vec![name("c")]),
                _ => Event::Tick,
            };
            let outcome = machine.step(at(now), event.clone());
            prop_assert_eq!(&outcome, &again.step(at(now), event));
            prop_assert_eq!(machine.audit(), Ok(()));
        }
    }
}

/// Returns a machine with units that are running, waiting and failed.
fn busy() -> Machine {
    let drafts = vec![
        service("db", &[]),
        service("web", &[(DependencyKind::DependsOn, "db")]),
        unit("job", Kind::Oneshot, &[]),
        unit(
            "all",
            Kind::Virtual,
            &[(DependencyKind::WaitsFor, "web"), (DependencyKind::WaitsFor, "job")],
        ),
    ];
    let (mut machine, _) = boot(drafts, "all");
    let (db, job) = (run(&machine, "db"), run(&machine, "job"));
    machine.step(at(1), Event::Executed(db));
    machine.step(at(2), Event::Ended(job, Exit::Code(1)));
    machine
}

fn encoded(machine: &Machine) -> Vec<u8> {
    fields::encode(&machine.records()).unwrap()
}

fn decoded(bytes: &[u8], generation: Arc<Generation>) -> Option<Machine> {
    Machine::from_records(fields::decode(bytes).ok()?, generation).ok()
}

#[test]
fn machine_is_decoded_from_its_bytes_unchanged() {
    let mut machine = busy();
    let generation = machine.generation().clone();
    let mut again = decoded(&encoded(&machine), generation.clone()).unwrap();
    assert_eq!(again.same(&machine), Ok(()));
    let shutdown = || Event::Shutdown(Shutdown::Halt);
    assert_eq!(again.step(at(3), shutdown()), machine.step(at(3), shutdown()));
    let other = Arc::new(Generation { number: 2, ..Generation::default() });
    assert!(decoded(&encoded(&machine), other).is_none(), "of another generation");
    assert!(decoded(b"", generation).is_none());
}

proptest! {
    #[test]
    fn damaged_machine_is_decoded_without_a_panic(
        damages in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    ) {
        let machine = busy();
        let mut bytes = encoded(&machine);
        for (at, byte) in damages {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        // The damaged bytes may be refused or not, but cause no panic.
        let _ = decoded(&bytes, machine.generation().clone());
    }
}

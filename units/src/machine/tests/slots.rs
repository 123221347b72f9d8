//! Start slots: no more units start at once than the limit allows, and a stuck unit releases its
//! slot.

use super::*;
use std::collections::VecDeque;

const UNITS: usize = 10_000;
const SLOTS: usize = 8;

/// Returns the started runs, except that of the unit `all`.
fn services(outcome: &Outcome) -> Vec<RunId> {
    let start = |action: &Action| {
        if let Action::Start { name, run, .. } = action
            && name.as_str() != "all"
        {
            Some(*run)
        } else {
            None
        }
    };
    outcome.actions.iter().filter_map(start).collect()
}

#[test]
fn start_limit_holds_for_ten_thousand_units_and_stuck_starts_release_their_slots() {
    let label = |i: usize| format!("u{i:05}");
    let mut drafts: Vec<Draft> = (0..UNITS).map(|i| service(&label(i), &[])).collect();
    drafts.iter_mut().for_each(|draft| draft.live.start_timeout = None);
    let all: Vec<String> = (0..UNITS).map(label).collect();
    let edges: Vec<_> = all.iter().map(|text| (DependencyKind::Wants, text.as_str())).collect();
    drafts.push(unit("all", Kind::Virtual, &edges));
    let mut generation = assemble(drafts, []);
    generation.settings.max_starting = u32::try_from(SLOTS).unwrap();
    let mut machine = Machine::new(Duration::from_secs(90));
    let (generation, targets) = (Arc::new(generation), vec![name("all")]);
    let outcome = machine.step(at(0), Event::Boot { generation, targets });
    let mut stuck = services(&outcome);
    assert_eq!(stuck.len(), SLOTS);
    // All but one start are stuck, so one slot is left for the others.
    let mut last = stuck.pop().unwrap();
    let mut started = SLOTS;
    for _ in 0..1_000 {
        let next = services(&machine.step(at(1), Event::Ready(last)));
        assert_eq!(next.len(), 1, "{started} have started");
        last = next[0];
        started += 1;
    }
    let early = services(&machine.step(at(59), Event::Tick));
    assert!(early.is_empty(), "{early:?}");
    let mut starting: VecDeque<RunId> = services(&machine.step(at(60), Event::Tick)).into();
    assert_eq!(starting.len(), stuck.len(), "as many as have been stuck for a minute");
    started += starting.len();
    starting.push_back(last);
    while let Some(run) = starting.pop_front() {
        let next = services(&machine.step(at(60), Event::Ready(run)));
        started += next.len();
        starting.extend(next);
        assert!(starting.len() <= SLOTS, "{} start at once", starting.len());
    }
    assert_eq!(started, UNITS, "each once");
    machine.audit().unwrap();
    // A late READY still counts.
    for run in stuck {
        machine.step(at(61), Event::Ready(run));
    }
    assert_eq!(machine.system(), crate::control::answer::System::Running);
}

#[test]
fn start_after_a_run_is_that_of_the_unit_that_waits_for_nothing_else() {
    let on = |target| (DependencyKind::DependsOn, target);
    let of = |text: &str, edges: &[_]| unit(text, Kind::ForegroundNotified, edges);
    let goal = unit("goal", Kind::Virtual, &[(DependencyKind::WaitsFor, "last")]);
    let both = of("both", &[on("first"), on("other")]);
    let drafts = vec![of("first", &[]), of("other", &[]), both, of("last", &[on("both")]), goal];
    let (mut machine, _) = boot(drafts, "goal");
    let run_of = |machine: &Machine, text: &str| {
        machine.run(machine.generation().find_unit(text).unwrap()).unwrap()
    };
    let [first, other] = ["first", "other"].map(|text| run_of(&machine, text));
    // Two runs must become ready before `both` starts.
    assert_eq!([first, other].map(|run| machine.start_after(run)), [None, None]);
    machine.step(at(1), Event::Ready(first));
    let (unit, run) = machine.start_after(other).unwrap();
    let expected = (unit.clone(), run);
    machine.step(at(1), Event::Ready(other));
    assert_eq!(expected, (name("both"), run_of(&machine, "both")));
    assert_eq!(machine.start_after(run).unwrap().0, &name("last"));
    machine.step(at(1), Event::Ready(run));
    // The unit that waits for the last run has no process.
    assert_eq!(machine.start_after(run_of(&machine, "last")), None);
}

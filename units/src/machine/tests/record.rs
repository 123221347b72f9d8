//! Records: properties of a machine that is built from them, and records that are refused.

use super::*;
use crate::machine::record::Records;

/// Returns a machine with a ready run, a failed unit, a waiting unit, and a removed unit that is
/// up.
fn busy() -> Machine {
    let web =
        || service("web", &[(DependencyKind::DependsOn, "db"), (DependencyKind::Wants, "bad")]);
    let drafts = vec![service("db", &[]), service("bad", &[]), web(), service("old", &[])];
    let (mut machine, outcome) = boot(drafts, "web");
    let old = Event::Want { target: name("old"), until: Some(at(900)) };
    let orders = [outcome.actions, machine.step(at(1), old).actions].concat();
    bring_up(&mut machine, Outcome { actions: orders, refused: None });
    machine.step(at(2), Event::Exited(run(&machine, "bad"), Exit::Code(3)));
    machine.step(at(2), Event::Unwant(name("old")));
    let mut next = assemble(vec![service("db", &[]), service("bad", &[]), web()], []);
    next.number = 2;
    let generation = Arc::new(next);
    machine.step(at(3), Event::Reload { generation, no_restart: true, tolerant: true });
    assert_eq!(machine.removed().len(), 1);
    machine
}

fn coded(machine: &Machine) -> Records {
    let bytes = fields::encode(&machine.records()).unwrap();
    fields::decode(&bytes).unwrap()
}

#[test]
fn machine_built_from_coded_records_equals_the_recorded_one() {
    let mut machine = busy();
    let mut other = Machine::from_records(coded(&machine), machine.generation().clone()).unwrap();
    machine.same(&other).unwrap();
    other.audit().unwrap();
    let failed = Event::Ended(run(&machine, "db"), Exit::Code(1));
    let answers = [&mut machine, &mut other].map(|it| it.step(at(4), failed.clone()).actions);
    assert_eq!(answers[0], answers[1]);
    machine.same(&other).unwrap();
}

#[test]
fn failed_stop_command_survives_coded_records() {
    let (mut machine, _) = boot(vec![service("db", &[]), service("old", &[])], "db");
    let outcome = machine.step(at(1), Event::Want { target: name("old"), until: None });
    bring_up(&mut machine, outcome);
    let old = run(&machine, "old");
    machine.step(at(1), Event::Unwant(name("old")));
    machine.step(at(2), Event::StopFailed(old, Reason::Exit(Exit::Code(3))));
    let mut other = Machine::from_records(coded(&machine), machine.generation().clone()).unwrap();
    machine.same(&other).unwrap();
    for it in [&mut machine, &mut other] {
        it.step(at(3), Event::Gone(old));
        assert_eq!(it.state(id(it, "old")), State::Failed);
    }
    machine.same(&other).unwrap();
}

#[test]
fn machine_that_has_not_booted_has_no_unit_records() {
    let machine = Machine::new(Duration::from_secs(90));
    let records = coded(&machine);
    assert!(records.units.is_empty());
    machine.same(&Machine::from_records(records, Arc::default()).unwrap()).unwrap();
}

#[test]
fn records_of_different_machines_are_refused() {
    let machine = busy();
    let refused = |change: &dyn Fn(&mut Records)| {
        let mut records = machine.records();
        change(&mut records);
        Machine::from_records(records, machine.generation().clone()).err().unwrap_or_default()
    };
    assert_eq!(refused(&|_| {}), "");
    let missing = refused(&|records| _ = records.units.remove(1));
    assert_eq!(missing, "record 1 is that of web, out of order");
    let short = refused(&|records| records.units.truncate(2));
    assert_eq!(short, "2 records for 3 units");
    let twice = refused(&|records| records.units.push(records.units[3].clone()));
    assert_eq!(twice, "record 4 is that of old, out of order");
    let other = Machine::from_records(machine.records(), Arc::default()).err().unwrap();
    assert_eq!(other, "the records are about generation 2, not 0");
    let (fresh, _) = boot(vec![service("old", &[])], "old");
    let undefined = refused(&|records| records.units[3] = fresh.records().units[0].clone());
    assert_eq!(undefined, "the run of old has no definition");
    // An older record of the unit, whose run number now belongs to another run.
    let (fresh, _) = boot(vec![service("web", &[])], "web");
    let stale = refused(&|records| records.units[2] = fresh.records().units[0].clone());
    assert!(stale.contains("another run has this number"), "{stale}");
}

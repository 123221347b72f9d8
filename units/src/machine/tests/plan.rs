//! Plans of a wish: its waves, the units that stay up, and units that the wish does not affect.
//! Scenario files test the wish itself.

use super::*;

#[test]
fn plan_of_a_target_lists_its_stops_and_starts_in_waves() {
    let drafts = vec![
        service("net", &[]),
        service("db", &[(DependencyKind::DependsOn, "net")]),
        service("web", &[(DependencyKind::DependsOn, "db")]),
        service("mail", &[(DependencyKind::DependsOn, "net")]),
        unit("full", Kind::Virtual, &[(DependencyKind::WaitsFor, "web")]),
    ];
    let (mut machine, outcome) = boot(drafts, "full");
    bring_up(&mut machine, outcome);
    let before = format!("{machine:?}");
    let goal = Goal { targets: vec![name("mail")], ..Goal::default() };
    let plan = machine.plan(at(5), Event::SetGoal(goal)).unwrap();
    assert_eq!(strings(&plan.stop), [vec!["full"], vec!["web"], vec!["db"]]);
    assert_eq!(strings(&plan.start), [vec!["mail"]]);
    assert_eq!(plan.keep, [name("net")]);
    assert!(plan.restart.is_empty());
    let plan = machine.plan(at(5), Event::Restart(vec![name("db")])).unwrap();
    assert_eq!(plan.restart, [name("db"), name("web")]);
    assert_eq!(strings(&plan.start), [vec!["db"], vec!["web"]]);
    assert_eq!(format!("{machine:?}"), before, "a plan changes nothing");
    let goal = Goal { targets: vec![name("nosuch")], ..Goal::default() };
    assert_eq!(machine.plan(at(5), Event::SetGoal(goal)).unwrap_err().kind, "unknown-target");
}

#[test]
fn plan_stops_an_activated_oneshot_only_for_a_conflict() {
    let mut nightly = unit("nightly", Kind::Timer, &[]);
    nightly.activates = Some(name("job"));
    let drafts = vec![
        nightly,
        unit("job", Kind::Oneshot, &[]),
        service("other", &[(DependencyKind::Conflicts, "job")]),
    ];
    let (mut machine, _) = boot(drafts, "nightly");
    machine.step(at(1), Event::Fire(name("nightly")));
    let goal =
        |target: &str| Event::SetGoal(Goal { targets: vec![name(target)], ..Goal::default() });
    let plan = machine.plan(at(2), goal("nightly")).unwrap();
    assert_eq!(plan.keep, [name("job"), name("nightly")]);
    assert!(plan.stop.is_empty() && plan.start.is_empty() && plan.restart.is_empty(), "{plan:?}");
    let plan = machine.plan(at(2), goal("other")).unwrap();
    assert!(strings(&plan.stop).concat().contains(&"job"), "{plan:?}");
}

#[test]
fn boot_plan_lists_a_virtual_unit_after_its_dependencies() {
    let drafts = vec![
        service("a", &[]),
        service("b", &[]),
        unit("mid", Kind::Virtual, &[(DependencyKind::WaitsFor, "a")]),
        service("top", &[(DependencyKind::DependsOn, "mid"), (DependencyKind::DependsOn, "b")]),
    ];
    let machine = Machine::new(Duration::from_secs(90));
    let generation = Arc::new(assemble(drafts, []));
    let event = Event::Boot { generation, targets: vec![name("top")] };
    let plan = machine.plan(at(0), event).unwrap();
    assert_eq!(strings(&plan.start), [vec!["a", "b"], vec!["mid"], vec!["top"]]);
}

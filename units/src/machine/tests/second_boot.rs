//! A second [`Event::Boot`]: init continues in another root.

use super::*;

#[test]
fn second_boot_keeps_unchanged_units_and_takes_the_goal_of_the_new_root() {
    let all = |name: &str, wants: &[_]| unit(name, Kind::Virtual, wants);
    let first = [(DependencyKind::Wants, "kept"), (DependencyKind::Wants, "leaves")];
    let (mut machine, outcome) =
        boot(vec![all("first", &first), service("kept", &[]), service("leaves", &[])], "first");
    bring_up(&mut machine, outcome);
    machine.step(at(1), Event::Want { target: name("leaves"), until: None });
    let (kept, leaves) = (run(&machine, "kept"), run(&machine, "leaves"));
    // `lost` depends on a missing target, so it breaks alone, as at a boot.
    let second = [(DependencyKind::Wants, "kept"), (DependencyKind::Wants, "lost")];
    let lost = service("lost", &[(DependencyKind::DependsOn, "missing")]);
    let drafts = vec![all("second", &second), service("kept", &[]), lost];
    let event = |drafts, target| Event::Boot {
        generation: Arc::new(assemble(drafts, [])),
        targets: vec![name(target)],
    };
    let outcome = machine.step(at(2), event(drafts, "second"));
    assert_eq!(outcome.refused, None);
    assert_eq!(machine.wish().goal, [name("second")]);
    assert!(machine.wish().want.is_empty(), "wishes were of the root before");
    assert_eq!(run(&machine, "kept"), kept, "it runs on");
    let stops = |action: &Action| matches!(action, Action::Stop { run, .. } if *run == leaves);
    assert!(outcome.actions.iter().any(stops));
    let again = |action: &Action| matches!(action, Action::Start { name, .. } if ["kept", "lost"].contains(&name.as_str()));
    assert!(!outcome.actions.iter().any(again), "{:?}", outcome.actions);
    assert!(!machine.state(id(&machine, "lost")).is_active());
    // A goal without a provider leads to the emergency action, as at the first boot.
    let outcome = machine.step(at(3), event(vec![service("kept", &[])], "none"));
    assert!(outcome.actions.contains(&Action::Emergency), "{:?}", outcome.actions);
}

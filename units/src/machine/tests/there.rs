//! Units that are there before the machine knows of them.

use super::super::action::StopReason;
use super::super::event::Intent;
use super::super::need::Wish;
use super::super::there::{Ends, There};
use super::*;

fn set(drafts: Vec<Draft>, change: impl FnOnce(&mut Generation)) -> Arc<Generation> {
    let mut generation = assemble(drafts, []);
    change(&mut generation);
    Arc::new(generation)
}

fn anew(generation: Arc<Generation>, there: &[(&str, u64, bool)]) -> (Machine, Vec<Action>) {
    let mut machine = Machine::new(Duration::ZERO);
    let of = |(unit, run, lives): &(&str, u64, bool)| {
        (name(unit), There { run: RunId(*run), lives: *lives, ends: Ends::No })
    };
    machine.found_alive(RunId(40), there.iter().map(of));
    let targets = vec![name("web")];
    let outcome = machine.step(at(9), Event::Boot { generation, targets, before: None });
    machine.audit().unwrap();
    (machine, outcome.actions)
}

fn stops(actions: &[Action]) -> Vec<(&str, &StopReason)> {
    let mut stops = Vec::new();
    for action in actions {
        if let Action::Stop { name, reason, .. } = action {
            stops.push((name.as_str(), reason));
        }
    }
    stops
}

#[test]
fn what_is_there_begins_at_once_whatever_it_waits_for() {
    let depends = [
        (DependencyKind::DependsMs, "db"),
        (DependencyKind::DependsOn, "disk"),
        (DependencyKind::WaitsFor, "late"),
    ];
    let drafts = || {
        let disk = unit("disk", Kind::Oneshot, &[]);
        let late = unit("late", Kind::Oneshot, &[]);
        vec![service("db", &[]), disk, late, service("web", &depends)]
    };
    let settings = Settings { max_starting: 1, ..Settings::default() };
    let generation = set(drafts(), |set| set.settings = settings.clone());
    let (mut machine, actions) = anew(generation, &[("web", 30, true), ("disk", 7, false)]);
    assert_eq!((run(&machine, "web"), run(&machine, "disk")), (RunId(30), RunId(7)));
    assert_eq!(stops(&actions), []);
    // It takes no other's slot, and what follows has numbers of its own.
    let started = ["db", "late"].map(|unit| machine.run(id(&machine, unit)));
    assert_eq!(started.into_iter().flatten().collect::<Vec<_>>(), [RunId(41)]);
    // It is no more what was found: its next run is as any other.
    let events = [Event::Ready(RunId(30)), Event::Restart(vec![name("web")])];
    for event in events.into_iter().chain([Event::Gone(RunId(30))]) {
        machine.step(at(10), event);
    }
    assert_eq!(machine.state(id(&machine, "web")), State::Waiting);
    machine.audit().unwrap();
}

#[test]
fn what_lives_is_wished_for_and_what_may_not_be_up_is_stopped_in_order() {
    let drafts = vec![
        service("web", &[]),
        service("extra", &[]),
        service("rival", &[(DependencyKind::Conflicts, "web")]),
        unit("done", Kind::Oneshot, &[]),
    ];
    let there = [("extra", 3, true), ("rival", 4, true), ("done", 5, false), ("web", 6, true)];
    let (machine, actions) = anew(set(drafts, |_| ()), &there);
    assert_eq!((run(&machine, "extra"), run(&machine, "web")), (RunId(3), RunId(6)));
    assert!(machine.wish().want.contains_key("extra"));
    assert_eq!(stops(&actions).into_iter().map(|(unit, _)| unit).collect::<Vec<_>>(), ["rival"]);
    assert_eq!(machine.state(id(&machine, "rival")), State::Stopping);
    assert_eq!(machine.state(id(&machine, "done")), State::Disabled);
    // A script that was done once is not done for ever.
    let mut machine = machine;
    machine.step(at(10), Event::Want { target: name("done"), until: None });
    assert!(run(&machine, "done") > RunId(40));
}

#[test]
fn a_dead_goal_stays_beside_what_lives_and_alone_is_an_emergency() {
    let drafts = || {
        let all = [(DependencyKind::DependsOn, "web"), (DependencyKind::WaitsFor, "db")];
        let (all, last) = (unit("all", Kind::Virtual, &all), unit("emergency", Kind::Virtual, &[]));
        vec![all, service("db", &[]), last, service("web", &[])]
    };
    let generation = set(drafts(), |set| {
        let fault = crate::generation::Fault {
            at: set.units[0].at.clone(),
            message: "no yaml".to_string(),
        };
        let broken = set.units.iter_mut().filter(|unit| unit.name.as_str() == "web");
        broken.for_each(|unit| unit.fault = Some(Box::new(fault.clone())));
    });
    let boot = |there: &[&str], end| {
        let mut machine = Machine::new(Duration::ZERO);
        let there = there
            .iter()
            .map(|unit| (name(unit), There { run: RunId(3), lives: true, ends: Ends::No }));
        machine.found_alive(RunId(40), there);
        let wish = Wish { goal: vec![name("all")], ..Wish::default() };
        let before = Some(Box::new(Intent { wish, end }));
        let boot = Event::Boot { generation: generation.clone(), targets: Vec::new(), before };
        let actions = machine.step(at(9), boot).actions;
        machine.audit().unwrap();
        (machine, actions)
    };
    let (machine, actions) = boot(&["db"], None);
    assert_eq!((machine.wish().goal.clone(), stops(&actions)), (vec![name("all")], vec![]));
    assert_eq!(run(&machine, "db"), RunId(3));
    assert!(machine.wish().want.is_empty());
    let (machine, _) = boot(&[], None);
    assert_eq!(machine.wish().goal, [name("emergency")]);
    // Nothing begins where its end was asked for, and that comes.
    let (mut machine, _) = boot(&[], Some(Shutdown::Halt));
    assert_eq!((machine.run(id(&machine, "db")), machine.wish().goal.len()), (None, 1));
    let over = Action::Finish(Shutdown::Halt);
    assert!(machine.step(at(9), Event::Shutdown(Shutdown::Halt)).actions.contains(&over));
}

#[test]
fn what_was_being_stopped_is_heard_of_once() {
    let drafts = vec![service("db", &[]), service("web", &[(DependencyKind::RestartWith, "db")])];
    let mut machine = Machine::new(Duration::ZERO);
    let there = |unit, run, ends| (name(unit), There { run: RunId(run), lives: true, ends });
    machine.found_alive(RunId(40), [there("db", 3, Ends::Told), there("web", 4, Ends::No)]);
    let generation = set(drafts, |_| ());
    let boot = Event::Boot { generation, targets: vec![name("web"), name("db")], before: None };
    let actions = machine.step(at(9), boot).actions;
    assert_eq!(stops(&actions), [("db", &StopReason::RestartAsked)]);
    assert_eq!(run(&machine, "web"), RunId(4));
    // The next time it is stopped it is heard of.
    machine.step(at(10), Event::Gone(RunId(3)));
    let actions = machine.step(at(11), Event::Restart(vec![name("db")])).actions;
    assert_eq!(stops(&actions).len(), 2);
    machine.audit().unwrap();
}

/// `web` needs `db`, and is being stopped; `db` waits for that.
fn beside_a_slow_stop(targets: &[&str]) -> (Machine, Vec<Action>) {
    let drafts = vec![
        service("db", &[]),
        service("last", &[(DependencyKind::RestartWith, "db")]),
        service("web", &[(DependencyKind::DependsOn, "db")]),
    ];
    let mut machine = Machine::new(Duration::ZERO);
    let there = |unit, run, ends| (name(unit), There { run: RunId(run), lives: true, ends });
    let all = [("db", 3, Ends::Due), ("web", 4, Ends::Told), ("last", 5, Ends::No)];
    machine.found_alive(RunId(40), all.map(|(unit, run, ends)| there(unit, run, ends)));
    let targets = targets.iter().map(|target| name(target)).collect();
    let boot = Event::Boot { generation: set(drafts, |_| ()), targets, before: None };
    let actions = machine.step(at(9), boot).actions;
    machine.audit().unwrap();
    (machine, actions)
}

fn stopped(actions: &[Action]) -> Vec<&str> {
    stops(actions).into_iter().map(|(unit, _)| unit).collect()
}

#[test]
fn what_waited_to_be_stopped_is_stopped_in_its_turn_and_wished_for_by_nobody() {
    let (mut machine, actions) = beside_a_slow_stop(&["last"]);
    assert_eq!(stopped(&actions), ["web"]);
    assert!(!machine.wish().want.contains_key("db") && machine.is_due(RunId(3)));
    assert_eq!(machine.state(id(&machine, "db")), State::Stopping);
    let actions = machine.step(at(10), Event::Gone(RunId(4))).actions;
    // It was not told before, and is heard of.
    assert_eq!(stopped(&actions), ["db", "last"]);
    machine.step(at(11), Event::Gone(RunId(3)));
    assert_eq!(machine.state(id(&machine, "db")), State::Disabled);
    machine.audit().unwrap();
}

#[test]
fn what_waited_to_be_stopped_and_is_needed_begins_anew_after_it() {
    let (mut machine, actions) = beside_a_slow_stop(&["web"]);
    assert_eq!((stopped(&actions), run(&machine, "db")), (vec!["web"], RunId(3)));
    for gone in [4, 3] {
        machine.step(at(10), Event::Gone(RunId(gone)));
    }
    assert!(run(&machine, "db") > RunId(40));
    machine.audit().unwrap();
}

#[test]
fn what_waited_to_be_stopped_for_nobody_needed_it_and_is_needed_again_goes_on() {
    let (mut machine, _) = beside_a_slow_stop(&["last"]);
    machine.step(at(10), Event::Want { target: name("db"), until: None });
    assert_eq!(stopped(&machine.step(at(11), Event::Gone(RunId(4))).actions), [""; 0]);
    assert_eq!((run(&machine, "db"), run(&machine, "last")), (RunId(3), RunId(5)));
    machine.audit().unwrap();
}

/// `web` needs `all`, a virtual unit, and that needs `mount`. What lives, and is to end so.
fn past_a_virtual(there: &[(&str, u64, Ends)], with_web: bool) -> (Machine, Vec<Action>) {
    let mut drafts = vec![
        unit("all", Kind::Virtual, &[(DependencyKind::DependsOn, "mount")]),
        unit("mount", Kind::Oneshot, &[]),
        service("other", &[]),
        service("web", &[(DependencyKind::DependsOn, "all")]),
    ];
    drafts.truncate(if with_web { 4 } else { 3 });
    let mut machine = Machine::new(Duration::ZERO);
    let of = |(unit, run, ends): &(&str, u64, Ends)| {
        (name(unit), There { run: RunId(*run), lives: *unit != "mount", ends: *ends })
    };
    machine.found_alive(RunId(40), there.iter().map(of));
    let targets = vec![name("other")];
    let boot = Event::Boot { generation: set(drafts, |_| ()), targets, before: None };
    let actions = machine.step(at(9), boot).actions;
    machine.audit().unwrap();
    (machine, actions)
}

#[test]
fn what_has_no_process_between_two_that_end_keeps_their_order() {
    let there = [("mount", 3, Ends::Due), ("web", 4, Ends::Told)];
    let (mut machine, actions) = past_a_virtual(&there, true);
    assert_eq!(stopped(&actions), ["web"]);
    let actions = machine.step(at(10), Event::Gone(RunId(4))).actions;
    assert_eq!(stopped(&actions), ["mount"]);
    machine.audit().unwrap();
}

#[test]
fn beside_what_lives_without_a_file_nothing_that_waited_to_be_stopped_is() {
    let there = [("mount", 3, Ends::Due), ("other", 5, Ends::Due), ("web", 4, Ends::No)];
    let (machine, actions) = past_a_virtual(&there, false);
    assert_eq!(stopped(&actions), [""; 0]);
    assert_eq!((run(&machine, "mount"), run(&machine, "other")), (RunId(3), RunId(5)));
    assert!(machine.wish().want.contains_key("mount"));
}

#[test]
fn what_was_spared_for_want_of_a_file_is_wished_for_as_long_as_that_is_away_alone() {
    let there = [("mount", 3, Ends::Due), ("other", 5, Ends::No), ("web", 4, Ends::No)];
    let wanted = |machine: &Machine| machine.wish().want.keys().cloned().collect::<Vec<_>>();
    let reload = |machine: &mut Machine, with_web: bool| {
        let (mut next, _) = past_a_virtual(&[], with_web);
        next.generation = Arc::new(Generation { number: 1, ..(*next.generation).clone() });
        let generation = next.generation.clone();
        let reload = Event::Reload { generation, no_restart: false, tolerant: true };
        let actions = machine.step(at(10), reload).actions;
        machine.audit().unwrap();
        actions
    };
    let (spared, _) = past_a_virtual(&there, false);
    assert!(wanted(&spared) == [name("mount")] && spared.is_due(RunId(3)));
    assert!(spared.intent().wish.want.is_empty(), "nobody else has wished for it");
    // The other is back, and needs it.
    let mut machine = spared.clone();
    assert_eq!(stopped(&reload(&mut machine, true)), [""; 0]);
    assert!(wanted(&machine) == [name("web")] && !machine.is_due(RunId(3)));
    assert_eq!(run(&machine, "mount"), RunId(3));
    // It has ended meanwhile, and nobody does.
    let mut machine = spared.clone();
    machine.found_alive(RunId(0), []);
    assert_eq!(stopped(&reload(&mut machine, false)), ["mount"]);
    assert_eq!(wanted(&machine), []);
    // Whoever wishes for it meanwhile has it.
    let mut machine = spared.clone();
    machine.step(at(10), Event::Want { target: name("mount"), until: None });
    machine.found_alive(RunId(0), []);
    assert_eq!(stopped(&reload(&mut machine, false)), [""; 0]);
    assert!(wanted(&machine) == [name("mount")] && !machine.is_due(RunId(3)));
}

#[test]
fn a_script_that_was_done_and_was_to_be_undone_is() {
    let drafts = vec![unit("mount", Kind::Oneshot, &[]), service("web", &[])];
    let mut machine = Machine::new(Duration::ZERO);
    let there = There { run: RunId(3), lives: false, ends: Ends::Due };
    machine.found_alive(RunId(40), [(name("mount"), there)]);
    let targets = vec![name("web")];
    let boot = Event::Boot { generation: set(drafts, |_| ()), targets, before: None };
    let actions = machine.step(at(9), boot).actions;
    assert_eq!((stopped(&actions), run(&machine, "mount")), (vec!["mount"], RunId(3)));
    machine.audit().unwrap();
}

#[test]
fn a_flip_forgets_nothing_that_lives_and_could_not_begin() {
    let drafts = || vec![service("a-new", &[]), service("web", &[]), service("zoo", &[])];
    let fault = |set: &mut Generation| {
        let at = set.units[0].at.clone();
        let fault = crate::generation::Fault { at, message: "no yaml".to_string() };
        let broken = set.units.iter_mut().filter(|unit| unit.name.as_str() == "zoo");
        broken.for_each(|unit| unit.fault = Some(Box::new(fault.clone())));
    };
    let first = set(drafts().split_off(1), fault);
    let (mut machine, _) = anew(first, &[("zoo", 30, true), ("web", 31, true)]);
    assert_eq!(machine.run(id(&machine, "zoo")), None);
    let next = set(drafts(), |set| set.number = 1);
    let reload = Event::Reload { generation: next, no_restart: false, tolerant: true };
    assert_eq!(stops(&machine.step(at(10), reload).actions), []);
    assert_eq!((run(&machine, "zoo"), run(&machine, "web")), (RunId(30), RunId(31)));
    machine.audit().unwrap();
}

#[test]
fn what_has_no_file_is_known_until_that_is_back_or_it_has_ended() {
    let drafts = || vec![service("db", &[]), service("web", &[]), service("zoo", &[])];
    let first = set(drafts().split_off(1), |_| ());
    let (mut machine, _) = anew(first, &[("db", 30, true), ("web", 31, true)]);
    let again = |machine: &mut Machine, number, drafts| {
        let generation = set(drafts, |set| set.number = number);
        let reload = Event::Reload { generation, no_restart: false, tolerant: true };
        machine.step(at(10), reload)
    };
    // A load that does not bring it either has it forgotten by nobody.
    again(&mut machine, 1, drafts().split_off(1));
    let mut ended = machine.clone();
    let actions = again(&mut machine, 2, drafts()).actions;
    assert_eq!((run(&machine, "db"), stops(&actions)), (RunId(30), vec![]));
    assert_eq!(run(&machine, "web"), RunId(31));
    assert!(machine.wish().want.contains_key("db"));
    machine.audit().unwrap();
    // All of it has ended meanwhile: nobody wishes for it, and it has a number of its own.
    ended.found_alive(RunId(0), []);
    again(&mut ended, 2, drafts());
    assert!(!ended.wish().want.contains_key("db"));
    assert_eq!(ended.run(id(&ended, "db")), None);
    ended.step(at(11), Event::Want { target: name("db"), until: None });
    assert!(run(&ended, "db") > RunId(40));
}

#[test]
fn beside_what_has_no_name_the_goal_stays_though_it_is_dead() {
    let boot = |lives: bool| {
        let mut machine = Machine::new(Duration::ZERO);
        if lives {
            machine.others_live();
        }
        let wish = Wish { goal: vec![name("all")], ..Wish::default() };
        let before = Some(Box::new(Intent { wish, end: None }));
        let generation = set(vec![unit("emergency", Kind::Virtual, &[])], |_| ());
        machine.step(at(9), Event::Boot { generation, targets: Vec::new(), before });
        machine.wish().goal.clone()
    };
    assert_eq!((boot(true), boot(false)), (vec![name("all")], vec![name("emergency")]));
}

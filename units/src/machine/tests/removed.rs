//! Units that a reload removes, and the notes about them. [`super::super::apply_generation`] has
//! the rules.

use super::*;

/// A unit that is removed and comes back has one note for each, however its run ended.
#[test]
fn killed_and_removed_unit_has_one_note_for_its_removal_and_one_for_its_return() {
    let all = |wants: &[_]| unit("all", Kind::Virtual, wants);
    let web = || service("web", &[]);
    let with = || assemble(vec![all(&[(DependencyKind::Wants, "web")]), web()], []);
    let (mut machine, outcome) = boot(vec![all(&[(DependencyKind::Wants, "web")]), web()], "all");
    bring_up(&mut machine, outcome);
    let reload = |generation| Event::Reload {
        generation: Arc::new(generation),
        no_restart: false,
        tolerant: false,
    };
    let told = |outcome: Outcome| -> Vec<(State, State)> {
        let note = |action: Action| {
            let Action::Note(note) = action else { return None };
            (note.unit.as_str() == "web").then_some((note.from, note.to))
        };
        outcome.actions.into_iter().filter_map(note).collect()
    };
    let ended = run(&machine, "web");
    let stopped = machine.step(at(1), reload(assemble(vec![all(&[])], [])));
    assert_eq!(told(stopped), [(State::Running, State::Stopping)]);
    machine.step(at(600), Event::Tick);
    machine.step(at(601), Event::Ended(ended, Exit::Signal { signal: 9, core: false }));
    machine.step(at(602), Event::Gone(ended));
    assert_eq!(told(machine.step(at(603), reload(with()))), [(State::Disabled, State::Starting)]);
}

#[test]
fn reload_that_removes_a_wanted_provider_says_how_to_withdraw_the_request() {
    for (is_goal, hint) in [(false, "`initctl unwant web` first"), (true, "change the goal first")]
    {
        let goal = if is_goal { "web" } else { "all" };
        let all = || unit("all", Kind::Virtual, &[]);
        let (mut machine, _) = boot(vec![all(), service("web", &[])], goal);
        if !is_goal {
            machine.step(at(1), Event::Want { target: name("web"), until: None });
        }
        let generation = Arc::new(assemble(vec![all()], []));
        let event = Event::Reload { generation, no_restart: false, tolerant: false };
        let refused = machine.step(at(2), event).refused.unwrap();
        assert_eq!(refused.hint, hint, "{refused:?}");
    }
}

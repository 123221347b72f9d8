//! Cgroups of runs that are over, more than are remembered.

use super::super::leftover::LEFTOVERS;
use super::super::tracker::Tracker;
use super::{RUN, run, until};
use crate::spawn::tests::is_alone;

#[test]
fn that_more_are_left_than_are_remembered_is_known_and_those_are_remembered_still() {
    let own = "cgroup::tests::left::that_more_are_left_than_are_remembered_is_known_and_those_are_remembered_still";
    if !is_alone(own) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroups of the second kind here");
    }
    let running = run(&mut tracker, RUN, "exec sleep 600");
    tracker.forget(RUN);
    let known = tracker.leftovers.clone();
    assert!(known.len() == 1 && !tracker.has_forgotten());
    let others = (0..LEFTOVERS).map(|number| format!("other.{number}").into_boxed_str());
    tracker.leftovers.extend(others.take(LEFTOVERS - 1));
    known.iter().for_each(|name| tracker.discard(name.clone()));
    assert!(tracker.leftovers.is_superset(&known) && !tracker.has_forgotten());
    tracker.leftovers.retain(|name| !known.contains(name));
    tracker.leftovers.insert("other".into());
    known.iter().for_each(|name| tracker.discard(name.clone()));
    assert!(tracker.leftovers.is_disjoint(&known) && tracker.has_forgotten());
    tracker.look_again();
    tracker.emptied();
    assert!(tracker.has_forgotten(), "that is known for good");
    drop(running);
    until(&mut tracker, |tracker| tracker.unknown_cgroups().is_empty());
}

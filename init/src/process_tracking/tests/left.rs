//! Tests of more leftover cgroups than are remembered.

use crate::process_tracking::group::LEFTOVERS;
use crate::process_tracking::tests::{RUN, run};
use crate::process_tracking::tracker::Tracker;
use crate::spawn::tests::is_alone;

#[test]
fn leftover_cgroups_over_the_limit_are_not_remembered() {
    let own = "process_tracking::tests::left::leftover_cgroups_over_the_limit_are_not_remembered";
    if !is_alone(own) {
        return;
    }
    let (mut tracker, why) = Tracker::new(false);
    if why.is_some() {
        return crate::not_run!("no cgroup v2 here");
    }
    let running = run(&mut tracker, RUN, "exec sleep 600");
    tracker.forget(RUN);
    let known = tracker.leftovers.clone();
    assert!(known.len() == 1);
    let others = (0..LEFTOVERS).map(|number| format!("other.{number}").into_boxed_str());
    tracker.leftovers.extend(others.take(LEFTOVERS - 1));
    known.iter().for_each(|name| tracker.discard(name.clone()));
    assert!(tracker.leftovers.is_superset(&known));
    tracker.leftovers.retain(|name| !known.contains(name));
    tracker.leftovers.insert("other".into());
    known.iter().for_each(|name| tracker.discard(name.clone()));
    assert!(tracker.leftovers.is_disjoint(&known));
    tracker.look_again();
    tracker.emptied();
    drop(running);
}

//! Cgroups in which all were killed once, and who is begun there afterwards.

use super::*;

#[test]
fn who_is_begun_where_all_were_killed_lives() {
    if !is_alone("cgroup::tests::killed::who_is_begun_where_all_were_killed_lives") {
        return;
    }
    let (mut tracker, _) = Tracker::new(false);
    let script = "exec sleep 600";
    let first = run(&mut tracker, RUN, script);
    if !tracker.has_cgroups() {
        tracker.kill(RUN);
        return end(&mut tracker, first);
    }
    tracker.kill(RUN);
    let second = run(&mut tracker, RUN, script);
    // One that was made ahead, and in which all were killed since.
    tracker.announce(&Name::new("under-test").unwrap());
    tracker.work_ahead();
    tracker.kill_unknown(&super::super::group::name_ahead("under-test", 1));
    let third = run(&mut tracker, RunId(8), script);
    assert!(wait::peek_one(second.pid).unwrap().is_none());
    tracker.kill(RUN);
    tracker.kill(RunId(8));
    for one in [first, second, third] {
        end(&mut tracker, one);
    }
    assert!(tracker.is_empty(RUN) && tracker.is_empty(RunId(8)));
}

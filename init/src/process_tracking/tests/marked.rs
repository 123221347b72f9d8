//! Tests of processes with a mark, or with the mark of another run.

use super::{RUN, end, run, until};
use crate::base::procfs::stat;
use crate::process_tracking::process_tree;
use crate::process_tracking::tracker::Tracker;
use crate::spawn::tests::is_alone;
use crate::sys::{Pid, process, signal};
use groundstate_units::machine::event::RunId;
use nix::sys::resource::{Resource, setrlimit};

const OTHER: RunId = RunId(8);
const OVER: RunId = RunId(9);

/// A command that sets the mark of the run `of`, runs `rest`, and exits a moment later.
fn marked(of: RunId, rest: &str) -> String {
    let mark = process_tree::mark_of(of).expect("no limit of locks is set").hard;
    format!("exec bash -c 'ulimit -x {mark}; {rest} sleep 0.2'")
}

/// The child of this process with such a mark.
fn left(of: RunId) -> Pid {
    let children = crate::base::procfs::children().into_iter().map(Pid::from_raw);
    let is_it = |pid: &Pid| {
        process_tree::run_marked_on(*pid) == Some(of) && stat(*pid).is_some_and(|it| !it.ended)
    };
    { children }.find(is_it).expect("it is left")
}

fn kill(tracker: &mut Tracker, pid: Pid) {
    signal::kill(pid, 9).unwrap();
    until(tracker, |_| stat(pid).is_none());
}

#[test]
fn orphan_belongs_to_the_active_run_of_its_mark_or_else_to_the_run_of_its_session() {
    let own = "process_tracking::tests::marked::orphan_belongs_to_the_active_run_of_its_mark_or_else_to_the_run_of_its_session";
    if !is_alone(own) {
        return;
    }
    process::set_child_subreaper(true).unwrap();
    let mut tracker = Tracker::without_cgroups();
    let first = run(&mut tracker, RUN, &marked(OVER, "sleep 600 &"));
    end(&mut tracker, first);
    let in_session = left(OVER);
    assert_eq!(tracker.whose(in_session), Some(RUN));
    assert!(!tracker.is_empty(RUN), "its end is waited for");
    kill(&mut tracker, in_session);
    // With its own session it would be assigned to the run that has just lost a process.
    let second = run(&mut tracker, RUN, &marked(OVER, "setsid setsid sleep 600 &"));
    end(&mut tracker, second);
    let spared = left(OVER);
    assert_eq!((tracker.whose(spared), tracker.is_empty(RUN)), (None, true));
    kill(&mut tracker, spared);
    let (keeps, third) = (
        run(&mut tracker, OTHER, "exec sleep 600"),
        run(&mut tracker, RUN, &marked(OTHER, "setsid setsid sleep 600 &")),
    );
    end(&mut tracker, third);
    assert_eq!((tracker.whose(left(OTHER)), tracker.is_empty(RUN)), (Some(OTHER), true));
    tracker.kill(OTHER);
    end(&mut tracker, keeps);
    until(&mut tracker, |tracker| tracker.is_empty(OTHER));
}

#[test]
fn run_of_a_marked_child_and_its_children_is_known_before_any_exit_is_seen() {
    let own = "process_tracking::tests::marked::run_of_a_marked_child_and_its_children_is_known_before_any_exit_is_seen";
    if !is_alone(own) {
        return;
    }
    process::set_child_subreaper(true).unwrap();
    let mut tracker = Tracker::without_cgroups();
    let script = "setsid bash -c \"setsid bash -c \\\"sleep 600; true\\\" &\"; sleep 600;";
    let running = run(&mut tracker, RUN, &marked(RUN, script));
    let is_left = || {
        let mut children = crate::base::procfs::children().into_iter();
        children.find(|pid| *pid != running.pid.as_raw()).map(Pid::from_raw)
    };
    until(&mut tracker, |_| is_left().is_some());
    let left = is_left().unwrap();
    let below = || {
        let all = crate::base::procfs::snapshot();
        all.into_values().find(|stat| stat.parent == left.as_raw()).map(|stat| stat.pid)
    };
    until(&mut tracker, |_| below().is_some());
    let below = Pid::from_raw(below().unwrap());
    assert_eq!((tracker.whose(left), tracker.whose(below)), (Some(RUN), Some(RUN)));
    assert_eq!(tracker.whose(nix::unistd::getpid()), None);
    tracker.adopt_left();
    tracker.kill(RUN);
    end(&mut tracker, running);
    until(&mut tracker, |tracker| tracker.is_empty(RUN));
    assert!(stat(below).is_none_or(|stat| stat.ended));
}

#[test]
fn init_with_an_own_lock_limit_marks_no_child_and_sees_no_mark() {
    let child = process::fork_whole(|| {
        let own = nix::unistd::getpid();
        let mark = process_tree::mark_of(RunId(500)).expect("no limit of locks is set").hard;
        setrlimit(Resource::RLIMIT_LOCKS, mark, mark).unwrap();
        u8::from(process_tree::mark_of(RUN).is_some() || process_tree::run_marked_on(own).is_some())
    });
    let exit = crate::sys::wait::await_end(child.unwrap()).unwrap();
    assert_eq!(exit, groundstate_units::spec::Exit::Code(0));
}

//! Tests that children get their own OOM score if init has changed its own.

use super::*;
use groundstate_units::machine::event::Stage;
use groundstate_units::spec::{EnvFile, Particular};

fn score(pid: Pid) -> i16 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    text.trim().parse().unwrap()
}

/// Settings that give every process this score.
fn base(score: i16) -> &'static Base {
    Box::leak(Box::new(Base { score: Some(score), ..Base::default() }))
}

/// A run that PID 1 prepares, and one that the child finishes.
fn runs() -> [Run; 2] {
    let mut with_env_file = plain();
    with_env_file.env_file = vec![EnvFile { path: "/nowhere/env".to_string(), optional: true }];
    [plain(), with_env_file]
}

#[test]
fn child_has_the_original_oom_score_and_init_keeps_its_own() {
    if !is_alone("spawn::tests::score::child_has_the_original_oom_score_and_init_keeps_its_own") {
        return;
    }
    let own = score(nix::unistd::getpid());
    for (way, mut run) in ways().flat_map(|way| runs().map(|run| (way, run))) {
        for (asked, given) in [(None, 500), (Some(700), 700)] {
            let mut particular = Particular::default();
            particular.schedule.oom_score_adjust = asked;
            run.particular = asked.map(|_| Box::new(particular));
            let mut running =
                start(way, &run, &["/bin/sleep", "600"], |r| r.base = base(500)).unwrap();
            assert_eq!(running.verdict(), Ok(()));
            assert_eq!((score(running.pid), score(nix::unistd::getpid())), (given, own), "{way:?}");
        }
    }
}

/// A score below the minimum of this process: the child must not keep init's score.
#[test]
fn child_that_cannot_get_its_oom_score_is_never_executed() {
    let test = "spawn::tests::score::child_that_cannot_get_its_oom_score_is_never_executed";
    if !is_alone_under(&["setpriv", "--bounding-set=-sys_resource"], test) {
        return;
    }
    for (way, run) in ways().flat_map(|way| runs().map(|run| (way, run))) {
        let mut running = start(way, &run, &["/bin/true"], |r| r.base = base(-1000)).unwrap();
        let Err(failure) = running.verdict() else { panic!("{way:?} ran") };
        let told = (failure.stage, failure.errno, failure.path.as_str());
        assert_eq!(told, (Stage::Schedule, libc::EACCES, "oom-score-adjust"), "{way:?}");
        assert_eq!(running.end(), Exit::Code(127));
    }
}

//! Units that crash all the time: their cost, and how their restarts slow down.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::flapping::{Size, storm};
use groundstate_tests::sandbox::Sandbox;
use std::time::Instant;

#[test]
fn ten_thousand_restarts_affect_no_other_unit_and_leak_nothing() {
    let seen = storm(Size { units: 500, rounds: 2 });
    assert!(seen.starts >= 10_000, "{seen}");
    assert_eq!(seen.verdict(), Ok(()), "{seen}");
}

#[test]
fn restart_delay_grows_to_its_maximum_and_restarts_cost_little() {
    let files = Sandbox::new();
    let delays = "restart-delay: 100ms\nrestart-delay-max: 800ms";
    files.unit("storm", &format!("{delays}\nexec-start: DAEMON --exit 1 --trace DIR/trace"));
    files.unit("calm", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: calm\nwants: storm");
    let init = Boot::new(files).start("all");
    let calm = init.when_state("calm", "running").main_pid("calm");
    // Without client requests, all work of init is for the unit.
    let starts = || init.sandbox.trace("trace").iter().filter(|w| w.starts_with("start")).count();
    until("the longest delay is reached", || (starts() >= 6).then_some(()));
    let (begin, before, at) = (Instant::now(), init.process().processor_time(), starts());
    until("the unit has started five more times", || (starts() >= at + 5).then_some(()));
    let (took, used) = (begin.elapsed(), init.process().processor_time() - before);
    assert!(used <= took / 100, "{used:?} of {took:?}");
    let events = init.initctl_json_lines(&["events"]);
    let mut pauses: Vec<u64> = Vec::new();
    let mut ended = None;
    for event in events.iter().filter(|event| event["unit"] == "storm") {
        let at = event["mono-us"].as_u64().expect("a time");
        if event["to"] == "starting" {
            pauses.extend(ended.take().map(|end| at - end));
        } else if event["to"] != "running" {
            // The state after an exit depends on the number of attempts.
            ended.get_or_insert(at);
        }
    }
    assert!(pauses.len() >= 8, "{events:?}");
    for (pause, least) in pauses.iter().zip([100, 200, 400, 800].iter().chain([800; 64].iter())) {
        assert!(*pause >= least * 1000, "{pauses:?} µs: each at least {least} ms here");
    }
    let shortest = pauses.iter().skip(4).min();
    assert!(shortest < Some(&1_200_000), "{pauses:?} µs: it grows no more");
    assert_eq!(init.status().main_pid("calm"), calm);
    init.finish();
}

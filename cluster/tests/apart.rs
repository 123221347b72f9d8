//! Simulated clusters in which machines are cut off from etcd, fully or in one direction: for
//! slightly less than a lease, slightly more, and long. Invariants check an exclusive unit at each
//! start of a process, and everything else once a second (`cluster/README.md`).

mod played;

use cluster::mutant::Mutant;
use cluster::sim::plan::{Deed, Plan, Rates};
use played::{TTL, holds, one_detects, plan, put};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// A day, scaled down by a hundred.
const DAY: Duration = Duration::from_secs(864);
/// When a machine is cut off from etcd.
const CUT: Duration = Duration::from_secs(12);

/// Plans that cut off each of three machines in turn; one has the exclusive unit, another one the
/// second unit.
fn apart_for(time: Duration) -> impl Iterator<Item = Plan> {
    (0..3).map(move |machine| {
        let cut = Deed::Cut { machine, requests: true, answers: true, time };
        let at = u64::try_from(CUT.as_millis()).unwrap_or(u64::MAX);
        let deeds = vec![(2_000, put(0, "Exclusive=true\n")), (3_000, put(1, "")), (at, cut)];
        Plan { heal: CUT + time + 2 * TTL, ..plan(3, deeds) }
    })
}

#[test]
fn exclusive_unit_of_a_machine_cut_off_for_any_time_never_runs_twice() {
    let times = [TTL - SECOND, TTL + SECOND, 10 * MINUTE, DAY];
    // Without giving up, the unit would run twice; the invariant must notice.
    one_detects(times.into_iter().flat_map(apart_for), Mutant::NeverGivesUp);
}

#[test]
fn leader_that_hears_nothing_from_etcd_does_not_block_placement() {
    for machine in 0..3 {
        for (requests, answers) in [(true, false), (false, true), (true, true)] {
            let time = Duration::from_secs(30);
            let sees = (machine + 1) % 3;
            let asks = format!("MachineID=m{sees}\n");
            let deeds = vec![
                (2_000, put(0, "")),
                (2_500, put(1, "Global=true\n")),
                (12_000, Deed::Cut { machine, requests, answers, time }),
                // The request goes to a machine that reaches etcd, and asks for a machine that
                // reaches etcd.
                (25_000, Deed::Put { unit: 2, asks, desired: "launched", at: sees }),
            ];
            holds(&plan(3, deeds));
        }
    }
}

#[test]
fn losing_or_refusing_half_of_all_calls_stops_no_unit() {
    let half = [
        Rates { lost: 50, latency: 20, ..Rates::default() },
        Rates { refused: 50, latency: 20, ..Rates::default() },
        Rates { late: 50, latency: 20, ..Rates::default() },
    ];
    for rates in half {
        for seed in 1..20 {
            let deeds = vec![(2_000, put(0, "")), (2_500, put(1, "Global=true\n"))];
            holds(&Plan { seed, rates: rates.clone(), ..plan(3, deeds) });
        }
    }
}

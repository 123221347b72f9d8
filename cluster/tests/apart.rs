//! Machines that do not reach etcd, or only by half, in simulated clusters: for a little less than a
//! lease, a little more, and long. The invariants are the witness: an exclusive unit is looked at each
//! time a process begins anywhere, all else each second (`cluster/README.md`).

mod played;

use cluster::mutant::Mutant;
use cluster::sim::plan::{Deed, Plan, Rates};
use played::{TTL, holds, one_shows, plan, put};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// A hundredth of it.
const DAY: Duration = Duration::from_secs(864);
/// When a machine loses its way to etcd.
const CUT: Duration = Duration::from_secs(12);

/// Each of three machines apart for that long: one of them has the exclusive unit, one the other.
fn apart_for(time: Duration) -> impl Iterator<Item = Plan> {
    (0..3).map(move |machine| {
        let cut = Deed::Cut { machine, requests: true, answers: true, time };
        let at = u64::try_from(CUT.as_millis()).unwrap_or(u64::MAX);
        let deeds = vec![(2_000, put(0, "Exclusive=true\n")), (3_000, put(1, "")), (at, cut)];
        Plan { heal: CUT + time + 2 * TTL, ..plan(3, deeds) }
    })
}

#[test]
fn a_machine_apart_for_any_time_has_nothing_exclusive_beside_another() {
    let times = [TTL - SECOND, TTL + SECOND, 10 * MINUTE, DAY];
    // Without giving up it would be there twice: who looks sees that.
    one_shows(times.into_iter().flat_map(apart_for), Mutant::NeverGivesUp);
}

#[test]
fn who_leads_and_hears_nothing_of_etcd_keeps_nobody_from_being_placed() {
    for machine in 0..3 {
        for (requests, answers) in [(true, false), (false, true), (true, true)] {
            let time = Duration::from_secs(30);
            let sees = (machine + 1) % 3;
            let asks = format!("MachineID=m{sees}\n");
            let deeds = vec![
                (2_000, put(0, "")),
                (2_500, put(1, "Global=true\n")),
                (12_000, Deed::Cut { machine, requests, answers, time }),
                // By way of one that reaches etcd, for one that does.
                (25_000, Deed::Put { unit: 2, asks, desired: "launched", at: sees }),
            ];
            holds(&plan(3, deeds));
        }
    }
}

#[test]
fn calls_of_which_half_are_lost_or_refused_stop_nothing() {
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

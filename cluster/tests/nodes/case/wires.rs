//! A cluster with faulty connections to etcd: slow, one-way, broken, silent. No unit stops, and
//! everything matches the desired states afterwards.

use super::{Case, LEASE, SLEEPS, sample, sleeps_with, soak};
use crate::stand::program::{throughout, until, within};
use crate::stand::{Cluster, WIRED};
use crate::wire::Fault;
use std::time::{Duration, Instant};

pub(super) const CASES: [Case; 6] = [
    sample("slow_wire_to_etcd_moves_and_stops_no_unit", slow).with(WIRED),
    sample("one_way_wire_to_etcd_counts_as_cut_off_and_stops_no_unit", one_way).with(WIRED),
    sample("broken_connections_to_etcd_lose_no_request", broken).with(WIRED),
    soak("truncated_answers_of_etcd_stop_no_unit", cut_short).with(WIRED),
    soak("late_lease_renewal_stops_no_unit", late).with(WIRED),
    soak("silent_etcd_is_reported_in_time", silent).with(WIRED),
];

const TOO_SLOW: Duration = Duration::from_secs(2);

/// One unit on each machine, and one that only the third can have.
fn begin(cluster: &Cluster) -> [Option<i64>; 4] {
    cluster.file("everywhere.service", &sleeps_with("Global=true"));
    cluster.file("here.service", &sleeps_with("MachineMetadata=number=3"));
    cluster.node(1).fleetctl(&["start", "everywhere.service", "here.service"]);
    cluster.when_active(1, 4);
    let pids = pids(cluster);
    assert!(pids.iter().all(Option::is_some), "{pids:?}");
    pids
}

fn pids(cluster: &Cluster) -> [Option<i64>; 4] {
    let [a, b, c] = [1, 2, 3].map(|number| cluster.node(number).main_pid("everywhere.service"));
    [a, b, c, cluster.node(3).main_pid("here.service")]
}

/// The third node's connection fails for two leases; no running unit is touched.
fn ride_out(cluster: &Cluster, before: &[Option<i64>; 4], fault: Fault) {
    let affected = cluster.wires[2].affected();
    cluster.set_wire(3, fault);
    throughout(2 * LEASE, &format!("all that ran runs, {fault:?}"), || pids(cluster) == *before);
    assert!(cluster.wires[2].affected() > affected, "{fault:?} changed no chunk");
    cluster.set_wire(3, Fault::None);
}

/// Waits until the cluster is in good order. An expired machine has lost the place of
/// `here.service`, which may be restarted. Global units are not touched.
fn whole(cluster: &mut Cluster, before: &[Option<i64>; 4]) -> [Option<i64>; 4] {
    cluster.when_machines(3);
    cluster.when_active(1, 4);
    let after = until("all of them run", || {
        let now = pids(cluster);
        now.iter().all(Option::is_some).then_some(now)
    });
    assert_eq!(after[..3], before[..3]);
    after
}

fn lost_registrations(cluster: &Cluster, number: u8) -> usize {
    cluster.node(number).log("fleetd").matches("is no longer registered").count()
}

fn slow(cluster: &mut Cluster) {
    let before = begin(cluster);
    let out = lost_registrations(cluster, 3);
    ride_out(cluster, &before, Fault::Slow(Duration::from_millis(75)));
    assert_eq!(lost_registrations(cluster, 3), out, "a slow machine lost its registration");
    assert_eq!(pids(cluster), before);
    // A wire slower than the request timeout has the same effect as no etcd.
    ride_out(cluster, &before, Fault::Slow(TOO_SLOW));
    whole(cluster, &before);
}

fn one_way(cluster: &mut Cluster) {
    let mut before = begin(cluster);
    for fault in [Fault::HoldsAnswers, Fault::HoldsQuestions] {
        ride_out(cluster, &before, fault);
        before = whole(cluster, &before);
    }
}

fn broken(cluster: &mut Cluster) {
    let before = begin(cluster);
    for number in 1..=3 {
        cluster.set_wire(number, Fault::BreaksEach(12));
    }
    let names: Vec<String> = (1..=4).map(|n| format!("wish{n}.service")).collect();
    for (at, name) in names.iter().enumerate() {
        cluster.file(name, SLEEPS);
        let by = u8::try_from(1 + at % 3).unwrap();
        // Repeated until accepted; setting a desired state twice is harmless.
        until("the start is accepted", || {
            (cluster.node(by).try_fleetctl(&["start", "--no-block", name]).0 == 0).then_some(())
        });
    }
    let stopped = &names[0];
    until("the unload is accepted", || {
        (cluster.node(2).try_fleetctl(&["unload", "--no-block", stopped]).0 == 0).then_some(())
    });
    until("each wire was broken", || {
        cluster.wires.iter().all(|wire| wire.affected() > 0).then_some(())
    });
    assert_eq!(pids(cluster)[..3], before[..3]);
    cluster.wires.iter().for_each(|wire| wire.set(Fault::None));
    cluster.when_machines(3);
    until("the units match their desired states", || {
        let active = cluster.active(1)?;
        let runs = |name: &String| active.contains_key(name);
        let all = active.values().map(std::collections::BTreeSet::len).sum::<usize>();
        (all == 7 && names[1..].iter().all(runs) && !runs(stopped)).then_some(())
    });
    assert_eq!(pids(cluster)[..3], before[..3]);
}

fn cut_short(cluster: &mut Cluster) {
    let before = begin(cluster);
    ride_out(cluster, &before, Fault::CutsEach(5));
    whole(cluster, &before);
}

fn late(cluster: &mut Cluster) {
    let before = begin(cluster);
    let out = lost_registrations(cluster, 3);
    for _ in 0..3 {
        let affected = cluster.wires[2].affected();
        cluster.set_wire(3, Fault::HoldsAll);
        throughout(LEASE / 2, "all that ran runs", || pids(cluster) == before);
        cluster.set_wire(3, Fault::None);
        until("the fault changed a chunk", || {
            (cluster.wires[2].affected() > affected).then_some(())
        });
        throughout(LEASE, "all that ran runs", || pids(cluster) == before);
    }
    assert_eq!(lost_registrations(cluster, 3), out);
    cluster.when_active(1, 4);
}

fn silent(cluster: &mut Cluster) {
    let before = begin(cluster);
    cluster.set_wire(3, Fault::HoldsAll);
    let began = Instant::now();
    let report = within(Duration::from_secs(5), || {
        let asked = Instant::now();
        let (code, _, printed) = cluster.node(3).try_fleetctl(&["list-units"]);
        assert!(asked.elapsed() < Duration::from_secs(5), "fleetctl waited too long for an answer");
        (code != 0 && printed.contains("unable to communicate with etcd")).then_some(())
    });
    assert!(report.is_some(), "the outage was not reported after {:?}", began.elapsed());
    throughout(2 * LEASE, "all that ran runs", || pids(cluster) == before);
    cluster.set_wire(3, Fault::None);
    whole(cluster, &before);
}

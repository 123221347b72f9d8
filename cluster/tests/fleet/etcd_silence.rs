//! Machines that disappear while etcd is silent keep their units until they have had time to
//! return. In-memory store and simulated clock; `tests/crowd.rs` pauses a real etcd.

use crate::led::Cluster;
use cluster::desired::Desired;
use cluster::engine::Engine;
use cluster::fleetd::machine_lease::MachineLease;
use cluster::registry::Epoch;
use std::time::Duration;

const PLAIN: &str = "[Service]\nExecStart=/bin/sleep 1000\n";
const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(30);

/// Two machines with a unit each; all leases expire at once, and only `m2` is back when it leads.
fn after_silence() -> (Cluster, Epoch) {
    let mut cluster = Cluster::new();
    let leases = [cluster.machine("m1"), cluster.machine("m2")];
    let (epoch, leads) = cluster.lead("m2");
    cluster.submit("a.service", PLAIN, Desired::Launched);
    cluster.submit("b.service", PLAIN, Desired::Launched);
    cluster.run(&mut cluster.engine(Duration::ZERO), epoch);
    assert_eq!((cluster.schedule("m1").len(), cluster.schedule("m2").len()), (1, 1));
    leases.into_iter().chain([leads]).for_each(|lease| {
        cluster.store.revoke(lease);
    });
    cluster.now += 2 * TTL;
    cluster.machine("m2");
    let (epoch, _) = cluster.lead("m2");
    (cluster, epoch)
}

fn informed_engine(cluster: &Cluster) -> Engine {
    let mut engine = cluster.engine(Duration::ZERO);
    engine.keep_units_until(cluster.now + TTL / 2, cluster.now);
    engine
}

#[test]
fn machine_that_lost_its_lease_in_a_silence_of_etcd_keeps_its_units() {
    let (mut cluster, epoch) = after_silence();
    let mut engine = informed_engine(&cluster);
    assert_eq!(cluster.run(&mut engine, epoch), 0, "the machine may still register");
    cluster.now += 10 * SECOND;
    assert_eq!(cluster.run(&mut engine, epoch), 0, "still");
    cluster.machine("m1");
    assert_eq!(cluster.run(&mut engine, epoch), 0);
    assert_eq!(engine.next_deadline(), None);
    assert_eq!((cluster.schedule("m1").len(), cluster.schedule("m2").len()), (1, 1));
}

#[test]
fn machine_that_does_not_return_after_a_silence_of_etcd_loses_its_units() {
    let (mut cluster, epoch) = after_silence();
    let mut engine = informed_engine(&cluster);
    assert_eq!(cluster.run(&mut engine, epoch), 0);
    cluster.now = engine.next_deadline().unwrap();
    assert_eq!(cluster.run(&mut engine, epoch), 1);
    assert_eq!((cluster.schedule("m1").len(), cluster.schedule("m2").len()), (0, 2));
}

#[test]
fn machine_that_leaves_without_a_silence_of_etcd_loses_its_units_at_once() {
    let (mut cluster, epoch) = after_silence();
    let mut engine = cluster.engine(Duration::ZERO);
    assert_eq!(cluster.run(&mut engine, epoch), 1);
    assert_eq!((cluster.schedule("m1").len(), cluster.schedule("m2").len()), (0, 2));
}

#[test]
fn silence_of_half_a_lease_protects_machines_for_half_a_lease() {
    let at = |seconds: u64| Duration::from_secs(seconds);
    let heard =
        |proof, heard_again| MachineLease { lease: Some(1), proof: Some(at(proof)), heard_again };
    let until = |lease: MachineLease, now| lease.silence_grace_end(TTL, at(now));
    assert_eq!(until(heard(100, None), 110), None, "as usual");
    assert_eq!(until(heard(100, None), 116), Some(at(131)), "our own renewal is not answered yet");
    assert_eq!(until(heard(120, Some(at(116))), 121), Some(at(131)));
    assert_eq!(
        until(heard(130, Some(at(116))), 131),
        None,
        "the time for live machines to register is over"
    );
    assert_eq!(
        until(MachineLease::default(), 50),
        Some(at(65)),
        "our own machine is not registered"
    );
}

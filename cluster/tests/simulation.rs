//! Shrunk schedules in which fleetd once failed, as regression tests; `simulate-cluster` plays
//! thousands of others.

mod played;

use cluster::key::Keys;
use cluster::mutant::Mutant;
use cluster::sim::coverage::Coverage;
use cluster::sim::partial::{Hidden, OF_UNITS};
use cluster::sim::plan::{self, Deed, Plan, Rates};
use cluster::sim::run;
use cluster::sim::signer::Signer;
use cluster::sim::world::World;
use played::{detects, holds, one_detects, plan, put};
use std::time::Duration;

#[test]
fn claim_is_released_when_the_unit_has_stopped_not_when_its_file_is_removed() {
    let drain = Deed::Drain { of: 0, on: true, at: 1 };
    holds(&plan(3, vec![(2_000, put(0, "Exclusive=true\n")), (20_000, drain)]));
}

#[test]
fn unit_that_is_no_longer_exclusive_leaves_no_claim() {
    let deeds = vec![(1_500, put(4, "Exclusive=true\n")), (30_000, put(4, "Global=true\n"))];
    holds(&plan(4, deeds));
}

#[test]
fn foreign_etcd_gets_no_writes_of_this_cluster() {
    let foreign = Deed::Foreign { machine: 0, time: Duration::from_millis(1_600) };
    holds(&plan(2, vec![(30_000, foreign), (30_700, put(0, ""))]));
}

#[test]
fn claim_is_held_before_the_snapshot_shows_it() {
    let deeds = vec![(3_300, put(3, "Global=true\n")), (4_000, put(4, "Exclusive=true\n"))];
    let rates = Rates { latency: 100, ..Rates::default() };
    holds(&Plan { rates, ..plan(2, deeds) });
}

#[test]
fn exclusive_unit_survives_a_pause_shorter_than_its_lease() {
    let asks = "Exclusive=true\nMachineID=m1\n";
    let plan = |tenths: u64| {
        let pause = Deed::Pause { machine: Some(1), time: Duration::from_millis(tenths * 100) };
        plan(2, vec![(2_000, put(3, asks)), (30_000, pause)])
    };
    one_detects((60..80).map(plan), Mutant::RenewalNotAwaited);
}

#[test]
fn unit_that_fits_no_other_machine_keeps_running_when_its_machine_returns() {
    let time = Duration::from_secs(15);
    let cut = Deed::Cut { machine: 1, requests: true, answers: true, time };
    holds(&plan(2, vec![(2_000, put(0, "MachineMetadata=n=1\n")), (20_000, cut)]));
}

#[test]
fn request_is_not_answered_as_done_from_a_stale_snapshot() {
    let elsewhere = |unit, asks: &str, desired| {
        let asks = asks.to_string();
        Deed::Put { unit, asks, desired, at: 1 }
    };
    let deeds = vec![
        (1_600, elsewhere(5, "", "launched")),
        (9_000, Deed::SilenceWatches { machine: 1 }),
        (14_700, elsewhere(5, "MachineID=m1\n", "loaded")),
        (22_000, Deed::Wish { unit: 5, desired: "launched", at: 1 }),
    ];
    holds(&plan(2, deeds));
}

#[test]
fn given_up_exclusive_unit_starts_again_after_the_next_renewal() {
    // Longer than the machine keeps the unit without a renewal, and shorter than its lease.
    let time = Duration::from_millis(7_000);
    let cut = |at| (at, Deed::Cut { machine: 0, requests: true, answers: true, time });
    let deeds = vec![(2_000, put(0, "Exclusive=true\n")), cut(12_100), cut(24_700), cut(36_300)];
    holds(&plan(2, deeds));
}

#[test]
fn leader_waiting_for_changes_after_a_failed_write_does_not_spin() {
    let grace = Duration::from_secs(4);
    let time = Duration::from_secs(16);
    let cut = Deed::Cut { machine: 1, requests: true, answers: true, time };
    let metadata = |at, value| (at, Deed::Metadata { of: 1, value: Some(value), at: 0 });
    let asks = "MachineMetadata=k=1\n";
    let deeds = vec![
        (2_000, put(0, asks)),
        (2_100, put(1, asks)),
        (20_000, Deed::SilenceWatches { machine: 0 }),
        (20_500, cut),
        metadata(30_000, "2"),
        metadata(33_000, "1"),
    ];
    holds(&Plan { grace, ..plan(2, deeds) });
}

#[test]
fn machine_paused_beyond_its_lease_gives_up_exclusive_units_without_quorum() {
    let pause = Deed::Pause { machine: None, time: Duration::from_secs(16) };
    let lost = Deed::QuorumLoss { time: Duration::from_secs(9) };
    let deeds = vec![(2_000, put(2, "Exclusive=true\n")), (10_000, pause), (21_000, lost)];
    for mutant in [Mutant::EndedLeaseAsked, Mutant::LeaderlessForLong] {
        detects(&plan(3, deeds.clone()), mutant);
    }
}

#[test]
fn two_addresses_of_the_one_reachable_member_are_no_majority() {
    let cut =
        Deed::Cut { machine: 1, requests: true, answers: true, time: Duration::from_secs(20) };
    let deeds = vec![(2_000, put(0, "")), (3_000, put(1, "Exclusive=true\n")), (12_000, cut)];
    detects(&plan(2, deeds), Mutant::CountsUrls);
}

#[test]
fn ring_of_replaces_is_refused_when_its_units_are_created_together() {
    let at = |when, unit, asks: &str, at| {
        (when, Deed::Put { unit, asks: asks.to_string(), desired: "launched", at })
    };
    let deeds = vec![
        at(1_700, 2, "Replaces=f.service\n", 1),
        at(2_398, 5, "Replaces=b.service\n", 0),
        at(2_400, 1, "Replaces=[a-c].service\n", 1),
    ];
    holds(&Plan { rates: Rates { latency: 100, ..Rates::default() }, ..plan(2, deeds) });
}

#[test]
fn start_delayed_by_a_pause_continues_when_all_faults_end() {
    // Without the heal, the machine would resume just before the checks.
    let pause = Deed::Pause { machine: Some(0), time: Duration::from_millis(18_795) };
    let deeds = vec![(35_000, put(0, "MachineID=m0\n")), (35_200, pause)];
    holds(&plan(2, deeds));
}

#[test]
fn quorum_restored_by_the_end_of_all_faults_returns_once() {
    let seconds = Duration::from_secs;
    let mut world = World::new(&plan(2, Vec::new()), Keys::under("/s"));
    world.etcd.leases.insert(1, (seconds(9), seconds(40)));
    world.etcd.no_quorum_until = seconds(52);
    world.now = seconds(45);
    world.heal();
    assert_eq!(world.etcd.leases.get(&1), Some(&(seconds(9), seconds(54))));
    // The time at which the quorum would have returned without the heal.
    world.now = seconds(52);
    world.quorum_back();
    assert_eq!(world.etcd.leases.get(&1), Some(&(seconds(9), seconds(54))));
}

#[test]
fn random_schedules_pass_and_repeat_identically() {
    for seed in 0..12 {
        let plan = plan::draw(seed);
        holds(&plan);
        let digest = || run::run(&plan, &mut Coverage::default(), false).ok();
        assert_eq!(digest(), digest(), "seed {seed}");
    }
}

/// Schedules that could not be shrunk, because they depend on close timing. Example, 55673: a
/// restarted fleetd requests its claims while it is cut off. A renewal of its lease arrives
/// meanwhile. fleetd must know which lease the claims are bound to.
#[test]
fn random_schedules_that_once_failed_pass() {
    for seed in [
        17_718, 41_411, 46_010, 50_770, 55_673, 62_035, 107_580, 108_450, 132_655, 138_453,
        141_848, 149_289, 150_257, 158_119, 158_547, 159_218, 163_302, 169_634, 171_674, 171_676,
        179_643, 184_666, 187_714, 194_228, 194_357, 208_503, 241_627, 300_435, 309_687, 324_438,
        400_155, 400_501, 405_490, 409_042, 492_251, 1_021_063, 2_038_097,
    ] {
        holds(&plan::draw(seed));
    }
}

#[test]
fn readings_that_lack_more_and_more_stop_no_unit() {
    let hide =
        |kinds| Deed::Hide { machine: 0, what: Hidden::Kinds(kinds), time: Duration::from_secs(6) };
    let mut deeds: Vec<(u64, Deed)> =
        (0..3).map(|unit| (1_000, put(unit, "MachineID=m0\n"))).collect();
    // A unit without its file keeps running unchanged, and so does a unit without all its keys.
    deeds.extend([(20_000, hide(&["unit/", "desired/"])), (24_000, hide(OF_UNITS))]);
    detects(&plan(2, deeds), Mutant::MassStopBelieved);
}

#[test]
fn flapping_machine_keeps_its_units_after_a_few_departures() {
    let mut deeds: Vec<(u64, Deed)> = vec![(1_000, put(5, "")), (1_000, put(4, ""))];
    for turn in 0..10 {
        let at = 8_000 + turn * 3_500;
        // The other machine leads: to a leader, its own departure would look like a silence of
        // etcd.
        deeds.push((at, Deed::EndLease { machine: 0 }));
        deeds.push((at + 1_500, put(usize::try_from(turn).unwrap_or_default() % 4, "")));
    }
    detects(&plan(2, deeds), Mutant::NeverTired);
}

#[test]
fn restarted_fleetd_distrusts_a_smaller_reading() {
    let what = Hidden::Kinds(OF_UNITS);
    let mut deeds: Vec<(u64, Deed)> =
        (0..3).map(|unit| (1_000, put(unit, "MachineID=m0\n"))).collect();
    let time = Duration::from_millis(500);
    deeds.push((20_000, Deed::CrashFleetd { machine: 0, time }));
    deeds.push((20_100, Deed::Hide { machine: 0, what, time: Duration::from_secs(6) }));
    detects(&plan(2, deeds), Mutant::RestartForgets);
}

#[test]
fn unit_started_just_before_a_restart_of_fleetd_is_known_afterwards() {
    let hide = |what| Deed::Hide { machine: 0, what, time: Duration::from_secs(4) };
    let time = Duration::from_millis(200);
    let mut deeds: Vec<(u64, Deed)> =
        (0..3).map(|unit| (20_000, put(unit, "MachineID=m0\n"))).collect();
    // This unit starts shortly after fleetd has saved its state.
    deeds.push((19_000, put(3, "MachineID=m0\n")));
    deeds.push((20_400, hide(Hidden::Kinds(OF_UNITS))));
    deeds.push((20_450, Deed::CrashFleetd { machine: 0, time }));
    detects(&plan(2, deeds), Mutant::KeptLate);
}

#[test]
fn fleetd_restarted_while_cut_off_knows_its_claims() {
    let time = Duration::from_secs(25);
    let deeds = vec![
        (2_000, put(0, "Exclusive=true\n")),
        (2_500, put(1, "Exclusive=true\n")),
        (12_000, Deed::Cut { machine: 1, requests: true, answers: true, time }),
        (12_500, Deed::CrashFleetd { machine: 1, time: Duration::from_millis(200) }),
    ];
    detects(&plan(2, deeds), Mutant::HeldForgotten);
}

/// A proof that etcd has no leader also counts for a fleetd that never reaches its cluster.
#[test]
fn exclusive_unit_survives_two_restarts_of_fleetd_without_quorum() {
    let crash =
        |at, time| (at, Deed::CrashFleetd { machine: 0, time: Duration::from_millis(time) });
    let lost = Deed::QuorumLoss { time: Duration::from_millis(7_940) };
    let deeds = vec![
        (1_030, put(5, "Exclusive=true\nMachineID=m1\n")),
        (1_070, put(2, "Exclusive=true\n")),
        (5_812, lost),
        crash(8_303, 1_500),
        crash(12_664, 116),
    ];
    holds(&plan(2, deeds));
}

/// When etcd's quorum returns, a lease lives for its whole time again.
#[test]
fn deposed_leader_revokes_its_lease_as_soon_as_etcd_answers() {
    let interval = Duration::from_secs(2);
    let lost = Deed::QuorumLoss { time: Duration::from_secs(15) };
    let deeds = vec![(2_000, put(0, "")), (12_000, lost)];
    // With a long agent_ttl the leader's lease is five intervals.
    let ttl = Duration::from_secs(30);
    detects(&Plan { interval, ttl, ..plan(2, deeds) }, Mutant::LetGoOnce);
}

#[test]
fn scheduled_unit_starts_without_a_leader() {
    let gone = Deed::CrashMachine { machine: 0, time: Duration::from_secs(30) };
    let wish = |desired| Deed::Wish { unit: 0, desired, at: 1 };
    let deeds = vec![
        (1_000, put(0, "MachineID=m1\n")),
        (1_100, put(1, "MachineID=m1\n")),
        (8_000, gone),
        (25_000, wish("loaded")),
        (34_000, wish("launched")),
    ];
    detects(&Plan { engines: 1, ..plan(2, deeds) }, Mutant::EngineAwaited);
}

#[test]
fn unsigned_or_outdated_unit_does_not_run_where_signatures_are_required() {
    let signed = |at, by, serial| {
        let asks =
            format!("MachineMetadata=n=1\nMachineMetadata=k={serial}\nMachineMetadata=k=1\n");
        (at, Deed::PutSigned { unit: 0, asks, by, serial, at: 0 })
    };
    let time = Duration::from_millis(500);
    let begin = |by| vec![signed(1_000, Signer::Ours, 7), signed(12_000, by, 8)];
    for by in [Signer::Stranger, Signer::OfAnother, Signer::None] {
        detects(&Plan { signed: true, ..plan(2, begin(by)) }, Mutant::UnsignedRuns);
    }
    let mut deeds = begin(Signer::Ours);
    deeds.push(signed(24_000, Signer::Ours, 6));
    detects(&Plan { signed: true, ..plan(2, deeds.clone()) }, Mutant::OldSignatureRuns);
    deeds.insert(2, (23_000, Deed::CrashFleetd { machine: 1, time }));
    deeds.insert(2, (20_000, Deed::Destroy { unit: 0, at: 0 }));
    detects(&Plan { signed: true, ..plan(2, deeds) }, Mutant::SerialsForgotten);
}

/// Two of the four units would stop if a reading treated their value as absent: those of `desired/`
/// and `global/`.
#[test]
fn temporarily_unreadable_values_stop_and_move_nothing() {
    let time = Duration::from_secs(9);
    for kind in ["place/", "schedule/", "desired/", "global/"] {
        let asks = if kind == "global/" { "Global=true\n" } else { "MachineID=m0\n" };
        let deeds = vec![
            (2_000, put(0, asks)),
            (20_000, Deed::Garble { kind, which: 0, time }),
            // Two machines read everything again meanwhile, the leader among them, and one of them
            // restarts.
            (22_000, Deed::BreakWatches { machine: 0 }),
            (22_000, Deed::BreakWatches { machine: 1 }),
            (24_000, Deed::CrashFleetd { machine: 0, time: Duration::from_millis(300) }),
        ];
        holds(&plan(2, deeds));
    }
}

/// A restarted fleetd registers and is cut off before it renews its claim. The earlier lease
/// expires first.
#[test]
fn claim_of_a_previous_fleetd_is_valid_only_as_long_as_its_lease() {
    let (time, down) = (Duration::from_secs(25), Duration::from_millis(1_400));
    let deeds = vec![
        (2_000, put(0, "")),
        (2_500, put(1, "Exclusive=true\n")),
        (21_000, Deed::CrashFleetd { machine: 1, time: down }),
        (23_850, Deed::Cut { machine: 1, requests: true, answers: true, time }),
        (23_950, Deed::Drain { of: 1, on: true, at: 0 }),
    ];
    let rates = Rates { refused: 40, latency: 20, ..Rates::default() };
    // With some of these seeds the machine registers and its claim is refused, again and again.
    let drawn = |seed| Plan { seed, rates: rates.clone(), ..plan(2, deeds.clone()) };
    (1..100).for_each(|seed| holds(&drawn(seed)));
}

#[test]
fn withheld_unit_keeps_running_after_a_restart_of_fleetd() {
    let mut deeds: Vec<(u64, Deed)> =
        (0..3).map(|unit| (1_000, put(unit, "MachineID=m0\n"))).collect();
    let time = Duration::from_secs(14);
    deeds.push((20_000, Deed::Hide { machine: 0, what: Hidden::Kinds(OF_UNITS), time }));
    // With the remaining units no reading would count as suspicious.
    deeds.push((28_000, Deed::Destroy { unit: 0, at: 1 }));
    let time = Duration::from_millis(500);
    deeds.push((30_000, Deed::CrashFleetd { machine: 0, time }));
    detects(&plan(2, deeds), Mutant::WithheldForgotten);
}

/// The unit is re-created as non-exclusive and then as exclusive again while the first run is still
/// stopping; with some of these seeds that takes long.
#[test]
fn claim_is_released_when_the_exclusive_run_ends_not_at_the_next_file() {
    let plan = |seed| {
        let deeds = vec![
            (2_000, put(0, "Exclusive=true\nMachineID=m0\n")),
            (20_000, put(0, "MachineID=m0\n")),
            (20_050 + seed * 10, put(0, "Exclusive=true\nMachineID=m1\n")),
        ];
        Plan { seed, ..plan(2, deeds) }
    };
    one_detects((1..40).map(plan), Mutant::GivenBackUntold);
}

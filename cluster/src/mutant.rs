//! Deliberate bugs ("mutants"), each breaking one rule at the place that implements it. The
//! simulation must find every one of them.
//! The simulating thread selects a mutant at run time, in builds with the feature `sim` only.
//! Without the feature, [`planted`] is constant false.

/// A broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// An engine's write does not check whether the engine still leads.
    UnfencedWrite,
    /// A write with unknown result may land after the engine has decided again.
    EpochKept,
    /// A move does not check that the unit is unchanged since it was read.
    UnitNotCompared,
    /// A move does not check that the machines are unchanged since they were read.
    MachineNotCompared,
    /// A move does not check that its cause still exists.
    CauseNotCompared,
    /// A move leaves the unit in the schedule of the machine it comes from.
    ScheduleLeft,
    /// A destroyed unit stays in its machine's schedule.
    DestroyLeaves,
    /// The reason why a unit is unplaced stays after its placement.
    WhyLeft,
    /// The reason why a unit is unplaced is not recorded.
    WhyUntold,
    /// A second machine with the same id takes the key over.
    TwinLetIn,
    /// A rebooted machine takes over the key of a run that still renews its lease.
    HeirImpatient,
    /// A rebooted machine takes over the claims of its previous run, whose lease has not expired.
    HeirClaims,
    /// A machine renews its lease after a long silence before it has confirmed its key.
    RenewalBeforeKey,
    /// Claims of other machines are ignored.
    ClaimStolen,
    /// An exclusive unit is started before it is claimed.
    ClaimNotAwaited,
    /// A claim is released while the unit still runs.
    ReleasedWhileUp,
    /// A claim is released because the new file needs none, before init has that file.
    GivenBackUntold,
    /// A machine that is cut off keeps its exclusive units.
    NeverGivesUp,
    /// A machine takes etcd's loss of quorum for being cut off.
    QuorumLossIsCutOff,
    /// A candidate that was not elected requests a leader lease anyway.
    LeaseUnwon,
    /// A present loss of quorum counts as a proof even if the lease had expired before it.
    LeaderlessForLong,
    /// Two addresses of one etcd member count as two members.
    CountsUrls,
    /// Units created at the same moment may replace each other in a ring.
    RingLetIn,
    /// A failed reading is taken for an empty one.
    FaultIsEmpty,
    /// Changes that were seen before are applied again.
    RepeatsCount,
    /// After a compaction the watch continues without a reading.
    CompactionIgnored,
    /// A watch that has fallen silent is trusted forever.
    SilenceBelieved,
    /// Conflicts count only for the unit that declares them.
    OneSidedConflict,
    /// One matching key of MachineMetadata is enough.
    AnyMetadata,
    /// A machine that is being drained takes units.
    DrainIgnored,
    /// Units are moved to balance the load.
    EvensOut,
    /// A unit and those that follow it move in separate writes.
    FollowersApart,
    /// A machine that is gone keeps its units.
    GoneKeeps,
    /// The grace is skipped.
    NoGrace,
    /// Writes that depend on a failed write are sent anyway.
    GoesOnAfterLoss,
    /// A failed write is taken for done.
    LossForgotten,
    /// A late state report may overwrite a newer one.
    StateNotCompared,
    /// The state of a unit stays after the unit has left the machine.
    StateLeft,
    /// Late metadata may overwrite newer metadata.
    MetadataNotCompared,
    /// Global units run on every machine.
    GlobalEverywhere,
    /// Of two conflicting global units the first by name stays, even if the other is older.
    NewcomerEvicts,
    /// A new file of a unit is ignored.
    HashIgnored,
    /// A machine that is not in the cluster acts.
    ActsOutside,
    /// A loaded unit is launched.
    LoadedIsLaunched,
    /// A write is answered before the snapshot shows it.
    AnsweredUnseen,
    /// init is not asked again after it failed to answer.
    LooksOnce,
    /// A registry that has lost its contents is trusted.
    ForeignBelieved,
    /// A wanted unit without a place is stopped where it runs.
    NowhereIsStopped,
    /// A published state whose write had an unknown result stays.
    StrayLeft,
    /// The reason why a unit is unplaced is never updated.
    ReasonsGrowOld,
    /// A silent machine whose metadata was never received counts as one without metadata.
    AwayIsUnknown,
    /// A reason that the engine's snapshot does not show stays after its unit is destroyed.
    ReasonBySnapshot,
    /// An exclusive unit that was given up is not started again.
    GivenUpForGood,
    /// A lagging snapshot decides that there is nothing to do.
    StaleSnapshotAnswers,
    /// A waiting engine spins on a deadline that has passed.
    SpinsOnDeadline,
    /// An engine keeps a watch that has fallen silent and learns only from its full readings.
    DeafForEver,
    /// A change of desired state with unknown result is taken for done when its unit is gone.
    GoneIsDone,
    /// A machine that resumes after a pause does not wait for its lease renewal.
    RenewalNotAwaited,
    /// A machine whose lease may have expired renews it before it gives up its exclusive units.
    EndedLeaseAsked,
    /// A claim whose release failed is kept.
    ReleasedOnce,
    /// A claim or its unit is started under a lease that may have expired.
    ClaimedUnproven,
    /// A released claim counts until the release is seen.
    GivenBackCounts,
    /// A re-created unit with unchanged requirements gets no new reason.
    LostReasonUntold,
    /// A machine that comes and goes loses its units each time.
    NeverTired,
    /// Units that are missing from a reading without an event are stopped, however many they are.
    MassStopBelieved,
    /// A restarted fleetd has nothing to compare its first reading with.
    RestartForgets,
    /// A restarted fleetd does not know which units are withheld from being stopped.
    WithheldForgotten,
    /// A restarted fleetd does not know the claims of its predecessor.
    HeldForgotten,
    /// A claim made under an earlier lease counts as proved by the present one.
    ProvedByAnother,
    /// A leader lease is revoked only once at the end of its term, whether etcd receives the
    /// request or not.
    LetGoOnce,
    /// A leader lease outlasts the lease of its machine.
    LeadsLong,
    /// The goal is saved for a restarted fleetd only now and then.
    KeptLate,
    /// A machine follows its schedule only while a leader exists.
    EngineAwaited,
    /// An unsigned unit runs on a machine that requires signatures.
    UnsignedRuns,
    /// A signature older than one already seen is accepted.
    OldSignatureRuns,
    /// Seen signatures are forgotten at a restart.
    SerialsForgotten,
}

/// All mutants.
#[cfg(feature = "sim")]
pub const ALL: &[Mutant] = &[
    Mutant::UnfencedWrite,
    Mutant::EpochKept,
    Mutant::UnitNotCompared,
    Mutant::MachineNotCompared,
    Mutant::CauseNotCompared,
    Mutant::ScheduleLeft,
    Mutant::DestroyLeaves,
    Mutant::WhyLeft,
    Mutant::WhyUntold,
    Mutant::TwinLetIn,
    Mutant::HeirImpatient,
    Mutant::HeirClaims,
    Mutant::RenewalBeforeKey,
    Mutant::ClaimStolen,
    Mutant::ClaimNotAwaited,
    Mutant::ReleasedWhileUp,
    Mutant::GivenBackUntold,
    Mutant::NeverGivesUp,
    Mutant::QuorumLossIsCutOff,
    Mutant::LeaseUnwon,
    Mutant::LeaderlessForLong,
    Mutant::CountsUrls,
    Mutant::RingLetIn,
    Mutant::FaultIsEmpty,
    Mutant::RepeatsCount,
    Mutant::CompactionIgnored,
    Mutant::SilenceBelieved,
    Mutant::OneSidedConflict,
    Mutant::AnyMetadata,
    Mutant::DrainIgnored,
    Mutant::EvensOut,
    Mutant::FollowersApart,
    Mutant::GoneKeeps,
    Mutant::NoGrace,
    Mutant::GoesOnAfterLoss,
    Mutant::LossForgotten,
    Mutant::StateNotCompared,
    Mutant::StateLeft,
    Mutant::MetadataNotCompared,
    Mutant::GlobalEverywhere,
    Mutant::NewcomerEvicts,
    Mutant::HashIgnored,
    Mutant::ActsOutside,
    Mutant::LoadedIsLaunched,
    Mutant::AnsweredUnseen,
    Mutant::LooksOnce,
    Mutant::ForeignBelieved,
    Mutant::NowhereIsStopped,
    Mutant::StrayLeft,
    Mutant::ReasonsGrowOld,
    Mutant::AwayIsUnknown,
    Mutant::ReasonBySnapshot,
    Mutant::GivenUpForGood,
    Mutant::StaleSnapshotAnswers,
    Mutant::SpinsOnDeadline,
    Mutant::DeafForEver,
    Mutant::GoneIsDone,
    Mutant::RenewalNotAwaited,
    Mutant::EndedLeaseAsked,
    Mutant::ReleasedOnce,
    Mutant::ClaimedUnproven,
    Mutant::GivenBackCounts,
    Mutant::LostReasonUntold,
    Mutant::NeverTired,
    Mutant::MassStopBelieved,
    Mutant::RestartForgets,
    Mutant::WithheldForgotten,
    Mutant::HeldForgotten,
    Mutant::ProvedByAnother,
    Mutant::LetGoOnce,
    Mutant::LeadsLong,
    Mutant::KeptLate,
    Mutant::EngineAwaited,
    Mutant::UnsignedRuns,
    Mutant::OldSignatureRuns,
    Mutant::SerialsForgotten,
];

/// Number of schedules that find most mutants, from any first seed.
#[cfg(feature = "sim")]
const TRIES: u64 = 400;

/// Mutants that need more schedules. Each limit is about ten times the number of schedules that one
/// search needed, or that several searches needed on average.
#[cfg(feature = "sim")]
const RARER: &[(Mutant, u64)] = &[
    (Mutant::EpochKept, 4_000),
    (Mutant::CauseNotCompared, 2_000),
    (Mutant::StrayLeft, 3_000),
    (Mutant::AwayIsUnknown, 2_500),
    (Mutant::ClaimStolen, 2_000),
    (Mutant::ClaimNotAwaited, 2_000),
    (Mutant::ReleasedWhileUp, 2_000),
    (Mutant::GivenBackUntold, 6_000),
    (Mutant::NeverGivesUp, 3_000),
    (Mutant::QuorumLossIsCutOff, 3_000),
    (Mutant::LeaseUnwon, 2_000),
    (Mutant::LeaderlessForLong, 4_000),
    (Mutant::RingLetIn, 1_000),
    (Mutant::FollowersApart, 1_000),
    (Mutant::GoesOnAfterLoss, 2_500),
    (Mutant::CountsUrls, 5_000),
    (Mutant::CompactionIgnored, 2_000),
    (Mutant::GivenUpForGood, 2_000),
    (Mutant::LostReasonUntold, 1_000),
    (Mutant::SpinsOnDeadline, 1_000),
    (Mutant::RenewalNotAwaited, 3_000),
    (Mutant::EndedLeaseAsked, 4_500),
    (Mutant::ReleasedOnce, 4_000),
    (Mutant::ClaimedUnproven, 60_000),
    (Mutant::GivenBackCounts, 8_000),
    (Mutant::RenewalBeforeKey, 60_000),
    (Mutant::RestartForgets, 1_000),
    (Mutant::HeldForgotten, 3_000),
    (Mutant::WithheldForgotten, 4_000),
    (Mutant::ProvedByAnother, 60_000),
    (Mutant::LetGoOnce, 2_000),
    (Mutant::KeptLate, 20_000),
    (Mutant::OldSignatureRuns, 1_000),
    (Mutant::StateNotCompared, 5_000),
    (Mutant::ReasonBySnapshot, 3_000),
];

/// Number of schedules within which the simulation must find the mutant.
#[cfg(feature = "sim")]
pub fn tries(mutant: Mutant) -> u64 {
    RARER.iter().find(|(one, _)| *one == mutant).map_or(TRIES, |(_, tries)| *tries)
}

#[cfg(feature = "sim")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Plants a mutant in this thread, or removes it.
#[cfg(feature = "sim")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

/// Returns true if this thread runs with the mutant.
#[cfg(feature = "sim")]
pub fn planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

/// Always false without the feature `sim`.
#[cfg(not(feature = "sim"))]
pub const fn planted(_: Mutant) -> bool {
    false
}

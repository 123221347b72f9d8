//! Mistakes made on purpose. Each breaks one rule at the place where the rule stands; the
//! simulation must find every one of them, or it proves nothing. Chosen at run time for
//! the thread that simulates, in a build with the feature `sim` only; without it
//! [`planted`] is the constant false.

/// A rule, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// An engine's write does not ask whether it still leads.
    UnfencedWrite,
    /// A write nobody knows of may land after the engine has decided anew.
    EpochKept,
    /// A move does not ask whether the unit is as it was read.
    UnitNotCompared,
    /// A move does not ask whether the machines are as they were read.
    MachineNotCompared,
    /// A move does not ask whether what drives the unit away is there still.
    CauseNotCompared,
    /// A move leaves the unit in the schedule of the machine it comes from.
    ScheduleLeft,
    /// A unit that is destroyed stays in its machine's schedule.
    DestroyLeaves,
    /// The reason why a unit is nowhere outlives its placement.
    WhyLeft,
    /// Nobody is told why a unit is nowhere.
    WhyUntold,
    /// A second machine with the same id takes the key over.
    TwinLetIn,
    /// A machine that was booted anew takes the key of a run that shows signs of life.
    HeirImpatient,
    /// A machine that was booted anew takes the claims of its last run, whose lease lives.
    HeirClaims,
    /// A machine that was silent for long shows a sign of life before it has made sure of its key.
    SignBeforeKey,
    /// A claim of another machine does not count.
    ClaimStolen,
    /// An exclusive unit is started before it is claimed.
    ClaimNotAwaited,
    /// A claim is given back while the unit still runs.
    ReleasedWhileUp,
    /// A claim is given back when another file is there that needs none, before init was told of it.
    GivenBackUntold,
    /// A machine that is cut off keeps its exclusive units.
    NeverGivesUp,
    /// That etcd has lost its quorum is taken for being cut off.
    QuorumLossIsCutOff,
    /// Who is not elected asks for a lease to lead by all the same.
    LeaseUnwon,
    /// That etcd has no quorum now is taken for its never having had one.
    LeaderlessForLong,
    /// One member of etcd that is asked at two addresses is taken for two.
    CountsUrls,
    /// Units that are made at the same moment may replace each other in a ring.
    RingLetIn,
    /// A reading that failed is taken for an empty one.
    FaultIsEmpty,
    /// Changes that were seen before count again.
    RepeatsCount,
    /// After a compaction the watch goes on without a reading.
    CompactionIgnored,
    /// A watch that has fallen silent is believed for ever.
    SilenceBelieved,
    /// Conflicts count only for the unit that names them.
    OneSidedConflict,
    /// One key of MachineMetadata is enough.
    AnyMetadata,
    /// A machine that is being drained takes units.
    DrainIgnored,
    /// Units are moved to even out the load.
    EvensOut,
    /// A unit and those that follow it move in separate writes.
    FollowersApart,
    /// A machine that is gone keeps its units.
    GoneKeeps,
    /// The grace is not waited for.
    NoGrace,
    /// What stood on a write that did not land is written nevertheless.
    GoesOnAfterLoss,
    /// A write that did not land is taken for done.
    LossForgotten,
    /// A late report of a state may overwrite a newer one.
    StateNotCompared,
    /// The state of a unit that left the machine stays.
    StateLeft,
    /// Late metadata may overwrite newer.
    MetadataNotCompared,
    /// Global units run on every machine.
    GlobalEverywhere,
    /// Of two global units that conflict the one named first stays, though the other was there before.
    NewcomerEvicts,
    /// A new file of a unit is not taken.
    HashIgnored,
    /// A machine that is not in the cluster acts.
    ActsOutside,
    /// Loaded is launched.
    LoadedIsLaunched,
    /// A write is answered before it can be seen.
    AnsweredUnseen,
    /// init that did not answer is not asked again.
    LooksOnce,
    /// A registry that has lost its memory is believed.
    ForeignBelieved,
    /// A unit that is wished and on no machine is stopped where it runs.
    NowhereIsStopped,
    /// A state that landed unheard of stays.
    StrayLeft,
    /// Why a unit is nowhere is said once.
    ReasonsGrowOld,
    /// A machine that is away is judged by metadata that nobody has heard.
    AwayIsUnknown,
    /// A reason that an older snapshot does not have outlives its unit.
    ReasonByPicture,
    /// An exclusive unit that was given up is not taken up again.
    GivenUpForGood,
    /// That there is nothing to do is said by a snapshot that has fallen behind.
    OldPictureAnswers,
    /// An engine that waits for news spins on a deadline that has passed.
    SpinsOnDeadline,
    /// An engine whose watch has fallen silent keeps it, and hears by its proofs alone.
    DeafForEver,
    /// A wish nobody knows of is taken for done when its unit is gone.
    GoneIsDone,
    /// A machine that goes on after a pause does not wait for its sign of life.
    SignNotAwaited,
    /// A machine that goes on after its lease may have ended asks for it before it gives anything up.
    EndedLeaseAsked,
    /// A claim that could not be given back is kept.
    ReleasedOnce,
    /// A claim is made, or what it is for begun, under a lease that may have ended.
    ClaimedUnproven,
    /// A claim that was given back counts until that is seen.
    GivenBackCounts,
    /// A unit made anew that asks for the same gets no new reason.
    LostReasonUntold,
    /// A machine that comes and goes loses its units each time.
    NeverTired,
    /// A reading that has nothing of many units, nor says why, stops them.
    MassStopBelieved,
    /// A fleetd begun anew has nothing to compare its first reading with.
    BegunAnewForgets,
    /// A fleetd begun anew does not know what goes on here without a word of etcd.
    WithheldForgotten,
    /// A fleetd begun anew does not know what the one before it had claimed.
    HeldForgotten,
    /// A claim made under an earlier lease counts as proved with the present one.
    ProvedByAnother,
    /// A lease to lead by is let go once, when its term is over, whether etcd hears it or not.
    LetGoOnce,
    /// A leader's lease is longer than the lease of its machine.
    LeadsLong,
    /// What is to run is kept for a fleetd begun anew now and then alone.
    KeptLate,
    /// A machine does what it is told only while somebody leads.
    EngineAwaited,
    /// What nobody has signed is run where it is to be signed.
    UnsignedRuns,
    /// A signature older than one that was seen is taken.
    OldSignatureRuns,
    /// Which signatures were seen is not kept over a restart.
    SerialsForgotten,
}

/// All of them, each with what it breaks.
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
    Mutant::SignBeforeKey,
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
    Mutant::ReasonByPicture,
    Mutant::GivenUpForGood,
    Mutant::OldPictureAnswers,
    Mutant::SpinsOnDeadline,
    Mutant::DeafForEver,
    Mutant::GoneIsDone,
    Mutant::SignNotAwaited,
    Mutant::EndedLeaseAsked,
    Mutant::ReleasedOnce,
    Mutant::ClaimedUnproven,
    Mutant::GivenBackCounts,
    Mutant::LostReasonUntold,
    Mutant::NeverTired,
    Mutant::MassStopBelieved,
    Mutant::BegunAnewForgets,
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

/// Found within so many schedules, from whichever seed on.
#[cfg(feature = "sim")]
const TRIES: u64 = 400;

/// Those that stand at rarer edges: about ten times as many as it took when it was measured, or as it
/// takes on average where that is known.
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
    (Mutant::SignNotAwaited, 3_000),
    (Mutant::EndedLeaseAsked, 4_500),
    (Mutant::ReleasedOnce, 4_000),
    (Mutant::ClaimedUnproven, 60_000),
    (Mutant::GivenBackCounts, 8_000),
    (Mutant::SignBeforeKey, 60_000),
    (Mutant::BegunAnewForgets, 1_000),
    (Mutant::HeldForgotten, 3_000),
    (Mutant::WithheldForgotten, 4_000),
    (Mutant::ProvedByAnother, 60_000),
    (Mutant::LetGoOnce, 2_000),
    (Mutant::KeptLate, 20_000),
    (Mutant::OldSignatureRuns, 1_000),
    (Mutant::StateNotCompared, 5_000),
    (Mutant::ReasonByPicture, 3_000),
];

/// Schedules within which the simulation must find it.
#[cfg(feature = "sim")]
pub fn tries(mutant: Mutant) -> u64 {
    RARER.iter().find(|(one, _)| *one == mutant).map_or(TRIES, |(_, tries)| *tries)
}

#[cfg(feature = "sim")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// This thread runs with that mistake from now on.
#[cfg(feature = "sim")]
pub fn plant(mutant: Option<Mutant>) {
    PLANTED.set(mutant);
}

/// That rule is broken.
#[cfg(feature = "sim")]
pub fn planted(mutant: Mutant) -> bool {
    PLANTED.get() == Some(mutant)
}

/// Never.
#[cfg(not(feature = "sim"))]
pub const fn planted(_: Mutant) -> bool {
    false
}

//! The mutants that each invariant finds without the comparison with the oracle. An invariant that
//! finds none proves nothing (`tests/src/bin/mutants.rs`).

use crate::machine::mutant::Field;
use crate::machine::mutant::Mutant;

/// For each invariant, by its number, a mutant that it must kill without the oracle's comparison.
pub const WITNESSES: &[(&str, Mutant)] = &[
    ("L1", Mutant::GateOpenWhileStopping),
    ("L2", Mutant::ShutdownKeepsGoal),
    ("L3", Mutant::BesideOwnRun),
    ("L4", Mutant::NoStopOrder),
    ("L5", Mutant::OneSlotTooMany),
    ("L6", Mutant::LossNotMarked),
    ("L7", Mutant::RefusalTaken),
    ("L8", Mutant::BackoffForEver),
    ("L9", Mutant::VerdictOutlivesActive),
    ("L10", Mutant::GateOpenWhileStopping),
    ("L11", Mutant::GoalCoincidental),
    ("L12", Mutant::TargetNotHeld),
    ("L13", Mutant::AnyRunWillDo),
    ("L14", Mutant::NoDelay),
    ("L15", Mutant::Moody),
    ("L16", Mutant::RestartLimitIgnored),
    ("L17", Mutant::SuccessFollowed),
    ("L18", Mutant::GoalReplacesAll),
    ("L19", Mutant::ResumeForgetsFailures),
    ("L20", Mutant::RunIdTwice),
    ("L21", Mutant::AskingActs),
    ("L22", Mutant::NotedTwice),
    ("L23", Mutant::ShutdownKeepsGoal),
    ("L24", Mutant::OneTimerATick),
    ("L25", Mutant::RunsForEver),
    ("L26", Mutant::RestartListsIgnored),
    ("L27", Mutant::FailurePullsNothing),
    ("L28", Mutant::ReloadsAlone),
    ("L29", Mutant::ConnectionNeverEnds),
    ("L30", Mutant::NamesApart),
    ("L31", Mutant::SkippedIsStopped),
    ("L32", Mutant::NotedTwice),
    ("L33", Mutant::PromptStopWaits),
    ("L36", Mutant::LeavingForEver),
    ("L37", Mutant::SuccessRemains),
    ("L38", Mutant::CauseTakesHandlerAlong),
    ("L39", Mutant::NotRecorded(Field::Failures)),
];

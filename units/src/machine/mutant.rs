//! Mistakes made on purpose. Each breaks one rule of the law at the place in the
//! machine where the rule stands; the simulator must find every one of them, or it
//! proves nothing (`tests/src/bin/mutants.rs`). Chosen at run time, in a build with
//! the feature `sim` only; without it [`Machine::planted`] is the constant false.

use super::Machine;
#[cfg(feature = "sim")]
pub use super::rule::ALL;

/// A rule, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// §5 may_stop: a provider is told before its dependents are down.
    NoStopOrder,
    /// §5 may_stop: only hard edges order stops.
    SoftStopOrderDropped,
    /// §5 may_stop: the edges a run began with are forgotten.
    OldOrderForgotten,
    /// §5 must_stop: a provider that must stop does not make its dependents stop.
    StopDoesNotSpread,
    /// §5 must_stop: a unit in must_stop is active for gates.
    GateOpenWhileStopping,
    /// §4 lost: a provider that leaves active loses nobody.
    LossNotMarked,
    /// §4 lost: cleared by the next change of goal.
    LossCleared,
    /// §4 lost: a changed provider or an added edge binds whoever it is.
    NewProviderBinds,
    /// §3 depends-ms: a lost provider stops the dependent.
    MilestoneNotLatched,
    /// §3 waits-for: a verdict does not open it while a retry runs.
    VerdictHoldsWaits,
    /// §4 skipped: satisfies depends-on too.
    SkippedSatisfiesHard,
    /// §3 conflicts: holds for the unit that names it alone.
    OneSidedConflict,
    /// §3 conflicts: a start beside a stopping unit.
    ConflictBesideStopping,
    /// §3 restart-with: a provider that is masked or removed restarts nobody.
    RestartWithForgotten,
    /// §3 conflicts: one that the graph has no more is forgotten.
    ConflictForgotten,
    /// §3 conflicts: a wish for both is granted.
    ConflictGranted,
    /// §3 masks: a wish for a masked target is granted.
    MaskedGranted,
    /// §3 restart-with: a stop marks nobody.
    RestartWithIgnored,
    /// §3 restart-with: an exit by itself marks too.
    RestartWithOnExit,
    /// §5 may_start: a target still held does not matter.
    TargetNotHeld,
    /// §4 N: kept by counting who pulls.
    NeedByReferenceCounts,
    /// §4 leaving N: clears nothing.
    LeavingForgivesNothing,
    /// §5 max-starting: off by one.
    OneSlotTooMany,
    /// §5 max-starting: a slot is never given back.
    SlotKept,
    /// §3 virtual: waits for a slot.
    InstantWaitsForSlot,
    /// §5 order of starts: by name, not by chain.
    StartsByNameOnly,
    /// §3 run: a fact of an old run counts for the present one.
    AnyRunWillDo,
    /// §5: READY of a run that was told to stop makes it active.
    ReadyAfterStop,
    /// §6: an exit in must_stop is a failure.
    ExpectedExitCounts,
    /// §6: a start timeout in must_stop is no failure.
    StartTimeoutForgiven,
    /// §6: exit 0 of a supervised unit is a success.
    ExitZeroIsSuccess,
    /// §6: success-status is not asked.
    SuccessStatusIgnored,
    /// §6: restart always does nothing after a success.
    AlwaysIsOnFailure,
    /// §6: restart always after a success is counted.
    AgainIsCounted,
    /// §6: the classes of restart beside on-failure are on-failure.
    ClassesAreOnFailure,
    /// §6: restart-except and restart-also are not asked.
    RestartListsIgnored,
    /// §6: a success is followed by a run whatever restart says.
    EverySuccessRestarts,
    /// §6: run-timeout does nothing.
    RunsForEver,
    /// §6: restart never is retried.
    NeverIsOnFailure,
    /// §6: an exec error is retried.
    ExecErrorRetried,
    /// §6: a start timeout has to be counted up to its verdict.
    StartTimeoutNoVerdict,
    /// §6 verdict: off by one.
    VerdictOneLate,
    /// §4 verdict: stands when the unit is active again.
    VerdictOutlivesActive,
    /// §6: restart-limit is not asked.
    RestartLimitIgnored,
    /// §6 delay: does not double.
    DelayConstant,
    /// §6 delay: off by one.
    DelayOneAhead,
    /// §6 delay: no floor from the 10th failure on.
    NoFloor,
    /// §6 restart-reset: is not asked.
    FailuresNotAnswered,
    /// §6 retry: does not set the count to 0.
    RetryKeepsCount,
    /// §6 stop-timeout: no KILL follows.
    NeverKills,
    /// §6: what outlives KILL is never called unkillable.
    HopesForEver,
    /// §5 may_stop: an unkillable run counts as up.
    ImmortalHoldsUp,
    /// §6: a stop timeout of an unneeded unit is not shown.
    StopTimeoutNotShown,
    /// an extension of a timeout may shorten it.
    ExtensionShortens,
    /// stop-promptly: its stop waits for its dependents all the same.
    PromptStopWaits,
    /// stop-promptly: its stop can be prolonged all the same.
    PromptStopProlonged,
    /// who says that it is ending has for ever.
    LeavingForEver,
    /// a watchdog's ping is not heard.
    PingUnheard,
    /// §6: a reload of its own that times out ends the unit.
    SlowReloadFails,
    /// §8 accept: a connection brings nobody in.
    ConnectionPullsNothing,
    /// §8 accept: a connection outlives the run it is for.
    ConnectionNeverEnds,
    /// §4 degraded: being active does not end the first start.
    FirstStartForEver,
    /// §4 degraded: a first start degrades.
    FirstStartDegrades,
    /// §4 degraded: does not follow depends-ms.
    DegradedIgnoresMilestones,
    /// §4 degraded: does not follow wants.
    DegradedIgnoresWants,
    /// §4 degraded: follows one step only.
    DegradedOneStep,
    /// §4 degraded: a lost milestone does not count.
    LostMilestoneUnseen,
    /// §4 coincidental: a goal is coincidental.
    GoalCoincidental,
    /// §4 system: a masked goal does not count.
    MissingGoalIsWell,
    /// §7 overlay: --for is not looked at.
    WantNeverEnds,
    /// §7 reload: a changed definition replaces no run.
    ReloadReplacesNothing,
    /// §7 reload: replaces runs that did not change.
    ReloadReplacesAll,
    /// §5 shutdown: the goal stays.
    ShutdownKeepsGoal,
    /// §5 shutdown: wishes are granted.
    ShutdownTakesWishes,
    /// §5 shutdown: the deadline kills nothing.
    DeadlineKillsNothing,
    /// §5 shutdown: done while one is left.
    FinishesOneEarly,
    /// requires-active: opens at once.
    RequiresNothing,
    /// on-failure: pulls nothing in.
    FailurePullsNothing,
    /// on-failure: its target stays when the unit is active again.
    AlarmLingers,
    /// on-success: skipped counts.
    SkippedIsSuccess,
    /// reload-with: a reload is the unit's own.
    ReloadsAlone,
    /// reload-with: follows one step only.
    ReloadsOneStep,
    /// §8: a firing pulls nothing in.
    FiringPullsNothing,
    /// §8: a firing on an up unit restarts it.
    FiringRestarts,
    /// §8: a trigger that is not active fires.
    SleepingTriggerFires,
    /// §8: a success does not end the activation.
    ActivationNeverEnds,
    /// §5 may_start: a start beside what can not be killed of an earlier run.
    BesideOwnRun,
    /// §7: a want that is refused stays in the overlay.
    RefusalTaken,
    /// §5: the order of starts follows something outside the machine.
    Moody,
    /// §6: a oneshot that succeeded is run again.
    SuccessFollowed,
    /// §5: a new goal replaces the runs that both goals need.
    GoalReplacesAll,
    /// §3 run: an id is given twice.
    RunIdTwice,
    /// §1 plan: what is only asked is carried out.
    AskingActs,
    /// a change of state is told twice.
    NotedTwice,
    /// of several timers due one fires.
    OneTimerATick,
    /// §6 delay: the next try comes at once.
    NoDelay,
    /// §6 delay: the next try never comes.
    BackoffForEver,
    /// §10: a crash and resume forgets how often units have failed.
    ResumeForgetsFailures,
    /// §10: runs that were begun before a crash get other numbers after it.
    RunsGetOtherNumbers,
    /// §10: of the runs of a unit that were begun before a crash only the last is known after it.
    OneRunBegunBefore,
    /// §10: what lives when the machine is lost begins when its gates are open.
    WhatLivesWaits,
    /// §10: what lives when the machine is lost is needed by what the boot needs alone.
    WhatLivesIsUnwanted,
    /// §10: what lives and has no file when the machine is lost is not known when that is back.
    WhatIsAwayIsForgotten,
    /// §10: what was being stopped when the machine was lost goes on running.
    WhatEndsGoesOn,
    /// §10: what was being stopped when the machine was lost is wished for.
    WhatEndsIsWanted,
    /// §10: what was being stopped when the machine was lost is heard of once more by those that restart with it.
    WhatEndsIsHeardTwice,
    /// §10: what was to be stopped when the machine was lost, and was not told yet, is not stopped for that.
    WhatIsDueGoesOn,
    /// §10: what was to be stopped when the machine was lost, and was not told yet, is wished for.
    WhatIsDueIsWanted,
    /// §10: those that restart with what was to be stopped when the machine was lost do not hear of it.
    WhatIsDueIsHeardByNobody,
    /// §10: what is to be stopped when the machine was lost is told before those it waits for have begun.
    WhatIsDueWaitsForNobody,
    /// §10: what was to be stopped then is wished for when what could have needed it is known.
    WhatIsSparedIsWantedForEver,
    /// §10: a script that was done, and to be stopped when the machine was lost, is forgotten.
    WhatIsDoneIsNotUndone,
    /// §10: the goal and the overlay of a machine that is lost are forgotten.
    WishForgotten,
    /// §10: a machine that is lost at its end begins what it has stopped.
    EndBegins,
    /// §10: the emergency target takes the place of a dead goal beside what lives, too.
    DeadGoalEndsWhatLives,
    /// §3 masks: of a unit that is one thing each name has to be masked by itself.
    NamesApart,
    /// imported wishes: what pulls a unit in waits for it too.
    PullWaits,
    /// imported wishes: what is installed into a unit is not pulled in by it.
    PullForgotten,
    /// §6 stopping: a skipped run is told to do its exec-stop.
    SkippedIsStopped,
    /// a deadline beyond half of what the clock can count never comes.
    DeadlineSigned,
}

impl Machine {
    /// This rule is broken.
    #[cfg(feature = "sim")]
    pub(super) fn planted(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// No rule is broken.
    #[cfg(not(feature = "sim"))]
    pub(super) const fn planted(&self, _: Mutant) -> bool {
        false
    }

    /// Breaks a rule.
    #[cfg(feature = "sim")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }
}

/// Something outside the machine, for [`Mutant::Moody`].
#[cfg(feature = "sim")]
pub(super) fn mood() -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MOOD: AtomicU64 = AtomicU64::new(0);
    MOOD.fetch_add(1, Ordering::Relaxed).is_multiple_of(5)
}

/// There is none.
#[cfg(not(feature = "sim"))]
pub(super) const fn mood() -> bool {
    false
}

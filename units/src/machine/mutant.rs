//! Mutants: planted bugs. Each breaks one rule at the place in the machine that implements it. The
//! simulator must find every one of them, or it proves nothing (`tests/src/bin/mutants.rs`). A
//! mutant is chosen at run time, in builds with the feature `sim` only; otherwise
//! [`Machine::planted`] is always false.

use super::Machine;

/// Declares the mutants, and the fields of records for [`Mutant::NotRecorded`]. The comment of a
/// mutant names the part of the rules, and then the bug.
macro_rules! mutants {
    (
        mutants { $($(#[doc = $bug:literal])+ $mutant:ident,)+ }
        fields { $($(#[$doc:meta])+ $field:ident,)+ }
    ) => {
        /// A planted bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $bug])+ $mutant,)+
            /// records: this field is left out.
            NotRecorded(Field),
        }

        /// A field of a record, for the mutants that leave it out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Field { $($(#[$doc])+ $field,)+ }

        /// Every mutant with its comment.
        #[cfg(feature = "sim")]
        pub const ALL: &[(Mutant, &str)] = &[
            $((Mutant::$mutant, concat!($($bug),+)),)+
            $((Mutant::NotRecorded(Field::$field), " records: this field is left out."),)+
        ];
    };
}

mutants! {
    mutants {
        /// may_stop: a provider is told to stop before its dependents are down.
        NoStopOrder,
        /// may_stop: only hard edges order stops.
        SoftStopOrderDropped,
        /// may_stop: the edges with which a run started are forgotten.
        OldOrderForgotten,
        /// must_stop: a provider that must stop does not make its dependents stop.
        StopDoesNotSpread,
        /// must_stop: a unit in must_stop is active for gates.
        GateOpenWhileStopping,
        /// lost: a provider that leaves the active state affects no dependent.
        LossNotMarked,
        /// lost: cleared by the next change of goal.
        LossCleared,
        /// lost: a changed provider or an added edge never makes a run lose its target.
        NewProviderBinds,
        /// depends-ms: a lost provider stops the dependent.
        MilestoneNotLatched,
        /// waits-for: a verdict does not open it while a retry runs.
        VerdictHoldsWaits,
        /// skipped: satisfies depends-on too.
        SkippedSatisfiesHard,
        /// conflicts: applies only to the unit that names it.
        OneSidedConflict,
        /// conflicts: a unit starts while the conflicting one is stopping.
        ConflictBesideStopping,
        /// restart-with: a masked or removed provider restarts no unit.
        RestartWithForgotten,
        /// conflicts: a conflict that left the graph is forgotten.
        ConflictForgotten,
        /// conflicts: a wish for both is granted.
        ConflictGranted,
        /// masks: a wish for a masked target is granted.
        MaskedGranted,
        /// reload: a broken unit that takes connections of a needed socket is granted.
        PlacesUnchecked,
        /// restart-with: a stop marks no unit.
        RestartWithIgnored,
        /// restart-with: an exit by itself marks too.
        RestartWithOnExit,
        /// may_start: a held target does not delay its next provider.
        TargetNotHeld,
        /// N: kept up to date by counting the units that pull.
        NeedByReferenceCounts,
        /// leaving N: clears nothing.
        LeavingForgivesNothing,
        /// max-starting: off by one.
        OneSlotTooMany,
        /// max-starting: a slot is never given back.
        SlotKept,
        /// virtual: waits for a slot.
        InstantWaitsForSlot,
        /// order of starts: by name, not by chain.
        StartsByNameOnly,
        /// run: a fact of an old run counts for the present one.
        AnyRunWillDo,
        /// READY of a run that was told to stop makes it active.
        ReadyAfterStop,
        /// an exit in must_stop is a failure.
        ExpectedExitCounts,
        /// a start timeout in must_stop is no failure.
        StartTimeoutForgiven,
        /// exit 0 of a supervised unit is a success.
        ExitZeroIsSuccess,
        /// success-status is ignored.
        SuccessStatusIgnored,
        /// restart always does nothing after a success.
        AlwaysIsOnFailure,
        /// restart always after a success is counted.
        AgainIsCounted,
        /// the classes of restart beside on-failure are on-failure.
        ClassesAreOnFailure,
        /// restart-except and restart-also are ignored.
        RestartListsIgnored,
        /// a success is followed by a run whatever `restart` says.
        EverySuccessRestarts,
        /// run-timeout does nothing.
        RunsForEver,
        /// restart never is retried.
        NeverIsOnFailure,
        /// an exec error is retried.
        ExecErrorRetried,
        /// verdict: a start timeout gives it no earlier than any other failure.
        StartTimeoutNoVerdict,
        /// verdict: off by one.
        VerdictOneLate,
        /// verdict: remains when the unit is active again.
        VerdictOutlivesActive,
        /// restart-limit is ignored.
        RestartLimitIgnored,
        /// on-failure: a unit that it pulled in is stopped with its cause before its run has ended.
        CauseTakesHandlerAlong,
        /// on-failure: a unit that it pulled in stays needed after its run has ended.
        HandlerForEver,
        /// on-failure: a daemon that it pulled in outlives its cause.
        DaemonOutlivesCause,
        /// on-failure: a unit that it pulled in outlives a new goal.
        GoalKeepsHandlers,
        /// delay: it grows for a timer's firing of a failed unit, too.
        TimerBacksOff,
        /// delay: does not double.
        DelayConstant,
        /// delay: off by one.
        DelayOneAhead,
        /// delay: no floor from the 10th failure on.
        NoFloor,
        /// restart-reset: is ignored.
        RestartResetIgnored,
        /// retry: does not set the count to 0.
        RetryKeepsCount,
        /// stop-timeout: no KILL follows.
        NeverKills,
        /// a run that survives SIGKILL is never unkillable.
        HopesForEver,
        /// may_stop: an unkillable run counts as up.
        ImmortalHoldsUp,
        /// a stop timeout of an unneeded unit is not shown.
        StopTimeoutNotShown,
        /// an extension of a timeout may shorten it.
        ExtensionShortens,
        /// stop-promptly: the stop waits for dependents nevertheless.
        PromptStopWaits,
        /// stop-promptly: the stop can be prolonged nevertheless.
        PromptStopProlonged,
        /// STOPPING=1: the run has no deadline.
        LeavingForEver,
        /// a watchdog ping is ignored.
        PingUnheard,
        /// reloading: a reload that times out fails the run.
        SlowReloadFails,
        /// accept: a connection makes no unit needed.
        ConnectionPullsNothing,
        /// accept: a connection stays after its run has ended.
        ConnectionNeverEnds,
        /// degraded: being active does not end the first start.
        FirstStartForEver,
        /// degraded: a first start degrades.
        FirstStartDegrades,
        /// degraded: does not follow depends-ms.
        DegradedIgnoresMilestones,
        /// degraded: does not follow wants.
        DegradedIgnoresWants,
        /// degraded: follows one step only.
        DegradedOneStep,
        /// degraded: a lost milestone does not count.
        LostMilestoneUnseen,
        /// coincidental: a goal is coincidental.
        GoalCoincidental,
        /// system: a masked goal does not count.
        MissingGoalIsWell,
        /// overlay: --for is ignored.
        WantNeverEnds,
        /// reload: a changed definition replaces no run.
        ReloadReplacesNothing,
        /// reload: replaces runs that did not change.
        ReloadReplacesAll,
        /// shutdown: the goal stays.
        ShutdownKeepsGoal,
        /// shutdown: wishes are granted.
        ShutdownTakesWishes,
        /// shutdown: the deadline kills nothing.
        DeadlineKillsNothing,
        /// shutdown: finishes while one run is left.
        FinishesOneEarly,
        /// requires-active: opens at once.
        RequiresNothing,
        /// on-failure: pulls nothing in.
        FailurePullsNothing,
        /// on-failure: its target stays when the unit is active again.
        AlarmLingers,
        /// on-success: skipped counts.
        SkippedIsSuccess,
        /// reload-with: a reload reloads no other unit.
        ReloadsAlone,
        /// reload-with: follows one step only.
        ReloadsOneStep,
        /// a firing makes no unit needed.
        FiringPullsNothing,
        /// a firing on an up unit restarts it.
        FiringRestarts,
        /// a trigger that is not active fires.
        SleepingTriggerFires,
        /// a success does not end the activation.
        ActivationNeverEnds,
        /// may_start: a unit starts beside an unkillable earlier run.
        BesideOwnRun,
        /// a want that is refused stays in the overlay.
        RefusalTaken,
        /// the order of starts follows something outside the machine.
        Moody,
        /// a oneshot that succeeded is run again.
        SuccessFollowed,
        /// a new goal replaces the runs that both goals need.
        GoalReplacesAll,
        /// run: an id is used twice.
        RunIdTwice,
        /// plan: a wish that is only planned is carried out.
        AskingActs,
        /// a change of state is noted twice.
        NotedTwice,
        /// only one of several due timers fires.
        OneTimerATick,
        /// delay: the next try comes at once.
        NoDelay,
        /// delay: the next try never comes.
        BackoffForEver,
        /// a crash and resume forgets how often units have failed.
        ResumeForgetsFailures,
        /// masks: each name of a unit with several names of one thing must be masked separately.
        NamesApart,
        /// imported wishes: a unit that pulls another in waits for it too.
        PullWaits,
        /// imported wishes: a unit does not pull in those installed into it.
        PullForgotten,
        /// stopping: a skipped run is told to run its exec-stop.
        SkippedIsStopped,
        /// remain: a run that has succeeded stays active whatever the unit says.
        SuccessRemains,
        /// remain: a run that is over satisfies depends-on, so its dependents keep running.
        OverSatisfiesHard,
        /// remain: a run that is over is stopped again.
        OverIsStopped,
        /// on-failure: its target runs once, however often the unit has a final failure.
        OneAlarmForAll,
        /// a deadline beyond half of the clock's range never comes.
        DeadlineSigned,
        /// records: one changed unit is not written again.
        ChangeNotListed,
    }
    fields {
        /// [`super::record::MachineRecord::policy`].
        Policy,
        /// [`super::record::MachineRecord::wish`].
        Wish,
        /// [`super::record::MachineRecord::booted`].
        Booted,
        /// [`super::record::MachineRecord::shutdown_deadline`].
        ShutdownDeadline,
        /// [`super::record::MachineRecord::ending`].
        Ending,
        /// [`super::record::MachineRecord::next_run`].
        NextRun,
        /// [`super::record::UnitRecord::phase`].
        Phase,
        /// [`super::record::UnitRecord::definition`].
        Definition,
        /// [`super::record::UnitRecord::failures`].
        Failures,
        /// [`super::record::UnitRecord::recent`].
        Recent,
        /// [`super::record::UnitRecord::verdict`].
        Verdict,
        /// [`super::record::UnitRecord::last`].
        Last,
        /// [`super::record::UnitRecord::connection_lost`].
        ConnectionLost,
        /// [`super::record::UnitRecord::ended`].
        Ended,
        /// [`super::record::UnitRecord::untried`].
        Untried,
        /// [`super::record::UnitRecord::triggered`].
        Triggered,
        /// [`super::record::UnitRecord::brought`].
        Brought,
        /// [`super::record::UnitRecord::needed`].
        Needed,
        /// [`super::record::UnitRecord::shown`].
        Shown,
        /// [`super::record::UnitRecord::since`].
        Since,
    }
}

impl Machine {
    /// Returns true if this bug is planted.
    #[cfg(feature = "sim")]
    pub(super) fn planted(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns false: no bug is planted in this build.
    #[cfg(not(feature = "sim"))]
    pub(super) const fn planted(&self, _: Mutant) -> bool {
        false
    }

    /// Plants a bug.
    #[cfg(feature = "sim")]
    pub fn plant(&mut self, mutant: Mutant) {
        self.mutant = Some(mutant);
    }
}

/// State outside the machine, for [`Mutant::Moody`].
#[cfg(feature = "sim")]
pub(super) fn mood() -> bool {
    use std::sync::atomic::{AtomicU64, Ordering};
    static MOOD: AtomicU64 = AtomicU64::new(0);
    MOOD.fetch_add(1, Ordering::Relaxed).is_multiple_of(5)
}

/// Returns false: builds without the simulator have no such state.
#[cfg(not(feature = "sim"))]
pub(super) const fn mood() -> bool {
    false
}

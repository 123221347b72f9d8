//! Commits: writes the changes since the last commit to the state store.

use crate::base::clock;
use crate::event_loop::Init;
use crate::restore::records::{Head, Pending};
use crate::state::kind::Kind;
use crate::state::store as records;
use crate::state::table::Watched;
use crate::sys::{inbox, launch, wait};
use groundstate_units::machine::record::Changes;
use serde::Serialize;
use std::borrow::Cow;
use std::io::Write;
use std::os::fd::AsRawFd;

impl Init {
    /// Stages the changes since the last commit. Returns false if a record cannot be written.
    pub(crate) fn stage(&mut self, store: &mut records::Store) -> bool {
        let Some(head) = self.head() else { return false };
        let mut whole = store.put(&Kind::Head.key(), &head) && self.stage_machine(store);
        let pending = Pending {
            facts: &self.facts,
            effects: &self.effects,
            reaped: &self.reaped,
            inputs: inbox::last(),
            wakeups: self.wakeups,
            kept: clock::ticks(),
        };
        whole &= store.put(&Kind::Pending.key(), &pending);
        whole &= store.put_table(Kind::Order, self.orders.table());
        whole &= self.stage_children(store) && self.stage_runs(store);
        let tracker = self.tracker.unmarked();
        whole &= store.put_table(Kind::Tracked, &mut tracker.runs);
        whole &= store.put_table(Kind::ProcessTree, &mut tracker.families);
        whole &= store.put_watched(Kind::Tracker, &mut self.tracker);
        if let Some(logger) = &mut self.logger {
            whole &= store.put_table(Kind::Log, &mut logger.unmarked().runs);
        }
        whole &= stage_part(store, Kind::Logger, &mut self.logger);
        let Some(ground) = self.spawner.keep() else { return false };
        whole &= store.put(&Kind::Ground.key(), &ground);
        let history = self.history.unmarked();
        whole &= store.put_table(Kind::Event, &mut history.kept);
        whole &= store.put_table(Kind::LastEvent, &mut history.of_run);
        whole &= store.put_watched(Kind::History, &mut self.history);
        whole &= store.put_table(Kind::Start, &mut self.timings.of);
        whole &= store.put_table(Kind::FirstStart, &mut self.timings.first);
        whole &= store.put_table(Kind::Restarts, &mut self.timings.restarts);
        whole &= stage_part(store, Kind::Control, &mut self.control);
        whole &= stage_part(store, Kind::Notify, &mut self.notify);
        whole
            && store.put_watched(Kind::Store, &mut self.runs.store)
            && store.put_watched(Kind::Loader, &mut self.loader)
            && store.put_watched(Kind::Triggers, &mut self.triggers)
            && store.put_watched(Kind::Ending, &mut self.ending)
            && store.put_watched(Kind::Looks, &mut self.runs.looks)
            && store.put_watched(Kind::Suspects, &mut self.suspects)
    }

    fn stage_children(&self, store: &mut records::Store) -> bool {
        let mut whole = true;
        for (pid, is_there) in wait::take_made_changes() {
            let key = Kind::Child.key_of(&pid);
            match is_there {
                true => whole &= store.put(&key, &()),
                false => store.remove(&key),
            }
        }
        whole
    }

    /// Stages each definition once, so that a later change of the run writes only a small record.
    fn stage_runs(&mut self, store: &mut records::Store) -> bool {
        let runs = self.runs.table();
        let mut whole = true;
        for run in runs.changes() {
            let key = Kind::Definition.key_of(run);
            match runs.get(run) {
                Some(running) => whole &= store.put_once(&key, &running.definition),
                None => store.remove(&key),
            }
        }
        whole & store.put_table(Kind::Run, runs)
    }

    fn stage_machine(&mut self, store: &mut records::Store) -> bool {
        let mut whole = store.put(&Kind::Machine.key(), &self.machine.machine_record());
        let key = |place: u32| [&Kind::Unit.key()[..], &place.to_be_bytes()].concat();
        let count = self.machine.record_count();
        let changed = match self.machine.take_changes() {
            Changes::Units(changed) => changed,
            Changes::All => {
                store.retain(|key| match key.split_first() {
                    Some((kind, place)) if *kind == Kind::Unit as u8 => {
                        place.try_into().is_ok_and(|place| u32::from_be_bytes(place) < count)
                    }
                    // A newer init wrote the others, and the next one would read them.
                    Some((kind, _)) => *kind <= Kind::LAST,
                    None => false,
                });
                (0..count).collect()
            }
        };
        for place in changed.into_iter().filter(|place| *place < count) {
            whole &= store.put(&key(place), &self.machine.unit_record(place));
        }
        whole
    }

    fn head(&mut self) -> Option<Head<'_>> {
        let number = self.machine.generation().number;
        if !self.loader.origin.has(number) && !self.loader.origin.keeps(number) {
            return None;
        }
        let record = self.record.as_mut().and_then(|record| {
            record.flush().ok()?;
            Some(record.get_ref().as_raw_fd())
        });
        let generation = self.machine.generation();
        let (shell, shell_again) = self.shell.parts();
        Some(Head {
            generation: generation.number,
            exit_with: Cow::Borrowed(&generation.settings.exit_with),
            policy: Cow::Borrowed(&generation.policy),
            booted: self.booted,
            on_the_wall: Cow::Borrowed(&self.on_the_wall),
            tokens: self.tokens,
            reports: Cow::Borrowed(&self.reports),
            own_limits: Cow::Borrowed(&self.own_limits),
            log_is_finished: self.log_is_finished,
            log_files_open: self.log_files_open,
            record,
            idle: Cow::Borrowed(&self.idle),
            helper_outputs: self.helper_outputs,
            unheard: self.dropped.messages_refused,
            said: self.said,
            shell,
            shell_again,
            kernel_target: Cow::Borrowed(&self.kernel_target),
            crashes: self.images.crashes,
            resumed: self.images.resumed,
            upgraded: self.images.upgraded,
            no_joining: launch::die_at_birth(),
        })
    }
}

/// Stages a component that may be missing. Returns false as in [`records::Store::put`].
fn stage_part<T: Serialize>(
    store: &mut records::Store,
    kind: Kind,
    part: &mut Option<Watched<T>>,
) -> bool {
    match part {
        Some(part) => store.put_watched(kind, part),
        None => {
            store.remove(&kind.key());
            true
        }
    }
}

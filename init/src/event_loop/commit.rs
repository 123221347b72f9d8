//! Commits: writes the changes since the last commit to the state store.

use crate::base::clock;
#[cfg(debug_assertions)]
use crate::base::crash_test;
use crate::event_loop::Init;
use crate::restore::records::Head;
use crate::state::kind::Kind;
use crate::state::store as records;
use crate::state::table::Watched;
use crate::sys::{inbox, launch, wait};
use groundstate_units::machine::event::RunId;
use groundstate_units::machine::record::{Changes, MachineRecord};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::fd::AsRawFd;

/// Records that change rarely, as the last commit has them. Comparing costs less than encoding.
#[derive(Default)]
pub(crate) struct Written {
    head: Option<Head<'static>>,
    machine: Option<MachineRecord<'static>>,
}

impl Init {
    /// Stages the changes since the last commit. Returns `None` if a part of the state is missing.
    pub(crate) fn stage(&mut self, store: &mut records::Store) -> Option<()> {
        self.stage_head(store)?;
        let has_new_generation = self.stage_machine(store);
        (self.pending.inputs, self.pending.kept) = (inbox::last(), clock::ticks());
        self.pending.orders_done = self.orders.done();
        store.put(&Kind::Pending.key(), &self.pending);
        store.put_table(Kind::Order, self.orders.table());
        for (pid, is_there) in wait::take_made_changes() {
            let key = Kind::Child.key_of(&pid);
            if is_there { store.put(&key, &()) } else { store.remove(&key) }
        }
        self.stage_runs(store, has_new_generation);
        let tracker = self.tracker.unmarked();
        store.put_table(Kind::Tracked, &mut tracker.runs);
        store.put_table(Kind::ProcessTree, &mut tracker.families);
        store.put_watched(Kind::Tracker, &mut self.tracker);
        store.put_table(Kind::Log, &mut self.logger.unmarked().runs);
        store.put_watched(Kind::Logger, &mut self.logger);
        let child_memory = self.spawner.kept()?;
        store.put(&Kind::ChildMemory.key(), &child_memory);
        store.put_table(Kind::Event, self.history.table());
        store.put_table(Kind::Start, &mut self.timings.of);
        store.put_table(Kind::FirstStart, &mut self.timings.first);
        store.put_table(Kind::Restarts, &mut self.timings.restarts);
        stage_part(store, Kind::Control, &mut self.control);
        stage_part(store, Kind::Notify, &mut self.notify);
        store.put_watched(Kind::Store, &mut self.runs.store);
        store.put_watched(Kind::Loader, &mut self.loader);
        store.put_watched(Kind::Triggers, &mut self.triggers);
        store.put_watched(Kind::Ending, &mut self.ending);
        store.put_watched(Kind::Looks, &mut self.runs.looks);
        store.put_watched(Kind::Suspects, &mut self.suspects);
        Some(())
    }

    /// Forgets the changes of the machine and of tables: the store has them, or there is no store.
    pub(crate) fn forget_changes(&mut self) {
        self.machine.take_changes();
        self.orders.table().take_changes();
        self.runs.table().take_changes();
        let tracker = self.tracker.unmarked();
        tracker.runs.take_changes();
        tracker.families.take_changes();
        self.logger.unmarked().runs.take_changes();
        self.history.table().take_changes();
        self.timings.of.take_changes();
        self.timings.first.take_changes();
        self.timings.restarts.take_changes();
    }

    /// Stages the runs. The constants of a run are written at its start, and at a new generation,
    /// which may have another definition.
    fn stage_runs(&mut self, store: &mut records::Store, has_new_generation: bool) {
        let runs = self.runs.table();
        let changed: BTreeSet<RunId> = match has_new_generation {
            true => runs.keys().chain(runs.changes()).copied().collect(),
            false => runs.changes().copied().collect(),
        };
        let generation = self.machine.generation();
        for run in changed {
            let key = Kind::Constants.key_of(&run);
            match runs.get(&run) {
                Some(running) if has_new_generation || !store.has_key(&key) => {
                    let unit = generation.find_unit(running.name.as_str());
                    let own = unit.and_then(|unit| generation.unit(unit)).map(|unit| &unit.run);
                    store.put(&key, &running.constants(own));
                }
                Some(_) => {}
                None => store.remove(&key),
            }
        }
        store.put_table(Kind::Run, runs);
    }

    /// Stages the machine. Returns true if the generation may be a new one.
    fn stage_machine(&mut self, store: &mut records::Store) -> bool {
        let record = self.machine.machine_record();
        let written = &mut self.written.machine;
        if written.as_ref() != Some(&record) {
            store.put(&Kind::Machine.key(), &record);
            *written = Some(record.into_owned());
        }
        let key = |place: u32| [&Kind::Unit.key()[..], &place.to_be_bytes()].concat();
        let count = self.machine.record_count();
        let changes = self.machine.take_changes();
        let has_new_generation = changes == Changes::All;
        let changed = match changes {
            #[cfg(debug_assertions)]
            Changes::Units(changed) if crash_test::makes("record-not-written") => {
                changed.into_iter().skip(1).collect()
            }
            Changes::Units(changed) => changed,
            Changes::All => {
                store.retain(|key| match key.split_first() {
                    Some((kind, place)) if *kind == Kind::Unit as u8 => {
                        place.try_into().is_ok_and(|place| u32::from_be_bytes(place) < count)
                    }
                    Some((kind, _)) => Kind::is_in_use(*kind),
                    None => false,
                });
                (0..count).collect()
            }
        };
        let records = &mut self.images.commits.unit_records;
        *records = records.saturating_add(u64::try_from(changed.len()).unwrap_or(0));
        for place in changed.into_iter().filter(|place| *place < count) {
            store.put(&key(place), &self.machine.unit_record(place));
        }
        has_new_generation
    }

    fn stage_head(&mut self, store: &mut records::Store) -> Option<()> {
        let number = self.machine.generation().number;
        if !self.loader.origin.is_installed(number) && !self.loader.origin.install(number) {
            return None;
        }
        let record = self.record.as_mut().and_then(|record| {
            record.flush().ok()?;
            Some(record.get_ref().as_raw_fd())
        });
        let generation = self.machine.generation();
        let head = Head {
            generation: generation.number,
            exit_with: Cow::Borrowed(&generation.settings.exit_with),
            policy: Cow::Borrowed(&generation.policy),
            basics: Cow::Borrowed(&self.basics),
            record,
            no_joining: launch::clones_into_no_cgroup(),
        };
        let written = &mut self.written.head;
        if written.as_ref() != Some(&head) {
            store.put(&Kind::Head.key(), &head);
            *written = Some(head.into_owned());
        }
        Some(())
    }
}

/// Stages a component that may be missing.
fn stage_part<T: Serialize>(store: &mut records::Store, kind: Kind, part: &mut Option<Watched<T>>) {
    match part {
        Some(part) => store.put_watched(kind, part),
        None => store.remove(&kind.key()),
    }
}

//! The machine as records: one for each unit and one for the machine as a whole. A record holds
//! results, never inputs, and nothing that can be derived from the records and the generation.
//!
//! [`Machine::records`] and [`Machine::from_records`] are inverse between two steps: the machine
//! that is built from the records equals the recorded one in every field. The simulator checks
//! this after every event.
//!
//! Points in time are [`Time`]: nanoseconds of CLOCK_MONOTONIC, so records mean nothing after a
//! reboot. The generation is not recorded; its number is, and the caller supplies it.
//!
//! To add a field: add it to a record here, and set it where the record is made and where it is
//! read; the compiler asks for both. Also add a [`Field`]: the simulator must detect the mutant that
//! leaves it out.

use super::Machine;
use super::cell::Cell;
use super::ending::Ending;
#[cfg(feature = "sim")]
use super::mutant::Field;
use super::mutant::Mutant;
use super::needed_set::Wish;
use super::phase::Phase;
use super::run::Definition;
use crate::graph::Graph;
use crate::machine::event::RunId;
use crate::machine::reason::{Reason, State};
use crate::text::fields::is_default;
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::{Generation, Unit};
use crate::unit::policy::Policy;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// All data of a machine that cannot be derived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Records {
    /// The machine as a whole.
    pub machine: MachineRecord<'static>,
    /// One record per unit of the generation, and per removed unit whose run is not over.
    pub units: Vec<UnitRecord<'static>>,
}

/// The data that belongs to no single unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineRecord<'a> {
    /// The number of the generation that all records refer to.
    generation: u32,
    /// The present policy, with the operator's masks and preferences.
    #[serde(default, skip_serializing_if = "is_default")]
    policy: Cow<'a, Policy>,
    /// Goal and overlay. The ends of `--for` are points on CLOCK_MONOTONIC.
    #[serde(default, skip_serializing_if = "is_default")]
    wish: Cow<'a, Wish>,
    /// The machine has booted; before that it has no units.
    #[serde(default, skip_serializing_if = "is_default")]
    booted: bool,
    /// The shutdown deadline if the settings have none; a span.
    #[serde(default = "shutdown_deadline")]
    shutdown_deadline: Duration,
    /// The shutdown in progress. Its deadline is a point on CLOCK_MONOTONIC.
    #[serde(default, skip_serializing_if = "is_default")]
    ending: Option<Ending>,
    /// The number of the next run. Every existing run has a lower one.
    next_run: u64,
}

/// One unit.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitRecord<'a> {
    /// The unit's name; the key of the record.
    #[serde_with(skip_apply)]
    name: Name,
    /// The phase, with its run and deadlines. Deadlines, the start of the activation and extensions
    /// are points on CLOCK_MONOTONIC. The duration of the activation and the watchdog interval are
    /// spans.
    phase: Cow<'a, Phase>,
    /// The definition of the run, if the generation has another one.
    definition: Option<Cow<'a, Definition>>,
    /// Consecutive failures.
    failures: u32,
    /// The times of the last failures, oldest first; points on CLOCK_MONOTONIC.
    recent: Cow<'a, VecDeque<Time>>,
    /// The unit counts as failed for its dependents until it is active again.
    verdict: bool,
    /// The reason of the last failure.
    last: Cow<'a, Option<Box<Reason>>>,
    /// The last failure was that of a run for one connection.
    connection_lost: bool,
    /// The end of the last failed run; a point on CLOCK_MONOTONIC, zero if there was none.
    ended: Time,
    /// Since the unit became needed, it has neither been active nor failed by itself.
    untried: bool,
    /// The unit is a trigger that has fired, or has a connection.
    triggered: bool,
    /// The unit is needed only because of `on-failure` or `on-success` of another unit.
    brought: bool,
    /// The unit was needed at the last search.
    needed: bool,
    /// The last reported state.
    shown: State,
    /// The start of that state; a point on CLOCK_MONOTONIC.
    since: Time,
}

/// The shutdown deadline of a machine. A container has a shorter one.
fn shutdown_deadline() -> Duration {
    Duration::from_secs(90)
}

impl MachineRecord<'_> {
    /// Returns the same record without borrowing.
    pub fn into_owned(self) -> MachineRecord<'static> {
        let (policy, wish) = (self.policy.into_owned(), self.wish.into_owned());
        MachineRecord { policy: Cow::Owned(policy), wish: Cow::Owned(wish), ..self }
    }
}

impl UnitRecord<'_> {
    /// The unit's name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the same record without borrowing.
    pub fn into_owned(self) -> UnitRecord<'static> {
        UnitRecord {
            phase: Cow::Owned(self.phase.into_owned()),
            definition: self.definition.map(|definition| Cow::Owned(definition.into_owned())),
            recent: Cow::Owned(self.recent.into_owned()),
            last: Cow::Owned(self.last.into_owned()),
            ..self
        }
    }
}

/// The unit records that may have changed since the last write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changes {
    /// All records. A stored record that is not among them is obsolete.
    All,
    /// The records at these indices.
    Units(Vec<u32>),
}

impl Machine {
    /// Returns the units whose record may have changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        let mut changed = std::mem::take(&mut self.changed);
        if self.planted(Mutant::ChangeNotListed) {
            changed.pop();
        }
        if std::mem::take(&mut self.all_changed) {
            self.cells.iter_mut().for_each(|cell| cell.changed = false);
            return Changes::All;
        }
        for ix in &changed {
            if let Some(cell) = self.cells.get_mut(*ix as usize) {
                cell.changed = false;
            }
        }
        Changes::Units(changed)
    }

    /// Returns the number of unit records; their indices are below it.
    pub fn record_count(&self) -> u32 {
        u32::try_from(self.cells.len()).unwrap_or(u32::MAX)
    }

    /// Returns all records. Valid between two steps.
    pub fn records(&self) -> Records {
        self.records_with(
            self.all().into_iter().map(|ix| self.unit_record(ix).into_owned()).collect(),
        )
    }

    /// Returns the record of the machine with these unit records, in the order of their indices.
    pub fn records_with(&self, units: Vec<UnitRecord<'static>>) -> Records {
        let records = Records { machine: self.machine_record().into_owned(), units };
        #[cfg(feature = "sim")]
        let records = match self.mutant {
            Some(Mutant::NotRecorded(field)) => field.left_out(records),
            Some(_) | None => records,
        };
        records
    }

    /// Returns the record of the machine as a whole.
    pub fn machine_record(&self) -> MachineRecord<'_> {
        MachineRecord {
            generation: self.generation.number,
            policy: Cow::Borrowed(&self.policy),
            wish: Cow::Borrowed(&self.wish),
            booted: self.booted,
            shutdown_deadline: self.shutdown_deadline,
            ending: self.ending,
            next_run: self.next_run,
        }
    }

    /// Returns the record of the unit at this index. Removed units follow those of the generation.
    pub fn unit_record(&self, ix: u32) -> UnitRecord<'_> {
        let cell = self.cell(ix);
        let unit = self.generation.units.get(ix as usize);
        let definition = cell.phase.run().map(|run| &*run.definition);
        let definition = definition.filter(|own| unit.is_none_or(|unit| !own.is_of(unit)));
        UnitRecord {
            name: self.name(ix),
            phase: Cow::Borrowed(&cell.phase),
            definition: definition.map(Cow::Borrowed),
            failures: cell.failures,
            recent: Cow::Borrowed(&cell.recent),
            verdict: cell.verdict,
            last: Cow::Borrowed(&cell.last),
            connection_lost: cell.connection_lost,
            ended: cell.ended,
            untried: cell.untried,
            triggered: cell.triggered,
            brought: cell.brought,
            needed: cell.needed,
            shown: cell.shown,
            since: cell.since,
        }
    }

    /// Builds the machine with these records under this generation. Fails if the records do not
    /// belong to one machine under this generation; no value is guessed.
    pub fn from_records(records: Records, generation: Arc<Generation>) -> Result<Machine, String> {
        let Records { machine: record, units } = records;
        if record.generation != generation.number {
            return Err(format!(
                "the records are about generation {}, not {}",
                record.generation, generation.number
            ));
        }
        let mut machine = Machine::new(record.shutdown_deadline);
        machine.generation = generation;
        machine.take_units(record.booted, units)?;
        machine.check_runs(record.next_run)?;
        let MachineRecord { policy, wish, booted, ending, next_run, .. } = record;
        let effective = Machine::effective(&policy, &wish);
        let (graph, faults) = Graph::resolve(&machine.generation, &effective);
        machine.graph = Arc::new(graph);
        machine.faults = Arc::new(faults);
        machine.policy = policy.into_owned();
        machine.wish = wish.into_owned();
        machine.booted = booted;
        machine.ending = ending;
        machine.next_run = next_run;
        machine.derive();
        Ok(machine)
    }

    /// Returns the machine after a crash or an upgrade, for the simulator. Returns `None` if it
    /// cannot be built.
    #[cfg(feature = "sim")]
    pub fn resumed(&self) -> Option<Machine> {
        let mut records = self.records();
        if self.planted(Mutant::ResumeForgetsFailures) {
            records.units.iter_mut().for_each(|unit| unit.failures = 0);
        }
        let mut machine = Machine::from_records(records, self.generation.clone()).ok()?;
        machine.mutant = self.mutant;
        // The records written before the resume are still valid.
        machine.take_changes();
        Some(machine)
    }

    /// Creates the cell of each unit, in order. A name that the generation lacks is a removed unit.
    fn take_units(&mut self, booted: bool, units: Vec<UnitRecord<'static>>) -> Result<(), String> {
        let generation = Arc::clone(&self.generation);
        let count = generation.units.len();
        if !booted && !units.is_empty() {
            return Err(format!("{} units, and the machine has not booted", units.len()));
        }
        for (place, record) in units.into_iter().enumerate() {
            let own = generation.units.get(place).map(|unit| &unit.name);
            let in_order = match own {
                Some(own) => *own == record.name,
                None => {
                    generation.find_unit(record.name.as_str()).is_none()
                        && self.removed_units.last().is_none_or(|last| *last < record.name)
                }
            };
            if !in_order {
                return Err(format!("record {place} is that of {}, out of order", record.name));
            }
            if own.is_none() {
                self.removed_units.push(record.name.clone());
            }
            let name = record.name.clone();
            let cell = record.into_cell(generation.units.get(place));
            self.cells.push(cell.ok_or_else(|| format!("the run of {name} has no definition"))?);
        }
        if booted && self.cells.len() < count {
            return Err(format!("{} records for {count} units", self.cells.len()));
        }
        self.share_live();
        Ok(())
    }

    /// Shares the keys of class *live* between each run and its unit if they are equal, as most
    /// are.
    pub(super) fn share_live(&mut self) {
        for (unit, cell) in self.generation.units.iter().zip(&mut self.cells) {
            if let Some(run) = cell.phase.run_mut()
                && run.definition.live == unit.live
                && let Some(definition) = Arc::get_mut(&mut run.definition)
            {
                definition.live = unit.live.clone();
            }
        }
    }

    /// Checks that run numbers are unique and below the next one.
    fn check_runs(&self, next_run: u64) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for ix in self.all() {
            let Some(run) = self.cell(ix).phase.run() else { continue };
            let RunId(number) = run.id;
            if number >= next_run || !seen.insert(number) {
                let name = self.name(ix);
                return Err(format!(
                    "run {number} of {name}: another run has this number, or it was not given out yet"
                ));
            }
        }
        Ok(())
    }
}

impl UnitRecord<'_> {
    /// Returns the cell with this record. `None`: the generation lacks the unit, and the record
    /// lacks the definition of its run.
    fn into_cell(self, unit: Option<&Unit>) -> Option<Cell> {
        let UnitRecord {
            name: _,
            phase,
            definition,
            failures,
            recent,
            verdict,
            last,
            connection_lost,
            ended,
            untried,
            triggered,
            brought,
            needed,
            shown,
            since,
        } = self;
        let mut phase = phase.into_owned();
        if let Some(run) = phase.run_mut() {
            let own = definition.map(Cow::into_owned);
            run.definition = Arc::new(own.or_else(|| unit.map(Definition::of))?);
        }
        Some(Cell {
            phase,
            failures,
            recent: recent.into_owned(),
            verdict,
            last: last.into_owned(),
            connection_lost,
            ended,
            untried,
            triggered,
            brought,
            needed,
            shown,
            since,
            ..Cell::empty()
        })
    }
}

#[cfg(feature = "sim")]
impl Field {
    /// Returns the records without this field: it has its default, as after reading a record that
    /// lacks it.
    fn left_out(self, mut records: Records) -> Records {
        let machine = &mut records.machine;
        match self {
            Field::Policy => machine.policy = Cow::default(),
            Field::Wish => machine.wish = Cow::default(),
            Field::Booted => machine.booted = false,
            Field::ShutdownDeadline => machine.shutdown_deadline = Duration::ZERO,
            Field::Ending => machine.ending = None,
            Field::NextRun => machine.next_run = 1,
            Field::Phase
            | Field::Definition
            | Field::Failures
            | Field::Recent
            | Field::Verdict
            | Field::Last
            | Field::ConnectionLost
            | Field::Ended
            | Field::Untried
            | Field::Triggered
            | Field::Brought
            | Field::Needed
            | Field::Shown
            | Field::Since => {}
        }
        let none = Cell::empty();
        for unit in &mut records.units {
            match self {
                Field::Policy
                | Field::Wish
                | Field::Booted
                | Field::ShutdownDeadline
                | Field::Ending
                | Field::NextRun => {}
                Field::Phase => unit.phase = Cow::default(),
                Field::Definition => unit.definition = None,
                Field::Failures => unit.failures = none.failures,
                Field::Recent => unit.recent = Cow::default(),
                Field::Verdict => unit.verdict = none.verdict,
                Field::Last => unit.last = Cow::default(),
                Field::ConnectionLost => unit.connection_lost = none.connection_lost,
                Field::Ended => unit.ended = none.ended,
                Field::Untried => unit.untried = none.untried,
                Field::Triggered => unit.triggered = none.triggered,
                Field::Brought => unit.brought = none.brought,
                Field::Needed => unit.needed = none.needed,
                Field::Shown => unit.shown = none.shown,
                Field::Since => unit.since = none.since,
            }
        }
        records
    }
}

//! The records of init's components. A record is the component itself, with a descriptor as its
//! number ([`crate::state::carried`]). Derived values are not recorded.

use crate::base::clock::WallClock;
use crate::base::own_limits::OwnLimits;
use crate::control::Control;
use crate::loader::{Asker, Loader};
use crate::logger;
use crate::notify::Notify;
use crate::output::boot_timings::Timings;
use crate::output::event_log::{History, Record};
use crate::process_tracking::Tracker;
use crate::service::effects::Effects;
use crate::service::fd_store::Store;
use crate::service::orders::Orders;
use crate::service::run_table::{Looks, Reaped, RunConstants, Running, Runs};
use crate::shutdown::Ending;
use crate::shutdown::emergency_shell::EmergencyShell;
use crate::spawn::{KeptChildMemory, Spawner};
use crate::state::event_in_progress::Suspects;
use crate::state::kind::Kind;
use crate::state::store as records;
use crate::state::table::Table;
use crate::sys::{inherit, launch, wait};
use crate::trigger::Triggers;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::machine::record::Records;
use groundstate_units::text::fields::is_default;
use groundstate_units::text::name::Name;
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::policy::Policy;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Small values, and values that refer to the records of other components.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Head<'a> {
    /// The present generation; the loader's record has its bytes.
    #[serde_with(skip_apply)]
    pub(crate) generation: u32,
    /// Settings of it that were changed after the load.
    pub(crate) exit_with: Cow<'a, Option<Name>>,
    pub(crate) policy: Cow<'a, Policy>,
    #[serde_with(skip_apply)]
    pub(crate) basics: Cow<'a, Basics>,
    pub(crate) record: Option<RawFd>,
    /// True if the kernel kills children that are cloned into a cgroup.
    pub(crate) no_joining: bool,
}

impl Head<'_> {
    /// Returns the same values without borrowing.
    pub(crate) fn into_owned(self) -> Head<'static> {
        Head {
            exit_with: Cow::Owned(self.exit_with.into_owned()),
            policy: Cow::Owned(self.policy.into_owned()),
            basics: Cow::Owned(self.basics.into_owned()),
            generation: self.generation,
            record: self.record,
            no_joining: self.no_joining,
        }
    }
}

/// Small values. This type is also the form of their record.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Basics {
    /// The start time of init.
    pub(crate) booted: Time,
    pub(crate) on_the_wall: WallClock,
    pub(crate) own_limits: OwnLimits,
    pub(crate) log_is_finished: bool,
    pub(crate) log_files_open: bool,
    /// Counts down the log ids of helper commands outside a start, each of which has its own pipe.
    pub(crate) helper_outputs: u64,
    /// Number of notify messages that were refused.
    pub(crate) messages_refused: u64,
    /// The boot has settled once.
    pub(crate) has_settled: bool,
    pub(crate) shell: EmergencyShell,
    /// Goal of the kernel command line.
    pub(crate) kernel_target: Option<Name>,
    /// Number of crashes that init has survived.
    pub(crate) crashes: u32,
    /// The time at which init continued after the last crash.
    pub(crate) resumed: Option<Time>,
    /// The client whose upgrade is about to happen or has just happened.
    pub(crate) upgraded: Option<Asker>,
}

/// Values that change with each commit: pending work, and the position of the commit.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Pending {
    /// Facts that the machine has not processed.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) facts: VecDeque<Event>,
    /// Starts and signals that wait for a commit.
    #[serde(default)]
    pub(crate) effects: Effects,
    /// Reaped processes that have not been reported to their runs.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(crate) reaped: VecDeque<Reaped>,
    /// [`Orders::done`] at the commit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) orders_done: usize,
    /// The number of the last input before the commit.
    pub(crate) inputs: u64,
    /// Number of turns of the loop.
    #[serde(default)]
    pub(crate) wakeups: u64,
    /// The time of the commit, as in [`crate::base::clock::ticks`].
    pub(crate) kept: u64,
}

/// The components whose own types are the forms of their records.
#[derive(Default)]
pub(crate) struct Components {
    pub(crate) head: Head<'static>,
    pub(crate) pending: Pending,
    pub(crate) orders: Orders,
    pub(crate) tracker: Tracker,
    pub(crate) control: Option<Control>,
    /// The notify socket. Dropping it removes its file.
    pub(crate) notify: Option<Notify>,
    pub(crate) loader: Loader,
    pub(crate) history: History,
    pub(crate) timings: Timings,
    pub(crate) triggers: Triggers,
    pub(crate) ending: Ending,
    pub(crate) suspects: Suspects,
}

/// All records, decoded one by one and not yet combined.
pub(crate) struct Parts {
    pub(crate) components: Components,
    machine: Records,
    /// Children created by init.
    children: BTreeMap<i32, ()>,
    runs: BTreeMap<RunId, Running>,
    constants: BTreeMap<RunId, RunConstants>,
    store: Store,
    looks: Looks,
    child_memory: KeptChildMemory,
    logger: logger::Handle,
}

/// The whole state, decoded, with all its descriptors taken over.
pub(crate) struct State {
    pub(crate) components: Components,
    pub(crate) machine: Machine,
    pub(crate) runs: Runs,
    pub(crate) spawner: Spawner,
    pub(crate) logger: logger::Handle,
    pub(crate) record: Option<Record>,
}

impl Parts {
    /// Reads the records and takes over their descriptors. The caller closes all other descriptors.
    pub(crate) fn read(store: &records::Store) -> Result<Parts, String> {
        fn of<T: DeserializeOwned>(store: &records::Store, kind: Kind) -> Result<T, String> {
            store.read(kind)?.ok_or_else(|| format!("{kind:?}: the record is missing"))
        }
        let runs: BTreeMap<RunId, Running> = store.read_table(Kind::Run)?;
        let mut tracker: Tracker = of(store, Kind::Tracker)?;
        tracker.take_over(store.read_table(Kind::Tracked)?, store.read_table(Kind::ProcessTree)?);
        for (run, running) in &runs {
            running.lines.iter().for_each(|(pid, _)| tracker.take_over_child(*run, *pid));
        }
        let mut logger: logger::Handle = of(store, Kind::Logger)?;
        logger.runs = Table::of(store.read_table(Kind::Log)?);
        let history = History::of(store.read_table(Kind::Event)?);
        let timings = Timings {
            of: Table::of(store.read_table(Kind::Start)?),
            first: Table::of(store.read_table(Kind::FirstStart)?),
            restarts: Table::of(store.read_table(Kind::Restarts)?),
        };
        let units = store.read_values(Kind::Unit)?;
        let constants = store.read_table(Kind::Constants)?;
        let machine = Records { machine: of(store, Kind::Machine)?, units };
        let children = store.read_table(Kind::Child)?;
        let (kept, looks) = (of(store, Kind::Store)?, of(store, Kind::Looks)?);
        let child_memory = of(store, Kind::ChildMemory)?;
        let pending: Pending = of(store, Kind::Pending)?;
        let components = Components {
            head: of(store, Kind::Head)?,
            orders: Orders::of(store.read_table(Kind::Order)?, pending.orders_done),
            pending,
            tracker,
            control: store.read(Kind::Control)?,
            notify: store.read(Kind::Notify)?,
            loader: of(store, Kind::Loader)?,
            history,
            timings,
            triggers: of(store, Kind::Triggers)?,
            ending: of(store, Kind::Ending)?,
            suspects: of(store, Kind::Suspects)?,
        };
        let store = kept;
        Ok(Parts {
            components,
            machine,
            children,
            runs,
            constants,
            store,
            looks,
            child_memory,
            logger,
        })
    }

    /// The machine, if it is consistent with its units.
    #[cfg_attr(not(test), allow(dead_code, reason = "the fuzzer calls it"))]
    pub(crate) fn machine(self) -> Result<Machine, String> {
        let generation = self.generation()?;
        Machine::from_records(self.machine, generation)
    }

    /// The present generation.
    fn generation(&self) -> Result<Arc<Generation>, String> {
        let Components { head, loader, .. } = &self.components;
        let mut generation = loader.origin.decode_generation(head.generation)?;
        generation.settings.exit_with.clone_from(&head.exit_with);
        generation.policy = (*head.policy).clone();
        Ok(Arc::new(generation))
    }
}

impl State {
    /// The state at the first start.
    pub(crate) fn initial(
        basics: Basics,
        machine: Machine,
        tracker: Tracker,
        spawner: Spawner,
        logger: logger::Handle,
        record: Option<Record>,
    ) -> State {
        let head = Head { basics: Cow::Owned(basics), ..Head::default() };
        let components =
            Components { head, tracker, triggers: Triggers::new(), ..Components::default() };
        State { components, machine, runs: Runs::default(), spawner, logger, record }
    }

    /// Reads and combines the records. Descriptors are handled as in [`Parts::read`].
    pub(crate) fn read(store: &records::Store) -> Result<State, String> {
        // If the generation cannot be decoded, the descriptors stay open for the next image.
        let parts = ManuallyDrop::new(Parts::read(store)?);
        let generation = parts.generation()?;
        let mut parts = ManuallyDrop::into_inner(parts);
        let machine = Machine::from_records(parts.machine, generation.clone())?;
        let Components { head, pending, .. } = &parts.components;
        if head.no_joining {
            launch::stop_cloning_into_cgroups();
        }
        for (run, running) in &mut parts.runs {
            let constants = parts.constants.remove(run);
            complete(running, constants, &generation).ok_or("a run has no definition")?;
        }
        let mut runs = Runs::restored(parts.runs, parts.store, parts.looks, pending.reaped.iter());
        let reports = runs.iter_mut().flat_map(|(_, running)| &mut running.reports);
        let spawner =
            Spawner::restored(parts.child_memory, reports.map(|started| &mut started.report))
                .map_err(|error| format!("cannot map the spawn slots: {error}"))?;
        let record = head.record.map(inherit::take).transpose();
        let record = record.ok().flatten().map(|fd| Record::new(File::from(fd)));
        wait::count_as_made(parts.children.into_keys());
        let Parts { components, logger, .. } = parts;
        Ok(State { components, machine, runs, spawner, logger, record })
    }
}

/// Adds the data of a run that does not change. Returns `None` if its definition is missing.
fn complete(
    running: &mut Running,
    constants: Option<RunConstants>,
    own: &Generation,
) -> Option<()> {
    let unit = own.find_unit(running.name.as_str()).and_then(|unit| own.unit(unit));
    running.set_constants(constants?, unit.map(|unit| &unit.run))
}

//! What of init is kept, and what it becomes again. Live types are written as they are; what the
//! kernel holds goes along as a number ([`super::carried`]); what can be derived is not written.

use super::frame::{self, Kind, Writer};
use crate::boot::limits::OwnLimits;
use crate::cgroup::{Family, Tracked, Tracker};
use crate::clock::{self, OnTheWall};
use crate::control::Control;
use crate::event_loop::{Init, Tokens};
use crate::history::History;
use crate::loader::{Asker, Loader};
use crate::logger::{self, RunLog};
use crate::notify::Notify;
use crate::record::Record;

use crate::run::running::Running;
use crate::run::table::{Looks, Runs};
use crate::shutdown::Ending;
use crate::spawn::{KeptGround, Spawner};
use crate::store::Store;
use crate::suspect::Suspects;
use crate::sys::{inherit, launch, wait};
use crate::timings::Timings;
use crate::trigger::Triggers;
use groundstate_units::control::answer::System;
use groundstate_units::generation::Generation;
use groundstate_units::machine::Machine;
use groundstate_units::machine::event::{Event, RunId};
use groundstate_units::name::Name;
use groundstate_units::policy::Policy;
use groundstate_units::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// What is small.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// The generation in force; its bytes are the loader's.
    generation: u32,
    /// What of it was set after it was loaded.
    exit_with: Option<Name>,
    policy: Policy,
    /// As in [`Init`].
    pub(crate) booted: Time,
    pub(crate) on_the_wall: OnTheWall,
    pub(crate) tokens: Tokens,
    pub(crate) facts: VecDeque<Event>,
    pub(crate) reports: VecDeque<usize>,
    pub(crate) own_limits: OwnLimits,
    pub(crate) log_is_finished: bool,
    pub(crate) log_files_open: bool,
    record: Option<RawFd>,
    pub(crate) idle: BTreeSet<RunId>,
    pub(crate) helper_outputs: u64,
    pub(crate) unheard: u64,
    pub(crate) wakeups: u64,
    pub(crate) said: Option<System>,
    pub(crate) shell: Option<i32>,
    pub(crate) shell_again: Option<Time>,
    pub(crate) kernel_target: Option<Name>,
    pub(crate) crashes: u32,
    pub(crate) resumed: Option<Time>,
    /// Children of init's own making.
    made: Vec<i32>,
    /// When this is, as [`clock::ticks`] has it.
    pub(crate) kept: u64,
    /// Who is to be told that init has gone on.
    pub(crate) upgraded: Option<Asker>,
}

/// All of one run, but for what hangs on its unit.
type OfRun<Running, Tracked, Family, Log> =
    (RunId, Option<Running>, Option<Tracked>, Option<Family>, Option<Log>);

/// What the tracker knows of a run.
type InCgroups = (Option<Tracked>, Option<Family>);

/// Everything that stands in the bytes, each thing by itself: nothing of it fits another yet.
pub(crate) struct Parts {
    head: Head,
    machine: Vec<u8>,
    runs: BTreeMap<RunId, Running>,
    tracked: Vec<(RunId, InCgroups)>,
    logs: Vec<RunLog>,
    store: Store,
    looks: Looks,
    suspects: Suspects,
    no_joining: bool,
    places: Option<RawFd>,
    tracker: Tracker,
    ground: KeptGround,
    control: Option<Control>,
    /// The notify socket, whose file goes with it.
    pub(crate) notify: Option<Notify>,
    logger: Option<logger::Handle>,
    loader: Loader,
    history: History,
    timings: Timings,
    triggers: Triggers,
    ending: Ending,
}

/// Everything, decoded, with every descriptor it names taken over.
pub(crate) struct State {
    pub(crate) head: Head,
    pub(crate) machine: Machine,
    pub(crate) runs: Runs,
    pub(crate) tracker: Tracker,
    pub(crate) spawner: Spawner,
    pub(crate) control: Option<Control>,
    pub(crate) notify: Option<Notify>,
    pub(crate) logger: Option<logger::Handle>,
    pub(crate) loader: Loader,
    pub(crate) history: History,
    pub(crate) timings: Timings,
    pub(crate) triggers: Triggers,
    pub(crate) ending: Ending,
    pub(crate) record: Option<Record>,
    pub(crate) suspects: Suspects,
}

impl Init {
    /// The whole state as bytes. None: it can not be kept here, for there are no memfds.
    pub(crate) fn whole_state(&mut self) -> Option<Vec<u8>> {
        let head = self.head()?;
        let mut to = Writer::new();
        let mut whole = to.put(Kind::Head, &head)
            && to.put(Kind::Machine, &self.machine.keep())
            && to.put(Kind::Tracker, &self.tracker)
            && to.put(Kind::Ground, &self.spawner.keep()?)
            && to.put(Kind::Store, &self.runs.store)
            && to.put(Kind::Control, &self.control)
            && to.put(Kind::Notify, &self.notify)
            && to.put(Kind::Logger, &self.logger)
            && to.put(Kind::Loader, &self.loader)
            && to.put(Kind::History, &self.history)
            && to.put(Kind::Timings, &self.timings)
            && to.put(Kind::Triggers, &self.triggers)
            && to.put(Kind::Ending, &self.ending);
        if !self.runs.looks.is_empty() {
            whole = whole && to.put(Kind::Looks, &self.runs.looks);
        }
        if !self.lineage.suspects.is_empty() {
            whole = whole && to.put(Kind::Suspects, &self.lineage.suspects);
        }
        let no_joining = launch::die_at_birth();
        whole = whole && (!no_joining || to.put(Kind::NoJoining, &true));
        let places = self.triggers.places();
        whole = whole && (places.is_none() || to.put(Kind::Places, &places));
        for run in self.known_runs() {
            whole = whole && self.keep_run(run, &mut to);
        }
        whole.then(|| to.bytes())
    }

    fn head(&mut self) -> Option<Head> {
        let generation = self.machine.generation().clone();
        if !self.loader.origin.keeps(generation.number) {
            return None;
        }
        let record = self.record.as_mut().and_then(|record| Some(record.file().ok()?.as_raw_fd()));
        Some(Head {
            generation: generation.number,
            exit_with: generation.settings.exit_with.clone(),
            policy: generation.policy.clone(),
            booted: self.booted,
            on_the_wall: self.on_the_wall.clone(),
            tokens: self.tokens,
            facts: self.facts.clone(),
            reports: self.reports.clone(),
            own_limits: self.own_limits.clone(),
            log_is_finished: self.log_is_finished,
            log_files_open: self.log_files_open,
            record,
            idle: self.idle.clone(),
            helper_outputs: self.helper_outputs,
            unheard: self.dropped.messages_refused,
            wakeups: self.wakeups,
            said: self.said,
            shell: self.shell.map(|pid| pid.as_raw()),
            shell_again: self.shell_again,
            kernel_target: self.kernel_target.clone(),
            crashes: self.lineage.crashes,
            resumed: self.lineage.resumed,
            made: wait::all_made(),
            kept: clock::ticks(),
            upgraded: self.lineage.upgraded,
        })
    }

    fn known_runs(&self) -> BTreeSet<RunId> {
        let logged = self.logger.iter().flat_map(logger::Handle::known);
        let runs = self.runs.iter().map(|(run, _)| run);
        runs.chain(self.tracker.known()).chain(logged).collect()
    }

    fn keep_run(&self, run: RunId, to: &mut Writer) -> bool {
        let (tracked, family) = self.tracker.of(run);
        let log = self.logger.as_ref().and_then(|logger| logger.of(run));
        let of_it: OfRun<&Running, &Tracked, &Family, &RunLog> =
            (run, self.runs.get(run), tracked, family, log);
        to.put(Kind::Run, &of_it)
    }
}

impl Parts {
    /// From now on what they name of descriptors is ours; whoever calls this closes the rest.
    pub(crate) fn read(bytes: &[u8]) -> Result<Parts, String> {
        let frames = frame::read(bytes).map_err(|damage| damage.to_string())?;
        let (mut runs, mut tracked, mut logs) = (BTreeMap::new(), Vec::new(), Vec::new());
        for body in frames.iter().filter(|(kind, _)| *kind == Kind::Run).map(|(_, body)| body) {
            let (run, running, of_it, family, log): OfRun<Running, Tracked, Family, RunLog> =
                postcard::from_bytes(body).map_err(|error| format!("a run: {error}"))?;
            runs.extend(running.map(|running| (run, running)));
            tracked.push((run, (of_it, family)));
            logs.extend(log);
        }
        Ok(Parts {
            head: of(&frames, Kind::Head)?,
            machine: of(&frames, Kind::Machine)?,
            runs,
            tracked,
            logs,
            store: of(&frames, Kind::Store)?,
            looks: if_there(&frames, Kind::Looks)?,
            suspects: if_there(&frames, Kind::Suspects)?,
            no_joining: if_there(&frames, Kind::NoJoining)?,
            places: if_there(&frames, Kind::Places)?,
            tracker: of(&frames, Kind::Tracker)?,
            ground: of(&frames, Kind::Ground)?,
            control: of(&frames, Kind::Control)?,
            notify: of(&frames, Kind::Notify)?,
            logger: of(&frames, Kind::Logger)?,
            loader: of(&frames, Kind::Loader)?,
            history: of(&frames, Kind::History)?,
            timings: of(&frames, Kind::Timings)?,
            triggers: of(&frames, Kind::Triggers)?,
            ending: of(&frames, Kind::Ending)?,
        })
    }

    /// The generation in force, and the machine, if it fits.
    pub(crate) fn machine(&self) -> Result<(Arc<Generation>, Machine), String> {
        let mut generation = self.loader.origin.generation(self.head.generation)?;
        generation.settings.exit_with.clone_from(&self.head.exit_with);
        generation.policy = self.head.policy.clone();
        let generation = Arc::new(generation);
        let machine = Machine::from_kept(&self.machine, generation.clone());
        Ok((generation, machine.ok_or("the machine does not fit its units")?))
    }
}

impl State {
    /// Everything, put together. Descriptors are as in [`Parts::read`].
    pub(crate) fn read(bytes: &[u8]) -> Result<State, String> {
        // Where its units are not to be had, what it names of descriptors stays open for the next image.
        let parts = ManuallyDrop::new(Parts::read(bytes)?);
        let (generation, machine) = parts.machine()?;
        let mut parts = ManuallyDrop::into_inner(parts);
        if parts.no_joining {
            launch::died_at_birth();
        }
        parts.runs.values_mut().for_each(|running| share(running, &generation));
        let mut runs = Runs::again(parts.runs, parts.store, parts.looks);
        let mut tracker = parts.tracker;
        for (run, of_it) in parts.tracked {
            tracker.know_again(run, of_it);
        }
        let reports = runs.iter_mut().flat_map(|(_, running)| &mut running.reports);
        let spawner = Spawner::again(parts.ground, reports.map(|started| &mut started.report))
            .map_err(|error| format!("the children's memory: {error}"))?;
        let mut logger = parts.logger;
        if let Some(logger) = &mut logger {
            logger.know_again(parts.logs);
        }
        parts.triggers.know_places(parts.places);
        let head = parts.head;
        let record = head.record.map(inherit::take).transpose();
        let record = record.ok().flatten().map(|fd| Record::go_on(File::from(fd)));
        wait::made_before(head.made.iter().copied());
        Ok(State {
            machine,
            runs,
            tracker,
            spawner,
            control: parts.control,
            notify: parts.notify,
            logger,
            loader: parts.loader,
            history: parts.history,
            timings: parts.timings,
            triggers: parts.triggers,
            ending: parts.ending,
            record,
            suspects: parts.suspects,
            head,
        })
    }
}

/// The frame of that kind; of runs alone there are several.
fn of<'a, T: Deserialize<'a>>(frames: &[(Kind, &'a [u8])], kind: Kind) -> Result<T, String> {
    let found = frames.iter().find(|(of, _)| *of == kind).ok_or(format!("no {kind:?}"))?;
    match postcard::take_from_bytes(found.1) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(format!("{kind:?}: too long")),
        Err(error) => Err(format!("{kind:?}: {error}")),
    }
}

/// The same, of a frame that is left out while there is nothing in it.
fn if_there<'a, T: Deserialize<'a> + Default>(
    frames: &[(Kind, &'a [u8])],
    kind: Kind,
) -> Result<T, String> {
    if frames.iter().any(|(of, _)| *of == kind) { of(frames, kind) } else { Ok(T::default()) }
}

/// What a run was started with is mostly what its unit still says: it is there once.
fn share(running: &mut Running, generation: &Generation) {
    let unit = generation.find_unit(running.name.as_str()).and_then(|unit| generation.unit(unit));
    if let Some(unit) = unit.filter(|unit| unit.run == running.definition) {
        running.definition = unit.run.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::parcel;
    use crate::sys::{memfd, process};
    use groundstate_units::spec::Exit;
    use std::io::Write;

    /// What an init of the version in its name has kept, and the delivery its units came in.
    /// They stay: a type that changes needs another version, and then files of its own.
    const STATE: &[u8] = include_bytes!("../../golden/state-11");
    /// One of the version before, which is refused.
    const OLDER: &[u8] = include_bytes!("../../golden/state-10");
    const UNITS: &[u8] = include_bytes!("../../golden/generation-11");

    #[test]
    fn a_state_that_was_kept_once_is_read_for_as_long_as_its_version_is() {
        // In a process of its own: what are descriptors of another are ours there.
        let child = process::fork(&[], || {
            let mut parts = Parts::read(STATE).unwrap();
            // The file of its socket is not there.
            std::mem::forget(parts.notify.take());
            let mut file = File::from(memfd::create(c"generation").unwrap());
            file.write_all(UNITS).unwrap();
            memfd::seal(&file).unwrap();
            let mut generation = parcel::unwrap(file.into()).unwrap().generation;
            generation.number = parts.head.generation;
            let machine = Machine::from_kept(&parts.machine, Arc::new(generation)).unwrap();
            let is_as_it_was = machine.keep() == parts.machine;
            let up: BTreeSet<&str> = parts.runs.values().map(|run| run.name.as_str()).collect();
            let all = ["db", "stop", "web"].into_iter().all(|name| up.contains(name));
            u8::from(is_as_it_was && all && parts.history.last() > 0)
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(1));
        let why = Parts::read(OLDER).err().unwrap();
        assert!(why.contains("version"), "{why}");
    }

    #[test]
    fn that_the_kernel_kills_who_is_cloned_into_a_cgroup_goes_along_and_changes_nothing_elsewhere()
    {
        let child = process::fork(&[], || {
            let mut to = Writer::new();
            to.put(Kind::NoJoining, &true);
            let frame = to.bytes().split_off(8);
            let mut found = [STATE.to_vec(), [STATE, &frame].concat()].map(|bytes| {
                let mut parts = Parts::read(&bytes).unwrap();
                std::mem::forget(parts.notify.take());
                parts
            });
            u8::from(found.each_mut().map(|parts| parts.no_joining) == [false, true])
        });
        assert_eq!(wait::await_end(child.unwrap()).unwrap(), Exit::Code(1));
    }
}

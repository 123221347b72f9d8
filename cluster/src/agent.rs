//! Computes which units run on this machine, and which files and roots its init gets.
//! Pure. [`crate::fleetd::unit_runner`] talks to etcd and init. Unit states are reported in fleet's
//! words.

mod end;
mod shape;

pub use end::{has_given_way, is_down, stays_down};
pub use shape::{files, holds, is_of, is_put, keeps_what_runs, refusal, targets};

use crate::desired::Desired;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::placement::Host;
use crate::record::{Ended, ScheduleRecord, StateRecord, UnitRecord};
use crate::requirement::Requirement;
use crate::snapshot::{Content, Snapshot};
use crate::unit_name::UnitName;
use end::ended;
use groundstate_units::control::answer::{Cause, UnitStatus};
use groundstate_units::control::shown::Shown;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::text::name::Name;
use shape::{Shape, names, target};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A unit that belongs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its unit file.
    pub content: Arc<Content>,
    /// `Loaded` or `Launched`.
    pub desired: Desired,
    /// Why this machine does not run the unit, if it does not.
    pub refusal: Option<String>,
}

impl Wanted {
    /// Returns true if the unit may run only while this machine holds its claim.
    pub fn needs_claim(&self) -> bool {
        self.content.asks.exclusive && self.desired == Desired::Launched && self.refusal.is_none()
    }
}

/// Start of the message that refuses a unit because another unit has the same name at init.
const NAMESAKE: &str = "at init it has the same name as ";

/// Refuses all but one of the units that share a name or alias at init, because init rejects a
/// source with duplicate names. The unit that ran `before` wins, else the first by name.
pub fn refuse_namesakes(goal: &mut Goal, before: &Goal) {
    for one in goal.values_mut() {
        let is_old = |text: &String| text.starts_with(NAMESAKE);
        one.refusal = one.refusal.take().filter(|text| !is_old(text));
    }
    let runs = goal.iter().filter(|(_, one)| one.refusal.is_none());
    let mut all: Vec<(u8, &UnitName, BTreeSet<String>)> = runs
        .map(|(name, one)| {
            let was = before.get(name).filter(|was| was.refusal.is_none());
            let own = names(name, one);
            let turn = match was {
                Some(was) if own.is_subset(&names(name, was)) => 0,
                // The unit ran here under the same name at init, but has a new alias. A unit with
                // turn 0 may already hold that alias.
                Some(was) if target(name, one) == target(name, was) => 1,
                _ => 2,
            };
            (turn, name, own)
        })
        .collect();
    all.sort();
    let mut holders: BTreeMap<String, &UnitName> = BTreeMap::new();
    let mut refused: Vec<(UnitName, UnitName)> = Vec::new();
    for (_, name, own) in all {
        match own.iter().find_map(|one| holders.get(one)) {
            Some(holder) => refused.push((name.clone(), (*holder).clone())),
            None => holders.extend(own.into_iter().map(|one| (one, name))),
        }
    }
    for (name, holder) in refused {
        if let Some(one) = goal.get_mut(&name) {
            one.refusal = Some(format!("{NAMESAKE}{holder}, which is also placed here"));
        }
    }
}

/// Returns the unit's name at init.
pub fn name_at_init(name: &UnitName, wanted: &Wanted) -> String {
    target(name, wanted)
}

/// Finds the entry of this unit among init's units.
pub fn find<'a, T>(
    name: &UnitName,
    wanted: &Wanted,
    all: &'a BTreeMap<String, T>,
) -> Option<&'a T> {
    all.get(&target(name, wanted))
}

/// Returns the loader's complaint about the unit's file, if any.
pub fn complaint<'a>(
    name: &UnitName,
    wanted: &Wanted,
    all: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    all.get(&Shape::of(name, wanted).file).map(String::as_str)
}

/// Returns true if every file that init has under this unit's names belongs to another of our
/// units. Then init no longer has the file with which this unit ran under a claim. A new file of the
/// unit itself counts as a file of another unit if it is not exclusive.
pub fn is_file_of_another(put: &SourceSet, goal: &Goal, name: &UnitName) -> bool {
    let own = files(name);
    let runs = goal.iter().filter(|(_, one)| one.refusal.is_none());
    let others = runs.filter(|(other, one)| *other != name || !one.content.asks.exclusive);
    let shapes: Vec<Shape> = others.map(|(other, one)| Shape::of(other, one)).collect();
    let mut files = own.iter().filter_map(|file| put.files.get_key_value(file));
    files.all(|(file, text)| shapes.iter().any(|shape| shape.file == *file && shape.text == *text))
}

/// Returns true if another of our units now has one of this unit's names at init.
pub fn has_namesake(goal: &Goal, name: &UnitName) -> bool {
    let own = targets(name);
    let runs = goal.iter().filter(|(other, one)| *other != name && one.refusal.is_none());
    runs.into_iter().any(|(other, one)| own.contains(&target(other, one)))
}

/// All units that belong on this machine.
pub type Goal = BTreeMap<UnitName, Wanted>;

/// Computes the goal of this machine. If the stored file is not the one that the schedule names,
/// the unit stays as it was `before`.
pub fn goal(snapshot: &Snapshot, me: &MachineId, before: &Goal) -> Goal {
    let mut goal = Goal::new();
    let mut host = Host { machine: snapshot.machine(me).unwrap_or_default(), ..Host::default() };
    let unreadable = snapshot.is_unreadable(me);
    for (name, kept) in snapshot.schedules.get(me).into_iter().flatten() {
        let record = &kept.record;
        if record.desired == Desired::Inactive {
            continue;
        }
        if let Some(wanted) = wanted(snapshot, name, record.desired, &record.hash, before) {
            host.scheduled.insert(name.clone(), wanted.content.asks.clone());
            goal.insert(name.clone(), wanted);
        }
    }
    let globals: Goal = snapshot
        .globals
        .iter()
        .filter(|(name, kept)| kept.record.desired != Desired::Inactive && !name.is_template())
        .filter_map(|(name, kept)| {
            let (desired, hash) = (kept.record.desired, &kept.record.hash);
            let waits = kept.record.first.as_ref().is_some_and(|first| !first.contains(me));
            // The rollout has not released the new file to this machine yet.
            let own = || before.get(name).map(|one| Wanted { desired, ..one.clone() });
            if let Some(one) =
                waits.then(|| own().or_else(|| file_before_rollout(name, &kept.record))).flatten()
            {
                return Some((name.clone(), one));
            }
            Some((name.clone(), wanted(snapshot, name, desired, hash, before)?))
        })
        .collect();
    let asks = |(name, _): (&UnitName, _)| {
        let one = globals.get(name)?;
        Some((name.clone(), asks_of_us(one, unreadable && before.contains_key(name))))
    };
    let asked: Vec<(UnitName, Arc<Requirement>)> =
        snapshot.globals_by_age().into_iter().filter_map(asks).collect();
    host.globals = host.choose_globals(asked.iter().map(|(name, asks)| (name, asks)));
    goal.extend(globals.into_iter().filter(|(name, _)| host.globals.contains_key(name)));
    goal.extend(kept_without_a_place(snapshot, me, host, unreadable, before));
    for name in &snapshot.withheld {
        if let (None, Some(one)) = (goal.get(name), before.get(name)) {
            goal.insert(name.clone(), one.clone());
        }
    }
    goal
}

/// Returns the file that all machines had before the current rollout of a global unit. A machine
/// that booted during the rollout starts with this file.
fn file_before_rollout(name: &UnitName, record: &ScheduleRecord) -> Option<Wanted> {
    let UnitRecord { options, signature } = record.before.clone()?;
    options.check().ok()?;
    let content = Content::of(name, options).signed(signature);
    let refusal = refusal(name, &content.file);
    let desired = record.desired;
    content.asks.global.then(|| Wanted { content: Arc::new(content), desired, refusal })
}

/// Returns what a unit asks of this machine. If `unread`, the machine's metadata is unreadable, and
/// the unit's MachineMetadata is ignored, as the engine does.
fn asks_of_us(one: &Wanted, unread: bool) -> Arc<Requirement> {
    let asks = &one.content.asks;
    match unread && !asks.metadata.is_empty() {
        true => Arc::new(Requirement { metadata: BTreeMap::new(), ..(**asks).clone() }),
        false => asks.clone(),
    }
}

/// Returns units that ran here and are now placed on no machine. The cluster considered this
/// machine gone, and no other machine could take them. Each keeps running while this machine meets
/// its requirements.
fn kept_without_a_place(
    snapshot: &Snapshot,
    me: &MachineId,
    mut host: Host,
    unreadable: bool,
    before: &Goal,
) -> Goal {
    if planted(Mutant::NowhereIsStopped) {
        return Goal::new();
    }
    let nowhere = before.iter().filter(|(name, one)| is_unplaced(snapshot, name, one));
    let with_current_desired = |(name, one): (&UnitName, &Wanted)| {
        let desired = snapshot.desired_of(name);
        (name.clone(), Wanted { desired, ..one.clone() })
    };
    let mut kept: Goal = nowhere.map(with_current_desired).collect();
    // Each kept unit counts as placed here when the others are checked. So a follower is kept only
    // with the unit that it follows.
    let asks = |(name, one): (&UnitName, &Wanted)| (name.clone(), one.content.asks.clone());
    host.scheduled.extend(kept.iter().map(asks));
    let refused = |host: &Host, kept: &Goal| {
        let mut all = kept.iter();
        let fits =
            |name: &UnitName, one| host.takes(me, name, &asks_of_us(one, unreadable)).is_ok();
        let one = all.find(|(name, one)| !fits(name, one));
        one.map(|(name, _)| name.clone())
    };
    while let Some(name) = refused(&host, &kept) {
        kept.remove(&name);
        host.scheduled.remove(&name);
    }
    kept
}

/// Returns true if the unit is wanted, has the same file that ran here, and has no place. Exclusive
/// units are excluded: they run under a claim, and so only at their place.
fn is_unplaced(snapshot: &Snapshot, name: &UnitName, one: &Wanted) -> bool {
    let asks = &one.content.asks;
    let kept = snapshot.units.get(name);
    let same = kept.is_some_and(|kept| kept.record.hash == one.content.hash);
    same && !asks.global
        && !asks.exclusive
        && snapshot.desired_of(name) != Desired::Inactive
        && !snapshot.places.contains_key(name)
}

fn wanted(
    snapshot: &Snapshot,
    name: &UnitName,
    desired: Desired,
    hash: &str,
    before: &Goal,
) -> Option<Wanted> {
    let content = snapshot.units.get(name).map(|kept| &kept.record);
    if planted(Mutant::HashIgnored) && before.contains_key(name) {
        return before.get(name).cloned();
    }
    match content.filter(|content| content.hash == hash) {
        Some(content) => {
            let refusal = refusal(name, &content.file);
            Some(Wanted { content: content.clone(), desired, refusal })
        }
        None => before.get(name).cloned(),
    }
}

/// Builds the source for init: a *loaded* unit is a file, a *launched* unit is also a root. An
/// exclusive unit without a claim is left out, because another unit could pull it in.
pub fn source_set(goal: &Goal, held: &BTreeSet<UnitName>) -> SourceSet {
    let mut set = SourceSet::default();
    for (name, wanted) in goal {
        let unclaimed = wanted.content.asks.exclusive && !held.contains(name);
        if unclaimed && !planted(Mutant::ClaimNotAwaited) || wanted.refusal.is_some() {
            continue;
        }
        let shape = Shape::of(name, wanted);
        set.files.insert(shape.file, shape.text);
        if (wanted.desired == Desired::Launched || planted(Mutant::LoadedIsLaunched))
            && let Ok(root) = Name::new(&shape.target)
        {
            set.roots.push(root);
        }
    }
    set
}

/// Returns the state to publish for a unit. `put` is the source that init got last; `complaint` is
/// its loader's message about the file.
pub fn state(
    name: &UnitName,
    wanted: &Wanted,
    put: &SourceSet,
    unit: Option<&UnitStatus>,
    complaint: Option<&str>,
) -> StateRecord {
    let hash = wanted.content.hash.clone();
    let shape = Shape::of(name, wanted);
    let is_root = put.roots.iter().any(|root| root.as_str() == shape.target);
    let is_there = put.files.contains_key(&shape.file);
    let reached = match (is_there, is_root) {
        (true, true) => Desired::Launched,
        (true, false) => Desired::Loaded,
        (false, _) => Desired::Inactive,
    };
    let words = |load: &str, active: &str, sub: &str, reason: Option<String>| StateRecord {
        hash: hash.clone(),
        load: load.to_string(),
        active: active.to_string(),
        sub: sub.to_string(),
        reached,
        reason,
        ended: None,
        run: None,
    };
    // A unit that is refused now may still run if init accepts no new source.
    let is_own = put.files.get(&shape.file) == Some(&shape.text);
    if let Some(refusal) = wanted.refusal.as_ref().filter(|_| !is_own) {
        return words("error", "inactive", "dead", Some(refusal.clone()));
    }
    if !is_there && wanted.desired == Desired::Loaded && is_down(unit) {
        // An exclusive unit that is not running has no file at init: this is its *loaded* state.
        return StateRecord {
            reached: Desired::Loaded,
            ..words("loaded", "inactive", "dead", None)
        };
    }
    if !is_there {
        let reason = match wanted.content.asks.exclusive {
            true => "another machine, or an earlier run of this one, still holds its claim",
            false => {
                "init does not have it yet: fleetd first stops an exclusive unit with the same name, \
                 or waits for a claim"
            }
        };
        return words("loaded", "inactive", "dead", Some(reason.to_string()));
    }
    match (unit, complaint) {
        (Some(unit), complaint) => {
            let shown = Shown::of(unit, false);
            let config =
                matches!(unit.reason.as_ref().map(|why| &why.cause), Some(Cause::Config { .. }));
            let ended = ended(unit).filter(|_| shown.active == "inactive" && !config);
            let text = unit.reason.as_ref().map(|reason| reason.text.clone());
            let counts = config || !unit.state.is_active() || ended == Some(Ended::Skipped);
            let reason = wanted.refusal.clone().or(text.filter(|_| counts));
            let reason = reason.or(complaint.map(str::to_string));
            StateRecord {
                ended,
                run: unit.run,
                ..words(shown.load, shown.active, shown.sub, reason)
            }
        }
        (None, Some(complaint)) => words("error", "inactive", "dead", Some(complaint.to_string())),
        (None, None) => words("not-found", "inactive", "dead", misnamed(wanted, &shape.target)),
    }
}

/// Explains that init has no such unit because its native file states another name.
fn misnamed(wanted: &Wanted, stem: &str) -> Option<String> {
    let native = wanted.content.native()?;
    let stated = native.scalar("unit").or_else(|| native.scalar("name"))?;
    (stated != stem).then(|| format!("its file is for the unit {stated:?}, not {stem:?}"))
}

/// Returns the state to publish while init does not answer or rejects the source: the state
/// published `last`, and `why` it may be stale.
pub fn last_state(wanted: &Wanted, last: Option<&StateRecord>, why: &str) -> StateRecord {
    let never = || StateRecord {
        hash: wanted.content.hash.clone(),
        load: "not-found".to_string(),
        active: "inactive".to_string(),
        sub: "dead".to_string(),
        reached: Desired::Inactive,
        reason: None,
        ended: None,
        run: None,
    };
    StateRecord { reason: Some(why.to_string()), ..last.cloned().unwrap_or_else(never) }
}

//! What a machine does with what it was told: its schedule and the global units in, files
//! and roots for its init out; and what init says of them in the words fleet's users
//! know. Pure: who asks etcd and init is [`crate::fleetd::unit_runner`].

mod end;
mod shape;

pub use end::{has_given_way, is_down, is_out};
pub use shape::{files, holds, is_of, is_put, keeps_what_runs, refusal, targets};

use crate::desired::Desired;
use crate::machine::MachineId;
use crate::mutant::{Mutant, planted};
use crate::placement::Seat;
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

/// A unit that is to be here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Its file.
    pub content: Arc<Content>,
    /// `Loaded` or `Launched`.
    pub desired: Desired,
    /// Why it is not run here, though it is to be.
    pub refusal: Option<String>,
}

impl Wanted {
    /// It may run only while we hold its claim.
    pub fn needs_claim(&self) -> bool {
        self.content.asks.exclusive && self.desired == Desired::Launched && self.refusal.is_none()
    }
}

/// Begins why a unit is not run whose name at init another one has.
const NAMESAKE: &str = "to this machine's init it has the same name as ";

/// Of units that have one name at init, be it an alias, one is run: the one that was run `before`, or
/// else the first by its name. Of the others it is told: with both of them init would take neither.
pub fn part_namesakes(goal: &mut Goal, before: &Goal) {
    for one in goal.values_mut() {
        let is_old = |said: &String| said.starts_with(NAMESAKE);
        one.refusal = one.refusal.take().filter(|said| !is_old(said));
    }
    let runs = goal.iter().filter(|(_, one)| one.refusal.is_none());
    let mut all: Vec<(u8, &UnitName, BTreeSet<String>)> = runs
        .map(|(name, one)| {
            let was = before.get(name).filter(|was| was.refusal.is_none());
            let own = names(name, one);
            let turn = match was {
                Some(was) if own.is_subset(&names(name, was)) => 0,
                // It may have taken the name of another one that runs; not of one that does not.
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
            one.refusal = Some(format!("{NAMESAKE}{holder}, which is here too"));
        }
    }
}

/// What init calls it.
pub fn called(name: &UnitName, wanted: &Wanted) -> String {
    target(name, wanted)
}

/// Which of init's is this one of ours.
pub fn find<'a, T>(
    name: &UnitName,
    wanted: &Wanted,
    all: &'a BTreeMap<String, T>,
) -> Option<&'a T> {
    all.get(&target(name, wanted))
}

/// What was said of its file.
pub fn complaint<'a>(
    name: &UnitName,
    wanted: &Wanted,
    all: &'a BTreeMap<String, String>,
) -> Option<&'a str> {
    all.get(&Shape::of(name, wanted).file).map(String::as_str)
}

/// What init has under its names is another one of ours: one that needs no claim, or a native unit of
/// the same stem.
pub fn is_another(put: &SourceSet, goal: &Goal, name: &UnitName) -> bool {
    let own = files(name);
    let runs = goal.iter().filter(|(_, one)| one.refusal.is_none());
    let others = runs.filter(|(other, one)| *other != name || !one.content.asks.exclusive);
    let shapes: Vec<Shape> = others.map(|(other, one)| Shape::of(other, one)).collect();
    let mut files = own.iter().filter_map(|file| put.files.get_key_value(file));
    files.all(|(file, text)| shapes.iter().any(|shape| shape.file == *file && shape.text == *text))
}

/// Another one of ours is what init calls by one of its names now.
pub fn has_heir(goal: &Goal, name: &UnitName) -> bool {
    let own = targets(name);
    let runs = goal.iter().filter(|(other, one)| *other != name && one.refusal.is_none());
    runs.into_iter().any(|(other, one)| own.contains(&target(other, one)))
}

/// All of them.
pub type Goal = BTreeMap<UnitName, Wanted>;

/// What is to be on this machine. A unit whose file is not (or not yet) the one the
/// schedule speaks of stays as it was `before`.
pub fn goal(snapshot: &Snapshot, me: &MachineId, before: &Goal) -> Goal {
    let mut goal = Goal::new();
    let mut seat = Seat { machine: snapshot.machine(me).unwrap_or_default(), ..Seat::default() };
    let obscured = snapshot.is_obscured(me);
    for (name, told) in snapshot.schedules.get(me).into_iter().flatten() {
        let told = &told.record;
        if told.desired == Desired::Inactive {
            continue;
        }
        if let Some(wanted) = wanted(snapshot, name, told.desired, &told.hash, before) {
            seat.scheduled.insert(name.clone(), wanted.content.asks.clone());
            goal.insert(name.clone(), wanted);
        }
    }
    let globals: Goal = snapshot
        .globals
        .iter()
        .filter(|(name, told)| told.record.desired != Desired::Inactive && !name.is_template())
        .filter_map(|(name, told)| {
            let (desired, hash) = (told.record.desired, &told.record.hash);
            let waits = told.record.first.as_ref().is_some_and(|first| !first.contains(me));
            // Its new file is not for this machine yet.
            let own = || before.get(name).map(|one| Wanted { desired, ..one.clone() });
            if let Some(one) =
                waits.then(|| own().or_else(|| before_it(name, &told.record))).flatten()
            {
                return Some((name.clone(), one));
            }
            Some((name.clone(), wanted(snapshot, name, desired, hash, before)?))
        })
        .collect();
    let asks = |(name, _): (&UnitName, _)| {
        let one = globals.get(name)?;
        Some((name.clone(), asks_of_us(one, obscured && before.contains_key(name))))
    };
    let asked: Vec<(UnitName, Arc<Requirement>)> =
        snapshot.globals_by_age().into_iter().filter_map(asks).collect();
    seat.globals = seat.choose_globals(asked.iter().map(|(name, asks)| (name, asks)));
    goal.extend(globals.into_iter().filter(|(name, _)| seat.globals.contains_key(name)));
    goal.extend(orphans(snapshot, me, seat, obscured, before));
    for name in &snapshot.withheld {
        if let (None, Some(one)) = (goal.get(name), before.get(name)) {
            goal.insert(name.clone(), one.clone());
        }
    }
    goal
}

/// The file of a global unit that all had before the one that is rolled out: a machine that has none, for it
/// was booted meanwhile, begins with that one.
fn before_it(name: &UnitName, told: &ScheduleRecord) -> Option<Wanted> {
    let UnitRecord { options, signature } = told.before.clone()?;
    options.check().ok()?;
    let content = Content::of(name, options).signed(signature);
    let refusal = refusal(name, &content.file);
    let desired = told.desired;
    content.asks.global.then(|| Wanted { content: Arc::new(content), desired, refusal })
}

/// What a unit asks of this machine. Where nobody can read what the machine says of itself, what is
/// here is taken to fit, as the engine takes it.
fn asks_of_us(one: &Wanted, unread: bool) -> Arc<Requirement> {
    let asks = &one.content.asks;
    match unread && !asks.metadata.is_empty() {
        true => Arc::new(Requirement { metadata: BTreeMap::new(), ..(**asks).clone() }),
        false => asks.clone(),
    }
}

/// What ran here and is on no machine now: the cluster took this one for gone, and nobody else
/// could have it. It goes on as long as it may be put here again.
fn orphans(
    snapshot: &Snapshot,
    me: &MachineId,
    mut seat: Seat,
    obscured: bool,
    before: &Goal,
) -> Goal {
    if planted(Mutant::NowhereIsStopped) {
        return Goal::new();
    }
    let nowhere = before.iter().filter(|(name, one)| is_nowhere(snapshot, name, one));
    let as_wished = |(name, one): (&UnitName, &Wanted)| {
        let desired = snapshot.desired_of(name);
        (name.clone(), Wanted { desired, ..one.clone() })
    };
    let mut kept: Goal = nowhere.map(as_wished).collect();
    // Beside each other, too: one that follows another is kept with it, and goes with it.
    let asks = |(name, one): (&UnitName, &Wanted)| (name.clone(), one.content.asks.clone());
    seat.scheduled.extend(kept.iter().map(asks));
    let refused = |seat: &Seat, kept: &Goal| {
        let mut all = kept.iter();
        let fits = |name: &UnitName, one| seat.takes(me, name, &asks_of_us(one, obscured)).is_ok();
        let one = all.find(|(name, one)| !fits(name, one));
        one.map(|(name, _)| name.clone())
    };
    while let Some(name) = refused(&seat, &kept) {
        kept.remove(&name);
        seat.scheduled.remove(&name);
    }
    kept
}

/// It is wished, with the very file that was here, and is nowhere. (An exclusive unit runs under
/// a claim, and so only where its place is.)
fn is_nowhere(snapshot: &Snapshot, name: &UnitName, one: &Wanted) -> bool {
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

/// What init is told: *loaded* is the file, *launched* is a root as well. What may run
/// only with a claim is not even there without it: another unit could pull it in.
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

/// What the others are told of a unit. `put`: what init was told last. `complaint`: what its
/// loader said of the file.
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
    // What is refused by now may run on where init takes nothing new.
    let is_own = put.files.get(&shape.file) == Some(&shape.text);
    if let Some(refusal) = wanted.refusal.as_ref().filter(|_| !is_own) {
        return words("error", "inactive", "dead", Some(refusal.clone()));
    }
    if !is_there && wanted.desired == Desired::Loaded && is_down(unit) {
        // An exclusive unit that does not run is not even there: that is its *loaded*.
        return StateRecord {
            reached: Desired::Loaded,
            ..words("loaded", "inactive", "dead", None)
        };
    }
    if !is_there {
        let reason = match wanted.content.asks.exclusive {
            true => "another machine, or an earlier run of this one, has claimed it still",
            false => {
                "init is not told of it yet: what runs under its name by a claim is stopped first, \
                 or a claim is waited for"
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
            let said = unit.reason.as_ref().map(|reason| reason.text.clone());
            let counts = config || !unit.state.is_active() || ended == Some(Ended::Skipped);
            let reason = wanted.refusal.clone().or(said.filter(|_| counts));
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

/// Why init has no such unit, of a native file that says that it is another one.
fn misnamed(wanted: &Wanted, stem: &str) -> Option<String> {
    let native = wanted.content.native()?;
    let said = native.scalar("unit").or_else(|| native.scalar("name"))?;
    (said != stem).then(|| format!("its file says that it is {said:?}, and not {stem:?}"))
}

/// What the others are told of a unit while init does not answer, or does not take it: what was told
/// `last`, and `why` that may not be so any more.
pub fn state_unseen(wanted: &Wanted, last: Option<&StateRecord>, why: &str) -> StateRecord {
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

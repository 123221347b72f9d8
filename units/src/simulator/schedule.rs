//! What the operator and the world do to a machine in one schedule: wishes, drawn
//! with weights that each seed sets for itself (swarm profiles). A wish holds dice of
//! its own and is made into an event only when its time comes, so a shrunk schedule
//! still means something. Run in [`crate::simulator::run`].

use crate::machine::event::{Event, Goal, Shutdown};
use crate::simulator::chance::Chance;
use crate::simulator::fault::{FAULTS, Fault, Rates};
use crate::simulator::graph::Universe;
use crate::simulator::sheet::Sheet;
use crate::simulator::{place, shape};
use crate::spec::DependencyKind as D;
use crate::text::name::Name;
use crate::text::time::Time;
use std::time::Duration;

/// Kinds of wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kindly {
    /// A new goal, perhaps with an overlay.
    SetGoal,
    /// One more in the overlay.
    Want,
    /// One less.
    Unwant,
    /// Mask or unmask.
    Mask,
    /// Another provider.
    Prefer,
    /// `wanted-by` on or off.
    Enable,
    /// Changed files.
    Reload,
    /// Replace runs.
    Restart,
    /// exec-reload.
    ReloadUnit,
    /// Clear failures.
    Retry,
    /// A trigger fires.
    Fire,
    /// The end.
    Shutdown,
}

/// All kinds.
pub const KINDS: [Kindly; 12] = [
    Kindly::SetGoal,
    Kindly::Want,
    Kindly::Unwant,
    Kindly::Mask,
    Kindly::Prefer,
    Kindly::Enable,
    Kindly::Reload,
    Kindly::Restart,
    Kindly::ReloadUnit,
    Kindly::Retry,
    Kindly::Fire,
    Kindly::Shutdown,
];

/// One wish.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// After the one before.
    pub gap: Duration,
    /// What.
    pub kind: Kindly,
    /// Its dice.
    pub dice: u64,
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Of everything drawn.
    pub seed: u64,
    /// What the clock says when it begins.
    pub begin: Time,
    /// In order.
    pub wishes: Vec<Wish>,
    /// How often runs fail.
    pub rates: Rates,
    /// Ends with the faults, and then must converge; else the faults never end.
    pub lively: bool,
}

/// Draws the schedule of a seed.
pub fn draw(seed: u64) -> Schedule {
    let mut dice = Chance::of(seed, 2, 0);
    let mut weights = [0u32; KINDS.len()];
    for weight in &mut weights {
        *weight = [0, 1, 3, 8][dice.below(4)];
    }
    weights[Kindly::Shutdown as usize] = u32::from(dice.percent(15));
    if weights.iter().all(|weight| *weight == 0) {
        weights = [1; KINDS.len()];
    }
    let mut rates = [0u32; FAULTS];
    for fault in Fault::ALL {
        rates[fault as usize] = [0, 0, 5, 25][dice.below(4)];
    }
    for rare in [Fault::Unkillable, Fault::Skipped, Fault::ExecError, Fault::Hang] {
        rates[rare as usize] /= 2;
    }
    let pace = [20, 300, 2_000, 12_000][dice.below(4)];
    let count = dice.between(25, 60);
    let wishes = (0..count).map(|_| Wish {
        gap: Duration::from_millis(dice.between(0, pace)) * dice.below(2) as u32,
        kind: KINDS[dice.weighted(&weights)],
        dice: dice.draw(),
    });
    Schedule {
        seed,
        begin: begin(seed),
        wishes: wishes.collect(),
        rates,
        lively: seed.is_multiple_of(2),
    }
}

/// Every fourth begins shortly before its clock passes what somebody's number would not hold:
/// 32 bits of jiffies at 100 Hz (497 days), 63 bits of nanoseconds. Not drawn, so that a seed stays
/// the schedule it was.
fn begin(seed: u64) -> Time {
    let shortly = Duration::from_secs(10).as_nanos() as u64;
    match seed % 8 {
        3 => Time::from_nanos((1 << 32) * 10_000_000 - shortly),
        6 => Time::from_nanos(Time::HALF.as_nanos() - shortly),
        _ => Time::from_nanos(1_000_000_000),
    }
}

impl Wish {
    /// As an event, for the sheet of the moment; a reload or a policy changes the sheet
    /// that is handed back with it (taken over only when the machine accepts).
    pub fn event(
        &self,
        sheet: &Sheet,
        universe: &Universe,
        now: Time,
        generation: u32,
    ) -> Option<(Event, Sheet)> {
        let dice = &mut Chance::new(self.dice);
        let mut next = sheet.clone();
        let name = |target: usize| universe.targets[target].clone();
        let any = |dice: &mut Chance| target(dice, sheet);
        let event = match self.kind {
            Kindly::SetGoal => {
                let targets = (0..dice.between(1, 2)).filter_map(|_| any(dice)).map(name).collect();
                let mut goal = Goal { targets, ..Goal::default() };
                if dice.percent(30) {
                    goal.want.extend(any(dice).map(|target| (name(target), until(dice, now))));
                }
                if dice.percent(20) {
                    goal.drop.extend(any(dice).map(name));
                }
                Event::SetGoal(goal)
            }
            Kindly::Want => Event::Want { target: name(any(dice)?), until: until(dice, now) },
            Kindly::Unwant => Event::Unwant(name(any(dice)?)),
            Kindly::Mask => {
                let mask = &mut next.policy.mask;
                if dice.percent(60) && !mask.is_empty() {
                    let at = dice.below(mask.len());
                    let old = mask.iter().nth(at).cloned()?;
                    mask.remove(&old);
                } else {
                    mask.insert(name(any(dice)?));
                }
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Prefer => {
                let shared: Vec<usize> = (0..universe.targets.len())
                    .filter(|target| claims(sheet, *target).len() > 1)
                    .collect();
                let target = dice.pick(&shared)?;
                let unit = dice.pick(&claims(sheet, target))?;
                next.policy.prefer.insert(name(target), universe.units[unit].clone());
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Enable => {
                let target: Name = name(any(dice)?);
                let (on, off) = (&mut next.policy.enable, &mut next.policy.disable);
                let (into, from) = if dice.percent(50) { (on, off) } else { (off, on) };
                from.remove(&target);
                into.insert(target);
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Reload => {
                for _ in 0..dice.between(1, 3) {
                    edit(&mut next, dice);
                }
                let generation = next.generation(universe, generation);
                // Every fourth is a source's. Not drawn, so that a seed stays the schedule it was.
                let tolerant = generation.number % 4 == 3;
                Event::Reload { generation, no_restart: dice.percent(10), tolerant }
            }
            Kindly::Restart => Event::Restart(vec![name(any(dice)?)]),
            Kindly::ReloadUnit => Event::ReloadUnit(vec![name(any(dice)?)]),
            Kindly::Retry => Event::Retry(vec![name(any(dice)?)]),
            Kindly::Fire => {
                let triggers = place::that_fire(sheet);
                Event::Fire(universe.units[dice.pick(&triggers)?].clone())
            }
            Kindly::Shutdown => Event::Shutdown(Shutdown::Exit(dice.below(3) as u8)),
        };
        Some((event, next))
    }
}

fn until(dice: &mut Chance, now: Time) -> Option<Time> {
    let span = Duration::from_millis(dice.between(1, 20_000));
    dice.percent(40).then(|| now.after(span))
}

fn target(dice: &mut Chance, sheet: &Sheet) -> Option<usize> {
    let units: Vec<&crate::simulator::sheet::Entry> = sheet.units.values().collect();
    let entry = units.get(dice.below(units.len()))?;
    dice.pick(&entry.provides)
}

fn claims(sheet: &Sheet, target: usize) -> Vec<usize> {
    let claims = sheet.units.iter().filter(|(_, entry)| entry.provides.contains(&target));
    claims.map(|(unit, _)| *unit).collect()
}

/// One edit of the files. Orders stay from higher to lower ranks.
fn edit(sheet: &mut Sheet, dice: &mut Chance) {
    let units: Vec<usize> = sheet.units.keys().copied().collect();
    let Some(unit) = dice.pick(&units) else { return };
    let other = dice.pick(&units).unwrap_or(unit);
    let lower = sheet.rank[other] < sheet.rank[unit];
    let free: Vec<usize> =
        (0..sheet.rank.len()).filter(|unit| !sheet.units.contains_key(unit)).collect();
    let Some(entry) = sheet.units.get_mut(&unit) else { return };
    match dice.below(13) {
        0 | 1 => entry.run_hash = dice.draw() | 1,
        2 => {
            shape::keys(dice, &mut entry.live);
            if sheet.rich {
                shape::more_keys(dice, entry.kind, &mut entry.live);
            }
        }
        3 => entry.live.description.push('.'),
        4 | 5 if lower => {
            let kinds = [D::DependsOn, D::DependsMs, D::WaitsFor, D::After, D::RequiresActive];
            let kind = kinds[dice.below(4 + usize::from(sheet.rich))];
            entry.edges.retain(|(_, target, _)| *target != other);
            entry.edges.push((kind, other, false));
        }
        4 | 5 if unit != other => {
            let kind =
                [D::Wants, D::RestartWith, D::Conflicts, D::Before][dice.weighted(&[4, 3, 1, 2])];
            let others = [kind, D::ReloadWith, D::OnFailure, D::OnSuccess];
            let kind = if sheet.rich { others[dice.below(4)] } else { kind };
            entry.edges.retain(|(_, target, _)| *target != other);
            entry.edges.push((kind, other, false));
        }
        6 | 7 => {
            let at = dice.below(entry.edges.len());
            if at < entry.edges.len() {
                entry.edges.remove(at);
            }
        }
        8 if units.len() > 4 => {
            sheet.units.remove(&unit);
        }
        9 => {
            if let Some(fresh) = dice.pick(&free) {
                let mut entry = shape::entry(dice, fresh, false);
                sheet.rank[fresh] = 0;
                for _ in 0..2 {
                    if let Some(onto) = dice.pick(&units) {
                        sheet.rank[fresh] = sheet.rank[fresh].max(sheet.rank[onto] + 1);
                        entry.edges.push((D::WaitsFor, onto, false));
                    }
                }
                let user = dice.pick(&units).filter(|user| sheet.rank[*user] > sheet.rank[fresh]);
                sheet.units.insert(fresh, entry);
                if let Some(user) = user.and_then(|user| sheet.units.get_mut(&user)) {
                    user.edges.push((D::Wants, fresh, false));
                }
            }
        }
        10 => entry.live.essential = !entry.live.essential,
        11 => entry.live.stop_promptly = !entry.live.stop_promptly,
        _ if entry.kind.has_process() => {
            entry.has_exec_stop = !entry.has_exec_stop;
            entry.run_hash = dice.draw() | 1;
        }
        _ => {}
    }
}

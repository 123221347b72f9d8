//! What the operator and the world do to a machine in one schedule: wishes, drawn
//! with weights that each seed sets for itself (swarm profiles). A wish holds an rng of
//! its own and is made into an event only when its time comes, so a shrunk schedule
//! still means something. Run in [`crate::simulator::run`].

use crate::machine::event::{Event, Goal, Shutdown};
use crate::simulator::fault::{FAULTS, Fault, Rates};
use crate::simulator::graph::Universe;
use crate::simulator::rng::Rng;
use crate::simulator::unit_model::UnitModel;
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
    /// Its rng.
    pub rng: u64,
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
    let mut rng = Rng::of(seed, 2, 0);
    let mut weights = [0u32; KINDS.len()];
    for weight in &mut weights {
        *weight = [0, 1, 3, 8][rng.below(4)];
    }
    weights[Kindly::Shutdown as usize] = u32::from(rng.percent(15));
    if weights.iter().all(|weight| *weight == 0) {
        weights = [1; KINDS.len()];
    }
    let mut rates = [0u32; FAULTS];
    for fault in Fault::ALL {
        rates[fault as usize] = [0, 0, 5, 25][rng.below(4)];
    }
    for rare in [Fault::Unkillable, Fault::Skipped, Fault::ExecError, Fault::Hang] {
        rates[rare as usize] /= 2;
    }
    let pace = [20, 300, 2_000, 12_000][rng.below(4)];
    let count = rng.between(25, 60);
    let wishes = (0..count).map(|_| Wish {
        gap: Duration::from_millis(rng.between(0, pace)) * rng.below(2) as u32,
        kind: KINDS[rng.weighted(&weights)],
        rng: rng.draw(),
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
    /// As an event, for the model of the moment; a reload or a policy changes the model
    /// that is handed back with it (taken over only when the machine accepts).
    pub fn event(
        &self,
        model: &UnitModel,
        universe: &Universe,
        now: Time,
        generation: u32,
    ) -> Option<(Event, UnitModel)> {
        let rng = &mut Rng::new(self.rng);
        let mut next = model.clone();
        let name = |target: usize| universe.targets[target].clone();
        let any = |rng: &mut Rng| target(rng, model);
        let event = match self.kind {
            Kindly::SetGoal => {
                let targets = (0..rng.between(1, 2)).filter_map(|_| any(rng)).map(name).collect();
                let mut goal = Goal { targets, ..Goal::default() };
                if rng.percent(30) {
                    goal.want.extend(any(rng).map(|target| (name(target), until(rng, now))));
                }
                if rng.percent(20) {
                    goal.drop.extend(any(rng).map(name));
                }
                Event::SetGoal(goal)
            }
            Kindly::Want => Event::Want { target: name(any(rng)?), until: until(rng, now) },
            Kindly::Unwant => Event::Unwant(name(any(rng)?)),
            Kindly::Mask => {
                let mask = &mut next.policy.mask;
                if rng.percent(60) && !mask.is_empty() {
                    let at = rng.below(mask.len());
                    let old = mask.iter().nth(at).cloned()?;
                    mask.remove(&old);
                } else {
                    mask.insert(name(any(rng)?));
                }
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Prefer => {
                let shared: Vec<usize> = (0..universe.targets.len())
                    .filter(|target| claims(model, *target).len() > 1)
                    .collect();
                let target = rng.pick(&shared)?;
                let unit = rng.pick(&claims(model, target))?;
                next.policy.prefer.insert(name(target), universe.units[unit].clone());
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Enable => {
                let target: Name = name(any(rng)?);
                let (on, off) = (&mut next.policy.enable, &mut next.policy.disable);
                let (into, from) = if rng.percent(50) { (on, off) } else { (off, on) };
                from.remove(&target);
                into.insert(target);
                Event::SetPolicy(next.policy.clone())
            }
            Kindly::Reload => {
                for _ in 0..rng.between(1, 3) {
                    edit(&mut next, rng);
                }
                let generation = next.generation(universe, generation);
                // Every fourth is a source's. Not drawn, so that a seed stays the schedule it was.
                let tolerant = generation.number % 4 == 3;
                Event::Reload { generation, no_restart: rng.percent(10), tolerant }
            }
            Kindly::Restart => Event::Restart(vec![name(any(rng)?)]),
            Kindly::ReloadUnit => Event::ReloadUnit(vec![name(any(rng)?)]),
            Kindly::Retry => Event::Retry(vec![name(any(rng)?)]),
            Kindly::Fire => {
                let triggers = place::that_fire(model);
                Event::Fire(universe.units[rng.pick(&triggers)?].clone())
            }
            Kindly::Shutdown => Event::Shutdown(Shutdown::Exit(rng.below(3) as u8)),
        };
        Some((event, next))
    }
}

fn until(rng: &mut Rng, now: Time) -> Option<Time> {
    let span = Duration::from_millis(rng.between(1, 20_000));
    rng.percent(40).then(|| now.after(span))
}

fn target(rng: &mut Rng, model: &UnitModel) -> Option<usize> {
    let units: Vec<&crate::simulator::unit_model::Entry> = model.units.values().collect();
    let entry = units.get(rng.below(units.len()))?;
    rng.pick(&entry.provides)
}

fn claims(model: &UnitModel, target: usize) -> Vec<usize> {
    let claims = model.units.iter().filter(|(_, entry)| entry.provides.contains(&target));
    claims.map(|(unit, _)| *unit).collect()
}

/// One edit of the files. Orders stay from higher to lower ranks.
fn edit(model: &mut UnitModel, rng: &mut Rng) {
    let units: Vec<usize> = model.units.keys().copied().collect();
    let Some(unit) = rng.pick(&units) else { return };
    let other = rng.pick(&units).unwrap_or(unit);
    let lower = model.rank[other] < model.rank[unit];
    let free: Vec<usize> =
        (0..model.rank.len()).filter(|unit| !model.units.contains_key(unit)).collect();
    let Some(entry) = model.units.get_mut(&unit) else { return };
    match rng.below(13) {
        0 | 1 => entry.run_hash = rng.draw() | 1,
        2 => {
            shape::keys(rng, &mut entry.live);
            if model.rich {
                shape::more_keys(rng, entry.kind, &mut entry.live);
            }
        }
        3 => entry.live.description.push('.'),
        4 | 5 if lower => {
            let kinds = [D::DependsOn, D::DependsMs, D::WaitsFor, D::After, D::RequiresActive];
            let kind = kinds[rng.below(4 + usize::from(model.rich))];
            entry.edges.retain(|(_, target, _)| *target != other);
            entry.edges.push((kind, other, false));
        }
        4 | 5 if unit != other => {
            let kind =
                [D::Wants, D::RestartWith, D::Conflicts, D::Before][rng.weighted(&[4, 3, 1, 2])];
            let others = [kind, D::ReloadWith, D::OnFailure, D::OnSuccess];
            let kind = if model.rich { others[rng.below(4)] } else { kind };
            entry.edges.retain(|(_, target, _)| *target != other);
            entry.edges.push((kind, other, false));
        }
        6 | 7 => {
            let at = rng.below(entry.edges.len());
            if at < entry.edges.len() {
                entry.edges.remove(at);
            }
        }
        8 if units.len() > 4 => {
            model.units.remove(&unit);
        }
        9 => {
            if let Some(fresh) = rng.pick(&free) {
                let mut entry = shape::entry(rng, fresh, false);
                model.rank[fresh] = 0;
                for _ in 0..2 {
                    if let Some(onto) = rng.pick(&units) {
                        model.rank[fresh] = model.rank[fresh].max(model.rank[onto] + 1);
                        entry.edges.push((D::WaitsFor, onto, false));
                    }
                }
                let user = rng.pick(&units).filter(|user| model.rank[*user] > model.rank[fresh]);
                model.units.insert(fresh, entry);
                if let Some(user) = user.and_then(|user| model.units.get_mut(&user)) {
                    user.edges.push((D::Wants, fresh, false));
                }
            }
        }
        10 => entry.live.essential = !entry.live.essential,
        11 => entry.live.stop_promptly = !entry.live.stop_promptly,
        _ if entry.kind.has_process() => {
            entry.has_exec_stop = !entry.has_exec_stop;
            entry.run_hash = rng.draw() | 1;
        }
        _ => {}
    }
}

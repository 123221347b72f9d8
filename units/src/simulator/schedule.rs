//! The wishes of one schedule, drawn with weights that each seed chooses (swarm profiles). A wish
//! has its own rng and becomes an event only when its time comes, so that a shrunk schedule is
//! still meaningful. [`crate::simulator::run`] plays it.

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

/// The kind of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishKind {
    /// Set a new goal, possibly with an overlay.
    SetGoal,
    /// Add to the overlay.
    Want,
    /// Remove from the overlay.
    Unwant,
    /// Mask or unmask.
    Mask,
    /// Prefer another provider.
    Prefer,
    /// Enable or disable `wanted-by`.
    Enable,
    /// Reload changed files.
    Reload,
    /// Restart units.
    Restart,
    /// Reload units.
    ReloadUnit,
    /// Retry units.
    Retry,
    /// Fire a trigger.
    Fire,
    /// Shut down.
    Shutdown,
}

/// All kinds.
pub const KINDS: [WishKind; 12] = [
    WishKind::SetGoal,
    WishKind::Want,
    WishKind::Unwant,
    WishKind::Mask,
    WishKind::Prefer,
    WishKind::Enable,
    WishKind::Reload,
    WishKind::Restart,
    WishKind::ReloadUnit,
    WishKind::Retry,
    WishKind::Fire,
    WishKind::Shutdown,
];

/// One wish.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Time after the previous wish.
    pub gap: Duration,
    /// The kind.
    pub kind: WishKind,
    /// Its rng.
    pub rng: u64,
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The seed.
    pub seed: u64,
    /// The clock at the start.
    pub begin: Time,
    /// The wishes in order.
    pub wishes: Vec<Wish>,
    /// The rates of faults.
    pub rates: Rates,
    /// Liveness mode: faults end, and the machine must converge. Otherwise faults never end.
    pub lively: bool,
}

/// Draws the schedule of a seed.
pub fn draw(seed: u64) -> Schedule {
    let mut rng = Rng::of(seed, 2, 0);
    let mut weights = [0u32; KINDS.len()];
    for weight in &mut weights {
        *weight = [0, 1, 3, 8][rng.below(4)];
    }
    weights[WishKind::Shutdown as usize] = u32::from(rng.percent(15));
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

/// Every fourth schedule starts shortly before its clock overflows some number: 32 bits of jiffies
/// at 100 Hz (497 days), or 63 bits of nanoseconds. Not drawn, so that a seed keeps its schedule.
fn begin(seed: u64) -> Time {
    let shortly = Duration::from_secs(10).as_nanos() as u64;
    match seed % 8 {
        3 => Time::from_nanos((1 << 32) * 10_000_000 - shortly),
        6 => Time::from_nanos(Time::HALF.as_nanos() - shortly),
        _ => Time::from_nanos(1_000_000_000),
    }
}

impl Wish {
    /// Converts the wish to an event for the present model. A reload or a policy returns the
    /// changed model, which is used only if the machine accepts it.
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
            WishKind::SetGoal => {
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
            WishKind::Want => Event::Want { target: name(any(rng)?), until: until(rng, now) },
            WishKind::Unwant => Event::Unwant(name(any(rng)?)),
            WishKind::Mask => {
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
            WishKind::Prefer => {
                let shared: Vec<usize> = (0..universe.targets.len())
                    .filter(|target| claims(model, *target).len() > 1)
                    .collect();
                let target = rng.pick(&shared)?;
                let unit = rng.pick(&claims(model, target))?;
                next.policy.prefer.insert(name(target), universe.units[unit].clone());
                Event::SetPolicy(next.policy.clone())
            }
            WishKind::Enable => {
                let target: Name = name(any(rng)?);
                let (on, off) = (&mut next.policy.enable, &mut next.policy.disable);
                let (into, from) = if rng.percent(50) { (on, off) } else { (off, on) };
                from.remove(&target);
                into.insert(target);
                Event::SetPolicy(next.policy.clone())
            }
            WishKind::Reload => {
                for _ in 0..rng.between(1, 3) {
                    edit(&mut next, rng);
                }
                let generation = next.generation(universe, generation);
                // Every fourth reload comes from a source. Not drawn, so that a seed keeps its
                // schedule.
                let tolerant = generation.number % 4 == 3;
                Event::Reload { generation, no_restart: rng.percent(10), tolerant }
            }
            WishKind::Restart => Event::Restart(vec![name(any(rng)?)]),
            WishKind::ReloadUnit => Event::ReloadUnit(vec![name(any(rng)?)]),
            WishKind::Retry => Event::Retry(vec![name(any(rng)?)]),
            WishKind::Fire => {
                let triggers = place::that_fire(model);
                Event::Fire(universe.units[rng.pick(&triggers)?].clone())
            }
            WishKind::Shutdown => Event::Shutdown(Shutdown::Exit(rng.below(3) as u8)),
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

/// Makes one edit of the files. Ordering edges still lead from higher to lower ranks.
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

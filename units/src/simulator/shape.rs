//! Draws graphs of many shapes from a seed: chains, ladders, stars, random and boot-like ones, with
//! rings of `wants`, conflicts, triggers, shared targets and all other lists. Ordering edges lead
//! from a higher rank to a lower one, so no choice of providers closes a ring.

use crate::simulator::rng::Rng;
use crate::simulator::unit_model::{EXTRA, Entry, UNITS, UnitModel, live, readiness};
use crate::simulator::{foreign, place};
use crate::spec::{
    DependencyKind as D, Kind, Live, OnChange, Readiness, Restart, RestartLimit, SuccessStatus,
};
use crate::unit::settings::Settings;
use std::collections::BTreeMap;
use std::time::Duration;

/// The names of the shapes, for the coverage report.
pub const SHAPES: [&str; 5] = ["chain", "ladder", "star", "random", "boot"];

/// The world of a seed before its schedule starts.
#[derive(Clone, Debug)]
pub struct World {
    /// The units at boot.
    pub model: UnitModel,
    /// The index in [`SHAPES`].
    pub shape: usize,
    /// The unit of the highest rank, which is the usual goal.
    pub top: usize,
}

/// Draws a world.
pub fn draw(seed: u64) -> World {
    let mut rng = Rng::of(seed, 1, 0);
    let count = match rng.below(10) {
        0 | 1 => rng.between(3, 8),
        2..=7 => rng.between(12, 16),
        _ => rng.between(16, 20),
    } as usize;
    let mut numbers: Vec<usize> = (0..UNITS).collect();
    rng.shuffle(&mut numbers);
    numbers.truncate(count);
    let mut rank = vec![0; UNITS];
    numbers.iter().enumerate().for_each(|(at, unit)| rank[*unit] = at);
    let mut model = UnitModel {
        units: BTreeMap::new(),
        rank,
        settings: settings(&mut rng),
        policy: Default::default(),
        roots: Vec::new(),
        rich: false,
    };
    for (at, unit) in numbers.iter().enumerate() {
        let entry = entry(&mut rng, *unit, at + 1 == count);
        model.units.insert(*unit, entry);
    }
    let shape = rng.below(SHAPES.len());
    for (at, unit) in numbers.iter().enumerate().skip(1) {
        for lower in below(&mut rng, shape, at, count) {
            let kind = pulling(&mut rng);
            link(&mut model, *unit, kind, numbers[lower], &mut rng);
        }
    }
    decorate(&mut model, &numbers, &mut rng);
    let mut rng = Rng::of(seed, 4, 0);
    if rng.percent(40) {
        model.rich = true;
        enrich(&mut model, &numbers, &mut rng);
    }
    let mut rng = Rng::of(seed, 5, 0);
    if rng.percent(50) {
        place::draw(&mut model, &numbers, &mut rng);
    }
    let mut rng = Rng::of(seed, 6, 0);
    if rng.percent(30) {
        foreign::draw(&mut model, &numbers, &mut rng);
    }
    World { model, shape, top: numbers.last().copied().unwrap_or(0) }
}

fn settings(rng: &mut Rng) -> Settings {
    let max_starting = [0, 0, 0, 1, 2, 3][rng.below(6)];
    let deadline = Duration::from_secs([9, 30, 90][rng.below(3)]);
    Settings { max_starting, shutdown_deadline: Some(deadline), ..Settings::default() }
}

/// Returns the units that the unit at position `at` depends on.
fn below(rng: &mut Rng, shape: usize, at: usize, count: usize) -> Vec<usize> {
    match SHAPES[shape] {
        "chain" => vec![at - 1],
        "ladder" => match at {
            1 => vec![0],
            _ if at.is_multiple_of(2) => vec![at - 2],
            _ => vec![at - 1, at - 2],
        },
        "star" if at + 1 == count => (1..at).collect(),
        "star" => vec![0],
        "random" => (0..at).filter(|_| rng.percent(25)).collect(),
        _ => {
            let layer = |place: usize| place * 4 / count.max(1);
            let lower: Vec<usize> = (0..at).filter(|other| layer(*other) < layer(at)).collect();
            if at + 1 == count {
                return (0..at).filter(|_| rng.percent(70)).collect();
            }
            let last: Vec<usize> =
                lower.iter().copied().filter(|it| layer(*it) + 1 == layer(at)).collect();
            (0..2).filter_map(|_| rng.pick(&last)).collect()
        }
    }
}

fn pulling(rng: &mut Rng) -> D {
    [D::DependsOn, D::DependsMs, D::WaitsFor, D::Wants][rng.weighted(&[40, 20, 30, 10])]
}

/// Makes `from` depend on `to` through its own target.
fn link(model: &mut UnitModel, from: usize, kind: D, to: usize, rng: &mut Rng) {
    let optional = rng.percent(8);
    if let Some(entry) = model.units.get_mut(&from)
        && !entry.edges.iter().any(|(_, target, _)| *target == to)
    {
        entry.edges.push((kind, to, optional));
    }
}

/// Draws one unit.
pub fn entry(rng: &mut Rng, unit: usize, top: bool) -> Entry {
    let kinds = [
        Kind::ForegroundSupervised,
        Kind::ForegroundNotified,
        Kind::Oneshot,
        Kind::Virtual,
        Kind::BackgroundPidfile,
        Kind::BackgroundScripted,
    ];
    let kind = if top && rng.percent(70) {
        Kind::Virtual
    } else {
        kinds[rng.weighted(&[35, 15, 18, 14, 8, 10])]
    };
    let mut live = live(kind);
    keys(rng, &mut live);
    let mut ready = readiness(kind);
    if kind == Kind::ForegroundSupervised {
        ready = match rng.below(4) {
            0 => Readiness::Wait(Duration::from_millis([0, 500, 3000][rng.below(3)])),
            1 => Readiness::Reported,
            _ => Readiness::Exec,
        };
    }
    let process = kind.has_process();
    if process && kind != Kind::BackgroundPidfile && rng.percent(15) {
        live.success_status.codes = vec![0];
        if rng.percent(50) {
            live.success_status.signals = vec![15];
        }
    }
    if kind == Kind::Virtual {
        live.success_status = Default::default();
    }
    Entry {
        kind,
        provides: vec![unit],
        edges: Vec::new(),
        wanted_by: Vec::new(),
        required_by: Vec::new(),
        pulled_by: Vec::new(),
        activates: None,
        live,
        readiness: ready,
        has_exec_stop: process && rng.percent(20),
        has_exec_reload: process && kind != Kind::Oneshot && rng.percent(30),
        run_hash: rng.draw() | 1,
        broken: false,
        has_synonyms: false,
    }
}

/// Draws keys of class live.
pub fn keys(rng: &mut Rng, live: &mut Live) {
    let ms = Duration::from_millis;
    live.start_timeout = [Some(ms(10_000)), Some(ms(2_000)), Some(ms(60_000)), None][rng.below(4)];
    live.stop_timeout =
        [Some(ms(5_000)), Some(ms(1_000)), Some(ms(0)), None][rng.weighted(&[40, 40, 5, 5])];
    live.restart_delay = ms([0, 100, 200, 1_000][rng.below(4)]);
    live.restart_delay_max = ms([60_000, 1_500, 60_000][rng.below(3)]);
    live.restart_reset = ms([60_000, 5_000, 1_000][rng.below(3)]);
    live.failure_verdict = [3, 3, 1, 2, 5][rng.below(5)];
    live.restart_limit = match rng.below(8) {
        0 => RestartLimit::InARow(rng.between(1, 5) as u32),
        1 => RestartLimit::Within(rng.between(1, 4) as u32, ms(rng.between(500, 20_000))),
        _ => RestartLimit::None,
    };
    live.restart = match rng.below(10) {
        0 => Restart::Always,
        1 => Restart::Never,
        2 => Restart::OnFailure,
        _ => live.restart,
    };
    if live.restart == Restart::Always {
        live.restart_delay = live.restart_delay.max(ms(3_000));
    }
    live.on_change =
        [OnChange::Restart, OnChange::Reload, OnChange::Keep][rng.weighted(&[80, 10, 10])];
    live.essential = rng.percent(5);
    live.stop_promptly = rng.percent(5);
}

/// Draws everything beside the plain shape.
fn decorate(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let count = numbers.len();
    let share = |percent: usize| count * percent / 100 + 1;
    let pair = |rng: &mut Rng| {
        let (a, b) = (rng.below(count), rng.below(count));
        (numbers[a.min(b)], numbers[a.max(b)], a != b)
    };
    if rng.percent(50) {
        for _ in 0..share(15) {
            let (low, high, differ) = pair(rng);
            if differ {
                link(model, low, D::Wants, high, rng); // upwards: rings
            }
        }
    }
    if rng.percent(50) {
        for _ in 0..share(15) {
            let (low, high, differ) = pair(rng);
            let (from, kind, to) = match rng.below(3) {
                0 => (high, D::After, low),
                1 => (low, D::Before, high),
                _ => (high, D::WaitsFor, low),
            };
            if differ {
                link(model, from, kind, to, rng);
            }
        }
    }
    if rng.percent(40) {
        for _ in 0..share(10) {
            let (a, b, differ) = pair(rng);
            let (from, to) = if rng.percent(50) { (a, b) } else { (b, a) };
            if differ {
                link(model, from, D::RestartWith, to, rng);
            }
        }
    }
    if rng.percent(30) {
        for _ in 0..share(10) {
            let (a, b, differ) = pair(rng);
            if differ {
                link(model, a, D::Conflicts, b, rng);
            }
        }
    }
    if rng.percent(40) {
        shared(model, numbers, rng);
    }
    if rng.percent(30) {
        let (low, high, differ) = pair(rng);
        if differ && let Some(entry) = model.units.get_mut(&low) {
            let list = if rng.percent(60) { &mut entry.wanted_by } else { &mut entry.required_by };
            list.push(high);
        }
    }
    if rng.percent(35) {
        triggers(model, numbers, rng);
    }
    if rng.percent(15) {
        model.roots = vec![numbers[rng.below(count)]];
    }
}

/// Draws properties of imported units.
fn enrich(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    for entry in model.units.values_mut() {
        more_keys(rng, entry.kind, &mut entry.live);
    }
    let count = numbers.len();
    for kind in [D::RequiresActive, D::ReloadWith, D::OnFailure, D::OnSuccess] {
        if rng.percent(50) {
            continue;
        }
        for _ in 0..count / 5 + 1 {
            let (a, b) = (rng.below(count), rng.below(count));
            // Ordering edges lead from a higher rank to a lower one.
            let (from, to) = if kind.orders() { (a.max(b), a.min(b)) } else { (a, b) };
            if from != to {
                link(model, numbers[from], kind, numbers[to], rng);
            }
        }
    }
    if rng.percent(50) {
        reload_chain(model, numbers);
    }
}

/// Makes each unit reload with the previous one, and gives it a way to reload.
fn reload_chain(model: &mut UnitModel, numbers: &[usize]) {
    let can = |unit: &usize| {
        let kind = model.units.get(unit).map(|entry| entry.kind);
        matches!(kind, Some(Kind::ForegroundSupervised | Kind::ForegroundNotified))
    };
    let chain: Vec<usize> = numbers.iter().copied().filter(can).collect();
    for pair in chain.windows(2) {
        let Some(entry) = model.units.get_mut(&pair[1]) else { continue };
        entry.has_exec_reload = true;
        if !entry.edges.iter().any(|(_, target, _)| *target == pair[0]) {
            entry.edges.push((D::ReloadWith, pair[0], false));
        }
    }
    if let Some(entry) = chain.first().and_then(|first| model.units.get_mut(first)) {
        entry.has_exec_reload = true;
    }
}

/// Draws more keys of class live.
pub fn more_keys(rng: &mut Rng, kind: Kind, live: &mut Live) {
    let ms = Duration::from_millis;
    if !kind.has_process() {
        return;
    }
    if kind != Kind::Oneshot {
        live.run_timeout = [None, None, Some(ms(8_000)), Some(ms(90_000))][rng.below(4)];
    }
    live.restart = match rng.below(8) {
        0 => Restart::OnSuccess,
        1 => Restart::OnAbnormal,
        2 => Restart::OnAbort,
        3 => Restart::OnWatchdog,
        _ => live.restart,
    };
    let list = |rng: &mut Rng| SuccessStatus {
        codes: [vec![], vec![0], vec![1], vec![1, 2]][rng.below(4)].clone(),
        signals: [vec![], vec![], vec![9], vec![6, 15]][rng.below(4)].clone(),
    };
    live.restart_except = if rng.percent(20) { list(rng) } else { SuccessStatus::default() };
    live.restart_also = if rng.percent(20) { list(rng) } else { SuccessStatus::default() };
    let restless = live.restart == Restart::OnSuccess || live.restart_also.codes.contains(&0);
    if restless {
        live.restart_delay = live.restart_delay.max(ms(3_000));
    }
}

/// Draws targets that several units claim, one of them preferred, and second targets.
fn shared(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let count = numbers.len();
    let universe = crate::simulator::unit_model::universe();
    for x in 0..rng.between(1, 3) as usize {
        let target = UNITS + x % EXTRA;
        let claims = rng.between(1, 2);
        for _ in 0..claims {
            let unit = numbers[rng.below(count.div_ceil(2))];
            if let Some(entry) = model.units.get_mut(&unit) {
                if !entry.provides.contains(&target) {
                    entry.provides.push(target);
                }
                if rng.percent(70) {
                    let names = (universe.targets[target].clone(), universe.units[unit].clone());
                    model.policy.prefer.insert(names.0, names.1);
                }
            }
        }
        let first = model.units.iter().find(|(_, entry)| entry.provides.contains(&target));
        if let Some((unit, _)) = first {
            let names = (universe.targets[target].clone(), universe.units[*unit].clone());
            model.policy.prefer.entry(names.0).or_insert(names.1);
        }
        for _ in 0..2 {
            let unit = numbers[rng.below(count)];
            let above = model.rank_of(target).is_some_and(|rank| model.rank[unit] > rank);
            if above {
                let kind = pulling(rng);
                if let Some(entry) = model.units.get_mut(&unit) {
                    entry.edges.push((kind, target, false));
                }
            }
        }
    }
}

/// Turns some virtual units into triggers for units with a process.
fn triggers(model: &mut UnitModel, numbers: &[usize], rng: &mut Rng) {
    let run: Vec<usize> = numbers
        .iter()
        .copied()
        .filter(|unit| model.units.get(unit).is_some_and(|entry| entry.kind.has_process()))
        .collect();
    let top = numbers.last().copied();
    for unit in numbers.iter().copied().filter(|unit| Some(*unit) != top) {
        let Some(target) = rng.pick(&run) else { return };
        let Some(entry) = model.units.get_mut(&unit) else { continue };
        if entry.kind == Kind::Virtual && target != unit && rng.percent(80) {
            entry.kind = [Kind::Socket, Kind::Timer, Kind::Path][rng.below(3)];
            entry.activates = Some(target);
        }
    }
}

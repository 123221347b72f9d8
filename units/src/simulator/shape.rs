//! Graphs of many shapes, drawn from a seed: chains, ladders, stars, random and
//! boot-like ones, with rings of `wants`, conflicts, triggers, shared targets and
//! everything else the lists can say. Edges that order go from a higher rank to a
//! lower one, so no choice of providers closes a ring.

use crate::simulator::chance::Chance;
use crate::simulator::sheet::{EXTRA, Entry, Sheet, UNITS, live, readiness};
use crate::simulator::{foreign, place};
use crate::spec::{
    DependencyKind as D, Kind, Live, OnChange, Readiness, Restart, RestartLimit, SuccessStatus,
};
use crate::unit::settings::Settings;
use std::collections::BTreeMap;
use std::time::Duration;

/// The shapes, for the printed coverage.
pub const SHAPES: [&str; 5] = ["chain", "ladder", "star", "random", "boot"];

/// What a seed drew before its schedule begins.
#[derive(Clone, Debug)]
pub struct World {
    /// The units at boot.
    pub sheet: Sheet,
    /// Which of [`SHAPES`].
    pub shape: usize,
    /// The unit of the highest rank: the usual goal.
    pub top: usize,
}

/// Draws a world.
pub fn draw(seed: u64) -> World {
    let mut dice = Chance::of(seed, 1, 0);
    let count = match dice.below(10) {
        0 | 1 => dice.between(3, 8),
        2..=7 => dice.between(12, 16),
        _ => dice.between(16, 20),
    } as usize;
    let mut numbers: Vec<usize> = (0..UNITS).collect();
    dice.shuffle(&mut numbers);
    numbers.truncate(count);
    let mut rank = vec![0; UNITS];
    numbers.iter().enumerate().for_each(|(at, unit)| rank[*unit] = at);
    let mut sheet = Sheet {
        units: BTreeMap::new(),
        rank,
        settings: settings(&mut dice),
        policy: Default::default(),
        roots: Vec::new(),
        rich: false,
    };
    for (at, unit) in numbers.iter().enumerate() {
        let entry = entry(&mut dice, *unit, at + 1 == count);
        sheet.units.insert(*unit, entry);
    }
    let shape = dice.below(SHAPES.len());
    for (at, unit) in numbers.iter().enumerate().skip(1) {
        for lower in below(&mut dice, shape, at, count) {
            let kind = pulling(&mut dice);
            link(&mut sheet, *unit, kind, numbers[lower], &mut dice);
        }
    }
    decorate(&mut sheet, &numbers, &mut dice);
    let mut dice = Chance::of(seed, 4, 0);
    if dice.percent(40) {
        sheet.rich = true;
        enrich(&mut sheet, &numbers, &mut dice);
    }
    let mut dice = Chance::of(seed, 5, 0);
    if dice.percent(50) {
        place::draw(&mut sheet, &numbers, &mut dice);
    }
    let mut dice = Chance::of(seed, 6, 0);
    if dice.percent(30) {
        foreign::draw(&mut sheet, &numbers, &mut dice);
    }
    World { sheet, shape, top: numbers.last().copied().unwrap_or(0) }
}

fn settings(dice: &mut Chance) -> Settings {
    let max_starting = [0, 0, 0, 1, 2, 3][dice.below(6)];
    let deadline = Duration::from_secs([9, 30, 90][dice.below(3)]);
    Settings { max_starting, shutdown_deadline: Some(deadline), ..Settings::default() }
}

/// Whom the unit at place `at` leans on.
fn below(dice: &mut Chance, shape: usize, at: usize, count: usize) -> Vec<usize> {
    match SHAPES[shape] {
        "chain" => vec![at - 1],
        "ladder" => match at {
            1 => vec![0],
            _ if at.is_multiple_of(2) => vec![at - 2],
            _ => vec![at - 1, at - 2],
        },
        "star" if at + 1 == count => (1..at).collect(),
        "star" => vec![0],
        "random" => (0..at).filter(|_| dice.percent(25)).collect(),
        _ => {
            let layer = |place: usize| place * 4 / count.max(1);
            let lower: Vec<usize> = (0..at).filter(|other| layer(*other) < layer(at)).collect();
            if at + 1 == count {
                return (0..at).filter(|_| dice.percent(70)).collect();
            }
            let last: Vec<usize> =
                lower.iter().copied().filter(|it| layer(*it) + 1 == layer(at)).collect();
            (0..2).filter_map(|_| dice.pick(&last)).collect()
        }
    }
}

fn pulling(dice: &mut Chance) -> D {
    [D::DependsOn, D::DependsMs, D::WaitsFor, D::Wants][dice.weighted(&[40, 20, 30, 10])]
}

/// `from` leans on `to`, by its own target.
fn link(sheet: &mut Sheet, from: usize, kind: D, to: usize, dice: &mut Chance) {
    let optional = dice.percent(8);
    if let Some(entry) = sheet.units.get_mut(&from)
        && !entry.edges.iter().any(|(_, target, _)| *target == to)
    {
        entry.edges.push((kind, to, optional));
    }
}

/// One unit, by chance.
pub fn entry(dice: &mut Chance, unit: usize, top: bool) -> Entry {
    let kinds = [
        Kind::ForegroundSupervised,
        Kind::ForegroundNotified,
        Kind::Oneshot,
        Kind::Virtual,
        Kind::BackgroundPidfile,
        Kind::BackgroundScripted,
    ];
    let kind = if top && dice.percent(70) {
        Kind::Virtual
    } else {
        kinds[dice.weighted(&[35, 15, 18, 14, 8, 10])]
    };
    let mut live = live(kind);
    keys(dice, &mut live);
    let mut ready = readiness(kind);
    if kind == Kind::ForegroundSupervised {
        ready = match dice.below(4) {
            0 => Readiness::Wait(Duration::from_millis([0, 500, 3000][dice.below(3)])),
            1 => Readiness::Reported,
            _ => Readiness::Exec,
        };
    }
    let process = kind.has_process();
    if process && kind != Kind::BackgroundPidfile && dice.percent(15) {
        live.success_status.codes = vec![0];
        if dice.percent(50) {
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
        has_exec_stop: process && dice.percent(20),
        has_exec_reload: process && kind != Kind::Oneshot && dice.percent(30),
        run_hash: dice.draw() | 1,
        broken: false,
        is_one: false,
    }
}

/// Keys of class live.
pub fn keys(dice: &mut Chance, live: &mut Live) {
    let ms = Duration::from_millis;
    live.start_timeout = [Some(ms(10_000)), Some(ms(2_000)), Some(ms(60_000)), None][dice.below(4)];
    live.stop_timeout =
        [Some(ms(5_000)), Some(ms(1_000)), Some(ms(0)), None][dice.weighted(&[40, 40, 5, 5])];
    live.restart_delay = ms([0, 100, 200, 1_000][dice.below(4)]);
    live.restart_delay_max = ms([60_000, 1_500, 60_000][dice.below(3)]);
    live.restart_reset = ms([60_000, 5_000, 1_000][dice.below(3)]);
    live.failure_verdict = [3, 3, 1, 2, 5][dice.below(5)];
    live.restart_limit = match dice.below(8) {
        0 => RestartLimit::InARow(dice.between(1, 5) as u32),
        1 => RestartLimit::Within(dice.between(1, 4) as u32, ms(dice.between(500, 20_000))),
        _ => RestartLimit::None,
    };
    live.restart = match dice.below(10) {
        0 => Restart::Always,
        1 => Restart::Never,
        2 => Restart::OnFailure,
        _ => live.restart,
    };
    if live.restart == Restart::Always {
        live.restart_delay = live.restart_delay.max(ms(3_000));
    }
    live.on_change =
        [OnChange::Restart, OnChange::Reload, OnChange::Keep][dice.weighted(&[80, 10, 10])];
    live.essential = dice.percent(5);
    live.stop_promptly = dice.percent(5);
}

/// Everything beside the plain shape.
fn decorate(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    let count = numbers.len();
    let share = |percent: usize| count * percent / 100 + 1;
    let pair = |dice: &mut Chance| {
        let (a, b) = (dice.below(count), dice.below(count));
        (numbers[a.min(b)], numbers[a.max(b)], a != b)
    };
    if dice.percent(50) {
        for _ in 0..share(15) {
            let (low, high, differ) = pair(dice);
            if differ {
                link(sheet, low, D::Wants, high, dice); // upwards: rings
            }
        }
    }
    if dice.percent(50) {
        for _ in 0..share(15) {
            let (low, high, differ) = pair(dice);
            let (from, kind, to) = match dice.below(3) {
                0 => (high, D::After, low),
                1 => (low, D::Before, high),
                _ => (high, D::WaitsFor, low),
            };
            if differ {
                link(sheet, from, kind, to, dice);
            }
        }
    }
    if dice.percent(40) {
        for _ in 0..share(10) {
            let (a, b, differ) = pair(dice);
            let (from, to) = if dice.percent(50) { (a, b) } else { (b, a) };
            if differ {
                link(sheet, from, D::RestartWith, to, dice);
            }
        }
    }
    if dice.percent(30) {
        for _ in 0..share(10) {
            let (a, b, differ) = pair(dice);
            if differ {
                link(sheet, a, D::Conflicts, b, dice);
            }
        }
    }
    if dice.percent(40) {
        shared(sheet, numbers, dice);
    }
    if dice.percent(30) {
        let (low, high, differ) = pair(dice);
        if differ && let Some(entry) = sheet.units.get_mut(&low) {
            let list = if dice.percent(60) { &mut entry.wanted_by } else { &mut entry.required_by };
            list.push(high);
        }
    }
    if dice.percent(35) {
        triggers(sheet, numbers, dice);
    }
    if dice.percent(15) {
        sheet.roots = vec![numbers[dice.below(count)]];
    }
}

/// What imported units say besides.
fn enrich(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    for entry in sheet.units.values_mut() {
        more_keys(dice, entry.kind, &mut entry.live);
    }
    let count = numbers.len();
    for kind in [D::RequiresActive, D::ReloadWith, D::OnFailure, D::OnSuccess] {
        if dice.percent(50) {
            continue;
        }
        for _ in 0..count / 5 + 1 {
            let (a, b) = (dice.below(count), dice.below(count));
            // What orders goes from a higher rank to a lower one.
            let (from, to) = if kind.orders() { (a.max(b), a.min(b)) } else { (a, b) };
            if from != to {
                link(sheet, numbers[from], kind, numbers[to], dice);
            }
        }
    }
    if dice.percent(50) {
        reload_chain(sheet, numbers);
    }
}

/// Each reloads with the one before it, and can: a reload has a way to go.
fn reload_chain(sheet: &mut Sheet, numbers: &[usize]) {
    let can = |unit: &usize| {
        let kind = sheet.units.get(unit).map(|entry| entry.kind);
        matches!(kind, Some(Kind::ForegroundSupervised | Kind::ForegroundNotified))
    };
    let chain: Vec<usize> = numbers.iter().copied().filter(can).collect();
    for pair in chain.windows(2) {
        let Some(entry) = sheet.units.get_mut(&pair[1]) else { continue };
        entry.has_exec_reload = true;
        if !entry.edges.iter().any(|(_, target, _)| *target == pair[0]) {
            entry.edges.push((D::ReloadWith, pair[0], false));
        }
    }
    if let Some(entry) = chain.first().and_then(|first| sheet.units.get_mut(first)) {
        entry.has_exec_reload = true;
    }
}

/// More keys of class live.
pub fn more_keys(dice: &mut Chance, kind: Kind, live: &mut Live) {
    let ms = Duration::from_millis;
    if !kind.has_process() {
        return;
    }
    if kind != Kind::Oneshot {
        live.run_timeout = [None, None, Some(ms(8_000)), Some(ms(90_000))][dice.below(4)];
    }
    live.restart = match dice.below(8) {
        0 => Restart::OnSuccess,
        1 => Restart::OnAbnormal,
        2 => Restart::OnAbort,
        3 => Restart::OnWatchdog,
        _ => live.restart,
    };
    let list = |dice: &mut Chance| SuccessStatus {
        codes: [vec![], vec![0], vec![1], vec![1, 2]][dice.below(4)].clone(),
        signals: [vec![], vec![], vec![9], vec![6, 15]][dice.below(4)].clone(),
    };
    live.restart_except = if dice.percent(20) { list(dice) } else { SuccessStatus::default() };
    live.restart_also = if dice.percent(20) { list(dice) } else { SuccessStatus::default() };
    let restless = live.restart == Restart::OnSuccess || live.restart_also.codes.contains(&0);
    if restless {
        live.restart_delay = live.restart_delay.max(ms(3_000));
    }
}

/// Targets that several units claim, one preferred; and second targets.
fn shared(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    let count = numbers.len();
    let universe = crate::simulator::sheet::universe();
    for x in 0..dice.between(1, 3) as usize {
        let target = UNITS + x % EXTRA;
        let claims = dice.between(1, 2);
        for _ in 0..claims {
            let unit = numbers[dice.below(count.div_ceil(2))];
            if let Some(entry) = sheet.units.get_mut(&unit) {
                if !entry.provides.contains(&target) {
                    entry.provides.push(target);
                }
                if dice.percent(70) {
                    let names = (universe.targets[target].clone(), universe.units[unit].clone());
                    sheet.policy.prefer.insert(names.0, names.1);
                }
            }
        }
        let first = sheet.units.iter().find(|(_, entry)| entry.provides.contains(&target));
        if let Some((unit, _)) = first {
            let names = (universe.targets[target].clone(), universe.units[*unit].clone());
            sheet.policy.prefer.entry(names.0).or_insert(names.1);
        }
        for _ in 0..2 {
            let unit = numbers[dice.below(count)];
            let above = sheet.rank_of(target).is_some_and(|rank| sheet.rank[unit] > rank);
            if above {
                let kind = pulling(dice);
                if let Some(entry) = sheet.units.get_mut(&unit) {
                    entry.edges.push((kind, target, false));
                }
            }
        }
    }
}

/// Turns some virtual units into triggers for units with a process.
fn triggers(sheet: &mut Sheet, numbers: &[usize], dice: &mut Chance) {
    let run: Vec<usize> = numbers
        .iter()
        .copied()
        .filter(|unit| sheet.units.get(unit).is_some_and(|entry| entry.kind.has_process()))
        .collect();
    let top = numbers.last().copied();
    for unit in numbers.iter().copied().filter(|unit| Some(*unit) != top) {
        let Some(target) = dice.pick(&run) else { return };
        let Some(entry) = sheet.units.get_mut(&unit) else { continue };
        if entry.kind == Kind::Virtual && target != unit && dice.percent(80) {
            entry.kind = [Kind::Socket, Kind::Timer, Kind::Path][dice.below(3)];
            entry.activates = Some(target);
        }
    }
}

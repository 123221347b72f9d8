//! `show`: properties of a unit or the manager as `NAME=value` lines. It has those that programs
//! use; as in systemctl, unknown ones are left out.

use super::Outcome;
use super::definition::{Definitions, usage};
use super::enablement::Enablement;
use super::pids;
use super::property_value::Properties;
use super::question::system_word;
use super::shown::Shown;
use super::snapshot::{Found, Snapshot, session_of};
use super::words::Asked;
use crate::exit::Error;
use crate::session::{self, Session};
use crate::systemctl::list::preset;
use groundstate_units::control::answer::{Blame, Cause, Graph, Located, UnitStatus};
use groundstate_units::control::request::Verb;
use groundstate_units::machine::reason::State;
use groundstate_units::spec::{DependencyKind, Kind};
use groundstate_units::text::name::Name;

/// `show`.
pub(super) fn run(asked: &Asked) -> Outcome {
    let session = session_of(asked.user);
    let snapshot = Snapshot::take(&session)?;
    if asked.names.is_empty() {
        print(asked, &manager(&snapshot))?;
        return Ok(0);
    }
    let enablement = Enablement::of(&session, None)?;
    let (graph, _) = session.ask_as::<Graph>(Verb::Graph {})?;
    let (blame, _) = session.ask_as::<Blame>(Verb::Blame {})?;
    let names = pids::with_units(&session, &asked.names)?;
    let chosen = snapshot.chosen(&names);
    let units: Vec<String> = chosen
        .iter()
        .filter_map(|found| match found {
            Found::Unit(unit) => Some(unit.unit.clone()),
            Found::Unknown(_) => None,
        })
        .collect();
    let definitions = Definitions::read(&session, &units);
    for (at, found) in chosen.into_iter().enumerate() {
        if at > 0 {
            session::print("\n")?;
        }
        let properties = match found {
            Found::Unit(unit) => {
                let shown = snapshot.shown(unit);
                let mut all = of_unit(unit, &shown, &enablement);
                all.extend(on_disk(&session, unit, &definitions));
                let timing = blame.units.iter().find(|timing| timing.unit == unit.unit);
                let restarts = timing.map_or(0, |timing| timing.restarts);
                all.push(("NRestarts", restarts.to_string()));
                all.extend(edges(unit, &graph));
                all.extend(definitions.of(unit, &stamp(&unit.since)));
                all.extend(usage(unit));
                all
            }
            Found::Unknown(name) => of_unloaded(&name, &enablement),
        };
        print(asked, &properties)?;
    }
    Ok(0)
}

fn print(asked: &Asked, properties: &Properties) -> Result<(), Error> {
    let mut text = String::new();
    let mut put = |name: &str, value: &str| match asked.value {
        true => text.push_str(&format!("{value}\n")),
        false => text.push_str(&format!("{name}={value}\n")),
    };
    if asked.properties.is_empty() {
        let shown = properties.iter().filter(|(_, value)| asked.all || !value.is_empty());
        shown.for_each(|(name, value)| put(name, value));
    }
    // systemd prints in the order of its properties; programs ask for single ones.
    for name in &asked.properties {
        for (name, value) in properties.iter().filter(|(known, _)| known == name) {
            put(name, value);
        }
    }
    session::print(&text)
}

fn manager(snapshot: &Snapshot) -> Properties {
    let failed =
        snapshot.status.units.iter().filter(|unit| snapshot.shown(unit).active == "failed");
    let jobs =
        snapshot.status.units.iter().filter(|unit| {
            matches!(unit.state, State::Starting | State::Stopping | State::Waiting)
        });
    vec![
        ("Version", format!("groundstate {}", snapshot.pong.version)),
        ("SystemState", system_word(snapshot.status.system).to_string()),
        ("NFailedUnits", failed.count().to_string()),
        ("NJobs", jobs.count().to_string()),
        ("NNames", snapshot.status.units.len().to_string()),
        ("UnitPath", snapshot.pong.paths.unit_dirs.join(" ")),
        ("UserspaceTimestamp", stamp(&snapshot.status.booted)),
        ("Virtualization", String::new()),
    ]
}

fn of_unit(unit: &UnitStatus, shown: &Shown, enablement: &Enablement) -> Properties {
    let file = enablement.find(&shown.name);
    let file_state = file.as_ref().map(|file| enablement.state(file)).unwrap_or_default();
    let mut names = vec![shown.name.clone()];
    names.extend(unit.provides.iter().filter(|name| super::shown::has_suffix(name)).cloned());
    names.dedup();
    let pid = unit.main_pid.unwrap_or(0).to_string();
    let since = stamp(&unit.since);
    let when = |is: bool| if is { since.clone() } else { String::new() };
    let (code, status) = ended(unit);
    let broken = match unit.reason.as_ref().map(|why| (&why.cause, &why.text)) {
        Some((Cause::Config { .. }, text)) => text.clone(),
        _ => String::new(),
    };
    vec![
        ("Type", service_type(unit.kind).to_string()),
        ("MainPID", pid.clone()),
        ("ExecMainPID", pid),
        ("ExecMainCode", code.to_string()),
        ("ExecMainStatus", status.to_string()),
        ("Result", result(unit).to_string()),
        ("StatusText", unit.status.clone()),
        ("StatusErrno", "0".to_string()),
        ("Id", shown.name.clone()),
        ("Names", names.join(" ")),
        ("Description", shown.description.clone()),
        ("LoadState", shown.load.to_string()),
        ("LoadError", broken),
        ("ActiveState", shown.active.to_string()),
        ("SubState", shown.sub.to_string()),
        ("FragmentPath", unit.file.clone()),
        ("SourcePath", String::new()),
        ("UnitFileState", file_state.to_string()),
        ("UnitFilePreset", preset(file_state).unwrap_or_default().to_string()),
        ("StateChangeTimestamp", since.clone()),
        ("ActiveEnterTimestamp", when(unit.state.is_active())),
        ("InactiveEnterTimestamp", when(matches!(unit.state, State::Disabled | State::Failed))),
        ("ExecMainStartTimestamp", when(unit.main_pid.is_some())),
        ("CanStart", "yes".to_string()),
        ("CanStop", "yes".to_string()),
        ("CanReload", if unit.can_reload { "yes" } else { "no" }.to_string()),
        ("CanIsolate", if shown.kind() == "target" { "yes" } else { "no" }.to_string()),
        ("Job", "0".to_string()),
        ("InvocationID", unit.run.map(|run| format!("{run:032x}")).unwrap_or_default()),
    ]
}

/// `DropInPaths`, and whether init would now read other files than it has read. The loader finds
/// the files, so that drop-ins of types, prefixes and aliases count as for init.
fn on_disk(session: &Session, unit: &UnitStatus, definitions: &Definitions) -> Properties {
    let located = Name::new(&unit.unit).ok().and_then(|target| {
        session.ask_as::<Located>(Verb::Cat { target }).ok().map(|(located, _)| located)
    });
    // A built-in unit has no file, and a source's unit is a text that init received.
    let Some(located) = located.filter(|located| located.file.starts_with('/')) else {
        return vec![("NeedDaemonReload", "no".to_string())];
    };
    let known = located.drop_ins_of_unit();
    let paths: Vec<&str> = known.iter().map(|(path, _)| *path).collect();
    let is_same = definitions.record(&unit.unit).is_some_and(|record| {
        let now = Located::of(&located.unit, record);
        let same_file = now.file == located.file && now.stamps.first() == located.stamps.first();
        same_file && now.drop_ins_of_unit() == known
    });
    vec![
        ("DropInPaths", paths.join(" ")),
        ("NeedDaemonReload", if is_same { "no" } else { "yes" }.to_string()),
    ]
}

/// A unit that init has not loaded: masked, an unused instance, or unknown.
fn of_unloaded(name: &str, enablement: &Enablement) -> Properties {
    let file = enablement.find(name);
    let file_state = file.as_ref().map(|file| enablement.state(file)).unwrap_or_default();
    let (load, error) = match &file {
        None => ("not-found", format!("Unit {name} not found.")),
        Some(file) if file.masked => ("masked", format!("Unit {name} is masked.")),
        Some(_) => ("loaded", String::new()),
    };
    let path = file.filter(|file| !file.masked).map(|file| file.shown).unwrap_or_default();
    vec![
        ("MainPID", "0".to_string()),
        ("Result", "success".to_string()),
        ("Id", name.to_string()),
        ("Names", name.to_string()),
        ("Description", name.to_string()),
        ("LoadState", load.to_string()),
        ("LoadError", error),
        ("ActiveState", "inactive".to_string()),
        ("SubState", "dead".to_string()),
        ("FragmentPath", path),
        ("SourcePath", String::new()),
        ("UnitFileState", file_state.to_string()),
        ("UnitFilePreset", preset(file_state).unwrap_or_default().to_string()),
        ("CanStart", "yes".to_string()),
        ("CanStop", "yes".to_string()),
        ("CanReload", "no".to_string()),
        ("NeedDaemonReload", "no".to_string()),
    ]
}

fn edges(unit: &UnitStatus, graph: &Graph) -> Properties {
    let list = |kinds: &[DependencyKind], out: bool| {
        let mut names: Vec<&str> = Vec::new();
        for edge in graph.edges.iter().filter(|edge| kinds.contains(&edge.kind)) {
            let name = match out {
                true if edge.from == unit.unit => edge.target.as_str(),
                false if edge.to.as_deref() == Some(&unit.unit) => edge.from.as_str(),
                _ => continue,
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(" ")
    };
    use DependencyKind::{After, Conflicts, DependsMs, DependsOn, RestartWith, WaitsFor, Wants};
    let ordered = [After, DependsMs, DependsOn, WaitsFor];
    vec![
        ("Requires", list(&[DependsMs], true)),
        ("BindsTo", list(&[DependsOn], true)),
        ("Wants", list(&[Wants, WaitsFor], true)),
        ("WantedBy", list(&[Wants, WaitsFor], false)),
        ("RequiredBy", list(&[DependsMs], false)),
        ("BoundBy", list(&[DependsOn], false)),
        ("PartOf", list(&[RestartWith], true)),
        ("ConsistsOf", list(&[RestartWith], false)),
        ("Conflicts", list(&[Conflicts], true)),
        ("After", list(&ordered, true)),
        ("Before", list(&ordered, false)),
    ]
}

/// Returns the word of `Result=`.
fn result(unit: &UnitStatus) -> &'static str {
    if unit.state != State::Failed && unit.attempt == 0 {
        return "success";
    }
    match unit.reason.as_ref().map(|why| &why.cause) {
        Some(Cause::Exit { .. }) => "exit-code",
        Some(Cause::Signal { core: true, .. }) => "core-dump",
        Some(Cause::Signal { .. }) => "signal",
        Some(Cause::StartTimeout | Cause::StopTimeout) => "timeout",
        Some(Cause::Watchdog) => "watchdog",
        Some(Cause::Oom) => "oom-kill",
        Some(Cause::Protocol { .. }) => "protocol",
        Some(Cause::Exec { .. }) => "exit-code",
        Some(Cause::Backoff { .. }) => "exit-code",
        None => "success",
        Some(_) => "resources",
    }
}

/// `ExecMainCode` (CLD_EXITED, CLD_KILLED, CLD_DUMPED) and `ExecMainStatus`.
fn ended(unit: &UnitStatus) -> (u8, u8) {
    match unit.reason.as_ref().map(|why| &why.cause) {
        Some(Cause::Exit { code }) => (1, *code),
        Some(Cause::Signal { signal, core }) => (if *core { 3 } else { 2 }, *signal),
        _ => (0, 0),
    }
}

fn service_type(kind: Kind) -> &'static str {
    match kind {
        Kind::ForegroundNotified => "notify",
        Kind::BackgroundPidfile | Kind::BackgroundScripted => "forking",
        Kind::Oneshot => "oneshot",
        Kind::ForegroundSupervised => "exec",
        Kind::Virtual | Kind::Socket | Kind::Timer | Kind::Path => "",
    }
}

/// Formats `Sat 2026-11-21 08:20:40 UTC`, in the local time zone.
pub(super) fn stamp(time: &str) -> String {
    let Ok(at) = time.parse::<jiff::Timestamp>() else { return String::new() };
    let zoned = at.to_zoned(jiff::tz::TimeZone::system());
    zoned.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string()
}

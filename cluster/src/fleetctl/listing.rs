//! list-units, list-unit-files, list-machines: tables with fleetctl's columns; `list-units
//! --watch`.

use super::arguments::{List, ListUnits};
use super::live::{SILENCE, Stream};
use super::output::{clear_terminal, json_line, say_json, warn, write};
use super::session::{Session, is_global, legend, short};
use super::table;
use super::trouble::Trouble;
use super::waiting::Outage;
use crate::requirement::Requirement;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use crate::wire::{Machine, Unit, UnitState};
use std::convert::Infallible;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::time::sleep;

/// Delay until the next attempt, without a Retry-After of the server.
const AGAIN: Duration = Duration::from_secs(1);
/// Number of characters of a shortened hash.
const SHORT_HASH: usize = 7;

const UNITS: [&str; 6] = ["unit", "load", "active", "sub", "machine", "hash"];
const UNIT_FILES: [&str; 9] =
    ["unit", "global", "dstate", "target", "tmachine", "state", "hash", "desc", "reason"];
const MACHINES: [&str; 4] = ["machine", "ip", "metadata", "draining"];

/// Returns the requested columns.
fn columns(list: &List, default: &str, known: &[&str]) -> Result<Vec<String>, Trouble> {
    let text = list.fields.as_deref().unwrap_or(default);
    if text.is_empty() {
        return Err(Trouble::new("Must define output format"));
    }
    let columns: Vec<String> = text.split(',').map(str::to_string).collect();
    match columns.iter().find(|column| !known.contains(&column.as_str())) {
        Some(unknown) => Err(Trouble::new(format!("Invalid key in output format: \"{unknown}\""))),
        None => Ok(columns),
    }
}

fn show(list: &List, columns: &[String], rows: Vec<Vec<String>>) -> String {
    let head = columns.iter().map(|column| column.to_uppercase()).collect();
    let head = if list.no_legend { Vec::new() } else { vec![head] };
    table::text(&head.into_iter().chain(rows).collect::<Vec<_>>())
}

fn dash(text: &str) -> String {
    if text.is_empty() { "-".to_string() } else { text.to_string() }
}

fn hash(hash: &str, full: bool) -> String {
    let cut = if full { hash.len() } else { SHORT_HASH };
    dash(&hash.chars().take(cut).collect::<String>())
}

/// Formats a machine for a table.
fn place(id: &str, machines: &[Machine], full: bool) -> String {
    if id.is_empty() {
        return "-".to_string();
    }
    match machines.iter().find(|machine| machine.id == id) {
        Some(machine) => legend(id, &machine.primary_ip, full),
        None if full => id.to_string(),
        None => short(id),
    }
}

pub(super) async fn units(session: &mut Session, what: &ListUnits) -> Result<u8, Trouble> {
    let columns = columns(&what.list, "unit,machine,active,sub", &UNITS)?;
    if what.watch {
        return watch_units(session, &what.list, &columns).await;
    }
    let text = units_shown(session, &what.list, &columns).await?;
    write(&text);
    Ok(0)
}

/// Formats the states for `list-units`: a table or a line of JSON.
async fn units_shown(
    session: &mut Session,
    list: &List,
    columns: &[String],
) -> Result<String, Trouble> {
    let mut states = session.client.states().await?;
    if session.globals.json {
        return Ok(json_line(&states));
    }
    states.sort_by(|a, b| (&a.name, &a.machine_id).cmp(&(&b.name, &b.machine_id)));
    let mut machines: &[Machine] = &[];
    if states.iter().any(|state| !state.machine_id.is_empty()) {
        machines = session.machines().await?;
    }
    Ok(units_table(&states, machines, list, columns))
}

/// Formats sorted states.
fn units_table(
    states: &[UnitState],
    machines: &[Machine],
    list: &List,
    columns: &[String],
) -> String {
    let cell = |state: &UnitState, column: &str| match column {
        "unit" => state.name.clone(),
        "load" => dash(&state.systemd_load_state),
        "active" => dash(&state.systemd_active_state),
        "sub" => dash(&state.systemd_sub_state),
        "machine" => place(&state.machine_id, machines, list.full),
        _ => hash(&state.hash, list.full),
    };
    let row = |state: &UnitState| columns.iter().map(|column| cell(state, column)).collect();
    show(list, columns, states.iter().map(row).collect())
}

/// Prints the units after each change. While no server answers, the last table stays.
async fn watch_units(
    session: &mut Session,
    list: &List,
    columns: &[String],
) -> Result<u8, Trouble> {
    let mut outage = Outage::default();
    let mut shown = None;
    loop {
        let Err(trouble) = show_changes(session, list, columns, &mut shown, &mut outage).await;
        // Before the first answer, an unreachable server is an error: the endpoint may be wrong.
        if shown.is_none() && trouble.retry_after.is_none() {
            return Err(trouble);
        }
        let retry_after = trouble.retry_after.unwrap_or(AGAIN);
        outage.bridged::<()>(Err(trouble))?;
        sleep(retry_after).await;
    }
}

async fn show_changes(
    session: &mut Session,
    list: &List,
    columns: &[String],
    shown: &mut Option<String>,
    outage: &mut Outage,
) -> Result<Infallible, Trouble> {
    let json = session.globals.json;
    let clears = !json && std::io::stdout().is_terminal();
    let mut stream = Stream::open(session, SILENCE).await?;
    while stream.next().await?.is_some() {
        session.forget_machines();
        let text = units_shown(session, list, columns).await?;
        *outage = Outage::default();
        if shown.as_ref() != Some(&text) {
            if clears {
                clear_terminal();
            }
            let end = if clears || json { "" } else { "\n" };
            write(&format!("{text}{end}"));
            *shown = Some(text);
        }
    }
    Err(Trouble::passing("the server closed the stream"))
}

pub(super) async fn unit_files(session: &mut Session, what: &List) -> Result<u8, Trouble> {
    let columns = columns(what, "unit,hash,dstate,state,target", &UNIT_FILES)?;
    let mut units = session.client.units().await?;
    if session.globals.json {
        say_json(&units);
        return Ok(0);
    }
    units.sort_by(|a, b| a.name.cmp(&b.name));
    if columns.iter().any(|column| column == "tmachine") {
        warn("WARNING: The field tmachine is deprecated, use target instead.");
    }
    let reasons = reasons(session, &columns, &units).await?;
    let mut machines: &[Machine] = &[];
    if units.iter().any(|unit| !unit.machine_id.is_empty()) {
        machines = session.machines().await?;
    }
    write(&unit_files_table(&units, &reasons, machines, what, &columns));
    Ok(0)
}

/// Formats units, each with the reason why it is unplaced.
fn unit_files_table(
    units: &[Unit],
    reasons: &[String],
    machines: &[Machine],
    list: &List,
    columns: &[String],
) -> String {
    let cell = |unit: &Unit, reason: &str, column: &str| match column {
        "unit" => unit.name.clone(),
        "global" => global_of(unit).to_string(),
        "dstate" => dash(&unit.desired_state),
        "state" => dash(&unit.current_state),
        "target" | "tmachine" if global_of(unit) => "global".to_string(),
        "target" | "tmachine" => place(&unit.machine_id, machines, list.full),
        "hash" => hash(&UnitFile { options: unit.options.clone() }.hash(), list.full),
        "reason" => dash(reason),
        _ => {
            let file = UnitFile { options: unit.options.clone() };
            let description = file.values("Unit", "Description").next().map(str::to_string);
            dash(&description.unwrap_or_default())
        }
    };
    let row = |(unit, reason): (&Unit, &String)| {
        columns.iter().map(|column| cell(unit, reason, column)).collect()
    };
    show(list, columns, units.iter().zip(reasons).map(row).collect())
}

fn global_of(unit: &Unit) -> bool {
    let file = UnitFile { options: unit.options.clone() };
    is_global(unit) && Requirement::of(&file, UnitName::new(&unit.name).ok().as_ref()).global
}

/// Returns why wanted units are unplaced, if the column is requested.
async fn reasons(
    session: &mut Session,
    columns: &[String],
    units: &[Unit],
) -> Result<Vec<String>, Trouble> {
    let wanted = columns.iter().any(|column| column == "reason");
    let mut reasons = Vec::new();
    for unit in units {
        let nowhere = unit.machine_id.is_empty() && unit.desired_state != "inactive";
        let why = match wanted && nowhere && !is_global(unit) {
            true => session.client.why(&unit.name).await?,
            false => None,
        };
        reasons.push(why.map(|why| why.text).unwrap_or_default());
    }
    Ok(reasons)
}

/// The default columns are fleet's. On a terminal, a last column `draining` appears while a machine
/// drains. Scripts get the default columns.
fn machine_columns(machines: &[Machine], at_terminal: bool) -> &'static str {
    match at_terminal && machines.iter().any(|machine| machine.draining) {
        true => "machine,ip,metadata,draining",
        false => "machine,ip,metadata",
    }
}

pub(super) async fn machines(session: &mut Session, what: &List) -> Result<u8, Trouble> {
    columns(what, "machine", &MACHINES)?;
    let machines = session.client.machines().await?;
    let default = machine_columns(&machines, std::io::stdout().is_terminal());
    let columns = columns(what, default, &MACHINES)?;
    if session.globals.json {
        say_json(&machines);
        return Ok(0);
    }
    write(&machines_table(&machines, what, &columns));
    Ok(0)
}

fn machines_table(machines: &[Machine], what: &List, columns: &[String]) -> String {
    let cell = |machine: &Machine, column: &str| match column {
        "machine" if what.full => machine.id.clone(),
        "machine" => short(&machine.id),
        "ip" => dash(&machine.primary_ip),
        "draining" => machine.draining.to_string(),
        _ => {
            let pairs = machine.metadata.iter().map(|(key, value)| format!("{key}={value}"));
            dash(&pairs.collect::<Vec<_>>().join(","))
        }
    };
    let row = |machine: &Machine| columns.iter().map(|column| cell(machine, column)).collect();
    show(what, columns, machines.iter().map(row).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn unit(name: &str, options: &str, desired: &str, machine: &str) -> Unit {
        let file = UnitFile::parse(&format!("[Service]\nExecStart=/bin/a\n{options}")).unwrap();
        let is_global = options.contains("Global=true");
        Unit {
            name: name.to_string(),
            options: file.options,
            desired_state: desired.to_string(),
            current_state: match (is_global, machine) {
                (true, _) => String::new(),
                (false, "") => "inactive".to_string(),
                (false, _) => desired.to_string(),
            },
            machine_id: machine.to_string(),
            ..Unit::default()
        }
    }

    /// Returns `list-units`, `list-unit-files`, and `list-machines` while one drains, for fixed
    /// answers.
    pub(in super::super) fn screens() -> [(&'static str, String); 3] {
        let machine = |id: &str, ip: &str, draining| Machine {
            id: id.repeat(4),
            primary_ip: ip.to_string(),
            metadata: [("role".to_string(), "web".to_string())].into(),
            draining,
        };
        let machines =
            [machine("282f949f", "10.0.0.1", false), machine("5a1b06c2", "10.0.0.2", true)];
        let state = |name: &str, at: usize, active: &str, sub: &str| UnitState {
            name: name.to_string(),
            machine_id: machines[at].id.clone(),
            systemd_load_state: "loaded".to_string(),
            systemd_active_state: active.to_string(),
            systemd_sub_state: sub.to_string(),
            hash: "da39a3ee5e6b4b0d3255bfef95601890afd80709".to_string(),
            ..UnitState::default()
        };
        let states = [
            state("backup.timer", 0, "active", "waiting"),
            state("database.service", 1, "activating", "auto-restart"),
            state("web@1.service", 0, "active", "running"),
            state("web@2.service", 1, "failed", "failed"),
        ];
        let list = List { fields: None, full: false, no_legend: false };
        let units = columns(&list, "unit,machine,active,sub", &UNITS).unwrap();
        let places = columns(&list, machine_columns(&machines, true), &MACHINES).unwrap();
        let files = columns(&list, "unit,hash,dstate,state,target", &UNIT_FILES).unwrap();
        let stored = [
            unit("backup.timer", "", "inactive", ""),
            unit("database.service", "", "loaded", &machines[1].id),
            unit("monitor.service", "[X-Fleet]\nGlobal=true\n", "launched", ""),
            unit("ssd.service", "[X-Fleet]\nMachineMetadata=disk=ssd\n", "launched", ""),
            unit("web@1.service", "", "launched", &machines[0].id),
        ];
        let reasons = stored.each_ref().map(|_| String::new());
        [
            ("list-units", units_table(&states, &machines, &list, &units)),
            ("list-unit-files", unit_files_table(&stored, &reasons, &machines, &list, &files)),
            ("list-machines", machines_table(&machines, &list, &places)),
        ]
    }

    #[test]
    fn draining_column_appears_only_on_a_terminal_while_a_machine_drains() {
        let machines = |draining| [Machine { draining, ..Machine::default() }];
        let fleets = "machine,ip,metadata";
        assert_eq!(machine_columns(&machines(true), false), fleets);
        assert_eq!(machine_columns(&machines(false), true), fleets);
        assert_eq!(machine_columns(&machines(true), true), "machine,ip,metadata,draining");
    }
}

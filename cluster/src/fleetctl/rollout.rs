//! rollout: puts a new file in the place of a unit, of all instances of a template, or of
//! a global unit; a few at a time, each waited for until it is active again. The first
//! that does not come up ends it, and what was replaced gets its old file back.

use super::arguments::Rollout;
use super::creation::{check, name_of, read};
use super::session::{Session, is_global, say, warn};
use super::trouble::Trouble;
use crate::unit_file::UnitFile;
use crate::unit_name::UnitName;
use crate::wire::Unit;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK: Duration = Duration::from_millis(100);

pub(super) async fn rollout(session: &mut Session, what: &Rollout) -> Result<u8, Trouble> {
    let argument = what.file.to_string_lossy().into_owned();
    let name = UnitName::new(&name_of(&argument))
        .map_err(|error| Trouble::new(format!("{argument}: {error}")))?;
    let file = read(&what.file)?;
    check(&name, &file)?;
    let targets = targets(session, &name, &file).await?;
    if targets.is_empty() {
        say(&format!("Nothing to do: no unit of {name} has another file"));
        return Ok(0);
    }
    let patience = patience(what);
    let running = match targets.as_slice() {
        [unit] if is_global(unit) && unit.desired_state == "launched" => on(session, unit).await?,
        _ => Vec::new(),
    };
    let has_it = |unit: &Unit| hash_of(unit) == file.hash();
    if let [unit] = targets.as_slice()
        && has_it(unit)
    {
        // Which file was there before nobody knows any more.
        go_on(session, what, &file, unit, &running).await?;
        return Ok(0);
    }
    if let (Some(unit), false) = (targets.first(), running.is_empty()) {
        let rolled = machine_by_machine(session, what, &file, unit, &running).await;
        return match rolled {
            Ok(()) => Ok(0),
            Err(trouble) => undo(session, what, &targets, trouble).await,
        };
    }
    // As they were.
    let mut done: Vec<Unit> = Vec::new();
    for batch in targets.chunks(what.batch.max(1)) {
        for unit in batch {
            let desired = unit.desired_state.parse().unwrap_or_default();
            done.push(unit.clone());
            say(&format!("Replacing {}", unit.name));
            if let Err(trouble) =
                session.client.create(&unit.name, &file.options, Some(desired)).await
            {
                return undo(session, what, &done, trouble).await;
            }
        }
        for unit in batch.iter().filter(|unit| unit.desired_state == "launched") {
            if let Err(trouble) = wait(session, &unit.name, &file.hash(), patience, None).await {
                return undo(session, what, &done, trouble).await;
            }
            say(&format!("Unit {} runs the new file", unit.name));
        }
    }
    say(&format!("Rolled out {} units", done.len()));
    Ok(0)
}

fn hash_of(unit: &Unit) -> String {
    UnitFile { options: unit.options.clone() }.hash()
}

fn patience(what: &Rollout) -> Duration {
    Duration::try_from_secs_f64(what.timeout).unwrap_or(Duration::from_secs(60))
}

/// The machines that a global unit is on.
async fn on(session: &mut Session, unit: &Unit) -> Result<Vec<String>, Trouble> {
    let states = session.client.states().await?;
    let own = states.into_iter().filter(|state| state.name == unit.name);
    let mut machines: Vec<String> = own.map(|state| state.machine_id).collect();
    machines.sort();
    Ok(machines)
}

/// A global unit: some machines take its file, the others keep theirs until those have it up.
async fn machine_by_machine(
    session: &mut Session,
    what: &Rollout,
    file: &UnitFile,
    unit: &Unit,
    running: &[String],
) -> Result<(), Trouble> {
    let mut rest = running.chunks(what.batch.max(1));
    let first = rest.next().unwrap_or_default();
    say(&format!("Replacing {} on {}", unit.name, first.join(" ")));
    let desired = unit.desired_state.parse().ok();
    session.client.create_on(first, &unit.name, &file.options, desired).await?;
    wait(session, &unit.name, &file.hash(), patience(what), Some(first)).await?;
    spread_to(session, what, file, unit, first.to_vec(), rest).await
}

/// A rollout that was left in the middle: who has the new file keeps it, the others take it.
async fn go_on(
    session: &mut Session,
    what: &Rollout,
    file: &UnitFile,
    unit: &Unit,
    running: &[String],
) -> Result<(), Trouble> {
    let named = unit.machines.as_deref().unwrap_or_default();
    let have = |machine: &String| named.contains(machine);
    let (done, left): (Vec<String>, Vec<String>) = running.iter().cloned().partition(have);
    spread_to(session, what, file, unit, done, left.chunks(what.batch.max(1))).await
}

/// After those that are `done` these take it, and in the end whoever came meanwhile.
async fn spread_to(
    session: &mut Session,
    what: &Rollout,
    file: &UnitFile,
    unit: &Unit,
    mut done: Vec<String>,
    batches: std::slice::Chunks<'_, String>,
) -> Result<(), Trouble> {
    for batch in batches {
        done.extend_from_slice(batch);
        say(&format!("Replacing {} on {}", unit.name, batch.join(" ")));
        session.client.spread(&unit.name, &done).await?;
        wait(session, &unit.name, &file.hash(), patience(what), Some(&done)).await?;
    }
    session.client.spread(&unit.name, &[]).await?;
    if !done.is_empty() {
        wait(session, &unit.name, &file.hash(), patience(what), None).await?;
    }
    say(&format!("Rolled out {} on {} machines", unit.name, done.len()));
    Ok(())
}

/// Units whose file is another, or not on all machines yet; a template stands for its instances and
/// comes last.
async fn targets(
    session: &mut Session,
    name: &UnitName,
    file: &UnitFile,
) -> Result<Vec<Unit>, Trouble> {
    let units = session.client.units().await?;
    let is_one = |unit: &Unit| {
        let own = UnitName::new(&unit.name).ok();
        let instance = own.and_then(|own| own.template()).is_some_and(|of| of == *name);
        unit.name == name.as_str() || (name.is_template() && instance)
    };
    let differs = |unit: &Unit| hash_of(unit) != file.hash() || unit.machines.is_some();
    let found: Vec<Unit> = units.into_iter().filter(is_one).collect();
    if found.is_empty() {
        return Err(Trouble::new(format!("Unit {name} does not exist: start it first")));
    }
    let mut targets: Vec<Unit> = found.into_iter().filter(differs).collect();
    targets.sort_by_key(|unit| (unit.name == name.as_str(), unit.name.clone()));
    Ok(targets)
}

/// Active with that file: everywhere it runs, for a global unit, or on those machines.
async fn wait(
    session: &mut Session,
    name: &str,
    hash: &str,
    patience: Duration,
    machines: Option<&[String]>,
) -> Result<(), Trouble> {
    let began = Instant::now();
    let mut last = String::from("no machine says anything of it");
    while began.elapsed() < patience {
        let unit = session.client.unit(name).await?;
        let unit = unit.ok_or_else(|| Trouble::new(format!("unit {name} was destroyed")))?;
        let all = session.client.states().await?;
        let here = |machine: &str| match machines {
            Some(some) => some.iter().any(|one| one == machine),
            None => is_global(&unit) || machine == unit.machine_id,
        };
        let own = all.iter().filter(|state| state.name == name && here(&state.machine_id));
        let own: Vec<_> = own.collect();
        let new = own.iter().filter(|state| state.hash == hash);
        if let Some(failed) = new.clone().find(|state| state.systemd_active_state == "failed") {
            let (id, sub) = (&failed.machine_id, &failed.systemd_sub_state);
            return Err(Trouble::new(format!("unit {name} failed on {id} ({sub})")));
        }
        let up = new.filter(|state| state.systemd_active_state == "active").count();
        let all_are_told = machines.is_none_or(|some| some.len() == own.len());
        if up > 0 && up == own.len() && all_are_told {
            return Ok(());
        }
        last = match session.client.why(name).await? {
            Some(why) if why.unplaceable => super::waiting::told_reasons(&why),
            _ => format!("{up} of {} run the new file", own.len()),
        };
        sleep(LOOK).await;
    }
    let seconds = patience.as_secs_f64();
    Err(Trouble::new(format!("unit {name} is not active after {seconds} s: {last}")))
}

async fn undo(
    session: &mut Session,
    what: &Rollout,
    done: &[Unit],
    trouble: Trouble,
) -> Result<u8, Trouble> {
    warn(&trouble.message);
    if what.no_rollback {
        return Err(Trouble::said());
    }
    for old in done.iter().rev() {
        match session.client.put_back(old).await {
            Ok(()) => warn(&format!("Unit {} has its old file again", old.name)),
            // The server refused the new file: the old one is still there.
            Err(again) if again.message.contains("must provide DesiredState") => {}
            Err(again) => warn(&format!("Unit {}: {}", old.name, again.message)),
        }
    }
    Err(Trouble::said())
}

//! Changes the goal's overlay, and tells the user how long the change lasts. [`super::change`] and
//! [`super::rival`] decide which units are wanted or dropped.

use super::complain;
use super::wait::names;
use super::words::Asked;
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::answer::Status;
use groundstate_units::control::request::Verb;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;

/// Prints a line to stderr, unless `--quiet` is set.
pub(super) fn notice(asked: &Asked, text: &str) {
    if !asked.quiet {
        complain(text);
    }
}

pub(super) fn report_wanted(asked: &Asked, name: &str) {
    notice(asked, &format!("{name} is wanted until the next boot (initctl want {name})"));
}

pub(super) fn report_left_out(asked: &Asked, name: &str) {
    let how = format!("initctl set-target … -{name}");
    notice(asked, &format!("{name} is left out of the goal until the next boot ({how})"));
}

/// Sets the present goal with another overlay, without units that init no longer knows.
pub(super) fn set_overlay(
    session: &Session,
    now: &Status,
    mut want: Vec<Name>,
    mut drop: Vec<Name>,
) -> Result<(), Error> {
    let known = |name: &Name| {
        now.targets.iter().any(|target| target.target == name.as_str())
            || now.units.iter().any(|unit| unit.unit == name.as_str())
    };
    want.retain(known);
    drop.retain(known);
    let still = want.clone();
    session.ask(Verb::SetTarget { targets: names(&now.goal), want, drop })?;
    // A temporary want keeps its remaining time.
    for (target, until) in now.overlay.want.iter().zip(&now.overlay.until) {
        let Some(until) = until.as_deref().and_then(WallTime::parse) else { continue };
        let left = until.as_millis().saturating_sub(crate::session::now().as_millis());
        for target in names(std::slice::from_ref(target)) {
            if still.contains(&target) {
                session.ask(Verb::Want { target, for_ms: Some(left) })?;
            }
        }
    }
    Ok(())
}

//! Changes of the goal's overlay, and the line that says how long one lasts. Which units a verb wants
//! or drops is decided in [`super::change`] and [`super::rival`].

use super::complain;
use super::wait::names;
use super::words::Asked;
use crate::exit::Error;
use crate::session::Session;
use groundstate_units::control::answer::Status;
use groundstate_units::control::request::Verb;
use groundstate_units::text::name::Name;
use groundstate_units::text::wall_clock::WallTime;

pub(super) fn aloud(asked: &Asked, text: &str) {
    if !asked.quiet {
        complain(text);
    }
}

pub(super) fn wanted(asked: &Asked, name: &str) {
    aloud(asked, &format!("{name} is wanted until the next boot (initctl want {name})"));
}

pub(super) fn left_out(asked: &Asked, name: &str) {
    let how = format!("initctl set-target … -{name}");
    aloud(asked, &format!("{name} is left out of the goal until the next boot ({how})"));
}

/// The present goal with another overlay; what init does not know any more is not part of it.
pub(super) fn overlay(
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
    // The end of a wish made for a while is not part of a new goal.
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

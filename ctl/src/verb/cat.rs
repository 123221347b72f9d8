//! `cat` and `whose`: the file behind a unit, the unit behind a process. init keeps only
//! the place of a unit's text; the file is read here, with the caller's own rights.

use crate::arguments;
use crate::exit::{Exit, Trouble};
use crate::session::{self, Session};
use crate::style::Tone;
use groundstate_units::control::answer::{Located, Whose};
use groundstate_units::control::request::Verb;
use serde::Serialize;

#[derive(Serialize)]
struct WithText<'a> {
    #[serde(flatten)]
    located: &'a Located,
    text: &'a str,
}

/// `cat`.
pub(crate) fn cat(session: &Session, asked: arguments::One) -> Result<Exit, Trouble> {
    let (located, _) = session.ask_as::<Located>(Verb::Cat { target: asked.target })?;
    if located.file.is_empty() {
        let message = format!("{} is built in and has no file", located.unit);
        return Err(Trouble::local(message, ""));
    }
    let text =
        std::fs::read(&located.file).map_err(|error| Trouble::file(&located.file, &error))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if session.json {
        session::print_json(&WithText { located: &located, text: &text })?;
    } else {
        let place = format!("# {}:{}", located.file, located.line);
        session::print(&format!("{}\n{text}", session.style.paint(Tone::Quiet, &place)))?;
    }
    Ok(Exit::Done)
}

/// `whose`.
pub(crate) fn whose(session: &Session, asked: &arguments::Whose) -> Result<Exit, Trouble> {
    let (whose, value) = session.ask_as::<Whose>(Verb::Whose { pid: asked.pid })?;
    session.show(&value, || match &whose.unit {
        None => format!("{} belongs to no unit\n", asked.pid),
        Some(unit) => {
            let role = whose.role.as_deref().unwrap_or("child");
            let targets: Vec<&str> =
                whose.targets.iter().map(String::as_str).filter(|target| target != unit).collect();
            let targets = match targets.as_slice() {
                [] => String::new(),
                targets => format!(", provides {}", targets.join(", ")),
            };
            format!("{unit}  ({role} process{targets})\n")
        }
    })?;
    Ok(if whose.unit.is_some() { Exit::Done } else { Exit::Bad })
}

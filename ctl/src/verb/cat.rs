//! `cat` and `whose`: the file of a unit, and the unit of a process. init only knows the place of a
//! unit's text; initctl reads the file with the caller's rights.

use crate::arguments;
use crate::exit::{Error, Exit};
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
pub(crate) fn cat(session: &Session, asked: arguments::OneTarget) -> Result<Exit, Error> {
    let (located, _) = session.ask_as::<Located>(Verb::Cat { target: asked.target })?;
    if located.file.is_empty() {
        let message = format!("{} is built in and has no file", located.unit);
        return Err(Error::local(message, ""));
    }
    let file = read(&located.file)?;
    let text = if located.file.ends_with(".yaml") {
        document(&file, usize::try_from(located.line).unwrap_or(usize::MAX))
    } else {
        &file
    };
    if session.json {
        session::print_json(&WithText { located: &located, text })?;
        return Ok(Exit::Done);
    }
    let head = |place: &str| session.style.paint(Tone::Quiet, &format!("# {place}"));
    session::print(&format!("{}\n{text}", head(&format!("{}:{}", located.file, located.line))))?;
    for (path, _) in located.drop_ins_of_unit() {
        session::print(&format!("\n{}\n{}", head(path), read(path)?))?;
    }
    Ok(Exit::Done)
}

fn read(path: &str) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::file(path, &error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the document that contains a line, without the document marks.
fn document(text: &str, line: usize) -> &str {
    let is_mark = |line: &str, mark: &str| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    };
    let (mut begin, mut at) = (0, 0);
    for (number, whole) in text.split_inclusive('\n').enumerate() {
        let shown = whole.trim_end_matches(['\n', '\r']);
        let past = number >= line;
        if is_mark(shown, "---") || is_mark(shown, "...") {
            if past {
                return text.get(begin..at).unwrap_or(text);
            }
            // Text after the mark belongs to the document.
            begin = if shown.len() > 3 && shown.starts_with('-') { at } else { at + whole.len() };
        }
        at += whole.len();
    }
    text.get(begin..).unwrap_or(text)
}

/// `whose`.
pub(crate) fn whose(session: &Session, asked: &arguments::Whose) -> Result<Exit, Error> {
    let (whose, value) = session.ask_as::<Whose>(Verb::Whose { pid: asked.pid })?;
    let init = if whose.unit.is_none() { session.init()?.map(|init| init.pid) } else { None };
    session.show(&value, || owner(&whose, init))?;
    Ok(if whose.unit.is_some() { Exit::Done } else { Exit::Bad })
}

fn owner(whose: &Whose, init: Option<u32>) -> String {
    match &whose.unit {
        None if init == Some(whose.pid) => format!("{} is init itself\n", whose.pid),
        None => format!("{} belongs to no unit\n", whose.pid),
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_prints_the_unit_or_init_or_neither() {
        let list = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let mut whose =
            Whose { schema: 1, pid: 1, unit: None, targets: Vec::new(), run: None, role: None };
        assert_eq!(owner(&whose, Some(1)), "1 is init itself\n");
        assert_eq!(owner(&whose, Some(9)), "1 belongs to no unit\n");
        whose.unit = Some("maddy".to_string());
        whose.role = Some("main".to_string());
        whose.targets = list(&["maddy", "imapd"]);
        assert_eq!(owner(&whose, None), "maddy  (main process, provides imapd)\n");
    }

    #[test]
    fn cat_shows_only_the_requested_document_of_a_file() {
        let text = "# ours\nunit: a\n---\n# b\nunit: b\n...\n--- {unit: c}\n---\nunit: d\n";
        for (line, want) in [
            (2, "# ours\nunit: a\n"),
            (5, "# b\nunit: b\n"),
            (7, "--- {unit: c}\n"),
            (9, "unit: d\n"),
        ] {
            assert_eq!(document(text, line), want, "line {line}");
        }
        assert_eq!(document("unit: a\n", 1), "unit: a\n");
    }
}

//! `source put|list|drop`: sets of unit files owned by a controller.

use crate::arguments::Source;
use crate::exit::{Exit, Trouble};
use crate::session::Session;
use crate::verb::plan;
use groundstate_units::control::answer::{Changed, Sources};
use groundstate_units::control::request::Verb;
use groundstate_units::limit;
use groundstate_units::name::Name;
use serde_json::value::RawValue;
use std::fmt::Write;
use std::path::Path;

/// Does what was asked.
pub(crate) fn run(session: &Session, asked: Source) -> Result<Exit, Trouble> {
    let value = match asked {
        Source::List => return list(session),
        Source::Put { source, dir, roots, expected } => {
            put(session, source, &dir, roots, expected)?
        }
        Source::Drop { source } => session.ask(Verb::SourceDrop { source })?,
    };
    session.show(&value, || said(&value, session))?;
    Ok(Exit::Done)
}

fn said(value: &RawValue, session: &Session) -> String {
    match serde_json::from_str::<Changed>(value.get()) {
        Ok(changed) => {
            let plan = plan::render(&changed.plan, &session.style);
            format!("generation {}: {plan}", changed.generation)
        }
        Err(_) => "done\n".to_string(),
    }
}

fn put(
    session: &Session,
    source: Name,
    dir: &Path,
    roots: Vec<Name>,
    expected: Option<u64>,
) -> Result<Box<RawValue>, Trouble> {
    let shown = dir.to_string_lossy();
    let mut files = Vec::new();
    let entries = std::fs::read_dir(dir).map_err(|error| Trouble::file(&shown, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| Trouble::file(&shown, &error))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if name.starts_with('.') || !path.is_file() {
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Trouble::file(&path.to_string_lossy(), &error))?;
        files.push((name.to_string(), text));
    }
    files.sort();
    let bytes: usize = files.iter().map(|(name, text)| name.len() + text.len()).sum();
    if bytes > limit::REQUEST_LINE {
        let message = format!("{shown}: {bytes} bytes are more than one request can hold");
        return Err(Trouble::local(message, "a controller passes a sealed memfd instead"));
    }
    session.ask(Verb::SourcePut { source, files, roots, expected })
}

fn list(session: &Session) -> Result<Exit, Trouble> {
    let (sources, value) = session.ask_as::<Sources>(Verb::SourceList {})?;
    session.show(&value, || {
        let mut text = String::new();
        for source in &sources.sources {
            let _ = writeln!(
                text,
                "{}  revision {}  uid {}  {} files  roots: {}",
                source.source,
                source.revision,
                source.uid,
                source.files.len(),
                if source.roots.is_empty() { "none".to_string() } else { source.roots.join(", ") }
            );
        }
        if text.is_empty() { "no sources are configured\n".to_string() } else { text }
    })?;
    Ok(Exit::Done)
}

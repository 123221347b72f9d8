//! `source put|list|drop`: sets of unit files owned by a controller.

use crate::arguments::Source;
use crate::exit::{Error, Exit};
use crate::report;
use crate::session::Session;
use crate::style;
use crate::verb::plan;
use groundstate_units::control::answer::{Put, Report, Said, Sources};
use groundstate_units::control::request::Verb;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::text::name::Name;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Runs the subcommand.
pub(crate) fn run(session: &Session, asked: Source) -> Result<Exit, Error> {
    let answer = match asked {
        Source::List => return list(session),
        Source::Put { source, files, roots, expect } => {
            let mut set = SourceSet { roots, expected: expect, ..SourceSet::default() };
            files.iter().try_for_each(|path| add_file(&mut set, path))?;
            put(session, source, &set)?
        }
        Source::Drop { source } => session.ask(Verb::SourceDrop { source, plan: true })?,
    };
    let put: Put = crate::session::read(&answer)?;
    session.show(&answer, || render(&put, session))?;
    if let Some(warning) = broken(&put) {
        session.remark(&warning);
    }
    Ok(Exit::Done)
}

/// Returns a warning about unusable files. The command succeeded anyway, because init has the set.
fn broken(put: &Put) -> Option<String> {
    let files: BTreeSet<&str> = put
        .diagnostics
        .iter()
        .filter(|said| said.severity == Severity::Error)
        .map(|said| &*said.file)
        .collect();
    let count = style::count(files.len(), "file");
    (!files.is_empty()).then(|| {
        format!(
            "warning: errors in {count} of source {0}: correct them, then `initctl source put {0}`",
            put.source
        )
    })
}

fn render(put: &Put, session: &Session) -> String {
    let is_printed = |said: &&Said| said.severity != Severity::Note;
    let diagnostics = put.diagnostics.iter().filter(is_printed).cloned().collect();
    let mistakes = report::render(&Report { diagnostics, ..Report::default() }, &session.style);
    let plan = put.plan.as_ref().map(|made| plan::render(made, &session.style));
    let (source, revision, generation) = (&put.source, put.revision, put.generation);
    let plan = plan.unwrap_or_default();
    format!("{mistakes}source {source}, revision {revision}, generation {generation}: {plan}")
}

/// Adds a file under its name, or all visible files of a directory.
fn add_file(set: &mut SourceSet, path: &Path) -> Result<(), Error> {
    let shown = path.to_string_lossy();
    let failed = |error: io::Error| Error::file(&shown, &error);
    if std::fs::metadata(path).map_err(failed)?.is_dir() {
        let entries: Result<Vec<_>, _> = std::fs::read_dir(path).map_err(failed)?.collect();
        let mut paths: Vec<PathBuf> =
            entries.map_err(failed)?.into_iter().map(|entry| entry.path()).collect();
        paths.retain(|path| path.is_file() && !name_of(path).starts_with('.'));
        return paths.iter().try_for_each(|path| add_file(set, path));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    match set.files.insert(name_of(path), text) {
        None => Ok(()),
        Some(_) => {
            let hint = "init knows a file by its name without the directory: rename one of them";
            Err(Error::usage(format!("two files are named {}", name_of(path)), hint))
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn put(session: &Session, source: Name, set: &SourceSet) -> Result<Box<RawValue>, Error> {
    let memory = sealed(set).map_err(|error| {
        let hint = "memfd_create(2) and its seals are needed";
        Error::local(format!("cannot pass the files to init: {error}"), hint)
    })?;
    let verb = Verb::SourcePut { source, plan: true };
    session.connect()?.ask_with(verb, memory.as_fd())
}

fn sealed(set: &SourceSet) -> io::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let memory = memfd_create(c"source", flags)?;
    let file = File::from(memory.try_clone()?);
    let mut to = io::BufWriter::new(file);
    serde_json::to_writer(&mut to, set)?;
    io::Write::flush(&mut to)?;
    let seals = SealFlag::F_SEAL_SEAL
        | SealFlag::F_SEAL_SHRINK
        | SealFlag::F_SEAL_GROW
        | SealFlag::F_SEAL_WRITE;
    fcntl(&memory, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(memory)
}

fn list(session: &Session) -> Result<Exit, Error> {
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

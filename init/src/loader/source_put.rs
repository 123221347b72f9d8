//! A source put, in the loader child: what the controller wants is read from its memfd,
//! validated beside the generation in force, kept for a restart, and handed over.

use super::disk::Disk;
use super::progress::Progress;
use super::store::Store;
use super::transfer::read_memory;
use groundstate_units::control::answer::Failure;
use groundstate_units::control::source_set::SourceSet;
use groundstate_units::limit;
use groundstate_units::load::delivered::Source;
use groundstate_units::load::{self, Loaded, Options};
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

fn refusal(kind: &str, message: String, hint: &str) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint: hint.to_string() }
}

/// The generation with the source as its controller wants it. No `body`: it is to hold nothing.
pub(super) fn run(
    progress: &Progress<'_>,
    options: &Options,
    previous: &Generation,
    name: &Name,
    body: Option<BorrowedFd<'_>>,
) -> Result<Generation, Refusal> {
    let set = match body {
        Some(body) => wanted(body)?,
        None => SourceSet::default(),
    };
    let at = previous.revision(name);
    if let Some(expected) = set.expected.filter(|expected| *expected != at) {
        let message = format!("source {name} is at revision {at}, not {expected}");
        return Err(refusal(
            Failure::REVISION,
            message,
            "`initctl source list` shows what it holds",
        ));
    }
    let kept = |error: &io::Error| {
        let message = format!("source {name} can not be kept: {error}");
        refusal("file", message, "there has to be room in the runtime directory")
    };
    let sources = options.sources.as_deref().unwrap_or_default();
    let store = Store::of(sources, name);
    // A loader that was killed may have kept one more than it could hand over.
    let revision = at.max(store.latest()).saturating_add(1);
    store.write(revision, &set).map_err(|error| kept(&error))?;
    let source = Source::of(name.clone(), revision, set, sources, options.trust);
    let Loaded { generation, refused, .. } =
        load::put(&Disk::new(progress), options, previous, source);
    if refused {
        store.forget(revision);
        let message = format!("with source {name} there would be more than {} units", limit::UNITS);
        return Err(refusal("too-large", message, "nothing has changed"));
    }
    store.flip(revision).map_err(|error| kept(&error))?;
    Ok(generation)
}

fn wanted(body: BorrowedFd<'_>) -> Result<SourceSet, Refusal> {
    let unreadable =
        |error: io::Error| refusal("protocol", format!("the memfd can not be read: {error}"), "");
    let memory = File::from(body.try_clone_to_owned().map_err(unreadable)?);
    SourceSet::parse(&read_memory(&memory, limit::SOURCE_BYTES).map_err(unreadable)?)
}

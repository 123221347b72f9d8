//! `source-put`, `source-drop` and `source-list`: unit files owned by controllers. PID 1 never
//! reads these files. It passes the memfd to the loader and installs the generation that the loader
//! returns.

use crate::base::Level;
use crate::control::client::Caller;
use crate::control::{Answered, failed, line, refused};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::loader::{Asker, Purpose};
use crate::sys::memfd;
use groundstate_units::control::answer::{Failure, Line, Put, Report, SCHEMA, Source, Sources};
use groundstate_units::control::place;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::Refusal;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;
use std::sync::Arc;

impl Init {
    fn known_source(&self, source: &Name) -> Result<(), Failure> {
        let known = &self.machine.generation().settings.sources;
        if known.contains_key(source) {
            return Ok(());
        }
        let names: Vec<&str> = known.keys().map(Name::as_str).collect();
        let hint = match names.as_slice() {
            [] => {
                format!("name it in {}: `sources: {{{source}: {{uid: 0}}}}`", self.paths.config.0)
            }
            names => format!("the settings name: {}", names.join(", ")),
        };
        Err(Failure::new("unknown-source", format!("unknown source {source}"), hint))
    }

    pub(crate) fn put_source(
        &mut self,
        asker: Asker,
        source: Name,
        plan: bool,
        passed: Vec<Foreign>,
    ) -> Answered {
        self.known_source(&source)?;
        let mut passed = passed.into_iter();
        let (Some(body), None) = (passed.next(), passed.next()) else {
            let message = "source-put needs one memfd in the message of its line";
            return Err(Failure::new("protocol", message, "`initctl source put` does that"));
        };
        // This check never blocks, whatever the descriptor is. PID 1 uses no other descriptor.
        if !memfd::is_sealed(&body) {
            let hint = "seal it against writing, growing, shrinking and further seals";
            return Err(Failure::new("protocol", "the descriptor is not a sealed memfd", hint));
        }
        self.later(asker, Purpose::Put { asker, source, plan, body: Some(body) })
    }

    pub(crate) fn drop_source(&mut self, asker: Asker, source: Name, plan: bool) -> Answered {
        self.known_source(&source)?;
        self.later(asker, Purpose::Put { asker, source, plan, body: None })
    }

    pub(crate) fn list_sources(&self, caller: Caller) -> Sources {
        let generation = self.machine.generation();
        let seen = |uid: u32| caller.trusted || caller.is_user(uid);
        let one = |(name, uid): (&Name, &u32)| Source {
            source: name.to_string(),
            uid: *uid,
            revision: generation.revision(name),
            files: files(generation, name),
            roots: roots(generation, name),
        };
        let known = generation.settings.sources.iter();
        Sources { schema: SCHEMA, sources: known.filter(|(_, uid)| seen(**uid)).map(one).collect() }
    }

    /// Refuses a load because the queue of loads is full.
    pub(crate) fn turn_away(&mut self, asker: Asker) {
        let message = "too many loads are waiting";
        self.refuse_source(
            asker,
            Refusal {
                kind: Failure::BUSY.to_string(),
                message: message.to_string(),
                hint: "try again".to_string(),
            },
        );
    }

    /// Answers a source request with a refusal.
    pub(crate) fn refuse_source(&mut self, asker: Asker, refusal: Refusal) {
        if self.recall(asker) {
            self.queue(asker.client, &failed(asker.id, refused(refusal)));
        }
    }

    /// Installs the generation with the new source and answers the controller.
    pub(crate) fn take_source(
        &mut self,
        asker: Asker,
        source: &Name,
        plan: bool,
        generation: Generation,
    ) {
        let generation = Arc::new(generation);
        let (revision, number) = (generation.revision(source), generation.number);
        let event =
            Event::Reload { generation: generation.clone(), no_restart: false, tolerant: true };
        let plan = plan.then(|| self.show_plan(event.clone())).transpose();
        let outcome =
            plan.and_then(|plan| self.wish(event).map(|()| plan).map_err(refused)).map(|plan| {
                let directory = format!("{}/{source}/", place::sources(self.paths.runtime()));
                let of_it = generation.diagnostics.iter();
                let of_it = of_it.filter(|found| found.at.file.starts_with(&directory)).cloned();
                let diagnostics = Report::new(&of_it.collect::<Vec<_>>()).diagnostics;
                let source = source.to_string();
                Put { schema: SCHEMA, source, revision, generation: number, plan, diagnostics }
            });
        if outcome.is_ok() {
            self.timings.keep(&generation);
            self.say(Level::Debug, format_args!("source {source} is at revision {revision}"));
        }
        if self.recall(asker) {
            let answer = match outcome {
                Ok(put) => line(&Line::ok(asker.id, put)),
                Err(failure) => failed(asker.id, failure),
            };
            self.queue(asker.client, &answer);
        }
    }
}

fn files(generation: &Generation, source: &Name) -> Vec<String> {
    let records = generation.records();
    let of_it = records.iter().filter(|record| record.source.as_ref() == Some(source));
    of_it.filter_map(|record| record.path.rsplit('/').next()).map(str::to_string).collect()
}

fn roots(generation: &Generation, source: &Name) -> Vec<String> {
    let of_it = generation.roots.iter().filter(|(name, _)| name == source);
    let targets = of_it.flat_map(|(_, roots)| roots).filter_map(|root| generation.target(*root));
    targets.map(|target| target.name.to_string()).collect()
}

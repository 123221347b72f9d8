//! `source-put`, `source-drop` and `source-list`: unit files owned by controllers. PID 1 never
//! reads these files. It passes the memfd to the loader and installs the generation that the loader
//! returns.

use crate::base::Level;
use crate::control::client::Caller;
use crate::control::{Answered, now};
use crate::event_loop::Init;
use crate::fd::Foreign;
use crate::loader::{Asker, Purpose};
use crate::sys::memfd;
use groundstate_units::control::answer::{Failure, Put, Report, SCHEMA, Source, Sources};
use groundstate_units::control::place;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::Generation;

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
        self.defer_until_load(asker, Purpose::Put { asker, source, plan, body: Some(body) })
    }

    pub(crate) fn drop_source(&mut self, asker: Asker, source: Name, plan: bool) -> Answered {
        self.known_source(&source)?;
        self.defer_until_load(asker, Purpose::Put { asker, source, plan, body: None })
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

    /// Installs the generation with the new source.
    pub(crate) fn take_source(
        &mut self,
        generation: &Generation,
        flip: Event,
        source: &Name,
        plan: bool,
    ) -> Answered {
        let (revision, number) = (generation.revision(source), generation.number);
        let plan = plan.then(|| self.show_plan(flip.clone())).transpose()?;
        self.apply_request(flip)?;
        self.timings.retain_units_of(generation);
        self.say(Level::Debug, format_args!("source {source} is at revision {revision}"));
        let directory = format!("{}/{source}/", place::sources(self.paths.runtime()));
        let of_it = generation.diagnostics.iter();
        let of_it = of_it.filter(|found| found.at.file.starts_with(&directory)).cloned();
        let diagnostics = Report::new(&of_it.collect::<Vec<_>>()).diagnostics;
        let source = source.to_string();
        now(Put { schema: SCHEMA, source, revision, generation: number, plan, diagnostics })
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

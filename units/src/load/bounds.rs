//! Limits of a whole load, beside the limits of each file. Units over a limit are broken; the other
//! units are unaffected.

use super::set::Set;
use crate::limit;
use crate::load::unit_file::{Context, left_out};
use crate::spec::{Kind, Run};
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::ready_grep;
use crate::unit::assembly::Draft;
use crate::unit::generation::{Fault, FileRecord};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the estimated size of a draft in an encoded generation.
pub(super) fn size(draft: &Draft) -> usize {
    let names = draft.provides.iter().chain(&draft.wanted_by).chain(&draft.required_by);
    let names = names.chain(&draft.pulled_by).map(|name| name.as_str().len() + 8);
    let edges = draft.dependencies.iter().map(|edge| edge.target.as_str().len() + 16);
    let own = draft.name.as_str().len() + draft.at.file.len() + draft.live.description.len();
    draft.run.len() + own + names.sum::<usize>() + edges.sum::<usize>() + 128
}

impl Set {
    /// Compiles each expensive pattern once, those of sources last.
    pub(super) fn check_patterns(&mut self, context: &Context<'_>) {
        let mut expensive: Vec<&mut Draft> =
            self.drafts.iter_mut().filter(|draft| draft.expensive_pattern.is_some()).collect();
        expensive.sort_by(|one, other| (&one.source, &one.name).cmp(&(&other.source, &other.name)));
        let mut spent = 0;
        let mut known: BTreeMap<String, Option<Diagnostic>> = BTreeMap::new();
        let mut found: BTreeMap<Arc<str>, Vec<Diagnostic>> = BTreeMap::new();
        for draft in expensive {
            let Some(place) = draft.expensive_pattern.take() else { continue };
            let Some(pattern) = Run::decode(&draft.run).and_then(|run| run.ready_grep) else {
                continue;
            };
            let cost = ready_grep::cost(&pattern).min(limit::READY_GREP_MOST);
            let room = spent + cost <= limit::READY_GREPS;
            let said = match known.get(&pattern) {
                Some(said) => said.clone(),
                None if !room => Some(ready_grep::too_many(&place)),
                None => {
                    let mut said = None;
                    let file = format!("{} (ready-grep)", draft.at.file);
                    let why = context.files.work_on(&file, &mut || {
                        said = ready_grep::mistake(&pattern, &place);
                    });
                    if why.is_some() {
                        said = Some(left_out(&draft.at.file, why));
                    }
                    spent += cost;
                    known.insert(pattern, said.clone());
                    said
                }
            };
            let Some(said) = said.map(|said| Diagnostic { at: place, ..said }) else { continue };
            if said.severity == Severity::Error && draft.fault.is_none() {
                draft.fault = Some(Fault { at: said.at.clone(), message: said.message.clone() });
            }
            found.entry(draft.at.file.clone()).or_default().push(said);
        }
        for record in &mut self.records {
            let said = found.remove(&record.path).unwrap_or_default();
            said.into_iter().for_each(|said| add(record, said));
        }
    }

    /// Breaks the units of the largest files until all units together take `most` bytes or less.
    /// Units of sources go first, so that no source breaks a unit of the machine.
    pub(super) fn keep_to_size(&mut self, context: &Context<'_>, most: usize) {
        let mut total: usize = self.drafts.iter().map(size).sum();
        if total <= most {
            return;
        }
        let mut files: BTreeMap<(bool, Arc<str>), usize> = BTreeMap::new();
        for draft in &self.drafts {
            let file = (draft.source.is_some(), draft.at.file.clone());
            *files.entry(file).or_default() += size(draft);
        }
        let mut largest: Vec<(bool, usize, Arc<str>)> =
            files.into_iter().map(|((source, file), size)| (source, size, file)).collect();
        largest.sort();
        while total > most
            && let Some((_, size, file)) = largest.pop()
        {
            let message = format!(
                "the units of this file take {} KiB of the {} KiB that all units may take",
                size / 1024,
                most / 1024
            );
            let error = Diagnostic::of_file(Severity::Error, "too-large", &file, message);
            total = total.saturating_sub(size);
            for draft in self.drafts.iter_mut().filter(|draft| draft.at.file == file) {
                total += empty(draft, &error, context);
            }
            self.tell(&file, error);
        }
    }

    /// Adds a diagnostic to a file.
    pub(super) fn tell(&mut self, file: &str, said: Diagnostic) {
        let known = self.records.iter_mut().find(|known| *known.path == *file);
        known.into_iter().for_each(|record| add(record, said.clone()));
    }
}

/// Adds a diagnostic to a file, within its limit, and makes the next load read the file again.
fn add(record: &mut FileRecord, said: Diagnostic) {
    record.again = true;
    if !record.diagnostics.contains(&said) && record.diagnostics.len() < limit::DIAGNOSTICS_PER_FILE
    {
        record.diagnostics.push(said);
    }
}

/// Reduces a draft to a broken unit with its names and the wishes for it. Returns its present size.
fn empty(draft: &mut Draft, why: &Diagnostic, context: &Context<'_>) -> usize {
    let fault = Fault { at: why.at.clone(), message: why.message.clone() };
    *draft = Draft {
        fault: Some(fault),
        source: draft.source.take(),
        provides: std::mem::take(&mut draft.provides),
        wanted_by: std::mem::take(&mut draft.wanted_by),
        required_by: std::mem::take(&mut draft.required_by),
        pulled_by: std::mem::take(&mut draft.pulled_by),
        ..Draft::new(draft.name.clone(), draft.at.clone(), Kind::Virtual, context.settings)
    };
    size(draft)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::files::{Files, Problem, Stat};
    use crate::load::folder::Trust;
    use crate::text::diagnostic::Place;
    use crate::text::name::Name;
    use crate::unit::account::Accounts;
    use crate::unit::settings::Settings;

    struct Nothing;

    impl Files for Nothing {
        fn list(&self, _: &str, _: usize) -> Result<Vec<String>, Problem> {
            Err(Problem::Missing)
        }

        fn stat(&self, _: &str) -> Result<Stat, Problem> {
            Err(Problem::Missing)
        }

        fn read(&self, _: &str, _: usize) -> Result<(Vec<u8>, Stat), Problem> {
            Err(Problem::Missing)
        }
    }

    #[test]
    fn largest_file_is_broken_when_all_units_are_too_large_and_sources_go_first() {
        let (settings, accounts) = (Settings::default(), Accounts::default());
        let trust = Trust { uid: 0, strict: true };
        let context = Context { files: &Nothing, settings: &settings, accounts: &accounts, trust };
        let draft = |name: &str, size: usize, source: Option<&str>| {
            let at = Place { file: format!("{name}.yaml").into(), line: 1, column: 1 };
            let mut draft =
                Draft::new(Name::new(name).unwrap(), at, Kind::ForegroundSupervised, &settings);
            draft.run = vec![0; size].into();
            draft.source = source.map(|source| Name::new(source).unwrap());
            draft
        };
        let broken = |drafts: Vec<Draft>| {
            let mut set = Set { drafts, ..Set::default() };
            set.keep_to_size(&context, 100_000);
            let broken = set.drafts.into_iter().filter(|draft| draft.fault.is_some());
            broken.map(|draft| draft.name.to_string()).collect::<Vec<_>>()
        };
        let local = || vec![draft("small", 30_000, None), draft("large", 60_000, None)];
        assert!(broken(local()).is_empty());
        let with = |more: Draft| [local(), vec![more]].concat();
        assert_eq!(broken(with(draft("huge", 90_000, None))), ["huge"]);
        assert_eq!(broken(with(draft("guest", 20_000, Some("fleet")))), ["guest"]);
    }
}

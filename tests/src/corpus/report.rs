//! Counts the files that load, that load without a warning, and that are refused, with the place. A
//! directive without a test of its effect (see [`super::honoured`]) counts as dropped with a
//! warning.

use super::honoured::Honoured;
use super::sample::{Directive, Sample};
use std::collections::BTreeMap;

/// The minimum percentage of services that load.
const LOAD: usize = 95;
/// The minimum percentage of services that load without a warning.
const CLEAN: usize = 60;

/// Prints the report. Returns true if every aim is reached.
pub fn report(packages: usize, files: &[Sample]) -> bool {
    let honoured = Honoured::of_the_table();
    let mut sums = Sums::default();
    let mut lost: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let warnings = warnings(file, &honoured);
        sums.add(file, &warnings);
        println!("  {}", line(file, &warnings));
        for one in file.directives().into_iter().filter(|_| file.is_service()) {
            let untested = is_untested(&one, &honoured);
            if untested || matches!(one.outcome.as_str(), "dropped" | "weaker") {
                let how = if untested { "no test" } else { one.outcome.as_str() };
                *lost.entry(format!("{} ({how})", one.name)).or_default() += 1;
            }
        }
    }
    let mut lost: Vec<_> = lost.into_iter().collect();
    lost.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    println!("directives of services that are not honoured:");
    for (name, count) in lost.iter().take(40) {
        println!("  {count:5}  {name}");
    }
    println!(
        "{packages} packages, {} unit files, {} services: {} load, {} of them without a warning; {} refused",
        files.len(),
        sums.services,
        sums.loaded,
        sums.clean,
        sums.refused
    );
    let percent = |part: usize| part * 100 / sums.services.max(1);
    let aims = [
        (
            sums.loaded * 100 >= LOAD * sums.services,
            format!(
                "services-load ({} of {}, {} %, at least {LOAD})",
                sums.loaded,
                sums.services,
                percent(sums.loaded)
            ),
        ),
        (
            sums.clean * 100 >= CLEAN * sums.services,
            format!(
                "without-a-warning ({} of {}, {} %, at least {CLEAN})",
                sums.clean,
                sums.services,
                percent(sums.clean)
            ),
        ),
        (
            sums.unplaced == 0,
            format!("refusals-name-a-line ({} of {} do not)", sums.unplaced, sums.refused),
        ),
        (sums.crashed == 0, format!("nothing-crashes ({} did)", sums.crashed)),
        (sums.services > 0, "there-are-services".to_owned()),
    ];
    for (good, text) in &aims {
        println!("{} {text}", if *good { "ok" } else { "FAIL" });
    }
    aims.iter().all(|(good, _)| *good)
}

#[derive(Default)]
struct Sums {
    services: usize,
    loaded: usize,
    clean: usize,
    /// Refusals of all kinds.
    refused: usize,
    /// Refusals without a line number.
    unplaced: usize,
    crashed: usize,
}

impl Sums {
    fn add(&mut self, file: &Sample, warnings: &[(u64, String)]) {
        let errors = file.said("error");
        self.crashed += usize::from(file.answer.is_none());
        self.refused += usize::from(!errors.is_empty());
        self.unplaced += usize::from(errors.iter().any(|(line, _)| *line == 0));
        if file.is_service() {
            let loaded = file.answer.is_some() && errors.is_empty();
            self.services += 1;
            self.loaded += usize::from(loaded);
            self.clean += usize::from(loaded && warnings.is_empty());
        }
    }
}

/// Returns true if the directive is kept, but no test shows its effect.
fn is_untested(one: &Directive, honoured: &Honoured) -> bool {
    one.outcome == "kept" && one.in_a_key && !honoured.has(&one.section, &one.name)
}

/// The warnings, and those that directives without a test should have.
fn warnings(file: &Sample, honoured: &Honoured) -> Vec<(u64, String)> {
    let mut said = file.said("warning");
    for one in file.directives().iter().filter(|one| is_untested(one, honoured)) {
        said.push((one.line, format!("{}= has no test: counts as dropped", one.name)));
    }
    said
}

fn line(file: &Sample, warnings: &[(u64, String)]) -> String {
    let name = format!("{}/{}", file.package, file.unit);
    let errors = file.said("error");
    let list = |said: &[(u64, String)]| {
        said.iter()
            .map(|(line, text)| format!("line {line}: {text}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    match () {
        () if file.answer.is_none() => format!("CRASHED {name}: {}", file.status),
        () if !errors.is_empty() => format!("refused {name}: {}", list(&errors)),
        () if !warnings.is_empty() => format!("warns   {name}: {}", list(warnings)),
        () => format!("loads   {name}"),
    }
}

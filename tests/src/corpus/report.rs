//! Counts what loads, what loads without a warning, and what is refused and where.

use super::sample::Sample;
use std::collections::BTreeMap;

/// Of a hundred services, how many load at least.
const LOAD: usize = 95;
/// And without a warning.
const CLEAN: usize = 60;

/// Prints it; true when every aim is reached.
pub fn report(packages: usize, files: &[Sample]) -> bool {
    let mut sums = Sums::default();
    let mut lost: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        sums.add(file);
        println!("  {}", line(file));
        for (name, outcome, _) in file.directives() {
            if matches!(outcome.as_str(), "dropped" | "weaker") && file.is_service() {
                *lost.entry(format!("{name} ({outcome})")).or_default() += 1;
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
    /// Of all kinds.
    refused: usize,
    /// Without a line.
    unplaced: usize,
    crashed: usize,
}

impl Sums {
    fn add(&mut self, file: &Sample) {
        let errors = file.said("error");
        self.crashed += usize::from(file.answer.is_none());
        self.refused += usize::from(!errors.is_empty());
        self.unplaced += usize::from(errors.iter().any(|(line, _)| *line == 0));
        if file.is_service() {
            let loaded = file.answer.is_some() && errors.is_empty();
            self.services += 1;
            self.loaded += usize::from(loaded);
            self.clean += usize::from(loaded && file.said("warning").is_empty());
        }
    }
}

fn line(file: &Sample) -> String {
    let name = format!("{}/{}", file.package, file.unit);
    let (errors, warnings) = (file.said("error"), file.said("warning"));
    let list = |said: &[(u64, String)]| {
        said.iter()
            .map(|(line, text)| format!("line {line}: {text}"))
            .collect::<Vec<_>>()
            .join("; ")
    };
    match () {
        () if file.answer.is_none() => format!("CRASHED {name}: {}", file.status),
        () if !errors.is_empty() => format!("refused {name}: {}", list(&errors)),
        () if !warnings.is_empty() => format!("warns   {name}: {}", list(&warnings)),
        () => format!("loads   {name}"),
    }
}

//! Checks of the units: the goal, errors in unit files, missing programs, and units that init leaves
//! out.

use super::facts::{FSTAB, Facts};
use super::{finding, style};
use groundstate_units::control::answer::{Finding, Level};
use groundstate_units::graph::Provider;
use groundstate_units::spec::{ExecLine, Piece, Prefixes, Run};
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::name::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Names or reasons that one line shows.
const SHOWN: usize = 3;
/// Packages of programs that the boot set runs.
const PACKAGES: [(&str, &str); 7] = [
    ("agetty", "util-linux"),
    ("mount", "mount"),
    ("sulogin", "util-linux"),
    ("swapon", "mount"),
    ("sysctl", "procps"),
    ("systemd-udevd", "udev"),
    ("udevadm", "udev"),
];
/// Codes of diagnostics that other checks report.
const ELSEWHERE: [&str; 2] = ["missing-executable", "systemd-activation"];

/// Directories of systemd's generators. A file hides files of its name in later directories.
const GENERATORS: [&str; 5] = [
    "/run/systemd/system-generators",
    "/etc/systemd/system-generators",
    "/usr/local/lib/systemd/system-generators",
    "/usr/lib/systemd/system-generators",
    "/lib/systemd/system-generators",
];
/// The unit of the boot set that runs the generators.
const RUNNER: &str = "generators";
/// The unit of the boot set that mounts what `tmp.mount` describes. Its name is not `tmp.mount`, because
/// a line of fstab may have that name.
const TMP: &str = "tmp-filesystem";

/// Checks that units provide the default target and the emergency target.
pub(super) fn goal(facts: &Facts<'_>) -> Vec<Finding> {
    let settings = &facts.generation.settings;
    let goal = &settings.default_target;
    let usable = |name: &Name| match facts.graph.meant(&facts.generation, name) {
        Provider::Unit(id) => match facts.graph.broken(id) {
            Some(broken) => Err(format!("its unit is broken: {}", broken.message)),
            None => Ok(()),
        },
        Provider::Masked => Err("it is masked".to_string()),
        Provider::NoUnit => Err("no unit provides it".to_string()),
    };
    let hint = "install the boot set, or set default-target in /etc/groundstate/init.yaml";
    let mut found = vec![match usable(goal) {
        Ok(()) => {
            let count = facts.needed().count();
            let message = format!("the default target needs {}", style::count(count, "unit"));
            finding(Level::Ok, goal.as_str(), message, "")
        }
        Err(why) => finding(Level::Error, goal.as_str(), format!("default target: {why}"), hint),
    }];
    let emergency = &settings.emergency_target;
    if facts.is_machine
        && let Err(why) = usable(emergency)
    {
        let message = format!("emergency target: {why}");
        let hint = "without a unit, init itself starts sulogin";
        found.push(finding(Level::Warning, emergency.as_str(), message, hint));
    }
    found
}

/// Counts the errors and warnings in unit files, other than those of fstab.
pub(super) fn errors(facts: &Facts<'_>) -> Vec<Finding> {
    let all = facts.generation.diagnostics.iter().filter(|said| &*said.at.file != FSTAB);
    let (errors, others): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        all.partition(|said| said.severity == Severity::Error);
    let mut found = Vec::new();
    let hint = match &facts.root {
        Some(root) => format!("`initctl check --root {root}` lists them"),
        None => "`initctl check` lists them".to_string(),
    };
    if let Some(first) = errors.first() {
        let message = format!("{}, first: {}", style::count(errors.len(), "error"), first.message);
        let place = format!("{}:{}", first.at.file, first.at.line);
        found.push(finding(Level::Error, &place, message, &hint));
    }
    let warnings = others.iter().filter(|said| said.severity == Severity::Warning);
    let warnings: Vec<_> =
        warnings.filter(|said| !ELSEWHERE.contains(&said.code.as_str())).collect();
    if !warnings.is_empty() {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for said in &warnings {
            *reasons.entry(reason(&said.code)).or_default() += 1;
        }
        let mut reasons: Vec<(&str, usize)> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let words = reasons.iter().take(SHOWN).map(|(reason, count)| format!("{count} {reason}"));
        let words = words.collect::<Vec<_>>().join(", ");
        let message = format!("{} ({words})", style::count(warnings.len(), "warning"));
        found.push(finding(Level::Warning, "unit files", message, &hint));
    }
    let replaced = others.iter().filter(|said| said.code == "native-unit").count();
    if replaced > 0 {
        let message = format!("native units replace {} of systemd", style::count(replaced, "unit"));
        found.push(finding(Level::Ok, "unit files", message, ""));
    }
    found
}

fn reason(code: &str) -> &str {
    match code {
        "weaker" => "with a weaker sandbox",
        "dropped" | "unknown-directive" => "with a directive that has no effect",
        "missing-target" => "with a missing target",
        "unused-drop-in" => "about a drop-in that has no effect",
        other => other,
    }
}

/// Finds the programs of needed units that are not installed.
pub(super) fn programs(facts: &Facts<'_>) -> Vec<Finding> {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    // Of several units with one program, the finding is about a required one.
    let mut runs: Vec<_> = facts.runs().collect();
    runs.sort_by_key(|(_, required, _)| !required);
    for (unit, required, run) in runs {
        let lines = run.exec_start_pre.iter().chain(&run.exec_start);
        for path in lines.filter_map(|line| program(line, &run)) {
            if facts.has(path) || !seen.insert(path.to_string()) {
                continue;
            }
            let name = path.rsplit('/').next().unwrap_or(path);
            let package = PACKAGES.iter().find(|(program, _)| *program == name);
            let hint = package.map(|(_, package)| format!("install {package}"));
            let level = if required { Level::Error } else { Level::Warning };
            let message = format!("there is no program {path}");
            found.push(finding(level, unit.name.as_str(), message, &hint.unwrap_or_default()));
        }
    }
    found
}

/// Returns the program of a command, unless the unit may start without it.
fn program<'r>(line: &'r ExecLine, run: &'r Run) -> Option<&'r str> {
    let Some([Piece::Literal(path)]) = line.words.first().map(Vec::as_slice) else { return None };
    let is_optional = run.particular.iter().any(|other| {
        let named = other.conditions.iter().any(|condition| condition.argument == *path);
        named || other.root_dir.is_some()
    });
    let counts = !line.prefixes.has(Prefixes::FORGIVEN) && path.starts_with('/') && !is_optional;
    counts.then_some(path.as_str())
}

/// Finds units that the administrator has enabled by links, and that init does not read. Targets and
/// slices have no process, so the machine loses nothing without them.
pub(super) fn left_out(facts: &Facts<'_>) -> Vec<Finding> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for directory in &facts.generation.settings.import_dirs {
        if directory == FSTAB || !directory.starts_with("/etc/") {
            continue;
        }
        let links = facts.names(directory).into_iter();
        for folder in links.filter(|name| name.ends_with(".wants") || name.ends_with(".requires")) {
            names.extend(facts.names(&format!("{directory}/{folder}")));
        }
    }
    // A link to a masked unit, or to one whose package is removed, enables nothing.
    let is_installed = |name: &str| {
        let mut directories = facts.generation.settings.import_dirs.iter();
        let path = directories.find(|directory| facts.has(&format!("{directory}/{name}")));
        let link = path.and_then(|directory| facts.link(&format!("{directory}/{name}")));
        path.is_some() && link.is_none_or(|target| target != "/dev/null")
    };
    let does_nothing = |name: &str| name.ends_with(".target") || name.ends_with(".slice");
    if facts.unit(TMP).is_some() {
        names.remove("tmp.mount");
    }
    names.retain(|name| {
        let is_left_out = facts.unit(name).is_none() && !facts.masks(name) && is_installed(name);
        is_left_out && !does_nothing(name)
    });
    let mut found = Vec::new();
    if !names.is_empty() {
        let shown: Vec<&str> = names.iter().take(SHOWN).map(String::as_str).collect();
        let rest = if names.len() > SHOWN { " …" } else { "" };
        let count = style::count(names.len(), "enabled unit");
        let message = format!("init does not start {count} of systemd: {}{rest}", shown.join(", "));
        let hint = "if that is fine, `systemctl disable` removes the links";
        found.push(finding(Level::Warning, "unit files", message, hint));
    }
    found
}

/// Finds generators of packages that no unit runs.
pub(super) fn of_generators(facts: &Facts<'_>) -> Vec<Finding> {
    if facts.needs(RUNNER) {
        return Vec::new();
    }
    let message = "no unit runs this generator, so the units that it makes are missing";
    let hint = "install the boot set, or unmask the unit `generators`";
    let warn = |path: String| finding(Level::Warning, &path, message, hint);
    generators(facts).into_iter().map(warn).collect()
}

/// Returns the paths of generators that are not systemd's own. Returns none if init does not read
/// the unit directories of systemd.
fn generators(facts: &Facts<'_>) -> Vec<String> {
    let mut directories = facts.generation.settings.import_dirs.iter();
    if !directories.any(|directory| directory.ends_with("/systemd/system")) {
        return Vec::new();
    }
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut found = Vec::new();
    for directory in GENERATORS {
        for name in facts.names(directory) {
            let path = format!("{directory}/{name}");
            // A link to /dev/null hides a generator.
            if seen.insert(name.clone())
                && !name.starts_with("systemd-")
                && facts.is_executable(&path)
            {
                found.push(path);
            }
        }
    }
    found
}

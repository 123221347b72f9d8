//! The same files read by systemd itself, offline: `systemd --test` loads a target that wants them
//! all and dumps the result. Compared are the words of each command, `Environment=` and
//! `EnvironmentFile=`, and implicit dependencies.

use super::sample::Sample;
use groundstate_units::import::systemd::{Surroundings, UnitName, convert, unit_text};
use groundstate_units::spec::{DependencyKind, ExecLine, Piece, Prefixes, Run};
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The path of systemd in Debian.
const SYSTEMD: &str = "/lib/systemd/systemd";
/// The minimum number of services for a result that proves something.
const LEAST: usize = 200;

/// The result of one side for one service.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// Each command, in order: its list and its words.
    commands: Vec<Vec<String>>,
    environment: BTreeSet<String>,
    files: BTreeSet<String>,
    /// Implicit dependencies: ordering or requirement, and the target.
    implied: BTreeSet<String>,
}

/// Prints the differences. Returns true if there are none.
pub fn compare(files: &[Sample]) -> bool {
    let mut services: BTreeMap<&str, &Sample> = BTreeMap::new();
    for file in
        files.iter().filter(|file| file.is_service() && !file.path.to_string_lossy().contains("@."))
    {
        services.entry(&file.unit).or_insert(file);
    }
    let theirs = match dump(&services) {
        Ok(text) => read(&text),
        Err(complaint) => {
            println!("FAIL oracle ({complaint})");
            return false;
        }
    };
    let (mut compared, mut same) = (0, 0);
    for (unit, file) in &services {
        let (Some(theirs), Some(ours)) = (theirs.get(*unit), ours(unit, &file.path)) else {
            continue;
        };
        compared += 1;
        let differences = differences(&ours, theirs);
        same += usize::from(differences.is_empty());
        for line in differences {
            println!("  differs {}/{unit}: {line}", file.package);
        }
    }
    println!("{compared} services compared with systemd's own reading: {same} agree in all");
    let enough = compared >= LEAST || services.len() < LEAST;
    let good = compared == same && compared > 0 && enough;
    println!("{} agrees-with-systemd ({same} of {compared})", if good { "ok" } else { "FAIL" });
    good
}

/// Loads all of them at once, as an unprivileged user, in a directory of their own.
fn dump(services: &BTreeMap<&str, &Sample>) -> Result<String, String> {
    let dir = std::env::temp_dir().join(format!("oracle.{}", std::process::id()));
    let units = dir.join("units");
    let failed = |error: std::io::Error| error.to_string();
    fs::create_dir_all(&units).map_err(failed)?;
    for entry in fs::read_dir("/lib/systemd/system").map_err(failed)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".target") && !entry.path().is_symlink() {
            fs::copy(entry.path(), units.join(&name)).map_err(failed)?;
        }
    }
    for (unit, file) in services {
        fs::copy(&file.path, units.join(unit)).map_err(failed)?;
    }
    let names: Vec<&str> = services.keys().copied().collect();
    fs::write(units.join("corpus.target"), format!("[Unit]\nWants={}\n", names.join(" ")))
        .map_err(failed)?;
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", SYSTEMD, "--test", "--system"])
        .arg("--unit=corpus.target")
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("SYSTEMD_UNIT_PATH", &units)
        .env("XDG_RUNTIME_DIR", &dir)
        .output()
        .map_err(failed)?;
    let _ = fs::remove_dir_all(&dir);
    if output.stdout.is_empty() {
        return Err(String::from_utf8_lossy(&output.stderr).chars().take(300).collect());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn read(text: &str) -> BTreeMap<String, Said> {
    let mut all: BTreeMap<String, Said> = BTreeMap::new();
    let mut unit = String::new();
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix("-> Unit ").and_then(|l| l.strip_suffix(':')) {
            unit = name.to_owned();
            continue;
        }
        let Some((key, value)) = line.trim().split_once(": ") else { continue };
        let said = all.entry(unit.clone()).or_default();
        match key {
            "Command Line" => said.commands.push(words(value)),
            "Environment" => {
                said.environment.insert(value.to_owned());
            }
            "EnvironmentFile" => {
                said.files.insert(value.to_owned());
            }
            "Requires" | "After" => {
                if let Some((target, origin)) = value.split_once(" (")
                    && origin.contains("origin-default")
                    && is_of_the_graph(target)
                {
                    said.implied.insert(format!("{key} {target}"));
                }
            }
            _ => {}
        }
    }
    all
}

/// Excludes the journal, which the logger replaces, and slices, which are not units here.
fn is_of_the_graph(target: &str) -> bool {
    !target.starts_with("systemd-journald")
        && !target.ends_with(".slice")
        && !target.ends_with(".mount")
}

/// The words of a command line as the dump quotes them.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut inside, mut any) = (Vec::new(), String::new(), false, false);
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match c {
            '"' => {
                inside = !inside;
                any = true;
            }
            '\\' => {
                any = true;
                match letters.next() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some(c) => word.push(c),
                    None => {}
                }
            }
            ' ' if !inside => {
                if any {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            c => {
                any = true;
                word.push(c);
            }
        }
    }
    if any {
        words.push(word);
    }
    words
}

fn ours(unit: &str, path: &Path) -> Option<Said> {
    let bytes = fs::read(path).ok()?;
    let file = path.to_string_lossy().into_owned().into();
    let text = unit_text::parse(&file, &bytes).ok()?;
    let imported = convert(&UnitName::of(unit), &file, &[text], &Surroundings::default());
    let manifest = imported.manifest;
    let wrong = |one: &groundstate_units::text::diagnostic::Diagnostic| {
        one.severity == groundstate_units::text::diagnostic::Severity::Error
    };
    if manifest.diagnostics.iter().any(wrong) {
        return None;
    }
    let semantics = semantics::read(manifest, &Settings::default(), &Accounts::default());
    let draft = semantics.draft?;
    let mut said = Said::default();
    let run: Run = Run::decode(&draft.run)?;
    let lists = [
        &run.exec_condition,
        &run.exec_start_pre,
        &run.exec_start,
        &run.exec_start_post,
        &run.exec_reload,
        &run.exec_stop,
        &run.exec_stop_post,
    ];
    said.commands = lists.into_iter().flatten().map(line).collect();
    said.environment = run.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let file = |one: &groundstate_units::spec::EnvFile| {
        format!("{}{}", if one.optional { "-" } else { "" }, one.path)
    };
    said.files = run.env_file.iter().map(file).collect();
    for dependency in &draft.dependencies {
        let requires =
            matches!(dependency.kind, DependencyKind::DependsMs | DependencyKind::DependsOn);
        let orders =
            requires || matches!(dependency.kind, DependencyKind::After | DependencyKind::WaitsFor);
        if requires {
            said.implied.insert(format!("Requires {}", dependency.target));
        }
        if orders {
            said.implied.insert(format!("After {}", dependency.target));
        }
    }
    Some(said)
}

/// The words of a command as in the file, without quotes and escapes.
fn line(line: &ExecLine) -> Vec<String> {
    let piece = |piece: &Piece| match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Variable(name) => format!("${{{name}}}"),
        Piece::Split(name) => format!("${name}"),
        Piece::MainPid => "$MAINPID".to_owned(),
    };
    let mut words: Vec<String> =
        line.words.iter().map(|word| word.iter().map(piece).collect()).collect();
    // systemd keeps the program apart from its arguments.
    if line.prefixes.has(Prefixes::NAMED) && !words.is_empty() {
        words.remove(0);
    }
    words
}

fn differences(ours: &Said, theirs: &Said) -> Vec<String> {
    let mut found = Vec::new();
    let plain = |words: &Vec<String>| -> Vec<String> {
        words.iter().map(|word| word.replace("$$", "$").replace("${MAINPID}", "$MAINPID")).collect()
    };
    // A oneshot without a command has one that does nothing here.
    let nothing = vec!["/bin/true".to_owned()];
    let (mut a, mut b): (Vec<_>, Vec<_>) =
        (ours.commands.iter().map(plain).collect(), theirs.commands.iter().map(plain).collect());
    a.sort();
    b.sort();
    if !b.contains(&nothing) {
        a.retain(|words| *words != nothing);
    }
    if a != b {
        let extra = |x: &[Vec<String>], y: &[Vec<String>]| -> Vec<Vec<String>> {
            x.iter().filter(|one| !y.contains(one)).cloned().collect()
        };
        found.push(format!("commands: ours {:?}, systemd's {:?}", extra(&a, &b), extra(&b, &a)));
    }
    if ours.environment != theirs.environment {
        found.push(format!(
            "environment: ours {:?}, systemd's {:?}",
            ours.environment, theirs.environment
        ));
    }
    if ours.files != theirs.files {
        found.push(format!(
            "environment files: ours {:?}, systemd's {:?}",
            ours.files, theirs.files
        ));
    }
    // Explicit dependencies may exceed the implicit ones.
    let missing: Vec<&String> = theirs.implied.difference(&ours.implied).collect();
    if !missing.is_empty() {
        found.push(format!("implied dependencies that are missing: {missing:?}"));
    }
    found
}

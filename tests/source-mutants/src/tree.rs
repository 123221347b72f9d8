//! A copy of the core with all mutants, and its programs. A mutant that does not compile is left
//! out, and the copy is made again until it compiles.

use crate::list::Mutant;
use crate::weave::{Woven, weave};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum number of builds; type errors hide borrow errors.
const ROUNDS: usize = 12;

/// The built copy.
pub struct Tree {
    copy: PathBuf,
    /// The program of `judge.txt`.
    pub judge: PathBuf,
    /// Mutants that were left out, and why.
    pub left_out: BTreeMap<u32, &'static str>,
}

/// Copies, weaves and builds.
pub fn grow(top: &Path, copy: &Path, list: &[Mutant]) -> Result<Tree, String> {
    lay_out(top, copy).map_err(|error| format!("{}: {error}", copy.display()))?;
    let kept = copy.join("left-out");
    let mut left_out = recall(&std::fs::read_to_string(&kept).unwrap_or_default(), list);
    for _ in 0..ROUNDS {
        let woven = weave_all(top, copy, list, &mut left_out)?;
        let (errors, judge) = cargo(copy, &["build", "--example", "judge"])?;
        if errors.is_empty() {
            let judge = judge.ok_or("judge was not built")?;
            _ = std::fs::write(&kept, note(&left_out, list));
            return Ok(Tree { copy: copy.to_path_buf(), judge, left_out });
        }
        let mut found = BTreeSet::new();
        for (file, at) in &errors {
            let near = woven.get(file).into_iter().flatten();
            let near: Vec<&Woven> = near.filter(|woven| woven.range.contains(at)).collect();
            let least = near.iter().map(|woven| woven.range.len()).min();
            let nearest = near.iter().filter(|woven| Some(woven.range.len()) == least);
            found.extend(nearest.map(|woven| woven.number));
        }
        if found.is_empty() {
            return Err(format!("the copy does not compile, by no mutant: {errors:?}"));
        }
        eprintln!("source-mutants: {} do not compile", found.len());
        left_out.extend(found.into_iter().map(|number| (number, NO_PROGRAM)));
    }
    Err("the copy does not compile".to_string())
}

const NO_SWITCH: &str = "no switch can be made of it";
const NO_PROGRAM: &str = "does not compile behind a switch";

/// The mutants left out the last time, so that the same copy is made at once.
fn recall(text: &str, list: &[Mutant]) -> BTreeMap<u32, &'static str> {
    let names: BTreeSet<&str> = text.lines().collect();
    let here = list.iter().filter(|it| names.contains(it.name.as_str()));
    here.map(|it| (it.number, NO_PROGRAM)).collect()
}

fn note(left_out: &BTreeMap<u32, &'static str>, list: &[Mutant]) -> String {
    let is_it = |it: &&Mutant| left_out.get(&it.number) == Some(&NO_PROGRAM);
    list.iter().filter(is_it).map(|it| format!("{}\n", it.name)).collect()
}

impl Tree {
    /// The core's own tests, built from the same copy.
    pub fn tests(&self) -> Result<PathBuf, String> {
        let (errors, tests) = cargo(&self.copy, &["test", "--no-run", "--lib"])?;
        tests.ok_or_else(|| format!("the core's tests were not built: {errors:?}"))
    }
}

fn lay_out(top: &Path, copy: &Path) -> std::io::Result<()> {
    let units = copy.join("units");
    std::fs::create_dir_all(&units)?;
    let manifest = std::fs::read_to_string(top.join("Cargo.toml"))?;
    let members = r#"members = ["units", "init", "ctl", "cluster", "tests"]"#;
    let manifest = manifest.replace(members, r#"members = ["units"]"#);
    let manifest = format!("{manifest}\n[profile.dev.package.groundstate-units]\nopt-level = 1\n");
    write(&copy.join("Cargo.toml"), &manifest)?;
    std::fs::copy(top.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    std::fs::copy(top.join("units/Cargo.toml"), units.join("Cargo.toml"))?;
    folder(&top.join("units/src"), &units.join("src"))?;
    let lib = std::fs::read_to_string(top.join("units/src/lib.rs"))?;
    write(&units.join("src/lib.rs"), &format!("{lib}\n#[doc(hidden)]\npub mod switch;\n"))?;
    write(&units.join("src/switch.rs"), include_str!("switch.txt"))?;
    std::fs::create_dir_all(units.join("examples"))?;
    write(&units.join("examples/judge.rs"), include_str!("judge.txt"))
}

fn folder(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (entry, name) = { entry.map(|entry| (entry.path(), entry.file_name()))? };
        if entry.is_dir() {
            folder(&entry, &to.join(name))?;
        } else {
            write(&to.join(name), &std::fs::read_to_string(entry)?)?;
        }
    }
    Ok(())
}

/// Leaves an unchanged file alone, so that it is not built again.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::write(path, text)
}

/// Writes each file of the list without the left-out mutants. Mutants that cannot be woven are left
/// out.
fn weave_all(
    top: &Path,
    copy: &Path,
    list: &[Mutant],
    left_out: &mut BTreeMap<u32, &'static str>,
) -> Result<BTreeMap<String, Vec<Woven>>, String> {
    let files: BTreeSet<&str> = list.iter().map(|it| it.file.as_str()).collect();
    let mut all = BTreeMap::new();
    for file in files {
        let mine: Vec<&Mutant> = list
            .iter()
            .filter(|it| it.file == file && !left_out.contains_key(&it.number))
            .collect();
        let text = std::fs::read_to_string(top.join(file)).map_err(|it| format!("{file}: {it}"))?;
        let (text, woven) = weave(&text, &mine).map_err(|error| format!("{file}: {error}"))?;
        let there: BTreeSet<u32> = woven.iter().map(|it| it.number).collect();
        for mutant in mine.iter().filter(|it| !there.contains(&it.number)) {
            left_out.insert(mutant.number, NO_SWITCH);
        }
        write(&copy.join(file), &text).map_err(|error| format!("{file}: {error}"))?;
        all.insert(file.to_string(), woven);
    }
    Ok(all)
}

type Errors = Vec<(String, usize)>;

/// The compiler errors, and the built program.
fn cargo(copy: &Path, words: &[&str]) -> Result<(Errors, Option<PathBuf>), String> {
    let output = Command::new("cargo")
        .args(words)
        .args(["--quiet", "--features", "sim", "--message-format", "json"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    let (mut errors, mut program) = (Vec::new(), None);
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if let Some(path) = message.get("executable").and_then(Value::as_str) {
            program = Some(PathBuf::from(path));
        }
        if message.pointer("/message/level").and_then(Value::as_str) != Some("error") {
            continue;
        }
        let spans = message.pointer("/message/spans").and_then(Value::as_array);
        let first = spans.and_then(|spans| {
            spans.iter().find(|it| it.get("is_primary").and_then(Value::as_bool) == Some(true))
        });
        errors.extend(first.and_then(|span| {
            let at = span.get("byte_start")?.as_u64()?;
            Some((span.get("file_name")?.as_str()?.to_string(), usize::try_from(at).ok()?))
        }));
    }
    if errors.is_empty() && !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok((errors, program))
}

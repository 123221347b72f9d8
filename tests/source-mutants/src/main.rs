//! Judges every mutant that cargo-mutants lists for some files of the core by the scenarios, the
//! simulator and the core's own tests. cargo-mutants would build the core once for each; this
//! program builds it once with all of them ([`weave`], [`tree`]), and runs it once for each.
//!
//! `source-mutants LIST LEDGER ANSWERS WORK [JOBS]`, from the top of the repository. LIST is the
//! output of `cargo mutants --list --json`. LEDGER gets a line for each mutant, and a later run
//! continues it. ANSWERS has a line for each harmless survivor: its name without the position, and
//! the reason. Prints the survivors without an answer and exits with 1 if there are any. An
//! operator is replaced in the syntax tree, so `a && b && c` becomes `(a || b) && c` where a text
//! replacement would give `a || (b && c)`.

mod list;
mod tree;
mod weave;

use list::Mutant;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tree::Tree;

/// The schedules for a mutant, and the seed of the first.
const SCHEDULES: &str = "500";
const SEED: &str = "1";
/// The seconds of processor time and KiB of memory after which a mutant counts as hanging.
const LIMITS: &str = "ulimit -t 40; ulimit -v 8000000; exec \"$0\" \"$@\"";

const SURVIVED: &str = "SURVIVED";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [list, ledger, answers, work, jobs @ ..] = words.as_slice() else {
        eprintln!("usage: source-mutants LIST LEDGER ANSWERS WORK [JOBS]");
        return ExitCode::from(64);
    };
    let jobs = jobs.first().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    match run(list, Path::new(ledger), answers, Path::new(work), jobs) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("source-mutants: {what}");
            ExitCode::from(2)
        }
    }
}

fn run(list: &str, ledger: &Path, answers: &str, work: &Path, jobs: usize) -> Result<bool, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|it| format!("{path}: {it}"));
    let list = list::read(&read(list)?)?;
    let answers = std::fs::read_to_string(answers).unwrap_or_default();
    let before = std::fs::read_to_string(ledger).unwrap_or_default();
    let mut known = done(&before, &list, &answers);
    if list.iter().any(|it| !known.contains_key(&it.name)) {
        let top = std::env::current_dir().map_err(|error| error.to_string())?;
        let copy = std::path::absolute(work.join("copy")).map_err(|error| error.to_string())?;
        let tree = tree::grow(&top, &copy, &list)?;
        if let Some(what) = judge(&tree, 0, &top) {
            return Err(format!("without a mutant: {what}"));
        }
        judge_all(&tree, &top, &list, &mut known, ledger, jobs)?;
        keep(ledger, &list, &known)?;
        test_all(&tree, &list, &mut known, &answers)?;
    }
    keep(ledger, &list, &known)?;
    Ok(report(&list, &known, &answers))
}

/// The results of a ledger for the mutants of this list. A survivor without an answer is judged
/// again.
fn done(ledger: &str, list: &[Mutant], answers: &str) -> BTreeMap<String, String> {
    let lines = ledger.lines().filter_map(|line| line.split_once('\t'));
    let known: BTreeMap<&str, &str> = lines.collect();
    let here = list.iter().filter_map(|it| Some((it, *known.get(it.name.as_str())?)));
    let here = here.filter(|(it, what)| *what != SURVIVED || is_answered(it, answers));
    here.map(|(it, what)| (it.name.clone(), what.to_string())).collect()
}

fn is_answered(mutant: &Mutant, answers: &str) -> bool {
    let title = mutant.title();
    let mut names = answers.lines().filter_map(|line| line.split_once('\t'));
    names.any(|(name, _)| name == title)
}

/// Runs the core's own tests for a mutant that has survived everything else.
fn test_all(
    tree: &Tree,
    list: &[Mutant],
    known: &mut BTreeMap<String, String>,
    answers: &str,
) -> Result<(), String> {
    let is_open = |it: &&Mutant| known.get(&it.name).is_some_and(|what| what == SURVIVED);
    let open = list.iter().filter(|it| is_open(it) && !is_answered(it, answers));
    let open: Vec<&Mutant> = open.collect();
    if open.is_empty() {
        return Ok(());
    }
    let tests = tree.tests()?;
    for mutant in open {
        if let Some(what) = objection(&tests, &["--test-threads", "1"], mutant.number) {
            known.insert(mutant.name.clone(), what);
        }
    }
    Ok(())
}

fn judge_all(
    tree: &Tree,
    top: &Path,
    list: &[Mutant],
    known: &mut BTreeMap<String, String>,
    ledger: &Path,
    jobs: usize,
) -> Result<(), String> {
    let open: Vec<&Mutant> = list.iter().filter(|it| !known.contains_key(&it.name)).collect();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(ledger);
    let book = Mutex::new((file.map_err(|error| format!("{}: {error}", ledger.display()))?, known));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(mutant) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
            let what = match tree.left_out.get(&mutant.number) {
                Some(why) => (*why).to_string(),
                None => judge(tree, mutant.number, top).unwrap_or(SURVIVED.to_string()),
            };
            let Ok(mut book) = book.lock() else { return };
            // Written at once, so that an interrupted run continues from here.
            _ = writeln!(book.0, "{}\t{what}", mutant.name);
            book.1.insert(mutant.name.clone(), what);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work);
        }
    });
    Ok(())
}

/// The objection of scenarios and simulator to a mutant, if any. Number 0 is no mutant.
fn judge(tree: &Tree, number: u32, top: &Path) -> Option<String> {
    let scenarios = top.join("tests/scenarios").display().to_string();
    objection(&tree.judge, &[&scenarios, SEED, SCHEDULES], number)
}

fn objection(program: &Path, words: &[&str], number: u32) -> Option<String> {
    let output = Command::new("sh")
        .args(["-c", LIMITS])
        .arg(program)
        .args(words)
        .env("MUTANT", number.to_string())
        .output();
    let output = match output {
        Ok(output) if output.status.success() => return None,
        Ok(output) => output,
        Err(error) => return Some(format!("{}: {error}", program.display())),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed = text.lines().find_map(|line| line.strip_suffix(" ... FAILED"));
    let said = failed.or_else(|| text.lines().next().filter(|_| output.status.code() == Some(3)));
    Some(said.map_or("hangs or falls".to_string(), str::to_string))
}

/// Writes the ledger in the order of the list.
fn keep(ledger: &Path, list: &[Mutant], known: &BTreeMap<String, String>) -> Result<(), String> {
    let lines =
        list.iter().filter_map(|it| Some(format!("{}\t{}\n", it.name, known.get(&it.name)?)));
    std::fs::write(ledger, lines.collect::<String>()).map_err(|error| error.to_string())
}

/// Prints the report. Returns true if every survivor has an answer.
fn report(list: &[Mutant], known: &BTreeMap<String, String>, answers: &str) -> bool {
    let what = |mutant: &Mutant| known.get(&mutant.name).map_or("", String::as_str);
    let count = |is: &dyn Fn(&str) -> bool| list.iter().filter(|it| is(what(it))).count();
    let mut open = 0;
    for mutant in list.iter().filter(|it| what(it) == SURVIVED) {
        if !is_answered(mutant, answers) {
            open += 1;
            println!("FAIL {} survived without a stated reason", mutant.name);
        }
    }
    let survived = count(&|what| what == SURVIVED);
    let unmade = count(&|what| what.ends_with("switch") || what.starts_with("no switch"));
    println!("source-mutants: {} listed, {unmade} cannot be run, {survived} survived", list.len());
    println!("{} passed, {open} failed", list.len() - unmade - open);
    open == 0
}

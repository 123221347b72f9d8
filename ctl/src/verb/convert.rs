//! `convert`: prints systemd unit files and /etc/init.d scripts in the native form, with the result
//! for each directive. init imports systemd unit files with the same code, without conversion;
//! scripts must be converted.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::files::Disk;
use crate::report;
use crate::session::{self, Session};
use crate::style::{Style, Tone};
use groundstate_units::control::answer::{Report, Said};
use groundstate_units::import::form::Form;
use groundstate_units::import::import_outcome::{ImportOutcome, Imported, Outcome, Score};
use groundstate_units::import::systemd::{Surroundings, UnitName, convert, unit_text};
use groundstate_units::import::{openrc, sysv};
use groundstate_units::limit;
use groundstate_units::load::facts;
use groundstate_units::load::files::Files;
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::encoding;
use groundstate_units::unit::account::Accounts;
use groundstate_units::unit::semantics;
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::yaml_writer;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// A file and its conversion.
struct Converted {
    file: String,
    imported: Imported,
    diagnostics: Vec<Diagnostic>,
}

/// Converts the files and prints the result.
pub(crate) fn run(session: &Session, asked: &arguments::Convert) -> Result<Exit, Error> {
    let around = Surroundings { facts: facts::gather(&Disk), strict_sandbox: asked.strict_sandbox };
    let mut converted = Vec::new();
    let mut found = Vec::new();
    for path in &asked.files {
        match convert_file(path, &around)? {
            Ok(done) => {
                found.extend(done.diagnostics.iter().cloned());
                converted.push(done);
            }
            Err(fatal) => found.extend(fatal),
        }
    }
    let report = Report::new(&found);
    if session.json {
        session::print_json(&as_json(&converted, &report))?;
    } else {
        let style = &session.style;
        let text: Vec<String> = converted
            .iter()
            .map(|one| if asked.report { outcomes(one, style) } else { native(one) })
            .collect();
        session::print(&text.join(if asked.report { "\n" } else { "---\n" }))?;
        for one in &converted {
            remark(session, &dropped_summary(one));
        }
        found.retain(|said| !converted.iter().any(|one| has_outcome(one, said)));
        remark(session, &report::render(&Report::new(&found), &Style::PLAIN));
    }
    Ok(if report.errors > 0 { Exit::Refused } else { Exit::Done })
}

/// Diagnostic codes that the outcomes of directives already cover.
const WITH_OUTCOME: [&str; 4] = ["weaker", "dropped", "not-supported", "unknown-directive"];

/// Returns true if the output already contains this diagnostic. It does not if only a part of a
/// directive is dropped: the outcome of that directive is [`Outcome::Kept`].
fn has_outcome(one: &Converted, said: &Diagnostic) -> bool {
    let is_lost = |outcome: &Outcome| matches!(outcome, Outcome::Lost(_) | Outcome::Weaker(_));
    let mut outcomes = one.imported.outcomes.iter();
    said.severity != Severity::Error
        && WITH_OUTCOME.contains(&said.code.as_str())
        && outcomes.any(|directive| {
            let (at, told) = (&directive.at, &said.at);
            is_lost(&directive.outcome) && (&at.file, at.line) == (&told.file, told.line)
        })
}

/// Counts dropped directives for stderr, because the output may go to a file.
fn dropped_summary(one: &Converted) -> String {
    let count = |is: fn(&Outcome) -> bool| {
        one.imported.outcomes.iter().filter(|directive| is(&directive.outcome)).count()
    };
    let lost = count(|outcome| matches!(outcome, Outcome::Lost(_)));
    let weaker = count(|outcome| matches!(outcome, Outcome::Weaker(_)));
    let words = [(lost, "dropped"), (weaker, "without the requested isolation")];
    let words: Vec<String> = words
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{word}: {count}"))
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!("{}: directives {}; the output says which", one.file, words.join(", "))
}

fn remark(session: &Session, text: &str) {
    if !text.trim().is_empty() {
        session.remark(text.trim_end());
    }
}

type Fatal = Vec<Diagnostic>;

fn convert_file(path: &Path, around: &Surroundings) -> Result<Result<Converted, Fatal>, Error> {
    let file: Arc<str> = path.to_string_lossy().into();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unit = UnitName::of(&name);
    let bytes = read(&file)?;
    let form = Form::of(&name, &bytes);
    // The unit refers to the script by its absolute path, and so do diagnostics.
    let file = if form == Form::OpenRc { absolute(path)?.into() } else { file };
    let mut parts = vec![(file.clone(), bytes)];
    let beside = match form {
        Form::Systemd => drop_ins(&file, &unit),
        Form::OpenRc => settings_of(path, &name).into_iter().collect(),
        Form::Sysv => Vec::new(),
    };
    for part in beside {
        let bytes = read(&part)?;
        parts.push((part.into(), bytes));
    }
    let imported = match (form, parts.first()) {
        (Form::Sysv, Some((file, bytes))) => {
            Ok(sysv::convert(&name, file, bytes, &absolute(path)?))
        }
        (Form::OpenRc, Some((_, bytes))) => {
            let settings = parts.get(1).map(|(file, bytes)| (file, bytes.as_slice()));
            Ok(openrc::convert(&name, &file, bytes, settings))
        }
        (Form::Systemd | Form::OpenRc | Form::Sysv, _) => systemd(&unit, &file, &parts, around),
    };
    let mut made =
        imported.map(|imported| with_native_diagnostics(file.to_string(), &unit, imported));
    let found = match &mut made {
        Ok(done) => &mut done.diagnostics,
        Err(fatal) => fatal,
    };
    for diagnostic in found {
        let bytes = parts.iter().find(|(part, _)| *part == diagnostic.at.file);
        let whole = bytes.and_then(|(_, bytes)| std::str::from_utf8(bytes).ok());
        diagnostic.excerpt = encoding::excerpt(whole.unwrap_or_default(), diagnostic.at.line);
    }
    Ok(made)
}

/// Converts a unit file with its drop-ins.
fn systemd(
    name: &UnitName,
    file: &Arc<str>,
    parts: &[(Arc<str>, Vec<u8>)],
    around: &Surroundings,
) -> Result<Imported, Fatal> {
    let (mut texts, mut fatal) = (Vec::new(), Vec::new());
    for (part, bytes) in parts {
        match unit_text::parse(part, bytes) {
            Ok(text) => texts.push(text),
            Err(found) => fatal.extend(found),
        }
    }
    if fatal.is_empty() { Ok(convert(name, file, &texts, around).into()) } else { Err(fatal) }
}

/// Returns the settings file of an OpenRC script: in `conf.d` beside the script's directory.
fn settings_of(path: &Path, name: &str) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let settings = path.parent()?.parent()?.join("conf.d").join(name);
    settings.is_file().then(|| settings.to_string_lossy().into_owned())
}

/// Returns the absolute path by which a unit calls a script.
fn absolute(path: &Path) -> Result<String, Error> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let words = || format!("{}: the path is not UTF-8", path.display());
    path.to_str().map(str::to_owned).ok_or_else(|| Error::usage(words(), "rename it"))
}

/// Adds diagnostics of the native reader to the import.
fn with_native_diagnostics(file: String, name: &UnitName, imported: Imported) -> Converted {
    let mut diagnostics = imported.manifest.diagnostics.clone();
    if !name.is_template() {
        let read =
            semantics::read(imported.manifest.clone(), &Settings::default(), &Accounts::default());
        let new = |said: &Diagnostic| {
            said.severity == Severity::Error && !imported.manifest.diagnostics.contains(said)
        };
        diagnostics.extend(read.diagnostics.into_iter().filter(new));
    }
    diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    Converted { file, imported, diagnostics }
}

fn read(file: &str) -> Result<Vec<u8>, Error> {
    let failed = |words: &str| Error::usage(format!("{file}: {words}"), "initctl convert FILE…");
    match Disk.read(file, limit::IMPORTED_FILE) {
        Ok((bytes, _)) => Ok(bytes),
        Err(groundstate_units::load::files::Problem::Missing) => Err(failed("no such file")),
        Err(groundstate_units::load::files::Problem::TooLarge) => Err(failed("larger than 1 MiB")),
        Err(_) => Err(failed("not a file that can be read")),
    }
}

/// Returns the drop-ins beside the file, chosen and ordered as in init's loader.
fn drop_ins(file: &str, name: &UnitName) -> Vec<String> {
    let parent = Path::new(file).parent().map(|dir| dir.to_string_lossy().into_owned());
    let parent = parent.filter(|dir| !dir.is_empty()).unwrap_or_else(|| ".".to_string());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let of_type = name.suffix.map(|suffix| suffix.as_str().to_string());
    for unit in name.drop_in_names().into_iter().chain(of_type) {
        let directory = format!("{parent}/{unit}.d");
        let names = Disk.list(&directory, limit::DROP_INS).unwrap_or_default();
        for name in names.into_iter().filter(|name| name.ends_with(".conf")) {
            found.entry(name.clone()).or_insert_with(|| format!("{directory}/{name}"));
        }
    }
    found.into_values().collect()
}

/// Prints the native form, with a comment for each directive that is missing from it.
fn native(one: &Converted) -> String {
    let score = Score::of(&one.imported.outcomes);
    let mut text = format!(
        "# From {}: {} of {} directives honoured ({} %).\n",
        one.file,
        score.honoured,
        score.all,
        score.percent()
    );
    let mut outcomes: Vec<&ImportOutcome> = one.imported.outcomes.iter().collect();
    outcomes.sort_by_key(|directive| (*directive.at.file != *one.file, &directive.at));
    for directive in outcomes {
        let (word, why) = match &directive.outcome {
            Outcome::Kept(_) | Outcome::Silent => continue,
            Outcome::ByDesign(why) => ("not needed", why),
            Outcome::Lost(how) => ("dropped", how),
            Outcome::Weaker(why) => ("weaker", why),
            Outcome::Refused(why) => ("refused", why),
        };
        let value: String = directive.value.chars().take(60).collect();
        let place = match *directive.at.file == *one.file {
            true => format!("line {}", directive.at.line),
            false => format!("{}:{}", directive.at.file, directive.at.line),
        };
        let equals = if directive.name.is_empty() { "" } else { "=" };
        let line = format!("# {word}: {place}: {}{equals}{value}: {why}", directive.name);
        // Replaces characters that would end the comment or are refused in a file.
        text.extend(line.chars().map(|c| if encoding::is_unprintable(c) { ' ' } else { c }));
        text.push('\n');
    }
    text.push_str(&yaml_writer::write(&one.imported.manifest));
    text
}

fn outcome(outcome: &Outcome) -> (&'static str, &str, Tone) {
    match outcome {
        Outcome::Kept(key) => ("kept", key, Tone::Good),
        Outcome::Silent => ("kept", "", Tone::Good),
        Outcome::ByDesign(why) => ("not needed", why, Tone::Quiet),
        Outcome::Lost(how) => ("dropped", how, Tone::Warning),
        Outcome::Weaker(why) => ("weaker", why, Tone::Warning),
        Outcome::Refused(why) => ("refused", why, Tone::Bad),
    }
}

/// Prints one line per directive.
fn outcomes(one: &Converted, style: &Style) -> String {
    let score = Score::of(&one.imported.outcomes);
    let mut text = format!(
        "{}: {} of {} directives honoured ({} %)\n",
        one.file,
        score.honoured,
        score.all,
        score.percent()
    );
    let mut rows: Vec<&ImportOutcome> = one.imported.outcomes.iter().collect();
    rows.sort_by(|a, b| a.at.cmp(&b.at));
    for directive in rows {
        let (word, why, tone) = outcome(&directive.outcome);
        let word = style.paint(tone, &format!("{word:<10}"));
        let _ = writeln!(
            text,
            "{:>5}  {word} [{}] {}  {why}",
            directive.at.line, directive.section, directive.name
        );
    }
    text
}

fn as_json(converted: &[Converted], report: &Report) -> Value {
    let files: Vec<Value> = converted
        .iter()
        .map(|one| {
            let score = Score::of(&one.imported.outcomes);
            let own = Report::new(&one.diagnostics);
            let directives: Vec<Value> =
                one.imported.outcomes.iter().map(outcome_as_json).collect();
            json!({
                "file": one.file,
                "unit": one.imported.manifest.name.as_ref().map(ToString::to_string),
                "native": yaml_writer::write(&one.imported.manifest),
                "honoured": score.honoured,
                "directives": directives,
                "score": score.percent(),
                "errors": own.errors,
                "warnings": own.warnings,
            })
        })
        .collect();
    let said: &[Said] = &report.diagnostics;
    json!({
        "schema": 1,
        "errors": report.errors,
        "warnings": report.warnings,
        "files": files,
        "diagnostics": said,
    })
}

fn outcome_as_json(directive: &ImportOutcome) -> Value {
    let (word, why, _) = outcome(&directive.outcome);
    let key = match &directive.outcome {
        Outcome::Kept(key) => Some(key),
        Outcome::Silent | Outcome::ByDesign(_) | Outcome::Lost(_) => None,
        Outcome::Weaker(_) | Outcome::Refused(_) => None,
    };
    json!({
        "section": &*directive.section,
        "name": directive.name,
        "value": directive.value,
        "file": &*directive.at.file,
        "line": directive.at.line,
        "column": directive.at.column,
        "outcome": word.replace(' ', "-"),
        "key": key,
        "detail": why,
    })
}

#[cfg(test)]
mod tests;

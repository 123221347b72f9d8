//! Reads and imports one unit file of systemd with its drop-ins, as [`crate::load::unit_file`] does
//! for a native one. Also makes a record that lets the next load skip the file.

use crate::import::systemd::table::partly;
use crate::import::systemd::unit_text::{self, UnitText};
use crate::import::systemd::{Surroundings, convert, replacement, target_of_link};
use crate::limit;
use crate::load::foreign::{Foreign, ForeignFile, Link};
use crate::load::template::{Body, Template};
use crate::load::unit_file::{Context, UnitFile, finish, interpret, left_out, trusted};
use crate::spec::Kind;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::name::Name;
use crate::text::unit_name::UnitName;
use crate::text::yaml::{Node, Spot, Value};
use crate::unit::assembly::Draft;
use crate::unit::generation::{Fault, FileRecord};
use crate::unit::manifest::Manifest;
use std::sync::Arc;

/// Reads and interprets one file.
pub(crate) fn load(
    context: &Context<'_>,
    file: &ForeignFile,
    foreign: &Foreign,
    around: &Surroundings,
) -> UnitFile {
    let mut record = FileRecord::new(file.path.clone());
    let mut work = None;
    let why = context.files.work_on(&file.path, &mut || {
        work = Some(read_whole(context, file, foreign, around, &mut record));
    });
    work.unwrap_or_else(|| {
        record.diagnostics.push(left_out(&file.path, why));
        record.again = true;
        let draft = placeholder(context, file, foreign, &record);
        let drafts = draft.into_iter().collect();
        UnitFile { drafts, record: record.clone(), templates: Vec::new(), nameless: false }
    })
}

fn read_whole(
    context: &Context<'_>,
    file: &ForeignFile,
    foreign: &Foreign,
    around: &Surroundings,
    record: &mut FileRecord,
) -> UnitFile {
    let mut bytes = Vec::new();
    let texts = read(context, file, foreign, record, &mut bytes);
    let mut drafts = Vec::new();
    let mut templates = Vec::new();
    match texts {
        Some(texts) if file.name.is_template() => {
            let imported = convert(&file.name, &file.path, &texts, around);
            record.diagnostics.extend(imported.manifest.diagnostics);
            // A generation has no unit for this file.
            record.again = true;
            let body = Body::Imported { path: file.path.clone(), texts, opt_in: file.opt_in };
            let default_instance = imported.default_instance.filter(|_| !file.opt_in);
            templates.push(Template {
                name: file.name.clone(),
                body,
                default_instance,
                source: None,
                only: None,
            });
        }
        Some(texts) => {
            drafts.extend(unit(context, file, &texts, foreign, around, record));
        }
        None => {
            record.again = true;
            drafts.extend(placeholder(context, file, foreign, record));
        }
    }
    finish(record, &bytes, &file.path);
    UnitFile { drafts, record: record.clone(), templates, nameless: false }
}

/// Creates an instance of an imported template.
pub(crate) fn instance(
    context: &Context<'_>,
    template: &Template,
    name: &UnitName,
    foreign: &Foreign,
    around: &Surroundings,
    record: &mut FileRecord,
) -> Option<Draft> {
    let Body::Imported { path, texts, opt_in } = &template.body else { return None };
    let file = ForeignFile { path: path.clone(), name: name.clone(), opt_in: *opt_in };
    // The template's texts are those of its file and its drop-ins, in order. A drop-in of the
    // instance may come between these, and hides one of the same file name.
    let (of_template, shared) = (texts, foreign.drop_ins_of(&template.name));
    let mut texts: Vec<UnitText> = of_template.first().cloned().into_iter().collect();
    for drop_in in &foreign.drop_ins_of(name) {
        let known = shared.iter().position(|path| path == drop_in);
        if let Some(text) = known.and_then(|at| of_template.get(at + 1)) {
            texts.push(text.clone());
            continue;
        }
        let bytes = trusted(context, drop_in, limit::IMPORTED_FILE, record);
        record.drop_ins.push((drop_in.clone(), record.stamp));
        let bytes = bytes?;
        match unit_text::parse(drop_in, &bytes) {
            Ok(text) => texts.push(text),
            Err(found) => record.diagnostics.extend(found),
        }
    }
    unit(context, &file, &texts, foreign, around, record)
}

/// Returns the texts of a file and its drop-ins, or `None` if one of them cannot be read.
fn read(
    context: &Context<'_>,
    file: &ForeignFile,
    foreign: &Foreign,
    record: &mut FileRecord,
    bytes_of: &mut Vec<(Arc<str>, Vec<u8>)>,
) -> Option<Vec<UnitText>> {
    let mut texts = Vec::new();
    let mut whole = true;
    let mut parse = |path: &Arc<str>, bytes: Option<Vec<u8>>, found: &mut Vec<Diagnostic>| {
        let Some(bytes) = bytes else { return false };
        let parsed = unit_text::parse(path, &bytes);
        bytes_of.push((path.clone(), bytes));
        match parsed {
            Ok(text) => texts.push(text),
            Err(mistakes) => {
                found.extend(mistakes);
                return false;
            }
        }
        true
    };
    let bytes = trusted(context, &file.path, limit::IMPORTED_FILE, record);
    let stamp = record.stamp;
    whole &= parse(&file.path, bytes, &mut record.diagnostics);
    for drop_in in foreign.drop_ins_of(&file.name) {
        let bytes = trusted(context, &drop_in, limit::IMPORTED_FILE, record);
        record.drop_ins.push((drop_in.clone(), record.stamp));
        whole &= parse(&drop_in, bytes, &mut record.diagnostics);
    }
    let known = record.drop_ins.len();
    for path in foreign.beside(&file.name).into_iter().skip(known) {
        let stamp = context.files.stat(&path).map(|stat| stat.stamp).unwrap_or_default();
        record.drop_ins.push((path, stamp));
    }
    record.stamp = stamp;
    whole.then_some(texts)
}

/// Creates a unit of that name from these texts, with the names and wishes of links.
fn unit(
    context: &Context<'_>,
    file: &ForeignFile,
    texts: &[UnitText],
    foreign: &Foreign,
    around: &Surroundings,
    record: &mut FileRecord,
) -> Option<Draft> {
    let imported = convert(&file.name, &file.path, texts, around);
    let mut manifest = imported.manifest;
    let aliases = foreign.aliases_of(&file.name);
    for alias in &aliases {
        provide(&mut manifest, alias);
    }
    let mut draft = interpret(context, manifest, None, record)?;
    for link in link(&mut draft, file, &aliases, foreign) {
        let message = format!("this link: {}", partly::AT_SHUTDOWN);
        let warning = Diagnostic::of_file(Severity::Warning, "dropped", &link.path, message);
        record.diagnostics.push(warning.with_hint(partly::AT_SHUTDOWN_HINT));
    }
    Some(draft)
}

/// Adds the wishes of links to a unit. Returns the links that add none.
fn link<'f>(
    draft: &mut Draft,
    file: &ForeignFile,
    aliases: &[String],
    foreign: &'f Foreign,
) -> Vec<&'f Link> {
    let own = file.name.to_string();
    let names = std::iter::once(&own).chain(aliases);
    let links: Vec<_> = names.filter_map(|name| foreign.links.get(name)).flatten().collect();
    let mut idle = Vec::new();
    draft.opt_in = file.opt_in && links.is_empty();
    if file.opt_in && !links.is_empty() {
        draft.wanted_by.clear();
        draft.required_by.clear();
    }
    for link in links {
        if replacement::starts_nothing(&link.target) {
            idle.push(link);
            continue;
        }
        let Ok(target) = Name::new(&target_of_link(&link.target)) else { continue };
        let list = if link.required { &mut draft.required_by } else { &mut draft.wanted_by };
        if !list.contains(&target) {
            list.push(target);
        }
    }
    idle
}

fn provide(manifest: &mut Manifest, alias: &str) {
    let at = manifest.at;
    if let Some(Value::List(list)) = manifest.value_mut("provides")
        && !list.iter().any(|node| node.scalar().is_some_and(|known| known.text == alias))
        && Name::new(alias).is_ok()
    {
        list.push(Node::quoted(at, alias));
    }
}

/// Creates the placeholder of a unit whose file cannot be read. Its names and the links that want
/// it are known nevertheless.
fn placeholder(
    context: &Context<'_>,
    file: &ForeignFile,
    foreign: &Foreign,
    record: &FileRecord,
) -> Option<Draft> {
    let name = Name::new(&file.name.to_string()).ok()?;
    let at = Spot { line: 1, column: 1 }.of(&file.path);
    let mut draft = Draft::new(name.clone(), at.clone(), Kind::Virtual, context.settings);
    let aliases = foreign.aliases_of(&file.name);
    draft.provides = vec![name];
    draft.provides.extend(aliases.iter().filter_map(|alias| Name::new(alias).ok()));
    link(&mut draft, file, &aliases, foreign).clear();
    let error = record.diagnostics.iter().find(|said| said.severity == Severity::Error);
    let error = error.cloned().unwrap_or_else(|| {
        Diagnostic::of_file(
            Severity::Error,
            "unreadable",
            &file.path,
            "the file cannot be read".to_string(),
        )
    });
    draft.fault = Some(Fault { at: error.at, message: error.message });
    Some(draft)
}

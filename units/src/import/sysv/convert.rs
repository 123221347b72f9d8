//! The import of one script, step by step: each step adds its part to the [`Conversion`].

use super::conversion::{Conversion, LineOutcome};
use super::header::{self, Header, Line};
use super::order;
use super::table::{self, Word};
use super::verbs;
use crate::import::import_outcome::Imported;
use crate::import::systemd::{UnitName, quote};
use crate::limit;
use crate::spec::value;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::encoding;
use crate::text::name::Name;
use crate::text::yaml::{Node, Pair, Spot, Value};
use crate::unit::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The timeout of start and stop (systemd-sysv-generator(8), `TimeoutSec=`).
const TIMEOUT: &str = "5min";
/// Exit statuses that are no failures: the program is not installed or not configured (the Linux
/// Standard Base, "Init Script Actions").
const CLEAN: [&str; 3] = ["0", "5", "6"];
/// Variables with which Debian's scripts do not redirect the call to another init system.
const NO_DETOUR: [&str; 2] = ["SYSTEMCTL_SKIP_REDIRECT", "_SYSTEMCTL_SKIP_REDIRECT"];

/// Imports a script from its name, path and text. `script` is the command with which the unit calls it.
pub fn convert(name: &str, file: &Arc<str>, text: &[u8], script: &str) -> Imported {
    let at = Spot { line: 1, column: 1 };
    let mut manifest = Manifest::imported(file.clone(), at);
    if text.len() > limit::IMPORTED_FILE {
        let message = format!("larger than {} KiB", limit::IMPORTED_FILE / 1024);
        manifest.diagnostics.push(Diagnostic::error("too-large", at.of(file), message));
        return Imported { manifest, outcomes: Vec::new() };
    }
    let text = String::from_utf8_lossy(text);
    let header = header::read(file, &text);
    manifest.diagnostics.extend(header.found.iter().cloned());
    let mut conversion = Conversion {
        manifest,
        lines: &header.lines,
        line_outcomes: vec![LineOutcome::default(); header.lines.len()],
        own: BTreeSet::new(),
        said: BTreeMap::new(),
        held: BTreeMap::new(),
    };
    conversion.read_name(name);
    conversion.process(script, &header, &text);
    conversion.describe();
    order::convert(&mut conversion);
    conversion.report_missing_header(&header);
    let outcomes = conversion.outcomes();
    let mut manifest = conversion.manifest;
    manifest.diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    Imported { manifest, outcomes }
}

impl Conversion<'_> {
    fn read_name(&mut self, file: &str) {
        let name = file.strip_suffix(".sh").unwrap_or(file);
        let at = self.manifest.at;
        match Name::new(name) {
            Ok(_) if UnitName::of(name).is_template() => {
                let hint = "a script is one unit; give its file another name";
                self.manifest.tell_at(
                    Severity::Error,
                    "name",
                    at,
                    "a name that ends in @ is a template's",
                    hint,
                );
            }
            Ok(found) => {
                self.manifest.name = Some(found);
                self.stand_for(name, None, at);
            }
            Err(error) => {
                let hint = "units are named as their files are";
                self.manifest.tell_at(Severity::Error, "name", at, &error.to_string(), hint);
            }
        }
        for (index, line) in self.all(Word::Provides) {
            for word in line.value.split_whitespace() {
                self.provide(index, line, word);
            }
            self.need_not(index, "the unit is named after its file");
        }
    }

    fn provide(&mut self, index: usize, line: &Line, word: &str) {
        if let Some(facility) = word.strip_prefix('$') {
            let known = table::FACILITIES.iter().find(|known| known.name == facility);
            match known {
                Some(known) => {
                    self.own.insert(known.target.to_string());
                    self.add("provides", known.target, Some(index), line.at);
                }
                None => self.lose(index, &format!("`{word}`: unknown facility")),
            }
        } else if Name::new(word).is_err() || UnitName::of(word).is_template() {
            self.lose(index, &format!("`{word}`: no unit's name"));
        } else {
            self.stand_for(word, Some(index), line.at);
        }
    }

    /// Adds a name, and the name that importers of systemd units give such a unit.
    fn stand_for(&mut self, name: &str, index: Option<usize>, at: Spot) {
        let long = format!("{name}.service");
        for name in [name, &long] {
            if Name::new(name).is_ok() {
                self.own.insert(name.to_string());
                self.add("provides", name, index, at);
            }
        }
    }

    fn process(&mut self, script: &str, header: &Header, text: &str) {
        let at = self.manifest.at;
        let has_pid_file = self.pid_file();
        let kind = if has_pid_file { "background-pidfile" } else { "background-scripted" };
        self.put("type", kind, at);
        let program = quote(script);
        self.put("exec-start", &format!("{program} start"), at);
        self.put("exec-stop", &format!("{program} stop"), at);
        if verbs::offers_reload(text) {
            self.put("exec-reload", &format!("{program} reload"), at);
        }
        self.put("restart", "never", at);
        self.put("kill-mode", "process", at);
        self.put("start-timeout", TIMEOUT, at);
        self.put("stop-timeout", TIMEOUT, at);
        for status in CLEAN.iter().filter(|_| header.has_block) {
            self.add("success-status", status, None, at);
        }
        let pairs =
            NO_DETOUR.map(|name| Pair { key: name.to_string(), at, node: Node::quoted(at, "1") });
        self.enter("env", at, Node { at, value: Value::Map(pairs.to_vec()) });
        for (index, line) in self.all(Word::Interactive) {
            if ["true", "yes", "1"].iter().any(|yes| yes.eq_ignore_ascii_case(&line.value)) {
                self.keep(index, "stdin", "tty", line.at);
                self.keep(index, "start-idle", "yes", line.at);
            } else {
                self.need_not(index, "this value requests nothing");
            }
        }
        for (index, _) in self.all(Word::ProcessName) {
            self.need_not(index, "init tracks its processes by cgroup or parent");
        }
        for (index, _) in self.all(Word::Others) {
            self.need_not(index, "it is for tools that change the script's files");
        }
    }

    /// Converts the first valid path of a pid file. Returns true if there is one.
    fn pid_file(&mut self) -> bool {
        for (index, line) in self.all(Word::PidFile) {
            let path = line.value.replacen("/var/run/", "/run/", 1);
            if self.manifest.entry("pid-file").is_some() {
                self.lose(index, "the first line names the main process");
            } else if value::path(&path).is_ok() {
                self.keep(index, "pid-file", &path, line.at);
            } else {
                self.lose(index, "it is not an absolute path");
            }
        }
        self.manifest.entry("pid-file").is_some()
    }

    /// Sets the description: the short one, or the available part of the long one.
    fn describe(&mut self) {
        let short = self.all(Word::Short);
        let long = self.all(Word::Long);
        let said = |(_, line): &&(usize, &Line)| !line.value.is_empty();
        let mut chosen: Vec<(usize, &Line)> =
            short.iter().find(said).copied().into_iter().collect();
        if let (true, Some((_, first))) = (chosen.is_empty(), long.iter().find(said)) {
            chosen.extend(long.iter().filter(|(_, line)| line.section == first.section));
        }
        let words = chosen.iter().flat_map(|(_, line)| line.value.split_whitespace());
        let is_text = |c: &char| !encoding::is_unprintable(*c);
        let words: Vec<String> = words.map(|word| word.chars().filter(is_text).collect()).collect();
        let text = words.join(" ");
        if let Some((_, line)) = chosen.first() {
            self.put("description", &text, line.at);
        }
        for (index, _) in &chosen {
            self.note_kept(*index, "description");
        }
        for (index, _) in short.iter().chain(&long) {
            self.need_not(*index, "one line is shown");
        }
    }

    /// Reports that the script does not declare its dependencies or the levels that start it.
    fn report_missing_header(&mut self, header: &Header) {
        if !header.has_block {
            let hint = "write `after` and `wanted-by` as it needs them";
            let message = "no LSB header (`### BEGIN INIT INFO`): its dependencies are unknown";
            self.manifest.tell_at(Severity::Warning, "no-header", self.manifest.at, message, hint);
        }
    }
}

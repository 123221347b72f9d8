//! Interprets a unit file: a manifest, with the settings' defaults and the machine's accounts,
//! becomes a draft. All errors are reported, not only the first. The first becomes the fault of the
//! draft, which its dependents can name as the reason.
//!
//! [`crate::unit::exec_line`] parses exec lines, and [`crate::spec::value`] durations, sizes and
//! numbers; [`crate::unit::key_table`] has the keys of each type.

use crate::limit;
use crate::spec::value;
use crate::spec::{Kind, Live, OnChange, Restart, RestartLimit, SuccessStatus};
use crate::text::diagnostic::{Diagnostic, Place, Severity};
use crate::text::name::Name;
use crate::text::words::Words;
use crate::trigger::Trigger;
use crate::unit::account::Accounts;
use crate::unit::assembly::{Draft, Edge};
use crate::unit::field::Field;
use crate::unit::generation::Fault;
use crate::unit::key_table::KEYS;
use crate::unit::manifest::{Entry, Manifest};
use crate::unit::mount_name;
use crate::unit::settings::Settings;

/// The search path of bare program names if the unit's environment has no PATH.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A path outside the file that must exist when the unit starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// One of these paths must be an executable file. The word is the one in the exec line; the
    /// last value is the effect of a missing file.
    Executable(String, Vec<String>, &'static str),
    /// A directory.
    Directory(String),
    /// A file.
    File(String),
}

/// The interpretation of a manifest.
#[derive(Clone, Debug)]
pub struct Semantics {
    /// The draft; `None` if the name cannot be recognized.
    pub draft: Option<Draft>,
    /// All diagnostics, including those of the manifest.
    pub diagnostics: Vec<Diagnostic>,
    /// Paths to check, with the place for diagnostics.
    pub outside: Vec<(Place, Outside)>,
    /// The unit names a missing user or group.
    pub unresolved: bool,
}

/// Interprets a manifest.
pub fn read(manifest: Manifest, settings: &Settings, accounts: &Accounts) -> Semantics {
    let mut reader = Reader {
        settings,
        accounts,
        found: manifest.diagnostics.clone(),
        outside: Vec::new(),
        unresolved: false,
        expensive_pattern: None,
        manifest: &manifest,
    };
    let mut draft = reader.draft();
    // The rest of a broken file may have the key.
    reader.found.retain(|found| !(manifest.broken && found.code == "missing-key"));
    let first = reader.found.iter().find(|found| found.severity == Severity::Error);
    if let Some(draft) = &mut draft {
        draft.fault = match first {
            Some(error) => Some(Fault { at: error.at.clone(), message: error.message.clone() }),
            None if manifest.broken => {
                let message = "the file cannot be read completely".to_string();
                Some(Fault { at: manifest.place(), message })
            }
            None => None,
        };
    }
    Semantics {
        draft,
        diagnostics: reader.found,
        outside: reader.outside,
        unresolved: reader.unresolved,
    }
}

pub(crate) struct Reader<'a> {
    pub(crate) manifest: &'a Manifest,
    settings: &'a Settings,
    pub(crate) accounts: &'a Accounts,
    pub(crate) found: Vec<Diagnostic>,
    pub(crate) outside: Vec<(Place, Outside)>,
    pub(crate) unresolved: bool,
    /// See [`Draft::expensive_pattern`].
    pub(crate) expensive_pattern: Option<Place>,
}

fn field(entry: &Entry) -> Field<'_> {
    Field { file: &entry.file, key: entry.key.name, node: &entry.node }
}

impl<'a> Reader<'a> {
    pub(crate) fn field(&self, key: &str) -> Option<Field<'a>> {
        self.manifest.entry(key).map(field)
    }

    /// Returns the place of the unit's own line.
    pub(crate) fn place(&self) -> Place {
        self.manifest.place()
    }

    /// Returns the keys, in the order of the file.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.manifest.entries.iter().map(|entry| entry.key.name).collect()
    }

    fn draft(&mut self) -> Option<Draft> {
        let name = self.manifest.name.clone()?;
        let place = self.manifest.place();
        let kind = self.kind();
        let mut draft =
            Draft::new(name.clone(), place, kind.unwrap_or(Kind::Virtual), self.settings);
        draft.provides = self.provides(&name);
        self.edges(&mut draft);
        // For an unknown type no other key can be checked. The name and its targets stay, so that
        // dependents report the error.
        let Some(kind) = kind else { return Some(draft) };
        self.check_types(kind);
        draft.live = self.live(kind);
        if kind.has_process() {
            draft.set_run(&self.run(kind));
            draft.expensive_pattern = self.expensive_pattern.take();
        }
        if let Some(trigger) = self.trigger(kind) {
            draft.set_trigger(&trigger);
            if let Trigger::Socket(socket) = &trigger
                && socket.accept
            {
                self.connection_instances(&mut draft, socket);
            }
        }
        Some(draft)
    }

    fn kind(&mut self) -> Option<Kind> {
        if let Some(field) = self.field("type") {
            let kind = field.word(&mut self.found);
            let text = field.node.scalar().map_or("", |scalar| &scalar.text);
            if let (None, Some(meant)) = (kind, Kind::of_systemd(text))
                && let Some(error) = self.found.last_mut()
            {
                error.hint = format!("`Type={text}` of systemd is `type: {}`", meant.as_str());
            }
            return kind;
        }
        let has_process = self.manifest.entry("exec-start").is_some();
        Some(if has_process { Kind::ForegroundSupervised } else { Kind::Virtual })
    }

    /// Checks each key against the type, and reports missing required keys.
    fn check_types(&mut self, kind: Kind) {
        let said = self.manifest.entry("type").is_some();
        // A type derived from the keys is unreliable if keys were lost.
        let lost = self.manifest.broken || self.found.iter().any(|d| d.code == "unknown-key");
        if lost && !said {
            return;
        }
        for entry in &self.manifest.entries {
            if entry.key.types.has(kind) {
                continue;
            }
            let message = format!("`{}` is not for a {} unit", entry.key.name, kind.as_str());
            let hint = if said {
                format!("it is for {}", entry.key.types.words())
            } else {
                "without `type` and `exec-start` a unit is virtual; is one of them missing?"
                    .to_string()
            };
            let error = Diagnostic::error("key-type", entry.place(), message).with_hint(hint);
            self.found.push(error);
        }
        // The import has reported its losses already.
        let told =
            self.manifest.imported && self.found.iter().any(|d| d.severity == Severity::Error);
        for key in KEYS.iter().filter(|key| !told && key.name != "unit" && key.required.has(kind)) {
            if self.manifest.entry(key.name).is_none() {
                let message = format!("a {} unit needs `{}`", kind.as_str(), key.name);
                let error = Diagnostic::error("missing-key", self.manifest.place(), message)
                    .with_hint(format!("for example `{}`", key.example));
                self.found.push(error);
            }
        }
    }

    fn provides(&mut self, name: &Name) -> Vec<Name> {
        let Some(field) = self.field("provides") else { return vec![name.clone()] };
        let names = field.names(&mut self.found, false);
        if field.node.list().is_some_and(<[_]>::is_empty) {
            let hint = "leave the key out to provide the unit's name";
            field.error(&mut self.found, "value", "the unit provides nothing".to_string(), hint);
        }
        names.into_iter().map(|named| named.name).collect()
    }

    fn edges(&mut self, draft: &mut Draft) {
        for entry in &self.manifest.entries {
            let field = field(entry);
            if let Some(kind) = entry.key.dependency() {
                for named in field.names(&mut self.found, true) {
                    // The graph knows one file per unit, so the line of a drop-in is replaced by
                    // the unit's own line.
                    let own = entry.file == self.manifest.file;
                    draft.dependencies.push(Edge {
                        kind,
                        target: named.name,
                        optional: named.optional,
                        imported: self.manifest.imported,
                        line: if own { named.at.line } else { self.manifest.at.line },
                    });
                }
                if kind.pulls_in_at_end()
                    && let Some(own) = draft
                        .dependencies
                        .iter()
                        .find(|edge| edge.kind == kind && draft.provides.contains(&edge.target))
                {
                    let message = format!(
                        "`{}` names {}, which this unit provides",
                        kind.as_str(),
                        own.target
                    );
                    field.error(&mut self.found, "ring", message, "name another unit's target");
                }
            } else if entry.key.name == "wanted-by" {
                let names = field.names(&mut self.found, false);
                draft.wanted_by = names.into_iter().map(|named| named.name).collect();
            } else if entry.key.name == "required-by" {
                let names = field.names(&mut self.found, false);
                draft.required_by = names.into_iter().map(|named| named.name).collect();
            } else if entry.key.name == "needs-path" {
                let line = if entry.file == self.manifest.file {
                    entry.at.line
                } else {
                    self.manifest.at.line
                };
                let paths = self.paths("needs-path");
                let mounts = paths.iter().flat_map(|path| mount_name::on_the_way(path, line));
                // A mount is no dependency of itself.
                let others = mounts.filter(|edge| !draft.provides.contains(&edge.target));
                draft.dependencies.extend(others.collect::<Vec<_>>());
            } else if entry.key.name == "activates" {
                draft.activates = field.name(&mut self.found);
            }
        }
        let count = draft.dependencies.len();
        if count > limit::DEPENDENCIES {
            draft.dependencies.clear();
            let message = format!("{count} dependencies");
            let error = Diagnostic::error("too-large", self.manifest.place(), message)
                .with_hint("4096 at most; put a virtual unit between");
            self.found.push(error);
        }
    }

    pub(crate) fn value<T>(
        &mut self,
        key: &str,
        default: T,
        parse: impl FnOnce(&str) -> Result<T, value::Mistake>,
    ) -> T {
        match self.field(key) {
            Some(field) => field.value(&mut self.found, parse).unwrap_or(default),
            None => default,
        }
    }

    pub(crate) fn choice(&mut self, key: &str, words: &[&str]) -> Option<usize> {
        self.field(key)?.choice(&mut self.found, words)
    }

    pub(crate) fn word<T: Words>(&mut self, key: &str) -> Option<T> {
        self.field(key)?.word(&mut self.found)
    }

    fn live(&mut self, kind: Kind) -> Live {
        let standard = Live::standard(kind, self.settings);
        let restart = self.word("restart").unwrap_or(standard.restart);
        let on_change = self.word("on-change").unwrap_or(standard.on_change);
        let live = Live {
            description: self
                .field("description")
                .and_then(|field| field.text(&mut self.found))
                .map(|scalar| scalar.text.split_whitespace().collect::<Vec<_>>().join(" "))
                .unwrap_or_default(),
            start_timeout: self.value("start-timeout", standard.start_timeout, value::timeout),
            stop_timeout: self.value("stop-timeout", standard.stop_timeout, value::timeout),
            stop_signal: self.value("stop-signal", standard.stop_signal, value::signal),
            restart,
            restart_delay: self.value("restart-delay", standard.restart_delay, value::duration),
            restart_delay_max: self.value(
                "restart-delay-max",
                standard.restart_delay_max,
                value::duration,
            ),
            restart_reset: self.value("restart-reset", standard.restart_reset, value::duration),
            restart_limit: self.value("restart-limit", standard.restart_limit, restart_limit),
            failure_verdict: self.value("failure-verdict", standard.failure_verdict, |text| {
                value::count(text, 1, 1_000_000)
            }),
            success_status: self.success_status(kind),
            restart_except: self.statuses("restart-except"),
            restart_also: self.statuses("restart-also"),
            run_timeout: self.value("run-timeout", standard.run_timeout, value::timeout),
            on_change,
            essential: self.value("essential", standard.essential, value::boolean),
            stop_promptly: self.value("stop-promptly", standard.stop_promptly, value::boolean),
        };
        self.check_live(kind, &live);
        live
    }

    fn check_live(&mut self, kind: Kind, live: &Live) {
        if let Some(field) = self.field("on-change")
            && live.on_change == OnChange::Reload
            && !self.manifest.broken
            && ["exec-reload", "reload-signal"].iter().all(|key| self.manifest.entry(key).is_none())
        {
            let message = "`on-change: reload` without exec-reload or reload-signal".to_string();
            field.error(&mut self.found, "value", message, "say how the unit reloads");
        }
        if let Some(field) = self.field("restart-delay")
            && live.restart_delay > live.restart_delay_max
        {
            let message =
                "`restart-delay` is longer than `restart-delay-max`, so the maximum applies";
            let warning = Diagnostic::warning("value", field.place(), message)
                .with_hint("raise restart-delay-max too");
            self.found.push(warning);
        }
        let main = [Kind::ForegroundNotified, Kind::ForegroundSupervised, Kind::BackgroundPidfile];
        if let Some(field) = self.field("restart")
            && live.restart == Restart::OnSuccess
            && main.contains(&kind)
            && live.success_status == SuccessStatus::default()
            && live.restart_also == SuccessStatus::default()
        {
            let message = "`restart: on-success` without a `success-status`: each exit without a stop request is a failure, exit 0 too";
            let warning = Diagnostic::warning("value", field.place(), message)
                .with_hint("`success-status: [0]`, or `restart: always`");
            self.found.push(warning);
        }
    }

    /// Exit 0 is a success of a supervised unit that remains.
    fn success_status(&mut self, kind: Kind) -> SuccessStatus {
        let mut success = self.statuses("success-status");
        let remain = self.field("remain").and_then(|field| field.node.scalar());
        let remain = remain.is_some_and(|word| value::boolean(&word.text).is_ok_and(|yes| yes));
        if remain && kind != Kind::Oneshot && !success.codes.contains(&0) {
            success.codes.insert(0, 0);
        }
        success
    }

    fn statuses(&mut self, key: &str) -> SuccessStatus {
        let mut list = SuccessStatus::default();
        let Some(field) = self.field(key) else { return list };
        for node in field.list(&mut self.found) {
            field.within(node).value(&mut self.found, |text| value::status(text, &mut list));
        }
        list.codes.sort_unstable();
        list.codes.dedup();
        list.signals.sort_unstable();
        list.signals.dedup();
        list
    }

    /// Returns a path or a list of paths.
    pub(crate) fn paths(&mut self, key: &str) -> Vec<String> {
        let Some(field) = self.field(key) else { return Vec::new() };
        let nodes = field.one_or_list();
        if nodes.len() > limit::PATHS {
            let message = format!("`{key}` has {} paths", nodes.len());
            field.error(&mut self.found, "value", message, "64 at most");
            return Vec::new();
        }
        let found = &mut self.found;
        nodes.iter().filter_map(|node| field.within(node).value(found, value::path)).collect()
    }
}

/// Parses `none`, `5` or `5/10s`.
fn restart_limit(text: &str) -> Result<RestartLimit, value::Mistake> {
    if text == "none" {
        return Ok(RestartLimit::None);
    }
    match text.split_once('/') {
        None => Ok(RestartLimit::InARow(value::count(text, 1, 1_000_000)?)),
        Some((count, span)) => {
            let count = value::count(count.trim(), 1, limit::FAILURES)?;
            let span = value::duration(span.trim())?;
            Ok(RestartLimit::Within(count, span))
        }
    }
}

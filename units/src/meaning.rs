//! What a unit file means: a manifest with the settings' defaults and the machine's
//! accounts becomes a draft. All mistakes are found, not the first; any error makes
//! the draft a placeholder with a fault, so that what depends on it can say why.
//!
//! How exec lines, lists and numbers are spelled is in [`crate::exec_line`] and
//! [`crate::value`]; which key goes with which type is in [`crate::key`].

use crate::account::{Account, Accounts};
use crate::assembly::{Draft, Edge};
use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::exec_line;
use crate::field::Field;
use crate::generation::Fault;
use crate::key_table::{KEYS, TYPES};
use crate::limit;
use crate::manifest::{Entry, Manifest};
use crate::name::Name;
use crate::settings::Settings;
use crate::spec::{
    Credentials, EnvFile, ExecLine, Kind, Live, Log, NotifyAccess, OnChange, Piece, Readiness,
    Restart, RestartLimit, Run,
};
use crate::value;

/// Where bare program names are looked up when a unit's environment has no PATH.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Something outside the file that has to be there when the unit starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outside {
    /// One of these paths is an executable file; the word is what the exec line says.
    Executable(String, Vec<String>),
    /// A directory.
    Directory(String),
    /// A file.
    File(String),
}

/// What became of a manifest.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// None: not even its name can be told.
    pub draft: Option<Draft>,
    /// All that was found, the manifest's own included.
    pub diagnostics: Vec<Diagnostic>,
    /// To be looked for, with the place to complain at.
    pub outside: Vec<(Place, Outside)>,
    /// It names a user or group that is not there.
    pub unresolved: bool,
}

/// Reads a manifest.
pub fn read(manifest: Manifest, settings: &Settings, accounts: &Accounts) -> Meaning {
    let mut reader = Reader {
        settings,
        accounts,
        found: manifest.diagnostics.clone(),
        outside: Vec::new(),
        unresolved: false,
        manifest: &manifest,
    };
    let mut draft = reader.draft();
    let first = reader.found.iter().find(|found| found.severity == Severity::Error);
    if let Some(draft) = &mut draft {
        draft.fault = match first {
            Some(error) => Some(Fault { at: error.at.clone(), message: error.message.clone() }),
            None if manifest.broken => {
                let message = "the file can not be read to its end".to_string();
                Some(Fault { at: manifest.place(), message })
            }
            None => None,
        };
    }
    Meaning {
        draft,
        diagnostics: reader.found,
        outside: reader.outside,
        unresolved: reader.unresolved,
    }
}

struct Reader<'a> {
    manifest: &'a Manifest,
    settings: &'a Settings,
    accounts: &'a Accounts,
    found: Vec<Diagnostic>,
    outside: Vec<(Place, Outside)>,
    unresolved: bool,
}

fn field(entry: &Entry) -> Field<'_> {
    Field { file: &entry.file, key: entry.key.name, node: &entry.node }
}

impl<'a> Reader<'a> {
    fn field(&self, key: &str) -> Option<Field<'a>> {
        self.manifest.entry(key).map(field)
    }

    fn draft(&mut self) -> Option<Draft> {
        let name = self.manifest.name.clone()?;
        let place = self.manifest.place();
        let kind = self.kind();
        let mut draft =
            Draft::new(name.clone(), place, kind.unwrap_or(Kind::Virtual), self.settings);
        draft.provides = self.provides(&name);
        self.edges(&mut draft);
        // Of a type nobody knows, no other key can be right or wrong.
        let kind = kind?;
        self.check_types(kind);
        draft.live = self.live(kind);
        if kind.has_process() {
            draft.set_run(&self.run(kind));
        }
        if kind.is_trigger() && self.manifest.entry("activates").is_some() {
            let message =
                format!("a {} unit has no key yet that says when it fires", kind.as_str());
            let warning = Diagnostic::warning("never-fires", self.manifest.place(), message)
                .with_hint("it is active while it is needed, and does nothing");
            self.found.push(warning);
        }
        Some(draft)
    }

    fn kind(&mut self) -> Option<Kind> {
        if let Some(field) = self.field("type") {
            let index = field.choice(&mut self.found, &TYPES)?;
            return Kind::ALL.get(index).copied();
        }
        let has_process = self.manifest.entry("exec-start").is_some();
        Some(if has_process { Kind::ForegroundSupervised } else { Kind::Virtual })
    }

    /// Each key against the type, and the keys the type can not do without.
    fn check_types(&mut self, kind: Kind) {
        let said = self.manifest.entry("type").is_some();
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
        for key in KEYS.iter().filter(|key| key.name != "unit" && key.required.has(kind)) {
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
                    // The graph knows of one file a unit: what a drop-in says is the unit's own line.
                    let own = entry.file == self.manifest.file;
                    draft.dependencies.push(Edge {
                        kind,
                        target: named.name,
                        optional: named.optional,
                        imported: false,
                        line: if own { named.at.line } else { self.manifest.at.line },
                    });
                }
            } else if entry.key.name == "wanted-by" {
                let names = field.names(&mut self.found, false);
                draft.wanted_by = names.into_iter().map(|named| named.name).collect();
            } else if entry.key.name == "required-by" {
                let names = field.names(&mut self.found, false);
                draft.required_by = names.into_iter().map(|named| named.name).collect();
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

    fn value<T>(
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

    fn choice(&mut self, key: &str, words: &[&str]) -> Option<usize> {
        self.field(key)?.choice(&mut self.found, words)
    }

    fn live(&mut self, kind: Kind) -> Live {
        let standard = Live::standard(kind, self.settings);
        let restart = match self.choice("restart", &["on-failure", "always", "never"]) {
            Some(0) => Restart::OnFailure,
            Some(1) => Restart::Always,
            Some(_) => Restart::Never,
            None => standard.restart,
        };
        let on_change = match self.choice("on-change", &["restart", "reload", "keep"]) {
            Some(1) => OnChange::Reload,
            Some(2) => OnChange::Keep,
            Some(_) | None => OnChange::Restart,
        };
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
            success_status: self.success_status(),
            on_change,
            essential: self.value("essential", standard.essential, value::boolean),
        };
        self.check_live(&live);
        live
    }

    fn check_live(&mut self, live: &Live) {
        if let Some(field) = self.field("on-change")
            && live.on_change == OnChange::Reload
            && self.manifest.entry("exec-reload").is_none()
        {
            let message = "`on-change: reload` without an `exec-reload`".to_string();
            field.error(&mut self.found, "value", message, "say how the unit reloads");
        }
        if let Some(field) = self.field("restart-delay")
            && live.restart_delay > live.restart_delay_max
        {
            let message = "`restart-delay` is longer than `restart-delay-max`, which holds";
            let warning = Diagnostic::warning("value", field.place(), message)
                .with_hint("raise restart-delay-max too");
            self.found.push(warning);
        }
    }

    fn success_status(&mut self) -> crate::spec::SuccessStatus {
        let mut success = crate::spec::SuccessStatus::default();
        let Some(field) = self.field("success-status") else { return success };
        for node in field.list(&mut self.found) {
            field.within(node).value(&mut self.found, |text| value::status(text, &mut success));
        }
        success.codes.sort_unstable();
        success.codes.dedup();
        success.signals.sort_unstable();
        success.signals.dedup();
        success
    }

    fn run(&mut self, kind: Kind) -> Run {
        let notify_access = match self.choice("notify-access", &["main", "exec", "all", "none"]) {
            Some(1) => NotifyAccess::Exec,
            Some(2) => NotifyAccess::All,
            Some(3) => NotifyAccess::None,
            Some(_) => NotifyAccess::Main,
            None if kind == Kind::ForegroundNotified => NotifyAccess::Main,
            None => NotifyAccess::None,
        };
        let ready_grep = self.pattern();
        let readiness = self.readiness(kind, ready_grep.is_some());
        let env = match self.field("env") {
            Some(field) => field.environment(&mut self.found),
            None => Vec::new(),
        };
        let run = Run {
            kind,
            exec_start: self.exec_lines("exec-start", kind == Kind::Oneshot),
            exec_start_pre: self.exec_lines("exec-start-pre", true),
            exec_stop: self.exec_lines("exec-stop", true),
            exec_reload: self.exec_lines("exec-reload", true),
            pid_file: self.path("pid-file"),
            readiness,
            ready_grep,
            notify_access,
            log: self.log(),
            credentials: self.credentials(),
            env,
            env_file: self.env_files(),
            working_dir: self.path("working-dir").unwrap_or_else(|| "/".to_string()),
            umask: self.value("umask", 0o22, value::umask),
            limits: self.limits(),
        };
        self.look_outside(&run);
        run
    }

    fn path(&mut self, key: &str) -> Option<String> {
        let field = self.field(key)?;
        let path = field.value(&mut self.found, value::path)?;
        let shared = ["/tmp/", "/var/tmp/", "/dev/shm/"].iter().any(|dir| path.starts_with(dir));
        if key == "pid-file" && shared {
            let message = format!("anyone may put a file at `{path}`");
            let warning = Diagnostic::warning("shared-directory", field.place(), message)
                .with_hint("use a directory below /run; the pid is believed only of the unit's own processes");
            self.found.push(warning);
        }
        Some(path)
    }

    fn pattern(&mut self) -> Option<String> {
        let field = self.field("ready-grep")?;
        let pattern = &field.text(&mut self.found)?.text;
        if pattern.len() > limit::READY_GREP {
            let message = format!("a pattern of {} bytes", pattern.len());
            field.error(&mut self.found, "value", message, "4096 at most");
            return None;
        }
        let compiled =
            regex::bytes::RegexBuilder::new(pattern).size_limit(limit::READY_GREP_PROGRAM).build();
        match compiled {
            Ok(regex) => {
                if regex.is_match(b"") {
                    let message = "`ready-grep` matches an empty line, so any line makes it ready";
                    self.found.push(Diagnostic::warning("value", field.place(), message));
                }
                Some(pattern.clone())
            }
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let message = format!("`ready-grep` is no regular expression: {last}");
                let hint =
                    "quote it in single quotes; look-around and back-references are not known";
                field.error(&mut self.found, "value", message, hint);
                None
            }
        }
    }

    fn readiness(&mut self, kind: Kind, grep: bool) -> Readiness {
        let wait = self.field("ready-wait").map(|field| {
            let span = field.value(&mut self.found, value::duration);
            if grep {
                let message = "`ready-wait` and `ready-grep` exclude each other".to_string();
                field.error(&mut self.found, "value", message, "leave one of them");
            }
            span.unwrap_or_default()
        });
        match (kind, wait) {
            (Kind::Oneshot | Kind::BackgroundScripted, _) => Readiness::Exit,
            (Kind::ForegroundNotified | Kind::BackgroundPidfile, _) => Readiness::Reported,
            (_, Some(span)) => Readiness::Wait(span),
            _ if grep => Readiness::Reported,
            _ => Readiness::Exec,
        }
    }

    fn log(&mut self) -> Log {
        let Some(field) = self.field("log") else { return Log::File };
        // The one key for which YAML's null is the value that was meant.
        if field.node.scalar().is_some_and(|scalar| scalar.is_null() && !scalar.text.is_empty()) {
            return Log::Null;
        }
        let words = ["file", "kmsg", "syslog", "console", "inherit", "null"];
        match field.choice(&mut self.found, &words) {
            Some(1) => Log::Kmsg,
            Some(2) => Log::Syslog,
            Some(3) => Log::Console,
            Some(4) => Log::Inherit,
            Some(5) => Log::Null,
            Some(_) | None => Log::File,
        }
    }

    fn exec_lines(&mut self, key: &str, several: bool) -> Vec<ExecLine> {
        let Some(field) = self.field(key) else { return Vec::new() };
        if !several && field.node.list().is_some() {
            let message = format!("`{key}` is a list; only a oneshot has several commands");
            field.error(
                &mut self.found,
                "shape",
                message,
                "put what comes first into exec-start-pre",
            );
            return Vec::new();
        }
        let nodes = field.one_or_list();
        if nodes.is_empty() || nodes.len() > limit::EXEC_LINES {
            let message = format!("`{key}` has {} commands", nodes.len());
            field.error(&mut self.found, "value", message, "1 to 256");
            return Vec::new();
        }
        let mut lines = Vec::new();
        for node in nodes {
            let field = field.within(node);
            let Some(text) = field.text(&mut self.found) else { continue };
            match exec_line::parse(&text.text) {
                Ok((line, remarks)) => {
                    for remark in remarks {
                        let warning = Diagnostic::warning("shell", field.place(), remark.message);
                        self.found.push(warning.with_hint(remark.hint));
                    }
                    if matches!(key, "exec-start" | "exec-start-pre") && asks_for_main_pid(&line) {
                        let message = format!("there is no $MAINPID yet in `{key}`");
                        field.error(&mut self.found, "value", message, "`$$` is a dollar");
                    }
                    lines.push(line);
                }
                Err(mistake) => {
                    let message = format!("{key}: {}", mistake.message);
                    field.error(&mut self.found, "exec-line", message, mistake.hint);
                }
            }
        }
        lines
    }

    fn env_files(&mut self) -> Vec<EnvFile> {
        let Some(field) = self.field("env-file") else { return Vec::new() };
        let mut files = Vec::new();
        for node in field.one_or_list() {
            let file = field.within(node).value(&mut self.found, |text| {
                let (path, optional) = match text.strip_prefix('-') {
                    Some(path) => (path, true),
                    None => (text, false),
                };
                Ok(EnvFile { path: value::path(path)?, optional })
            });
            files.extend(file);
        }
        files
    }

    fn limits(&mut self) -> Vec<crate::spec::ResourceLimit> {
        let Some(field) = self.field("limits") else { return Vec::new() };
        let mut limits = Vec::new();
        for pair in field.map(&mut self.found) {
            let limit = field
                .within(&pair.node)
                .value(&mut self.found, |text| value::resource_limit(&pair.key, text));
            limits.extend(limit);
        }
        limits
    }

    fn account(&mut self, field: Field<'_>) -> Option<Account> {
        field.value(&mut self.found, |text| {
            let hint = "a name out of /etc/passwd or /etc/group, or a number";
            Account::parse(text).map_err(|message| value::Mistake { message, hint })
        })
    }

    fn credentials(&mut self) -> Option<Credentials> {
        let (user, group) = (self.field("user"), self.field("group"));
        let more = self.field("supplementary-groups");
        let first = user.or(group).or(more)?;
        let user = user.and_then(|field| self.account(field));
        let group = group.and_then(|field| self.account(field));
        let mut supplementary = Vec::new();
        if let Some(field) = more {
            for node in field.list(&mut self.found) {
                supplementary.extend(self.account(field.within(node)));
            }
        }
        let ids = self.accounts.resolve(user.as_ref(), group.as_ref(), &supplementary);
        if let Err(unresolved) = &ids {
            self.unresolved = true;
            let message = format!("there is no {} {}", unresolved.what, unresolved.name);
            let code = format!("missing-{}", unresolved.what);
            let warning = Diagnostic::warning(&code, first.place(), message)
                .with_hint("until there is, starting the unit fails");
            self.found.push(warning);
        }
        Some(Credentials { ids })
    }

    /// Notes what has to be there at a start.
    fn look_outside(&mut self, run: &Run) {
        let path = run.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let path = path.unwrap_or(PATH);
        for (key, lines) in [
            ("exec-start", &run.exec_start),
            ("exec-start-pre", &run.exec_start_pre),
            ("exec-stop", &run.exec_stop),
            ("exec-reload", &run.exec_reload),
        ] {
            let Some(field) = self.field(key) else { continue };
            for (line, node) in lines.iter().zip(field.one_or_list()) {
                let Some([Piece::Literal(word)]) = line.words.first().map(Vec::as_slice) else {
                    continue;
                };
                let candidates = if word.starts_with('/') {
                    vec![word.clone()]
                } else {
                    path.split(':').map(|directory| format!("{directory}/{word}")).collect()
                };
                let outside = Outside::Executable(word.clone(), candidates);
                self.outside.push((field.within(node).place(), outside));
            }
        }
        if let Some(field) = self.field("working-dir") {
            self.outside.push((field.place(), Outside::Directory(run.working_dir.clone())));
        }
        if let Some(field) = self.field("env-file") {
            for file in run.env_file.iter().filter(|file| !file.optional) {
                self.outside.push((field.place(), Outside::File(file.path.clone())));
            }
        }
    }
}

fn asks_for_main_pid(line: &ExecLine) -> bool {
    line.words.iter().flatten().any(|piece| matches!(piece, Piece::MainPid))
}

/// `none`, `5`, or `5/10s`.
fn restart_limit(text: &str) -> Result<RestartLimit, value::Mistake> {
    if text == "none" {
        return Ok(RestartLimit::None);
    }
    match text.split_once('/') {
        None => Ok(RestartLimit::InARow(value::count(text, 1, 1_000_000)?)),
        Some((count, span)) => {
            let count = value::count(count.trim(), 1, 1_000_000)?;
            let span = value::duration(span.trim())?;
            Ok(RestartLimit::Within(count, span))
        }
    }
}

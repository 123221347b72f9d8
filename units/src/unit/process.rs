//! Interprets the keys of units with a process: commands, readiness, user, output and environment.
//! The other half of [`crate::unit::semantics`].

mod condition;
mod particular;
mod share;
mod stdio;

use crate::limit;
use crate::spec::value;
use crate::spec::{
    Credentials, EnvFile, ExecLine, Ids, Kind, Log, NotifyAccess, Piece, Prefixes, Readiness,
    ResourceLimit, Run, Unresolved,
};
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::ready_grep;
use crate::text::yaml::Scalar;
use crate::unit::account::Account;
use crate::unit::exec_line;
use crate::unit::field::Field;
use crate::unit::semantics::{Outside, PATH, Reader};

impl Reader<'_> {
    pub(crate) fn run(&mut self, kind: Kind) -> Run {
        let notifies = kind == Kind::ForegroundNotified || self.field("watchdog").is_some();
        let notify_access = if notifies { NotifyAccess::Main } else { NotifyAccess::None };
        let notify_access = self.word("notify-access").unwrap_or(notify_access);
        let ready_grep = self.pattern();
        let readiness = self.readiness(kind);
        let env = match self.field("env") {
            Some(field) => field.environment(&mut self.found),
            None => Vec::new(),
        };
        let run = Run {
            kind,
            exec_start: self.exec_lines("exec-start", kind == Kind::Oneshot),
            exec_start_pre: self.exec_lines("exec-start-pre", true),
            exec_condition: self.exec_lines("exec-condition", true),
            exec_start_post: self.exec_lines("exec-start-post", true),
            exec_stop_post: self.exec_lines("exec-stop-post", true),
            exec_stop: self.exec_lines("exec-stop", true),
            exec_reload: self.exec_lines("exec-reload", true),
            remain: self.value("remain", kind == Kind::Oneshot, value::boolean),
            pid_file: self.path("pid-file"),
            readiness,
            ready_grep,
            notify_access,
            log: self.log(),
            credentials: self.credentials(),
            env,
            env_file: self.env_files(),
            working_dir: self.working_dir().1,
            umask: self.value("umask", 0o22, value::umask),
            limits: self.limits(),
            particular: self.particular(kind),
        };
        self.check_work(&run);
        self.look_outside(&run);
        run
    }

    /// A oneshot without a command must have another purpose.
    fn check_work(&mut self, run: &Run) {
        let lines = [&run.exec_start, &run.exec_start_pre, &run.exec_stop];
        if run.kind == Kind::Oneshot
            && self.field("exec-start").is_none()
            && lines.iter().all(|lines| lines.is_empty())
        {
            let message = "a oneshot unit needs `exec-start`, or an exec-start-pre or exec-stop";
            self.found.push(Diagnostic::error("missing-key", self.place(), message));
        }
    }

    pub(crate) fn path(&mut self, key: &str) -> Option<String> {
        let field = self.field(key)?;
        let path = field.value(&mut self.found, value::path)?;
        let shared = ["/tmp/", "/var/tmp/", "/dev/shm/"].iter().any(|dir| path.starts_with(dir));
        if key == "pid-file" && shared {
            let message = format!("anyone may put a file at `{path}`");
            let warning = Diagnostic::warning("shared-directory", field.place(), message)
                .with_hint("use a directory below /run; init accepts only a pid of the unit's own processes");
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
        if ready_grep::is_expensive(pattern) {
            self.expensive_pattern = Some(field.place());
            return Some(pattern.clone());
        }
        let mistake = ready_grep::mistake(pattern, &field.place());
        let is_wrong = mistake.as_ref().is_some_and(|said| said.severity == Severity::Error);
        self.found.extend(mistake);
        (!is_wrong).then(|| pattern.clone())
    }

    fn readiness(&mut self, kind: Kind) -> Readiness {
        self.check_ready_keys();
        let wait = self.field("ready-wait");
        let wait = wait.and_then(|field| field.value(&mut self.found, value::duration));
        // With one of these keys, init itself reports when the unit is ready.
        let reported = ["ready-grep", "ready-fd", "ready-exec", "exec-start-post"];
        let reported = reported.iter().any(|key| self.field(key).is_some());
        match (kind, wait) {
            (Kind::Oneshot | Kind::BackgroundScripted, _) => Readiness::Exit,
            (Kind::ForegroundNotified | Kind::BackgroundPidfile, _) => Readiness::Reported,
            _ if reported => Readiness::Reported,
            (_, Some(span)) => Readiness::Wait(span),
            _ => Readiness::Exec,
        }
    }

    fn log(&mut self) -> Log {
        let Some(field) = self.field("log") else { return Log::File };
        // For this key, YAML's null is a valid value.
        if field.node.scalar().is_some_and(Scalar::is_null) {
            return Log::Null;
        }
        field.word(&mut self.found).unwrap_or_default()
    }

    pub(crate) fn exec_lines(&mut self, key: &str, several: bool) -> Vec<ExecLine> {
        let Some(field) = self.field(key) else { return Vec::new() };
        if !several && field.node.list().is_some() {
            let message = format!("`{key}` is a list; only a oneshot has several commands");
            field.error(
                &mut self.found,
                "shape",
                message,
                "put the earlier commands into exec-start-pre",
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
                    let early = ["exec-start", "exec-start-pre", "exec-condition"];
                    if early.contains(&key) && asks_for_main_pid(&line) {
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

    fn limits(&mut self) -> Vec<ResourceLimit> {
        let Some(field) = self.field("limits") else { return Vec::new() };
        let mut limits = Vec::new();
        for pair in field.map(&mut self.found) {
            let limit = field.within(&pair.node).value(&mut self.found, |text| {
                crate::unit::resource::resource_limit(&pair.key, text)
            });
            limits.extend(limit);
        }
        limits
    }

    pub(crate) fn account(&mut self, field: Field<'_>) -> Option<Account> {
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
        Some(self.resolved(ids, first, "until it exists, the unit cannot start"))
    }

    /// Reports an account that does not exist. `hint` tells what fails without it.
    pub(crate) fn resolved(
        &mut self,
        ids: Result<Ids, Unresolved>,
        field: Field<'_>,
        hint: &str,
    ) -> Credentials {
        if let Err(unresolved) = &ids {
            self.unresolved = true;
            let message = format!("there is no {} {}", unresolved.what, unresolved.name);
            let code = format!("missing-{}", unresolved.what);
            let warning = Diagnostic::warning(&code, field.place(), message);
            self.found.push(warning.with_hint(hint));
        }
        Credentials { ids }
    }

    /// Adds the paths that must exist at a start.
    fn look_outside(&mut self, run: &Run) {
        let path = run.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_str());
        let path = path.unwrap_or(PATH);
        for (key, lines) in [
            ("exec-start", &run.exec_start),
            ("exec-start-pre", &run.exec_start_pre),
            ("exec-condition", &run.exec_condition),
            ("exec-start-post", &run.exec_start_post),
            ("exec-stop-post", &run.exec_stop_post),
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
                let without = match key {
                    _ if line.prefixes.has(Prefixes::FORGIVEN) => "this command is skipped",
                    "exec-stop" => "a stop skips this command",
                    "exec-stop-post" => "this command is not run after the end",
                    "exec-reload" => "the unit cannot reload",
                    _ => "the unit cannot start",
                };
                let outside = Outside::Executable(word.clone(), candidates, without);
                self.outside.push((field.within(node).place(), outside));
            }
        }
        let particular = run.particular.as_deref();
        let sure = particular.is_none_or(|p| !p.working_dir_optional && p.root_dir.is_none());
        if let Some(field) = self.field("working-dir").filter(|_| sure && run.working_dir != "~") {
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

//! Collects the rare settings of a unit; see [`crate::spec::Particular`].

use crate::limit;
use crate::spec::value::{self, Mistake, mistake};
use crate::spec::{
    Directories, DirectoryKind, Ending, ExecLine, FdStore, Keep, Kind, MainPid, Particular,
    Privileges,
};
use crate::text::capability;
use crate::text::diagnostic::Diagnostic;
use crate::unit::exec_line::is_variable;
use crate::unit::field::Field;
use crate::unit::semantics::Reader;

impl Reader<'_> {
    pub(super) fn particular(&mut self, kind: Kind) -> Option<Box<Particular>> {
        let (working_dir_optional, _) = self.working_dir();
        let mut particular = Particular {
            conditions: self.conditions(),
            env_pass: self.names_of_variables("env-pass", passed),
            env_unset: self.names_of_variables("env-unset", unset),
            working_dir_optional,
            root_dir: self.path("root-dir"),
            privileges: self.privileges(),
            stdio: self.stdio(),
            directories: self.directories(),
            runtime_dir_keep: self.word("runtime-dir-keep").unwrap_or_default(),
            schedule: self.schedule(),
            ending: self.ending(),
            cgroup: self.cgroup(),
            ready_fd: self.number("ready-fd", 3, 1023),
            ready_wait: self.wait_before_post(),
            ready_exec: self.ready_exec(),
            start_idle: self.value("start-idle", false, value::boolean),
            main_pid: self.main_pid(kind),
            watchdog: self.value("watchdog", None, value::timeout),
            wait_file: self.paths("wait-file"),
            fd_store: self.fd_store(),
            ignore_sigpipe: self.value("ignore-sigpipe", false, value::boolean),
            lenient: false,
        };
        let wanted = particular.is_any() || self.field("exec-stop").is_some();
        particular.lenient = self.manifest.imported && wanted;
        particular.is_any().then(|| Box::new(particular))
    }

    fn fd_store(&mut self) -> FdStore {
        let most = self.number("fd-store-max", 0, limit::STORED).unwrap_or(0);
        let keep = self.word("fd-store-preserve").unwrap_or(Keep::Restart);
        if most == 0 { FdStore::default() } else { FdStore { most, keep } }
    }

    /// Parses each value of a key that accepts one or a list. Returns `None` if the key is missing.
    pub(super) fn words<T>(
        &mut self,
        key: &str,
        mut parse: impl FnMut(&str) -> Result<T, Mistake>,
    ) -> Option<Vec<T>> {
        let field = self.field(key)?;
        let nodes = field.one_or_list();
        if nodes.len() > limit::WORDS {
            let message = format!("`{key}` has {} values", nodes.len());
            field.error(&mut self.found, "too-large", message, "1024 at most");
            return None;
        }
        let read = |node| field.within(node).value(&mut self.found, &mut parse);
        Some(nodes.iter().filter_map(read).collect())
    }

    pub(super) fn number(&mut self, key: &str, least: u32, most: u32) -> Option<u16> {
        let field = self.field(key)?;
        let number = field.value(&mut self.found, |text| value::count(text, least, most))?;
        u16::try_from(number).ok()
    }

    fn names_of_variables(&mut self, key: &str, fits: fn(&str) -> bool) -> Vec<String> {
        let names = self.words(key, |text| {
            if fits(text) {
                return Ok(text.to_string());
            }
            let hint = "letters, digits and _, not beginning with a digit";
            mistake(format!("`{text}` is not a valid name of a variable"), hint)
        });
        names.unwrap_or_default()
    }

    /// Returns whether the directory may be missing, and its path.
    pub(super) fn working_dir(&mut self) -> (bool, String) {
        let root = (false, "/".to_string());
        let Some(field) = self.field("working-dir") else { return root };
        // For this key too, YAML's null is a valid value: `~` means the home directory.
        if field.node.scalar().is_some_and(|scalar| scalar.is_null() && scalar.text == "~") {
            return (false, "~".to_string());
        }
        let read = field.value(&mut self.found, |text| {
            let (bare, optional) = match text.strip_prefix('-') {
                Some(bare) => (bare, true),
                None => (text, false),
            };
            let path = if bare == "~" { bare.to_string() } else { value::path(bare)? };
            Ok((optional, path))
        });
        read.unwrap_or(root)
    }

    fn privileges(&mut self) -> Privileges {
        let set =
            |numbers: Vec<u8>| numbers.into_iter().fold(0u64, |set, n| set | 1u64 << (n & 63));
        let capability = |text: &str| match capability::number(text) {
            Some(number) => Ok(number),
            None => mistake(format!("`{text}` is not a capability"), "see capabilities(7)"),
        };
        Privileges {
            no_new: self.value("no-new-privileges", false, value::boolean),
            bound: self.words("capabilities-bound", capability).map(set),
            ambient: self.words("capabilities-ambient", capability).map(set).unwrap_or_default(),
            secure_bits: self
                .words("secure-bits", secure_bit)
                .map(|bits| bits.into_iter().fold(0, |all, bit| all | bit))
                .unwrap_or_default(),
        }
    }

    fn directories(&mut self) -> Vec<Directories> {
        let mut all = Vec::new();
        for kind in DirectoryKind::ALL {
            let key = kind.as_str();
            let mode = self.value(&format!("{key}-mode"), 0o755, mode);
            let Some(names) = self.words(key, relative) else { continue };
            if !names.is_empty() {
                all.push(Directories { kind, names, mode });
            }
        }
        all
    }

    fn ending(&mut self) -> Ending {
        let standard = Ending::default();
        Ending {
            mode: self.word("kill-mode").unwrap_or_default(),
            final_signal: self.value("stop-final-signal", standard.final_signal, value::signal),
            kill: self.value("kill-final", standard.kill, value::boolean),
            hup: self.value("stop-hup", standard.hup, value::boolean),
            reload_signal: self.value("reload-signal", None, |text| value::signal(text).map(Some)),
            abort_timeout: self.value("abort-timeout", None, value::timeout),
            oom_policy: self.word("oom-policy").unwrap_or_default(),
        }
    }

    fn wait_before_post(&mut self) -> Option<std::time::Duration> {
        self.field("exec-start-post")?;
        // The first reader of this key reports an invalid value.
        value::duration(&self.field("ready-wait")?.node.scalar()?.text).ok()
    }

    fn ready_exec(&mut self) -> Option<ExecLine> {
        let field = self.field("ready-exec")?;
        let mut lines = self.exec_lines("ready-exec", true);
        if lines.len() > 1 {
            let message = "`ready-exec` is one command".to_string();
            field.error(&mut self.found, "value", message, "put several into a script");
        }
        lines.pop()
    }

    fn main_pid(&mut self, kind: Kind) -> MainPid {
        let chosen = self.choice("main-pid", &["guess", "none"]);
        if kind != Kind::BackgroundPidfile {
            return MainPid::File;
        }
        match (self.field("pid-file"), self.field("main-pid")) {
            (Some(_), Some(field)) => {
                let message = "`main-pid` and `pid-file` exclude each other".to_string();
                field.error(&mut self.found, "value", message, "keep one of them");
            }
            (None, None) => {
                let message = "a background-pidfile unit needs `pid-file`".to_string();
                let error = Diagnostic::error("missing-key", self.place(), message)
                    .with_hint("if the daemon writes no pid file, say `main-pid: guess`");
                self.found.push(error);
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        match chosen {
            Some(0) => MainPid::Guess,
            Some(_) => MainPid::None,
            None => MainPid::File,
        }
    }

    /// Reports readiness keys that exclude each other.
    pub(super) fn check_ready_keys(&mut self) {
        let keys = ["ready-wait", "ready-grep", "ready-fd", "ready-exec"];
        let given: Vec<Field<'_>> = keys.iter().filter_map(|key| self.field(key)).collect();
        if let [first, second, ..] = given.as_slice() {
            let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
            second.error(&mut self.found, "value", message, "keep one of them");
        }
    }
}

fn passed(name: &str) -> bool {
    name == "*" || is_variable(name)
}

fn unset(text: &str) -> bool {
    is_variable(text.split_once('=').map_or(text, |(name, _)| name))
}

/// Parses a name of SECBIT_* in linux/securebits.h.
fn secure_bit(text: &str) -> Result<u8, Mistake> {
    Ok(match text {
        "noroot" => 1,
        "noroot-locked" => 2,
        "no-setuid-fixup" => 4,
        "no-setuid-fixup-locked" => 8,
        "keep-caps" => 16,
        "keep-caps-locked" => 32,
        _ => return mistake(format!("`{text}` is not a secure bit"), "see capabilities(7)"),
    })
}

/// Parses permission bits, including set-id and sticky bits.
fn mode(text: &str) -> Result<u16, Mistake> {
    let mode = value::octal(text, 1..=5, 0o7777);
    match mode.and_then(|mode| u16::try_from(mode).ok()) {
        Some(mode) => Ok(mode),
        None => mistake(format!("`{text}` is not a mode"), "octal digits: `0755`"),
    }
}

/// Checks a path that cannot lead out of its parent directory.
pub(super) fn relative(text: &str) -> Result<String, Mistake> {
    let fits = !text.is_empty()
        && text.len() <= limit::PATH
        && !text.contains(['\0', '\n', ':'])
        && text.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if fits {
        return Ok(text.to_string());
    }
    mistake(
        format!("`{text}` is not a relative path"),
        "a name, or names with `/` between; no `..`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_path_that_leaves_its_parent_is_refused() {
        for good in ["a", "a/b", "a.b/..c", "ä b"] {
            assert!(relative(good).is_ok(), "{good}");
        }
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "../a", "a/.", "a:b", "a\nb"]
        {
            assert!(relative(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn modes_are_parsed_as_octal() {
        assert_eq!((mode("0755"), mode("02750")), (Ok(0o755), Ok(0o2750)));
        for bad in ["", "8", "0x1", "-1", "10000", "755 ", "rwx"] {
            assert!(mode(bad).is_err(), "{bad}");
        }
    }
}

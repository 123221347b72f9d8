//! Edits policy.yaml and init.yaml.
//! Only the lines of the changed key are rewritten, so other comments stay. A file is replaced
//! atomically (temporary file, fsync, rename). Of several files, the first is replaced only when
//! all are written ([`Draft`]). `units` interprets the policy.

use crate::exit::{Error, Exit};
use groundstate_units::control::answer::{Failure, Report};
use groundstate_units::text::diagnostic::{Diagnostic, Severity};
use groundstate_units::text::name::Name;
use groundstate_units::text::yaml::Limits;
use groundstate_units::unit::policy::Policy;
use groundstate_units::unit::policy_file;
use groundstate_units::unit::settings_file;
use nix::fcntl::OFlag;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// An edited file that can be restored.
pub(crate) struct Edited {
    /// The path.
    pub(crate) path: String,
    before: Option<Vec<u8>>,
    /// True if the contents differ.
    pub(crate) changed: bool,
}

impl Edited {
    /// Restores the previous contents.
    pub(crate) fn restore(&self) -> Result<(), Error> {
        match &self.before {
            _ if !self.changed => Ok(()),
            Some(bytes) => replace(&self.path, bytes),
            None => fs::remove_file(&self.path).map_err(|error| Error::file(&self.path, &error)),
        }
    }
}

/// Reads the policy of a file; a missing file has none.
///
/// # Errors
/// [`Exit::Refused`] with a report if the file has errors.
pub(crate) fn read(path: &str) -> Result<Policy, Error> {
    Ok(parse(path, bytes(path)?.as_deref().unwrap_or_default())?.0)
}

/// The new contents of a file in a temporary file, which is deleted unless it is put in place.
pub(crate) struct Draft {
    path: String,
    before: Option<Vec<u8>>,
    /// `None` if nothing changes.
    written: Option<Written>,
}

impl Draft {
    /// Replaces the old file.
    pub(crate) fn put(self) -> Result<Edited, Error> {
        let changed = self.written.is_some();
        if let Some(written) = self.written {
            written.put().map_err(|error| Error::file(&self.path, &error))?;
        }
        Ok(Edited { path: self.path, before: self.before, changed })
    }
}

/// Changes the policy of a file.
pub(crate) fn edit(path: &str, change: impl FnOnce(&mut Policy)) -> Result<Draft, Error> {
    let before = bytes(path)?;
    let (old, text) = parse(path, before.as_deref().unwrap_or_default())?;
    let mut new = old.clone();
    change(&mut new);
    if new == old {
        return Ok(Draft { path: path.to_string(), before, written: None });
    }
    let changed = || KEYS.into_iter().filter(|key| block(&old, key) != block(&new, key));
    let by_entry = changed().try_fold(text.clone(), |text, key| {
        let edited = with_entries(&text, key, &entries(&old, key), &entries(&new, key));
        edited.or_else(|| is_absent(&text, key).then(|| with_key(&text, key, &block(&new, key))))
    });
    let by_key = changed().fold(text, |text, key| with_key(&text, key, &block(&new, key)));
    // Tries the smallest edit first. A form that cannot be edited by lines (one flow mapping, an
    // anchor) is rewritten as a whole.
    let fits = |text: &String| parse(path, text.as_bytes()).is_ok_and(|(policy, _)| policy == new);
    let edited = by_entry.into_iter().chain([by_key]).find(fits);
    let edited = edited.unwrap_or_else(|| policy_file::render(&new));
    let written = Some(Written::beside(path, edited.as_bytes())?);
    Ok(Draft { path: path.to_string(), before, written })
}

/// Writes `default-target` into init.yaml.
///
/// # Errors
/// [`Exit::Refused`] if the file already has errors.
pub(crate) fn set_default_target(path: &str, target: &Name) -> Result<(), Error> {
    let before = bytes(path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&before).into_owned();
    let key = "default-target";
    let line = text.lines().find(|line| line.strip_prefix(key).is_some_and(is_value));
    // A name contains no ` #`.
    let comment = line.and_then(|line| {
        let value = line.get(..line.find(" #")?)?;
        line.get(value.trim_end().len()..)
    });
    let comment = comment.unwrap_or_default();
    let edited = with_key(&text, key, &format!("{key}: {target}{comment}\n"));
    let (settings, found) = settings_file::read(&path.into(), edited.as_bytes());
    refuse_errors(found)?;
    if settings.default_target != *target {
        let message = format!("{path}: cannot edit `default-target` automatically");
        return Err(Error::local(
            message,
            format!("write `default-target: {target}` into the file"),
        ));
    }
    replace(path, edited.as_bytes())
}

fn parse(path: &str, bytes: &[u8]) -> Result<(Policy, String), Error> {
    let (policy, found) = policy_file::read(&path.into(), bytes);
    refuse_errors(found)?;
    Ok((policy, String::from_utf8_lossy(bytes).into_owned()))
}

fn refuse_errors(found: Vec<Diagnostic>) -> Result<(), Error> {
    if !found.iter().any(|one| one.severity == Severity::Error) {
        return Ok(());
    }
    let message = "the file has errors and was not changed";
    let mut failure = Failure::new(Failure::REFUSED, message, "correct the errors first");
    failure.report = Some(Report::new(&found));
    Err(Error::Failed(Exit::Refused, failure))
}

/// Reads a file without waiting for the writer of a FIFO. A text that is cut at the limit has an
/// error, so the file is not edited.
fn bytes(path: &str) -> Result<Option<Vec<u8>>, Error> {
    let most = u64::try_from(Limits::UNIT_FILE.bytes).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    match file.and_then(|file| file.take(most).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::file(path, &error)),
    }
}

/// The keys of a policy, in the order of the file.
const KEYS: [&str; 4] = ["mask", "enable", "disable", "prefer"];

/// Returns the entries of a key as pairs: the text that [`entry`] reads from a line, and the line to
/// write, without its indent.
fn entries(policy: &Policy, key: &str) -> Vec<(String, String)> {
    let listed = |names: &BTreeSet<Name>| {
        names.iter().map(|name| (name.to_string(), format!("- '{name}'"))).collect()
    };
    match key {
        "mask" => listed(&policy.mask),
        "enable" => listed(&policy.enable),
        "disable" => listed(&policy.disable),
        _ => {
            let pairs = policy.prefer.iter();
            pairs.map(|(t, u)| (format!("{t}: {u}"), format!("'{t}': '{u}'"))).collect()
        }
    }
}

/// Adds and removes single lines of a key's block, so that all comments stay. Returns `None` if the
/// key is not written as a block with one entry per line.
fn with_entries(
    text: &str,
    key: &str,
    old: &[(String, String)],
    new: &[(String, String)],
) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_key = |line: &&str| -> bool {
        let rest = line.strip_prefix(key).and_then(|rest| rest.trim_start().strip_prefix(':'));
        rest.is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    };
    let head = lines.iter().position(is_key)?;
    let within = |line: &&str| {
        line.trim().is_empty() || line.starts_with([' ', '-', '#']) && !line.starts_with("---")
    };
    let end = head + 1 + lines.iter().skip(head + 1).take_while(|line| within(line)).count();
    let block = lines.get(head + 1..end)?;
    let found: Vec<Option<String>> = block.iter().map(|line| entry(line)).collect();
    let last = found.iter().rposition(Option::is_some)?;
    let has =
        |list: &[(String, String)], name: &String| list.iter().any(|(known, _)| known == name);
    if !found.iter().flatten().all(|name| has(old, name)) {
        return None;
    }
    let indent = block.get(last)?.chars().take_while(|c| *c == ' ').collect::<String>();
    let mut edited: String = lines.get(..head)?.concat();
    if !new.is_empty() {
        edited.push_str(lines.get(head)?);
    }
    for (at, (line, name)) in block.iter().zip(&found).enumerate() {
        if name.as_ref().is_none_or(|name| has(new, name)) {
            edited.push_str(line);
        }
        if at == last {
            if !edited.is_empty() && !edited.ends_with('\n') {
                edited.push('\n');
            }
            for (_, written) in new.iter().filter(|(name, _)| !has(old, name)) {
                edited.push_str(&format!("{indent}{written}\n"));
            }
        }
    }
    edited.push_str(&lines.get(end..)?.concat());
    Some(edited)
}

/// Returns the entry of a line: `web` for `- web  # why`, `dns: unbound` as it is.
fn entry(line: &str) -> Option<String> {
    let line = line.split(" #").next().unwrap_or(line).trim();
    let line = line.strip_prefix("- ").unwrap_or(line).trim();
    let bare: String = line.chars().filter(|c| !matches!(c, '\'' | '"')).collect();
    (!bare.is_empty() && !bare.starts_with('#')).then_some(bare)
}

fn is_absent(text: &str, key: &str) -> bool {
    !text.lines().any(|line| line.strip_prefix(key).is_some_and(is_value))
}

/// Returns true for the text after a key.
fn is_value(rest: &str) -> bool {
    rest.trim_start().starts_with(':')
}

/// Returns the lines of a key, or an empty text.
fn block(policy: &Policy, key: &str) -> String {
    let names = match key {
        "mask" => &policy.mask,
        "enable" => &policy.enable,
        "disable" => &policy.disable,
        _ => {
            let mut text = String::new();
            for (target, unit) in &policy.prefer {
                let _ = writeln!(text, "  '{target}': '{unit}'");
            }
            return if text.is_empty() { text } else { format!("prefer:\n{text}") };
        }
    };
    if names.is_empty() {
        return String::new();
    }
    let quoted: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
    format!("{key}: [{}]\n", quoted.join(", "))
}

/// Replaces the lines of a top-level key, or appends them.
fn with_key(text: &str, key: &str, lines: &str) -> String {
    let mut edited = String::new();
    let mut within = false;
    let mut done = false;
    for line in text.split_inclusive('\n') {
        if line.strip_prefix(key).is_some_and(is_value) {
            within = true;
            if !done {
                edited.push_str(lines);
            }
            done = true;
            continue;
        }
        // Indented lines, `- x` items and the end of a flow list still belong to the key.
        let continues = line.starts_with([' ', '\t', '-', ']', '}']) && !line.starts_with("---");
        within = within && (continues || line.trim().is_empty());
        if !within || line.trim().is_empty() {
            edited.push_str(line);
        }
    }
    if !done {
        if !edited.is_empty() && !edited.ends_with('\n') {
            edited.push('\n');
        }
        edited.push_str(lines);
    }
    edited
}

/// Replaces a file atomically.
fn replace(path: &str, bytes: &[u8]) -> Result<(), Error> {
    Written::beside(path, bytes)?.put().map_err(|error| Error::file(path, &error))
}

/// A temporary file, deleted on drop, and the path that it may replace.
struct Written {
    temporary: PathBuf,
    target: PathBuf,
}

impl Written {
    fn beside(path: &str, bytes: &[u8]) -> Result<Written, Error> {
        let failed = |error: std::io::Error| Error::file(path, &error);
        // A symbolic link stays; its target is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
        let mode = match fs::symlink_metadata(&target) {
            Ok(found) if !found.is_file() => {
                let message = format!("{path} is not a regular file and was not changed");
                return Err(Error::local(message, "replace it with a regular file".to_string()));
            }
            Ok(found) => found.mode() & 0o777,
            Err(_) => 0o644,
        };
        let dir = target.parent().unwrap_or_else(|| Path::new("/"));
        fs::create_dir_all(dir).map_err(failed)?;
        let name = target.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let temporary = dir.join(format!(".{name}.{}", std::process::id()));
        let written = Written { temporary, target };
        write(&written.temporary, bytes, mode).map_err(failed)?;
        Ok(written)
    }

    fn put(self) -> Result<(), std::io::Error> {
        fs::rename(&self.temporary, &self.target)?;
        // Syncs the rename; a file system that does not support it is no error.
        if let Some(Ok(dir)) = self.target.parent().map(File::open) {
            let _ = dir.sync_all();
        }
        Ok(())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        // After the rename, or a failed creation, the file does not exist.
        let _ = fs::remove_file(&self.temporary);
    }
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), std::io::Error> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn edited(text: &str, change: impl FnOnce(&mut Policy)) -> String {
        let dir = std::env::temp_dir().join(format!(
            "initctl-policy-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("policy.yaml");
        fs::write(&path, text).unwrap();
        let done = edit(&path.to_string_lossy(), change).and_then(Draft::put).unwrap();
        let after = fs::read_to_string(&path).unwrap();
        done.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        fs::remove_dir_all(&dir).unwrap();
        after
    }

    #[test]
    fn replacing_keeps_the_mode_and_refuses_an_irregular_file() {
        let dir = std::env::temp_dir().join(format!("initctl-replace-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let file = dir.join("policy.yaml");
        let (null, zero, fifo) = (dir.join("null"), dir.join("zero"), dir.join("fifo"));
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(&file, "mask: [a]\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let masks = |path: &Path| {
            let draft = edit(&path.to_string_lossy(), |policy| _ = policy.mask.insert(name("b")));
            draft.and_then(Draft::put).is_ok()
        };
        assert!(!masks(&null) && !fs::metadata("/dev/null").unwrap().is_file());
        assert!(!masks(&zero) && !masks(&fifo) && !fs::metadata(&fifo).unwrap().is_file());
        assert!(masks(&file));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn edit_keeps_comments_of_other_keys() {
        let text = "# ours\nmask:\n  - a\n  - b\n\n# why: see the wiki\nprefer: {dns: unbound}\n";
        let after = edited(text, |policy| {
            policy.mask.insert(name("c"));
        });
        let want =
            "# ours\nmask:\n  - a\n  - b\n  - 'c'\n\n# why: see the wiki\nprefer: {dns: unbound}\n";
        assert_eq!(after, want);
    }

    #[test]
    fn edit_keeps_comments_of_remaining_list_entries() {
        let text = "mask:  # down until spring\n  # too loud\n  - cron # ask Ann\n  # too old\n  - \"at\"\nprefer:\n  # faster\n  dns: unbound\n";
        let after = edited(text, |policy| {
            policy.mask.remove(&name("at"));
            policy.mask.insert(name("nfs"));
            policy.prefer.insert(name("mail"), name("maddy"));
        });
        let want = "mask:  # down until spring\n  # too loud\n  - cron # ask Ann\n  # too old\n  - 'nfs'\nprefer:\n  # faster\n  dns: unbound\n  'mail': 'maddy'\n";
        assert_eq!(after, want);
    }

    #[test]
    fn edit_adds_a_missing_key_and_removes_an_empty_one() {
        let after = edited("enable: [x]\n", |policy| {
            policy.mask.insert(name("true"));
        });
        assert_eq!(after, "enable: [x]\nmask: ['true']\n");
        let after = edited("mask:\n- a\nenable: [x]\n", |policy| policy.mask.clear());
        assert_eq!(after, "enable: [x]\n");
    }

    #[test]
    fn policy_in_flow_style_is_rewritten_with_the_same_meaning() {
        let after = edited("{mask: [a], prefer: {t: u}}\n", |policy| {
            policy.mask.insert(name("b"));
        });
        let (policy, found) = policy_file::read(&"p".into(), after.as_bytes());
        assert!(found.is_empty(), "{after}");
        assert_eq!(policy.mask.len(), 2);
        assert_eq!(policy.prefer.len(), 1);
    }

    #[test]
    fn setting_the_default_target_changes_one_line() {
        let dir = std::env::temp_dir().join(format!("initctl-settings-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join("init.yaml");
        fs::write(&path, "max-starting: 4 # few\ndefault-target: old  # until May\n").unwrap();
        set_default_target(&path.to_string_lossy(), &name("new")).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, "max-starting: 4 # few\ndefault-target: new  # until May\n");
        fs::remove_dir_all(&dir).unwrap();
    }
}

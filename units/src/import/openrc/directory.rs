//! Converts a `start_pre()` that only creates directories with checkpath(8). Native keys create the
//! same ones if owner and permissions match those of such a key.

use super::declaration::Declaration;
use super::expansion::expand;
use super::script::Command;
use crate::text::yaml::{Node, Scalar};
use std::collections::BTreeMap;

/// A parent directory, and the key of the directories in it.
const BELOW: [(&str, &str); 5] = [
    ("/run/", "runtime-dir"),
    ("/var/run/", "runtime-dir"),
    ("/var/lib/", "state-dir"),
    ("/var/cache/", "cache-dir"),
    ("/var/log/", "log-dir"),
];

/// The arguments of checkpath.
#[derive(Default)]
struct Asked {
    directory: bool,
    mode: Option<String>,
    owner: Option<String>,
    paths: Vec<String>,
}

/// Lets the unit create the directories. Returns false, and changes nothing, if a command does
/// anything else.
pub(super) fn convert(this: &mut Declaration<'_>, body: &[&Command<'_>]) -> bool {
    let mut keys: BTreeMap<&str, (String, Vec<String>)> = BTreeMap::new();
    for command in body {
        let Some(asked) = asked(this, command) else { return false };
        if !asked.directory || asked.paths.is_empty() || !is_owner(this, asked.owner.as_deref()) {
            return false;
        }
        // The default of checkpath(8) without a mode.
        let mode = asked.mode.unwrap_or_else(|| "0775".to_string());
        for path in asked.paths {
            let path = path.trim_end_matches('/');
            let found =
                BELOW.iter().find_map(|(start, key)| Some((*key, path.strip_prefix(*start)?)));
            let Some((key, below)) = found else { return false };
            if below.is_empty() || below.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return false;
            }
            let (first, paths) = keys.entry(key).or_insert_with(|| (mode.clone(), Vec::new()));
            if *first != mode {
                return false;
            }
            paths.push(below.to_string());
        }
    }
    let Some(at) = this.reading.functions.get("start_pre").cloned() else { return false };
    for (key, (mode, paths)) in &keys {
        paths.iter().for_each(|path| this.unit.add(key, path, &at));
        this.unit.put(&format!("{key}-mode"), mode, &at);
    }
    if keys.contains_key("runtime-dir") {
        this.unit.put("runtime-dir-keep", "yes", &at);
    }
    !keys.is_empty()
}

/// Returns `None` if the command is another one, or partly unknown.
fn asked(this: &mut Declaration<'_>, command: &Command<'_>) -> Option<Asked> {
    let mut words = Vec::new();
    for word in &command.words {
        let expanded = expand(word.raw, &mut this.reading.variables).ok()?;
        words.extend((!expanded.pattern).then(|| expanded.fields())?);
    }
    let (first, rest) = words.split_first()?;
    if first != "checkpath" || !command.certain {
        return None;
    }
    let mut asked = Asked::default();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value.to_string())),
            _ => (word.as_str(), None),
        };
        match option {
            "-d" | "--directory" => asked.directory = true,
            "-q" | "--quiet" => {}
            "-m" | "--mode" => asked.mode = Some(value.or_else(|| rest.next().cloned())?),
            "-o" | "--owner" => asked.owner = Some(value.or_else(|| rest.next().cloned())?),
            path if path.starts_with('/') => asked.paths.push(path.to_string()),
            _ => return None,
        }
    }
    Some(asked)
}

/// Returns true if the owner is the one that the key sets: the unit's user and group.
fn is_owner(this: &Declaration<'_>, owner: Option<&str>) -> bool {
    let value = |key: &str| {
        let entry = this.unit.manifest().entry(key);
        entry.and_then(|entry| Node::scalar(&entry.node)).map(|scalar: &Scalar| scalar.text.clone())
    };
    let owner = owner.unwrap_or("root");
    let (user, group) = owner.split_once(':').unwrap_or((owner, ""));
    match (value("user"), value("group")) {
        (None, None) => user == "root" && matches!(group, "" | "root"),
        (Some(known), Some(of)) => user == known && group == of,
        (Some(known), None) => user == known && group.is_empty(),
        (None, Some(_)) => false,
    }
}

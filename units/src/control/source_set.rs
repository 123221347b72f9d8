//! The payload of `source-put`: the files, roots and expected revision of one source. It is one
//! JSON object in a sealed memfd that is passed with the request line. Thousands of units thus are
//! one request, and only the loader parses them, never PID 1.
//!
//! `{"files":{NAME:TEXT,…},"roots":[TARGET,…],"expected":REVISION|null}`

use crate::limit;
use crate::machine::reason::Refusal;
use crate::text::name::Name;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::collections::BTreeMap;

/// The complete content of one source.
#[apply(_ => #[serde(default)])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSet {
    /// File name (`web.yaml`, `web.service`) → text.
    pub files: BTreeMap<String, String>,
    /// Targets that should be up.
    pub roots: Vec<Name>,
    /// The expected revision: the request is refused if the source has another one. Absent means
    /// any.
    pub expected: Option<u64>,
}

fn refused(kind: &str, message: String, hint: String) -> Refusal {
    Refusal { kind: kind.to_string(), message, hint }
}

impl SourceSet {
    /// Parses the bytes of the memfd.
    ///
    /// # Errors
    /// The bytes are no such object, or exceed a limit.
    pub fn parse(bytes: &[u8]) -> Result<SourceSet, Refusal> {
        if bytes.len() > limit::SOURCE_BYTES {
            let most = limit::SOURCE_BYTES / 1024 / 1024;
            let message = format!("{} bytes are more than a source may have", bytes.len());
            return Err(refused("too-large", message, format!("at most {most} MiB")));
        }
        let wrong = |what: String| {
            let hint = r#"{"files":{NAME:TEXT},"roots":[TARGET],"expected":REVISION}"#.to_string();
            refused("protocol", format!("the memfd holds no valid source: {what}"), hint)
        };
        // Serde would accept a list as the fields in their order.
        if !bytes.trim_ascii_start().starts_with(b"{") {
            return Err(wrong("not a JSON object".to_string()));
        }
        let set: SourceSet =
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        set.checked()
    }

    fn checked(self) -> Result<SourceSet, Refusal> {
        for (count, most, what) in [
            (self.files.len(), limit::SOURCE_FILES, "files"),
            (self.roots.len(), limit::SOURCE_ROOTS, "roots"),
        ] {
            if count > most {
                let message = format!("{count} {what} are more than a source may have");
                return Err(refused("too-large", message, format!("at most {most}")));
            }
        }
        match self.files.keys().find(|name| !is_file_name(name)) {
            None => Ok(self),
            Some(name) => {
                let message = format!("{name:?} is no name for a unit file");
                let hint = "a file name without `/` and control characters, at most 255 bytes, \
                            that does not begin with a dot";
                Err(refused("invalid", message, hint.to_string()))
            }
        }
    }
}

/// Returns true for the name of one file (NAME_MAX of Linux) that is not hidden.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && !name.contains(|c: char| c == '/' || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_source_set_is_parsed_back_unchanged() {
        let set = SourceSet {
            files: BTreeMap::from([("web.yaml".to_string(), "unit: web\n".to_string())]),
            roots: vec![Name::new("web").unwrap()],
            expected: Some(7),
        };
        assert_eq!(SourceSet::parse(&serde_json::to_vec(&set).unwrap()), Ok(set));
        assert_eq!(SourceSet::parse(b"{}"), Ok(SourceSet::default()));
    }

    #[test]
    fn malformed_source_set_is_refused_with_an_error_kind() {
        let many: Vec<String> =
            (0..=limit::SOURCE_FILES).map(|n| format!("\"{n}\":\"\"")).collect();
        let many = format!("{{\"files\":{{{}}}}}", many.join(","));
        for (text, kind) in [
            ("", "protocol"),
            ("[]", "protocol"),
            (r#"{"files":{"a.yaml":1}}"#, "protocol"),
            (r#"{"roots":["../x"]}"#, "protocol"),
            (r#"{"files":{"../etc/x.yaml":""}}"#, "invalid"),
            (r#"{"files":{".roots":""}}"#, "invalid"),
            (r#"{"files":{"a\nb":""}}"#, "invalid"),
            (r#"{"files":{"":""}}"#, "invalid"),
            (many.as_str(), "too-large"),
        ] {
            let said = SourceSet::parse(text.as_bytes()).map_err(|refusal| refusal.kind);
            assert_eq!(said, Err(kind.to_string()), "{text:.60}");
        }
    }
}

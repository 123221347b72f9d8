//! Reads, merges and writes policy.yaml. [`crate::unit::policy`] defines its meaning.

use crate::text::diagnostic::Diagnostic;
use crate::text::name::Name;
use crate::text::yaml;
use crate::unit::field::Field;
use crate::unit::key;
use crate::unit::policy::Policy;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

const KEYS: [&str; 4] = ["mask", "enable", "disable", "prefer"];

/// Reads the policy of a file, without the parts that have errors, and its diagnostics.
pub fn read(file: &Arc<str>, bytes: &[u8]) -> (Policy, Vec<Diagnostic>) {
    let mut policy = Policy::default();
    let reading = yaml::read(file, bytes, &yaml::Limits::UNIT_FILE);
    let mut found = reading.diagnostics;
    let Some(document) = reading.documents.first() else { return (policy, found) };
    if let Some(second) = reading.documents.get(1) {
        let message = "a second document; a policy file has only one";
        found.push(Diagnostic::error("shape", second.root.at.of(file), message));
    }
    if document.broken {
        return (policy, found);
    }
    let field = Field { file, key: "policy.yaml", node: &document.root };
    for pair in field.map(&mut found) {
        let field = Field { file, key: &pair.key, node: &pair.node };
        match pair.key.as_str() {
            "mask" => policy.mask = names(field, &mut found),
            "enable" => policy.enable = names(field, &mut found),
            "disable" => policy.disable = names(field, &mut found),
            "prefer" => policy.prefer = prefer(field, &mut found),
            other if other.starts_with(key::PRIVATE) => {}
            other => {
                let hint = match key::nearest(other, KEYS.into_iter()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => format!("one of {}", KEYS.join(", ")),
                };
                let message = format!("unknown key `{other}`");
                let error = Diagnostic::error("unknown-key", pair.at.of(file), message);
                found.push(error.with_hint(hint));
            }
        }
    }
    for both in policy.enable.intersection(&policy.disable) {
        let message = format!("`{both}` is both enabled and disabled");
        found.push(Diagnostic::error("value", document.root.at.of(file), message));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        crate::text::encoding::add_excerpts(&mut found, file, text);
    }
    (policy, found)
}

fn names(field: Field<'_>, found: &mut Vec<Diagnostic>) -> BTreeSet<Name> {
    field.names(found, false).into_iter().map(|named| named.name).collect()
}

fn prefer(field: Field<'_>, found: &mut Vec<Diagnostic>) -> BTreeMap<Name, Name> {
    let mut prefer = BTreeMap::new();
    for pair in field.map(found) {
        match Name::new(&pair.key) {
            Ok(target) => {
                let unit = Field { key: "prefer", ..field.within(&pair.node) }.name(found);
                prefer.extend(unit.map(|unit| (target, unit)));
            }
            Err(error) => {
                found.push(Diagnostic::error("name", pair.at.of(field.file), error.to_string()));
            }
        }
    }
    prefer
}

impl Policy {
    /// Merges `over` (the policy of the runtime directory) into this one: masks are added; enabled,
    /// disabled and preferred names of `over` win.
    pub fn overlaid(&self, over: &Policy) -> Policy {
        let mut policy = self.clone();
        policy.mask.extend(over.mask.iter().cloned());
        for name in &over.enable {
            policy.disable.remove(name);
            policy.enable.insert(name.clone());
        }
        for name in &over.disable {
            policy.enable.remove(name);
            policy.disable.insert(name.clone());
        }
        policy.prefer.extend(over.prefer.iter().map(|(t, u)| (t.clone(), u.clone())));
        policy
    }
}

/// Writes a policy as the text of policy.yaml, which [`read`] reads back.
pub fn render(policy: &Policy) -> String {
    let mut text =
        "# Written by initctl, which may drop comments when it edits this file.\n".to_string();
    for (key, names) in
        [("mask", &policy.mask), ("enable", &policy.enable), ("disable", &policy.disable)]
    {
        if !names.is_empty() {
            let _ = writeln!(text, "{key}:");
            for name in names {
                let _ = writeln!(text, "  - '{name}'");
            }
        }
    }
    if !policy.prefer.is_empty() {
        text.push_str("prefer:\n");
        for (target, unit) in &policy.prefer {
            let _ = writeln!(text, "  '{target}': '{unit}'");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> (Policy, Vec<Diagnostic>) {
        read(&Arc::from("policy.yaml"), text.as_bytes())
    }

    #[test]
    fn written_policy_is_read_back_unchanged() {
        let text =
            "mask: [cron, null-x]\nenable: a, b\ndisable: ['on']\nprefer: {dns: unbound, '1': x}\n";
        let (policy, found) = policy(text);
        assert_eq!(found, Vec::new());
        assert_eq!(self::policy(&render(&policy)), (policy, Vec::new()));
        assert_eq!(self::policy(&render(&Policy::default())).0, Policy::default());
    }

    #[test]
    fn error_in_a_policy_is_reported_and_the_rest_applies() {
        let (policy, found) =
            policy("mask: [ok, 'a/b']\nprefers: {a: b}\nenable: [x]\ndisable: [x]\n");
        assert_eq!(policy.mask.len(), 1);
        let codes: Vec<_> = found.iter().map(|d| d.code.as_str()).collect();
        assert_eq!(codes, ["name", "unknown-key", "value"]);
    }

    #[test]
    fn runtime_policy_overrides_the_permanent_one() {
        let base = policy("mask: [a]\nenable: [x]\nprefer: {t: u}\n").0;
        let over = policy("mask: [b]\ndisable: [x]\nprefer: {t: v}\n").0;
        let both = policy("mask: [a, b]\ndisable: [x]\nprefer: {t: v}\n").0;
        assert_eq!(base.overlaid(&over), both);
    }
}

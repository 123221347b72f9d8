//! Formats values of `show`: booleans, time spans, quoted words, accounts.

use groundstate_units::spec::Credentials;
use groundstate_units::unit::account::Accounts;
use std::time::Duration;

/// Names and values in print order; a name may repeat.
pub(super) type Properties = Vec<(&'static str, String)>;

/// Reads the users and groups; an unreadable file has none.
fn accounts() -> Accounts {
    let text =
        |path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    Accounts::parse(&text("/etc/passwd"), &text("/etc/group"))
}

/// Returns the configured user and group, as names if they exist.
pub(super) fn user(credentials: Option<&Credentials>) -> (String, String) {
    let (mut user, mut group) = (String::new(), String::new());
    match credentials.map(|credentials| &credentials.ids) {
        None => {}
        Some(Err(missing)) if missing.what == "group" => group.clone_from(&missing.name),
        Some(Err(missing)) => user.clone_from(&missing.name),
        Some(Ok(ids)) => {
            let accounts = accounts();
            let account = ids.uid.and_then(|uid| accounts.user_of(uid));
            user = match (&ids.user, ids.uid) {
                (Some(name), _) => name.clone(),
                (None, Some(uid)) => uid.to_string(),
                (None, None) => String::new(),
            };
            let own = account.map(|account| account.gid);
            // A unit without `Group=` gets the group of its account.
            if let Some(gid) = ids.gid.filter(|gid| own != Some(*gid)) {
                let found = accounts.group_of(gid).map(|group| group.name.clone());
                group = found.unwrap_or_else(|| gid.to_string());
            }
        }
    }
    (user, group)
}

pub(super) fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_string()
}

/// Quotes a word that a shell would split or expand.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !matches!(c, '"' | '\\' | '\'' | '$' | '`');
    if text.chars().all(plain) {
        return text.to_string();
    }
    let mut made = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' | '$' | '`' => made.extend(['\\', c]),
            '\n' => made.push_str("\\n"),
            '\t' => made.push_str("\\t"),
            c => made.push(c),
        }
    }
    made.push('"');
    made
}

/// Formats `1min 30s`, `100ms`, `infinity`.
pub(super) fn span(span: Option<Duration>) -> String {
    let Some(span) = span else { return "infinity".to_string() };
    let units: [(u128, &str); 7] = [
        (7 * 86_400_000_000, "w"),
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "min"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let mut left = span.as_micros();
    let mut parts = Vec::new();
    for (length, word) in units {
        let count = left / length;
        left %= length;
        if count > 0 {
            parts.push(format!("{count}{word}"));
        }
    }
    if parts.is_empty() { "0".to_string() } else { parts.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_as_in_systemctl() {
        for (micros, want) in [
            (0, "0"),
            (100_000, "100ms"),
            (90_000_000, "1min 30s"),
            (5_000_000, "5s"),
            (86_400_000_000, "1d"),
        ] {
            assert_eq!(span(Some(Duration::from_micros(micros))), want);
        }
        assert_eq!(span(None), "infinity");
    }

    #[test]
    fn variable_with_spaces_is_quoted() {
        assert_eq!(quoted("A=b"), "A=b");
        assert_eq!(quoted("A=b \"c\" $d"), "\"A=b \\\"c\\\" \\$d\"");
    }
}

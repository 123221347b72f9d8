//! The environment of a child. Later entries win: the default PATH, variables passed on from init,
//! the user's variables, init.yaml's `env`, the unit's `env`, its env-files, init's own variables.

use groundstate_units::spec::Ids;
use std::collections::BTreeMap;
use std::io;
use std::io::Read;

/// The default PATH.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that init never passes on, because they describe init's own process.
const OWN: [&str; 7] = [
    "INVOCATION_ID",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// The variables of init's environment that every unit gets. Built once per generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed(pub(super) Vec<(String, String)>);

impl Passed {
    /// `names` are those of `env-pass`; `*` means all. Variables that are not UTF-8 are left out.
    pub(crate) fn new(
        names: &[String],
        own: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Passed {
        let all = names.iter().any(|name| name == "*");
        let text = own.filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
        Passed(
            text.filter(|(name, _)| all || names.contains(name))
                .filter(|(name, _)| !OWN.contains(&name.as_str()))
                .collect(),
        )
    }
}

/// Names and values, sorted by name and unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The default PATH, the passed variables, and the user's variables.
    pub(super) fn new(passed: &Passed, ids: Option<&Ids>) -> Environment {
        let mut env = Environment::default();
        env.set("PATH", PATH);
        env.extend(&passed.0);
        if let Some(ids) = ids {
            if let Some(user) = &ids.user {
                env.set("USER", user);
                env.set("LOGNAME", user);
            }
            if let Some(home) = &ids.home {
                env.set("HOME", home);
            }
            if let Some(shell) = &ids.shell {
                env.set("SHELL", shell);
            }
        }
        env
    }

    /// Removes `NAME`, or `NAME=value` if it has that value.
    pub(super) fn unset(&mut self, text: &str) {
        match text.split_once('=') {
            None => {
                self.0.remove(text);
            }
            Some((name, value)) => {
                if self.get(name) == Some(value) {
                    self.0.remove(name);
                }
            }
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_string(), value.to_string());
    }

    pub(super) fn extend(&mut self, pairs: &[(String, String)]) {
        for (name, value) in pairs {
            self.set(name, value);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

// Env-files: `NAME=VALUE` lines, as systemd reads them (systemd.exec(5), EnvironmentFile=). A
// forked child reads them, never PID 1.
//
// - A line that starts with `#` or `;` is a comment.
// - Blanks around the name and around an unquoted value are dropped.
// - A value may start with quoted parts. Single quotes keep everything; in double quotes a
//   backslash escapes `"`, `\`, `` ` `` and `$`.
// - Outside of quotes a backslash escapes any character, and joins lines at a line end.
// - Nothing is expanded. A line without an assignment is ignored.

/// Size limit of an env-file.
const SIZE: u64 = 1024 * 1024;

/// Reads an env-file. Fails with EFBIG if it is too large and EILSEQ if it is not UTF-8.
pub(super) fn read(path: &str) -> io::Result<Vec<(String, String)>> {
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(SIZE + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SIZE {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let text = String::from_utf8(text).map_err(|_| io::Error::from_raw_os_error(libc::EILSEQ))?;
    Ok(parse(&text))
}

/// The assignments, in the order of the file.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(first) = rest.peek().copied() {
        if first.is_whitespace() {
            rest.next();
        } else if matches!(first, '#' | ';') {
            skip_comment(&mut rest);
        } else {
            let name = take_name(&mut rest);
            // A line end instead of `=` is not an assignment.
            if rest.next() == Some('=') {
                let value = take_value(&mut rest);
                if is_name(&name) {
                    found.push((name, value));
                }
            }
        }
    }
    found
}

type Rest<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn skip_comment(rest: &mut Rest<'_>) {
    while rest.next().is_some_and(|c| !is_line_end(c)) {}
}

fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r')
}

fn take_name(rest: &mut Rest<'_>) -> String {
    let mut name = String::new();
    while let Some(c) = rest.next_if(|c| *c != '=' && !is_line_end(*c)) {
        name.push(c);
    }
    name.trim_end().to_string()
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Quoted parts; after the first unquoted character, quotes are ordinary characters.
fn take_value(rest: &mut Rest<'_>) -> String {
    let mut value = String::new();
    while let Some(c) = rest.peek().copied() {
        match c {
            '\'' => {
                rest.next();
                value.extend(rest.by_ref().take_while(|c| *c != '\''));
            }
            '"' => {
                rest.next();
                take_quoted(rest, &mut value);
            }
            ' ' | '\t' => {
                rest.next();
            }
            _ => {
                take_unquoted(rest, &mut value);
                break;
            }
        }
    }
    value
}

/// Reads to the end of the line, without trailing blanks.
fn take_unquoted(rest: &mut Rest<'_>, value: &mut String) {
    let mut blanks = String::new();
    while let Some(c) = rest.next() {
        let kept = match c {
            _ if is_line_end(c) => return,
            ' ' | '\t' => {
                blanks.push(c);
                continue;
            }
            '\\' => rest.next().filter(|c| !is_line_end(*c)),
            _ => Some(c),
        };
        if let Some(kept) = kept {
            value.push_str(&std::mem::take(&mut blanks));
            value.push(kept);
        }
    }
}

fn take_quoted(rest: &mut Rest<'_>, value: &mut String) {
    while let Some(c) = rest.next() {
        match c {
            '"' => return,
            '\\' => match rest.next() {
                Some(escaped @ ('"' | '\\' | '`' | '$')) => value.push(escaped),
                Some('\n') | None => {}
                Some(other) => {
                    value.push('\\');
                    value.push(other);
                }
            },
            _ => value.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
        [("SECRET", "s"), ("TZ", "UTC"), ("NOTIFY_SOCKET", "/x"), ("HOME", "/root")]
            .into_iter()
            .map(|(n, v)| (n.into(), v.into()))
    }

    #[test]
    fn variables_of_init_are_passed_only_if_named() {
        assert_eq!(Passed::new(&[], own()), Passed(vec![]));
        let named = Passed::new(&["TZ".to_string(), "NOTIFY_SOCKET".to_string()], own());
        assert_eq!(named.0, [("TZ".to_string(), "UTC".to_string())]);
        assert_eq!(Passed::new(&["*".to_string()], own()).0.len(), 3);
    }

    #[test]
    fn variables_of_the_user_override_passed_ones() {
        let ids = Ids {
            uid: Some(33),
            gid: Some(33),
            groups: None,
            user: Some("www".to_string()),
            home: Some("/var/www".to_string()),
            shell: None,
        };
        let env = Environment::new(&Passed::new(&["*".to_string()], own()), Some(&ids));
        assert_eq!(env.get("HOME"), Some("/var/www"));
        assert_eq!(env.get("LOGNAME"), Some("www"));
        assert_eq!(env.get("PATH"), Some(PATH));
        assert_eq!(env.get("SHELL"), None);
    }

    #[track_caller]
    fn reads(text: &str, expected: &[(&str, &str)]) {
        let found = parse(text);
        let found: Vec<_> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn env_file_comments_and_surrounding_blanks_are_skipped() {
        reads(
            "# c\n; d\n\n  A=1\nB = two words  \nC=\nno assignment\n1X=9\nD=a#b\n",
            &[("A", "1"), ("B", "two words"), ("C", ""), ("D", "a#b")],
        );
    }

    #[test]
    fn quotes_in_an_env_file_keep_blanks_and_line_ends() {
        reads("A=' x '\nB=\" y \"\n", &[("A", " x "), ("B", " y ")]);
        reads("A='one\ntwo'\nB=3", &[("A", "one\ntwo"), ("B", "3")]);
        reads(r#"A="a\"b\\c\$d\e""#, &[("A", r#"a"b\c$d\e"#)]);
        reads("A='it'\"'s\"", &[("A", "it's")]);
        reads("A=a 'b c' \nB='x' y'z'", &[("A", "a 'b c'"), ("B", "xy'z'")]);
    }

    #[test]
    fn backslash_in_an_env_file_joins_lines_and_escapes() {
        reads("A=one \\\n two\nB=x\\ty\\#\n", &[("A", "one  two"), ("B", "xty#")]);
        reads("# a comment \\\nA=1", &[("A", "1")]);
    }

    #[test]
    fn env_file_expands_no_variable_and_accepts_no_export() {
        reads("A=$B${C}\nexport D=1\n", &[("A", "$B${C}")]);
    }

    #[test]
    fn env_file_parser_terminates_on_any_text() {
        for text in ["", "=", "A", "A=", "A='", "A=\"", "A=\\", "\\", "A=\"\\", "\r\nA=1\r\nB=2"] {
            parse(text);
        }
        reads("A=1\r\nB=2\r\n", &[("A", "1"), ("B", "2")]);
    }
}

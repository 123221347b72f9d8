//! Command lines: prefixes of the program, words, specifiers, and the `;` between commands. The
//! importer writes a new native line from the words, so that the line means the same in the native
//! grammar. Variables are expanded when the process starts.

use super::conversion::Conversion;
use super::unit_text::UnitOption;
use super::word::{self, Word};

/// A command before it is written as a native line.
struct Command {
    prefixes: Prefixes,
    words: Vec<String>,
}

/// The prefixes of the program.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    ignore_failure: bool,
    own_name: bool,
    verbatim: bool,
    rights: Rights,
    /// `|`.
    shell: bool,
    /// A prefix is repeated or excluded by another one: systemd takes it as part of the program.
    is_double: bool,
}

/// The restrictions of the unit that apply to a command.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Rights {
    /// All restrictions.
    #[default]
    Unit,
    /// `+`: none.
    Full,
    /// `!`: all but the user and the groups.
    OwnUser,
    /// `!!`: all. It means `!` only for kernels without ambient capabilities.
    Ambient,
}

impl Prefixes {
    /// Splits the prefixes from the rest.
    fn split(text: &str) -> (Prefixes, &str) {
        let mut found = Prefixes::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let again = match c {
                '-' => std::mem::replace(&mut found.ignore_failure, true),
                '@' => std::mem::replace(&mut found.own_name, true),
                ':' => std::mem::replace(&mut found.verbatim, true),
                '|' => std::mem::replace(&mut found.shell, true),
                '+' => std::mem::replace(&mut found.rights, Rights::Full) != Rights::Unit,
                // The two characters of `!!` may be separated.
                '!' if found.rights == Rights::OwnUser => {
                    found.rights = Rights::Ambient;
                    false
                }
                '!' => std::mem::replace(&mut found.rights, Rights::OwnUser) != Rights::Unit,
                _ => break,
            };
            found.is_double |= again;
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        (found, rest)
    }
}

/// Converts all commands of a directive to lines of a native key.
pub(super) fn convert<'a>(this: &mut Conversion<'a>, name: &str, key: &str, privileged: bool) {
    for option in this.all("Service", name) {
        let Some(words) = words(this, option) else { continue };
        for words in words.split(|word| word.text == ";" && !word.quoted) {
            let Some(mut command) = command(this, option, words) else { continue };
            if privileged {
                command.prefixes.rights = Rights::Full;
            }
            this.add_line(key, &write(&command), option);
        }
    }
}

/// Returns the words; an unclosed quote makes the unit unusable, as in systemd.
fn words<'a>(this: &mut Conversion<'a>, option: &'a UnitOption) -> Option<Vec<Word>> {
    match word::split(&option.value) {
        Ok(words) => Some(words),
        Err(unbalanced) => {
            let message = format!("{}=: a quote that is not closed", option.name);
            let hint = "systemd does not load this unit either";
            this.refuse_at(option, option.spot(unbalanced.offset), &message, hint);
            None
        }
    }
}

fn command<'a>(
    this: &mut Conversion<'a>,
    option: &'a UnitOption,
    words: &[Word],
) -> Option<Command> {
    let (first, rest) = words.split_first()?;
    let (prefixes, program) = Prefixes::split(&first.text);
    let text = first.text.as_str();
    let wrong = if prefixes.shell {
        Some((format!("{}=: the prefix `|` is not known", option.name), "write /bin/sh -c '…'"))
    } else {
        prefixes.is_double.then(|| {
            let message =
                format!("{}=: the prefixes of `{text:.16}` do not go together", option.name);
            (message, "each of `- @ :` once, and only one of `+`, `!` and `!!`")
        })
    };
    if let Some((message, hint)) = wrong {
        this.refuse_at(option, option.spot(first.offset), &message, hint);
        return None;
    }
    let mut command = Command { prefixes, words: Vec::new() };
    let rest = rest.iter().map(|word| match word.text.as_str() {
        "\\;" => ";",
        text => text,
    });
    for text in std::iter::once(program).chain(rest) {
        let text = this.expand(option, text)?;
        command.words.push(text);
    }
    let program = command.words.first().map(String::as_str).unwrap_or_default();
    let relative = program.contains('/') && !program.starts_with('/');
    if program.is_empty() || program.ends_with('/') || relative {
        let message = format!("{}=: `{program}` is not a program", option.name);
        let hint = "give its path from the root, or its bare name";
        this.refuse_at(option, option.spot(first.offset), &message, hint);
        return None;
    }
    Some(command)
}

/// Returns the native line.
fn write(command: &Command) -> String {
    let Prefixes { ignore_failure, own_name, verbatim, rights, .. } = command.prefixes;
    let marks = [
        (ignore_failure, "-"),
        (own_name, "@"),
        (verbatim, ":"),
        (rights == Rights::Full, "+"),
        (rights == Rights::OwnUser, "!"),
    ];
    let mut line: String =
        marks.iter().filter(|(asked, _)| *asked).map(|(_, mark)| *mark).collect();
    let words: Vec<String> = command.words.iter().map(|word| word::quote(word)).collect();
    line.push_str(&words.join(" "));
    line
}

/// Reports a message bus that expects systemd to start services on request, because no process here
/// answers such requests.
pub(super) fn tell_bus(this: &mut Conversion<'_>) {
    for option in this.all("Service", "ExecStart") {
        if option.value.split_whitespace().any(|word| word == "--systemd-activation") {
            let message = "--systemd-activation: services are not started on requests over the bus, \
                           because no process here owns the name org.freedesktop.systemd1";
            this.warn(option, "systemd-activation", message, "let the goal want those services");
        }
    }
}

//! Command lines: the prefixes before the program, words, specifiers, the `;` that parts
//! two commands. The native line is written anew from the words, so that it means the
//! same to the native grammar; variables are left for the start of the process.

use super::conversion::Conversion;
use super::unit_text::UnitOption;
use super::word::{self, Word};
use crate::exec_line;

/// A command before it is written.
struct Command {
    ignore_failure: bool,
    own_name: bool,
    verbatim: bool,
    privileged: &'static str,
    words: Vec<String>,
}

/// All commands of a directive become lines of a native key. How many there are.
pub(super) fn convert<'a>(
    this: &mut Conversion<'a>,
    name: &str,
    key: &str,
    privileged: bool,
) -> usize {
    let mut count = 0;
    for option in this.all("Service", name) {
        let Some(words) = words(this, option) else { continue };
        for words in words.split(|word| word.text == ";" && !word.quoted) {
            let Some(mut command) = command(this, option, words) else { continue };
            if privileged && command.privileged.is_empty() {
                command.privileged = "+";
            }
            let line = write(this, option, &command);
            count += usize::from(this.add_line(key, &line, option));
        }
    }
    count
}

/// The words; a quote that is not closed spoils the unit, as it does for systemd.
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
    let mut command = Command {
        ignore_failure: false,
        own_name: false,
        verbatim: false,
        privileged: "",
        words: Vec::new(),
    };
    let (first, rest) = words.split_first()?;
    let mut program = first.text.as_str();
    let mut shell = false;
    while let Some(c) = program.chars().next() {
        match c {
            '-' => command.ignore_failure = true,
            '@' => command.own_name = true,
            ':' => command.verbatim = true,
            '+' => command.privileged = "+",
            '|' => shell = true,
            '!' if command.privileged == "!" => command.privileged = "!!",
            '!' => command.privileged = "!",
            _ => break,
        }
        program = program.get(c.len_utf8()..).unwrap_or_default();
    }
    if shell {
        let message = format!("{}=: the prefix `|` is not known", option.name);
        this.refuse_at(option, option.spot(first.offset), &message, "write /bin/sh -c '…'");
        return None;
    }
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
        let message = format!("{}=: `{program}` is no program", option.name);
        let hint = "give its path from the root, or its bare name";
        this.refuse_at(option, option.spot(first.offset), &message, hint);
        return None;
    }
    Some(command)
}

/// The native line. A prefix the native grammar does not take (yet) is told and left out.
fn write<'a>(this: &mut Conversion<'a>, option: &'a UnitOption, command: &Command) -> String {
    let mut line = String::new();
    let prefixes = [
        ("-", command.ignore_failure, "its failure counts"),
        ("@", command.own_name, "it runs under its own name"),
        (":", command.verbatim, "variables are replaced"),
        (command.privileged, !command.privileged.is_empty(), "it runs as the unit's user"),
    ];
    let mut own_name = false;
    for (prefix, asked, otherwise) in prefixes {
        if !asked {
            continue;
        }
        let sample = if prefix == "@" { "@/bin/true true" } else { &format!("{prefix}/bin/true") };
        if exec_line::parse(sample).is_ok() {
            line.push_str(prefix);
            own_name |= prefix == "@";
        } else {
            let message = format!(
                "{}=: the prefix `{prefix}` is not supported yet: {otherwise}",
                option.name
            );
            this.warn(option, "not-supported", &message, "");
        }
    }
    // Without its prefix the second word is no argument.
    let skip = usize::from(command.own_name && !own_name);
    let words = command.words.iter().enumerate().filter(|(index, _)| *index != 1 || skip == 0);
    let words: Vec<String> = words.map(|(_, word)| word::quote(word)).collect();
    line.push_str(&words.join(" "));
    line
}

/// A bus that would have systemd start what is asked for: nobody answers.
pub(super) fn tell_bus(this: &mut Conversion<'_>) {
    for option in this.all("Service", "ExecStart") {
        if option.value.split_whitespace().any(|word| word == "--systemd-activation") {
            let message = "--systemd-activation: what is first asked for over the bus is not \
                           started, as nobody here is org.freedesktop.systemd1";
            this.warn(option, "systemd-activation", message, "let the goal want those services");
        }
    }
}

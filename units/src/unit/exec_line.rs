//! Exec lines: splits the text of `exec-start` and similar keys into words, and the words into
//! arguments. No shell is involved; the rules are those of systemd.service(5), "COMMAND LINES",
//! without its `;` lists.
//!
//! Prefixes of the program, in any order and each once:
//!
//! - `-`: a failure counts as success.
//! - `+`: the command runs with all of init's privileges.
//! - `!`: the command runs as init's own user; all other keys of the unit apply.
//! - `@`: the second word is the program's argument 0.
//! - `:`: no variable is replaced.
//!
//! `!!` is accepted and has no effect. It is for kernels without ambient capabilities, which
//! Groundstate does not support.
//!
//! White space splits words. Single or double quotes anywhere in a word hold it together and are
//! removed. C escapes work inside and outside quotes. Variables are replaced after that, so quotes
//! do not affect them:
//!
//! - A word that is `$NAME` as a whole becomes the words of the value; no word if it is unset.
//! - `${NAME}` anywhere in a word becomes the value as it is.
//! - `$$` is a dollar. Any other dollar stays, because the program may be a shell.
//!
//! The program itself is never a variable. The loader parses the line; [`expand`] runs at each
//! start.

mod arguments;

pub use arguments::{Unexpanded, expand};

use crate::limit;
use crate::spec::value::{Mistake, mistake};
use crate::spec::{ExecLine, Piece, Prefixes};

/// A construct that is probably not intended.
pub type Remark = Mistake;

/// A word after splitting.
#[derive(Default)]
struct Word {
    text: String,
    /// No part of the word was quoted or escaped.
    bare: bool,
    started: bool,
}

/// Parses a line into words, with remarks about constructs that a shell would interpret.
///
/// # Errors
/// The first error.
pub fn parse(text: &str) -> Result<(ExecLine, Vec<Remark>), Mistake> {
    if text.len() > limit::EXEC_LINE {
        return mistake(format!("an exec line of {} bytes", text.len()), "128 KiB at most");
    }
    let (prefixes, literal, text) = prefixes(text)?;
    let words = split(text)?;
    let Some(program) = words.first() else {
        return mistake("an exec line without a word".to_string(), "name a program");
    };
    check_program(&program.text)?;
    if prefixes.has(Prefixes::NAMED) && words.len() < 2 {
        let hint = "write `@/path/of/program its-name …`";
        return mistake("the prefix `@` without a second word".to_string(), hint);
    }
    let mut remarks = Vec::new();
    let mut line = ExecLine { prefixes, words: vec![vec![Piece::Literal(program.text.clone())]] };
    for word in words.iter().skip(1) {
        if literal {
            line.words.push(vec![Piece::Literal(word.text.clone())]);
        } else {
            remarks.extend(remark(word));
            line.words.push(pieces(&word.text)?);
        }
    }
    Ok((line, remarks))
}

/// Returns the prefixes of the program, whether `:` is among them, and the rest.
fn prefixes(text: &str) -> Result<(Prefixes, bool, &str), Mistake> {
    let mut found = Prefixes::default();
    let (mut literal, mut rights) = (false, false);
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let ambient = rest.starts_with("!!");
        let one = match first {
            '-' => Prefixes::FORGIVEN,
            '+' => Prefixes::PRIVILEGED,
            '!' if ambient => Prefixes::default(),
            '!' => Prefixes::OWN_USER,
            '@' => Prefixes::NAMED,
            ':' => Prefixes::default(),
            _ => break,
        };
        let again = match first {
            ':' => std::mem::replace(&mut literal, true),
            '+' | '!' => std::mem::replace(&mut rights, true),
            _ => found.has(one),
        };
        if again {
            let hint = "each of `- + ! @ :` once, and only one of `+`, `!` and `!!`";
            return mistake(
                format!("`{text:.8}` begins with prefixes that do not go together"),
                hint,
            );
        }
        found = found.and(one);
        rest = rest.get(if ambient { 2 } else { 1 }..).unwrap_or_default();
    }
    Ok((found, literal, rest))
}

fn check_program(program: &str) -> Result<(), Mistake> {
    if program.is_empty() {
        return mistake("the program is an empty word".to_string(), "name a program");
    }
    if program.contains('$') {
        let hint = "write its path, or use /bin/sh -c";
        return mistake(format!("the program `{program}` cannot contain a variable"), hint);
    }
    if program.len() > limit::PATH {
        return mistake(format!("a path of {} bytes", program.len()), "4095 at most");
    }
    let dotted = program.split('/').any(|part| part == "..");
    if (program.contains('/') && !program.starts_with('/')) || program.ends_with('/') || dotted {
        let hint = "give the path from the root, or a bare name that is looked up in PATH";
        return mistake(format!("the program `{program}` is not an absolute path"), hint);
    }
    if program.starts_with(['-', '@', '+', '!', ':', '|']) {
        let hint = "the prefixes of a program are `- + ! @ :`";
        return mistake(format!("the program cannot start with `{program:.1}`"), hint);
    }
    Ok(())
}

fn split(text: &str) -> Result<Vec<Word>, Mistake> {
    let mut words = Vec::new();
    let mut word = Word { bare: true, ..Word::default() };
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => {
                word.text.push(escape(&mut characters)?);
                (word.started, word.bare) = (true, false);
            }
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.text.push(c),
            ('"' | '\'', None) => {
                quote = Some(character);
                (word.started, word.bare) = (true, false);
            }
            (' ' | '\t' | '\n' | '\r', None) => {
                if word.started {
                    words.push(std::mem::take(&mut word));
                }
                word.bare = true;
            }
            (c, None) => {
                word.text.push(c);
                word.started = true;
            }
        }
    }
    if let Some(open) = quote {
        return mistake(format!("a quote `{open}` that is not closed"), "close it");
    }
    if word.started {
        words.push(word);
    }
    Ok(words)
}

/// Parses the escape after a backslash.
fn escape(characters: &mut std::str::Chars<'_>) -> Result<char, Mistake> {
    let hint = "write `\\\\` for a backslash";
    let Some(kind) = characters.next() else {
        return mistake("a backslash at the end of the line".to_string(), hint);
    };
    let (radix, digits, first) = match kind {
        'a' => return Ok('\u{7}'),
        'b' => return Ok('\u{8}'),
        'f' => return Ok('\u{c}'),
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        'v' => return Ok('\u{b}'),
        's' => return Ok(' '),
        '\\' | '"' | '\'' => return Ok(kind),
        'x' => (16, 2, None),
        'u' => (16, 4, None),
        'U' => (16, 8, None),
        '0'..='7' => (8, 3, Some(kind)),
        other => return mistake(format!("the unknown escape `\\{other}`"), hint),
    };
    let digits: String = first
        .into_iter()
        .chain(characters.by_ref().take(digits - usize::from(first.is_some())))
        .collect();
    let plain = digits.chars().all(|digit| digit.is_digit(radix));
    let number = if plain { u32::from_str_radix(&digits, radix).ok() } else { None };
    // A byte beyond ASCII would be part of a character, and the line must stay UTF-8.
    let limit = if matches!(kind, 'u' | 'U') { u32::MAX } else { 0x7f };
    let value = number.filter(|number| (1..=limit).contains(number)).and_then(char::from_u32);
    match value {
        Some(value) => Ok(value),
        None => mistake(format!("the escape `\\{kind}` with `{digits}` is not a character"), hint),
    }
}

/// Splits a word at its variables.
fn pieces(word: &str) -> Result<Vec<Piece>, Mistake> {
    if let Some(name) = word.strip_prefix('$')
        && is_variable(name)
    {
        return Ok(vec![variable(name, Piece::Split)]);
    }
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        literal.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            literal.push('$');
            rest = after;
        } else if let Some((name, after)) = braced(after) {
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(variable(name, Piece::Variable));
            rest = after;
        } else {
            literal.push('$');
            rest = after;
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Literal(literal));
    }
    Ok(pieces)
}

fn variable(name: &str, piece: fn(String) -> Piece) -> Piece {
    if name == "MAINPID" { Piece::MainPid } else { piece(name.to_string()) }
}

fn braced(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.strip_prefix('{')?.split_once('}')?;
    is_variable(name).then_some((name, rest))
}

/// Returns true for the name of an environment variable: letters, digits and `_`, not starting with
/// a digit.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Returns the part of a bare word that a shell would interpret.
fn remark(word: &Word) -> Option<Remark> {
    if !word.bare {
        return None;
    }
    let text = word.text.as_str();
    let operator = matches!(text, "|" | "||" | "&" | "&&" | ";" | "<" | ">" | ">>" | "2>&1" | "&>");
    let redirection = ["2>", ">/", ">>/", "&>/"].iter().any(|start| text.starts_with(start));
    if operator || redirection || text.starts_with("$(") || text.starts_with('`') {
        let message = format!("`{text}` is passed to the program unchanged: there is no shell");
        return Some(Mistake { message, hint: "use /bin/sh -c '…' where a shell is meant" });
    }
    let name = unreplaced(text)?;
    let message = format!("`${name}` within a word is passed on unchanged");
    Some(Mistake { message, hint: "write `${NAME}` to replace it, `$$` for a dollar" })
}

/// Returns the first `$NAME` that is no whole word and so is not replaced. `$$` is a dollar.
fn unreplaced(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        if let Some(behind) = after.strip_prefix('$') {
            rest = behind;
            continue;
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = after.get(..end.unwrap_or(after.len())).unwrap_or_default();
        let whole = rest.len() == text.len() && before.is_empty() && end.is_none();
        if is_variable(name) && !whole {
            return Some(name);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn arguments(text: &str) -> Vec<String> {
        let lookup = |name: &str| match name {
            "A" => Some("one two  three".to_string()),
            "EMPTY" => Some(String::new()),
            "MAINPID" => Some("-1".to_string()),
            _ => None,
        };
        expand(&parse(text).unwrap().0, &lookup, Some(42)).unwrap()
    }

    #[test]
    fn words_quotes_escapes_and_variables_are_parsed_as_in_systemd() {
        let cases: [(&str, &[&str]); 22] = [
            ("/bin/a  b\tc ", &["/bin/a", "b", "c"]),
            ("/bin/a \"b c\" 'd e'", &["/bin/a", "b c", "d e"]),
            ("/bin/a b'c d'e", &["/bin/a", "bc de"]),
            ("/bin/a '' \"\"", &["/bin/a", "", ""]),
            (r"/bin/a \x41 \101 \u00e4 \s \t", &["/bin/a", "A", "A", "ä", " ", "\t"]),
            (r#"/bin/a 'it\'s' "q\"q""#, &["/bin/a", "it's", "q\"q"]),
            ("/bin/a $A", &["/bin/a", "one", "two", "three"]),
            ("/bin/a ${A}", &["/bin/a", "one two  three"]),
            ("/bin/a '${A}'", &["/bin/a", "one two  three"]),
            ("/bin/a '$A'", &["/bin/a", "one", "two", "three"]),
            ("/bin/a x${A}y", &["/bin/a", "xone two  threey"]),
            ("/bin/a x$A", &["/bin/a", "x$A"]),
            ("/bin/a $UNSET", &["/bin/a"]),
            ("/bin/a ${UNSET}", &["/bin/a", ""]),
            ("/bin/a $EMPTY ${EMPTY}", &["/bin/a", ""]),
            ("/bin/a $$A $$", &["/bin/a", "$A", "$"]),
            ("/bin/a $(date) `x` $1 ${1} ${", &["/bin/a", "$(date)", "`x`", "$1", "${1}", "${"]),
            ("/bin/sh -c 'echo $X > y; z'", &["/bin/sh", "-c", "echo $X > y; z"]),
            ("/bin/kill -TERM $MAINPID", &["/bin/kill", "-TERM", "42"]),
            ("/bin/kill ${MAINPID}.x", &["/bin/kill", "42.x"]),
            ("true ;", &["true", ";"]),
            ("/bin/a $A_B", &["/bin/a"]),
        ];
        for (text, expected) in cases {
            assert_eq!(arguments(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_exec_line_is_refused() {
        for bad in [
            "",
            "  ",
            "''",
            "bin/x",
            "./x",
            "../x",
            "/bin/../x",
            "/bin/",
            "--/bin/x",
            "@/bin/x",
            "+!/bin/x",
            "!!!/bin/x",
            "+!!/bin/x",
            "!!+/bin/x",
            "!!-!/bin/x",
            "!-!/bin/x",
            "|/bin/x",
            "::x",
            "-",
            "+ ",
            "$A",
            "/opt/${V}/x",
            "/bin/a 'b",
            "/bin/a \"b",
            "/bin/a b\\",
            r"/bin/a \q",
            r"/bin/a \x",
            r"/bin/a \x0g",
            r"/bin/a \x00",
            r"/bin/a \0",
            r"/bin/a \x80",
            r"/bin/a \ud800",
            r"/bin/a \9",
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse(&format!("/bin/a {}", "x".repeat(limit::EXEC_LINE))).is_err());
    }

    #[test]
    fn prefixes_are_accepted_in_any_order_and_once_each() {
        let all = [Prefixes::FORGIVEN, Prefixes::PRIVILEGED, Prefixes::OWN_USER, Prefixes::NAMED];
        for (text, expected, words) in [
            ("/bin/a", vec![], vec!["/bin/a"]),
            ("-/bin/a", vec![0], vec!["/bin/a"]),
            ("+-/bin/a b", vec![0, 1], vec!["/bin/a", "b"]),
            ("-+/bin/a", vec![0, 1], vec!["/bin/a"]),
            ("!a", vec![2], vec!["a"]),
            ("!!/bin/a", vec![], vec!["/bin/a"]),
            ("@/bin/a b $A", vec![3], vec!["/bin/a", "b", "one", "two", "three"]),
            (":/bin/a $A ${A} $$", vec![], vec!["/bin/a", "$A", "${A}", "$$"]),
            ("-@:- a", vec![], vec![]),
        ] {
            if words.is_empty() {
                assert!(parse(text).is_err(), "{text}");
                continue;
            }
            assert_eq!(arguments(text), words, "{text}");
            let line = parse(text).unwrap().0;
            for (index, one) in all.into_iter().enumerate() {
                assert_eq!(line.prefixes.has(one), expected.contains(&index), "{text}");
            }
        }
    }

    #[test]
    fn shell_syntax_in_an_exec_line_gets_a_remark() {
        for odd in
            ["/bin/a | b", "/bin/a > /dev/null", "/bin/a 2>&1", "/bin/a --x=$HOME", "/bin/a $(x)"]
        {
            assert_eq!(parse(odd).unwrap().1.len(), 1, "{odd}");
        }
        for fine in ["/bin/sh -c 'a | b > $X'", "/bin/a ${X} $Y", "/bin/a a|b", "/bin/a x$$y"] {
            assert_eq!(parse(fine).unwrap().1, Vec::new(), "{fine}");
        }
    }

    #[test]
    fn escaped_dollar_gets_no_remark() {
        for fine in ["$$A", "$$$$A", "x$$A", "$$", "$$A$$B", "${A}$$B", "$$1", "$", "a$"] {
            assert_eq!(parse(&format!("/bin/echo {fine}")).unwrap().1, Vec::new(), "{fine}");
        }
        for odd in ["x$A", "$$$A", "$A/b", "$A$B", "${A}$B"] {
            assert_eq!(parse(&format!("/bin/echo {odd}")).unwrap().1.len(), 1, "{odd}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_and_expanded_without_a_panic(
            text in "(/b|[ \\\\'\"$a{}x0-9;|])*", pid: Option<u32>
        ) {
            if let Ok((line, _)) = parse(&text) {
                let _ = expand(&line, &|_| None, pid);
            }
        }

        #[test]
        fn words_without_special_characters_are_expanded_unchanged(
            words in proptest::collection::vec("[a-z/=.,:ä-]{1,8}", 1..6)
        ) {
            let line = format!("/bin/x {}", words.join("  "));
            let expanded = expand(&parse(&line).unwrap().0, &|_| None, None).unwrap();
            proptest::prop_assert_eq!(&expanded[1..], &words[..]);
        }
    }
}

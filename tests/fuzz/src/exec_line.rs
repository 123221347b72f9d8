//! Checks of the fuzz target `exec_line` for any text:
//!
//! - It is a list of words or gives an error message.
//! - The words, quoted and parsed again, are the same.
//! - The resulting arguments are within their limits, for any variables.
//!
//! The line comes before the first NUL, the value of every variable after it.

use groundstate_units::limit;
use groundstate_units::spec::{ExecLine, Piece, Prefixes};
use groundstate_units::unit::exec_line::{expand, parse};

/// The line, if it is one. Panics if a promise is broken.
pub fn exec_line(bytes: &[u8]) -> Option<ExecLine> {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = std::str::from_utf8(bytes.get(..at)?).ok()?;
    let value = String::from_utf8_lossy(bytes.get(at + 1..).unwrap_or_default());
    let line = match parse(text) {
        Ok((line, _)) => line,
        Err(mistake) => {
            assert!(!mistake.message.is_empty(), "refused without a word");
            return None;
        }
    };
    let written = written(&line);
    // Escapes are longer than the characters they stand for.
    if written.len() <= limit::EXEC_LINE {
        assert_eq!(parse(&written).map(|(line, _)| line), Ok(line.clone()), "{written}");
    }
    let lookup = |name: &str| (name.len() % 2 == 1).then(|| value.to_string());
    if let Ok(arguments) = expand(&line, &lookup, Some(7)) {
        assert!(!arguments.first().is_none_or(String::is_empty), "no program");
        let bytes: usize = arguments.iter().map(String::len).sum();
        assert!(bytes <= limit::EXEC_LINE, "{bytes} bytes of arguments");
        let literal = line.words.first().and_then(|word| word.first());
        let program = arguments.first().map(|first| Piece::Literal(first.clone()));
        assert_eq!(literal, program.as_ref(), "a variable became the program");
    }
    Some(line)
}

/// An equivalent line.
fn written(line: &ExecLine) -> String {
    let mut text = String::new();
    for (prefix, sign) in [
        (Prefixes::FORGIVEN, '-'),
        (Prefixes::PRIVILEGED, '+'),
        (Prefixes::OWN_USER, '!'),
        (Prefixes::NAMED, '@'),
    ] {
        if line.prefixes.has(prefix) {
            text.push(sign);
        }
    }
    for (index, word) in line.words.iter().enumerate() {
        text.push(if index == 0 { '"' } else { ' ' });
        if index > 0 {
            text.push('"');
        }
        for piece in word {
            match piece {
                Piece::Literal(literal) => literal.chars().for_each(|c| quote(c, index, &mut text)),
                Piece::Variable(name) => text.push_str(&format!("${{{name}}}")),
                Piece::Split(name) => text.push_str(&format!("${name}")),
                Piece::MainPid => text.push_str("${MAINPID}"),
            }
        }
        text.push('"');
    }
    text
}

/// Quotes a character; a dollar becomes two.
fn quote(c: char, word: usize, text: &mut String) {
    match c {
        '"' | '\\' => text.extend(['\\', c]),
        '$' if word > 0 => text.push_str("$$"),
        c if c.is_control() => text.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => text.push(c),
    }
}

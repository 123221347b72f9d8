//! Converts the words of an exec line to arguments at each start, with the values that the
//! variables have then.

use crate::limit;
use crate::spec::{ExecLine, Piece};
use crate::text::quoting;
use std::fmt;

/// The reason why an exec line gives no arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexpanded {
    /// The line uses `$MAINPID`, and the unit has no main process.
    NoMainPid,
    /// The expanded line is longer than [`limit::EXEC_LINE`].
    TooLong,
    /// The line has no program.
    Empty,
}

impl fmt::Display for Unexpanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unexpanded::NoMainPid => "$MAINPID is used, but the unit has no main process",
            Unexpanded::TooLong => "the line with its variables is longer than 128 KiB",
            Unexpanded::Empty => "the line has no program",
        })
    }
}

/// Returns the arguments of a line, the program first. `lookup` gives the value of an environment
/// variable. `main_pid` is the only source of `$MAINPID`; 0 and values that are negative as a pid_t
/// count as no main process.
///
/// # Errors
/// See [`Unexpanded`]. `$MAINPID` is never replaced by an empty text.
pub fn expand(
    line: &ExecLine,
    lookup: &dyn Fn(&str) -> Option<String>,
    main_pid: Option<u32>,
) -> Result<Vec<String>, Unexpanded> {
    let main_pid = main_pid.filter(|pid| *pid > 0 && i32::try_from(*pid).is_ok());
    let mut arguments = Vec::new();
    let mut size = 0usize;
    for word in &line.words {
        if let [Piece::Split(name)] = word.as_slice() {
            let value = lookup(name).unwrap_or_default();
            size = size.saturating_add(value.len());
            arguments.extend(quoting::words(&value, char::is_ascii_whitespace));
        } else {
            let mut argument = String::new();
            for piece in word {
                match piece {
                    Piece::Literal(text) => argument.push_str(text),
                    Piece::Variable(name) | Piece::Split(name) => {
                        argument.push_str(&lookup(name).unwrap_or_default());
                    }
                    Piece::MainPid => {
                        let pid = main_pid.ok_or(Unexpanded::NoMainPid)?;
                        argument.push_str(&pid.to_string());
                    }
                }
                if argument.len() > limit::EXEC_LINE {
                    return Err(Unexpanded::TooLong);
                }
            }
            size = size.saturating_add(argument.len() + 1);
            arguments.push(argument);
        }
        if size > limit::EXEC_LINE {
            return Err(Unexpanded::TooLong);
        }
    }
    if arguments.first().is_none_or(String::is_empty) {
        return Err(Unexpanded::Empty);
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    #[test]
    fn quotes_in_a_variable_value_group_its_words() {
        let words_of = |text: &str| quoting::words(text, char::is_ascii_whitespace);
        assert_eq!(words_of(" a 'b c' \"d e\"f '' g'"), ["a", "b c", "d ef", "", "g"]);
        assert!(words_of("  ").is_empty());
    }

    #[test]
    fn mainpid_is_never_replaced_by_an_empty_zero_or_negative_value() {
        let line = parse("/bin/kill -TERM $MAINPID").unwrap().0;
        let lookup = |_: &str| Some("1".to_string());
        for none in [None, Some(0), Some(1 << 31), Some(u32::MAX)] {
            assert_eq!(expand(&line, &lookup, none), Err(Unexpanded::NoMainPid));
        }
    }

    #[test]
    fn expanded_command_line_has_a_size_limit() {
        let line = parse(&format!("/bin/a {}", "${A}".repeat(1000))).unwrap().0;
        let long = |_: &str| Some("x".repeat(1024));
        assert_eq!(expand(&line, &long, None), Err(Unexpanded::TooLong));
    }
}

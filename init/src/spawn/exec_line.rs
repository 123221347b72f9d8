//! The words of an exec line with `$MAINPID`, `$VAR` and `${VAR}` put in. The line itself was
//! taken apart by the loader; no shell is involved (systemd.service(5), "COMMAND LINES").

use groundstate_units::spec::{ExecLine, Piece};

/// A line that can not be put together: an errno of stage `ExecLine`.
pub(super) type Broken = i32;

/// The words. Unset variables are empty; a `$VAR` that is a whole word splits at white space and
/// is gone when empty. ESRCH: `$MAINPID` without a main process. ENOENT: no program is left.
pub(super) fn expand(
    line: &ExecLine,
    lookup: &dyn Fn(&str) -> Option<String>,
    main_pid: Option<i32>,
) -> Result<Vec<String>, Broken> {
    let mut words = Vec::with_capacity(line.words.len());
    for pieces in &line.words {
        if let [Piece::Split(name)] = pieces.as_slice() {
            words.extend(split(&lookup(name).unwrap_or_default()));
            continue;
        }
        let mut word = String::new();
        for piece in pieces {
            match piece {
                Piece::Literal(text) => word.push_str(text),
                Piece::Variable(name) | Piece::Split(name) => {
                    word.push_str(&lookup(name).unwrap_or_default());
                }
                Piece::MainPid => {
                    let pid = main_pid.filter(|pid| *pid > 0).ok_or(libc::ESRCH)?;
                    word.push_str(&pid.to_string());
                }
            }
        }
        words.push(word);
    }
    if words.first().is_none_or(String::is_empty) {
        return Err(libc::ENOENT);
    }
    Ok(words)
}

/// The words of a value: quotes hold a word together and are dropped, as systemd does. One that
/// is not closed runs to the end.
fn split(value: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in value.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> Vec<Piece> {
        vec![Piece::Literal(text.to_string())]
    }

    fn words(line: Vec<Vec<Piece>>, main_pid: Option<i32>) -> Result<Vec<String>, Broken> {
        let lookup = |name: &str| match name {
            "TWO" => Some(" a  b ".to_string()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        expand(&ExecLine { words: line }, &lookup, main_pid)
    }

    #[test]
    fn a_whole_word_splits_and_a_braced_one_does_not() {
        let line = vec![
            literal("/bin/x"),
            vec![Piece::Split("TWO".to_string())],
            vec![Piece::Variable("TWO".to_string())],
            vec![Piece::Split("EMPTY".to_string())],
            vec![Piece::Variable("UNSET".to_string())],
            vec![Piece::Literal("-o".to_string()), Piece::Variable("TWO".to_string())],
        ];
        assert_eq!(words(line, None).unwrap(), ["/bin/x", "a", "b", " a  b ", "", "-o a  b "]);
    }

    #[test]
    fn quotes_in_a_value_hold_words_together() {
        assert_eq!(split(" a 'b c' \"d e\"f '' g'"), ["a", "b c", "d ef", "", "g"]);
        assert!(split("  ").is_empty());
    }

    #[test]
    fn a_main_pid_that_is_not_there_is_never_nothing_or_zero() {
        let line = || vec![literal("/bin/kill"), vec![Piece::MainPid]];
        assert_eq!(words(line(), Some(7)).unwrap(), ["/bin/kill", "7"]);
        for none in [None, Some(0), Some(-1)] {
            assert_eq!(words(line(), none), Err(libc::ESRCH));
        }
    }

    #[test]
    fn a_line_without_a_program_is_refused() {
        assert_eq!(words(vec![], None), Err(libc::ENOENT));
        assert_eq!(words(vec![literal("")], None), Err(libc::ENOENT));
        assert_eq!(words(vec![vec![Piece::Split("UNSET".to_string())]], None), Err(libc::ENOENT));
    }
}

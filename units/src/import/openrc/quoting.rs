//! Shell quotes and brackets: finds the end of a word. [`super::expansion`] interprets the content.

/// An open quote or bracket in a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Double,
    /// `${…}`; within double quotes a single quote is an ordinary character.
    Brace {
        quoted: bool,
    },
    /// `$(…)`, and brackets within it.
    Paren,
    Tick,
}

/// Returns the length of the word at the start of a text, or `None` if it is not closed.
pub(super) fn word(text: &str) -> Option<usize> {
    scan(text, None)
}

/// Returns the length of the content of `${…}`, for a text that starts after `${`.
pub(super) fn braced(text: &str, quoted: bool) -> Option<usize> {
    scan(text, Some(Open::Brace { quoted })).map(|end| end.saturating_sub(1))
}

fn scan(text: &str, first: Option<Open>) -> Option<usize> {
    let mut open: Vec<Open> = first.into_iter().collect();
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let top = open.last().copied();
        match (c, top) {
            ('\\', _) => drop(rest.next()),
            ('\'', None | Some(Open::Paren | Open::Brace { quoted: false })) => {
                rest.find(|(_, c)| *c == '\'')?;
            }
            ('"', Some(Open::Double))
            | ('`', Some(Open::Tick))
            | (')', Some(Open::Paren))
            | ('}', Some(Open::Brace { .. })) => {
                open.pop();
                if open.is_empty() && first.is_some() {
                    return Some(at + 1);
                }
            }
            ('"', None | Some(Open::Paren | Open::Brace { .. })) => open.push(Open::Double),
            ('`', _) => open.push(Open::Tick),
            ('$', top) if top != Some(Open::Tick) => match rest.peek() {
                Some((_, '(')) => {
                    rest.next();
                    open.push(Open::Paren);
                }
                Some((_, '{')) => {
                    rest.next();
                    let quoted = matches!(top, Some(Open::Double | Open::Brace { quoted: true }));
                    open.push(Open::Brace { quoted });
                }
                _ => {}
            },
            ('(', Some(Open::Paren)) => open.push(Open::Paren),
            (c, None) if ends_word(c) => return Some(at),
            _ => {}
        }
    }
    open.is_empty().then_some(text.len())
}

fn ends_word(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')')
}

/// Returns true for the name of a variable or function.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

//! Shell patterns over unit names: `*` and `?` (neither crosses a `/`), `[a-z]`, `[^…]`,
//! `\` before a character that is meant itself; the language of Go's `path.Match`,
//! which fleet's `Conflicts` and `Replaces` are written in. A pattern that is malformed
//! matches nothing.

/// One thing a pattern asks of the text.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    /// This character.
    One(char),
    /// Any but `/`.
    Any,
    /// Any number of any but `/`.
    Many,
    /// One of these ranges, or none of them.
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Piece {
    fn takes(&self, c: char) -> bool {
        match self {
            Piece::One(own) => *own == c,
            Piece::Any | Piece::Many => c != '/',
            Piece::Class { not, ranges } => {
                c != '/' && ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *not
            }
        }
    }
}

/// Does `pattern` describe the whole of `text`? Time is bounded by the product of their
/// lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some(pieces) = pieces(pattern) else { return false };
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // The last star, and how much of the text it has eaten so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pieces.get(p) {
            Some(Piece::Many) => {
                star = Some((p, t));
                p += 1;
            }
            Some(piece) if piece.takes(*c) => {
                p += 1;
                t += 1;
            }
            _ => match star {
                Some((at, eaten)) if text.get(eaten).is_some_and(|c| *c != '/') => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    t = eaten + 1;
                }
                _ => return false,
            },
        }
    }
    pieces.get(p..).is_some_and(|rest| rest.iter().all(|piece| *piece == Piece::Many))
}

fn pieces(pattern: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        pieces.push(match c {
            '*' => Piece::Many,
            '?' => Piece::Any,
            '\\' => Piece::One(rest.next()?),
            '[' => class(&mut rest)?,
            c => Piece::One(c),
        });
    }
    Some(pieces)
}

fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Piece> {
    let not = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.next_if_eq(&']').is_some() {
            return Some(Piece::Class { not, ranges });
        }
        let low = member(rest)?;
        let high = if rest.next_if_eq(&'-').is_some() { member(rest)? } else { low };
        ranges.push((low, high));
    }
}

fn member(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '\\' => rest.next(),
        '-' | ']' => None,
        c => Some(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_shell() {
        let table = [
            ("*", "foo.service", true),
            ("foo.*", "foo.service", true),
            ("foo@*.service", "foo@1.service", true),
            ("foo@*.service", "foo@.service", true),
            ("foo@[abc].service", "foo@b.service", true),
            ("foo@[a-c].service", "foo@d.service", false),
            ("foo@[^a-c].service", "foo@d.service", true),
            ("foo@?.service", "foo@1.service", true),
            ("foo@?.service", "foo@12.service", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("*", "a/b", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, text, result) in table {
            assert_eq!(matches(pattern, text), result, "{pattern} on {text}");
        }
    }

    #[test]
    fn a_malformed_pattern_matches_nothing() {
        for pattern in ["[", "[]", "[a", "[a-", "[-a]", "a\\"] {
            assert!(!matches(pattern, "a") && !matches(pattern, pattern), "{pattern}");
        }
    }
}

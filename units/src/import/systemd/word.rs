//! Words of a systemd value: split at white space, grouped by quotes, with the C escapes of
//! systemd.syntax(7). An unknown escape stays as written, as in systemd.

/// A word and its offset in the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The text without quotes and with escapes resolved.
    pub(crate) text: String,
    /// Number of bytes before it.
    pub(crate) offset: usize,
    /// Part of the word was quoted or escaped.
    pub(crate) quoted: bool,
}

/// The error of a value with an unclosed quote or a trailing backslash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced {
    /// Number of bytes before the quote or the backslash.
    pub(crate) offset: usize,
}

const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

/// Splits a value into words.
///
/// # Errors
/// Unbalanced quoting.
pub(crate) fn split(value: &str) -> Result<Vec<Word>, Unbalanced> {
    parts(value, true)
}

/// Splits a list of unit names into words: quotes group, a backslash is an ordinary character.
///
/// # Errors
/// Unbalanced quoting.
pub(crate) fn split_names(value: &str) -> Result<Vec<Word>, Unbalanced> {
    parts(value, false)
}

fn parts(value: &str, escapes: bool) -> Result<Vec<Word>, Unbalanced> {
    let mut words = Vec::new();
    let mut current: Option<Word> = None;
    let mut quote: Option<(char, usize)> = None;
    let mut rest = value.char_indices().peekable();
    while let Some((offset, c)) = rest.next() {
        if quote.is_none() && BLANKS.contains(&c) {
            words.extend(current.take());
            continue;
        }
        let word = current.get_or_insert(Word { text: String::new(), offset, quoted: false });
        match (c, quote) {
            ('\\', _) if escapes => {
                let behind = value.get(offset + 1..).unwrap_or_default();
                let Some(next) = behind.chars().next() else {
                    return Err(Unbalanced { offset });
                };
                word.quoted = true;
                match escape(behind) {
                    Some((character, length)) => {
                        word.text.push(character);
                        let end = offset + 1 + length;
                        while rest.peek().is_some_and(|(at, _)| *at < end) {
                            rest.next();
                        }
                    }
                    None => {
                        word.text.extend(['\\', next]);
                        rest.next();
                    }
                }
            }
            (c, Some((open, _))) if c == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some((c, offset));
                word.quoted = true;
            }
            (c, _) => word.text.push(c),
        }
    }
    words.extend(current);
    match quote {
        Some((_, offset)) => Err(Unbalanced { offset }),
        None => Ok(words),
    }
}

/// Returns the character of an escape, and the number of its bytes.
fn escape(text: &str) -> Option<(char, usize)> {
    let kind = text.chars().next()?;
    let numbered = |from: usize, digits: usize, radix: u32| {
        let digits = text.get(from..from + digits)?;
        let plain = digits.chars().all(|digit| digit.is_digit(radix));
        let number = if plain { u32::from_str_radix(digits, radix).ok()? } else { return None };
        let character = char::from_u32(number).filter(|_| number > 0)?;
        // A byte beyond ASCII would be part of a character.
        (from == 1 && digits.len() > 2 || number < 0x80).then_some((character, from + digits.len()))
    };
    match kind {
        'a' => Some(('\u{7}', 1)),
        'b' => Some(('\u{8}', 1)),
        'f' => Some(('\u{c}', 1)),
        'n' => Some(('\n', 1)),
        'r' => Some(('\r', 1)),
        't' => Some(('\t', 1)),
        'v' => Some(('\u{b}', 1)),
        's' => Some((' ', 1)),
        '\\' | '"' | '\'' => Some((kind, 1)),
        'x' => numbered(1, 2, 16),
        'u' => numbered(1, 4, 16),
        'U' => numbered(1, 8, 16),
        '0'..='7' => numbered(0, 3, 8),
        _ => None,
    }
}

/// Writes a word for a native exec line.
pub(crate) fn quote(word: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '\'' | '\\');
    // A single `;` would look like a separator to readers who know systemd's lines.
    if !word.is_empty() && word != ";" && word.chars().all(plain) {
        return word.to_string();
    }
    let simple = |c: char| c == ' ' || plain(c) || c == '"';
    if word.chars().all(simple) && word.contains('"') {
        return format!("'{word}'");
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() && u32::from(c) < 0x80 => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(value: &str) -> Vec<String> {
        split(value).unwrap().into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn quotes_group_words_and_escapes_work_inside_them() {
        assert_eq!(words("a  'b c' \"d\\\"e\" f'g h'i"), ["a", "b c", "d\"e", "fg hi"]);
        assert_eq!(words("'\\'\\n\\'' \\x41 \\101 \\u00e4 \\s"), ["'\n'", "A", "A", "ä", " "]);
        assert_eq!(words("'' x"), ["", "x"]);
        assert_eq!(words("'-p -- \\\\u'"), ["-p -- \\u"]);
    }

    #[test]
    fn backslashes_in_unit_names_are_kept() {
        let found = split_names(r#"a\x2db.mount 't@x\x2dy.service' \x41"#).unwrap();
        let texts: Vec<&str> = found.iter().map(|word| word.text.as_str()).collect();
        assert_eq!(texts, [r"a\x2db.mount", r"t@x\x2dy.service", r"\x41"]);
    }

    #[test]
    fn unknown_escape_stays_unchanged() {
        assert_eq!(words("\\d+ '\\.' \\xff \\xz"), ["\\d+", "\\.", "\\xff", "\\xz"]);
    }

    #[test]
    fn unclosed_quote_is_reported_with_its_offset() {
        assert_eq!(split("a 'b"), Err(Unbalanced { offset: 2 }));
        assert_eq!(split("a \\"), Err(Unbalanced { offset: 2 }));
    }

    #[test]
    fn words_have_the_offset_of_their_start() {
        let offsets: Vec<usize> = split(" a 'b' c").unwrap().iter().map(|w| w.offset).collect();
        assert_eq!(offsets, [1, 3, 7]);
    }

    proptest::proptest! {
        #[test]
        fn quoted_word_is_read_back_by_both_grammars(word in "[^\\x00$\\x7f-\\u{9f}]{0,20}") {
            let quoted = quote(&word);
            proptest::prop_assert_eq!(words(&quoted), std::slice::from_ref(&word));
            let (line, _) = crate::unit::exec_line::parse(&format!("/x {quoted}")).unwrap();
            let piece = crate::spec::Piece::Literal(word);
            proptest::prop_assert_eq!(&line.words[1], &vec![piece]);
        }

        #[test]
        fn any_text_is_split_without_a_panic(text in "([ab'\"\\\\ ]|\\\\x|\\\\u|[0-7]|ä|.){0,40}") {
            let _ = split(&text);
        }
    }
}

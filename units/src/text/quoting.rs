//! Words in quotes.

/// Splits text into words at blanks. Quotes hold a word together and are removed; an open quote
/// extends to the end.
pub(crate) fn words(text: &str, is_blank: fn(&char) -> bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if matches!(c, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if is_blank(&c) => words.extend(word.take()),
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

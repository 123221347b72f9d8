//! Guesses the known name for a misspelled one. Names of one or two letters are never guessed.

use groundstate_units::text::name::slips;

/// Returns the most likely candidate for `text`.
pub(crate) fn nearest<'a>(text: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = slips(text.chars().count());
    among
        .filter(|candidate| !candidate.starts_with("__"))
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(text, candidate);
            // Among equally near ones, prefers the same length: letters are swapped more often than
            // lost.
            (distance, candidate.len().abs_diff(text.len()), candidate)
        })
        .filter(|(distance, _, _)| *distance <= allowed)
        .min()
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_one_or_two_letters_gets_no_suggestion() {
        let known = || ["a", "b", "db", "web", "imapd"].into_iter();
        assert_eq!([nearest("x", known()), nearest("dx", known())], [None, None]);
        assert_eq!(nearest("wbe", known()), Some("web"));
        assert_eq!(nearest("imap", known()), Some("imapd"));
    }
}

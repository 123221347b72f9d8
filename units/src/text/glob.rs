//! Name patterns as in glob(7): `*`, `?`, `[a-z]`, `[!a-z]`, and `\` as escape. A name may be of
//! any length. Callers that read directories match a path part by part.

/// Matches a file name: a leading dot must be matched explicitly.
pub fn matches_file(pattern: &str, name: &str) -> bool {
    let hidden = name.starts_with('.');
    (!hidden || pattern.starts_with('.') || pattern.starts_with("\\.")) && matches(pattern, name)
}

/// Matches the whole text. The cost is at most the product of both lengths.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut from) = (0, 0);
    // Where to continue if the part after the last star does not match.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() || at < pattern.len() {
        let one = name.get(from).copied();
        match (pattern.get(at), one) {
            (Some('*'), _) => {
                star = Some((at, from + 1));
                at += 1;
                continue;
            }
            (Some(_), Some(one)) => {
                if let Some(length) = fits(pattern.get(at..).unwrap_or_default(), one) {
                    at += length;
                    from += 1;
                    continue;
                }
            }
            (Some(_) | None, None) | (None, Some(_)) => {}
        }
        match star {
            Some((back, next)) if next <= name.len() => {
                star = Some((back, next + 1));
                (at, from) = (back + 1, next);
            }
            _ => return false,
        }
    }
    true
}

/// Returns the length of the pattern part that matches this one character, if it does.
fn fits(pattern: &[char], one: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', meant, ..] => (*meant == one).then_some(2),
        ['[', rest @ ..] => match set(rest, one) {
            Some((fits, length)) => fits.then_some(length + 1),
            // An unclosed bracket is a literal.
            None => (one == '[').then_some(1),
        },
        [meant, ..] => (*meant == one).then_some(1),
        [] => None,
    }
}

/// Returns whether `[…]` contains the character, and its length after the bracket.
fn set(pattern: &[char], one: char) -> Option<(bool, usize)> {
    let not = matches!(pattern.first(), Some('!' | '^'));
    let mut at = usize::from(not);
    let first = at;
    let mut found = false;
    loop {
        match pattern.get(at..)? {
            [']', ..] if at > first => return Some((found != not, at + 1)),
            [from, '-', to, ..] if *to != ']' => {
                found |= (*from..=*to).contains(&one);
                at += 3;
            }
            [meant, ..] => {
                found |= *meant == one;
                at += 1;
            }
            [] => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_the_shell() {
        for (pattern, name, expected) in [
            ("*", "abc", true),
            ("*", "", true),
            ("*", ".abc", true),
            ("*******b", "aaaaaaaaaaaaaaaaaaaaaaaa", false),
            ("*.job", "a.job", true),
            ("*.job", "a.job.x", false),
            ("a*b*c", "axxbxxbxc", true),
            ("a*b*c", "axxbxx", false),
            ("?b", "ab", true),
            ("?b", "b", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("plain", "plain", true),
            ("**a", "bca", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn hidden_file_is_matched_only_by_an_explicit_dot() {
        for (pattern, name, expected) in
            [("*", ".abc", false), (".*", ".abc", true), ("\\.*", ".abc", true), ("*", "abc", true)]
        {
            assert_eq!(matches_file(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest::proptest! {
        #[test]
        fn matching_of_any_pattern_terminates(pattern in "[*?\\[\\]a!-]{0,24}", name in "[ab.]{0,64}") {
            let _ = matches(&pattern, &name);
        }
    }
}

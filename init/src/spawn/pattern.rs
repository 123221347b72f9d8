//! Patterns of names: `*`, `?` and `[…]`, as glob(7) has them; a leading dot is matched by a
//! dot alone. Linear in memory and quadratic in time at most.

use std::path::Path;

/// The whole text matches.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when a longer run for the last `*` is to be tried.
    let mut retry = None;
    loop {
        let step = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some('*'), _) => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            (Some(_), Some(c)) => one(&pattern, p, *c),
            _ => None,
        };
        match (step, retry) {
            (Some(next), _) => (p, t) = (next, t + 1),
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Where the pattern goes on after the character, if it takes it.
fn one(pattern: &[char], at: usize, character: char) -> Option<usize> {
    match pattern.get(at)? {
        '?' => Some(at + 1),
        '\\' => (pattern.get(at + 1) == Some(&character)).then_some(at + 2),
        '[' => match set(pattern, at + 1, character) {
            Some((end, within)) => within.then_some(end),
            // Never closed: a bracket like any other character.
            None => (character == '[').then_some(at + 1),
        },
        own => (*own == character).then_some(at + 1),
    }
}

/// Behind a `[`: where the set ends, and whether the character is in it.
fn set(pattern: &[char], mut at: usize, character: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(at), Some('!' | '^'));
    at += usize::from(negated);
    let (first, mut within) = (at, false);
    loop {
        let low = *pattern.get(at)?;
        if low == ']' && at > first {
            return Some((at + 1, within != negated));
        }
        match (pattern.get(at + 1), pattern.get(at + 2)) {
            (Some('-'), Some(high)) if *high != ']' => {
                within |= (low..=*high).contains(&character);
                at += 3;
            }
            _ => {
                within |= low == character;
                at += 1;
            }
        }
    }
}

/// Some path matches, name by name from the root.
pub(super) fn finds(pattern: &str) -> bool {
    let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let mut found = vec![std::path::PathBuf::from("/")];
    for name in names {
        if !name.contains(['*', '?', '[', '\\']) {
            found.iter_mut().for_each(|path| path.push(name));
            found.retain(|path| path.symlink_metadata().is_ok());
            continue;
        }
        found = found.iter().flat_map(|path| below(path, name)).take(MOST).collect();
    }
    !found.is_empty()
}

/// Paths followed at one time.
const MOST: usize = 4096;

fn below(path: &Path, pattern: &str) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let fits =
        |name: &str| (!name.starts_with('.') || pattern.starts_with('.')) && matches(pattern, name);
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("a*b*c", "aXbXbXc", true),
            ("?b", "ab", true),
            ("?b", "b", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("web-*", "web-1", true),
            ("*******b", "aaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn paths_are_found_name_by_name() {
        assert!(finds("/proc/self/stat*"));
        assert!(finds("/pro[c]/self/status"));
        assert!(!finds("/proc/self/status/*"));
        assert!(!finds("/no/such/*"));
    }

    #[test]
    fn any_pattern_ends() {
        let letters = ['*', '?', '[', ']', '!', '-', '\\', 'a'];
        for number in 0..letters.len().pow(5) {
            let pick = |place: u32| letters[number / letters.len().pow(place) % letters.len()];
            let pattern: String = (0..5).map(pick).collect();
            matches(&pattern, "a-]a");
        }
    }
}

//! Comparisons such as `>= 5.10`, as conditions write them.

use crate::text::{glob, quoting};
use std::cmp::Ordering;

/// The operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `=`
    Equal,
    /// `!=`
    Other,
    /// `>=`
    AtLeast,
    /// `>`
    More,
}

impl Comparison {
    /// Splits a leading operator from the rest of a text.
    pub fn parse(text: &str) -> (Option<Comparison>, &str) {
        let operators = [
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("!=", Comparison::Other),
            ("<>", Comparison::Other),
            ("==", Comparison::Equal),
            ("<", Comparison::Less),
            (">", Comparison::More),
            ("=", Comparison::Equal),
        ];
        for (word, comparison) in operators {
            if let Some(rest) = text.strip_prefix(word) {
                return (Some(comparison), rest.trim());
            }
        }
        (None, text.trim())
    }

    /// Returns true if the operator accepts this ordering of its sides.
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Less => order.is_lt(),
            Comparison::AtMost => order.is_le(),
            Comparison::Equal => order.is_eq(),
            Comparison::Other => order.is_ne(),
            Comparison::AtLeast => order.is_ge(),
            Comparison::More => order.is_gt(),
        }
    }
}

/// Returns true if a kernel release matches each expression of a list, as in
/// `ConditionKernelVersion=`: systemd.unit(5).
pub fn release_fits(list: &str, release: &str) -> bool {
    const ONLY: [&str; 10] = ["!$=", "$=", "<=", ">=", "!=", "<>", "==", "<", ">", "="];
    let mut words = quoting::words(list, |c| c.is_whitespace()).into_iter();
    while let Some(word) = words.next() {
        // The operator may be a word of its own.
        let expression = if ONLY.contains(&word.as_str()) {
            word + &words.next().unwrap_or_default()
        } else {
            word
        };
        if !fits(expression.trim(), release) {
            return false;
        }
    }
    true
}

fn fits(expression: &str, release: &str) -> bool {
    if let Some(pattern) = expression.strip_prefix("!$=") {
        return !glob::matches(pattern.trim(), release);
    }
    if let Some(pattern) = expression.strip_prefix("$=") {
        return glob::matches(pattern.trim(), release);
    }
    let is_text = |rest: &str| !rest.starts_with('=');
    if let Some(text) = expression.strip_prefix('=').filter(|rest| is_text(rest)) {
        return text.trim() == release;
    }
    if let Some(text) = expression.strip_prefix("!=") {
        return text.trim() != release;
    }
    match Comparison::parse(expression) {
        (Some(comparison), version) => comparison.holds(compare_versions(release, version)),
        (None, pattern) => glob::matches(pattern, release),
    }
}

/// Compares releases, such as `6.1.0-18-amd64` with `5.10`: numbers by value, the rest by letters.
/// A prefix is less than the longer release.
pub fn compare_versions(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (parts(left), parts(right));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => match (number(a), number(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                (Some(_), None) => Ordering::Greater,
                (None, Some(_)) => Ordering::Less,
                (None, None) => a.cmp(b),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn number(part: &str) -> Option<(usize, &str)> {
    let plain = part.starts_with(|c: char| c.is_ascii_digit());
    let digits = part.trim_start_matches('0');
    // A longer number is greater; digits decide at equal length. This works for numbers of any
    // length.
    plain.then_some((digits.len(), digits))
}

/// Splits into digits and letters; other characters only separate.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let first = rest.chars().next()?;
        let same =
            |c: char| c.is_ascii_alphanumeric() && c.is_ascii_digit() == first.is_ascii_digit();
        let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at_checked(end)?;
        rest = behind;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_matches_a_list_if_it_matches_each_expression() {
        let release = "6.1.0-18-amd64";
        for (list, expected) in [
            (">=5.10", true),
            (">= 5.10", true),
            ("< 5.10", false),
            (">=5.10 <6.2", true),
            (">=5.10 <6.1", false),
            ("\">= 5.10\" '< 6.2'", true),
            ("6.1.*", true),
            ("$=6.1.*", true),
            ("$= 5.*", false),
            ("!$=5.*", true),
            ("!$=6.*", false),
            ("6.* !$=*-arm64", true),
            ("=6.1.0-18-amd64", true),
            ("= 6.1.0", false),
            ("!=6.1.0", true),
            ("!=6.1.0-18-amd64", false),
            ("==6.1.0-18-amd64", true),
            ("<>6.1", true),
        ] {
            assert_eq!(release_fits(list, release), expected, "{list}");
        }
    }

    #[test]
    fn longest_operator_is_parsed_first() {
        assert_eq!(Comparison::parse(">= 2"), (Some(Comparison::AtLeast), "2"));
        assert_eq!(Comparison::parse("<3"), (Some(Comparison::Less), "3"));
        assert_eq!(Comparison::parse("4"), (None, "4"));
    }

    #[test]
    fn releases_are_compared_numerically() {
        for (left, order, right) in [
            ("6.1.0-18-amd64", Ordering::Greater, "5.10"),
            ("5.9", Ordering::Less, "5.10"),
            ("5.10", Ordering::Equal, "5.10"),
            ("5.010", Ordering::Equal, "5.10"),
            ("5.10.1", Ordering::Greater, "5.10"),
            ("5.10-rc1", Ordering::Greater, "5.10"),
            ("18446744073709551617", Ordering::Greater, "2"),
            ("", Ordering::Less, "1"),
        ] {
            assert_eq!(compare_versions(left, right), order, "{left} {right}");
        }
    }

    proptest::proptest! {
        #[test]
        fn comparison_of_any_two_texts_is_antisymmetric(a: String, b: String) {
            proptest::prop_assert_eq!(compare_versions(&a, &b), compare_versions(&b, &a).reverse());
        }
    }
}

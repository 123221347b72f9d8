//! A password or token. It is never printed, not even in a debug dump of the configuration.

use std::fmt;

/// A password or token.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(word: impl Into<String>) -> Secret {
        Secret(word.into())
    }

    /// Returns the secret for authentication.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_is_not_shown_by_debug_output() {
        let all = Some(("root".to_string(), Secret::new("canary")));
        assert_eq!(format!("{all:?}"), r#"Some(("root", (secret)))"#);
        assert_eq!(all.map(|(_, word)| word.reveal().to_string()), Some("canary".to_string()));
    }
}

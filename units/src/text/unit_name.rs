//! Names of systemd units: `prefix@instance.suffix`, and the escaping of paths in names
//! (systemd.unit(5), "STRING ESCAPING"; systemd-escape(1)).

use super::words::words;
use std::fmt;

words! {
    /// The kind of unit, from the suffix of a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Suffix {
        /// A service.
        Service = "service",
        /// A socket.
        Socket = "socket",
        /// A timer.
        Timer = "timer",
        /// A path.
        Path = "path",
        /// A target.
        Target = "target",
        /// A mount.
        Mount = "mount",
        /// An automount.
        Automount = "automount",
        /// Swap space.
        Swap = "swap",
        /// A device.
        Device = "device",
        /// A scope: processes started by another program.
        Scope = "scope",
        /// A slice: a branch of the cgroup tree.
        Slice = "slice",
    }
}

impl Suffix {
    /// Returns the suffix of a name that has one.
    pub fn of(name: &str) -> Option<Suffix> {
        let (stem, word) = name.rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        Suffix::ALL.into_iter().find(|suffix| suffix.as_str() == word)
    }
}

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitName {
    /// The part before the `@`, or before the suffix.
    pub prefix: String,
    /// The part between `@` and suffix: empty for a template, `None` for a name that is neither
    /// template nor instance.
    pub instance: Option<String>,
    /// The suffix; `None` for a native name without one.
    pub suffix: Option<Suffix>,
}

impl UnitName {
    /// Parses a name; any text is valid.
    pub fn of(name: &str) -> UnitName {
        let suffix = Suffix::of(name);
        let stem = match suffix {
            Some(_) => name.rsplit_once('.').map_or(name, |(stem, _)| stem),
            None => name,
        };
        match stem.split_once('@') {
            Some((prefix, instance)) => UnitName {
                prefix: prefix.to_string(),
                instance: Some(instance.to_string()),
                suffix,
            },
            None => UnitName { prefix: stem.to_string(), instance: None, suffix },
        }
    }

    /// Returns true for a template: `name@` or `name@.suffix`.
    pub fn is_template(&self) -> bool {
        self.instance.as_deref() == Some("") && !self.prefix.is_empty()
    }

    /// Returns true for an instance.
    pub fn is_instance(&self) -> bool {
        self.instance.as_deref().is_some_and(|instance| !instance.is_empty())
            && !self.prefix.is_empty()
    }

    /// Returns the template of an instance.
    pub fn template(&self) -> Option<UnitName> {
        self.is_instance().then(|| self.with_instance(""))
    }

    /// Returns the name with another instance.
    pub fn with_instance(&self, instance: &str) -> UnitName {
        UnitName { instance: Some(instance.to_string()), ..self.clone() }
    }

    /// Returns the name with another suffix.
    pub fn with_suffix(&self, suffix: Suffix) -> UnitName {
        UnitName { suffix: Some(suffix), ..self.clone() }
    }

    /// Returns the names whose `NAME.d` directories hold drop-ins of this unit, in order of
    /// precedence: the unit itself, its template, and each prefix that ends in a dash. The list
    /// lacks directories for all units of a type, such as `service.d`.
    pub fn drop_in_names(&self) -> Vec<String> {
        let dashes: Vec<usize> =
            self.prefix.trim_end_matches('-').match_indices('-').map(|(at, _)| at + 1).collect();
        let chopped: Vec<&str> =
            dashes.iter().rev().filter_map(|end| self.prefix.get(..*end)).collect();
        let named = |prefix: &str, instance: Option<&str>| {
            let (prefix, instance) = (prefix.to_string(), instance.map(str::to_string));
            UnitName { prefix, instance, suffix: self.suffix }.to_string()
        };
        let mut names = vec![self.to_string()];
        names.extend(self.template().map(|template| template.to_string()));
        names.extend(chopped.iter().map(|prefix| named(prefix, None)));
        if self.is_instance() {
            for prefix in chopped {
                names.push(named(prefix, self.instance.as_deref()));
                names.push(named(prefix, Some("")));
            }
        }
        names
    }

    /// Returns the name without suffix.
    pub fn stem(&self) -> String {
        UnitName { suffix: None, ..self.clone() }.to_string()
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        if let Some(instance) = &self.instance {
            write!(f, "@{instance}")?;
        }
        match self.suffix {
            Some(suffix) => write!(f, ".{}", suffix.as_str()),
            None => Ok(()),
        }
    }
}

/// Returns the instance whose own directory holds this drop-in: `t@i.service` of
/// `/etc/t@i.service.d/x.conf`.
pub fn instance_of_drop_in(path: &str) -> Option<&str> {
    let (directory, _) = path.rsplit_once('/')?;
    let owner = directory.rsplit('/').next()?.strip_suffix(".d")?;
    UnitName::of(owner).is_instance().then_some(owner)
}

/// Removes the escaping: `-` is `/`, `\xNN` a byte. Returns `None` for an invalid escape.
pub fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'-' => bytes.push(b'/'),
            b'\\' => {
                let digits = [rest.next()?, rest.next()?, rest.next()?];
                let [b'x', high, low] = digits else { return None };
                let digit = |byte: u8| char::from(byte).to_digit(16);
                bytes.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Returns the path of an escaped name: `dev-ttyS0` is `/dev/ttyS0`, `-` is `/`.
pub fn unescape_path(text: &str) -> Option<String> {
    if text == "-" {
        return Some("/".to_string());
    }
    let path = unescape(text)?;
    Some(if path.starts_with('/') { path } else { format!("/{path}") })
}

/// Escapes a text: `/` becomes `-`; all but letters, digits, `:`, `_`, `.` (not in front)
/// become `\xNN`.
pub fn escape(text: &str) -> String {
    use std::fmt::Write;
    let mut escaped = String::new();
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'/' => escaped.push('-'),
            b'.' if index == 0 => escaped.push_str("\\x2e"),
            b if b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.') => {
                escaped.push(char::from(b));
            }
            // Writing to a String cannot fail.
            b => drop(write!(escaped, "\\x{b:02x}")),
        }
    }
    escaped
}

/// Escapes a path: slashes at both ends are removed, and `/` itself becomes `-`.
pub fn escape_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "-".to_string() } else { escape(&parts.join("/")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_unit_name_is_printed_back_unchanged() {
        for name in ["a.service", "a@.service", "a@b.c.socket", "x@", "plain", "a@b@c.timer"] {
            assert_eq!(UnitName::of(name).to_string(), name);
        }
        let name = UnitName::of("getty@tty1.service");
        assert_eq!((name.prefix.as_str(), name.instance.as_deref()), ("getty", Some("tty1")));
        assert_eq!(name.template().unwrap().to_string(), "getty@.service");
        assert_eq!((name.stem().as_str(), name.is_template()), ("getty@tty1", false));
        assert!(UnitName::of("getty@").is_template() && UnitName::of("a@.mount").is_template());
        assert_eq!(UnitName::of("a.b").suffix, None);
        assert!(!UnitName::of("@x.service").is_instance());
    }

    // Expected values: the order in which systemd 252 reads such directories.
    #[test]
    fn drop_in_directories_are_listed_from_specific_to_general() {
        let names = |name: &str| UnitName::of(name).drop_in_names().join(" ");
        let expected = "a-b-c@i.service a-b-c@.service a-b-.service a-.service a-b-@i.service \
                        a-b-@.service a-@i.service a-@.service";
        assert_eq!(names("a-b-c@i.service"), expected);
        assert_eq!(names("a-b-c@.service"), "a-b-c@.service a-b-.service a-.service");
        assert_eq!(names("a-b.socket"), "a-b.socket a-.socket");
        assert_eq!(names("a.socket"), "a.socket");
        assert_eq!(names("a-b-.socket"), "a-b-.socket a-.socket");
    }

    // Expected values: systemd-escape 252, with and without --path.
    #[test]
    fn paths_are_escaped_as_in_systemd() {
        for (path, name) in [
            ("/dev/ttyS0", "dev-ttyS0"),
            ("/", "-"),
            ("/mnt/my data/", "mnt-my\\x20data"),
            ("/a-b/.c", "a\\x2db-.c"),
            ("/.hidden", "\\x2ehidden"),
            ("/ä", "\\xc3\\xa4"),
        ] {
            assert_eq!(escape_path(path), name);
            let tidy = path.trim_end_matches('/');
            assert_eq!(unescape_path(name).unwrap(), if tidy.is_empty() { "/" } else { tidy });
        }
        assert_eq!(escape("a b/c"), "a\\x20b-c");
        assert_eq!(unescape("a\\x2db-c").as_deref(), Some("a-b/c"));
        for bad in ["\\", "\\x", "\\x2", "\\y20", "\\xzz", "\\xff"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn escaped_text_is_unescaped_to_the_original(text in "\\PC*") {
            proptest::prop_assert_eq!(unescape(&escape(&text)), Some(text));
        }
    }
}

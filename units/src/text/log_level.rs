//! Levels and facilities of syslog(3), by their names and numbers.

/// The levels, 0 to 7.
pub const LEVELS: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];
/// The named facilities: 0 to 11, then 16 to 23.
pub const FACILITIES: [&str; 20] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];
/// The facility of services (daemon).
pub const DAEMON: u8 = 3;
/// The default level of a line.
pub const INFO: u8 = 6;
/// The level of the logger's notes.
pub const NOTICE: u8 = 5;
/// The number of facilities without a name, between `ftp` and `local0`.
const UNNAMED: u8 = 4;

/// Returns the number of a level, given by name or number.
pub fn level(text: &str) -> Option<u8> {
    number(&LEVELS, text)
}

/// Returns the number of the facility at this index of [`FACILITIES`].
pub fn facility_at(index: usize) -> Option<u8> {
    let number = u8::try_from(index).ok()?;
    Some(if number < 12 { number } else { number.saturating_add(UNNAMED) })
}

/// Returns the name of a facility, given by name or number.
pub fn facility(text: &str) -> Option<&'static str> {
    let is_it = |(index, name): &(usize, &&'static str)| {
        **name == text || facility_at(*index).is_some_and(|number| text == number.to_string())
    };
    FACILITIES.iter().enumerate().find(is_it).map(|(_, name)| *name)
}

fn number(names: &[&str], text: &str) -> Option<u8> {
    let found =
        names.iter().enumerate().find(|(index, name)| **name == text || text == index.to_string());
    found.and_then(|(index, _)| u8::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_facilities_are_parsed_by_name_and_number() {
        for (text, want) in [("emerg", Some(0)), ("err", Some(3)), ("7", Some(7)), ("8", None)] {
            assert_eq!(level(text), want, "{text}");
        }
        assert_eq!((facility("daemon"), facility("23")), (Some("daemon"), Some("local7")));
        assert_eq!((facility("12"), facility("none")), (None, None));
        assert_eq!(facility_at(12), Some(16));
    }
}

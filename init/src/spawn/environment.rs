//! The environment of a child. Later wins: PATH's default · what init passes on of its own ·
//! who the user is · init.yaml's `env` · the unit's `env` · its env-files · what init itself says.

use groundstate_units::spec::Ids;
use std::collections::BTreeMap;

/// Where programs are looked for when nothing else says so.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Never passed on from init's own environment: they speak of init's own process.
const OWN: [&str; 7] = [
    "INVOCATION_ID",
    "NOTIFY_SOCKET",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "LISTEN_PID",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
];

/// What of init's own environment every unit gets. Made once per generation, not per spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed(Vec<(String, String)>);

impl Passed {
    /// `names` are those of `env-pass`; `*` means all. Variables that are no UTF-8 are left out.
    pub(crate) fn new(
        names: &[String],
        own: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    ) -> Passed {
        let all = names.iter().any(|name| name == "*");
        let text = own.filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
        Passed(
            text.filter(|(name, _)| all || names.contains(name))
                .filter(|(name, _)| !OWN.contains(&name.as_str()))
                .collect(),
        )
    }
}

/// Names and values, sorted by name, no name twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The default PATH, what is passed on, and who the user is.
    pub(super) fn new(passed: &Passed, ids: Option<&Ids>) -> Environment {
        let mut env = Environment::default();
        env.set("PATH", PATH);
        env.extend(&passed.0);
        if let Some(ids) = ids {
            if let Some(user) = &ids.user {
                env.set("USER", user);
                env.set("LOGNAME", user);
            }
            if let Some(home) = &ids.home {
                env.set("HOME", home);
            }
            if let Some(shell) = &ids.shell {
                env.set("SHELL", shell);
            }
        }
        env
    }

    /// More of init's own.
    pub(super) fn pass(&mut self, passed: &Passed) {
        self.extend(&passed.0);
    }

    /// Takes `NAME` away, or `NAME=value` where it is that value.
    pub(super) fn unset(&mut self, text: &str) {
        match text.split_once('=') {
            None => {
                self.0.remove(text);
            }
            Some((name, value)) => {
                if self.get(name) == Some(value) {
                    self.0.remove(name);
                }
            }
        }
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_string(), value.to_string());
    }

    pub(super) fn extend(&mut self, pairs: &[(String, String)]) {
        for (name, value) in pairs {
            self.set(name, value);
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)> {
        [("SECRET", "s"), ("TZ", "UTC"), ("NOTIFY_SOCKET", "/x"), ("HOME", "/root")]
            .into_iter()
            .map(|(n, v)| (n.into(), v.into()))
    }

    #[test]
    fn nothing_of_inits_own_is_passed_unless_named() {
        assert_eq!(Passed::new(&[], own()), Passed(vec![]));
        let named = Passed::new(&["TZ".to_string(), "NOTIFY_SOCKET".to_string()], own());
        assert_eq!(named.0, [("TZ".to_string(), "UTC".to_string())]);
        assert_eq!(Passed::new(&["*".to_string()], own()).0.len(), 3);
    }

    #[test]
    fn the_user_hides_what_was_passed_on() {
        let ids = Ids {
            uid: Some(33),
            gid: Some(33),
            groups: None,
            user: Some("www".to_string()),
            home: Some("/var/www".to_string()),
            shell: None,
        };
        let env = Environment::new(&Passed::new(&["*".to_string()], own()), Some(&ids));
        assert_eq!(env.get("HOME"), Some("/var/www"));
        assert_eq!(env.get("LOGNAME"), Some("www"));
        assert_eq!(env.get("PATH"), Some(PATH));
        assert_eq!(env.get("SHELL"), None);
    }
}

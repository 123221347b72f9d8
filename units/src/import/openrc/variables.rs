//! The known values of shell variables, and the limit of expanded text: a variable that is doubled
//! repeatedly would fill the memory.

use crate::limit;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The reason why a value is unknown, in words that follow a colon.
pub(super) type Why = Cow<'static, str>;

/// The known value of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// The value.
    Set(String),
    /// The variable is unset.
    Unset,
    /// The value is unknown.
    Unknown(Why),
}

/// All variables.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Value>,
    /// Variables that openrc-run sets.
    given: BTreeMap<&'static str, String>,
    /// Values known before [`Variables::forget`].
    before: BTreeMap<String, Value>,
    /// The reason why all others are unknown.
    blind: Option<Why>,
    /// Number of bytes expanded.
    spent: usize,
}

impl Variables {
    /// Creates the variables of a service with that name and script.
    pub(super) fn of(name: &str, file: &str) -> Variables {
        let given = [("RC_SVCNAME", name), ("SVCNAME", name), ("RC_SERVICE", file)];
        let given = given.map(|(variable, value)| (variable, value.to_string()));
        Variables { given: given.into(), ..Variables::default() }
    }

    /// Returns the known value of a variable.
    pub(super) fn get(&self, name: &str) -> Value {
        if let Some(value) = self.given.get(name) {
            return Value::Set(value.clone());
        }
        match (self.values.get(name), &self.blind) {
            (Some(value), _) => value.clone(),
            (None, Some(why)) => Value::Unknown(why.clone()),
            (None, None) if is_from_outside(name) => {
                Value::Unknown(format!("${name} is set outside of the script").into())
            }
            (None, None) => Value::Unset,
        }
    }

    /// Returns the last assigned value, even if it may have changed since.
    pub(super) fn last_assigned(&self, name: &str) -> Option<String> {
        match self.values.get(name).or_else(|| self.before.get(name)) {
            Some(Value::Set(value)) => Some(value.clone()),
            Some(Value::Unset | Value::Unknown(_)) | None => None,
        }
    }

    /// Sets a value.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_string(), value);
    }

    /// Marks all variables as unknown.
    pub(super) fn forget(&mut self, why: Why) {
        self.before.append(&mut self.values);
        self.blind = Some(why);
    }

    /// Counts expanded bytes.
    ///
    /// # Errors
    /// The limit is exceeded.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Why> {
        self.spent = self.spent.saturating_add(bytes);
        match self.spent <= limit::SCRIPT_EXPANSION {
            true => Ok(()),
            false => Err("the values of its variables exceed the size limit".into()),
        }
    }
}

/// Returns true for variables of openrc-run, rc.conf or the environment, none of which is read.
fn is_from_outside(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "HOME",
        "HOSTNAME",
        "IFS",
        "IN_BACKGROUND",
        "IN_HOTPLUG",
        "LANG",
        "LOGNAME",
        "PATH",
        "PPID",
        "PWD",
        "SHELL",
        "TERM",
        "UID",
        "USER",
    ];
    NAMES.contains(&name) || ["RC_", "EINFO_", "LC_"].iter().any(|start| name.starts_with(start))
}

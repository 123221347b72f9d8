//! What the shell's variables hold as far as it can be told, and how much of them has been filled
//! in: one that is doubled again and again would fill the memory.

use crate::limit;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Why something can not be told, in words that stand behind a colon.
pub(super) type Why = Cow<'static, str>;

/// What is known of one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Its value.
    Set(String),
    /// Nobody has set it.
    Unset,
    /// It can not be told.
    Unknown(Why),
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Variables {
    values: BTreeMap<String, Value>,
    /// What openrc-run itself sets.
    given: BTreeMap<&'static str, String>,
    /// What was known before [`Variables::forget`].
    before: BTreeMap<String, Value>,
    /// Why nothing is known of all others.
    blind: Option<Why>,
    /// Bytes filled in.
    spent: usize,
}

impl Variables {
    /// Those of a service of that name, whose script is that file.
    pub(super) fn of(name: &str, file: &str) -> Variables {
        let given = [("RC_SVCNAME", name), ("SVCNAME", name), ("RC_SERVICE", file)];
        let given = given.map(|(variable, value)| (variable, value.to_string()));
        Variables { given: given.into(), ..Variables::default() }
    }

    /// What is known of one.
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

    /// What it was last said to be, whatever may have become of it since.
    pub(super) fn said(&self, name: &str) -> Option<String> {
        match self.values.get(name).or_else(|| self.before.get(name)) {
            Some(Value::Set(value)) => Some(value.clone()),
            Some(Value::Unset | Value::Unknown(_)) | None => None,
        }
    }

    /// From here on it holds this.
    pub(super) fn set(&mut self, name: &str, value: Value) {
        self.values.insert(name.to_string(), value);
    }

    /// From here on each may hold anything.
    pub(super) fn forget(&mut self, why: Why) {
        self.before.append(&mut self.values);
        self.blind = Some(why);
    }

    /// So many bytes more are filled in.
    ///
    /// # Errors
    /// These are too many.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<(), Why> {
        self.spent = self.spent.saturating_add(bytes);
        match self.spent <= limit::SCRIPT_EXPANSION {
            true => Ok(()),
            false => Err("its variables come to more than is filled in".into()),
        }
    }
}

/// Set by openrc-run, rc.conf or the environment, none of which is read.
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

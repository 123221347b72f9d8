//! Reactions to keys of the keyboard and to the power key. `init.yaml` sets them;
//! [`crate::unit::settings_file`] has the texts of these settings. PID 1 gets a signal for each
//! key, and init maps the signal to the key.

use crate::text::name::Name;
use serde::{Deserialize, Serialize};

/// The kind of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shutdown {
    /// Power off.
    Poweroff,
    /// Reboot.
    Reboot,
    /// Halt.
    Halt,
    /// Exit with this status.
    Exit(u8),
}

/// The reaction to one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Ignore the key.
    Nothing,
    /// Shut down.
    End(Shutdown),
    /// Set this goal, like `initctl set-target`.
    Goal(Name),
}

/// The values that are no targets, with their reactions.
const WORDS: [(&str, Reaction); 4] = [
    ("reboot", Reaction::End(Shutdown::Reboot)),
    ("poweroff", Reaction::End(Shutdown::Poweroff)),
    ("halt", Reaction::End(Shutdown::Halt)),
    ("none", Reaction::Nothing),
];

impl From<Name> for Reaction {
    fn from(name: Name) -> Reaction {
        let word = WORDS.into_iter().find(|(word, _)| *word == name.as_str());
        word.map_or(Reaction::Goal(name), |(_, reaction)| reaction)
    }
}

/// The reactions to all keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reactions {
    /// Ctrl-Alt-Del.
    pub ctrl_alt_del: Reaction,
    /// The power key, or a failing power supply.
    pub power_key: Reaction,
    /// Alt-Up at a console, the keyboard request.
    pub keyboard_request: Reaction,
}

impl Default for Reactions {
    fn default() -> Reactions {
        Reactions {
            ctrl_alt_del: Reaction::End(Shutdown::Reboot),
            power_key: Reaction::End(Shutdown::Poweroff),
            keyboard_request: Reaction::Nothing,
        }
    }
}

impl Reactions {
    /// Returns the named targets with their settings.
    pub fn goals(&self) -> impl Iterator<Item = (&'static str, &Name)> {
        let all = [
            ("ctrl-alt-del", &self.ctrl_alt_del),
            ("power-key", &self.power_key),
            ("keyboard-request", &self.keyboard_request),
        ];
        all.into_iter().filter_map(|(setting, reaction)| match reaction {
            Reaction::Goal(name) => Some((setting, name)),
            Reaction::Nothing | Reaction::End(_) => None,
        })
    }
}

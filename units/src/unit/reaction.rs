//! What a machine does when somebody presses one of the keys that reach PID 1: settings of
//! `init.yaml` (their texts are in [`crate::unit::settings_file`]). Which signal is which key is init's.

use crate::text::name::Name;
use serde::{Deserialize, Serialize};

/// How everything ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shutdown {
    /// Switch the machine off.
    Poweroff,
    /// Start it anew.
    Reboot,
    /// Stop it.
    Halt,
    /// End init with this status.
    Exit(u8),
}

/// What one key does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reaction {
    /// Nothing.
    Nothing,
    /// It ends the machine.
    End(Shutdown),
    /// This becomes the goal, as by `initctl set-target`.
    Goal(Name),
}

/// The words that are no targets, and what they mean.
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

/// What each key does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reactions {
    /// Ctrl-Alt-Del.
    pub ctrl_alt_del: Reaction,
    /// The power key, or a supply that fails.
    pub power_key: Reaction,
    /// Alt-Up at a console, the key that asks for somebody to speak to.
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
    /// The targets that are named, with the setting that names each.
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

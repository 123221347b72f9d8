//! The interpreted settings of `init.yaml`. The loader parses the file and hands the settings to
//! PID 1 in the generation; PID 1 never reads the file.

use crate::spec::Restart;
use crate::text::name::Name;
use crate::unit::reaction::Reactions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The form in which the logger copies lines to init's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Echo {
    /// `TARGET | line`.
    Yes,
    /// No copy.
    No,
    /// The line only.
    Raw,
}

/// The settings, with the defaults of unit keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// The default goal.
    pub default_target: Name,
    /// The goal of a boot if the goal's provider is missing, masked or broken.
    pub emergency_target: Name,
    /// Limit of concurrent starts; 0 for no limit.
    pub max_starting: u32,
    /// Default of the key.
    pub start_timeout: Option<Duration>,
    /// Default of the key.
    pub stop_timeout: Option<Duration>,
    /// Default of the key for the types whose own default is not never; `None` means on-failure.
    pub restart: Option<Restart>,
    /// Default of the key.
    pub restart_delay: Duration,
    /// Default of the key.
    pub restart_delay_max: Duration,
    /// Default of the key.
    pub restart_reset: Duration,
    /// Default of the key.
    pub failure_verdict: u32,
    /// Time from a shutdown request to the kill of remaining processes; `None` for 90 s on a
    /// machine and 9 s in a container.
    pub shutdown_deadline: Option<Duration>,
    /// The hardware watchdog reboots the machine if init is stuck for this time; `None` leaves it
    /// alone.
    pub watchdog: Option<Duration>,
    /// Unit directories; `None` for the defaults.
    pub unit_dirs: Option<Vec<String>>,
    /// Directories whose systemd unit files are imported, in order of precedence. /etc/fstab may be
    /// among them.
    pub import_dirs: Vec<String>,
    /// Log directory; `None` for the default.
    pub log_dir: Option<String>,
    /// Directory of state that survives a boot; `None` for the default.
    pub state_dir: Option<String>,
    /// Size in bytes at which a log file is rotated.
    pub log_size: u64,
    /// Number of rotated files to keep.
    pub log_keep: u32,
    /// Log files are opened once this target is active.
    pub log_dir_after: Option<Name>,
    /// Group that may read logs.
    pub log_readers: String,
    /// Sources by name, with the uid that may put them.
    pub sources: BTreeMap<Name, u32>,
    /// Environment of every unit.
    pub env: Vec<(String, String)>,
    /// Variables of init's environment that units inherit; `None` depends on the mode of init, `*`
    /// means all.
    pub env_pass: Option<Vec<String>>,
    /// `None` depends on the mode of init.
    pub echo: Option<Echo>,
    /// See `--exit-with`.
    pub exit_with: Option<Name>,
    /// The default of whether `wanted-by` counts, for units that the policy does not mention.
    pub enabled_by_default: bool,
    /// The reactions to keys.
    pub reactions: Reactions,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            default_target: Name::literal("multi-user"),
            emergency_target: Name::literal("emergency"),
            max_starting: 0,
            start_timeout: Some(Duration::from_secs(60)),
            stop_timeout: Some(Duration::from_secs(10)),
            restart: None,
            restart_delay: Duration::from_millis(200),
            restart_delay_max: Duration::from_secs(60),
            restart_reset: Duration::from_secs(60),
            failure_verdict: 3,
            shutdown_deadline: None,
            watchdog: None,
            unit_dirs: None,
            import_dirs: Vec::new(),
            log_dir: None,
            state_dir: None,
            log_size: 16 * 1024 * 1024,
            log_keep: 4,
            log_dir_after: None,
            log_readers: "adm".to_string(),
            sources: BTreeMap::new(),
            env: Vec::new(),
            env_pass: None,
            echo: None,
            exit_with: None,
            enabled_by_default: true,
            reactions: Reactions::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_names_of_the_settings_are_valid() {
        let settings = Settings::default();
        for name in [&settings.default_target, &settings.emergency_target] {
            assert_eq!(Name::new(name.as_str()).as_ref(), Ok(name));
        }
    }
}

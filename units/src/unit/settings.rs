//! The settings of `init.yaml`, as meant. Parsed by the loader, handed to PID 1
//! inside the generation; PID 1 never sees the file.

use crate::spec::Restart;
use crate::text::name::Name;
use crate::unit::reaction::Reactions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Whether the logger copies lines to init's stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Echo {
    /// `TARGET | line`.
    Yes,
    /// Not at all.
    No,
    /// The line alone.
    Raw,
}

/// `init.yaml`. The defaults of a unit's keys stand here too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The goal when nothing else names one.
    pub default_target: Name,
    /// Where the boot goes when the goal's provider is missing, masked or broken.
    pub emergency_target: Name,
    /// Starts under way at once; 0: no limit.
    pub max_starting: u32,
    /// Default of the key.
    pub start_timeout: Option<Duration>,
    /// Default of the key.
    pub stop_timeout: Option<Duration>,
    /// Default of the key for supervised types; None: by type.
    pub restart: Option<Restart>,
    /// Default of the key.
    pub restart_delay: Duration,
    /// Default of the key.
    pub restart_delay_max: Duration,
    /// Default of the key.
    pub restart_reset: Duration,
    /// Default of the key.
    pub failure_verdict: u32,
    /// From the request to the kill of what remains; None: 90 s on a machine, 9 s in a container.
    pub shutdown_deadline: Option<Duration>,
    /// The hardware watchdog starts the machine anew when init is stuck for so long; None: it is
    /// left alone.
    pub watchdog: Option<Duration>,
    /// Unit directories; None: the defaults.
    pub unit_dirs: Option<Vec<String>>,
    /// Directories whose systemd unit files are taken too, the first the first.
    pub import_dirs: Vec<String>,
    /// Log directory; None: the default.
    pub log_dir: Option<String>,
    /// Where what outlives a boot is kept; None: the default.
    pub state_dir: Option<String>,
    /// Bytes of a log file before it is rotated.
    pub log_size: u64,
    /// Rotated files kept.
    pub log_keep: u32,
    /// Log files are opened once this target is active.
    pub log_dir_after: Option<Name>,
    /// Group that may read logs.
    pub log_readers: String,
    /// Sources by name, with the uid that may put them.
    pub sources: BTreeMap<Name, u32>,
    /// Environment of every unit.
    pub env: Vec<(String, String)>,
    /// Variables of init's own environment that units get; None: by the way init runs; `*`: all.
    pub env_pass: Option<Vec<String>>,
    /// None: by the way init runs.
    pub echo: Option<Echo>,
    /// See `--exit-with`.
    pub exit_with: Option<Name>,
    /// What `wanted-by` means where the policy says nothing: true is enabled.
    pub enabled_by_default: bool,
    /// What the keys of a machine do. [`crate::unit::wire`] writes them behind all else, where they are
    /// not the default: what was encoded without them is read as ever.
    #[serde(skip)]
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
    fn the_names_spelled_here_are_names() {
        let settings = Settings::default();
        for name in [&settings.default_target, &settings.emergency_target] {
            assert_eq!(Name::new(name.as_str()).as_ref(), Ok(name));
        }
    }
}

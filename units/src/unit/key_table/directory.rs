//! Keys: directories that init creates for a unit.

use super::{NONE, PROCESS, key};
use crate::spec::Keep;
use crate::unit::key::{Class::Run, Key, Shape};

const NAMES: Shape = Shape::Forms("relative paths, without `..`");

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("runtime-dir", NAMES, Run, PROCESS, NONE, "none",
        "Directories below /run, created before each command and owned by the unit's user and group. For init as a user they are below $XDG_RUNTIME_DIR. They are removed at the stop, see runtime-dir-keep. $RUNTIME_DIRECTORY has their paths, separated by `:`. Symbolic links are not followed.",
        "runtime-dir: web"),
    key("runtime-dir-mode", Shape::Umask, Run, PROCESS, NONE, "0755",
        "The permission bits of runtime-dir, in octal.",
        "runtime-dir-mode: 0750"),
    key("runtime-dir-keep", Shape::Choice(&Keep::WORDS), Run, PROCESS, NONE, "no",
        "Whether runtime-dir survives a stop. no: never. restart: only if the unit starts again. yes: always.",
        "runtime-dir-keep: restart"),
    key("state-dir", NAMES, Run, PROCESS, NONE, "none",
        "As runtime-dir, below /var/lib (as a user: $XDG_STATE_HOME), and kept. $STATE_DIRECTORY has their paths.",
        "state-dir: web"),
    key("state-dir-mode", Shape::Umask, Run, PROCESS, NONE, "0755",
        "The permission bits of state-dir, in octal.",
        "state-dir-mode: 0700"),
    key("cache-dir", NAMES, Run, PROCESS, NONE, "none",
        "As state-dir, below /var/cache (as a user: $XDG_CACHE_HOME). $CACHE_DIRECTORY has their paths.",
        "cache-dir: web"),
    key("cache-dir-mode", Shape::Umask, Run, PROCESS, NONE, "0755",
        "The permission bits of cache-dir, in octal.",
        "cache-dir-mode: 0700"),
    key("log-dir", NAMES, Run, PROCESS, NONE, "none",
        "As state-dir, below /var/log (as a user: log in $XDG_STATE_HOME). $LOGS_DIRECTORY has their paths.",
        "log-dir: web"),
    key("log-dir-mode", Shape::Umask, Run, PROCESS, NONE, "0755",
        "The permission bits of log-dir, in octal.",
        "log-dir-mode: 0750"),
    key("config-dir", NAMES, Run, PROCESS, NONE, "none",
        "As state-dir, below /etc (as a user: $XDG_CONFIG_HOME), owned by root. $CONFIGURATION_DIRECTORY has their paths.",
        "config-dir: web"),
    key("config-dir-mode", Shape::Umask, Run, PROCESS, NONE, "0755",
        "The permission bits of config-dir, in octal.",
        "config-dir-mode: 0750"),
];

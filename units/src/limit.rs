//! Every limit of the core in one place. Values are those of the public interface;
//! a limit that is only about the running of PID 1 stands in `init`.

use std::time::Duration;

/// Units in one generation.
pub const UNITS: usize = 65_536;
/// Entries in the dependency lists of one unit, all kinds together.
pub const DEPENDENCIES: usize = 4_096;
/// Bytes of one native unit file.
pub const UNIT_FILE: usize = 256 * 1024;
/// Bytes of one imported unit file.
pub const IMPORTED_FILE: usize = 1024 * 1024;
/// Assignments in one imported unit file.
pub const IMPORTED_OPTIONS: usize = 16_384;
/// Commands in one imported shell script, its settings included each for itself.
pub const SCRIPT_COMMANDS: usize = 16_384;
/// Bytes that one value of an imported shell script comes to.
pub const SCRIPT_VALUE: usize = 64 * 1024;
/// Bytes that all values of an imported shell script come to, each as often as it is filled in.
pub const SCRIPT_EXPANSION: usize = 1024 * 1024;
/// Words behind the verbs of one imported script's `depend()`.
pub const SCRIPT_RELATIONS: usize = 16_384;
/// Brackets within brackets in one value of an imported shell script.
pub const SCRIPT_DEPTH: usize = 16;
/// Instances made of all templates of one generation.
pub const INSTANCES: usize = 4_096;
/// Bytes that all instances of one template come to.
pub const TEMPLATE: usize = 16 * 1024 * 1024;
/// Bytes that all units of one generation come to, beside what is said of them.
pub const ALL_UNITS: usize = 128 * 1024 * 1024;
/// Bytes of one exec line.
pub const EXEC_LINE: usize = 128 * 1024;
/// Bytes of a unit or target name.
pub const NAME: usize = 255;
/// Bytes of one request line on the control socket.
pub const REQUEST_LINE: usize = 64 * 1024;
/// Nesting of JSON in a request.
pub const JSON_DEPTH: usize = 32;
/// Nesting of YAML in a unit file.
pub const YAML_DEPTH: usize = 16;
/// Bytes of one encoded generation.
pub const GENERATION: usize = 256 * 1024 * 1024;
/// Supplementary groups of one unit.
pub const GROUPS: usize = 32;
/// Bytes of a `ready-grep` pattern.
pub const READY_GREP: usize = 4 * 1024;
/// Bytes a compiled `ready-grep` may take; the loader refuses what takes more.
pub const READY_GREP_PROGRAM: usize = 1024 * 1024;
/// States that a `ready-grep` may ask for, guessed, and be compiled wherever it stands.
pub const READY_GREP_CHEAP: usize = 4_096;
/// States that one `ready-grep` counts for at most: by then its program is as large as may be.
pub const READY_GREP_DEAREST: usize = 60_000;
/// States of all different `ready-grep` of one load that are not cheap.
pub const READY_GREPS: usize = 2_000_000;
/// Scalars, lists and maps in one unit file.
pub const YAML_NODES: usize = 32_768;
/// Files of one source.
pub const SOURCE_FILES: usize = 4_096;
/// Bytes of what one `source put` carries: names, texts and roots as JSON.
pub const SOURCE_BYTES: usize = 16 * 1024 * 1024;
/// Roots of one source.
pub const SOURCE_ROOTS: usize = 4_096;
/// Diagnostics kept of one file; what goes beyond is counted in words.
pub const DIAGNOSTICS_PER_FILE: usize = 64;
/// Diagnostics kept of one generation.
pub const DIAGNOSTICS: usize = 4_096;
/// Missing targets of one set of units that get a "did you mean": the search costs what all names are long.
pub const HINTS: usize = 32;
/// Names that one such search compares letter by letter.
pub const HINT_CANDIDATES: usize = 128;
/// Bytes of a name that is searched for; the cost grows with the square.
pub const HINT_NAME: usize = 64;
/// Entries of one directory that are looked at.
pub const DIRECTORY_ENTRIES: usize = 131_072;
/// Drop-ins of one unit file.
pub const DROP_INS: usize = 64;
/// Unit directories.
pub const UNIT_DIRS: usize = 32;
/// Bytes of /etc/passwd or /etc/group that are read.
pub const ACCOUNT_FILE: usize = 4 * 1024 * 1024;
/// Seconds of the longest span a key may name: a hundred years.
pub const SPAN_SECONDS: u64 = 100 * 365 * 86_400;
/// Exec lines of one key.
pub const EXEC_LINES: usize = 256;
/// Values of one key that takes a list of short ones.
pub const WORDS: usize = 1_024;
/// Names in a `cgroup-slice`.
pub const SLICE_DEPTH: usize = 8;
/// Numbers of processors (CONFIG_NR_CPUS of Linux, at its most).
pub const PROCESSORS: u16 = 8_192;
/// Environment variables of one unit.
pub const ENVIRONMENT: usize = 1_024;
/// Paths of one key.
pub const PATHS: usize = 64;
/// Bytes of a path in a key (PATH_MAX of Linux, with its ending NUL).
pub const PATH: usize = 4_095;
/// Rings shown for one knot of dependencies.
pub const RINGS: usize = 16;
/// Failures remembered with their time for one unit (`restart-limit: 5/10s`).
pub const FAILURES: u32 = 256;
/// Values of one list of a trigger's keys, and all it listens to or looks at together.
pub const TRIGGER_VALUES: usize = 64;
/// Descriptors that init keeps for one unit (`fd-store-max`).
pub const STORED: u32 = 512;
/// Connections of one socket that are served at once: each has a unit of its own.
pub const PLACES: u32 = 256;
/// Connections of one socket that are accepted within [`FIRING_SPAN`]; then it rests.
pub const CONNECTIONS: u32 = 200;
/// Between two firings of one timer: spans of nothing would keep two processes busy.
pub const TIMER_PACE: Duration = Duration::from_millis(100);
/// A trigger that fires this often …
pub const FIRINGS: u32 = 20;
/// … within this rests …
pub const FIRING_SPAN: Duration = Duration::from_secs(2);
/// … for this long, twice as long with each rest that follows at once …
pub const FIRING_REST: Duration = Duration::from_secs(2);
/// … up to this.
pub const FIRING_REST_MAX: Duration = Duration::from_secs(60);

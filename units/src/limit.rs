//! Every limit of the core. The values are part of the public interface. Limits that concern only
//! the operation of PID 1 are in `init`.

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
/// Commands in one imported shell script; its settings have the same limit of their own.
pub const SCRIPT_COMMANDS: usize = 16_384;
/// Bytes of one expanded value of an imported shell script.
pub const SCRIPT_VALUE: usize = 64 * 1024;
/// Bytes of all expanded values of an imported shell script; each use of a value counts.
pub const SCRIPT_EXPANSION: usize = 1024 * 1024;
/// Words after the verbs of one imported script's `depend()`.
pub const SCRIPT_RELATIONS: usize = 16_384;
/// Nesting of brackets in one value of an imported shell script.
pub const SCRIPT_DEPTH: usize = 16;
/// Instances of all templates of one generation.
pub const INSTANCES: usize = 4_096;
/// Bytes of all instances of one template.
pub const TEMPLATE: usize = 16 * 1024 * 1024;
/// Bytes of all units of one generation, without their diagnostics.
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
/// Bytes of a compiled `ready-grep`; the loader refuses larger ones.
pub const READY_GREP_PROGRAM: usize = 1024 * 1024;
/// Estimated states of a `ready-grep` that each unit compiles for itself.
pub const READY_GREP_CHEAP: usize = 4_096;
/// The largest estimate for one `ready-grep`. A program with so many states reaches the size limit.
pub const READY_GREP_MOST: usize = 60_000;
/// Estimated states of all distinct expensive `ready-grep` patterns of one load.
pub const READY_GREPS: usize = 2_000_000;
/// Scalars, lists and maps in one unit file.
pub const YAML_NODES: usize = 32_768;
/// Files of one source.
pub const SOURCE_FILES: usize = 4_096;
/// Bytes of the payload of one `source put`: names, texts and roots as JSON.
pub const SOURCE_BYTES: usize = 16 * 1024 * 1024;
/// Roots of one source.
pub const SOURCE_ROOTS: usize = 4_096;
/// Diagnostics kept of one file; the last one tells how many were dropped.
pub const DIAGNOSTICS_PER_FILE: usize = 64;
/// Diagnostics kept of one generation.
pub const DIAGNOSTICS: usize = 4_096;
/// Suggestions for missing targets in one set of units, because each search is expensive.
pub const HINTS: usize = 32;
/// Names that one such search compares letter by letter.
pub const HINT_CANDIDATES: usize = 128;
/// Bytes of a name that is searched for; the cost grows with the square.
pub const HINT_NAME: usize = 64;
/// Entries of one directory that the loader reads.
pub const DIRECTORY_ENTRIES: usize = 131_072;
/// Drop-ins of one unit file.
pub const DROP_INS: usize = 64;
/// Unit directories.
pub const UNIT_DIRS: usize = 32;
/// Bytes of /etc/passwd or /etc/group that are read.
pub const ACCOUNT_FILE: usize = 4 * 1024 * 1024;
/// Seconds of the longest duration in a key: a hundred years.
pub const SPAN_SECONDS: u64 = 100 * 365 * 86_400;
/// Exec lines of one key.
pub const EXEC_LINES: usize = 256;
/// Values of one key with a list of short values.
pub const WORDS: usize = 1_024;
/// Names in a `cgroup-slice`.
pub const SLICE_DEPTH: usize = 8;
/// Numbers of processors (the maximum of CONFIG_NR_CPUS of Linux).
pub const PROCESSORS: u16 = 8_192;
/// Environment variables of one unit.
pub const ENVIRONMENT: usize = 1_024;
/// Paths of one key.
pub const PATHS: usize = 64;
/// Bytes of a path in a key (PATH_MAX of Linux includes the trailing NUL).
pub const PATH: usize = 4_095;
/// Rings reported for one component of dependencies.
pub const RINGS: usize = 16;
/// Failures of one unit whose times are remembered (`restart-limit: 5/10s`).
pub const FAILURES: u32 = 256;
/// Values of one list of a trigger's keys, and all its listeners or watched paths together.
pub const TRIGGER_VALUES: usize = 64;
/// Descriptors that init keeps for one unit (`fd-store-max`).
pub const STORED: u32 = 512;
/// Concurrent connections of one socket; each has an instance of its own.
pub const CONNECTION_INSTANCES: u32 = 256;
/// Connections of one socket accepted within [`FIRING_SPAN`]; after that the socket pauses.
pub const CONNECTIONS: u32 = 200;
/// The least time between two firings of one timer, because a span of zero would keep two processes
/// busy.
pub const TIMER_PACE: Duration = Duration::from_millis(100);
/// A trigger that fires this often within [`FIRING_SPAN`] pauses.
pub const FIRINGS: u32 = 20;
/// The span in which firings are counted.
pub const FIRING_SPAN: Duration = Duration::from_secs(2);
/// The first pause of a trigger; each pause that follows at once is twice as long.
pub const FIRING_REST: Duration = Duration::from_secs(2);
/// The longest pause of a trigger.
pub const FIRING_REST_MAX: Duration = Duration::from_secs(60);

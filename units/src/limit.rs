//! Every limit of the core in one place. Values are those of the public interface;
//! a limit that is only about the running of PID 1 stands in `init`.

/// Units in one generation.
pub const UNITS: usize = 65_536;
/// Entries in the dependency lists of one unit, all kinds together.
pub const DEPENDENCIES: usize = 4_096;
/// Bytes of one native unit file.
pub const UNIT_FILE: usize = 256 * 1024;
/// Bytes of one imported unit file.
pub const IMPORTED_FILE: usize = 1024 * 1024;
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

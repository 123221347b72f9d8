//! Text and plain values: encodings, YAML, names, globs, signals, times. Nothing here knows what a
//! unit is.

pub mod capability;
pub mod comparison;
pub mod diagnostic;
pub mod encoding;
pub mod errno;
pub mod fields;
pub mod glob;
pub mod log_level;
pub mod name;
pub(crate) mod quoting;
#[cfg(feature = "text")]
pub(crate) mod ready_grep;
pub mod signal;
#[cfg(feature = "text")]
pub mod specifier;
pub mod time;
pub mod unit_name;
pub mod wall_clock;
pub(crate) mod words;
#[cfg(feature = "text")]
pub mod yaml;

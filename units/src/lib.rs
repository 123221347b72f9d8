//! Groundstate's core: what a unit is and how it lives.
//!
//! Nothing here reads a file, a clock, an environment or a pid: text, time and
//! facts come in as arguments, decisions go out as values. The way of the data:
//!
//! text → [`manifest`] (as written, with places) → [`spec`] (as meant) →
//! [`generation`] (one validated set) → [`machine`] (`step`: facts in, deeds out).
//!
//! Beside it: [`diagnostic`] (how a mistake is said), [`control`] (what goes over
//! the control socket). Limits stand in [`limit`], names in [`name`].

pub mod control;
pub mod diagnostic;
pub mod errno;
pub mod generation;
pub mod glob;
pub mod graph;
pub mod limit;
pub mod log_level;
pub mod log_line;
pub mod log_query;
pub mod machine;
pub mod name;
#[cfg(feature = "sim")]
pub mod oracle;
pub mod policy;
pub mod reaction;
#[cfg(feature = "sim")]
pub mod scenario;
pub mod settings;
pub mod signal;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "text")]
pub mod source;
pub mod spec;
pub mod time;
pub mod trigger;
pub mod view;
pub mod wall;

// From text to a generation.
#[cfg(feature = "text")]
pub mod account;
pub mod assembly;
pub mod capability;
pub mod comparison;
pub mod exec_line;
#[cfg(feature = "text")]
pub mod facts;
#[cfg(feature = "text")]
mod field;
#[cfg(feature = "text")]
pub mod files;
#[cfg(feature = "text")]
mod finding;
#[cfg(feature = "text")]
pub mod folder;
#[cfg(feature = "text")]
mod foreign;
#[cfg(feature = "text")]
pub mod import;
#[cfg(feature = "text")]
mod imported_file;
#[cfg(feature = "text")]
pub mod json_schema;
#[cfg(feature = "text")]
pub mod key;
#[cfg(feature = "text")]
pub mod key_table;
#[cfg(feature = "text")]
pub mod load;
#[cfg(feature = "text")]
pub mod man_page;
#[cfg(feature = "text")]
pub mod manifest;
#[cfg(feature = "text")]
pub mod meaning;
#[cfg(feature = "text")]
mod mount_name;
#[cfg(feature = "text")]
pub mod policy_file;
#[cfg(feature = "text")]
mod process;
#[cfg(feature = "text")]
mod ready_grep;
pub mod resource;
#[cfg(feature = "text")]
mod reuse;
#[cfg(feature = "text")]
pub mod settings_file;
#[cfg(feature = "text")]
pub mod specifier;
#[cfg(feature = "text")]
mod template;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "text")]
mod unit_file;
pub mod value;
pub mod wire;
#[cfg(feature = "text")]
pub mod yaml;
#[cfg(feature = "text")]
pub mod yaml_writer;

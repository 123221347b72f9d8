//! Imports systemd unit files. Data flow:
//!
//! text → [`unit_text`] (sections and assignments with places, nothing lost) → [`table`] (one row
//! for each directive: its native key and the conversion of its value, or why it is left out) →
//! [`mod@convert`] (a native [`crate::unit::manifest::Manifest`], and the outcome of each directive
//! for the report).
//!
//! References: systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5),
//! systemd.socket(5), systemd.timer(5), systemd.path(5), systemd.mount(5) and systemd.syntax(7).

mod command;
mod condition;
pub mod conversion;
mod convert;
mod dependency;
mod directive;
mod entries;
mod implied;
mod install;
mod mount;
mod process;
pub mod replacement;
mod restart;
mod service;
pub(crate) mod span;
pub mod table;
mod telling;
mod trigger;
pub mod unit_text;
mod word;

pub use crate::text::unit_name;
pub use crate::text::unit_name::{Suffix, UnitName, instance_of_drop_in};
pub use conversion::{Imported, Surroundings};
pub use convert::convert;
pub(crate) use dependency::native_target as target_of_link;
pub(crate) use mount::is_remote;
pub use unit_text::{UnitOption, UnitText};
pub(crate) use word::quote;

use super::import_outcome;

#[cfg(test)]
mod tests;

//! Groundstate's core: the definition of a unit, and the state machine that runs units.
//!
//! Nothing here reads a file, a clock, an environment or a pid. Text, time and facts come in as
//! arguments; decisions go out as values. Data flows like this:
//!
//! text → [`unit::manifest`] (as written, with places) → [`spec`] (interpreted) →
//! [`unit::generation`] (one validated set) → [`machine`] (`step`: facts in, actions out).
//!
//! The folders, each importing only from later lines (the style test checks this order):
//!
//! - [`load`]: the files of a machine become one generation; [`simulator`]: the machine against
//!   random schedules and an independent oracle
//! - [`control`]: requests and answers of the control socket; [`scenario`]: test cases as data
//! - [`machine`]: the state machine
//! - [`graph`]: dependencies and providers; [`import`]: systemd, OpenRC, SysV files, fstab
//! - [`mod@unit`]: the key table, manifest, semantics, generation, settings and policy
//! - [`trigger`]: sockets, timers and paths
//! - [`spec`]: a unit as the machine and init use it
//! - [`text`]: encoding, YAML, names, globs, signals, times, [`diagnostic`](text::diagnostic)
//! - [`limit`]: every named limit

pub mod control;
pub mod graph;
#[cfg(feature = "text")]
pub mod import;
pub mod limit;
#[cfg(feature = "text")]
pub mod load;
pub mod machine;
#[cfg(feature = "sim")]
pub mod scenario;
#[cfg(feature = "sim")]
pub mod simulator;
pub mod spec;
pub mod text;
pub mod trigger;
pub mod unit;

//! Imports scripts of /etc/init.d. The body of a script is not analysed: the unit runs it with
//! `start` and `stop`, and its header comments say the rest. Data flow:
//!
//! text → [`header`] (header comments with places) → [`table`] (their meaning, and the targets of
//! facilities) → [`mod@convert`] (a native [`crate::unit::manifest::Manifest`], and the outcome of
//! each line; [`order`] has the dependencies). [`verbs`] detects whether the script supports
//! `reload`.
//!
//! References: the Linux Standard Base, "Comment Conventions for Init Scripts", insserv(8),
//! chkconfig(8), and systemd-sysv-generator(8).

mod conversion;
mod convert;
mod header;
mod order;
mod table;
mod verbs;

pub use convert::convert;

#[cfg(test)]
mod tests;

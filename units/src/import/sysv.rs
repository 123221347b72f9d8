//! Scripts of /etc/init.d. What a script does is not looked into: the unit runs it with `start` and
//! `stop`, and its comments say the rest. The way of the data:
//!
//! text → [`header`] (the comments that say something, with places) → [`table`] (what each
//! means, which target a facility is) → [`mod@convert`] (a native
//! [`crate::unit::manifest::Manifest`], and the outcome of each of those lines; dependencies are in
//! [`order`]). Whether the script knows `reload` is [`verbs`]'s.
//!
//! The facts are those of the Linux Standard Base, "Comment Conventions for Init Scripts", of
//! insserv(8) and chkconfig(8), and of what systemd-sysv-generator(8) makes of a script.

mod conversion;
mod convert;
mod header;
mod order;
mod table;
mod verbs;

pub use convert::convert;

#[cfg(test)]
mod tests;

//! Whom a cluster trusts, on real machines: what is secret stays so, what etcd lets others do is
//! said, and without an engine nothing ends.

mod engine;
mod held;
mod identity;
mod rights;
mod secrets;
mod signed;

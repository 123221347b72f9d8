//! The trust model on real machines: secrets stay secret, insecure etcd settings are reported, and
//! units run without an engine.

mod engine;
mod foreign_etcd;
mod identity;
mod rights;
mod secrets;
mod signed;

//! Shared code of the tests of the real binaries. The tests are in `tests/tests/`, the stages that
//! run them in `tests/stages/`.
//!
//! | module | content |
//! |---|---|
//! | [`sandbox`] | a directory with unit files |
//! | [`boot`] | a real init running on a sandbox; [`boot::teardown`]: invariants after every test |
//! | [`client`], [`status`] | a client of the control socket; the answer to `status` |
//! | [`process`] | facts of the kernel about processes |
//! | [`daemon`], [`listener`] | a stand-in service; a stand-in that gets sockets |
//! | [`machine`] | a virtual machine |
//! | [`tracer`] | makes system calls of a running process fail, with strace(1) |
//! | [`injector`], [`faults`] | makes one system call after the other fail, for a whole life |
//! | [`crash`], [`sweep`] | crashes init; crashes it at each system call of a script |
//! | [`storm`], [`chaos`] | crashes among many services; random failures of init and services |
//! | [`held`] | a load that is stopped in its middle |
//! | [`reloads`], [`flapping`] | many reloads; many restarts |
//! | [`replay`], [`law`] | replays a record; invariants of every record |
//! | [`silent`] | a file system that does not answer |
//! | [`corpus`] | unit files of Debian packages in the importer |
//! | [`named`], [`imports`] | tests that a document names; imports between the files of a crate |
//! | [`not_run`], [`extent`] | reports a test that cannot run here; how often a test repeats work |
//! | [`deadline`], [`lateness`] | waits for facts; measures how late the machine is |
//!
//! Nothing here sleeps as synchronisation.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed test panics; a stand-in prints"
)]

pub mod boot;
#[cfg(target_arch = "x86_64")]
pub mod chaos;
pub mod client;
pub mod corpus;
pub mod crash;
pub mod daemon;
pub mod deadline;
pub mod extent;
#[cfg(target_arch = "x86_64")]
pub mod faults;
pub mod flapping;
pub mod held;
pub mod imports;
#[cfg(target_arch = "x86_64")]
pub mod injector;
pub mod lateness;
pub mod law;
pub mod listener;
pub mod machine;
pub mod named;
pub mod not_run;
pub mod process;
pub mod reloads;
pub mod replay;
pub mod sandbox;
pub mod silent;
pub mod status;
pub mod storm;
#[cfg(target_arch = "x86_64")]
pub mod sweep;
pub mod tracer;

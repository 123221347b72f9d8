//! What the tests of the real binaries share. Not a test itself: those stand in
//! `tests/tests/`, the stages that run them in `tests/stages/`.
//!
//! [`daemon`] is a scriptable stand-in for a service. [`sandbox`] is a directory with
//! unit files in it, [`boot`] a real init running on one, [`client`] a caller at its
//! socket, [`listener`] a stand-in that is handed sockets, [`status`] what it says about itself, [`process`] what the kernel says about
//! its processes. [`machine`] is a virtual one. [`named`] reads which tests a document names, [`imports`] which file of a crate imports which. [`not_run`] tells of tests that found nothing to test with. [`tracer`] makes system calls of a running one fail, [`injector`] one at a time for a whole life, as [`faults`] has it, [`crash`] the whole of it, [`sweep`] at each system call, [`storm`] with all kinds of services beside it, [`chaos`] among all else that may happen. [`held`] is a load that stands still, [`reloads`] reloads without end, [`flapping`] restarts without end, [`boot::teardown`] what holds after every test, [`law`] of every record. [`extent`] says how often, [`lateness`] how late the machine was while a test measured. [`deadline`] waits for facts; nothing here sleeps and hopes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that can not go on says so and ends; a stand-in talks"
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

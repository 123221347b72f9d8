//! What fleetd holds in its memory (the password to etcd, keys of certificates) is written to no
//! file when it crashes, and read by no other process of its user. That is the kernel's to keep
//! ([`forbid`] asks it to); what fleetd itself says is [`crate::log`]'s.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

/// No memory is dumped, and none is shown: /proc/PID is root's from here on, and nobody but root
/// may look in with a debugger.
///
/// # Errors
/// The kernel does not let us.
pub fn forbid() -> Result<(), String> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0).map_err(|error| format!("core dumps: {error}"))?;
    set_dumpable(false).map_err(|error| format!("core dumps: {error}"))
}

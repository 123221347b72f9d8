//! Keeps fleetd's memory (etcd's password, TLS keys) out of core dumps and away from other
//! processes of its user.

use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};

/// Forbids core dumps and makes the process undumpable: /proc/PID belongs to root, and only root
/// may attach a debugger.
///
/// # Errors
/// The kernel refused.
pub fn forbid() -> Result<(), String> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)
        .map_err(|error| format!("cannot forbid core dumps: {error}"))?;
    set_dumpable(false).map_err(|error| format!("cannot forbid core dumps: {error}"))
}

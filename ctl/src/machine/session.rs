//! The program that PAM executes at each login and logout.

use nix::sys::stat::{Mode, umask};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const SCRIPT: &str = "/usr/lib/groundstate/count-session";
/// The variables of pam_exec(8) that the script reads.
const VARIABLES: [&str; 2] = ["PAM_USER", "PAM_TYPE"];

/// Executes the script that counts sessions, as root and with a clean environment. Returns an error if
/// that fails.
///
/// pam_exec(8) passes on the environment of the session. A user can set it in `~/.pam_environment`, and
/// so make the dynamic linker of a script's interpreter load a library. This program is static.
pub(crate) fn count_session() -> io::Error {
    umask(Mode::from_bits_truncate(0o077));
    let kept = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    Command::new(SCRIPT).env_clear().envs(kept).current_dir("/").exec()
}

//! The program that PAM executes at each login and logout.

use nix::sys::stat::{Mode, umask};
use std::collections::BTreeMap;
use std::ffi::OsString;
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
    Command::new(SCRIPT).env_clear().envs(of_pam(std::env::vars_os())).current_dir("/").exec()
}

/// Returns the variables for the script. pam_exec appends its own variables to those of the session, so
/// the last of several with one name is from PAM, and an earlier one from the user.
fn of_pam(all: impl Iterator<Item = (OsString, OsString)>) -> BTreeMap<OsString, OsString> {
    all.filter(|(name, _)| VARIABLES.iter().any(|known| name == known)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_of_the_user_does_not_replace_that_of_pam() {
        let all = [
            ("PAM_USER", "root"),
            ("PAM_TYPE", "close_session"),
            ("LD_PRELOAD", "/tmp/x.so"),
            ("PAM_USER", "guest"),
            ("PAM_TYPE", "open_session"),
            ("PAM_SERVICE", "sshd"),
        ];
        let pair = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let expected = [("PAM_TYPE", "open_session"), ("PAM_USER", "guest")].map(pair);
        assert_eq!(of_pam(all.into_iter().map(pair)), expected.into_iter().collect());
    }
}

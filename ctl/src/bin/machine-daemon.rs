//! Programs of the boot set that are not part of `systemctl`, because a small program starts faster
//! and uses fewer pages: the daemons `power-button`, `syslog` and `kernel-log`, the first steps of a
//! boot (`prepare-machine`, `mount-kernel-filesystems`), and `session`, which every login and logout
//! executes.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::machine_daemon()
}

//! Programs of the boot set that are not part of `systemctl`: the daemons `power-button` and `syslog`,
//! because a small program uses fewer pages, and `session`, which every login and logout executes.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::machine_daemon()
}

//! The daemons of the boot set: `power-button` and `syslog`. They are not part of `systemctl`, because
//! a small program uses fewer pages.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::machine_daemon()
}

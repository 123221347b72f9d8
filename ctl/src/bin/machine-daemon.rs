//! The programs that run as long as the machine: `power-button` and `syslog`. They are no links to
//! `systemctl`, because a small program uses fewer pages.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::machine_daemon()
}

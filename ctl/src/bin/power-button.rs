//! The program `power-button`. It is no link to `systemctl`, because it runs as long as the machine:
//! of a small program it uses fewer pages.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::power_button()
}

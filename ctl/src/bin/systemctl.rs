//! The program `systemctl`, also called as `journalctl`. The library has the code, in its folders
//! `systemctl` and `journalctl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::shim()
}

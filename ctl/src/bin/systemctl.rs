//! The program `systemctl`, which is `journalctl` too where it is called so; everything is
//! in the library, in its folders `systemctl` and `journalctl`.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::shim()
}

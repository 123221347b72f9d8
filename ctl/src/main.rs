//! The program `initctl`; everything is in the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::initctl()
}

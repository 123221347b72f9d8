//! The program `initctl`; the library has the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    groundstate_ctl::initctl()
}

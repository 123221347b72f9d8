//! The stand-in service as a program; the code is in [`groundstate_tests::daemon`].
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its output is its work")]

use groundstate_tests::daemon::{flags, life};
use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--help") {
        print!("{}", flags::HELP);
        return ExitCode::SUCCESS;
    }
    match flags::Flags::parse(std::env::args().skip(1)) {
        Ok(flags) => match life::live(flags) {
            Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(255)),
            Err(error) => {
                eprintln!("daemon: {error}");
                ExitCode::from(111)
            }
        },
        Err(error) => {
            eprintln!("daemon: {error}");
            ExitCode::from(64)
        }
    }
}

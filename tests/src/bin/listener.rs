//! A stand-in for a service with passed sockets (sd_listen_fds(3)). It answers each line with its
//! identity, one thread for each socket. [`HELP`] lists how to end it.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::exit, reason = "a program")]

use groundstate_tests::listener::{Flags, serve};

const HELP: &str = "\
listener [FLAG…]: answers lines on the sockets it is handed

  --answers N   end with 0 after that many answers
  --deaf CODE   end at once with CODE, and take nothing
  --notify      say READY=1 first

a line is answered with `PID NAMES LINE`; the line `die` ends it by SIGKILL
";

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match Flags::parse(&words) {
        Ok(flags) => std::process::exit(serve(&flags)),
        Err(word) => {
            eprint!("{word}: not understood\n{HELP}");
            std::process::exit(64);
        }
    }
}

//! PID 1: reads its command line ([`options`]), prepares what it needs ([`boot`]), and runs the
//! event loop ([`event_loop`]) until the end ([`shutdown`]).

mod base;
mod boot;
mod control;
mod crash;
mod event_loop;
mod fd;
#[cfg(test)]
mod fuzzed;
mod loader;
mod logger;
#[cfg(test)]
#[path = "../../tests/src/not_run.rs"]
#[allow(unreachable_pub, reason = "shared by the tests of all crates")]
mod not_run;
mod notify;
mod options;
mod output;
mod process_tracking;
mod restore;
mod service;
mod shutdown;
mod spawn;
mod state;
mod sys;
mod trigger;
mod upgrade;

use base::own_limits::OwnLimits;
use event_loop::Init;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// Turns a panic before the first turn into an error.
fn guarded(begin: impl FnOnce() -> io::Result<Init>) -> io::Result<Init> {
    catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| Err(io::Error::other("a bug in init")))
}

fn main() -> ExitCode {
    let options = options::Options::parse(std::env::args_os().skip(1));
    // A resumed image inherits the raised limits across the exec.
    let begins = options.rescue.is_none() && options.resume.is_none();
    // The event loop may need more stack than the present limit.
    let limits = if begins { OwnLimits::raise() } else { OwnLimits::default() };
    serve(options, limits)
}

#[inline(never)]
fn serve(options: options::Options, limits: OwnLimits) -> ExitCode {
    if let Some(word) = &options.check {
        return restore::check(word);
    }
    let mode = boot::find_mode(options.container);
    let options = options.for_mode(mode);
    if let Some(answered) = options.answer(mode) {
        return answered;
    }
    boot::install_panic_hook(mode);
    if let Some(how) = &options.end {
        return shutdown::final_exec::continue_end(mode, how).into();
    }
    if let Some(word) = options.rescue.clone() {
        return match guarded(|| Init::rescue(options.clone(), mode, &word)) {
            Ok(init) => init.run().carry_out().into(),
            Err(why) => crash::take_care(&options, mode, &why).carry_out().into(),
        };
    }
    let started = match options.resume.clone() {
        Some(word) => guarded(|| Init::resume(options, mode, &word)),
        None => Init::new(options, mode, limits),
    };
    match started {
        Ok(init) => {
            let mut end = init.run();
            end.carry_out().into()
        }
        Err(error) => boot::end_failed_start(mode, &error),
    }
}

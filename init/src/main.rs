//! PID 1: facts in, deeds out. The chapters: what was asked ([`options`]), what init is
//! ([`boot`]), the loop ([`event_loop`]), the end ([`shutdown`]).

mod begin;
mod boot;
mod cgroup;
mod clock;
mod control;
mod emergency;
mod event_loop;
mod history;
mod limit;
mod loader;
mod logger;
mod notify;
mod options;
mod outer;
mod paths;
mod process;
mod record;
mod rest;
mod run;
mod shutdown;
mod signals;
mod spawn;
mod step;
mod sys;
mod timings;
mod trigger;
mod voice;

fn main() -> std::process::ExitCode {
    let options = options::Options::parse(std::env::args_os().skip(1));
    let mode = boot::Mode::find(options.container);
    if let Some(answered) = options.answer(mode) {
        return answered;
    }
    boot::hush_panics(mode);
    match event_loop::Init::new(options, mode) {
        Ok(init) => {
            let mut end = init.run();
            end.carry_out().into()
        }
        Err(error) => boot::impossible(mode, &error),
    }
}

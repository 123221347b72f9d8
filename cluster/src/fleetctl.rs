//! `fleetctl`: fleet's command line over API v1.
//! It has every command, flag, column and exit code of fleet 1.0. It adds placement reasons,
//! draining, rolling replacement, events, and logs without ssh. It makes no decisions about the
//! cluster: it calls the API and shows the answers.
//!
//! [`arguments`] is the command line, [`client`] the API calls, [`connection`] the way to the
//! server. Each group of commands has its own file.

mod arguments;
mod backup;
mod bring_down;
mod bring_up;
mod client;
mod connection;
mod creation;
mod draining;
mod help;
mod inspection;
mod listing;
mod live;
mod output;
mod progress;
mod remote;
mod restart;
mod review;
mod rollout;
mod session;
mod ssh;
mod table;
mod trouble;
mod waiting;

#[cfg(test)]
mod screens;

use crate::{documents, fleetd};
use arguments::{Command, Line, Program};
use clap::CommandFactory;
use session::Session;
use std::process::ExitCode;
use trouble::Trouble;

/// Runs the program from command line to exit code.
pub fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == "-v" || first == "--version") {
        output::say(&version());
        return ExitCode::SUCCESS;
    }
    let line = match arguments::read(arguments) {
        Ok(line) => line,
        Err(error) => {
            if error.use_stderr() {
                output::warn(error.render().to_string().trim_end());
                return ExitCode::from(2);
            }
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    match offline(&line) {
        Some(code) => code,
        None => online(line),
    }
}

fn version() -> String {
    format!("fleetctl version v{}", env!("CARGO_PKG_VERSION"))
}

/// Handles commands that need no server.
fn offline(line: &Line) -> Option<ExitCode> {
    match &line.command {
        _ if line.version => output::say(&version()),
        None => {
            let _ = help::with_groups(Line::command()).print_help();
        }
        Some(Command::Version) => output::say(&version()),
        Some(Command::Completions { shell, program }) => {
            let command = match program {
                Program::Fleetctl => Line::command(),
                Program::Fleetd => fleetd::arguments::command(),
            };
            output::write(&documents::completions(*shell, command));
        }
        Some(Command::Man { program }) => {
            let page = match program {
                Program::Fleetctl => {
                    documents::man(help::with_groups(Line::command()), &help::GROUPS, "")
                }
                Program::Fleetd => fleetd::arguments::man(),
            };
            output::write(&page.unwrap_or_default());
        }
        Some(Command::Verify { .. }) => {
            output::warn("fleetctl verify is deprecated and does nothing");
            return Some(ExitCode::from(2));
        }
        Some(_) => return None,
    }
    Some(ExitCode::SUCCESS)
}

fn online(line: Line) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::warn(&format!("cannot start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let Line { globals, command, .. } = line;
    let Some(command) = command else { return ExitCode::SUCCESS };
    if let Command::FdForward { socket } = &command {
        return ended(remote::fd_forward(socket));
    }
    ended(runtime.block_on(async {
        let mut session = Session::open(globals)?;
        run(&mut session, command).await
    }))
}

fn ended(result: Result<u8, Trouble>) -> ExitCode {
    progress::clear();
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Trouble { code, message, .. }) => {
            if !message.is_empty() {
                output::warn(&message);
            }
            ExitCode::from(code)
        }
    }
}

async fn run(session: &mut Session, command: Command) -> Result<u8, Trouble> {
    match command {
        Command::Submit(what) => bring_up::submit(session, &what).await,
        Command::Load(what) => bring_up::load(session, &what).await,
        Command::Start(what) => bring_up::start(session, &what).await,
        Command::Stop(what) => bring_down::stop(session, &what).await,
        Command::Unload(what) => bring_down::unload(session, &what).await,
        Command::Destroy(what) => {
            let destroyed = bring_down::destroy(session, &what);
            progress::beside(&what.units.join(" "), "waiting to be gone", destroyed).await
        }
        Command::Restart(what) => restart::restart(session, &what).await,
        Command::Status { units, ssh } => remote::status(session, &units, &ssh).await,
        Command::Journal(what) => remote::journal(session, &what).await,
        Command::Ssh(what) => remote::ssh(session, &what).await,
        Command::Cat { unit } => inspection::cat(session, &unit).await,
        Command::Why { unit } => inspection::why(session, &unit).await,
        Command::Drain(what) => draining::drain(session, &what).await,
        Command::Undrain(what) => draining::undrain(session, &what).await,
        Command::ListUnits(what) => listing::units(session, &what).await,
        Command::ListUnitFiles(what) => listing::unit_files(session, &what).await,
        Command::ListMachines(what) => listing::machines(session, &what).await,
        Command::Rollout(what) => rollout::rollout(session, &what).await,
        Command::Backup { file } => backup::backup(session, &file).await,
        Command::Restore(what) => backup::restore(session, &what).await,
        Command::Events => live::events(session).await,
        Command::Logs(what) => live::logs(session, &what).await,
        Command::FdForward { .. }
        | Command::Version
        | Command::Verify { .. }
        | Command::Completions { .. }
        | Command::Man { .. } => Ok(0),
    }
}

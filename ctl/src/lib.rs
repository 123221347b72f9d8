//! `initctl`: sends requests to init and prints the answers. It makes no decisions. Its data comes
//! from the control socket and from the logger. `check`, `convert`, `doctor`, `explain` and
//! `graph --units` read files with the code of `units`.
//! [`systemctl`] and [`journalctl`] have the command lines of the programs of systemd.
//!
//! [`argv_aliases`] rewrites argv for [`arguments`]; [`verb`] has one file per group of verbs.
//! [`session`] talks to init, and [`exit`] defines the exit codes.

mod arguments;
mod argv_aliases;
mod connection;
mod event_stream;
mod exit;
mod files;
mod journalctl;
mod log_source;
mod machine;
mod policy_file;
mod report;
mod resources;
mod session;
mod span;
mod spelling;
mod style;
mod systemctl;
mod verb;
mod waiting;

use crate::exit::{Error, Exit};
use crate::machine::planned_shutdown;
use crate::session::Session;
use clap::FromArgMatches;
use groundstate_units::control::answer::Failure;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Runs `initctl`, from the command line to the exit status.
pub fn initctl() -> ExitCode {
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let json = typed.iter().any(|word| word == "--json");
    let exit = match run(typed) {
        Ok(exit) | Err(Error::Printed(exit)) => exit,
        Err(Error::OutputClosed) => Exit::Done,
        Err(Error::Failed(exit, failure)) => {
            session::complain(&failure, json);
            exit
        }
    };
    ExitCode::from(exit as u8)
}

/// Runs `systemctl`, `journalctl`, `systemd-escape` or a program of [`machine`], depending on the
/// name it is called by.
pub fn shim() -> ExitCode {
    let mut typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let called = typed.next().unwrap_or_default();
    let called = called.rsplit('/').next().unwrap_or_default().to_string();
    let words: Vec<String> = typed.collect();
    ExitCode::from(match called.as_str() {
        "journalctl" => journalctl::main(&words),
        "shutdown" | "telinit" | "init" | "runlevel" => return initctl(),
        "record-boot" => record(machine::Record::Boot),
        "record-shutdown" => record(machine::Record::Shutdown),
        planned_shutdown::UNIT => {
            let opens = words.first().is_some_and(|word| word == "open-logins");
            let nologin = words.get(usize::from(opens)).map_or(planned_shutdown::NOLOGIN, |it| it);
            let nologin = Path::new(nologin);
            let file = planned_shutdown::file(&systemctl::session().socket);
            let done = match opens {
                true => {
                    planned_shutdown::open_logins(nologin);
                    Ok(())
                }
                false => planned_shutdown::carry_out(&file, nologin, session::warn),
            };
            let shown = file.to_string_lossy();
            conclude(done.map_err(|error| (&*shown, error)))
        }
        _ => systemctl::main(&called, &words),
    })
}

/// Runs a small program of [`machine`], depending on the name it is called by.
pub fn machine_daemon() -> ExitCode {
    let called = std::env::args().next().unwrap_or_default();
    let called = called.rsplit('/').next().unwrap_or_default();
    let ended = match called {
        "power-button" => machine::watch(&["initctl", "poweroff", "--yes"]),
        "syslog" => machine::listen(Path::new("/dev/log")).and_then(|socket| {
            sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
            machine::print_messages(&socket, &mut std::io::stdout())
        }),
        machine::kmsg::UNIT => machine::kmsg::print_messages(&mut std::io::stdout()),
        "session" => Err(machine::count_session()),
        "prepare-machine" => machine::prepare(),
        "mount-kernel-filesystems" => machine::mount_kernel_filesystems(),
        _ => Err(std::io::Error::other("no program has this name")),
    };
    let Err(error) = ended else { return ExitCode::SUCCESS };
    // An error on stderr cannot be reported.
    let _ = writeln!(std::io::stderr(), "{called}: {error}");
    ExitCode::FAILURE
}

/// Records a boot or shutdown in the log, utmp and wtmp. Returns the exit status.
fn record(event: machine::Record) -> u8 {
    let marked = machine::boot_mark::print(event == machine::Record::Boot);
    let marked = conclude(marked.map_err(|error| ("the log", error)));
    conclude(machine::write(event)).max(marked)
}

/// Prints the error of a program of [`machine`]. Returns the exit status.
fn conclude(result: Result<(), (&str, std::io::Error)>) -> u8 {
    let failure =
        result.err().map(|(path, error)| Failure::new("local", format!("{path}: {error}"), ""));
    failure.iter().for_each(|failure| session::complain(failure, false));
    failure.is_some().into()
}

fn run(typed: Vec<String>) -> Result<Exit, Error> {
    if let Some((called, words)) = typed.split_first()
        && called.rsplit('/').next() == Some("runlevel")
    {
        return verb::runlevel::run(words);
    }
    let mut command = arguments::command();
    let verbs: Vec<String> =
        command.get_subcommands().map(|verb| verb.get_name().to_string()).collect();
    let words = argv_aliases::words(typed, &verbs)?;
    let parsed = command
        .try_get_matches_from_mut(words)
        .and_then(|matches| arguments::Arguments::from_arg_matches(&matches));
    match parsed {
        Ok(arguments) => {
            let session = Session::new(&arguments.common);
            verb::run(&session, arguments.command)
        }
        Err(error) if error.use_stderr() => Err(refused(&error)),
        Err(help) => {
            session::print(&help.render().to_string())?;
            Ok(Exit::Done)
        }
    }
}

/// Converts clap's error: the first line is the message, the rest the hint.
fn refused(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (fact, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let fact: Vec<&str> = fact.lines().map(str::trim).collect();
    let rest = rest.trim().replace("For more information, try '--help'.", "");
    // clap's tip to use `-- --flag` is wrong here: no value starts with `-`.
    let rest = rest.lines().filter(|line| !line.trim_start().starts_with("tip: to pass '"));
    let rest = rest.collect::<Vec<_>>().join("\n");
    Error::usage(fact.join(" "), rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_flag_is_refused_without_the_tip_to_pass_it_as_a_value() {
        for line in ["initctl --no-such-flag", "initctl want web --for -5s", "initctl exit -1"] {
            let Err(Error::Failed(exit, failure)) = run(words(line)) else { panic!("{line}") };
            assert_eq!(exit, Exit::Usage, "{line}");
            assert!(failure.hint.starts_with("Usage: "), "{line}: {}", failure.hint);
        }
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_string).collect()
    }
}

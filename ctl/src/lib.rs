//! `initctl`: asks init and prints. It decides nothing; what it knows comes from the
//! control socket, or, for `check`, `explain` and `graph --units`, from `units` itself.
//! And the same in another tongue: [`systemctl`] and [`journalctl`], for the programs and
//! packages that call those.
//!
//! [`argv_aliases`] rewrites argv into what [`arguments`] can parse; [`verb`] has one file
//! per group of verbs; [`session`] is the way to init, [`exit`] the way out.

mod arguments;
mod argv_aliases;
mod connection;
mod event_stream;
mod exit;
mod files;
mod journalctl;
mod log_source;
mod policy_file;
mod report;
mod session;
mod span;
mod spelling;
mod style;
mod systemctl;
mod verb;
mod waiting;

use crate::exit::{Error, Exit};
use crate::session::Session;
use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;

/// `initctl`, from the words of the command line to the exit status.
pub fn initctl() -> ExitCode {
    let typed: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let json = typed.iter().any(|word| word == "--json");
    let exit = match run(typed) {
        Ok(exit) | Err(Error::Said(exit)) => exit,
        Err(Error::Unread) => Exit::Done,
        Err(Error::Failed(exit, failure)) => {
            session::complain(&failure, json);
            exit
        }
    };
    ExitCode::from(exit as u8)
}

/// `systemctl` or `journalctl`, by the name it is called by.
pub fn shim() -> ExitCode {
    let mut typed = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let called = typed.next().unwrap_or_default();
    let called = called.rsplit('/').next().unwrap_or_default().to_string();
    let words: Vec<String> = typed.collect();
    ExitCode::from(match called.as_str() {
        "journalctl" => journalctl::main(&words),
        "shutdown" | "telinit" | "init" | "runlevel" => return initctl(),
        _ => systemctl::main(&called, &words),
    })
}

fn run(typed: Vec<String>) -> Result<Exit, Error> {
    if let Some((called, words)) = typed.split_first()
        && called.rsplit('/').next() == Some("runlevel")
    {
        return verb::runlevel::run(words);
    }
    let mut command = arguments::Arguments::command();
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

/// clap's complaint as one of ours: the first line is the fact, the rest the hint.
fn refused(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (fact, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let fact: Vec<&str> = fact.lines().map(str::trim).collect();
    let rest = rest.trim().replace("For more information, try '--help'.", "");
    // That `-- --flag` would make a value of it is no help: what is a value here begins with no `-`.
    let rest = rest.lines().filter(|line| !line.trim_start().starts_with("tip: to pass '"));
    let rest = rest.collect::<Vec<_>>().join("\n");
    Error::usage(fact.join(" "), rest.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_that_is_none_is_no_value_either() {
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

//! `fleetd`: the daemon of the cluster on each machine. Its parts are
//! [`cluster::fleetd`]'s; here are its beginning and end and its configuration's files.

use cluster::fleetd::arguments::Arguments;
use cluster::fleetd::config::{Config, DEFAULT_FILE};
use cluster::fleetd::core_dump;
use cluster::fleetd::life::{self, End};
use cluster::log;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    if arguments.word.is_some() {
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), "fleetd version v{}", env!("CARGO_PKG_VERSION"));
        return ExitCode::SUCCESS;
    }
    if let Err(why) = core_dump::forbid() {
        log::error(format_args!("{why}"));
        return ExitCode::FAILURE;
    }
    let read = || match read(arguments.config.as_ref()) {
        Ok((mut config, remarks)) => {
            config.insecure_loopback |= arguments.insecure_loopback_only;
            remarks.iter().for_each(|remark| log::error(format_args!("{remark}")));
            Some(config)
        }
        Err(errors) => {
            errors.iter().for_each(|error| log::error(format_args!("{error}")));
            None
        }
    };
    let Some(config) = read() else { return ExitCode::FAILURE };
    log::set_debug(config.debug);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(life::run(config, read));
            // Tasks that wait for etcd or init are not waited for.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(format!("no runtime: {error}")),
    };
    match ended {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        Ok(End::Anew(passed)) => {
            log::error(format_args!("to go on anew: {}", reexec(&passed)));
            ExitCode::FAILURE
        }
        Err(why) => {
            log::error(format_args!("{why}"));
            ExitCode::FAILURE
        }
    }
}

/// The same process as a new image of the same program; comes back only with why not.
fn reexec(passed: &[OwnedFd]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    for socket in passed {
        // They stand where init put them, from descriptor 3 on.
        if let Err(error) = fcntl(socket, FcntlArg::F_SETFD(FdFlag::empty())) {
            return error.into();
        }
    }
    let mut words = std::env::args_os();
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0(words.next().unwrap_or_default()).args(words);
    if !passed.is_empty() {
        command.env("LISTEN_FDS", passed.len().to_string());
        command.env("LISTEN_PID", std::process::id().to_string());
    }
    command.exec()
}

/// What is text of it: all else is not ours.
///
/// # Errors
/// A variable of ours that is none.
fn environment() -> Result<BTreeMap<String, String>, Vec<String>> {
    let mut all = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => {
                all.insert(name, value);
            }
            Err(_) if name.starts_with("FLEET_") => {
                return Err(vec![format!("{name}: it is no text")]);
            }
            Err(_) => {}
        }
    }
    Ok(all)
}

fn read(given: Option<&PathBuf>) -> Result<(Config, Vec<String>), Vec<String>> {
    let default = PathBuf::from(DEFAULT_FILE);
    let path = given.cloned().or_else(|| default.exists().then_some(default));
    let environment = environment()?;
    let Some(path) = path else { return Config::read(None, &environment) };
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| vec![format!("{shown}: {error}")])?;
    Config::read(Some((&shown, &text)), &environment)
}

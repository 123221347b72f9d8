//! `fleetd`: the cluster daemon of a machine. [`cluster::fleetd`] has its parts; this file reads
//! the configuration and handles start and exit.

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
    if arguments.version_word.is_some() {
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
            // Does not wait for tasks that wait for etcd or init.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(format!("cannot start the runtime: {error}")),
    };
    match ended {
        Ok(End::Stopped) => ExitCode::SUCCESS,
        Ok(End::Reexec(passed)) => {
            log::error(format_args!("cannot re-execute fleetd: {}", reexec(&passed)));
            ExitCode::FAILURE
        }
        Err(why) => {
            log::error(format_args!("{why}"));
            ExitCode::FAILURE
        }
    }
}

/// Re-executes the running program in this process. Returns only on failure.
fn reexec(passed: &[OwnedFd]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    for socket in passed {
        // init passed the sockets from descriptor 3 on, and they are still there.
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

/// Returns the environment variables that are valid text.
///
/// # Errors
/// A variable of fleetd is not valid text.
fn environment() -> Result<BTreeMap<String, String>, Vec<String>> {
    let mut all = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => {
                all.insert(name, value);
            }
            Err(_) if name.starts_with("FLEET_") => {
                return Err(vec![format!("{name}: not valid UTF-8")]);
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

//! Programs of a stand. The kernel kills each of them when the thread that started it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Time limit for an expected event on a slow machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(30);

/// Polls until there is an answer.
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, ask).unwrap_or_else(|| panic!("timed out after {PATIENCE:?}: {what}"))
}

/// Polls for at most this time.
pub(crate) fn within<T>(time: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + time;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        std::thread::park_timeout(PAUSE);
    }
}

/// Checks that a condition stays true for this time.
pub(crate) fn throughout(time: Duration, what: &str, mut so: impl FnMut() -> bool) {
    let broken = within(time, || (!so()).then_some(()));
    assert!(broken.is_none(), "it did not stay so: {what}");
}

/// A program that is killed on drop, or when the thread that started it ends.
pub(crate) struct Running(Child);

impl Running {
    /// Starts a program with its output in `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(words: &[S], log: &Path) -> Running {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).args(words).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running(command.spawn().unwrap_or_else(|error| panic!("setpriv: {error}")))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns its exit code once it has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.0.try_wait().unwrap().map(|status| status.code().unwrap_or(-1))
    }

    /// Kills it, and with it the namespaces that it keeps.
    pub(crate) fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a program to its end.
pub(crate) fn output<S: AsRef<OsStr>>(words: &[S]) -> Output {
    let mut command = Command::new(&words[0]);
    let output = command.args(&words[1..]).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{}: {error}", words[0].as_ref().display()))
}

/// Runs a program that must succeed. Returns its output.
pub(crate) fn call<S: AsRef<OsStr>>(words: &[S]) -> String {
    let output = output(words);
    let line: Vec<_> = words.iter().map(|word| word.as_ref().display().to_string()).collect();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}", line.join(" "));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the path of the real init or initctl.
pub(crate) fn of_init(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return PathBuf::from(path);
    }
    if let Some(init) = std::env::var_os("GROUNDSTATE_INIT") {
        return Path::new(&init).with_file_name(name);
    }
    let own = std::env::current_exe().unwrap();
    let debug = own.ancestors().nth(2).unwrap().join(name);
    assert!(debug.exists(), "{}: build it, or name one in {variable}", debug.display());
    debug
}

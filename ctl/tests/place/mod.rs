//! A folder in which the real `initctl` runs, and its output.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary folder, deleted at the end.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("initctl-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Place(path)
    }

    pub(crate) fn initctl(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_initctl"));
        command.args(words);
        command
    }

    pub(crate) fn program(&self, path: &str) -> Command {
        let mut command = Command::new(path);
        command.current_dir(&self.0).stdin(Stdio::null()).env_clear();
        command.env("GROUNDSTATE_SOCKET", self.0.join("control.sock"));
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns stderr.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

//! A directory for one init: unit files, runtime directory, logs. Removed at the end unless the
//! test failed, so that a failure can be examined.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// The directory. Below it: `units/`, `run/`, `log/`, `init.yaml`, `policy.yaml`.
#[derive(Debug)]
pub struct Sandbox {
    dir: PathBuf,
}

impl Sandbox {
    /// Makes an empty directory that every user may enter.
    pub fn new() -> Sandbox {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("groundstate-test.{}.{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&dir);
        for part in ["units", "run", "log"] {
            fs::create_dir_all(dir.join(part)).expect("a temporary directory");
        }
        for path in [dir.clone(), dir.join("units")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
        }
        Sandbox { dir }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A path in it, as text for a unit file or a command line.
    pub fn at(&self, name: &str) -> String {
        self.path(name).to_str().expect("a temporary directory with a plain name").to_owned()
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes `units/NAME.yaml`. In the text `DAEMON` is replaced by the path of the stand-in
    /// service, `LISTENER` by that of the stand-in for sockets, `DIR` by that of this directory.
    pub fn unit(&self, name: &str, text: &str) -> &Sandbox {
        let text = text.replace("DAEMON", &program("GROUNDSTATE_DAEMON", "daemon"));
        let text = if text.contains("LISTENER") {
            text.replace("LISTENER", &program("GROUNDSTATE_LISTENER", "listener"))
        } else {
            text
        };
        let text = text.replace("DIR", self.dir.to_str().expect("a plain name"));
        let text = format!("unit: {name}\n{}\n", text.trim_start());
        self.put(&format!("units/{name}.yaml"), &text)
    }

    /// Removes `units/NAME.yaml`.
    pub fn remove_unit(&self, name: &str) -> &Sandbox {
        fs::remove_file(self.path(&format!("units/{name}.yaml"))).expect("the unit file exists");
        self
    }

    /// Writes a file atomically.
    pub fn put(&self, name: &str, text: &str) -> &Sandbox {
        let fresh = self.path(&format!(".{}.new", name.replace('/', "_")));
        fs::write(&fresh, text).expect("write");
        fs::rename(&fresh, self.path(name)).expect("rename");
        self
    }

    /// The contents of a file; empty if it does not exist.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The lines of a stand-in's trace file.
    pub fn trace(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// Sends a stand-in an order over its control pipe.
    pub fn order(&self, fifo: &str, order: &str) {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let path = self.path(fifo);
        let mut pipe = crate::deadline::until(&format!("{fifo} has a reader"), || {
            let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
            fs::OpenOptions::new().write(true).custom_flags(flags).open(&path).ok()
        });
        pipe.write_all(format!("{order}\n").as_bytes()).expect("an order fits into the pipe");
    }
}

impl Default for Sandbox {
    fn default() -> Sandbox {
        Sandbox::new()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("left for you to look at: {}", self.dir.display());
        } else {
            // Processes that write here or have mounted a file system must exit first.
            crate::deadline::until(&format!("{} is removed", self.dir.display()), || {
                let removed = fs::remove_dir_all(&self.dir);
                (removed.is_ok() || !self.dir.exists()).then_some(())
            });
        }
    }
}

/// The path of a program under test: from the environment variable that `tests/run` sets, otherwise
/// from the folder of this test program.
pub fn program(variable: &str, name: &str) -> String {
    if let Ok(path) = std::env::var(variable) {
        assert!(Path::new(&path).is_file(), "{variable}={path}: not there");
        return path;
    }
    let mut path = std::env::current_exe().expect("the path of this program");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.push(name);
    assert!(path.is_file(), "{}: not there; cargo build --workspace makes it", path.display());
    path.to_str().expect("a plain path").to_owned()
}

/// A copy of the binary under test, with these bytes replaced.
pub fn copy_of_init(files: &Sandbox, name: &str, replace: Option<(&[u8], &[u8])>) -> String {
    // In an optimized binary a constant may not be contiguous.
    let which = if replace.is_some() { "GROUNDSTATE_DEBUG_INIT" } else { "GROUNDSTATE_INIT" };
    let mut bytes = fs::read(program(which, "init")).expect("the binary can be read");
    if let Some((old, new)) = replace {
        let places: Vec<usize> = bytes
            .windows(old.len())
            .enumerate()
            .filter(|(_, w)| *w == old)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "the binary has these bytes");
        places.into_iter().for_each(|at| bytes[at..at + new.len()].copy_from_slice(new));
    }
    // Copied by another process: a file that is open for writing cannot be executed, and a fork of
    // another test may inherit a descriptor opened here.
    let (text, fresh) = (files.path(&format!(".{name}.bytes")), files.path(&format!(".{name}")));
    fs::write(&text, bytes).expect("write");
    fs::set_permissions(&text, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
    assert!(Command::new("cp").args([&text, &fresh]).status().expect("cp is there").success());
    fs::rename(fresh, files.path(name)).expect("rename");
    files.at(name)
}

//! Values made from files that change while the daemon runs: certificates, keys, revocation lists.
//! If new files cannot be read or do not match, the old value stays and fleetd logs the reason
//! once.

use crate::log;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Identity and time of a file; `None` if it does not exist.
type Stamp = Option<(u64, u64, i64, i64, u64)>;
type Make<T> = Box<dyn Fn() -> Result<T, String> + Send + Sync>;

/// A value that is made again when its files change.
pub struct ReloadedFiles<T> {
    files: Vec<PathBuf>,
    make: Make<T>,
    made: Mutex<Made<T>>,
}

struct Made<T> {
    stamps: Vec<Stamp>,
    value: T,
    fault: String,
}

impl<T: Clone> ReloadedFiles<T> {
    /// Makes the value from the files with `make`.
    ///
    /// # Errors
    /// `make` failed.
    pub fn of(
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<ReloadedFiles<T>, String> {
        let stamps = stamps(&files);
        let made = Made { stamps, value: make()?, fault: String::new() };
        Ok(ReloadedFiles { files, make: Box::new(make), made: Mutex::new(made) })
    }

    /// Returns the value for the current files.
    pub fn get(&self) -> T {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        // Stamps are taken before reading, so that a change during the reading is found the next
        // time.
        let now = stamps(&self.files);
        if now != made.stamps {
            match (self.make)() {
                Ok(value) => {
                    let first = self.files.first().map(|file| file.display().to_string());
                    log::info(format_args!("reloaded {}", first.unwrap_or_default()));
                    *made = Made { stamps: now, value, fault: String::new() };
                }
                Err(fault) if fault != made.fault => {
                    log::error(format_args!("cannot reload, keeping the old files: {fault}"));
                    made.fault = fault;
                }
                Err(_) => {}
            }
        }
        made.value.clone()
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|file| stamp(file)).collect()
}

fn stamp(file: &Path) -> Stamp {
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_reloaded_and_bad_ones_keep_the_old_value() {
        let file = std::env::temp_dir().join(format!("fleet-renewed.{}", std::process::id()));
        let own = file.clone();
        let write = |text: &str| {
            let fresh = file.with_extension("new");
            std::fs::write(&fresh, text).unwrap();
            std::fs::rename(&fresh, &file).unwrap();
        };
        write("one");
        let read = move || {
            let text = std::fs::read_to_string(&own).map_err(|error| error.to_string())?;
            if text == "bad" { Err("no use".to_string()) } else { Ok(text) }
        };
        let renewed = ReloadedFiles::of(vec![file.clone()], read).unwrap();
        assert_eq!(renewed.get(), "one");
        for (there, shown) in [("two", "two"), ("bad", "two"), ("three", "three")] {
            write(there);
            assert_eq!(renewed.get(), shown);
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(renewed.get(), "three");
        write("four");
        assert_eq!(renewed.get(), "four");
        std::fs::remove_file(&file).unwrap();
    }
}

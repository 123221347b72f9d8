//! Patterns of whole paths, gone through name by name; what a pattern of one name matches
//! is [`groundstate_units::text::glob`].

use groundstate_units::text::glob;
use std::path::Path;

/// Some path matches, name by name from the root.
pub(super) fn finds(pattern: &str) -> bool {
    let names: Vec<&str> = pattern.split('/').filter(|name| !name.is_empty()).collect();
    let mut found = vec![std::path::PathBuf::from("/")];
    for name in names {
        if !name.contains(['*', '?', '[', '\\']) {
            found.iter_mut().for_each(|path| path.push(name));
            found.retain(|path| path.symlink_metadata().is_ok());
            continue;
        }
        found = found.iter().flat_map(|path| below(path, name)).take(MOST).collect();
    }
    !found.is_empty()
}

/// Paths followed at one time.
const MOST: usize = 4096;

fn below(path: &Path, pattern: &str) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let fits = |name: &str| glob::matches_file(pattern, name);
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_name_by_name() {
        assert!(finds("/proc/self/stat*"));
        assert!(finds("/pro[c]/self/status"));
        assert!(!finds("/proc/self/status/*"));
        assert!(!finds("/no/such/*"));
    }
}

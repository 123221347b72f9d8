//! A test without its prerequisites (no root, no FUSE, no loop device) passes for libtest but shows
//! nothing. It reports that with [`not_run!`](crate::not_run), and `tests/run` counts it as not
//! run. A table that names the test for a promise then fails, because the promise is not proven.

use std::io::Write;

/// The file with a line for each such test: `PROGRAM::NAME`, a tab, the reason.
/// `tests/stages/stage.sh` sets and reads it.
const LIST: &str = "GROUNDSTATE_NOT_RUN";

/// Records that this test was not run. For [`not_run!`](crate::not_run).
///
/// # Panics
/// If the list cannot be written.
pub fn note(marker: &str, why: &str) {
    let name = name(marker);
    eprintln!("{name} was not run: {why}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
    // One write, because tests run concurrently.
    list.write_all(format!("{name}\t{why}\n").as_bytes()).unwrap();
}

/// The name of the test, from the name of a function within it.
fn name(marker: &str) -> String {
    let whole = marker.trim_end_matches("::marker").trim_end_matches("::{{closure}}");
    whole.trim_start_matches("groundstate_").to_owned()
}

/// Reports that the surrounding test cannot run here.
#[macro_export]
macro_rules! not_run {
    ($why:expr) => {{
        fn marker() {}
        $crate::not_run::note(std::any::type_name_of_val(&marker), $why);
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_is_named_as_by_the_test_runner() {
        fn marker() {}
        // The module of whichever program includes this file.
        let module = module_path!().trim_start_matches("groundstate_");
        let here = format!("{module}::test_is_named_as_by_the_test_runner");
        assert_eq!(name(std::any::type_name_of_val(&marker)), here);
        let within = || {
            fn marker() {}
            name(std::any::type_name_of_val(&marker))
        };
        assert_eq!(within(), here);
    }
}

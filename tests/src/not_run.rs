//! A test that finds nothing to test with (no root, no FUSE, no loop device) has passed as far as
//! libtest can tell, and has shown nothing. It says so with [`not_run!`](crate::not_run), and
//! `tests/run` counts it as not run: what a table promises by it is then not shown.

use std::io::Write;

/// Where each such test is a line, `PROGRAM::NAME`, a tab, why; `tests/stages/stage.sh` sets and reads it.
const LIST: &str = "GROUNDSTATE_NOT_RUN";

/// Notes that this test was not run. For [`not_run!`](crate::not_run).
///
/// # Panics
/// The list can not be written.
pub fn note(marker: &str, why: &str) {
    let name = name(marker);
    eprintln!("{name} was not run: {why}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let mut list = std::fs::OpenOptions::new().append(true).create(true).open(list).unwrap();
    // One write: tests run beside each other.
    list.write_all(format!("{name}\t{why}\n").as_bytes()).unwrap();
}

/// Of the test, from the name of a function within it.
fn name(marker: &str) -> String {
    let whole = marker.trim_end_matches("::marker").trim_end_matches("::{{closure}}");
    whole.trim_start_matches("groundstate_").to_owned()
}

/// Says that the test it stands in can not be run here.
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
    fn a_test_is_named_as_the_runner_names_it() {
        fn marker() {}
        // Of whichever program takes this file in.
        let module = module_path!().trim_start_matches("groundstate_");
        let here = format!("{module}::a_test_is_named_as_the_runner_names_it");
        assert_eq!(name(std::any::type_name_of_val(&marker)), here);
        let within = || {
            fn marker() {}
            name(std::any::type_name_of_val(&marker))
        };
        assert_eq!(within(), here);
    }
}

//! Golden screens: texts that `fleetctl` prints for fixed answers. `GROUNDSTATE_SCREENS=write cargo
//! test` rewrites the files. Tables have fleet's columns at each width.

use super::arguments::Line;
use super::{help, listing};
use clap::CommandFactory;
use std::path::Path;

#[test]
fn screens_are_those_of_the_files() {
    let help = |name: &str, width: usize| {
        let whole = help::with_groups(Line::command());
        let command = whole.find_subcommand(name).unwrap_or(&whole).clone();
        command.term_width(width).render_help().to_string()
    };
    let mut screens: Vec<(String, String)> =
        listing::tests::screens().map(|(name, text)| (format!("{name}.txt"), text)).into();
    for width in [80, 120] {
        screens.push((format!("help.{width}.txt"), help("", width)));
        screens.push((format!("help-drain.{width}.txt"), help("drain", width)));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens");
    let writes = std::env::var_os("GROUNDSTATE_SCREENS").is_some_and(|how| how == "write");
    for (file, text) in screens {
        let path = folder.join(file);
        if writes {
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let how = "GROUNDSTATE_SCREENS=write cargo test writes it";
        assert!(kept == text, "{}: {how}; now:\n{text}", path.display());
    }
}

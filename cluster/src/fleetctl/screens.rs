//! Golden screens: texts that `fleetctl` prints for fixed answers. `GROUNDSTATE_SCREENS=write cargo
//! test` rewrites the files. Only help texts depend on the width: tables have fleet's columns, and
//! the terminal wraps explanations.

use super::arguments::Line;
use super::{help, inspection, listing};
use crate::wire::Why;
use clap::CommandFactory;
use std::path::Path;

/// Returns `why` for a placed unit, an unplaceable one and a global one, for fixed answers.
fn why() -> String {
    let why = |text: &str, machines: &[(&str, &str)]| Why {
        text: text.to_string(),
        machines: machines.iter().map(|(id, why)| (id.repeat(4), why.to_string())).collect(),
        ..Why::default()
    };
    let metadata = ("282f949f", "its metadata has no disk=ssd");
    let conflict = ("5a1b06c2", "web@1.service is on it (Conflicts=web@*.service)");
    let failed = ("5a1b06c2", "failed (failed): its process exited with status 3");
    let cases = [
        ("web.service", why("it is on 282f949f282f949f282f949f282f949f", &[])),
        ("ssd.service", why("no machine of 2 can have it", &[metadata, conflict])),
        ("monitor.service", why("it is global: active on 1 of 2 machines, failed on 1", &[failed])),
    ];
    cases.map(|(name, why)| inspection::explained(name, &why) + "\n").concat()
}

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
        for command in ["drain", "why", "list-unit-files"] {
            screens.push((format!("help-{command}.{width}.txt"), help(command, width)));
        }
    }
    screens.push(("why.txt".to_string(), why()));
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

//! The man pages and completions in `contrib` are up to date.

use std::path::Path;
use std::process::Command;

fn written(words: &[&str]) -> String {
    let mut fleetctl = Command::new(env!("CARGO_BIN_EXE_fleetctl"));
    fleetctl.args(words).env("FLEETCTL_ENDPOINT", "unix:///of/this/machine").env("COLUMNS", "50");
    String::from_utf8(fleetctl.output().unwrap().stdout).unwrap()
}

#[test]
fn documents_in_contrib_equal_those_of_fleetctl() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib");
    for program in ["fleetctl", "fleetd"] {
        for (file, words) in [
            (format!("completions/{program}.bash"), &["completions", "bash", program][..]),
            (format!("completions/_{program}"), &["completions", "zsh", program]),
            (format!("completions/{program}.fish"), &["completions", "fish", program]),
            (format!("man/{program}.8"), &["man", program]),
        ] {
            let kept = std::fs::read_to_string(top.join(&file)).unwrap_or_default();
            let how = format!("regenerate it: fleetctl {} > contrib/{file}", words.join(" "));
            assert!(kept == written(words), "{how}");
        }
    }
}

#[test]
fn man_pages_have_every_command_flag_and_key() {
    let page = written(&["man"]);
    for what in ["rollout", "\\-\\-no\\-rollback", "\\-\\-block\\-attempts", "FLEETCTL_SIGN_KEY"] {
        assert!(page.contains(what), "{what}");
    }
    let page = written(&["man", "fleetd"]);
    for what in ["\\-\\-config", "agent_ttl", "etcd_servers", "FLEET_KEY"] {
        assert!(page.contains(what), "{what}");
    }
}

//! Unit files that break the loader: it hangs, dies, or its result is too large. At boot such a
//! file fails only its own units, and the rest starts.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::deadline::{until, within};
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::json;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Boots an init whose loader hangs at unit files with `hangs` in their names and dies of those
/// with `dies`.
fn boot(files: Sandbox, target: &str) -> Init {
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    let boot = Boot::new(files).binary(&binary).variable("GROUNDSTATE_LOADER_BUG", "1");
    let mut init = boot.launch(target);
    let booted = within(Duration::from_secs(120), || {
        let status = init.client()?.ask("status", &json!({})).ok()?;
        (status["generation"].as_u64() > Some(0)).then_some(())
    });
    assert!(booted.is_some(), "no units were loaded: {}", init.output());
    init.answers();
    init
}

#[test]
fn files_that_hang_or_kill_the_loader_break_only_their_units_at_boot() {
    let files = Sandbox::new();
    files.unit("base", "wants: [web, hangs, dies, hangs.service]\nexec-start: DAEMON");
    files.unit("web", "exec-start: DAEMON");
    files.unit("hangs", "exec-start: DAEMON");
    files.unit("dies", "exec-start: DAEMON");
    files.put("units/hangs.service", "[Service]\nExecStart=/bin/sleep 1000000\n");
    let init = boot(files, "base");
    let status = init.when_state("web", "running");
    for unit in ["hangs", "dies", "hangs.service"] {
        assert_eq!(status.state(unit), "failed", "{}", status.table());
    }
    let output = init.output();
    let how = [
        ("hangs.yaml", "took longer than 8 s"),
        ("hangs.service", "took longer than 8 s"),
        ("dies.yaml", "the loader exited with 70"),
    ];
    for (file, how) in how {
        let is_it = |line: &str| line.contains("this file is left out") && line.contains(file);
        let said = output.lines().any(|line| is_it(line) && line.contains(how));
        assert!(said, "{file}: {output}");
    }
    init.finish();
}

#[test]
fn reload_with_a_file_that_hangs_the_loader_is_refused_and_names_the_file() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    let init = boot(files, "base");
    let before = init.when_state("base", "running");
    init.sandbox.unit("hangs", "exec-start: DAEMON");
    let (code, said) = init.initctl_json(&["reload"]);
    assert_eq!(code, 65, "{said}");
    assert!(said.to_string().contains("hangs.yaml"), "{said}");
    assert!(said.to_string().contains("took longer than 8 s"), "{said}");
    assert_eq!(init.status().main_pid("base"), before.main_pid("base"));
    init.sandbox.remove_unit("hangs");
    init.tell("reload", &json!({}));
    init.finish();
}

#[test]
fn source_that_hangs_the_loader_gives_way_to_root_and_then_waits() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.put("init.yaml", "sources:\n  fleet: {uid: 65534}\n");
    files.unit("base", "exec-start: DAEMON");
    files.put("hangs.yaml", "unit: hangs\n");
    files.put("fine.yaml", "unit: fine\n");
    let init = boot(files, "base");
    init.when_state("base", "running");
    let initctl = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program("GROUNDSTATE_INITCTL", "initctl"));
        command.args(["--socket", &init.sandbox.at("run/control.sock"), "source", "put", "fleet"]);
        command
    };
    let text = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let loaders = || init.process().children().len();
    let at_rest = loaders();
    let mut put = initctl();
    put.arg(init.sandbox.at("hangs.yaml")).stderr(Stdio::piped());
    let put = put.spawn().expect("setpriv runs");
    until("the source is being loaded", || (loaders() > at_rest).then_some(()));
    // The put gives way to the reload, and is then repeated.
    init.tell("reload", &json!({}));
    let refused = put.wait_with_output().expect("it ends");
    assert_eq!(refused.status.code(), Some(65), "{}", text(&refused));
    assert!(
        text(&refused).contains("hangs.yaml: loading it took longer than 8 s"),
        "{}",
        text(&refused)
    );
    let later = initctl().arg(init.sandbox.at("fine.yaml")).output().expect("setpriv runs");
    assert_eq!(later.status.code(), Some(65), "{}", text(&later));
    assert!(text(&later).contains("took too long to load: retry in"), "{}", text(&later));
    init.finish();
}

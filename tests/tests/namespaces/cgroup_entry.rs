//! How a child enters the cgroup of its run: by clone, or by its own write where clone cannot do it.
//! A child that does not enter is never executed. Other child set-up is in [`super::restriction`].

use super::child_setup::is_root;
use super::restriction::begin;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::injected;
use serde_json::json;
use std::fs;

/// Units by how init creates the child of their last command. The first child shares init's memory.
/// The second has a copy, because the cgroup already has a process. The third is forked, because it
/// has to read a file before the exec.
const KINDS: [(&str, &str, &str); 3] =
    [("sharing", "", ""), ("copied", "", "/bin/true, "), ("forked", "env-file: DIR/env", "")];
const ALL: [&str; 3] = ["sharing", "copied", "forked"];
/// Errors of clone3(2) when a cgroup does not accept a child.
const ABOUT_CGROUPS: [(&str, i32); 4] =
    [("EBUSY", 16), ("EACCES", 13), ("EOPNOTSUPP", 95), ("ENODEV", 19)];
/// Errors of clone3(2) when a filter refuses the call.
const REFUSED_BY_A_FILTER: [&str; 2] = ["ENOSYS", "EPERM"];
/// The file that a child writes to enter its cgroup; only the child opens it by that name.
const BY_ITS_OWN_HAND: [&str; 4] = ["-P", "cgroup.procs", "-e", "trace=openat"];

fn started() -> Init {
    let files = Sandbox::new();
    files.put("env", "A=b\n");
    files.unit("base", "exec-start: DAEMON");
    for (name, asks, first) in KINDS {
        let run = format!("[{first}/bin/sh -c 'cat /proc/self/cgroup >DIR/{name}']");
        files.unit(name, &format!("type: oneshot\n{asks}\nexec-start: {run}"));
    }
    // With an OOM score of its own init does not share its memory with a child.
    let init = Boot::new(files).arguments(&["--oom-score=keep"]).start("base");
    init.when_system("running");
    init
}

/// The cgroup in which the program of the unit has run since the last call; empty if it has not
/// run.
fn place(init: &Init, unit: &str) -> String {
    let said = init.sandbox.read(unit);
    let _ = fs::remove_file(init.sandbox.path(unit));
    said.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned()
}

/// Starts the units while strace runs with these arguments, which select the calls that fail. With
/// `refused`, each start is refused at that step with that error. With `None`, each unit runs in
/// its cgroup.
fn assert_told(init: &Init, units: &[&str], arguments: &[&str], refused: Option<(&str, i32)>) {
    let (status, lines) = begin(init, units, "trace", arguments);
    assert!(arguments.len() < 3 || injected(&lines) > 0, "{arguments:?}: {lines:?}");
    for unit in units {
        let (reason, place) = (&status.unit(unit)["reason"], place(init, unit));
        match refused {
            Some((stage, errno)) => {
                assert_eq!(place, "", "{arguments:?}: {unit} ran");
                let told = (&reason["kind"], &reason["stage"], &reason["errno"]);
                let expected = (&json!("exec"), &json!(stage), &json!(errno));
                // The start of a later command reports the step in words.
                let in_words = reason["text"] == format!("{stage}: {unit}");
                assert!(told == expected || in_words, "{arguments:?}: {unit}: {reason} {lines:?}");
            }
            None => {
                assert!(is_its(&place, unit), "{arguments:?}: {unit} is in {place:?}: {reason}")
            }
        }
    }
}

/// Returns true for a cgroup below init's, of a run of this unit.
fn is_its(place: &str, unit: &str) -> bool {
    place.contains("/groundstate")
        && place.rsplit('/').any(|name| name.split(['.', '@']).next() == Some(unit))
}

#[test]
fn child_that_cannot_enter_its_cgroup_is_never_executed() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = started();
    if init.status().0["tracking"] != "cgroup2" {
        init.finish();
        return groundstate_tests::not_run!("no cgroup v2 here");
    }
    let clone3 = |what: &str| ["-e", "trace=clone3", "-e", what].map(str::to_owned);
    let fails = |init: &Init, unit: &str, error: &str, refused| {
        // The first command of this unit is started like those of the other units.
        let nth = if unit == "copied" { ":when=2" } else { "" };
        let arguments = clone3(&format!("inject=clone3:error={error}{nth}"));
        assert_told(init, &[unit], &arguments.each_ref().map(String::as_str), refused);
    };
    let own_hand = [&BY_ITS_OWN_HAND[..], &["-e", "inject=openat:error=EACCES"]].concat();
    assert_told(&init, &ALL, &["-e", "trace=none"], None);
    for (error, errno) in ABOUT_CGROUPS {
        for unit in ["sharing", "copied"] {
            fails(&init, unit, error, Some(("cgroup", errno)));
        }
    }
    assert_told(&init, &["forked"], &own_hand, Some(("cgroup", 13)));
    // clone3(2) worked when init started.
    fails(&init, "sharing", "ENOSYS", Some(("fork", 38)));
    assert_told(&init, &ALL, &["-e", "trace=none"], None);
    init.finish();
    for error in REFUSED_BY_A_FILTER {
        let init = started();
        fails(&init, "copied", error, None);
        // From here each child enters its cgroup by its own write.
        assert_told(&init, &ALL, &own_hand, Some(("cgroup", 13)));
        assert_told(&init, &ALL, &["-e", "trace=none"], None);
        init.finish();
    }
}

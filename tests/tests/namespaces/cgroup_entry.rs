//! How a child enters the cgroup of its run: by clone, or by its own write where clone cannot do it.
//! A child that does not enter is never executed. Other child set-up is in [`super::restriction`].

use super::child_setup::is_root;
use super::restriction::begin;
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::injected;
use serde_json::json;
use std::fs;

/// Units by how the child of their last line is made: it shares init's memory for a while; it has a copy of
/// that, for somebody is in its cgroup already; it is forked, for it has to think before it is executed.
const KINDS: [(&str, &str, &str); 3] =
    [("sharing", "", ""), ("copied", "", "/bin/true, "), ("forked", "env-file: DIR/env", "")];
const ALL: [&str; 3] = ["sharing", "copied", "forked"];
/// What clone3(2) says where a cgroup does not take a child.
const ABOUT_CGROUPS: [(&str, i32); 4] =
    [("EBUSY", 16), ("EACCES", 13), ("EOPNOTSUPP", 95), ("ENODEV", 19)];
/// What it says where it is not to be had.
const NOT_HAD: [&str; 4] = ["ENOSYS", "EPERM", "EINVAL", "E2BIG"];
/// The file that a child writes itself into; nobody else opens it by that name alone.
const BY_ITS_OWN_HAND: [&str; 4] = ["-P", "cgroup.procs", "-e", "trace=openat"];

fn started() -> Init {
    let files = Sandbox::new();
    files.put("env", "A=b\n");
    files.unit("base", "exec-start: DAEMON");
    for (name, asks, first) in KINDS {
        let run = format!("[{first}/bin/sh -c 'cat /proc/self/cgroup >DIR/{name}']");
        files.unit(name, &format!("type: oneshot\n{asks}\nexec-start: {run}"));
    }
    // With a score of its own init shares its memory with nobody.
    let init = Boot::new(files).arguments(&["--oom-score=keep"]).start("base");
    init.when_system("running");
    init
}

/// Where its program has run since this was asked last; nothing: it has not.
fn place(init: &Init, unit: &str) -> String {
    let said = init.sandbox.read(unit);
    let _ = fs::remove_file(init.sandbox.path(unit));
    said.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default().to_owned()
}

/// These begin with such calls failing: all are refused at this step with this error, or, where there is
/// none, are where they belong.
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
                // Of a line that is not the first the step is told in words.
                let in_words = reason["text"] == format!("{stage}: {unit}");
                assert!(told == expected || in_words, "{arguments:?}: {unit}: {reason} {lines:?}");
            }
            None => {
                assert!(is_its(&place, unit), "{arguments:?}: {unit} is in {place:?}: {reason}")
            }
        }
    }
}

/// A cgroup below init's, of a run of this unit.
fn is_its(place: &str, unit: &str) -> bool {
    place.contains("/groundstate")
        && place.rsplit('/').any(|name| name.split(['.', '@']).next() == Some(unit))
}

#[test]
fn a_child_that_does_not_come_into_its_cgroup_is_never_executed_whichever_way_it_takes() {
    if !is_root() {
        return groundstate_tests::not_run!("it takes root");
    }
    let init = started();
    if init.status().0["tracking"] != "cgroup2" {
        init.finish();
        return groundstate_tests::not_run!("no cgroups of the second kind here");
    }
    let clone3 = |what: &str| ["-e", "trace=clone3", "-e", what].map(str::to_owned);
    let fails = |init: &Init, unit: &str, error: &str, refused| {
        // The first line of this one is like those of the others.
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
    // It was to be had when init began.
    fails(&init, "sharing", "ENOSYS", Some(("fork", 38)));
    assert_told(&init, &ALL, &["-e", "trace=none"], None);
    init.finish();
    for error in NOT_HAD {
        let init = started();
        fails(&init, "copied", error, None);
        // From now on each of them comes in by its own hand.
        assert_told(&init, &ALL, &own_hand, Some(("cgroup", 13)));
        assert_told(&init, &ALL, &["-e", "trace=none"], None);
        init.finish();
    }
}

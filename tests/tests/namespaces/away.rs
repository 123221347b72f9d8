//! What lives while an init begins anew and its unit has no file just then (an editor's rename, a package's
//! upgrade, a mount that is late), or nobody's wish any more: it is taken up when the unit is there
//! again, and is begun a second time by nothing. What has a file is in [`super::beside`].

use super::beside::{begins_anew, is_steady, loses_its_state, with};
use super::crash::{crashes, has_survived, starts};
use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::crash::Fault;
use groundstate_tests::deadline::until;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// No cgroups.
pub(super) const BARE: &str =
    "umount -l /sys/fs/cgroup/unified 2>/dev/null; umount -R -l /sys; exec \"$@\"";

pub(super) const WEB: &str = "exec-start: DAEMON --trace DIR/web.trace --control DIR/web";

pub(super) fn moves(init: &Init, from: &str, to: &str) {
    fs::rename(init.sandbox.path(from), init.sandbox.path(to)).expect("it is there");
}

fn is_no_unit(status: &Status, unit: &str) -> bool {
    let units = status.0["units"].as_array().expect("there are units");
    units.iter().all(|one| one["unit"] != unit)
}

/// The unit's file goes, and init begins anew.
fn begins_without(init: &Init, unit: &str) {
    is_steady(init);
    moves(init, &format!("units/{unit}.yaml"), "hidden");
    begins_anew(init);
    init.when("it is no unit", |s| is_no_unit(s, unit));
}

/// The file is back: what lives is the unit's, and it alone.
fn is_taken_up(init: &Init, unit: &str, main: Process) {
    moves(init, "hidden", &format!("units/{unit}.yaml"));
    init.tell("reload", &json!({}));
    init.when_state(unit, "running");
    assert_eq!((init.main_of(unit), starts(init, "web")), (main, 1), "{}", init.output());
}

#[test]
fn what_its_mark_alone_names_is_taken_up_when_the_file_of_its_unit_is_back() {
    let lone = "type: background-pidfile\nmain-pid: none\nexec-start: /bin/sh -c 'echo start >>DIR/lone.trace; setsid /bin/sh -c \"setsid sleep 1234 &\"'";
    let init = running(with(&[("web", WEB), ("lone", lone)]), &["/bin/sh", "-c", BARE, "sh"]);
    init.when_state("lone", "running");
    let [daemon] = init.processes_of("lone")[..] else { panic!("it is alone") };
    init.sandbox.unit("all", "type: virtual\nwaits-for: web, lone?, tick");
    begins_without(&init, "lone");
    // Nor is it taken for what another has left.
    init.main_of("web").signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    is_steady(&init);
    moves(&init, "hidden", "units/lone.yaml");
    init.sandbox.unit("all", "type: virtual\nwaits-for: web, lone, tick");
    init.tell("reload", &json!({}));
    init.when_state("lone", "running");
    assert_eq!((init.processes_of("lone"), starts(&init, "lone")), (vec![daemon], 1));
    init.tell("restart", &json!({"targets": ["lone"]}));
    init.when("it is another", |s| s.state("lone") == "running" && starts(&init, "lone") == 2);
    assert!(!daemon.is_alive(), "{}", init.output());
    init.finish_after_crash();
}

/// What the machine was told is not noted any more.
fn loses_its_wishes(init: &Init) {
    // Whose each socket is stands behind it.
    const INTENT: u64 = 64 * 1024 + 32 * 1024;
    let process = init.process();
    let number = process.files().into_iter().find(|(_, file)| file.contains("memfd:notes"));
    let path = format!("/proc/{}/fd/{}", process.0, number.expect("there are notes").0);
    let notes = File::options().write(true).open(path).unwrap();
    let at = notes.metadata().unwrap().len() - INTENT;
    notes.write_all_at(&[0; 64], at).unwrap();
}

pub(super) fn running(files: Sandbox, wrapper: &[&str]) -> Init {
    let mut init = Boot::new(files).through(wrapper).start("all");
    init.expect_crashes();
    init.when_state("web", "running");
    until("it has begun", || (starts(&init, "web") == 1).then_some(()));
    init
}

#[test]
fn a_unit_whose_file_is_away_as_init_begins_anew_is_taken_up_when_it_is_back() {
    for wrapper in [&[][..], &["/bin/sh", "-c", BARE, "sh"]] {
        let init = running(with(&[("web", WEB)]), wrapper);
        let main = init.main_of("web");
        begins_without(&init, "web");
        // Nor is it begun, or forgotten, by a load that does not bring it.
        init.sandbox.unit("all", "type: virtual\nwaits-for: web?, tick");
        init.tell("reload", &json!({}));
        is_taken_up(&init, "web", main);
        main.signal(Signal::SIGKILL);
        init.when("it is looked after", |s| {
            s.state("web") == "running" && starts(&init, "web") == 2
        });
        init.finish_after_crash();
    }
}

#[test]
fn a_daemon_is_its_own_units_without_cgroups_though_another_service_ends() {
    const FORKED: &str = r#"echo start >>$1/forked.trace
setsid /bin/sh -c 'sleep 1000 & sleep 1000 & echo $$ >$0/forked.pid; wait' $1 &
until [ -s $1/forked.pid ]; do sleep 0.02; done
"#;
    let text = "type: background-pidfile\npid-file: DIR/forked.pid\nwaits-for: web\nexec-start: /bin/sh DIR/forked.sh DIR";
    for is_away in [false, true] {
        let files = with(&[("web", WEB), ("forked", text)]);
        files.put("forked.sh", FORKED);
        // A job that ends as the daemon is left may be taken for whose it is.
        files.unit("tick", "type: timer\nwaits-for: forked?\ntimer-unit-active: 200ms\ntimer-active: 100ms\nactivates: job");
        let init = running(files, &["/bin/sh", "-c", BARE, "sh"]);
        init.when_state("forked", "running");
        let (web, main) = (init.main_of("web"), init.main_of("forked"));
        if is_away {
            init.sandbox.unit("all", "type: virtual\nwaits-for: web, forked?, tick");
            begins_without(&init, "forked");
        } else {
            begins_anew(&init);
            init.when("both are up", |s| {
                s.state("forked") == "running" && s.state("web") == "running"
            });
        }
        // It began before the other, and looks as what that has left.
        web.signal(Signal::SIGKILL);
        init.when("it is replaced", |s| s.state("web") == "running" && starts(&init, "web") == 2);
        assert!(main.is_alive(), "{}", init.output());
        if is_away {
            moves(&init, "hidden", "units/forked.yaml");
        }
        init.sandbox.unit("all", "type: virtual\nwaits-for: web, forked");
        init.tell("reload", &json!({}));
        init.when("it is there, and no job is", |s| {
            let ended = ["tick", "job"].iter().all(|unit| s.state(unit) == "disabled");
            ended && s.state("forked") == "running"
        });
        assert_eq!((init.main_of("forked"), starts(&init, "forked")), (main, 1));
        // What it has begun ends with it.
        let workers = main.children();
        assert_eq!(workers.len(), 2);
        init.tell("restart", &json!({"targets": ["forked"]}));
        init.when("it is another", |s| {
            s.state("forked") == "running" && starts(&init, "forked") == 2
        });
        assert!(!workers.iter().any(|worker| worker.is_alive()), "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn a_daemon_is_its_own_units_without_cgroups_though_another_ends_before_its_launcher() {
    const FORKED: &str = r#"echo start >>$1/forked.trace
(setsid /bin/sh -c 'sleep 1000 & echo $$ >$0/forked.pid; wait' $1 &)
until [ -s $1/forked.pid ]; do sleep 0.02; done
until [ -e $1/go ]; do sleep 0.02; done
"#;
    let files = with(&[
        ("web", WEB),
        (
            "forked",
            "type: background-pidfile\npid-file: DIR/forked.pid\nexec-start: /bin/sh DIR/forked.sh DIR",
        ),
    ]);
    files.put("forked.sh", FORKED);
    let init = running(files, &["/bin/sh", "-c", BARE, "sh"]);
    until("the daemon is there", || init.sandbox.path("forked.pid").exists().then_some(()));
    // It began when there was a daemon without a parent already, or before: then it is not its either.
    init.main_of("web").signal(Signal::SIGKILL);
    init.when("it is replaced", |s| s.state("web") == "running" && starts(&init, "web") == 2);
    init.sandbox.put("go", "");
    init.when_state("forked", "running");
    let main = init.main_of("forked");
    assert_eq!(init.sandbox.trace("forked.trace").len(), 1, "{}", init.output());
    init.main_of("web").signal(Signal::SIGKILL);
    init.when("it is replaced again", |s| s.state("web") == "running" && starts(&init, "web") == 3);
    assert!(main.is_alive());
    let worker = main.children();
    init.tell("restart", &json!({"targets": ["forked"]}));
    init.when("it is another", |s| {
        s.state("forked") == "running" && init.main_of("forked") != main
    });
    assert!(!worker.iter().any(|one| one.is_alive()) && !main.is_alive(), "{}", init.output());
    init.finish();
}

#[test]
fn a_name_that_is_too_long_for_its_cgroup_is_known_when_the_file_is_back() {
    let long = "w".repeat(230);
    let init =
        running(with(&[("web", WEB), (&long, "exec-start: DAEMON --trace DIR/long.trace")]), &[]);
    init.when_state(&long, "running");
    let main = init.main_of(&long);
    begins_without(&init, &long);
    moves(&init, "hidden", &format!("units/{long}.yaml"));
    init.tell("reload", &json!({}));
    init.when_state(&long, "running");
    assert_eq!((init.main_of(&long), starts(&init, "long")), (main, 1), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn an_instance_whose_wish_is_lost_is_taken_up_and_so_it_is_without_its_template() {
    for is_away in [false, true] {
        let files = with(&[("web", WEB)]);
        files.unit("job@", "exec-start: DAEMON --trace DIR/instance.trace");
        let init = running(files, &[]);
        init.tell("want", &json!({"target": "job@x"}));
        init.when_state("job@x", "running");
        until("it has begun", || (starts(&init, "instance") == 1).then_some(()));
        let main = init.main_of("job@x");
        is_steady(&init);
        loses_its_wishes(&init);
        if is_away {
            moves(&init, "units/job@.yaml", "hidden");
        }
        begins_anew(&init);
        if is_away {
            init.when_state("web", "running");
            moves(&init, "hidden", "units/job@.yaml");
            init.tell("want", &json!({"target": "job@x"}));
        }
        init.when_state("job@x", "running");
        assert_eq!(
            (init.main_of("job@x"), starts(&init, "instance")),
            (main, 1),
            "{}",
            init.output()
        );
        init.finish_after_crash();
    }
}

#[test]
fn who_says_by_a_descriptor_that_it_is_ready_is_heard_whenever_it_says_it() {
    let files = with(&[("web", WEB)]);
    for unit in ["soon", "late"] {
        let text = "ready-fd: 7\nexec-start: /bin/sh -c 'echo start >>DIR/NAME.trace; until [ -e DIR/NAME.go ]; do sleep 0.05; done; echo up >&7 || exit 1; exec 7>&-; echo up >>DIR/NAME.trace; exec sleep 1000'";
        files.unit(unit, &text.replace("NAME", unit));
    }
    files.unit("all", "type: virtual\nwaits-for: web, tick, soon, late?");
    let init = running(files, &[]);
    until("both have begun", || {
        (starts(&init, "soon") == 1 && starts(&init, "late") == 1).then_some(())
    });
    begins_without(&init, "late");
    init.when_state("soon", "starting");
    init.sandbox.put("soon.go", "");
    init.when_state("soon", "running");
    // It is heard by another image too.
    is_steady(&init);
    init.tell("upgrade", &json!({}));
    is_steady(&init);
    // The other says it while it has no file.
    init.sandbox.put("late.go", "");
    until("it has said so", || (init.sandbox.trace("late.trace").len() == 2).then_some(()));
    moves(&init, "hidden", "units/late.yaml");
    init.tell("reload", &json!({}));
    init.when_state("late", "running");
    assert_eq!((starts(&init, "soon"), starts(&init, "late")), (1, 1), "{}", init.output());
    init.finish_after_crash();
}

#[test]
fn who_writes_stands_still_for_nobody_where_init_has_given_up_before_it_read_a_file() {
    let text = "exec-start: /bin/sh -c 'while printf %0130000d 0 && echo; do echo x >>DIR/talks.trace; sleep 0.1; done'";
    let files = with(&[("talks", text)]);
    let there = format!("each beginning {}", files.at("now"));
    let binary = program("GROUNDSTATE_DEBUG_INIT", "init");
    let boot = Boot::new(files).binary(&binary).variable("GROUNDSTATE_CRASH_IN", &there);
    let mut init = boot.unrecorded().start("all");
    init.expect_crashes();
    init.when_state("talks", "running");
    let talker = init.main_of("talks");
    is_steady(&init);
    init.sandbox.put("now", "");
    loses_its_state(&init);
    until("it gives up", || init.output().contains("can not go on").then_some(()));
    let said = init.sandbox.trace("talks.trace").len();
    // Each time more than a pipe takes.
    until("it goes on", || (init.sandbox.trace("talks.trace").len() > said + 1).then_some(()));
    assert!(talker.is_alive());
    init.process().signal(Signal::SIGTERM);
    assert_eq!(init.ended().code(), Some(0));
}

#[test]
fn all_unit_files_may_be_away_as_init_begins_anew() {
    for wrapper in [&[][..], &["/bin/sh", "-c", BARE, "sh"]] {
        let init = running(
            with(&[
                ("web", WEB),
                ("done", "type: oneshot\nexec-start: /bin/sh -c 'echo x >>DIR/done.trace'"),
            ]),
            wrapper,
        );
        init.when_state("done", "exited");
        let main = init.main_of("web");
        is_steady(&init);
        moves(&init, "units", "hidden");
        fs::create_dir(init.sandbox.path("units")).unwrap();
        begins_anew(&init);
        fs::remove_dir(init.sandbox.path("units")).unwrap();
        moves(&init, "hidden", "units");
        init.tell("reload", &json!({}));
        init.when("all is as it was", |s| {
            s.state("web") == "running" && s.state("done") == "exited"
        });
        // Nothing has taken the goal's place.
        assert_eq!(init.status().0["goal"], json!(["all"]), "{}", init.output());
        assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
        assert_eq!(init.sandbox.trace("done.trace").len(), 1, "{}", init.output());
        init.finish_after_crash();
    }
}

#[test]
fn what_has_ended_while_its_file_was_away_is_not_wished_for_when_it_is_back() {
    let files = with(&[("web", WEB)]);
    files.unit("extra", "exec-start: DAEMON --trace DIR/extra.trace");
    let init = running(files, &[]);
    init.tell("want", &json!({"target": "extra"}));
    init.when_state("extra", "running");
    let extra = init.main_of("extra");
    is_steady(&init);
    loses_its_wishes(&init);
    begins_without(&init, "extra");
    extra.signal(Signal::SIGKILL);
    until("it is gone", || (!extra.is_alive()).then_some(()));
    moves(&init, "hidden", "units/extra.yaml");
    init.tell("reload", &json!({}));
    init.when_state("extra", "disabled");
    assert_eq!(init.status().0["overlay"]["want"].as_array().map_or(0, Vec::len), 0);
    init.tell("want", &json!({"target": "extra"}));
    init.when("it is begun", |s| s.state("extra") == "running" && starts(&init, "extra") == 2);
    init.finish_after_crash();
}

#[test]
fn what_is_away_is_known_over_an_upgrade_a_crash_and_another_beginning_anew() {
    for wrapper in [&[][..], &["/bin/sh", "-c", BARE, "sh"]] {
        let init = running(with(&[("web", WEB)]), wrapper);
        let main = init.main_of("web");
        begins_without(&init, "web");
        is_steady(&init);
        init.tell("upgrade", &json!({}));
        is_steady(&init);
        let times = crashes(&init);
        Fault::ALL[0].strike(&init);
        has_survived(&init, times + 1);
        until("it says so", || init.output().contains("it goes on where it was").then_some(()));
        assert!(main.is_alive(), "{}", init.output());
        is_taken_up(&init, "web", main);
        // The same where the state is lost after an upgrade.
        begins_without(&init, "web");
        is_steady(&init);
        init.tell("upgrade", &json!({}));
        begins_anew(&init);
        init.when("it is no unit", |s| is_no_unit(s, "web"));
        is_taken_up(&init, "web", main);
        init.finish_after_crash();
    }
}

#[test]
fn what_lives_of_a_broken_file_is_known_over_an_upgrade_and_a_crash() {
    let init = running(with(&[("web", WEB)]), &[]);
    let main = init.main_of("web");
    init.sandbox.put("units/web.yaml", "unit: web\nexec-start: [\n");
    begins_anew(&init);
    is_steady(&init);
    init.tell("upgrade", &json!({}));
    is_steady(&init);
    let times = crashes(&init);
    Fault::ALL[0].strike(&init);
    has_survived(&init, times + 1);
    init.sandbox.unit("web", WEB);
    init.tell("reload", &json!({}));
    init.when_state("web", "running");
    assert_eq!((init.main_of("web"), starts(&init, "web")), (main, 1), "{}", init.output());
    init.finish_after_crash();
}

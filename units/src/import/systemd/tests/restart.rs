//! Restarts of a service, and limits of its starts.

use super::*;

fn notes(imported: &Imported) -> Vec<(u32, String)> {
    said(imported, Severity::Note)
}

#[test]
fn restart_delay_is_constant_by_default() {
    for (text, delay) in [
        ("", "100ms"),
        ("RestartSec=5\n", "5s"),
        ("RestartSec=5min 20s\n", "5min 20s"),
        ("RestartSec=0\n", "0s"),
    ] {
        let web = service(&format!("Restart=on-failure\n{text}"));
        assert_eq!(values(&web, "restart-delay"), [delay], "{text}");
        assert_eq!(values(&web, "restart-delay-max"), [delay], "{text}");
    }
}

#[test]
fn restart_forced_by_an_exit_status_has_the_same_delay() {
    let web = service("RestartForceExitStatus=75\nRestartSec=3s\n");
    assert_eq!(values(&web, "restart"), ["never"]);
    assert_eq!(values(&web, "restart-also"), ["75"]);
    assert_eq!(values(&web, "restart-delay"), ["3s"]);
    assert_eq!(values(&web, "restart-delay-max"), ["3s"], "it does not grow");
    assert!(values(&service("RestartSec=3s\n"), "restart-delay").is_empty());
}

#[test]
fn every_name_of_an_exit_status_and_every_signal_is_parsed() {
    let names = "SUCCESS FAILURE NOTRUNNING TEMPFAIL CONFIG CHDIR MEMORY OOM_ADJUST STDERR PAM \
                 NAMESPACE SECCOMP APPARMOR_PROFILE ADDRESS_FAMILIES RUNTIME_DIRECTORY CHOWN \
                 CREDENTIALS BPF EXCEPTION 250 SIGKILL RTMIN+3";
    let numbers = [
        "0", "1", "7", "75", "78", "200", "204", "206", "222", "224", "226", "228", "231", "232",
        "233", "235", "243", "245", "255", "250", "KILL", "RTMIN+3",
    ];
    for (name, key) in
        [("RestartPreventExitStatus", "restart-except"), ("RestartForceExitStatus", "restart-also")]
    {
        let web = service(&format!("{name}={names}\n"));
        clean(&web);
        assert_eq!(values(&web, key), numbers, "{name}");
    }
    let web = service("Type=oneshot\nSuccessExitStatus=TEMPFAIL 250 SIGKILL\n");
    assert_eq!(values(&web, "success-status"), ["0", "75", "250", "KILL"], "of a oneshot");
    let bad = service("SuccessExitStatus=256 SIGNOTHING\n");
    assert_eq!(said(&bad, Severity::Warning).len(), 2);
}

#[test]
fn lists_of_exit_statuses_are_merged_and_reset() {
    for (name, key, before) in [
        ("SuccessExitStatus", "success-status", 5),
        ("RestartPreventExitStatus", "restart-except", 0),
        ("RestartForceExitStatus", "restart-also", 0),
    ] {
        let merged = service(&format!("{name}=3\n{name}=4 SIGUSR1\n"));
        assert_eq!(values(&merged, key)[before..], ["3", "4", "USR1"], "{name}");
        let reset = service(&format!("{name}=3\n{name}=\n{name}=4\n"));
        assert_eq!(values(&reset, key)[before..], ["4"], "{name}");
    }
}

#[test]
fn oneshot_that_restarts_after_a_success_is_refused() {
    for word in ["always", "on-success"] {
        let job = service(&format!("Type=oneshot\nRestart={word}\n"));
        assert_eq!(said(&job, Severity::Error)[0].0, 4, "{word}");
    }
    let job = service("Type=oneshot\nRestart=on-failure\n");
    assert_eq!(values(&job, "restart"), ["on-failure"]);
}

#[test]
fn start_limit_applies_by_default_and_is_off_for_an_interval_of_zero() {
    for (text, limit) in [
        ("", "5/10s"),
        ("[Unit]\nStartLimitIntervalSec=0\n", "none"),
        ("[Unit]\nStartLimitBurst=0\n", "none"),
        ("[Unit]\nStartLimitIntervalSec=2min\n", "5/2min"),
        ("[Unit]\nStartLimitIntervalSec=infinity\nStartLimitBurst=2\n", "2"),
    ] {
        assert_eq!(values(&service(text), "restart-limit"), [limit], "{text}");
    }
}

#[test]
fn start_limit_burst_above_the_maximum_is_noted() {
    let web = service("[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=1000\n");
    assert_eq!(values(&web, "restart-limit"), ["256/1h"]);
    let told = "StartLimitBurst=: at most 256 failures within the interval are counted";
    assert!(notes(&web).contains(&(5, told.to_string())), "{:?}", notes(&web));
    let few = service("[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=256\n");
    assert!(!notes(&few).iter().any(|(_, note)| note.contains("256")), "{:?}", notes(&few));
}

#[test]
fn start_limit_that_counts_only_failures_is_noted() {
    let web = service("[Unit]\nStartLimitIntervalSec=1min\nStartLimitBurst=3\n");
    assert_eq!(
        notes(&web),
        [(
            4,
            "StartLimitIntervalSec=: only failures count: a start by hand or by a trigger is \
             neither counted nor refused"
                .to_string()
        )]
    );
    clean(&service("[Unit]\nStartLimitIntervalSec=0\n"));
    let always = service("Restart=always\n");
    let expected = "Restart=: starts after a success do not count for the limit of starts";
    assert_eq!(notes(&always), [(3, expected.to_string())]);
    clean(&service("Restart=on-failure\n"));
}

#[test]
fn exec_error_that_systemd_retries_without_limit_is_noted() {
    let expected = "Restart=: a program that cannot be executed is not tried again until the \
                    unit is started by hand";
    for (text, told) in [
        ("Restart=on-failure\nStartLimitInterval=0\n", true),
        ("Restart=on-failure\nRestartSec=5s\n", true),
        ("Restart=on-failure\nRestartSec=1s\n", false),
        ("Restart=on-abnormal\nStartLimitInterval=0\n", false),
    ] {
        let web = service(text);
        let found = notes(&web).iter().any(|(line, message)| *line == 3 && message == expected);
        assert_eq!(found, told, "{text}");
    }
}

#[test]
fn start_limit_action_is_reported_as_dropped() {
    for text in ["StartLimitAction=reboot\n", "[Unit]\nStartLimitAction=poweroff-force\n"] {
        let told = said(&service(text), Severity::Warning);
        let expected =
            "StartLimitAction= is dropped: a failure of this unit does not end the system";
        assert_eq!(told.len(), 1, "{text}");
        assert_eq!(told[0].1, expected);
    }
    clean(&service("[Unit]\nStartLimitAction=none\n"));
}

#[test]
fn on_failure_verdict_equals_the_start_limit_burst() {
    let web = service("Restart=on-failure\n[Unit]\nOnFailure=mail.service\n");
    assert_eq!(values(&web, "on-failure"), ["mail.service"]);
    assert_eq!(values(&web, "failure-verdict"), ["5"]);
    let told = notes(&web);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, 5);
    // With such a delay the limit is never reached.
    let slow = service("Restart=on-failure\nRestartSec=1min\n[Unit]\nOnFailure=mail.service\n");
    assert!(values(&slow, "failure-verdict").is_empty());
    let once = service("[Unit]\nOnFailure=mail.service\n");
    clean(&once);
    assert!(values(&once, "failure-verdict").is_empty());
}

#[test]
fn on_success_is_noted_because_a_stop_does_not_trigger_it() {
    let told = notes(&service("[Unit]\nOnSuccess=a.service\n"));
    assert_eq!(told.len(), 1);
    assert!(told[0].0 == 4 && told[0].1.contains("a stop does not"), "{told:?}");
}

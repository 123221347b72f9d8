//! Conditions, relations, socket addresses and timers.

use super::*;
use crate::trigger::address::{Sort, parse};

fn notes(imported: &Imported) -> Vec<(u32, String)> {
    said(imported, Severity::Note)
}

#[test]
fn booleans_of_conditions_are_parsed_as_in_systemd() {
    for (value, expected) in [
        ("1", "yes"),
        ("true", "yes"),
        ("On", "yes"),
        ("!0", "!no"),
        ("|f", "|no"),
        ("|!yes", "|!yes"),
    ] {
        for (kind, key) in [
            ("ConditionACPower", "condition-ac-power"),
            ("ConditionVirtualization", "condition-virtualization"),
            ("AssertFirstBoot", "assert-first-boot"),
        ] {
            let web = service(&format!("[Unit]\n{kind}={value}\n"));
            assert_eq!(values(&web, key), [expected], "{kind}={value}");
            assert_eq!(said(&web, Severity::Error), Vec::new());
        }
    }
    let web = service("[Unit]\nConditionVirtualization=kvm\n");
    assert_eq!(values(&web, "condition-virtualization"), ["kvm"]);
}

#[test]
fn differences_of_conditions_and_assertions_are_noted() {
    for (text, part) in [
        ("AssertPathExists=/x\n", "the unit fails if it is not met"),
        ("ConditionMemory=1G\n", "the memory of the machine is compared"),
        ("AssertMemory=1G\n", "the memory of the machine is compared"),
        ("ConditionFirstBoot=yes\n", "only the machine id at the time of the start counts"),
        ("AssertFirstBoot=yes\n", "only the machine id at the time of the start counts"),
    ] {
        let told = notes(&service(&format!("[Unit]\n{text}")));
        assert!(told.iter().any(|(line, said)| *line == 4 && said.contains(part)), "{told:?}");
    }
    clean(&service("[Unit]\nConditionPathExists=/x\nConditionHost=a\n"));
}

#[test]
fn condition_of_a_unit_without_processes_is_reported_as_dropped() {
    for (name, text) in [
        ("a.target", ""),
        ("a.socket", "[Socket]\nListenStream=/run/a\n"),
        ("a.timer", "[Timer]\nOnBootSec=1\n"),
        ("a.path", "[Path]\nPathExists=/a\n"),
    ] {
        let unit = import(name, &format!("[Unit]\nConditionPathExists=/x\nAssertHost=b\n{text}"));
        let told = said(&unit, Severity::Warning);
        let part = "a target, socket, timer or path has no conditions";
        let lines: Vec<u32> =
            told.iter().filter(|(_, said)| said.contains(part)).map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3], "{name}: {told:?}");
    }
}

#[test]
fn every_address_form_is_imported_and_parsed_again() {
    let forms = [
        ("/run/x.sock", "/run/x.sock"),
        ("@name", "@name"),
        ("80", "*:80"),
        ("127.0.0.1:8080", "127.0.0.1:8080"),
        ("[::1]:53", "[::1]:53"),
        ("[fe80::1]:53%eth0", "[fe80::1%eth0]:53"),
        ("vsock:2:1234", "vsock:2:1234"),
        ("vsock::1234", "vsock::1234"),
    ];
    for (name, key, sort) in [
        ("ListenStream", "listen-stream", Sort::Stream),
        ("ListenDatagram", "listen-datagram", Sort::Datagram),
        ("ListenSequentialPacket", "listen-seqpacket", Sort::Seqpacket),
    ] {
        for (text, shown) in forms {
            if sort == Sort::Seqpacket && text.contains(|c: char| c.is_ascii_digit()) {
                assert!(parse(sort, text).is_err() || text.starts_with("vsock"), "{text}");
                continue;
            }
            let unit = import("a.socket", &format!("[Socket]\n{name}={text}\n"));
            clean(&unit);
            let [value] = &values(&unit, key)[..] else { panic!("{name}={text}") };
            assert_eq!(parse(sort, value).unwrap().to_string(), shown, "{name}={text}");
        }
    }
}

#[test]
fn addresses_keep_the_order_of_the_file() {
    let text = "[Socket]\nListenStream=2\nListenStream=/run/a\nListenStream=1\nListenFIFO=/run/f\n\
                ListenNetlink=kobject-uevent 1\nListenSpecial=/dev/x\n";
    let unit = import("a.socket", text);
    clean(&unit);
    assert_eq!(values(&unit, "listen-stream"), ["2", "/run/a", "1"]);
    assert_eq!(values(&unit, "listen-fifo"), ["/run/f"]);
    assert_eq!(values(&unit, "listen-netlink"), ["kobject-uevent 1"]);
    assert_eq!(values(&unit, "listen-special"), ["/dev/x"]);
}

#[test]
fn unsupported_listen_directive_refuses_the_socket() {
    for line in ["ListenMessageQueue=/queue", "ListenUSBFunction=/dev/ffs"] {
        let unit = import("a.socket", &format!("[Socket]\nListenStream=/run/a\n{line}\n"));
        assert_eq!(said(&unit, Severity::Error)[0].0, 3, "{line}");
    }
    for line in ["ListenDatagram=/run/b", "ListenFIFO=/run/f", "ListenNetlink=audit"] {
        let unit = import("a.socket", &format!("[Socket]\nAccept=yes\n{line}\n"));
        let told = said(&unit, Severity::Error);
        assert_eq!(told.len(), 1, "{line}: {told:?}");
        assert_eq!(told[0].0, 2, "{line}");
        let unit = import("a.socket", &format!("[Socket]\nAccept=no\n{line}\n"));
        clean(&unit);
    }
}

#[test]
fn accepting_socket_activates_the_template_of_its_name() {
    let unit = import("echo.socket", "[Socket]\nListenStream=7\nAccept=yes\n");
    clean(&unit);
    assert_eq!(values(&unit, "activates"), ["echo@.service"]);
    let unit = import("echo.socket", "[Socket]\nListenStream=7\n");
    assert_eq!(values(&unit, "activates"), ["echo.service"]);
    assert_eq!(values(&unit, "before")[0], "echo.service");
}

#[test]
fn sockets_directive_pulls_in_sockets_before_the_service() {
    let web = service("Sockets=a.socket\nSockets=b.socket c.socket\n");
    assert_eq!(values(&web, "depends-ms")[..3], ["a.socket", "b.socket", "c.socket"]);
}

#[test]
fn timer_spans_are_imported_and_repeated_ones_are_kept() {
    for (name, key) in [
        ("OnActiveSec", "timer-active"),
        ("OnBootSec", "timer-boot"),
        ("OnStartupSec", "timer-startup"),
        ("OnUnitActiveSec", "timer-unit-active"),
        ("OnUnitInactiveSec", "timer-unit-inactive"),
    ] {
        let text = format!("[Timer]\n{name}=50\n{name}=5h 30min\nOnCalendar=daily\n");
        let timer = import("a.timer", &text);
        clean(&timer);
        assert_eq!(values(&timer, key), ["50s", "5h 30min"], "{name}");
        assert_eq!(values(&timer, "timer-calendar"), ["daily"]);
        let bad = import("a.timer", &format!("[Timer]\n{name}=soon\nOnBootSec=1\n"));
        assert_eq!(said(&bad, Severity::Warning)[0].0, 2, "{name}");
    }
}

#[test]
fn calendar_timer_is_ordered_after_the_time_targets() {
    let timer = import("a.timer", "[Timer]\nOnCalendar=daily\n");
    let after = values(&timer, "after");
    assert!(
        ["time-set.target", "time-sync.target"]
            .iter()
            .all(|name| { after.iter().any(|found| found == name) })
    );
    let timer = import("a.timer", "[Timer]\nOnBootSec=1\n");
    assert!(!values(&timer, "after").contains(&"time-sync.target".to_string()));
}

#[test]
fn differences_of_timers_are_reported() {
    let timer = import("a.timer", "[Timer]\nOnBootSec=1\nAccuracySec=1h\nWakeSystem=yes\n");
    let told = notes(&timer);
    assert!(told.len() == 1 && told[0].0 == 3 && told[0].1.contains("not stable"), "{told:?}");
    let warned = said(&timer, Severity::Warning);
    assert!(warned.len() == 1 && warned[0].0 == 4, "{warned:?}");
    for text in
        ["AccuracySec=1us\n", "AccuracySec=1s\n", "WakeSystem=no\n", "RemainAfterElapse=yes\n"]
    {
        clean(&import("a.timer", &format!("[Timer]\nOnBootSec=1\n{text}")));
    }
    let timer = import("a.timer", "[Timer]\nOnBootSec=1\nRemainAfterElapse=no\n");
    assert_eq!(said(&timer, Severity::Warning)[0].0, 3);
}

#[test]
fn propagates_stop_to_is_reported_as_dropped() {
    let web = service("[Unit]\nPropagatesStopTo=a.service\n");
    let told = said(&web, Severity::Warning);
    assert_eq!(
        told,
        [(4, "PropagatesStopTo= is dropped: a stop of this unit does not stop others".to_string())]
    );
}

#[test]
fn old_names_of_relations_are_synonyms() {
    for (old, new) in [
        ("RequiresOverridable", "Requires"),
        ("RequisiteOverridable", "Requisite"),
        ("BindTo", "BindsTo"),
    ] {
        let written = |name: &str| {
            let web = service(&format!("[Unit]\n{name}=a.service\nAfter=a.service\n"));
            crate::unit::yaml_writer::write(&web.manifest)
        };
        assert_eq!(written(old), written(new), "{old}");
        assert!(written(old).contains("a.service"), "{old}");
    }
}

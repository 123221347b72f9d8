//! Statements of the manual pages about the syntax of directives.

use super::*;

/// Returns the messages of severity note, with their lines.
fn notes(imported: &Imported) -> Vec<(u32, &str)> {
    let said = imported.manifest.diagnostics.iter();
    let notes = said.filter(|said| said.severity == Severity::Note);
    notes.map(|said| (said.at.line, said.message.as_str())).collect()
}

#[test]
fn empty_condition_resets_conditions_of_all_kinds() {
    let text = "[Unit]\nConditionPathExists=/a\nConditionUser=root\nAssertPathExists=/b\n\
                ConditionHost=\nConditionPathExists=|!/c\n[Service]\nExecStart=/bin/x\n";
    let one = import("a.service", text);
    assert_eq!(values(&one, "condition-path-exists"), ["|!/c"]);
    assert_eq!(values(&one, "condition-user"), Vec::<String>::new());
    assert_eq!(values(&one, "assert-path-exists"), ["/b"]);
}

#[test]
fn empty_on_directive_resets_all_times_of_a_timer() {
    let text = "[Timer]\nOnCalendar=daily\nOnBootSec=5min\nOnUnitActiveSec=\nOnActiveSec=1h\n";
    let one = import("a.timer", text);
    assert_eq!(values(&one, "timer-calendar"), Vec::<String>::new());
    assert_eq!(values(&one, "timer-boot"), Vec::<String>::new());
    assert_eq!(values(&one, "timer-active"), ["1h"]);
}

#[test]
fn empty_listen_directive_resets_all_addresses_of_a_socket() {
    let text =
        "[Socket]\nListenStream=/run/a\nListenFIFO=/run/b\nListenDatagram=\nListenStream=80\n";
    let one = import("a.socket", text);
    assert_eq!(values(&one, "listen-stream"), ["80"]);
    assert_eq!(values(&one, "listen-fifo"), Vec::<String>::new());
}

#[test]
fn empty_path_directive_resets_all_paths() {
    let text = "[Path]\nPathExists=/a\nPathChanged=/b\nPathModified=\nDirectoryNotEmpty=/c\n";
    let one = import("a.path", text);
    assert_eq!(values(&one, "path-exists"), Vec::<String>::new());
    assert_eq!(values(&one, "path-changed"), Vec::<String>::new());
    assert_eq!(values(&one, "path-directory-not-empty"), ["/c"]);
}

#[test]
fn unsupported_part_of_a_directive_is_noted_once_if_the_value_uses_it() {
    let text = "EnvironmentFile=/etc/a\nEnvironmentFile=/etc/b.d/*\nEnvironmentFile=-/etc/c?\n";
    let one = service(text);
    let expected =
        "EnvironmentFile=: wildcards are not expanded: it is read as the name of one file";
    assert_eq!(notes(&one), [(4, expected)]);
    assert!(notes(&service("EnvironmentFile=/etc/a\n")).is_empty());
}

#[test]
fn environment_file_named_twice_is_kept_twice() {
    let one = service("EnvironmentFile=/a\nEnvironmentFile=/b\nEnvironmentFile=-/a\n");
    assert_eq!(values(&one, "env-file"), ["/a", "/b", "-/a"]);
    let one =
        service("EnvironmentFile=/a\nEnvironmentFile=\nEnvironmentFile=/a\nEnvironmentFile=/a\n");
    assert_eq!(values(&one, "env-file"), ["/a", "/a"]);
}

#[test]
fn accepting_socket_with_a_service_is_refused() {
    let text = "[Socket]\nListenStream=/run/a\nAccept=yes\nService=b.service\n";
    let one = import("a.socket", text);
    let said = one.manifest.diagnostics.iter();
    let errors: Vec<u32> =
        said.filter(|d| d.severity == Severity::Error).map(|d| d.at.line).collect();
    assert_eq!(errors, [4]);
}

// Expected values: systemd 252, config_parse_capability_set().
#[test]
fn capability_sets_are_merged_replaced_and_inverted_as_in_systemd() {
    let joined = |key: &str, text: &str| values(&service(text), key).join(" ");
    for (lines, bound) in [
        (&["CAP_KILL", "CAP_CHOWN"][..], "CAP_CHOWN CAP_KILL"),
        (&["CAP_KILL CAP_CHOWN", "~CAP_KILL"], "CAP_CHOWN"),
        // All is the initial set, which the next assignment replaces.
        (&["~", "CAP_KILL"], "CAP_KILL"),
        (&["", "CAP_KILL"], "CAP_KILL"),
        (&["CAP_KILL", ""], ""),
        // An unknown name does not extend the set.
        (&["CAP_KIL"], ""),
        (&["CAP_KILL", "~CAP_CHWN"], "CAP_KILL"),
        (&["~CAP_CHWN", "CAP_KILL"], "CAP_KILL"),
    ] {
        let text: String =
            lines.iter().map(|line| format!("CapabilityBoundingSet={line}\n")).collect();
        assert_eq!(joined("capabilities-bound", &text), bound, "{lines:?}");
    }
    let without = joined("capabilities-ambient", "AmbientCapabilities=~CAP_KILL\n");
    assert!(without.contains("CAP_CHOWN") && !without.contains("CAP_KILL"), "{without}");
    assert_eq!(joined("capabilities-ambient", "AmbientCapabilities=\n"), "");
    let misspelt = service("CapabilityBoundingSet=~CAP_SYS_ADMNI\n");
    let expected = "CapabilityBoundingSet=: no capability is named `CAP_SYS_ADMNI`";
    assert_eq!(said(&misspelt, Severity::Warning), [(3, expected.to_string())]);
}

#[test]
fn signed_nice_limit_is_read_as_a_nice_level() {
    for (value, limit) in [("+5", "15"), ("-20", "40"), ("+19:-1", "1:21"), ("7", "7")] {
        let one = service(&format!("LimitNICE={value}\n"));
        assert_eq!(values(&one, "limits"), [format!("nice={limit}")], "{value}");
    }
}

#[test]
fn specifier_for_the_unit_file_path_refuses_the_unit() {
    for specifier in ["%y", "%Y"] {
        let one = service(&format!("ExecStop=/bin/x {specifier}\n"));
        let told = said(&one, Severity::Error);
        assert!(told.len() == 1 && told[0].1.contains(specifier), "{told:?}");
    }
}

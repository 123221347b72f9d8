//! Tests of the printed conversion.

use super::*;

fn converted(text: &str) -> Converted {
    converted_as("a.service", text)
}

fn converted_as(file: &str, text: &str) -> Converted {
    let file = Arc::from(file);
    let (name, parts) = (UnitName::of(&file), [(Arc::clone(&file), text.into())]);
    let imported = systemd(&name, &file, &parts, &Surroundings::default()).unwrap();
    with_native_diagnostics(file.to_string(), &name, imported)
}

#[test]
fn dropped_directive_is_printed_as_a_comment_with_its_line() {
    let one = converted("[Service]\nExecStart=/bin/true\nJobless=1\n[Unit]\nAllowIsolate=yes\n");
    let text = native(&one);
    assert!(text.contains("# dropped: line 3: Jobless=1: unknown\n"), "{text}");
    assert!(text.contains("# not needed: line 5: AllowIsolate=yes: "), "{text}");
    assert!(text.contains("2 of 3 directives honoured (66 %)"), "{text}");
    assert!(text.contains("\nunit: a.service\n") && text.contains("\nexec-start: /bin/true\n"));
}

#[test]
fn converted_template_waits_for_the_device_of_its_instance() {
    let text = "[Unit]\nBindsTo=%i.device\n[Service]\nType=oneshot\nExecStart=/bin/fsck %f\n";
    let text = native(&converted_as("systemd-fsck@.service", text));
    assert!(text.contains("\nwait-file: [/%I]\n"), "{text}");
    let name = UnitName::of("systemd-fsck@dev-sda1.service");
    let facts = groundstate_units::text::specifier::Facts::default();
    let path = groundstate_units::text::specifier::expand("/%I", &name, &facts);
    assert_eq!(path.as_deref(), Ok("/dev/sda1"));
}

#[test]
fn printed_native_form_is_read_without_a_diagnostic() {
    let one = converted("[Service]\nExecStart=/bin/sh -c 'a: $X'\nEnvironment=\"A=b c\"\n");
    let limits = &groundstate_units::text::yaml::Limits::UNIT_FILE;
    let text = native(&one);
    let documents = groundstate_units::text::yaml::parse("a", text.as_bytes(), limits).unwrap();
    let manifest = groundstate_units::unit::manifest::Manifest::read(&"a".into(), &documents[0]);
    let read = semantics::read(manifest, &Settings::default(), &Accounts::default());
    assert_eq!(read.diagnostics, Vec::new());
    assert!(read.draft.is_some_and(|draft| draft.fault.is_none()));
}

#[test]
fn control_characters_of_a_script_are_removed_from_comments() {
    let text = "#!/bin/sh\n### BEGIN INIT INFO\n# X-Own: a\u{202e}b\u{85}c\n# d\u{7f}e\n### END INIT INFO\n";
    let imported = sysv::convert("a", &"a".into(), text.as_bytes(), "/etc/init.d/a");
    let one = with_native_diagnostics("a".to_string(), &UnitName::of("a"), imported);
    let text = native(&one);
    assert!(text.contains("\n# dropped: line 3: X-Own=a b c: unknown\n"), "{text}");
    assert!(text.contains("\n# dropped: line 4: d e: no `NAME: VALUE`\n"), "{text}");
    assert!(!text.contains(|c| c != '\n' && encoding::is_unprintable(c)));
}

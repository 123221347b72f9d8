//! The prefixes of commands.

use super::*;

#[test]
fn prefixes_are_written_in_a_fixed_order_without_double_exclamation_mark() {
    for (prefixes, native) in [
        ("", ""),
        ("-", "-"),
        ("!", "!"),
        ("!!", ""),
        ("!-!", "-"),
        ("-!!", "-"),
        ("!!@", "@"),
        ("+@:-", "-@:+"),
        ("!:-@", "-@:!"),
    ] {
        let text = format!("[Service]\nType=oneshot\nExecStart={prefixes}/bin/a b\n");
        let web = import("web.service", &text);
        clean(&web);
        let word = if prefixes.contains('@') { "b" } else { "/bin/a b" };
        let expected = match prefixes.contains('@') {
            true => format!("{native}/bin/a {word}"),
            false => format!("{native}{word}"),
        };
        assert_eq!(values(&web, "exec-start"), [expected], "{prefixes}");
    }
}

#[test]
fn incompatible_prefixes_refuse_the_unit() {
    for prefixes in [
        "--", "@@", "::", "++", "+!", "!+", "!!+", "+!!", "!!!", "!!!!", "-!!-!", "|", "|-", "-|!!",
    ] {
        let text = format!("[Service]\nType=oneshot\nExecStart={prefixes}/bin/a b\n");
        let web = import("web.service", &text);
        assert_eq!(said(&web, Severity::Error).len(), 1, "{prefixes}");
    }
}

#[test]
fn permissions_start_only_with_a_root_directory_refuses_the_unit() {
    let text = "User=nobody\nRootDirectory=/srv\nPermissionsStartOnly=yes\nExecStop=/bin/b\n";
    assert_eq!(said(&service(text), Severity::Error).len(), 1);
    let stop = service("User=nobody\nPermissionsStartOnly=yes\nExecStop=!/bin/b\n");
    assert_eq!(values(&stop, "exec-stop"), ["+/bin/b"]);
}

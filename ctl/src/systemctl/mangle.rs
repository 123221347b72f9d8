//! Turns arguments into unit names as systemctl(1) does: a path becomes its mount or device unit,
//! and invalid characters are escaped (systemd-escape(1)).

use super::complain;
use super::shown::is_glob;
use super::words::Asked;
use groundstate_units::text::unit_name::escape_path;
use std::fmt::Write;

/// Verbs for which a word with a slash is the path of a file.
const OF_FILES: [&str; 11] = [
    "enable",
    "disable",
    "reenable",
    "preset",
    "mask",
    "unmask",
    "link",
    "revert",
    "edit",
    "is-enabled",
    "cat",
];
/// Verbs whose arguments are not unit names.
const OTHER: [&str; 9] = [
    "switch-root",
    "exit",
    "reboot",
    "poweroff",
    "halt",
    "set-environment",
    "unset-environment",
    "import-environment",
    "help",
];

/// Converts all names of the command line.
pub(super) fn mangled(asked: Asked) -> Asked {
    let verb = asked.verb.as_str();
    if OTHER.contains(&verb) {
        return asked;
    }
    let is_path = |name: &str| OF_FILES.contains(&verb) && name.contains('/');
    let mangle = |name: &String| if is_path(name) { name.clone() } else { unit_name(name) };
    let names: Vec<String> = asked.names.iter().map(mangle).collect();
    for (typed, name) in asked.names.iter().zip(&names) {
        if typed != name && !typed.starts_with('/') && !asked.quiet {
            complain(&format!(
                "Invalid unit name \"{typed}\" escaped as \"{name}\" (maybe you should use \
                 systemd-escape?)."
            ));
        }
    }
    Asked { names, ..asked }
}

fn unit_name(typed: &str) -> String {
    if is_glob(typed) {
        return typed.to_string();
    }
    if typed.starts_with('/') {
        let is_device = ["/dev/", "/sys/"].iter().any(|top| typed.starts_with(top));
        let suffix = if is_device { "device" } else { "mount" };
        return format!("{}.{suffix}", escaped_path(typed));
    }
    let mut name = String::new();
    for c in typed.chars() {
        match c {
            '/' => name.push('-'),
            c if is_plain(c) || matches!(c, '-' | '\\' | '@') => name.push(c),
            c => escape(&mut name, c),
        }
    }
    name
}

/// Returns `srv-my\x2ddata` for /srv/my-data, and `-` for the root. A part `.` is left out.
pub(super) fn escaped_path(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| *part != ".").collect();
    escape_path(&parts.join("/"))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '.')
}

/// Appends each byte as `\xHH`.
fn escape(name: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a String cannot fail.
        let _ = write!(name, "\\x{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_argument_becomes_its_mount_or_device_unit_with_escapes() {
        for (typed, want) in [
            ("nginx", "nginx"),
            ("/srv/x", "srv-x.mount"),
            ("/srv//./my-data/", "srv-my\\x2ddata.mount"),
            ("/", "-.mount"),
            ("/.hidden", "\\x2ehidden.mount"),
            ("/dev/sda1", "dev-sda1.device"),
            ("t@/srv/x", "t@-srv-x"),
            ("t@c\\x2dd.service", "t@c\\x2dd.service"),
            ("a b", "a\\x20b"),
            ("ä", "\\xc3\\xa4"),
            ("web*", "web*"),
        ] {
            assert_eq!(unit_name(typed), want, "{typed}");
        }
    }
}

//! Detects the format of a file, and so its importer, by its name, otherwise by its first line.

use super::systemd::UnitName;

/// The format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A unit file of systemd, recognized by its suffix. A file of unknown format counts as one
    /// too; the importer of systemd files reports it.
    Systemd,
    /// A service script of OpenRC.
    OpenRc,
    /// A SysV script, which is run with `start` and `stop`.
    Sysv,
}

/// The interpreters of OpenRC scripts; the second is the former name of the first.
const OPENRC: [&str; 2] = ["openrc-run", "runscript"];

impl Form {
    /// Detects the format of a file with this name and text.
    pub fn of(name: &str, text: &[u8]) -> Form {
        let first = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let first = String::from_utf8_lossy(first);
        match first.strip_prefix("#!") {
            _ if UnitName::of(name).suffix.is_some() => Form::Systemd,
            Some(words) => {
                let mut programs =
                    words.split_whitespace().filter_map(|word| word.rsplit('/').next());
                let is_openrc = programs.any(|program| OPENRC.contains(&program));
                if is_openrc { Form::OpenRc } else { Form::Sysv }
            }
            None => Form::Systemd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_format_follows_from_the_name_or_else_the_first_line() {
        for (name, text, form) in [
            ("a.service", "#!/bin/sh\n", Form::Systemd),
            ("a.timer", "", Form::Systemd),
            ("a", "#!/bin/sh\n", Form::Sysv),
            ("a.sh", "#! /bin/bash -e", Form::Sysv),
            ("a", "#!/usr/bin/env /lib/init/init-d-script\n", Form::Sysv),
            ("a", "#!/sbin/openrc-run\n", Form::OpenRc),
            ("a", "#!/usr/bin/env openrc-run\r\n", Form::OpenRc),
            ("a", "#!/sbin/runscript\n", Form::OpenRc),
            ("a", "# /sbin/openrc-run\n#!/bin/sh\n", Form::Systemd),
            ("README", "", Form::Systemd),
        ] {
            assert_eq!(Form::of(name, text.as_bytes()), form, "{name}: {text}");
        }
    }
}

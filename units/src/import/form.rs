//! Whose file it is: what a file is called, else its first line, says which importer takes it.

use super::systemd::UnitName;

/// The form of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A unit file of systemd's: its name ends as those do. So does what is none of the others; that it is none
    /// of these either is told by its importer.
    Systemd,
    /// A script that OpenRC runs.
    OpenRc,
    /// A script that is run with `start` and `stop`.
    Sysv,
}

/// The interpreters of OpenRC's scripts; the second is what the first was called once.
const OPENRC: [&str; 2] = ["openrc-run", "runscript"];

impl Form {
    /// Of a file of that name and text.
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
    fn the_name_says_whose_file_it_is_and_else_the_first_line() {
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

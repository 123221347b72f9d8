//! The man page groundstate.unit(5), generated from the key table. Its output is
//! `contrib/man/groundstate.unit.5`, and a test keeps them equal.

use crate::unit::key::{Class, Key, Kinds};
use crate::unit::key_table::KEYS;
use crate::unit::settings_file::SETTINGS;
use std::fmt::Write;

const HEAD: &str = r#".TH GROUNDSTATE.UNIT 5 "" Groundstate "File formats"
.SH NAME
groundstate.unit, groundstate init.yaml \- unit files and settings of Groundstate
.SH SYNOPSIS
.nf
/etc/groundstate/units/*.yaml
/run/groundstate/units/*.yaml
/usr/lib/groundstate/units/*.yaml
/etc/groundstate/init.yaml
.fi
.SH DESCRIPTION
A unit file holds one unit, or several as YAML documents; both
.B \-\-\-
and
.B ...
end a document. A file hides a file of the same name in a later directory.
.PP
Values are taken as they are written: 022, 1.50 and yes need no quotes. No key repeats.
Anchors, aliases and tags are not allowed. A value that holds ": " or " #" must be quoted as
a whole. The text is UTF\-8 with LF or CRLF line ends. The last line must end with a line
break, so that init notices a truncated file. A file is at most 256 KiB.
.PP
A drop\-in
.I NAME.d/*.yaml
in any unit directory is laid over the unit in
.I NAME.yaml
(or the unit named
.IR NAME ),
in the order of the drop\-ins' file names. A key in a drop\-in takes the place of the whole
key: lists are replaced, not appended to.
.PP
Keys that begin with
.B x\-
belong to the user and are not read. Any other key that is not below is an error.
.SH EXEC LINES
No shell is involved. Words are split at white space; quotes, single or double, hold a word
together; the C escapes (\en, \et, \es, \ex41, \eu00e4 ...) are known in and out of quotes.
A word that is
.B $NAME
as a whole becomes the words of the variable's value, or nothing when it is unset.
.B ${NAME}
anywhere becomes the value as it is;
.B $$
is a dollar; any other dollar stays.
.B $MAINPID
is the pid of the main process; without a main process the command is not run. The program is an absolute path, or a bare name that is looked up in PATH.
.SH DURATIONS AND SIZES
Durations: 500ms, 5s, 2min, 1min 30s, 1h, 1d; a bare number is seconds;
.B none
as a timeout means no limit. Sizes: 4096, 64K, 16M, 1G, 1T, base 1024.
Numbers are decimal, without sign, exponent or leading zeros (except umask, which is octal).
.SH KEYS OF A UNIT
"#;

const TAIL: &str = r#".SH WHEN INIT CRASHES
Init keeps its state in memory that survives its process. After a fault it executes its own
binary again and continues from the last committed state. A service may rely on this:
.IP \(bu 2
No service is stopped, restarted or started twice.
.IP \(bu 2
Each exit of a process, each readiness message and each firing of a timer takes effect once.
.IP \(bu 2
The goal, targets added by `initctl want`, the policy, failure counts, restart delays, stored descriptors,
listening sockets, logs and the event history are as before.
.IP \(bu 2
A change that init has confirmed to
.BR initctl (1)
is kept.
.PP
These may be lost or repeated:
.IP \(bu 2
A request without an answer: its connection closes.
.B initctl
repeats a question by itself; a change has to be repeated by its user.
.IP \(bu 2
Descriptors in a notify message that init reads while it crashes.
.IP \(bu 2
A stop signal or reload signal may arrive twice.
.PP
After a fourth crash in a row, or with a damaged state, init starts and stops nothing more. Services
keep running, init reaps their children, and the machine needs a reboot.
.SH EXAMPLE
.nf
unit: maddy
type: foreground-notified
provides: imapd, smtpd
depends-ms: network-online
exec-start: /usr/bin/maddy run
exec-reload: /bin/kill -USR1 $MAINPID
.fi
.SH SEE ALSO
.BR initctl (1),
.BR sd_notify (3),
.BR getrlimit (2),
.BR signal (7)
"#;

/// Returns the page as roff.
pub fn man_page() -> String {
    let mut page = HEAD.to_string();
    for key in KEYS {
        entry(&mut page, key);
    }
    page.push_str(".SH KEYS OF INIT.YAML\n");
    for setting in SETTINGS {
        let _ =
            writeln!(page, ".TP\n.BR {} \": {}\"", escaped(setting.name), escaped(setting.words));
        let _ = writeln!(page, "{} Default: {}.", escaped(setting.doc), escaped(setting.default));
    }
    page.push_str(TAIL);
    page
}

fn entry(page: &mut String, key: &Key) {
    let _ = writeln!(page, ".TP\n.BR {} \": {}\"", escaped(key.name), escaped(&key.shape.words()));
    let _ = writeln!(page, "{}", escaped(key.doc));
    let _ = write!(page, "Default: {}.", escaped(key.default));
    if key.types != Kinds::ALL {
        let _ = write!(page, " For {}.", escaped(&key.types.words()));
    }
    if key.class == Class::Run {
        page.push_str(" A reload that changes it restarts an up unit.");
    }
    page.push('\n');
    let _ = writeln!(page, ".IP\n.nf");
    for line in key.example.lines() {
        let _ = writeln!(page, "{}", escaped(line));
    }
    page.push_str(".fi\n");
}

/// Escapes text for roff: backslashes and hyphens, control lines, and quotes that would end an
/// argument.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('"', "\\(dq");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn man_page_names_every_key_and_setting() {
        let page = man_page();
        for name in KEYS.iter().map(|key| key.name).chain(SETTINGS.iter().map(|s| s.name)) {
            assert!(page.contains(&format!(".BR {} ", escaped(name))), "{name}");
        }
    }

    #[test]
    fn man_page_in_the_tree_is_up_to_date() {
        let kept = include_str!("../../../contrib/man/groundstate.unit.5");
        let how = "cargo run -p groundstate-units --example documents man > contrib/man/groundstate.unit.5";
        assert!(kept == man_page(), "it is made by: {how}");
    }
}

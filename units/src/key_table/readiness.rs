//! Keys: other ways of becoming ready, and descriptors that are kept.

use super::{FOREGROUND, NONE, PROCESS, SUPERVISED, key};
use crate::key::{Class::Run, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("ready-fd", Shape::Count(3, 1023), Run, SUPERVISED, NONE, "none",
        "Ready when the process writes a line to this descriptor, which is a pipe to init: the protocol of s6. Not together with ready-wait, ready-grep or ready-exec.",
        "ready-fd: 3"),
    key("ready-exec", Shape::ExecLines, Run, SUPERVISED, NONE, "none",
        "A command that is run again and again once the unit's program runs; its first exit with 0 makes the unit ready. Not together with ready-wait, ready-grep or ready-fd.",
        "ready-exec: /usr/bin/redis-cli ping"),
    key("start-idle", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Its start is held until no other unit is starting, for at most five seconds: a login prompt is then not lost among the messages of a boot.",
        "start-idle: yes"),
    key("fd-store", Shape::Count(0, 1024), Run, FOREGROUND, NONE, "0",
        "How many descriptors init keeps for the unit. It hands them over with FDSTORE=1 (sd_notify(3)), and gets them back with LISTEN_FDS and their names when it is started again. They are dropped when the unit is stopped for good.",
        "fd-store: 16"),
];

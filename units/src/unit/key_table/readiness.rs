//! Keys: additional readiness protocols, and descriptors that init keeps for a service.

use super::{NONE, PROCESS, SUPERVISED, key};
use crate::spec::Keep;
use crate::unit::key::{Class::Run, Key, Shape};

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
    key("fd-store-max", Shape::Count(0, 512), Run, PROCESS, NONE, "0: none are kept",
        "How many descriptors init keeps for the unit. A process that may notify hands them over with FDSTORE=1 (and FDNAME=, FDPOLL=0; FDSTOREREMOVE=1 takes those of a name away again); the next run gets them behind its sockets as LISTEN_FDS and LISTEN_FDNAMES. init closes a stored descriptor when its other end is closed.",
        "fd-store-max: 16"),
    key("fd-store-preserve", Shape::Choice(&Keep::WORDS), Run, PROCESS, NONE, "restart",
        "Until when the descriptors are kept. no: to the end of the run. restart: while the unit is needed and has not failed for good. yes: while there is the unit.",
        "fd-store-preserve: yes"),
];

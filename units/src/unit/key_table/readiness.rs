//! Keys: additional readiness protocols, and descriptors that init keeps for a service.

use super::{NONE, PROCESS, SUPERVISED, key};
use crate::spec::Keep;
use crate::unit::key::{Class::Run, Key, Shape};

#[rustfmt::skip]
pub(super) const KEYS: &[Key] = &[
    key("ready-fd", Shape::Count(3, 1023), Run, SUPERVISED, NONE, "none",
        "The unit is ready when it writes a line to this descriptor, a pipe to init (s6). It excludes ready-wait, ready-grep and ready-exec.",
        "ready-fd: 3"),
    key("ready-exec", Shape::ExecLines, Run, SUPERVISED, NONE, "none",
        "A command that init repeats until it exits with 0; then the unit is ready. It first runs when the unit's program runs. It excludes ready-wait, ready-grep and ready-fd.",
        "ready-exec: /usr/bin/redis-cli ping"),
    key("start-idle", Shape::Boolean, Run, PROCESS, NONE, "no",
        "Whether its start waits until no other unit is starting, for at most five seconds. So a login prompt is not lost among boot messages.",
        "start-idle: yes"),
    key("fd-store-max", Shape::Count(0, 512), Run, PROCESS, NONE, "0: none are kept",
        "The number of descriptors that init keeps for the unit. A process stores them with FDSTORE=1, with FDNAME= and FDPOLL=0 as options. FDSTOREREMOVE=1 removes those of a name. The next run gets them after its sockets in LISTEN_FDS and LISTEN_FDNAMES. init closes a stored descriptor when its other end is closed.",
        "fd-store-max: 16"),
    key("fd-store-preserve", Shape::Choice(&Keep::WORDS), Run, PROCESS, NONE, "restart",
        "How long the descriptors are kept. no: until the end of the run. restart: while the unit is needed and has not failed for good. yes: while the unit exists.",
        "fd-store-preserve: yes"),
];

//! Triggers: sockets, timers and paths. These types are the interpreted keys of `socket`, `timer`
//! and `path` units. A unit of the generation carries its encoded trigger in the place where a unit
//! with a process carries its [`crate::spec::Run`].
//!
//! Pure: [`calendar`] and [`timer`] compute due times from given times, [`zone`] local times.
//! `init` opens sockets, reads clocks and watches files; [`crate::machine`] handles firings.

pub mod address;
pub mod calendar;
mod elapse;
pub mod flood;
mod normal;
pub mod timer;
pub mod zone;

use crate::spec::Credentials;
use crate::text::fields::{self, is_default};
use crate::text::words::words;
use address::Listen;
use calendar::Calendar;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::time::Duration;

/// One trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// `type: socket`.
    Socket(Box<Socket>),
    /// `type: timer`.
    Timer(Timer),
    /// `type: path`.
    Path(Watch),
}

impl Trigger {
    /// Encodes the trigger.
    pub fn encode(&self) -> Vec<u8> {
        fields::encode(self).unwrap_or_default()
    }

    /// Decodes the bytes of [`Trigger::encode`]. Returns `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Trigger> {
        fields::decode(bytes).ok()
    }
}

words! {
    /// The families of an IPv6 socket without an address: `socket-v6only`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum V6Only {
        /// The system default (net.ipv6.bindv6only).
        #[default]
        Default = "default",
        /// IPv6 and IPv4.
        Both = "both",
        /// IPv6 only.
        Only = "ipv6-only",
    }
}

words! {
    /// The timestamp of each received message: `socket-timestamping`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Timestamping {
        /// No timestamp.
        #[default]
        Off = "off",
        /// SO_TIMESTAMP.
        Microseconds = "us",
        /// SO_TIMESTAMPNS.
        Nanoseconds = "ns",
    }
}

/// The keys of a socket unit. Names of options are those of socket(7), unix(7), tcp(7), ip(7).
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// Listeners in the order of the file, which is the order of the descriptors.
    #[serde_with(skip_apply)]
    pub listen: Vec<Listen>,
    /// The owner of created paths; `None` for the user of init.
    pub owner: Option<Credentials>,
    /// Permission bits of sockets and FIFOs.
    pub mode: u32,
    /// Permission bits of created parent directories.
    pub directory_mode: u32,
    /// Backlog of listen(2).
    pub backlog: u32,
    /// See [`V6Only`].
    pub v6only: V6Only,
    /// The name in LISTEN_FDNAMES; `None` for the unit's name.
    pub fd_name: Option<String>,
    /// Run one instance for each connection.
    pub accept: bool,
    /// Limit of concurrent connections.
    pub max_connections: u32,
    /// Limit of concurrent connections of one address or uid; 0 for no separate limit.
    pub max_per_source: u32,
    /// SO_KEEPALIVE.
    pub keepalive: bool,
    /// TCP_KEEPIDLE.
    pub keepalive_time: Option<Duration>,
    /// TCP_KEEPINTVL.
    pub keepalive_interval: Option<Duration>,
    /// TCP_KEEPCNT.
    pub keepalive_probes: Option<u32>,
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_REUSEPORT.
    pub reuse_port: bool,
    /// IP_FREEBIND.
    pub free_bind: bool,
    /// IP_TRANSPARENT.
    pub transparent: bool,
    /// SO_BROADCAST.
    pub broadcast: bool,
    /// SO_BINDTODEVICE.
    pub device: Option<String>,
    /// TCP_DEFER_ACCEPT.
    pub defer_accept: Option<Duration>,
    /// SO_PRIORITY.
    pub priority: Option<u32>,
    /// SO_MARK.
    pub mark: Option<u32>,
    /// IP_TOS, IPV6_TCLASS.
    pub tos: Option<u32>,
    /// IP_TTL, IPV6_UNICAST_HOPS.
    pub ttl: Option<u32>,
    /// TCP_CONGESTION.
    pub congestion: Option<String>,
    /// SO_RCVBUF.
    pub receive_buffer: Option<u64>,
    /// SO_SNDBUF.
    pub send_buffer: Option<u64>,
    /// F_SETPIPE_SZ of FIFOs.
    pub pipe_size: Option<u64>,
    /// SO_PASSCRED.
    pub pass_credentials: bool,
    /// SO_PASSSEC.
    pub pass_security: bool,
    /// IP_PKTINFO, IPV6_RECVPKTINFO, NETLINK_PKTINFO.
    pub pass_packet_info: bool,
    /// See [`Timestamping`].
    pub timestamping: Timestamping,
    /// Open special files for writing too.
    pub writable: bool,
    /// Discard pending data when the service has ended.
    pub flush: bool,
    /// Remove paths when the socket stops listening.
    pub remove: bool,
    /// Symbolic links to the only path.
    pub symlinks: Vec<String>,
}

/// The keys of a timer unit. Each adds times to fire.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timer {
    /// Wall-clock times.
    pub calendar: Vec<Calendar>,
    /// Time after the boot of the machine.
    pub boot: Vec<Duration>,
    /// Time after the start of init.
    pub startup: Vec<Duration>,
    /// Time after the timer unit became active.
    pub active: Vec<Duration>,
    /// Time after the last start of the activated unit.
    pub unit_active: Vec<Duration>,
    /// Time after the last end of the activated unit.
    pub unit_inactive: Vec<Duration>,
    /// Limit of a random delay.
    pub jitter: Duration,
    /// Use the same random delay each time on this machine.
    pub jitter_fixed: bool,
    /// Limit of a delay that lets timers fire together.
    pub accuracy: Duration,
    /// Fire once for calendar times that passed while the timer was inactive.
    pub persistent: bool,
}

words! {
    /// The condition of a path unit.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Look {
        /// The path exists.
        Exists = "path-exists",
        /// A path matches the pattern.
        ExistsGlob = "path-exists-glob",
        /// The path was created, removed, renamed, given other attributes, or closed after writing.
        Changed = "path-changed",
        /// Like [`Look::Changed`], and at each write.
        Modified = "path-modified",
        /// The path is a directory that is not empty.
        DirectoryNotEmpty = "path-directory-not-empty",
    }
}

/// The keys of a path unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// The conditions; each one fires the trigger.
    pub looks: Vec<(Look, String)>,
    /// Create the directories before they are watched.
    #[serde(default)]
    pub make_directory: bool,
    /// Permission bits of created directories.
    #[serde(default)]
    pub directory_mode: u32,
}

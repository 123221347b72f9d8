//! What a trigger waits for: sockets, times, files. The types here are what the keys of
//! a `socket`, `timer` or `path` unit mean; a unit of the generation carries one, encoded,
//! where a unit with a process carries its [`crate::spec::Run`].
//!
//! Pure: [`calendar`] and [`timer`] compute when a timer is due from times given to them,
//! [`zone`] what a clock on a wall shows. Who opens sockets, reads clocks and looks at files
//! is `init`; what a firing does to the unit it activates is [`crate::machine`].

pub mod address;
pub mod calendar;
mod elapse;
pub mod flood;
mod normal;
pub mod timer;
pub mod zone;

use crate::spec::Credentials;
use address::Listen;
use calendar::Calendar;
use serde::{Deserialize, Serialize};
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
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// From [`Trigger::encode`]'s bytes; None: they are something else.
    pub fn decode(bytes: &[u8]) -> Option<Trigger> {
        let (trigger, rest) = postcard::take_from_bytes::<Trigger>(bytes).ok()?;
        rest.is_empty().then_some(trigger)
    }
}

/// Which families an IPv6 socket without an address of its own takes: `socket-v6only`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum V6Only {
    /// As the system says (net.ipv6.bindv6only).
    #[default]
    Default,
    /// IPv4 too.
    Both,
    /// IPv6 alone.
    Only,
}

/// `socket-timestamping`: what stands beside each received message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timestamping {
    /// Nothing.
    #[default]
    Off,
    /// SO_TIMESTAMP.
    Microseconds,
    /// SO_TIMESTAMPNS.
    Nanoseconds,
}

/// The keys of a socket unit. Names of options are those of socket(7), unix(7), tcp(7), ip(7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Socket {
    /// In the order of the file: the order of the descriptors.
    pub listen: Vec<Listen>,
    /// Who owns paths that are made; None: whoever init is.
    pub owner: Option<Credentials>,
    /// Permission bits of sockets and FIFOs.
    pub mode: u32,
    /// Permission bits of directories made on the way.
    pub directory_mode: u32,
    /// Connections that wait to be accepted; listen(2).
    pub backlog: u32,
    /// See [`V6Only`].
    pub v6only: V6Only,
    /// LISTEN_FDNAMES; None: the unit's name.
    pub fd_name: Option<String>,
    /// One instance for each connection.
    pub accept: bool,
    /// Of those at once.
    pub max_connections: u32,
    /// Of one address, or of one uid; 0: no limit of its own.
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
    /// Special files are opened for writing too.
    pub writable: bool,
    /// What waits in it is thrown away when its service has ended.
    pub flush: bool,
    /// Paths are removed when it stops listening.
    pub remove: bool,
    /// Links to the one path.
    pub symlinks: Vec<String>,
}

/// The keys of a timer unit. Each is one more reason to fire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// At these times of the wall clock.
    pub calendar: Vec<Calendar>,
    /// That long after the machine booted.
    pub boot: Vec<Duration>,
    /// That long after init began.
    pub startup: Vec<Duration>,
    /// That long after the timer unit became active.
    pub active: Vec<Duration>,
    /// That long after the activated unit was last started.
    pub unit_active: Vec<Duration>,
    /// That long after the activated unit last ended.
    pub unit_inactive: Vec<Duration>,
    /// Up to that much later, by chance.
    pub jitter: Duration,
    /// The same chance each time, on this machine.
    pub jitter_fixed: bool,
    /// Up to that much later, to wake up together with others.
    pub accuracy: Duration,
    /// A calendar time that passed while it was not active is made up for, once.
    pub persistent: bool,
}

/// What a path unit looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Look {
    /// It is there.
    Exists,
    /// Something matches the pattern.
    ExistsGlob,
    /// It was made, removed, renamed, or closed after writing.
    Changed,
    /// As [`Look::Changed`], and at each write.
    Modified,
    /// It is a directory with something in it.
    DirectoryNotEmpty,
}

impl Look {
    /// All of them.
    pub const ALL: [Look; 5] =
        [Look::Exists, Look::ExistsGlob, Look::Changed, Look::Modified, Look::DirectoryNotEmpty];

    /// The key in a unit file.
    pub fn as_str(self) -> &'static str {
        match self {
            Look::Exists => "path-exists",
            Look::ExistsGlob => "path-exists-glob",
            Look::Changed => "path-changed",
            Look::Modified => "path-modified",
            Look::DirectoryNotEmpty => "path-directory-not-empty",
        }
    }
}

/// The keys of a path unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Each is one more reason to fire.
    pub looks: Vec<(Look, String)>,
    /// The directories are made before they are watched.
    pub make_directory: bool,
    /// With these permission bits.
    pub directory_mode: u32,
}

//! Properties of `show` about socket, timer and path units.

use super::property_value::{Properties, span, user, yes};
use groundstate_units::trigger::address::{Address, Listen, Sort};
use groundstate_units::trigger::{Look, Socket, Timer, Trigger, V6Only, Watch};
use std::path::Path;
use std::time::Duration;

/// The properties of one trigger.
pub(super) fn properties(trigger: &Trigger) -> Properties {
    match trigger {
        Trigger::Socket(socket) => of_socket(socket),
        Trigger::Timer(timer) => of_timer(timer),
        Trigger::Path(watch) => of_path(watch),
    }
}

fn of_socket(socket: &Socket) -> Properties {
    let has_ipv6 = Path::new("/proc/net/if_inet6").exists();
    let lines = socket.listen.iter().map(|listen| ("Listen", listened(listen, has_ipv6)));
    let mut all: Properties = lines.collect();
    let only = match socket.v6only {
        V6Only::Default => "default",
        V6Only::Both => "both",
        V6Only::Only => "ipv6-only",
    };
    let (user, group) = user(socket.owner.as_ref());
    all.extend([
        ("BindIPv6Only", only.to_string()),
        ("Backlog", socket.backlog.to_string()),
        ("BindToDevice", socket.device.clone().unwrap_or_default()),
        ("SocketUser", user),
        ("SocketGroup", group),
        ("SocketMode", format!("{:04o}", socket.mode)),
        ("DirectoryMode", format!("{:04o}", socket.directory_mode)),
        ("Accept", yes(socket.accept)),
        ("MaxConnections", socket.max_connections.to_string()),
        ("MaxConnectionsPerSource", socket.max_per_source.to_string()),
        ("FileDescriptorName", socket.fd_name.clone().unwrap_or_default()),
        ("KeepAlive", yes(socket.keepalive)),
        ("NoDelay", yes(socket.nodelay)),
        ("ReusePort", yes(socket.reuse_port)),
        ("FreeBind", yes(socket.free_bind)),
        ("Transparent", yes(socket.transparent)),
        ("Broadcast", yes(socket.broadcast)),
        ("PassCredentials", yes(socket.pass_credentials)),
        ("PassSecurity", yes(socket.pass_security)),
        ("PassPacketInfo", yes(socket.pass_packet_info)),
        ("Writable", yes(socket.writable)),
        ("FlushPending", yes(socket.flush)),
        ("RemoveOnStop", yes(socket.remove)),
        ("Symlinks", socket.symlinks.join(" ")),
    ]);
    all
}

/// Formats `/run/x.sock (Stream)`. A bare port is bound to the IPv6 wildcard if IPv6 exists.
fn listened(listen: &Listen, has_ipv6: bool) -> String {
    let sort = match listen.sort {
        Sort::Stream => "Stream",
        Sort::Datagram => "Datagram",
        Sort::Seqpacket => "SequentialPacket",
        Sort::Fifo => "FIFO",
        Sort::Special => "Special",
        Sort::Netlink => "Netlink",
    };
    match listen.address {
        Address::Port(port) if has_ipv6 => format!("[::]:{port} ({sort})"),
        Address::Port(port) => format!("0.0.0.0:{port} ({sort})"),
        Address::Path(_)
        | Address::Abstract(_)
        | Address::Inet(..)
        | Address::Netlink(..)
        | Address::Vsock(..) => format!("{listen} ({sort})"),
    }
}

fn of_timer(timer: &Timer) -> Properties {
    let monotonic: [(&str, &[Duration]); 5] = [
        ("OnActiveUSec", &timer.active),
        ("OnBootUSec", &timer.boot),
        ("OnStartupUSec", &timer.startup),
        ("OnUnitActiveUSec", &timer.unit_active),
        ("OnUnitInactiveUSec", &timer.unit_inactive),
    ];
    let mut all = Properties::new();
    for (name, spans) in monotonic {
        all.extend(
            spans
                .iter()
                .map(|time| ("TimersMonotonic", format!("{{ {name}={} }}", span(Some(*time))))),
        );
    }
    all.extend(
        timer
            .calendar
            .iter()
            .map(|calendar| ("TimersCalendar", format!("{{ OnCalendar={calendar} }}"))),
    );
    all.extend([
        ("AccuracyUSec", span(Some(timer.accuracy))),
        ("RandomizedDelayUSec", span(Some(timer.jitter))),
        ("FixedRandomDelay", yes(timer.jitter_fixed)),
        ("Persistent", yes(timer.persistent)),
    ]);
    all
}

fn of_path(watch: &Watch) -> Properties {
    let word = |look: Look| match look {
        Look::Exists => "PathExists",
        Look::ExistsGlob => "PathExistsGlob",
        Look::Changed => "PathChanged",
        Look::Modified => "PathModified",
        Look::DirectoryNotEmpty => "DirectoryNotEmpty",
    };
    let looks = watch.looks.iter();
    let mut all: Properties =
        looks.map(|(look, path)| ("Paths", format!("{path} ({})", word(*look)))).collect();
    all.extend([
        ("MakeDirectory", yes(watch.make_directory)),
        ("DirectoryMode", format!("{:04o}", watch.directory_mode)),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use groundstate_units::trigger::address::parse;

    #[test]
    fn listen_addresses_are_printed_with_their_socket_type() {
        for (sort, text, shown) in [
            (Sort::Stream, "/run/x.sock", "/run/x.sock (Stream)"),
            (Sort::Datagram, "@x", "@x (Datagram)"),
            (Sort::Seqpacket, "/run/y", "/run/y (SequentialPacket)"),
            (Sort::Fifo, "/run/f", "/run/f (FIFO)"),
            (Sort::Special, "/dev/null", "/dev/null (Special)"),
            (Sort::Netlink, "kobject-uevent 1", "kobject-uevent 1 (Netlink)"),
            (Sort::Stream, "127.0.0.1:80", "127.0.0.1:80 (Stream)"),
            (Sort::Stream, "80", "[::]:80 (Stream)"),
        ] {
            assert_eq!(listened(&parse(sort, text).unwrap(), true), shown);
        }
        assert_eq!(listened(&parse(Sort::Stream, "80").unwrap(), false), "0.0.0.0:80 (Stream)");
    }
}

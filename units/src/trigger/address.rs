//! Addresses of socket units: a path, an abstract name, a port, an address with a port, a netlink
//! family, or a vsock port. The forms are those of systemd's `ListenStream=` and related keys
//! (systemd.socket(5)).

use crate::spec::value::{Mistake, is_plain_number, mistake, path};
use crate::text::words::words;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Size of a name in struct sockaddr_un, including the trailing NUL.
const UNIX_NAME: usize = 108;

words! {
    /// The kind of descriptor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Sort {
        /// SOCK_STREAM: `listen-stream`.
        Stream = "listen-stream",
        /// SOCK_DGRAM: `listen-datagram`.
        Datagram = "listen-datagram",
        /// SOCK_SEQPACKET: `listen-seqpacket`.
        Seqpacket = "listen-seqpacket",
        /// A FIFO: `listen-fifo`.
        Fifo = "listen-fifo",
        /// A file or device that can be polled: `listen-special`.
        Special = "listen-special",
        /// A netlink socket: `listen-netlink`.
        Netlink = "listen-netlink",
    }
}

impl Sort {
    /// Returns true if clients connect to it.
    pub fn connects(self) -> bool {
        matches!(self, Sort::Stream | Sort::Seqpacket)
    }
}

/// The address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Address {
    /// A path: a unix socket, a FIFO, a special file.
    Path(String),
    /// `@name`: a unix socket without a file.
    Abstract(String),
    /// A bare port: every address of this machine, with IPv6 if available.
    Port(u16),
    /// One address; the scope is the name or number of an interface.
    Inet(IpAddr, u16, Option<String>),
    /// A netlink family by name (`kobject-uevent`) and a multicast group.
    Netlink(i32, u32),
    /// vsock(7); `None` means all context ids of this machine.
    Vsock(Option<u32>, u32),
}

/// One listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// The kind.
    pub sort: Sort,
    /// The address.
    pub address: Address,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Path(path) => f.write_str(path),
            Address::Abstract(name) => write!(f, "@{name}"),
            Address::Port(port) => write!(f, "*:{port}"),
            Address::Inet(IpAddr::V4(ip), port, _) => write!(f, "{ip}:{port}"),
            Address::Inet(IpAddr::V6(ip), port, None) => write!(f, "[{ip}]:{port}"),
            Address::Inet(IpAddr::V6(ip), port, Some(scope)) => write!(f, "[{ip}%{scope}]:{port}"),
            Address::Netlink(family, group) => {
                let name = FAMILIES.iter().find(|(_, number)| number == family);
                match name {
                    Some((name, _)) => write!(f, "{name} {group}"),
                    None => write!(f, "netlink {family} {group}"),
                }
            }
            Address::Vsock(None, port) => write!(f, "vsock::{port}"),
            Address::Vsock(Some(cid), port) => write!(f, "vsock:{cid}:{port}"),
        }
    }
}

/// Families of netlink(7), linux/netlink.h.
const FAMILIES: [(&str, i32); 16] = [
    ("route", 0),
    ("usersock", 2),
    ("firewall", 3),
    ("inet-diag", 4),
    ("nflog", 5),
    ("xfrm", 6),
    ("selinux", 7),
    ("iscsi", 8),
    ("audit", 9),
    ("fib-lookup", 10),
    ("connector", 11),
    ("netfilter", 12),
    ("ip6-fw", 13),
    ("kobject-uevent", 15),
    ("generic", 16),
    ("scsitransport", 18),
];

const HINT: &str = "a path, `@name`, a port, `ADDRESS:PORT`, `[IPv6]:PORT` or `vsock:CID:PORT`";

/// Parses one value of the key of that kind.
///
/// # Errors
/// The text is no address, or not one of that kind.
pub fn parse(sort: Sort, text: &str) -> Result<Listen, Mistake> {
    let address = match sort {
        Sort::Fifo | Sort::Special => Address::Path(path(text)?),
        Sort::Netlink => netlink(text)?,
        Sort::Stream | Sort::Datagram => socket(text)?,
        Sort::Seqpacket => match socket(text)? {
            local @ (Address::Path(_) | Address::Abstract(_) | Address::Vsock(_, _)) => local,
            Address::Port(_) | Address::Inet(_, _, _) | Address::Netlink(_, _) => {
                return mistake(format!("`{text}` has no sequential packets"), "a path or `@name`");
            }
        },
    };
    Ok(Listen { sort, address })
}

fn socket(text: &str) -> Result<Address, Mistake> {
    let wrong = || mistake(format!("`{text}` is not a listen address"), HINT);
    if text.starts_with('/') {
        let path = path(text)?;
        if path.len() >= UNIX_NAME {
            return mistake(
                format!("`{text}` is too long for a socket"),
                "the kernel takes 107 bytes",
            );
        }
        return Ok(Address::Path(path));
    }
    if let Some(name) = text.strip_prefix('@') {
        let fits = !name.is_empty() && name.len() < UNIX_NAME - 1 && !name.contains('\0');
        return if fits { Ok(Address::Abstract(name.to_string())) } else { wrong() };
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(['.', ':']) {
        return Ok(Address::Port(port(text)?));
    }
    if let Some(rest) = text.strip_prefix("vsock:") {
        let Some((cid, number)) = rest.split_once(':') else { return wrong() };
        let cid = if cid.is_empty() { None } else { Some(number32(cid)?) };
        return Ok(Address::Vsock(cid, number32(number)?));
    }
    if let Some(rest) = text.strip_prefix('[') {
        let Some((inner, behind)) = rest.split_once(']') else { return wrong() };
        let (number, outer) = match behind.split_once('%') {
            Some((number, scope)) => (number, Some(scope)),
            None => (behind, None),
        };
        let (ip, scope) = match inner.split_once('%') {
            Some((ip, scope)) => (ip, Some(scope)),
            None => (inner, outer),
        };
        let Some(number) = number.strip_prefix(':') else { return wrong() };
        let Ok(ip) = ip.parse::<Ipv6Addr>() else { return wrong() };
        let scope = scope.filter(|scope| !scope.is_empty()).map(str::to_string);
        if scope.as_ref().is_some_and(|scope| scope.len() > 15) {
            return wrong();
        }
        return Ok(Address::Inet(IpAddr::V6(ip), port(number)?, scope));
    }
    let Some((ip, number)) = text.rsplit_once(':') else { return wrong() };
    let Ok(ip) = ip.parse::<Ipv4Addr>() else { return wrong() };
    Ok(Address::Inet(IpAddr::V4(ip), port(number)?, None))
}

fn port(text: &str) -> Result<u16, Mistake> {
    match text.parse::<u16>().ok().filter(|port| is_plain_number(text) && *port > 0) {
        Some(port) => Ok(port),
        None => mistake(format!("`{text}` is not a port"), "a number from 1 to 65535"),
    }
}

fn number32(text: &str) -> Result<u32, Mistake> {
    match text.parse::<u32>().ok().filter(|_| is_plain_number(text)) {
        Some(number) => Ok(number),
        None => mistake(format!("`{text}` is not a number"), HINT),
    }
}

fn netlink(text: &str) -> Result<Address, Mistake> {
    let hint = "a family of netlink(7) and a group: `kobject-uevent 1`";
    let mut words = text.split_ascii_whitespace();
    let family = words.next().and_then(|word| FAMILIES.iter().find(|(name, _)| *name == word));
    let group = match words.next() {
        None => Some(0),
        Some(word) => word.parse::<u32>().ok().filter(|_| is_plain_number(word)),
    };
    match (family, group, words.next()) {
        (Some((_, family)), Some(group), None) => Ok(Address::Netlink(*family, group)),
        _ => mistake(format!("`{text}` is not a netlink family with a group"), hint),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_in_systemd() {
        for (text, shown) in [
            ("/run/x.sock", "/run/x.sock"),
            ("@name", "@name"),
            ("80", "*:80"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::]:53", "[::]:53"),
            ("[fe80::1%eth0]:53", "[fe80::1%eth0]:53"),
            ("[fe80::1]:53%eth0", "[fe80::1%eth0]:53"),
            ("vsock::1234", "vsock::1234"),
            ("vsock:2:1234", "vsock:2:1234"),
        ] {
            assert_eq!(parse(Sort::Stream, text).unwrap().to_string(), shown);
        }
        let netlink = parse(Sort::Netlink, "kobject-uevent 1").unwrap();
        assert_eq!(netlink.address, Address::Netlink(15, 1));
        assert_eq!(parse(Sort::Netlink, "audit").unwrap().address, Address::Netlink(9, 0));
    }

    #[test]
    fn invalid_address_is_refused() {
        let long = format!("/{}", "x".repeat(107));
        for bad in [
            "",
            "x",
            "0",
            "65536",
            "080",
            "localhost:80",
            "1.2.3:80",
            "[::1]",
            "[::1]80",
            "@",
            "run/x",
            &long,
        ] {
            assert!(parse(Sort::Stream, bad).is_err(), "{bad}");
        }
        assert!(parse(Sort::Seqpacket, "80").is_err());
        assert!(parse(Sort::Fifo, "@x").is_err());
        assert!(parse(Sort::Netlink, "nonsense 1").is_err());
        assert!(parse(Sort::Netlink, "audit 1 2").is_err());
    }
}

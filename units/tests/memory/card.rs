//! The example units of the design card (see `units/README.md`). Also loads a generation from one
//! file, and returns its diagnostics and units.

use super::{Memory, told};
use groundstate_units::spec::Run;
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::{Generation, Unit};

pub(crate) const MADDY: &str = "\
unit: maddy
type: foreground-notified
provides: imapd, smtpd
depends-ms: network-online
exec-start: /usr/bin/maddy run
exec-reload: /bin/kill -USR1 $MAINPID
exec-stop: /bin/kill -TERM $MAINPID
";
pub(crate) const NETWORK_ONLINE: &str = "\
unit: network-online
type: virtual
provides: network-online
depends-on: netif, dhcp, dns
";
pub(crate) const DHCPCD: &str = "\
unit: dhcpcd
provides: dhcp
depends-on: netif
...
";
pub(crate) const NETIF: &str = "\
unit: netif
provides: netif
type: oneshot
exec-start: /etc/my-script-to-set-up-interfaces-with-iproute2
...
";
pub(crate) const UNBOUND: &str = "\
unit: unbound
provides: dns
depends-on: netif
...
";
pub(crate) const INSPIRCD: &str = "\
unit: inspircd
provides: ircd
depends-ms: network-online
...
";
pub(crate) const IRC_BOT: &str = "\
name: irc-bot
type: foreground-notified
provides: irc-bot
depends-ms: network-online
waits-for: ircd
ready-grep: ^connected to
exec-start: /usr/local/bin/irc-bot -c /etc/irc-bot.conf
exec-reload: /bin/kill -USR1 $MAINPID
";

pub(crate) fn unit<'g>(generation: &'g Generation, name: &str) -> &'g Unit {
    let name = Name::new(name).unwrap();
    generation.units.iter().find(|unit| unit.name == name).unwrap()
}

pub(crate) fn run(unit: &Unit) -> Run {
    Run::decode(&unit.run).unwrap()
}

pub(crate) fn provides<'g>(generation: &'g Generation, unit: &Unit) -> Vec<&'g str> {
    unit.provides.iter().map(|id| generation.targets[id.0 as usize].name.as_str()).collect()
}

/// A generation of one file.
pub(crate) fn one(text: &str) -> Generation {
    Memory::new(&[("/u/x.yaml", text)]).check("/u")
}

/// Returns the diagnostics of one file, without those about other files.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    told(&one(text)).into_iter().filter(|told| !told.contains("missing-executable")).collect()
}

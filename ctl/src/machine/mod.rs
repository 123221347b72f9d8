//! Programs that the boot of a machine needs and that no Debian package has. The units of
//! contrib/debian.d run them through links to `systemctl` and `machine-daemon`.

mod kmsg;
pub(crate) mod planned_shutdown;
mod power_button;
mod session;
mod syslog;
mod utmp;

pub(crate) use power_button::watch;
pub(crate) use session::count_session;
pub(crate) use syslog::{LOG_UNIT, Origin, listen, print_messages, split_line};
pub(crate) use utmp::{Record, write};

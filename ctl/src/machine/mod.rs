//! Programs that the boot of a machine needs and that no Debian package has. The units of
//! contrib/debian.d run them through links to `systemctl` and `machine-daemon`.

pub(crate) mod boot_mark;
pub(crate) mod kmsg;
pub(crate) mod planned_shutdown;
mod power_button;
mod session;
mod setup;
mod syslog;
mod utmp;

pub(crate) use kmsg::Origin;
pub(crate) use power_button::watch;
pub(crate) use session::count_session;
pub(crate) use setup::{mount_kernel_filesystems, prepare};
pub(crate) use syslog::{LOG_UNIT, listen, parts, print_messages, split_line, tag_of};
pub(crate) use utmp::{Record, write};

//! Programs that the boot of a machine needs and that no Debian package has. The units of
//! contrib/debian.d run them through links to `systemctl`; `power-button` is a program of its own.

pub(crate) mod planned_shutdown;
mod power_button;
mod utmp;

pub(crate) use power_button::watch;
pub(crate) use utmp::{Record, write};

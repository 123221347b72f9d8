//! Programs for the boot of a machine that no Debian package brings. The units of
//! contrib/debian.d run them by the names of links to `systemctl`.

mod power_button;
mod utmp;

pub(crate) use power_button::watch;
pub(crate) use utmp::{Record, write};

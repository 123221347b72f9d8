//! Arguments of `poweroff`, `reboot`, `halt` and `exit`.

use clap::Args;

/// `poweroff`, `reboot`, `halt`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Power {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Do not wait for units: kill all processes, then sync and unmount; twice: skip even that
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) force: u8,
}

/// `exit`.
#[derive(Debug, Args)]
pub(crate) struct ExitWith {
    /// Exit status of init
    #[arg(default_value_t = 0)]
    pub(crate) code: u8,
    /// Skips the confirmation.
    #[command(flatten)]
    pub(crate) power: Power,
}

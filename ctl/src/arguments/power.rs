//! The words of `poweroff`, `reboot`, `halt` and `exit`.

use clap::Args;

/// `poweroff`, `reboot`, `halt`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Power {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Wait for no unit: kill what is left, then write and unmount; twice: not even that
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) force: u8,
}

/// `exit`.
#[derive(Debug, Args)]
pub(crate) struct ExitWith {
    /// init's exit status
    #[arg(default_value_t = 0)]
    pub(crate) code: u8,
    /// Do not ask.
    #[command(flatten)]
    pub(crate) power: Power,
}

//! Arguments of `poweroff`, `reboot`, `halt` and `exit`.

use clap::Args;

/// `poweroff`, `reboot`, `halt`: now or later.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PowerAt {
    /// `--yes` and `--force`.
    #[command(flatten)]
    pub(crate) power: Power,
    /// Later: at HH:MM, or in M minutes (+M); logged-in users are warned
    #[arg(long, value_name = "TIME", conflicts_with = "force")]
    pub(crate) at: Option<String>,
    /// With --at: a text for logged-in users
    #[arg(long, value_name = "TEXT", requires = "at")]
    pub(crate) message: Option<String>,
    /// Cancel a shutdown that was planned with --at
    #[arg(long, conflicts_with_all = ["at", "force"])]
    pub(crate) cancel: bool,
}

/// `--yes` and `--force` of a shutdown.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Power {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Kill all processes without stopping units, then sync and unmount; twice: end at once
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) force: u8,
}

/// `exit`.
#[derive(Debug, Args)]
pub(crate) struct ExitWith {
    /// Exit status of init
    #[arg(default_value_t = 0)]
    pub(crate) code: u8,
    /// `--yes` and `--force`.
    #[command(flatten)]
    pub(crate) power: Power,
}

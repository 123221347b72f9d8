//! The command line of fleetd.

use super::config;
use crate::documents;
use clap::{CommandFactory, Parser};
use std::path::PathBuf;

/// Runs the units that a cluster gives to this machine.
#[derive(Debug, Parser)]
#[command(name = "fleetd", version)]
pub struct Arguments {
    /// The configuration; without it /etc/fleet/fleet.conf, where that is
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// `version`: the version
    #[arg(value_name = "version", value_parser = ["version"])]
    pub word: Option<String>,
}

/// All of it, for who writes of it.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Its page, with the keys of its configuration.
///
/// # Errors
/// As [`documents::man`].
pub fn man() -> std::io::Result<String> {
    let mut keys = String::from(
        ".SH CONFIGURATION\nLines of key = value in fleet.conf, read again at SIGHUP. A variable \
         FLEET_KEY wins over its key. Times may be written as 30s.\n",
    );
    for (key, default, meaning) in config::KEYS {
        let meaning = documents::plain(meaning);
        let default = match default {
            "" => String::new(),
            default => format!(" [default: {}]", documents::plain(default)),
        };
        keys.push_str(&format!(".TP\n\\fB{key}\\fR{default}\n{meaning}\n"));
    }
    documents::man(command(), &keys)
}

//! The command line of fleetd.

use super::config;
use crate::documents;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the units that a cluster assigns to this machine.
#[derive(Debug, Parser)]
#[command(name = "fleetd", version = concat!("version v", env!("CARGO_PKG_VERSION")))]
pub struct Arguments {
    /// The configuration [default: /etc/fleet/fleet.conf, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Allow TCP without TLS on loopback addresses only, as the key insecure_loopback
    #[arg(long)]
    pub insecure_loopback_only: bool,
    /// Print the version, as --version
    #[arg(value_name = "version", value_parser = ["version"])]
    pub version_word: Option<String>,
}

impl Arguments {
    /// Parses the arguments; like fleet, accepts flags with one dash.
    ///
    /// # Errors
    /// An argument is invalid, or the arguments only request help.
    pub fn read(words: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
        let twice = |word: OsString| match word.to_str() {
            Some(text)
                if text == "-version" || text == "-config" || text.starts_with("-config=") =>
            {
                format!("-{text}").into()
            }
            _ => word,
        };
        Arguments::try_parse_from(words.map(twice))
    }
}

/// The command definition, for documents.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The man page, with the keys of the configuration.
///
/// # Errors
/// As [`documents::man`].
pub fn man() -> std::io::Result<String> {
    let mut keys = String::from(
        ".SH CONFIGURATION\nLines of key = value in fleet.conf, read again at SIGHUP. A variable \
         FLEET_KEY overrides its key. Times may be written as 30s.\n",
    );
    for (key, default, meaning) in config::KEYS {
        let meaning = documents::plain(meaning);
        let default = match default {
            "" => String::new(),
            default => format!(" [default: {}]", documents::plain(default)),
        };
        keys.push_str(&format!(".TP\n\\fB{key}\\fR{default}\n{meaning}\n"));
    }
    documents::man(command(), &[], &keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_may_have_one_dash_as_in_fleet() {
        let read = |words: &[&str]| {
            let words = std::iter::once(&"fleetd").chain(words).map(OsString::from);
            Arguments::read(words).map_err(|error| error.to_string())
        };
        for words in [&["-config", "/f"][..], &["-config=/f"], &["--config=/f"]] {
            assert_eq!(read(words).unwrap().config, Some(PathBuf::from("/f")), "{words:?}");
        }
        let version = concat!("fleetd version v", env!("CARGO_PKG_VERSION"), "\n");
        for word in ["-version", "--version"] {
            assert_eq!(read(&[word]).unwrap_err(), version);
        }
        assert!(read(&["version"]).unwrap().version_word.is_some());
        assert!(read(&["--insecure-loopback-only"]).unwrap().insecure_loopback_only);
        assert!(read(&["-x"]).is_err() && read(&["other"]).is_err());
    }
}

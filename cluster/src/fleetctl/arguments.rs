//! The command line. Flags may precede or follow the command. Flags of all commands have a variable
//! `FLEETCTL_…`, which an explicit flag overrides.

use clap::builder::Resettable;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The default endpoint.
pub(super) const ENDPOINT: &str = "unix:///var/run/fleet.sock";

/// Parses the command line and the variables that are not empty: as in Go, an empty variable counts
/// as unset.
///
/// # Errors
/// The fault of the command line.
pub(super) fn read(arguments: Vec<OsString>) -> Result<Line, clap::Error> {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|is| is.is_empty());
    let command = super::help::with_groups(Line::command()).mut_args(|arg| {
        match arg.get_env().is_some_and(is_empty) {
            true => arg.env(Resettable::Reset),
            false => arg,
        }
    });
    let arguments = switches(&command, arguments);
    let line = Line::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    Ok(Line { globals: line.globals.with_deprecated_flags(), ..line })
}

/// Normalizes switches as in Go's flag package: `--no-block=true` becomes `--no-block`, and
/// `--no-block=false` is dropped.
fn switches(command: &clap::Command, arguments: Vec<OsString>) -> Vec<OsString> {
    let commands = command.get_subcommands().chain([command]);
    let switch = |arg: &&clap::Arg| matches!(arg.get_action(), ArgAction::SetTrue);
    let known: Vec<String> = commands
        .flat_map(|command| command.get_arguments().filter(switch))
        .filter_map(|arg| arg.get_long().map(str::to_string))
        .collect();
    let mut behind = false;
    let read = |argument: OsString| {
        behind |= argument == "--";
        let text = argument.to_str().filter(|_| !behind);
        let given = text.and_then(|text| text.strip_prefix("--")?.split_once('='));
        let Some((name, value)) = given.filter(|(name, _)| known.iter().any(|own| own == name))
        else {
            return Some(argument);
        };
        match value {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(format!("--{name}").into()),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => None,
            _ => Some(argument),
        }
    };
    arguments.into_iter().filter_map(read).collect()
}

/// Control a cluster of machines that run units.
#[derive(Debug, Parser)]
#[command(name = "fleetctl", disable_version_flag = true, infer_subcommands = true)]
#[command(about = "Control a cluster of machines that run units")]
#[command(after_help = concat!("fleetctl version v", env!("CARGO_PKG_VERSION")))]
pub(super) struct Line {
    #[command(flatten)]
    pub(super) globals: Globals,
    /// Print the version
    #[arg(long, short = 'v')]
    pub(super) version: bool,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

/// Options of all commands.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// The server's address: unix:///PATH, http://HOST:PORT or https://HOST:PORT
    #[arg(long, global = true, env = "FLEETCTL_ENDPOINT", value_name = "URL", default_value = ENDPOINT)]
    pub(super) endpoint: String,
    /// API; the driver etcd is no longer supported
    #[arg(long, global = true, env = "FLEETCTL_DRIVER", default_value = "API", hide = true)]
    pub(super) driver: String,
    #[arg(long, global = true, env = "FLEETCTL_ETCD_KEY_PREFIX", hide = true)]
    pub(super) etcd_key_prefix: Option<String>,
    /// The key of the client certificate
    #[arg(long, global = true, env = "FLEETCTL_KEY_FILE", value_name = "FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// The client certificate
    #[arg(long, global = true, env = "FLEETCTL_CERT_FILE", value_name = "FILE")]
    pub(super) cert_file: Option<PathBuf>,
    /// The CA of the server's certificate [default: the system's CAs]
    #[arg(long, global = true, env = "FLEETCTL_CA_FILE", value_name = "FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// Connect through this host by ssh: HOST[:PORT]
    #[arg(long, global = true, env = "FLEETCTL_TUNNEL", value_name = "HOST")]
    pub(super) tunnel: Option<String>,
    /// File with the host keys known to ssh
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_KNOWN_HOSTS_FILE",
        value_name = "FILE",
        default_value = "~/.fleetctl/known_hosts"
    )]
    pub(super) known_hosts_file: String,
    /// Refuse hosts whose key differs from the known one; false: neither check nor store keys
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_STRICT_HOST_KEY_CHECKING",
        value_name = "BOOL",
        hide_possible_values = true,
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub(super) strict_host_key_checking: bool,
    /// Sign submitted units with the key in this file (openssl genpkey -algorithm ed25519)
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_SIGN_KEY",
        value_name = "FILE",
        requires = "cluster_name"
    )]
    pub(super) sign_key: Option<PathBuf>,
    /// The cluster to sign for, as cluster_name in fleet.conf
    #[arg(long, global = true, env = "FLEETCTL_CLUSTER_NAME", value_name = "NAME")]
    pub(super) cluster_name: Option<String>,
    /// Timeout of ssh connections in seconds
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_SSH_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 10.0
    )]
    pub(super) ssh_timeout: f64,
    /// The user name on other machines
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_SSH_USERNAME",
        value_name = "USER",
        default_value = "core"
    )]
    pub(super) ssh_username: String,
    /// Timeout of requests in seconds
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_REQUEST_TIMEOUT",
        value_name = "SECONDS",
        default_value_t = 30.0
    )]
    pub(super) request_timeout: f64,
    /// Print each request to stderr
    #[arg(long, global = true, env = "FLEETCTL_DEBUG", value_parser = clap::builder::FalseyValueParser::new())]
    pub(super) debug: bool,
    /// Print JSON instead of text
    #[arg(long, global = true, env = "FLEETCTL_JSON", value_parser = clap::builder::FalseyValueParser::new())]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) deprecated: DeprecatedFlags,
}

/// Flags that were already deprecated in fleet 1.0.
#[derive(Clone, Debug, Args)]
pub(super) struct DeprecatedFlags {
    #[arg(long, global = true, hide = true, env = "FLEETCTL_ETCD_KEYFILE")]
    etcd_keyfile: Option<PathBuf>,
    #[arg(long, global = true, hide = true, env = "FLEETCTL_ETCD_CERTFILE")]
    etcd_certfile: Option<PathBuf>,
    #[arg(long, global = true, hide = true, env = "FLEETCTL_ETCD_CAFILE")]
    etcd_cafile: Option<PathBuf>,
    #[arg(
        long,
        global = true,
        hide = true,
        env = "FLEETCTL_EXPERIMENTAL_API",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    experimental_api: Option<bool>,
}

impl Globals {
    /// Takes values from deprecated flags where the new ones are not set.
    fn with_deprecated_flags(mut self) -> Globals {
        let DeprecatedFlags { etcd_keyfile, etcd_certfile, etcd_cafile, experimental_api } =
            &self.deprecated;
        if *experimental_api == Some(false) {
            self.driver = "etcd".to_string();
        }
        self.key_file = self.key_file.or_else(|| etcd_keyfile.clone());
        self.cert_file = self.cert_file.or_else(|| etcd_certfile.clone());
        self.ca_file = self.ca_file.or_else(|| etcd_cafile.clone());
        self
    }
}

/// The command. Aliases keep each prefix valid that was unique among fleet's commands.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write all units and their desired states to a file
    Backup {
        /// The file; it is replaced as a whole or not at all
        file: PathBuf,
    },
    /// Print a unit file
    #[command(alias = "c")]
    Cat {
        /// The unit's name
        unit: String,
    },
    /// Remove units from the cluster
    #[command(alias = "d")]
    Destroy(Down),
    /// Move all but global units off machines; place no new ones
    Drain(Drain),
    /// Show changes as they happen
    Events,
    /// Copy between stdin/stdout and a unix socket
    FdForward {
        /// The path of the socket
        socket: PathBuf,
    },
    /// Show the output of a unit, by ssh and journalctl
    Journal(Journal),
    /// List the machines
    ListMachines(List),
    /// List the unit files and their desired states
    ListUnitFiles(List),
    /// List the states of units
    ListUnits(ListUnits),
    /// Place units on machines without starting them
    #[command(alias = "lo")]
    Load(Up),
    /// Show the output of a unit, through the API
    Logs(Logs),
    /// Stop units and start them again
    #[command(aliases = ["r", "re", "res", "rest"])]
    Restart(Down),
    /// Restore a backup into a cluster without units
    Restore(Restore),
    /// Replace the file of units, a few at a time
    Rollout(Rollout),
    /// Open a shell on a machine, or on the machine of a unit
    Ssh(Ssh),
    /// Place units on machines and start them
    Start(Up),
    /// Show the status of units from their init, by ssh
    Status {
        /// Unit names
        #[arg(required = true)]
        units: Vec<String>,
        #[command(flatten)]
        ssh: SshPort,
    },
    /// Stop units; they keep their machines
    Stop(Down),
    /// Store unit files in the cluster
    Submit(Up),
    /// Let machines take units again
    Undrain(Machines),
    /// Remove units from their machines
    #[command(aliases = ["u", "un"])]
    Unload(Down),
    /// Explain where a unit is, or why it is on no machine
    Why {
        /// The unit's name
        unit: String,
    },
    /// Print the version
    Version,
    #[command(hide = true)]
    Verify {
        /// Unit names
        units: Vec<String>,
    },
    /// Print completions for a shell
    Completions {
        shell: clap_complete::Shell,
        #[arg(default_value = "fleetctl", value_enum)]
        program: Program,
    },
    /// Print the man page
    #[command(hide = true)]
    Man {
        #[arg(default_value = "fleetctl", value_enum)]
        program: Program,
    },
}

/// A program with generated documents.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Program {
    /// The client
    Fleetctl,
    /// The daemon
    Fleetd,
}

/// Options for waiting, of all commands that change units.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Waiting {
    /// Do not wait for the units to reach the state
    #[arg(long)]
    pub(super) no_block: bool,
    /// Number of attempts of 2 s each; 0: no limit
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(super) block_attempts: i64,
}

#[derive(Debug, Args)]
pub(super) struct Up {
    /// Unit files or names
    pub(super) units: Vec<String>,
    #[command(flatten)]
    pub(super) waiting: Waiting,
    /// Replace an existing file
    #[arg(long)]
    pub(super) replace: bool,
    #[arg(long, hide = true)]
    pub(super) sign: bool,
}

#[derive(Debug, Args)]
pub(super) struct Down {
    /// Unit names
    pub(super) units: Vec<String>,
    #[command(flatten)]
    pub(super) waiting: Waiting,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// The columns, comma-separated
    #[arg(long)]
    pub(super) fields: Option<String>,
    /// Do not shorten values
    #[arg(long, short = 'l', visible_alias = "l")]
    pub(super) full: bool,
    /// Do not print the column headings
    #[arg(long)]
    pub(super) no_legend: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListUnits {
    #[command(flatten)]
    pub(super) list: List,
    /// Print the list again after each change
    #[arg(long, short = 'w')]
    pub(super) watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct Machines {
    /// Machine ids or prefixes
    #[arg(required = true)]
    pub(super) machines: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// File written by `fleetctl backup`
    pub(super) file: PathBuf,
    /// If the cluster has units: replace those with the same names, and keep the others
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct Drain {
    #[command(flatten)]
    pub(super) machines: Machines,
    /// Wait until only global units are left
    #[arg(long)]
    pub(super) wait: bool,
    /// Timeout of --wait in seconds
    #[arg(long, default_value_t = 300.0)]
    pub(super) timeout: f64,
    /// Do not ask before stopping units that no other machine can have
    #[arg(long, short = 'y')]
    pub(super) yes: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct SshPort {
    /// The ssh port of the other machine
    #[arg(long, default_value_t = 22, value_name = "PORT")]
    pub(super) ssh_port: u16,
}

#[derive(Debug, Args)]
pub(super) struct Journal {
    /// The unit's name
    pub(super) unit: String,
    /// Number of lines
    #[arg(long, default_value_t = 10)]
    pub(super) lines: u64,
    /// Follow the log
    #[arg(long, short = 'f', visible_alias = "f")]
    pub(super) follow: bool,
    /// Run journalctl as root
    #[arg(long)]
    pub(super) sudo: bool,
    /// Output format, as journalctl's --output
    #[arg(long, default_value = "short")]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) ssh: SshPort,
}

#[derive(Debug, Args)]
pub(super) struct Logs {
    /// The unit's name
    pub(super) unit: String,
    /// Number of lines
    #[arg(long, short = 'n', default_value_t = 10)]
    pub(super) lines: u64,
    /// Follow the log
    #[arg(long, short = 'f')]
    pub(super) follow: bool,
    /// The machine, for a global unit
    #[arg(long)]
    pub(super) machine: Option<String>,
    #[command(flatten)]
    pub(super) ssh: SshPort,
}

#[derive(Debug, Args)]
pub(super) struct Ssh {
    /// The machine
    #[arg(long)]
    pub(super) machine: Option<String>,
    /// The unit
    #[arg(long)]
    pub(super) unit: Option<String>,
    /// Forward our ssh agent
    #[arg(long, short = 'A', visible_alias = "A")]
    pub(super) forward_agent: bool,
    #[command(flatten)]
    pub(super) ssh: SshPort,
    /// A machine or a unit (unless a flag names it), and a command
    #[arg(trailing_var_arg = true)]
    pub(super) rest: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Rollout {
    /// The new file; its name selects the unit, the template's instances or the global unit
    pub(super) file: PathBuf,
    /// Number of units or machines replaced at a time
    #[arg(long, default_value_t = 1)]
    pub(super) batch: usize,
    /// Seconds until a unit must be active
    #[arg(long, default_value_t = 60.0)]
    pub(super) timeout: f64,
    /// Seconds that units must stay active, in the same run, before the next ones are replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(super) healthy_for: f64,
    /// Keep the new file if a unit does not come up
    #[arg(long)]
    pub(super) no_rollback: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }

    #[test]
    fn help_shows_the_version() {
        let help = Line::command().render_help().to_string();
        assert!(help.contains(concat!("fleetctl version v", env!("CARGO_PKG_VERSION"))), "{help}");
    }

    #[test]
    fn switch_accepts_true_and_false_as_in_go() {
        let read = |line: &str| read(line.split(' ').map(OsString::from).collect());
        let blocks = |line: &str| match read(line).unwrap().command {
            Some(Command::Start(up)) => !up.waiting.no_block,
            other => panic!("{other:?}"),
        };
        for (word, no_block) in [("true", true), ("1", true), ("T", true), ("false", false)] {
            assert_eq!(blocks(&format!("fleetctl start --no-block={word} a")), !no_block, "{word}");
        }
        assert!(read("fleetctl --debug=false list-units --no-legend=true --full=0").is_ok());
        assert!(read("fleetctl start --no-block=maybe a").is_err());
        assert!(read("fleetctl ssh m1 -- prog --no-block=false").is_ok());
    }

    #[test]
    fn unique_prefix_of_a_fleet_command_selects_it() {
        // fleet 1.0's commands: each prefix must select the same command as there, or none.
        let fleets = [
            "cat",
            "destroy",
            "fd-forward",
            "help",
            "journal",
            "list-machines",
            "list-unit-files",
            "list-units",
            "load",
            "restart",
            "ssh",
            "start",
            "status",
            "stop",
            "submit",
            "unload",
            "verify",
            "version",
        ];
        let line = Line::command();
        for command in fleets {
            for length in 1..=command.len() {
                let begin = &command[..length];
                let meant = fleets.iter().filter(|one| one.starts_with(begin)).count();
                if meant > 1 && begin != command {
                    continue;
                }
                let named = [command, "-h"];
                let help = |words: [&str; 2]| {
                    let words = ["fleetctl"].into_iter().chain(words);
                    line.clone().try_get_matches_from(words).unwrap_err().to_string()
                };
                assert_eq!(help([begin, "-h"]), help(named), "{begin} of {command}");
            }
        }
    }

    #[test]
    fn deprecated_flags_set_the_values_of_the_new_ones() {
        let globals =
            |line: &str| read(line.split(' ').map(OsString::from).collect()).unwrap().globals;
        let old = globals("fleetctl --etcd-keyfile=k --etcd-certfile=c --etcd-cafile=a list-units");
        assert_eq!(old.key_file, Some("k".into()));
        assert_eq!(old.cert_file, Some("c".into()));
        assert_eq!(old.ca_file, Some("a".into()));
        let both = globals("fleetctl --key-file=new --etcd-keyfile=old list-units");
        assert_eq!(both.key_file, Some("new".into()));
        assert_eq!(globals("fleetctl --experimental-api=false cat a").driver, "etcd");
        assert_eq!(globals("fleetctl --experimental-api cat a").driver, "API");
    }

    #[test]
    fn command_lines_of_fleet_are_accepted() {
        let taken = |line: &str| Line::try_parse_from(line.split(' ')).is_ok();
        for line in [
            "fleetctl",
            "fleetctl --endpoint=unix:///a list-units -l",
            "fleetctl list-units --l --no-legend --fields=unit,hash",
            "fleetctl list-m --full --endpoint http://a:1",
            "fleetctl list-unit-f --fields unit",
            "fleetctl start --no-block --block-attempts=20 --replace --sign a b",
            "fleetctl journal -f --lines=3 --sudo --output=cat a",
            "fleetctl ssh -A --ssh-port=2222 m1 uptime -p",
            "fleetctl ssh m1 -- ls -l",
            "fleetctl --strict-host-key-checking=false --experimental-api=true cat a",
            "fleetctl --strict-host-key-checking list-machines",
            "fleetctl start",
        ] {
            assert!(taken(line), "{line}");
        }
        for line in ["fleetctl bogus", "fleetctl list-units --bogus", "fleetctl cat"] {
            assert!(!taken(line), "{line}");
        }
    }
}

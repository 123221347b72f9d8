//! The command line. Flags may stand before or after the command; those of all commands
//! have a variable `FLEETCTL_…`, and a flag that is given wins over it.

use clap::builder::Resettable;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Where the server is, when nothing is said.
pub(super) const ENDPOINT: &str = "unix:///var/run/fleet.sock";

/// The command line, with the variables that are not empty: an empty one says nothing, as in Go.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(arguments: Vec<OsString>) -> Result<Line, clap::Error> {
    let is_empty = |name: &std::ffi::OsStr| std::env::var_os(name).is_some_and(|is| is.is_empty());
    let command = super::help::dressed(Line::command()).mut_args(|arg| {
        match arg.get_env().is_some_and(is_empty) {
            true => arg.env(Resettable::Reset),
            false => arg,
        }
    });
    let arguments = switches(&command, arguments);
    let line = Line::from_arg_matches(&command.try_get_matches_from(arguments)?)?;
    Ok(Line { globals: line.globals.renewed(), ..line })
}

/// `--no-block=true` is `--no-block`, and `--no-block=false` is nothing: Go's flags have it so.
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

/// Commands a cluster of machines that run units.
#[derive(Debug, Parser)]
#[command(name = "fleetctl", disable_version_flag = true, infer_subcommands = true)]
#[command(about = "Commands a cluster of machines that run units")]
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

/// What all commands take.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(super) struct Globals {
    /// Where the server is: unix:///PATH, http://HOST:PORT or https://HOST:PORT
    #[arg(long, global = true, env = "FLEETCTL_ENDPOINT", default_value = ENDPOINT)]
    pub(super) endpoint: String,
    /// API; etcd is not spoken any more
    #[arg(long, global = true, env = "FLEETCTL_DRIVER", default_value = "API", hide = true)]
    pub(super) driver: String,
    #[arg(long, global = true, env = "FLEETCTL_ETCD_KEY_PREFIX", hide = true)]
    pub(super) etcd_key_prefix: Option<String>,
    /// The key of the certificate to show
    #[arg(long, global = true, env = "FLEETCTL_KEY_FILE")]
    pub(super) key_file: Option<PathBuf>,
    /// The certificate to show
    #[arg(long, global = true, env = "FLEETCTL_CERT_FILE")]
    pub(super) cert_file: Option<PathBuf>,
    /// Who must have signed the server; without it whom the system trusts
    #[arg(long, global = true, env = "FLEETCTL_CA_FILE")]
    pub(super) ca_file: Option<PathBuf>,
    /// Go through this host by ssh: HOST[:PORT]
    #[arg(long, global = true, env = "FLEETCTL_TUNNEL")]
    pub(super) tunnel: Option<String>,
    /// Keys of hosts that ssh knows
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_KNOWN_HOSTS_FILE",
        default_value = "~/.fleetctl/known_hosts"
    )]
    pub(super) known_hosts_file: String,
    /// Refuse hosts whose key is another than the known one; false: ask for nothing, keep nothing
    #[arg(
        long,
        global = true,
        env = "FLEETCTL_STRICT_HOST_KEY_CHECKING",
        default_value_t = true,
        action = clap::ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub(super) strict_host_key_checking: bool,
    /// Sign what is put into the cluster, with the key of this file (openssl genpkey -algorithm ed25519)
    #[arg(long, global = true, env = "FLEETCTL_SIGN_KEY", requires = "cluster_name")]
    pub(super) sign_key: Option<PathBuf>,
    /// The cluster that it is signed for: as cluster_name in fleet.conf
    #[arg(long, global = true, env = "FLEETCTL_CLUSTER_NAME")]
    pub(super) cluster_name: Option<String>,
    /// Seconds until ssh gives up to connect
    #[arg(long, global = true, env = "FLEETCTL_SSH_TIMEOUT", default_value_t = 10.0)]
    pub(super) ssh_timeout: f64,
    /// Whom to be on other machines
    #[arg(long, global = true, env = "FLEETCTL_SSH_USERNAME", default_value = "core")]
    pub(super) ssh_username: String,
    /// Seconds until a request is given up
    #[arg(long, global = true, env = "FLEETCTL_REQUEST_TIMEOUT", default_value_t = 30.0)]
    pub(super) request_timeout: f64,
    /// Show each request on stderr
    #[arg(long, global = true, env = "FLEETCTL_DEBUG", value_parser = clap::builder::FalseyValueParser::new())]
    pub(super) debug: bool,
    /// JSON instead of text
    #[arg(long, global = true, env = "FLEETCTL_JSON", value_parser = clap::builder::FalseyValueParser::new())]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) former: Former,
}

/// Flags that fleet 1.0 had given other names already.
#[derive(Clone, Debug, Args)]
pub(super) struct Former {
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
    /// What flags of former names say is what their new ones say, where those say nothing.
    fn renewed(mut self) -> Globals {
        let Former { etcd_keyfile, etcd_certfile, etcd_cafile, experimental_api } = &self.former;
        if *experimental_api == Some(false) {
            self.driver = "etcd".to_string();
        }
        self.key_file = self.key_file.or_else(|| etcd_keyfile.clone());
        self.cert_file = self.cert_file.or_else(|| etcd_certfile.clone());
        self.ca_file = self.ca_file.or_else(|| etcd_cafile.clone());
        self
    }
}

/// What is to be done. A beginning that was enough for one of fleet's commands still is, beside
/// those that are ours: that is what the aliases are for.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Write all units, and what is wished for them, into a file
    Backup {
        /// It is there as a whole afterwards, or as it was
        file: PathBuf,
    },
    /// Print what a unit's file says
    #[command(alias = "c")]
    Cat { unit: String },
    /// Remove units from the cluster
    #[command(alias = "d")]
    Destroy(Down),
    /// Move everything off a machine but what is global, and give it nothing new
    Drain(Drain),
    /// Show what changes, as it changes
    Events,
    /// Copy between stdin/stdout and a unix socket
    FdForward { socket: PathBuf },
    /// Show what a unit's processes wrote, by ssh and journalctl
    Journal(Journal),
    /// List the machines
    ListMachines(List),
    /// List the files of the units, and what is wished for them
    ListUnitFiles(List),
    /// List what units are doing
    ListUnits(ListUnits),
    /// Put units on machines without starting them
    #[command(alias = "lo")]
    Load(Up),
    /// Show what a unit's processes wrote, through the API
    Logs(Logs),
    /// Stop units and start them again
    #[command(aliases = ["r", "re", "res", "rest"])]
    Restart(Down),
    /// Put the units of a backup into a cluster that has none
    Restore(Restore),
    /// Put a new file in the place of units, a few at a time
    Rollout(Rollout),
    /// Go to a machine, or the machine of a unit
    Ssh(Ssh),
    /// Put units on machines and start them
    Start(Up),
    /// Show what init says of units, by ssh
    Status {
        #[arg(required = true)]
        units: Vec<String>,
        #[command(flatten)]
        ssh: SshPort,
    },
    /// Stop units; they stay on their machines
    Stop(Down),
    /// Put files of units into the cluster
    Submit(Up),
    /// Let machines take units again
    Undrain(Machines),
    /// Take units off their machines
    #[command(aliases = ["u", "un"])]
    Unload(Down),
    /// Say where a unit is and why, or why it is nowhere
    Why { unit: String },
    /// Print the version
    Version,
    #[command(hide = true)]
    Verify { units: Vec<String> },
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

/// Of which something is written.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Program {
    /// The client
    Fleetctl,
    /// The daemon
    Fleetd,
}

/// Waiting, as all that change units have it.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct Waiting {
    /// Do not wait for the units to get there
    #[arg(long)]
    pub(super) no_block: bool,
    /// Wait so many times 2 s; 0: without end
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(super) block_attempts: i64,
}

#[derive(Debug, Args)]
pub(super) struct Up {
    pub(super) units: Vec<String>,
    #[command(flatten)]
    pub(super) waiting: Waiting,
    /// Put the file in the place of one that is there
    #[arg(long)]
    pub(super) replace: bool,
    #[arg(long, hide = true)]
    pub(super) sign: bool,
}

#[derive(Debug, Args)]
pub(super) struct Down {
    pub(super) units: Vec<String>,
    #[command(flatten)]
    pub(super) waiting: Waiting,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Which columns, with commas
    #[arg(long)]
    pub(super) fields: Option<String>,
    /// Do not shorten
    #[arg(long, short = 'l', visible_alias = "l")]
    pub(super) full: bool,
    /// No head above the columns
    #[arg(long)]
    pub(super) no_legend: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListUnits {
    #[command(flatten)]
    pub(super) list: List,
    /// Show it again whenever something changes
    #[arg(long, short = 'w')]
    pub(super) watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct Machines {
    /// Ids, or how they begin
    #[arg(required = true)]
    pub(super) machines: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Restore {
    /// Of `fleetctl backup`
    pub(super) file: PathBuf,
    /// Where there are units: replace those with the same names, and leave the others
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, Args)]
pub(super) struct Drain {
    #[command(flatten)]
    pub(super) machines: Machines,
    /// Wait until nothing but global units is there
    #[arg(long)]
    pub(super) wait: bool,
    /// Seconds that --wait waits
    #[arg(long, default_value_t = 300.0)]
    pub(super) timeout: f64,
    /// Do not ask where units stop because no other machine can have them
    #[arg(long, short = 'y')]
    pub(super) yes: bool,
}

#[derive(Clone, Copy, Debug, Args)]
pub(super) struct SshPort {
    /// Of the other machine's ssh
    #[arg(long, default_value_t = 22)]
    pub(super) ssh_port: u16,
}

#[derive(Debug, Args)]
pub(super) struct Journal {
    pub(super) unit: String,
    /// The last so many lines
    #[arg(long, default_value_t = 10)]
    pub(super) lines: u64,
    /// Go on
    #[arg(long, short = 'f', visible_alias = "f")]
    pub(super) follow: bool,
    /// As root
    #[arg(long)]
    pub(super) sudo: bool,
    /// As journalctl's --output
    #[arg(long, default_value = "short")]
    pub(super) output: String,
    #[command(flatten)]
    pub(super) ssh: SshPort,
}

#[derive(Debug, Args)]
pub(super) struct Logs {
    pub(super) unit: String,
    /// The last so many lines
    #[arg(long, short = 'n', default_value_t = 10)]
    pub(super) lines: u64,
    /// Go on
    #[arg(long, short = 'f')]
    pub(super) follow: bool,
    /// Of this machine, for a global unit
    #[arg(long)]
    pub(super) machine: Option<String>,
    #[command(flatten)]
    pub(super) ssh: SshPort,
}

#[derive(Debug, Args)]
pub(super) struct Ssh {
    /// Go to this machine
    #[arg(long)]
    pub(super) machine: Option<String>,
    /// Go to the machine of this unit
    #[arg(long)]
    pub(super) unit: Option<String>,
    /// Let the other machine use our ssh agent
    #[arg(long, short = 'A', visible_alias = "A")]
    pub(super) forward_agent: bool,
    #[command(flatten)]
    pub(super) ssh: SshPort,
    /// A machine or a unit (unless named by a flag), and a command
    #[arg(trailing_var_arg = true)]
    pub(super) rest: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct Rollout {
    /// The new file; its name says which unit, which template's instances, or which global unit
    pub(super) file: PathBuf,
    /// So many at a time
    #[arg(long, default_value_t = 1)]
    pub(super) batch: usize,
    /// Seconds until a unit must be active
    #[arg(long, default_value_t = 60.0)]
    pub(super) timeout: f64,
    /// Seconds for which units must stay active, in the same run, before the next ones are replaced
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub(super) healthy_for: f64,
    /// Leave what was replaced as it is when a unit does not come up
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
    fn the_help_of_all_says_which_version_it_is() {
        let help = Line::command().render_help().to_string();
        assert!(help.contains(concat!("fleetctl version v", env!("CARGO_PKG_VERSION"))), "{help}");
    }

    #[test]
    fn a_switch_may_say_true_or_false() {
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
    fn a_beginning_that_was_enough_for_a_command_of_fleet_still_is() {
        // Those of 1.0: for each beginning the one command that it is of, or none.
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
    fn flags_of_former_names_say_what_the_new_ones_say() {
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
    fn what_people_knew_is_taken() {
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

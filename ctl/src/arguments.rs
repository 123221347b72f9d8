//! The command line as clap parses it. `argv_aliases.rs` first rewrites other forms: `+x`, `-y` and
//! other program names.

mod goal;
mod help;
mod power;
mod value;

pub(crate) use goal::{Goal, SetTarget, Unwant, Wait, Want};
pub(crate) use help::{EXAMPLES, EXIT_CODES, GROUPS};
pub(crate) use power::{ExitWith, Power, PowerAt};

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use groundstate_units::text::name::Name;
use std::path::PathBuf;
use value::{choice, count, signal};

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "initctl", version, about = "Inspect and control Groundstate", long_about = None, disable_help_subcommand = true,
    propagate_version = false, subcommand_required = true, max_term_width = 100,
    override_usage = "initctl [OPTIONS] [VERB]",
    after_help = format!("Exit codes: {EXIT_CODES}."))]
pub(crate) struct Arguments {
    /// Flags of every verb.
    #[command(flatten)]
    pub(crate) common: Common,
    /// The verb.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Returns the command line with grouped help.
pub(crate) fn command() -> clap::Command {
    help::with_groups(Arguments::command())
}

/// Flags of every verb.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The control socket of init [env: GROUNDSTATE_SOCKET]
    #[arg(long, global = true, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON; streams print one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colours: auto, always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_default_value = true
    )]
    pub(crate) color: Colour,
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// Colours on a terminal, unless NO_COLOR is set.
    Auto,
    /// Colours on any output.
    Always,
    /// No colours.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the units that need attention, or one in full (default)
    Status(Status),
    /// Change the goal: the targets that should run
    #[command(override_usage = "initctl set-target TARGET… [+WANT…] [-DROP…] [OPTIONS]")]
    SetTarget(SetTarget),
    /// Show the effect of a set-target or a reload
    #[command(override_usage = "initctl plan [TARGET…] [+WANT…] [-DROP…] | --reload [OPTIONS]")]
    Plan(Plan),
    /// Explain the state of a target
    Why(OneTarget),
    /// Add a target to the goal until the next boot
    Want(Want),
    /// Remove a wanted target from the goal
    Unwant(Unwant),
    /// Mask targets: never start them, treat them as not provided
    Mask(Policy),
    /// Unmask targets
    Unmask(Policy),
    /// Apply the wanted-by and required-by entries of these units
    Enable(Policy),
    /// Ignore the wanted-by and required-by entries of these units
    Disable(Policy),
    /// Choose which of several units provides a target
    Prefer(Prefer),
    /// Reload the unit files; a refused reload changes nothing
    Reload(Reload),
    /// Restart units
    Restart(UnitOperation),
    /// Ask services to reload their configuration
    ReloadUnit(UnitOperation),
    /// Send a signal to the processes of units
    Kill(Kill),
    /// Forget the failures of units and retry now
    Retry(UnitOperation),
    /// Show the output of units
    Logs(Logs),
    /// Show the event log
    Events(Events),
    /// Show dependencies as a tree, from the goal down
    Tree(Tree),
    /// Print the dependency graph for other programs
    Graph(Graph),
    /// Show when each timer fires next
    Timers,
    /// Show where each socket unit listens
    Sockets,
    /// Show how long each start took
    Blame,
    /// Show the chain of starts that the goal waited for
    CriticalChain(TargetsOrGoal),
    /// Draw the starts as an SVG picture
    Plot,
    /// Print the file of a unit
    Cat(OneTarget),
    /// Show which unit a process belongs to
    Whose(Whose),
    /// Show what this machine or an image lacks for a boot
    ///
    /// Needs no running init: it works before the first boot with Groundstate. With Groundstate as
    /// PID 1, it also reports the state of the system and failed units. Exits 1 on errors; warnings
    /// alone exit 0
    Doctor(Doctor),
    /// Find the errors in unit files
    Check(Check),
    /// Translate unit files of systemd, or scripts of SysV or OpenRC
    Convert(Convert),
    /// Explain a key of a unit file
    Explain(Explain),
    /// Manage sets of unit files owned by a controller
    #[command(subcommand)]
    Source(Source),
    /// Replace the running init with another binary
    Upgrade(Upgrade),
    /// Continue as the init of another root (from an initramfs)
    SwitchRoot(SwitchRoot),
    /// Check whether init is running
    Ping,
    /// Show statistics of init
    ///
    /// Also counts what init has dropped. Callers turned away: there was no room for their
    /// connection. Callers cut off: they did not read an answer, or did not end a line. Messages
    /// refused: the sender may not speak for a unit. Messages unusable: they were too long or had
    /// no sender. Descriptors closed: they were passed to a socket of init. Lines not said: log
    /// lines of init that were lost. Lines not shown: lines of units that a console or log did not
    /// take. Events too late: reports about finished runs
    Stats,
    /// Power off
    Poweroff(PowerAt),
    /// Reboot
    Reboot(PowerAt),
    /// Halt
    Halt(PowerAt),
    /// Stop all units and exit init
    Exit(ExitWith),
    /// Write shell completions to stdout
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the man page of initctl to stdout
    Man,
    /// Names for the completions.
    #[command(name = "__targets", hide = true)]
    Targets,
}

/// `status`.
#[derive(Debug, Default, Args)]
pub(crate) struct Status {
    /// Targets or units [default: all]
    pub(crate) targets: Vec<Name>,
    /// Also show healthy and idle units (three of many idle instances), with memory, tasks and CPU time
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Print only states; exit 1 unless all are active
    #[arg(long)]
    pub(crate) check: bool,
    /// Omit the summary above the table
    #[arg(long)]
    pub(crate) no_headings: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The goal.
    #[command(flatten)]
    pub(crate) goal: Goal,
    /// Plan a reload of the unit files
    #[arg(long, conflicts_with_all = ["targets", "want", "drop"])]
    pub(crate) reload: bool,
}

/// The target of `why` and `cat`.
#[derive(Debug, Args)]
pub(crate) struct OneTarget {
    /// A target, or a unit
    pub(crate) target: Name,
}

/// The targets of `critical-chain`.
#[derive(Debug, Args)]
pub(crate) struct TargetsOrGoal {
    /// Targets or units [default: the goal]
    pub(crate) targets: Vec<Name>,
}

/// `mask`, `unmask`, `enable`, `disable`.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    /// Targets or units
    #[arg(required = true)]
    pub(crate) targets: Vec<Name>,
    /// The policy to change.
    #[command(flatten)]
    pub(crate) place: PolicyPlace,
}

/// `prefer`.
#[derive(Debug, Args)]
pub(crate) struct Prefer {
    /// The unit that provides the target; TARGET= removes the choice
    #[arg(required = true, value_name = "TARGET=UNIT", value_parser = choice)]
    pub(crate) choices: Vec<(Name, Option<Name>)>,
    /// The policy to change.
    #[command(flatten)]
    pub(crate) place: PolicyPlace,
}

/// The policy that a verb changes. By default it is the permanent one of the running system.
#[derive(Debug, Args)]
pub(crate) struct PolicyPlace {
    /// Until the next boot only
    #[arg(long)]
    pub(crate) runtime: bool,
    /// Change the policy of the system in this directory; no init is asked
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "runtime")]
    pub(crate) root: Option<PathBuf>,
}

/// `reload`.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// Only print the plan
    #[arg(long)]
    pub(crate) plan: bool,
    /// Keep changed units running; they are shown as stale
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// The options for waiting.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `restart`, `reload-unit`, `retry`.
#[derive(Debug, Args)]
pub(crate) struct UnitOperation {
    /// Targets or units
    #[arg(required = true)]
    pub(crate) targets: Vec<Name>,
    /// The options for waiting.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `kill`.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// Targets or units
    #[arg(required = true)]
    pub(crate) targets: Vec<Name>,
    /// The signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", value_parser = signal)]
    pub(crate) signal: u8,
    /// Signal every process of the unit, not only the main one
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Targets or units [default: all]
    pub(crate) targets: Vec<Name>,
    /// Follow the log
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The last N lines of each unit
    #[arg(short = 'n', long = "lines", value_name = "N", value_parser = count)]
    pub(crate) lines: Option<u64>,
    /// Start at this time: a span before now (`10min`) or a time (`2026-11-21T05:12:26Z`; without a zone: local time)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
}

/// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Follow the event log
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events after this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
}

/// `tree`.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Targets or units at the top of the tree [default: the goal]
    pub(crate) targets: Vec<Name>,
    /// Show dependents instead of dependencies
    #[arg(long)]
    pub(crate) reverse: bool,
}

/// `graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// Graphviz output (the default)
    #[arg(long, conflicts_with = "mermaid")]
    pub(crate) dot: bool,
    /// Mermaid output
    #[arg(long)]
    pub(crate) mermaid: bool,
    /// Read the unit files of this directory instead of asking init
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) units: Option<PathBuf>,
}

/// `whose`.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// The pid of the process in init's pid namespace
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
}

/// `doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Examine the system in this directory instead of the running one
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: Option<PathBuf>,
    /// Also show what is fine
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Exit 1 on warnings too
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A directory with a complete set, or single files [default: the configured directories]
    #[arg(value_name = "DIR|FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Check the configured directories of the system in this directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "paths")]
    pub(crate) root: Option<PathBuf>,
    /// Exit 1 on warnings too
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `convert`.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// Unit files of systemd (drop-ins beside them are found), or scripts of /etc/init.d from SysV
    /// or OpenRC
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Refuse units whose sandbox cannot be provided
    #[arg(long)]
    pub(crate) strict_sandbox: bool,
    /// Print what became of each directive or header line, instead of the native form
    #[arg(long)]
    pub(crate) report: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A key, a type (`timer`), or a prefix of keys (`cgroup`) [default: all keys]
    pub(crate) key: Option<String>,
    /// The keys as a man page, groundstate.unit(5)
    #[arg(long, conflicts_with_all = ["key", "schema"])]
    pub(crate) man: bool,
    /// The keys as a JSON schema, for editors
    #[arg(long, conflicts_with = "key")]
    pub(crate) schema: bool,
}

/// `source`.
#[derive(Debug, Subcommand)]
pub(crate) enum Source {
    /// Replace the contents of a source
    Put {
        /// The source
        source: Name,
        /// Its unit files; a directory stands for all files in it
        #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
        files: Vec<PathBuf>,
        /// A target that should run
        #[arg(long = "root", value_name = "TARGET", num_args = 1..)]
        roots: Vec<Name>,
        /// Fail unless the source has this revision
        #[arg(long, value_name = "REVISION", alias = "expected")]
        expect: Option<u64>,
    },
    /// List all sources and their contents
    List,
    /// Delete the contents of a source
    Drop {
        /// The source
        source: Name,
    },
}

/// `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// The new init [default: the file of the running init]
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) binary: Option<PathBuf>,
}

/// `switch-root`.
#[derive(Debug, Args)]
pub(crate) struct SwitchRoot {
    /// The mount point of the new root
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: PathBuf,
    /// The path of its init in that root [default: /sbin/init]
    #[arg(value_name = "INIT")]
    pub(crate) init: Option<String>,
}

//! The command line as clap sees it. What a person may type beyond that (`+x`, `-y`, the
//! verbs of other systems, another name for the program) is made into this form first, in
//! `argv_aliases.rs`.

mod goal;
mod power;
mod value;

pub(crate) use goal::{Goal, SetTarget, Unwant, Wait, Want};
pub(crate) use power::{ExitWith, Power};

use clap::{Args, Parser, Subcommand, ValueEnum};
use groundstate_units::text::name::Name;
use std::path::PathBuf;
use value::{choice, count, signal};

/// The whole of it.
#[derive(Debug, Parser)]
#[command(name = "initctl", version, about = "asks and tells init", long_about = None, disable_help_subcommand = true,
    propagate_version = false, subcommand_required = true, max_term_width = 100,
    override_usage = "initctl [OPTIONS] [COMMAND]",
    after_help = "Exit codes: 0 done, 1 the result is bad, 2 timed out, 64 usage, \
    65 unit files or plan refused, 69 no init at the socket, 77 not allowed.")]
pub(crate) struct Arguments {
    /// What everything takes.
    #[command(flatten)]
    pub(crate) common: Common,
    /// The verb.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags of every verb.
#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The control socket of the init to ask [env: GROUNDSTATE_SOCKET]
    #[arg(long, global = true, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub(crate) socket: Option<PathBuf>,
    /// Print JSON: one object, or for streams one object a line
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Colour,
}

/// `--color`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Yes.
    Always,
    /// No.
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What is up and what is not (the default verb)
    Status(Status),
    /// Change the goal: what is to be up
    #[command(override_usage = "initctl set-target TARGET… [+WANT…] [-DROP…] [OPTIONS]")]
    SetTarget(SetTarget),
    /// What a set-target or a reload would do
    #[command(override_usage = "initctl plan [TARGET…] [+WANT…] [-DROP…] | --reload [OPTIONS]")]
    Plan(Plan),
    /// Why a target is in the state it is in
    Why(One),
    /// Add a target to the goal until the next boot
    Want(Want),
    /// Take back a want
    Unwant(Unwant),
    /// Never start these, and count them as nobody
    Mask(Policy),
    /// Take back a mask
    Unmask(Policy),
    /// Let the wanted-by and required-by of these count
    Enable(Policy),
    /// Let the wanted-by and required-by of these not count
    Disable(Policy),
    /// Choose who provides a target that several could provide
    Prefer(Prefer),
    /// Load the unit files anew: all of it, or nothing
    Reload(Reload),
    /// Replace the runs of these by new ones
    Restart(Prod),
    /// Let these take in their own configuration anew
    ReloadUnit(Prod),
    /// Send a signal to the processes of these
    Kill(Kill),
    /// Forget the failures of these and try again now
    Retry(Prod),
    /// What units wrote
    Logs(Logs),
    /// What happened
    Events(Events),
    /// What needs what, as a tree from the goal down
    Tree(Tree),
    /// What needs what, for other programs to draw
    Graph(Graph),
    /// When each timer fires next
    Timers,
    /// Where each socket unit listens
    Sockets,
    /// How long each start took
    Blame,
    /// The chain of starts that the goal had to wait for
    CriticalChain(Few),
    /// The starts as an SVG picture
    Plot,
    /// The file of a unit
    Cat(One),
    /// Which unit a process belongs to
    Whose(Whose),
    /// Find the mistakes in unit files
    Check(Check),
    /// Print the native form of another init system's unit files and scripts; asks no init
    Convert(Convert),
    /// What a key of a unit file means; asks no init
    Explain(Explain),
    /// Sets of unit files owned by a controller
    #[command(subcommand)]
    Source(Source),
    /// Replace the running init by another binary
    Upgrade(Upgrade),
    /// Go on in another root, as the init that is there: from an initramfs
    SwitchRoot(SwitchRoot),
    /// Is init there
    Ping,
    /// Figures about init itself
    ///
    /// And what it has dropped, if anything: callers turned away (no room) or cut off (they did not read, or end a line),
    /// messages refused (who sent them may not speak for a unit) or unusable (too long), descriptors that came along,
    /// its own lines not said, units' lines that a console or log did not get, events of runs that were over
    Stats,
    /// Stop everything and switch off
    Poweroff(Power),
    /// Stop everything and start anew
    Reboot(Power),
    /// Stop everything and halt
    Halt(Power),
    /// Stop everything and end init
    Exit(ExitWith),
    /// Write completions for a shell to stdout
    Completions {
        /// Which
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
    /// Targets or units; none: everything
    pub(crate) targets: Vec<Name>,
    /// Healthy and unneeded units too
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Print little; exit 1 when something asked for is not running
    #[arg(long)]
    pub(crate) check: bool,
    /// Without the summary above the table
    #[arg(long)]
    pub(crate) no_headings: bool,
}

/// `plan`.
#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The goal.
    #[command(flatten)]
    pub(crate) goal: Goal,
    /// What a reload of the unit files would do
    #[arg(long, conflicts_with_all = ["targets", "want", "drop"])]
    pub(crate) reload: bool,
}

/// One target.
#[derive(Debug, Args)]
pub(crate) struct One {
    /// A target, or a unit
    pub(crate) target: Name,
}

/// Some targets or none.
#[derive(Debug, Args)]
pub(crate) struct Few {
    /// Targets or units; none: the goal
    pub(crate) targets: Vec<Name>,
}

/// `mask`, `unmask`, `enable`, `disable`.
#[derive(Debug, Args)]
pub(crate) struct Policy {
    /// Targets or units
    #[arg(required = true)]
    pub(crate) targets: Vec<Name>,
    /// Until the next boot only
    #[arg(long)]
    pub(crate) runtime: bool,
}

/// `prefer`.
#[derive(Debug, Args)]
pub(crate) struct Prefer {
    /// Which unit is to provide which target; TARGET= takes it back
    #[arg(required = true, value_name = "TARGET=UNIT", value_parser = choice)]
    pub(crate) choices: Vec<(Name, Option<Name>)>,
    /// Until the next boot only
    #[arg(long)]
    pub(crate) runtime: bool,
}

/// `reload`.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// Only print what it would do
    #[arg(long)]
    pub(crate) plan: bool,
    /// Leave changed units running as they are; they are shown as stale
    #[arg(long)]
    pub(crate) no_restart: bool,
    /// How to wait.
    #[command(flatten)]
    pub(crate) wait: Wait,
}

/// `restart`, `reload-unit`, `retry`.
#[derive(Debug, Args)]
pub(crate) struct Prod {
    /// Targets or units
    #[arg(required = true)]
    pub(crate) targets: Vec<Name>,
    /// How to wait.
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
    /// Every process of the unit, not the main one alone
    #[arg(short, long)]
    pub(crate) all: bool,
}

/// `logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Targets or units; none: all
    pub(crate) targets: Vec<Name>,
    /// Go on with what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// The last N lines of each
    #[arg(short = 'n', long = "lines", value_name = "N", value_parser = count)]
    pub(crate) lines: Option<u64>,
    /// Not before this: a span (`10min`: that long ago) or a time (`2026-11-21T05:12:26Z`)
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
}

/// `events`.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Go on with what comes
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only those after this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
}

/// `tree`.
#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// From these down; none: the goal
    pub(crate) targets: Vec<Name>,
    /// Who needs these, instead of whom they need
    #[arg(long)]
    pub(crate) reverse: bool,
}

/// `graph`.
#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// For Graphviz (the default)
    #[arg(long, conflicts_with = "mermaid")]
    pub(crate) dot: bool,
    /// For Mermaid
    #[arg(long)]
    pub(crate) mermaid: bool,
    /// The unit files of this directory, without asking init
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) units: Option<PathBuf>,
}

/// `whose`.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// In init's pid namespace
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
}

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A directory is the whole set; files are checked alone; nothing: the configured directories
    #[arg(value_name = "DIR|FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,
    /// Exit 1 on warnings too
    #[arg(long)]
    pub(crate) strict: bool,
}

/// `convert`.
#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// Unit files of systemd, whose drop-ins are found beside them, or scripts of /etc/init.d, SysV's or OpenRC's
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) files: Vec<PathBuf>,
    /// Refuse units whose sandbox can not be given
    #[arg(long)]
    pub(crate) strict_sandbox: bool,
    /// What became of each directive or line of a header, instead of the native form
    #[arg(long)]
    pub(crate) report: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A key, a type (`timer`), or what keys begin with (`cgroup`); none: all of them
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
    /// Replace what a source holds by these files
    Put {
        /// Which source
        source: Name,
        /// Its unit files; of a directory all that is in it
        #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::AnyPath)]
        files: Vec<PathBuf>,
        /// A target that is to be up
        #[arg(long = "root", value_name = "TARGET", num_args = 1..)]
        roots: Vec<Name>,
        /// Refused when the source is at another revision
        #[arg(long, value_name = "REVISION", alias = "expected")]
        expect: Option<u64>,
    },
    /// All sources and what they hold
    List,
    /// Forget what a source holds
    Drop {
        /// Which source
        source: Name,
    },
}

/// `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct Upgrade {
    /// The new init; left out: the file of the present one
    #[arg(value_hint = clap::ValueHint::FilePath)]
    pub(crate) binary: Option<PathBuf>,
}

/// `switch-root`.
#[derive(Debug, Args)]
pub(crate) struct SwitchRoot {
    /// Where the root is mounted
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) root: PathBuf,
    /// Its init, as that root has it; left out: /sbin/init
    #[arg(value_name = "INIT")]
    pub(crate) init: Option<String>,
}

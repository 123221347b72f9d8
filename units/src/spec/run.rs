//! What it takes to run a unit's processes: the keys of class *run*.

use super::{
    Credentials, DirectoryKind, Input, Kind, Log, NotifyAccess, Particular, Readiness,
    ResourceLimit,
};
use serde::{Deserialize, Serialize};

/// One word of an exec line, in pieces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// As it stands.
    Literal(String),
    /// `${NAME}`: one word whatever the value; empty when unset.
    Variable(String),
    /// `$NAME` as a whole word: split at white space, gone when unset.
    Split(String),
    /// `$MAINPID` or `${MAINPID}`.
    MainPid,
}

/// The prefixes before the program of an exec line, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Prefixes(pub u8);

impl Prefixes {
    /// `-`: a failure counts as success.
    pub const FORGIVEN: Prefixes = Prefixes(1);
    /// `+`: as init's own user, with everything init may do.
    pub const PRIVILEGED: Prefixes = Prefixes(2);
    /// `!`: as init's own user, but with all else the unit says.
    pub const OWN_USER: Prefixes = Prefixes(4);
    /// `@`: the second word is what the program is told as its own name.
    pub const NAMED: Prefixes = Prefixes(8);

    /// All of these are there.
    pub const fn has(self, other: Prefixes) -> bool {
        self.0 & other.0 == other.0
    }

    /// With these too.
    pub const fn and(self, other: Prefixes) -> Prefixes {
        Prefixes(self.0 | other.0)
    }
}

/// One exec line: the words. The first is the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecLine {
    /// What stood before it. (`:` is dealt with where the line is read.)
    pub prefixes: Prefixes,
    /// Words, each of one or more pieces (an empty word has one empty literal).
    pub words: Vec<Vec<Piece>>,
}

/// A file of `N=V` lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnvFile {
    /// Absolute.
    pub path: String,
    /// A leading `-`: it may be missing.
    pub optional: bool,
}

/// Keys of class *run*: what it takes to run the unit's processes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Run {
    /// The type.
    pub kind: Kind,
    /// The command; for a oneshot one or more, in order.
    pub exec_start: Vec<ExecLine>,
    /// Before it, in order; one that fails fails the start.
    pub exec_start_pre: Vec<ExecLine>,
    /// Before all others: 1 to 254 skips the unit.
    pub exec_condition: Vec<ExecLine>,
    /// Once it is ready, before it counts as active.
    pub exec_start_post: Vec<ExecLine>,
    /// When nothing of it is left, however it ended.
    pub exec_stop_post: Vec<ExecLine>,
    /// Instead of the stop signal.
    pub exec_stop: Vec<ExecLine>,
    /// What `reload-unit` runs.
    pub exec_reload: Vec<ExecLine>,
    /// A oneshot's `remain`: its exec-stop waits for the stop. Without, the exec-stop and the end
    /// of what is left belong to the run itself, and only then its success is told.
    pub remain: bool,
    /// Where background-pidfile leaves its pid.
    pub pid_file: Option<String>,
    /// Derived: how readiness is learned.
    pub readiness: Readiness,
    /// The pattern, checked at load to compile.
    pub ready_grep: Option<String>,
    /// Who may notify.
    pub notify_access: NotifyAccess,
    /// Where output goes.
    pub log: Log,
    /// Who it runs as; None: as init.
    pub credentials: Option<Credentials>,
    /// In the order given.
    pub env: Vec<(String, String)>,
    /// Read at start, in a child.
    pub env_file: Vec<EnvFile>,
    /// Absolute, or `~` for the user's home; `/` where nothing is said.
    pub working_dir: String,
    /// 022 where nothing is said.
    pub umask: u32,
    /// Resource limits.
    pub limits: Vec<ResourceLimit>,
    /// What few units ask for.
    pub particular: Option<Box<Particular>>,
}

impl Run {
    /// One that asks for nothing, not even a command.
    pub fn of(kind: Kind) -> Run {
        Run {
            kind,
            exec_start: Vec::new(),
            exec_start_pre: Vec::new(),
            exec_condition: Vec::new(),
            exec_start_post: Vec::new(),
            exec_stop_post: Vec::new(),
            exec_stop: Vec::new(),
            exec_reload: Vec::new(),
            remain: kind == Kind::Oneshot,
            pid_file: None,
            readiness: Readiness::Exec,
            ready_grep: None,
            notify_access: NotifyAccess::None,
            log: Log::File,
            credentials: None,
            env: Vec::new(),
            env_file: Vec::new(),
            working_dir: "/".to_string(),
            umask: 0o22,
            limits: Vec::new(),
            particular: None,
        }
    }

    /// Something has to be done when it is stopped, though no process is left. A oneshot that does
    /// not remain has done it by then.
    pub fn has_stop_work(&self) -> bool {
        if self.kind == Kind::Oneshot && !self.remain {
            return false;
        }
        let runtime = |particular: &Particular| {
            particular.runtime_dir_keep != Keep::Yes
                && particular.directories.iter().any(|d| d.kind == DirectoryKind::Runtime)
        };
        !self.exec_stop.is_empty()
            || !self.exec_stop_post.is_empty()
            || self.particular.as_deref().is_some_and(|p| runtime(p) || !p.stdio.utmp_id.is_empty())
    }

    /// Its standard input is a terminal.
    pub fn reads_terminal(&self) -> bool {
        let stdio = self.particular.as_deref().map(|particular| &particular.stdio);
        stdio.is_some_and(|stdio| matches!(stdio.input, Input::Terminal { .. }))
    }

    /// It can be told to take in its configuration.
    pub fn has_reload(&self) -> bool {
        let signal = self.particular.as_ref().and_then(|p| p.ending.reload_signal);
        !self.exec_reload.is_empty() || signal.is_some()
    }
}

/// `fd-store-*`: descriptors that a service hands to init and gets back from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FdStore {
    /// How many at most; 0: none are taken.
    pub most: u16,
    /// Until when: the end of the run, of being needed, or of the unit.
    pub keep: Keep,
}

/// `runtime-dir-keep`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keep {
    /// Removed at every stop.
    #[default]
    No,
    /// Kept when the unit is started again.
    Restart,
    /// Kept.
    Yes,
}

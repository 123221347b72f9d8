//! The meaning of each keyword in a script's header comments. This file has only the tables.

/// The meaning of a header line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// Names of the unit.
    Provides,
    /// Names that must start before.
    Required,
    /// Names that start before, if they exist.
    Should,
    /// Names that start after.
    Before,
    /// Names that stop after.
    StoppedAfter,
    /// Levels that start the script.
    Start,
    /// Levels that stop the script.
    Stop,
    /// The short description.
    Short,
    /// The long description.
    Long,
    /// The script talks to the user at the console.
    Interactive,
    /// Levels and priorities.
    Chkconfig,
    /// The daemon's pid file.
    PidFile,
    /// The name of the daemon's process.
    ProcessName,
    /// For other tools.
    Others,
}

/// Keywords of the block `INIT INFO`.
pub(super) const LSB: [(&str, Word); 12] = [
    ("Provides", Word::Provides),
    ("Required-Start", Word::Required),
    ("Required-Stop", Word::StoppedAfter),
    ("Should-Start", Word::Should),
    ("Should-Stop", Word::StoppedAfter),
    ("Default-Start", Word::Start),
    ("Default-Stop", Word::Stop),
    ("Short-Description", Word::Short),
    ("Description", Word::Long),
    ("X-Start-Before", Word::Before),
    ("X-Stop-After", Word::Before),
    ("X-Interactive", Word::Interactive),
];

/// Keywords of Red Hat's comments at the top of a script.
pub(super) const CHKCONFIG: [(&str, Word); 7] = [
    ("chkconfig", Word::Chkconfig),
    ("description", Word::Long),
    ("pidfile", Word::PidFile),
    ("processname", Word::ProcessName),
    ("config", Word::Others),
    ("probe", Word::Others),
    ("hide", Word::Others),
];

/// Returns the row of a header line, ignoring case.
pub(super) fn find(rows: &[(&'static str, Word)], keyword: &str) -> Option<(&'static str, Word)> {
    rows.iter().copied().find(|(name, _)| name.eq_ignore_ascii_case(keyword))
}

/// A system facility: the name in scripts and the native target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facility {
    /// The name after the dollar.
    pub(super) name: &'static str,
    /// The target that the importer of systemd units uses for the facility.
    pub(super) target: &'static str,
    /// A unit that starts after the facility also pulls it in.
    pub(super) is_wanted: bool,
}

const fn facility(name: &'static str, target: &'static str, is_wanted: bool) -> Facility {
    Facility { name, target, is_wanted }
}

/// All facilities except `$all`, which means all other scripts.
pub(super) const FACILITIES: [Facility; 8] = [
    facility("local_fs", "local-fs.target", false),
    facility("named", "nss-lookup.target", true),
    facility("network", "network-online.target", true),
    facility("portmap", "rpcbind", true),
    facility("remote_fs", "remote-fs.target", false),
    facility("syslog", "syslog", false),
    facility("time", "time-sync.target", false),
    facility("x-display-manager", "display-manager", false),
];

/// The name of the facility `$all`, without its dollar.
pub(super) const ALL: &str = "all";

/// Returns the target that wants a script started in a level: `Some(None)` for a level of the
/// shutdown, `None` for an unknown level.
pub(super) fn goal(level: char) -> Option<Option<&'static str>> {
    match level {
        'S' | 's' => Some(Some(EARLY)),
        '1' => Some(Some("rescue.target")),
        '2'..='5' => Some(Some("multi-user")),
        '0' | '6' => Some(None),
        _ => None,
    }
}

/// The target that wants the scripts that start before all others.
pub(super) const EARLY: &str = "sysinit.target";

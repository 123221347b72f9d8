//! What the words of a script's comments mean. Nothing but the rows.

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Word {
    /// Its names.
    Provides,
    /// What it needs started before.
    Required,
    /// What is started before it, if it is there.
    Should,
    /// What is started after it.
    Before,
    /// What is stopped after it.
    StoppedAfter,
    /// The levels it is started in.
    Start,
    /// The levels it is stopped in.
    Stop,
    /// One line about it.
    Short,
    /// More about it.
    Long,
    /// It speaks to who sits at the console.
    Interactive,
    /// Levels and priorities.
    Chkconfig,
    /// Where its daemon leaves its pid.
    PidFile,
    /// The name of its daemon's process.
    ProcessName,
    /// For other tools.
    Others,
}

/// Those of the block `INIT INFO`.
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

/// Those of Red Hat's, at the head of a script.
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

/// What the system has to offer, by the name that scripts have for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facility {
    /// Behind the dollar.
    pub(super) name: &'static str,
    /// As the importer of systemd's units calls it, or who stands for it there.
    pub(super) target: &'static str,
    /// Who is after it brings it in.
    pub(super) is_wanted: bool,
}

const fn facility(name: &'static str, target: &'static str, is_wanted: bool) -> Facility {
    Facility { name, target, is_wanted }
}

/// But for `$all`, which is everybody else.
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

/// The name, without its dollar, of everybody else.
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

/// Who wants what is started before all else.
pub(super) const EARLY: &str = "sysinit.target";

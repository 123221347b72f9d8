//! Properties of `show` from a unit's definition: commands, environment, limits and so on, in
//! systemd's names. The files are read with the caller's rights, so that no value is printed that
//! the caller may not read.

use super::property_value::{Properties, quoted, span, user, yes};
use super::{confinement, shown, trigger};
use crate::files::Disk;
use crate::resources;
use crate::session::Session;
use crate::verb::check;
use groundstate_units::control::answer::UnitStatus;
use groundstate_units::load::load;
use groundstate_units::spec::{
    DirectoryKind, ExecLine, KillMode, Kind, Log, NotifyAccess, Particular, Piece, Prefixes,
    Restart, Run,
};
use groundstate_units::text::name::Name;
use groundstate_units::trigger::Trigger;
use groundstate_units::unit::generation::{FileRecord, Generation, Unit};
use nix::unistd::geteuid;
use std::collections::BTreeMap;

/// The current unit files.
pub(super) struct Definitions(Generation);

impl Definitions {
    /// Reads them as init's loader does, including the requested instances.
    pub(super) fn read(session: &Session, units: &[String]) -> Definitions {
        let mut options = check::loader_options(session, geteuid().as_raw(), &Disk);
        options.wanted = units.iter().filter_map(|unit| Name::new(unit).ok()).collect();
        Definitions(load(&Disk, &options, None).generation)
    }

    /// Returns the definition of a unit, or nothing if its files cannot be read.
    pub(super) fn of(&self, status: &UnitStatus, stamp: &str) -> Properties {
        let Some(unit) = self.0.units.iter().find(|unit| unit.name.as_str() == status.unit) else {
            return Vec::new();
        };
        let mut all = live(unit);
        all.extend(self.triggers(unit));
        if matches!(unit.kind, Kind::Socket | Kind::Timer | Kind::Path) {
            all.extend(Trigger::decode(&unit.run).iter().flat_map(trigger::properties));
        } else if let Some(run) = Run::decode(&unit.run) {
            all.extend(commands(&run, status, stamp));
            all.extend(process(&run));
        }
        all
    }

    /// Returns the record of the unit's file, or `None` if it has none.
    pub(super) fn record(&self, unit: &str) -> Option<&FileRecord> {
        let unit = self.0.units.iter().find(|known| known.name.as_str() == unit)?;
        let mut records = self.0.files.iter();
        records.find(|record| record.path == unit.at.file && record.source == unit.source)
    }

    /// `Triggers` and `TriggeredBy`.
    fn triggers(&self, unit: &Unit) -> Properties {
        let full = |unit: &Unit| {
            let names = unit.provides.iter().filter_map(|id| self.0.target(*id));
            let names = names.map(|target| target.name.as_str());
            full_name(unit.name.as_str(), names, unit.kind)
        };
        let provider = |activates| {
            let provides_it = |other: &&Unit| other.provides.contains(&activates);
            self.0.units.iter().find(provides_it).map(full)
        };
        let by = self.0.units.iter().filter(|other| {
            other.activates.is_some_and(|activates| unit.provides.contains(&activates))
        });
        let by: Vec<String> = by.map(full).collect();
        vec![
            ("Triggers", unit.activates.and_then(provider).unwrap_or_default()),
            ("TriggeredBy", by.join(" ")),
        ]
    }
}

fn full_name<'a>(own: &'a str, names: impl Iterator<Item = &'a str>, kind: Kind) -> String {
    let mut names = std::iter::once(own).chain(names);
    match names.find(|name| shown::has_suffix(name)) {
        Some(name) => name.to_string(),
        None => format!("{own}.{}", shown::suffix_of(kind)),
    }
}

fn live(unit: &Unit) -> Properties {
    let live = &unit.live;
    let restart = if live.restart == Restart::Never { "no" } else { live.restart.as_str() };
    vec![
        ("Restart", restart.to_string()),
        ("RestartUSec", span(Some(live.restart_delay))),
        ("TimeoutStartUSec", span(live.start_timeout)),
        ("TimeoutStopUSec", span(live.stop_timeout)),
        ("RuntimeMaxUSec", span(live.run_timeout)),
        ("KillSignal", live.stop_signal.to_string()),
    ]
}

fn commands(run: &Run, status: &UnitStatus, stamp: &str) -> Properties {
    let mut all = Vec::new();
    let lists = [
        ("ExecCondition", &run.exec_condition),
        ("ExecStartPre", &run.exec_start_pre),
        ("ExecStart", &run.exec_start),
        ("ExecStartPost", &run.exec_start_post),
        ("ExecReload", &run.exec_reload),
        ("ExecStop", &run.exec_stop),
        ("ExecStopPost", &run.exec_stop_post),
    ];
    for (name, lines) in lists {
        for line in lines {
            let pid = status.main_pid.filter(|_| name == "ExecStart");
            all.push((name, command(line, pid, stamp)));
        }
    }
    all
}

/// `{ path=/bin/x ; argv[]=/bin/x -a ; ignore_errors=no ; … }`.
fn command(line: &ExecLine, pid: Option<u32>, stamp: &str) -> String {
    let words: Vec<String> =
        line.words.iter().map(|word| word.iter().map(piece).collect()).collect();
    let path = words.first().cloned().unwrap_or_default();
    let named = usize::from(line.prefixes.has(Prefixes::NAMED));
    let argv = words.get(named..).unwrap_or_default().join(" ");
    let forgiven = if line.prefixes.has(Prefixes::FORGIVEN) { "yes" } else { "no" };
    let start = if pid.is_some() { stamp } else { "n/a" };
    let pid = pid.unwrap_or(0);
    format!(
        "{{ path={path} ; argv[]={argv} ; ignore_errors={forgiven} ; start_time=[{start}] ; \
         stop_time=[n/a] ; pid={pid} ; code=(null) ; status=0/0 }}"
    )
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Variable(name) => format!("${{{name}}}"),
        Piece::Split(name) => format!("${name}"),
        Piece::MainPid => "$MAINPID".to_string(),
    }
}

fn process(run: &Run) -> Properties {
    let env: Vec<String> =
        run.env.iter().map(|(name, value)| quoted(&format!("{name}={value}"))).collect();
    let access = match run.notify_access {
        NotifyAccess::Main => "main",
        NotifyAccess::Exec => "exec",
        NotifyAccess::All => "all",
        NotifyAccess::None => "none",
    };
    let output = match run.log {
        Log::File => "journal",
        Log::Kmsg => "kmsg",
        Log::Syslog => "syslog",
        Log::Console => "tty",
        Log::Inherit => "inherit",
        Log::Null => "null",
    };
    let remains = run.kind == Kind::Oneshot && run.remain;
    let mut all = vec![
        ("PIDFile", run.pid_file.clone().unwrap_or_default()),
        ("NotifyAccess", access.to_string()),
        ("RemainAfterExit", yes(remains)),
        ("Environment", env.join(" ")),
        ("UMask", format!("{:04o}", run.umask)),
        ("StandardOutput", output.to_string()),
    ];
    for file in &run.env_file {
        let optional = if file.optional { "yes" } else { "no" };
        all.push(("EnvironmentFiles", format!("{} (ignore_errors={optional})", file.path)));
    }
    let (user, group) = user(run.credentials.as_ref());
    all.extend([("User", user), ("Group", group)]);
    for limit in &run.limits {
        let Some((name, soft)) = LIMITS.get(usize::from(limit.resource)) else { continue };
        let value = |value: Option<u64>| value.map_or("infinity".to_string(), |v| v.to_string());
        all.push((name, value(limit.hard)));
        all.push((soft, value(limit.soft)));
    }
    let nothing = Particular::default();
    let particular = run.particular.as_deref().unwrap_or(&nothing);
    let mark = if particular.working_dir_optional { "!" } else { "" };
    let folder = if run.working_dir == "/" { "" } else { run.working_dir.as_str() };
    all.push(("WorkingDirectory", format!("{mark}{folder}")));
    all.extend(particular_properties(particular));
    all
}

fn particular_properties(particular: &Particular) -> Properties {
    let ending = &particular.ending;
    let mode = match ending.mode {
        KillMode::Group => "control-group",
        KillMode::Mixed => "mixed",
        KillMode::Process => "process",
        KillMode::None => "none",
    };
    let schedule = &particular.schedule;
    let number = |value: Option<i16>| value.unwrap_or(0).to_string();
    let watchdog = particular.watchdog.map_or("0".to_string(), |limit| span(Some(limit)));
    let last = particular.cgroup.slice.rsplit('/').next().unwrap_or_default();
    let slice = match last {
        "" => "system.slice".to_string(),
        last if last.ends_with(".slice") => last.to_string(),
        last => format!("{last}.slice"),
    };
    let mut all = vec![
        ("KillMode", mode.to_string()),
        ("SendSIGKILL", yes(ending.kill)),
        ("SendSIGHUP", yes(ending.hup)),
        ("FinalKillSignal", ending.final_signal.to_string()),
        ("WatchdogUSec", watchdog),
        ("Nice", number(schedule.nice.map(i16::from))),
        ("OOMScoreAdjust", number(schedule.oom_score_adjust)),
        ("RootDirectory", particular.root_dir.clone().unwrap_or_default()),
        ("SyslogIdentifier", particular.stdio.log_tag.clone()),
        ("SyslogLevelPrefix", yes(particular.stdio.log_priority.prefix)),
        ("FileDescriptorStoreMax", particular.fd_store.most.to_string()),
        ("Slice", slice),
        ("Delegate", yes(particular.cgroup.delegate)),
    ];
    all.extend(confinement::properties(&particular.privileges));
    if let Some(number) = ending.reload_signal {
        all.push(("ReloadSignal", number.to_string()));
    }
    for directories in &particular.directories {
        let name = match directories.kind {
            DirectoryKind::Runtime => "RuntimeDirectory",
            DirectoryKind::State => "StateDirectory",
            DirectoryKind::Cache => "CacheDirectory",
            DirectoryKind::Log => "LogsDirectory",
            DirectoryKind::Config => "ConfigurationDirectory",
        };
        all.push((name, directories.names.join(" ")));
    }
    let settings: BTreeMap<&str, &str> = particular
        .cgroup
        .settings
        .iter()
        .map(|(file, text)| (file.as_str(), text.as_str()))
        .collect();
    for (file, name) in CGROUP {
        if let Some(text) = settings.get(file) {
            let text = if *text == "max" { "infinity" } else { text };
            all.push((name, text.to_string()));
        }
    }
    all
}

/// cgroup files and their names in systemd.
const CGROUP: [(&str, &str); 7] = [
    ("memory.min", "MemoryMin"),
    ("memory.low", "MemoryLow"),
    ("memory.high", "MemoryHigh"),
    ("memory.max", "MemoryMax"),
    ("memory.swap.max", "MemorySwapMax"),
    ("pids.max", "TasksMax"),
    ("cpu.weight", "CPUWeight"),
];

/// Limits by Linux RLIMIT_* number.
const LIMITS: [(&str, &str); 16] = [
    ("LimitCPU", "LimitCPUSoft"),
    ("LimitFSIZE", "LimitFSIZESoft"),
    ("LimitDATA", "LimitDATASoft"),
    ("LimitSTACK", "LimitSTACKSoft"),
    ("LimitCORE", "LimitCORESoft"),
    ("LimitRSS", "LimitRSSSoft"),
    ("LimitNPROC", "LimitNPROCSoft"),
    ("LimitNOFILE", "LimitNOFILESoft"),
    ("LimitMEMLOCK", "LimitMEMLOCKSoft"),
    ("LimitAS", "LimitASSoft"),
    ("LimitLOCKS", "LimitLOCKSSoft"),
    ("LimitSIGPENDING", "LimitSIGPENDINGSoft"),
    ("LimitMSGQUEUE", "LimitMSGQUEUESoft"),
    ("LimitNICE", "LimitNICESoft"),
    ("LimitRTPRIO", "LimitRTPRIOSoft"),
    ("LimitRTTIME", "LimitRTTIMESoft"),
];

/// Returns the cgroup of a unit below the cgroup v2 mount, and its resource usage.
pub(super) fn usage(unit: &UnitStatus) -> Properties {
    let used = resources::of(unit);
    let number = |value: Option<u64>| value.map_or("[not set]".to_string(), |it| it.to_string());
    let cpu = used.cpu.map(|cpu| u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX));
    vec![
        ("ControlGroup", used.cgroup),
        ("MemoryCurrent", number(used.memory)),
        ("TasksCurrent", number(used.tasks)),
        ("CPUUsageNSec", number(cpu)),
    ]
}

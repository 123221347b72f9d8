//! Memory, tasks and CPU time of a unit, as the kernel counts them for the cgroup of its run. The client
//! reads them. Without the controllers `memory` and `pids`, which cost each process time, the client
//! adds up the private memory of the processes and counts their threads.

use crate::style;
use groundstate_units::control::answer::UnitStatus;
use std::fs;
use std::time::Duration;

/// Where init uses cgroup v2.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// Processes whose memory is added up.
const PROCESSES: usize = 4096;
/// Characters of a unit's name in the name of its cgroup.
const NAME: usize = 200;

/// The resources of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// The cgroup below its mount point; empty if it is unknown.
    pub(crate) cgroup: String,
    /// Bytes of memory: `memory.current`, or the sum of `RssAnon` of the processes (proc_pid_status(5)).
    pub(crate) memory: Option<u64>,
    /// Number of processes and threads.
    pub(crate) tasks: Option<u64>,
    /// CPU time of the run so far.
    pub(crate) cpu: Option<Duration>,
}

/// Reads the resources of a unit. The main process leads to the cgroup, so a unit without one has
/// none.
pub(crate) fn of(unit: &UnitStatus) -> Resources {
    read(unit, |path| fs::read_to_string(path).ok()).unwrap_or_default()
}

fn read(unit: &UnitStatus, file: impl Fn(&str) -> Option<String>) -> Option<Resources> {
    let (pid, run) = (unit.main_pid?, unit.run?);
    let short: String = unit.unit.chars().take(NAME).collect();
    let text = file(&format!("/proc/{pid}/cgroup"))?;
    let cgroup = cgroup_of(&text, &format!("{short}.{run}"))?;
    let value =
        |name: &str| MOUNTS.into_iter().find_map(|mount| file(&format!("{mount}{cgroup}/{name}")));
    let number = |name: &str| value(name)?.trim().parse().ok();
    let cpu = value("cpu.stat").and_then(|text| {
        let micros = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Duration::from_micros(micros.parse().ok()?))
    });
    // Only the memory controller also counts the processes of cgroups below this one.
    let is_alone =
        || value("cgroup.stat").is_some_and(|text| text.lines().any(|l| l == "nr_descendants 0"));
    let lines = |name: &str| value(name).filter(|_| is_alone());
    let private = || private_memory(&lines("cgroup.procs")?, &file);
    let threads = || u64::try_from(lines("cgroup.threads")?.lines().count()).ok();
    let (memory, tasks) =
        (number("memory.current").or_else(private), number("pids.current").or_else(threads));
    Some(Resources { cgroup, memory, tasks, cpu })
}

/// Adds up the private memory of these processes. A process may have exited. A process of another pid
/// namespace has pid 0, and its memory is unknown.
fn private_memory(pids: &str, file: &impl Fn(&str) -> Option<String>) -> Option<u64> {
    let pids: Vec<u32> = pids.lines().map_while(|pid| pid.parse().ok()).collect();
    if pids.is_empty() || pids.contains(&0) || pids.len() > PROCESSES {
        return None;
    }
    let memory = |pid: u32| -> Option<u64> {
        let status = file(&format!("/proc/{pid}/status"))?;
        let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
        kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(pids.into_iter().filter_map(memory).fold(0, u64::saturating_add))
}

/// Returns the cgroup `name` from the text of /proc/PID/cgroup. The process may be in a cgroup
/// below it. In another pid namespace the pid may be that of a process elsewhere: then there is no
/// such name.
fn cgroup_of(text: &str, name: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let parts: Vec<&str> = path.split('/').collect();
    // The kernel shows a cgroup outside the reader's cgroup namespace with "..".
    let at = parts.iter().position(|part| *part == name).filter(|_| !parts.contains(&".."))?;
    Some(parts.get(..=at)?.join("/"))
}

impl Resources {
    /// Formats `12.4 MiB, 3 tasks, 1.2s CPU` from the known values.
    pub(crate) fn line(&self) -> String {
        let cells: Vec<String> = self.columns().into_iter().flatten().collect();
        cells.iter().map(|cell| cell.trim_end()).collect::<Vec<_>>().join(", ")
    }

    /// Formats each value for a column that is aligned on the right.
    pub(crate) fn columns(&self) -> [Option<String>; 3] {
        let tasks =
            |count| if count == 1 { "1 task ".to_string() } else { format!("{count} tasks") };
        [
            self.memory.map(size),
            self.tasks.map(tasks),
            self.cpu.map(|cpu| format!("{} CPU", style::span(cpu))),
        ]
    }
}

/// Formats `812 KiB`, `12.4 MiB`, `1.2 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit * 10 / unit);
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / KIB),
        1_048_576..1_073_741_824 => format!("{} MiB", tenths(KIB * KIB)),
        _ => format!("{} GiB", tenths(KIB * KIB * KIB)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn unit(name: &str, pid: Option<u32>, run: Option<u64>) -> UnitStatus {
        let unit = json!({"unit": name, "type": "foreground-supervised", "state": "running",
            "degraded": false, "idle": false, "main-pid": pid, "run": run});
        serde_json::from_value(unit).unwrap()
    }

    /// Reads the resources of the unit from these files.
    fn of_files(unit: &UnitStatus, files: &[(&str, &str)]) -> Option<Resources> {
        let found = |path: &str| files.iter().find(|(known, _)| *known == path);
        read(unit, |path| found(path).map(|(_, text)| (*text).to_string()))
    }

    #[test]
    fn values_of_the_kernel_come_first() {
        let web = unit("web", Some(7), Some(3));
        let process = ("/proc/7/cgroup", "4:memory:/x\n0::/groundstate/web.3/worker\n");
        let cpu = "usage_usec 1240000\nuser_usec 1\n";
        let whole = [
            process,
            ("/sys/fs/cgroup/groundstate/web.3/memory.current", "13000000\n"),
            ("/sys/fs/cgroup/groundstate/web.3/pids.current", "3\n"),
            ("/sys/fs/cgroup/groundstate/web.3/cgroup.stat", "nr_descendants 0\n"),
            ("/sys/fs/cgroup/groundstate/web.3/cgroup.procs", "7\n"),
            ("/sys/fs/cgroup/groundstate/web.3/cgroup.threads", "7\n"),
            ("/sys/fs/cgroup/groundstate/web.3/cpu.stat", cpu),
        ];
        let used = of_files(&web, &whole).unwrap();
        assert_eq!((used.cgroup.as_str(), used.memory), ("/groundstate/web.3", Some(13_000_000)));
        assert_eq!(used.line(), "12.3 MiB, 3 tasks, 1.2s CPU");
        let hybrid = [process, ("/sys/fs/cgroup/unified/groundstate/web.3/cpu.stat", cpu)];
        let used = of_files(&web, &hybrid).unwrap();
        assert_eq!((used.line().as_str(), used.memory, used.tasks), ("1.2s CPU", None, None));
        assert_eq!(of_files(&web, &[process]).unwrap().line(), "");
    }

    #[test]
    fn processes_are_added_up_where_the_kernel_does_not_count() {
        let web = unit("web", Some(7), Some(3));
        let cgroup = "/sys/fs/cgroup/groundstate/web.3";
        let [alone, procs, threads] = ["cgroup.stat", "cgroup.procs", "cgroup.threads"]
            .map(|name| format!("{cgroup}/{name}"));
        let of = |descendants: &str, pids: &str| {
            let files = [
                ("/proc/7/cgroup", "0::/groundstate/web.3\n"),
                ("/proc/7/status", "Name:\tweb\nRssAnon:\t    1024 kB\nRssFile:\t 9 kB\n"),
                ("/proc/8/status", "RssAnon:\t     512 kB\n"),
                (&alone, descendants),
                (&procs, pids),
                (&threads, "7\n8\n9\n"),
            ];
            of_files(&web, &files).unwrap()
        };
        let none = "nr_descendants 0\nnr_dying_descendants 2\n";
        // Process 9 has exited.
        assert_eq!(of(none, "7\n8\n9\n").line(), "1.5 MiB, 3 tasks");
        assert_eq!(of(none, "7\n0\n").memory, None, "a process of another pid namespace");
        let nested = of("nr_descendants 1\n", "7\n8\n");
        assert_eq!((nested.memory, nested.tasks), (None, None));
    }

    #[test]
    fn only_the_cgroup_of_the_run_is_read() {
        let cases = [
            ("0::/groundstate/a.slice/web.3\n", Some("/groundstate/a.slice/web.3")),
            ("0::/groundstate/web.3/init.scope\n", Some("/groundstate/web.3")),
            // Another run, another process with this pid, no cgroup v2, another cgroup namespace.
            ("0::/groundstate/web.31\n", None),
            ("0::/user.slice\n", None),
            ("4:memory:/groundstate/web.3\n", None),
            ("0::/../groundstate/web.3\n", None),
            ("", None),
        ];
        for (text, want) in cases {
            let found = of_files(&unit("web", Some(7), Some(3)), &[("/proc/7/cgroup", text)]);
            assert_eq!(found.map(|used| used.cgroup).as_deref(), want, "{text}");
        }
        for unit in [unit("web", None, Some(3)), unit("web", Some(7), None)] {
            let process = ("/proc/7/cgroup", "0::/groundstate/web.3\n");
            assert_eq!(of_files(&unit, &[process]), None);
        }
    }

    #[test]
    fn sizes_have_one_decimal_from_one_mebibyte_on() {
        for (bytes, text) in [
            (0, "0 KiB"),
            (1_048_575, "1023 KiB"),
            (1_048_576, "1.0 MiB"),
            (1_073_741_823, "1023.9 MiB"),
            (1_288_490_189, "1.2 GiB"),
            (u64::MAX, "17179869183.9 GiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}

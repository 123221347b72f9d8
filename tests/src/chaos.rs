//! Services that depend on each other, under random failures. Services are killed, stopped,
//! restarted, unwanted and edited. The logger is killed, and init is upgraded and crashes after
//! random system calls. Then, at rest, each service must exist once. A lock shows that it never ran
//! twice at the same time, and each of its lines is in the log once. The seed determines the
//! actions, but not their timing. [`crate::sweep`] crashes init at each system call of a fixed
//! script.

use crate::boot::{Boot, Init};
use crate::crash::Steps;
use crate::deadline::{until, within};
use crate::process::Process;
use crate::sandbox::Sandbox;
use groundstate_units::simulator::rng::Rng;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Runs init without cgroups.
pub const BARE: &str =
    "umount -l /sys/fs/cgroup/unified 2>/dev/null; umount -R -l /sys; exec \"$@\"";

/// The script of a service: it writes numbered lines at intervals and holds a lock. Some of its
/// children outlive it. The action `kill` may hit flock(1), which the script then runs again. With
/// a second argument the script writes its pid to that file.
const SERVICE: &str = r#"exec 9>DIR/$1.lock
until flock -n 9; do
  [ $? != 1 ] || { echo "$1 $$" >>DIR/twice; break; }
done
[ -z "$2" ] || echo $$ >"$2"
trap 'exit 0' TERM
trap : HUP
i=0
while :; do
  i=$((i + 1))
  echo "@$$ $i"
  sleep 0.0$((RANDOM % 9 + 1))
  [ $((i % 17)) != 0 ] || (sleep 0.3 &)
done
"#;

/// The duration of the failures between two rests, in milliseconds.
const ROUND: (u64, u64) = (2_000, 6_000);
/// The time between two crashes, in milliseconds: some crashes are in a row.
const PAUSE: (u64, u64) = (500, 1_500);
const AT_ONCE: (u64, u64) = (0, 200);
/// The maximum number of system calls until a crash.
const CALLS: usize = 80;

/// The size of a test.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of services.
    pub services: usize,
    /// The number of rounds, each with a rest at its end.
    pub rounds: usize,
    /// The seed of the random numbers.
    pub seed: u64,
    /// True with cgroups.
    pub has_cgroups: bool,
}

/// The actions of a run and their results.
#[derive(Debug, Default)]
pub struct Seen {
    /// The number of times of each action.
    done: BTreeMap<&'static str, usize>,
    /// Survived crashes.
    crashes: usize,
    /// Lines in the log.
    lines: usize,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, times) in &self.done {
            write!(f, "{times} {name}, ")?;
        }
        write!(f, "{} crashes, {} lines in the log", self.crashes, self.lines)
    }
}

/// The actions and their weights.
const DEEDS: [(&str, u32); 13] = [
    ("kill", 8),
    ("pause", 2),
    ("restart", 6),
    ("set-target", 4),
    ("want", 2),
    ("retry", 2),
    ("reload-unit", 2),
    ("reload", 2),
    ("edit", 4),
    ("signal", 2),
    ("massacre", 2),
    ("logger", 2),
    ("upgrade", 1),
];

fn name(number: usize) -> String {
    format!("s{number}")
}

fn text(number: usize, more: &str) -> String {
    let this = name(number);
    let mut text = match number % 6 {
        5 => format!(
            "type: background-pidfile\npid-file: DIR/{this}.pid\nexec-start: /bin/bash -c '(setsid /bin/bash DIR/service {this} DIR/{this}.pid &); while [ ! -s DIR/{this}.pid ]; do sleep 0.01; done'\n"
        ),
        4 => format!(
            "exec-start-pre: /bin/true\nexec-start: /bin/bash DIR/service {this}\nready-grep: \"@[0-9]+ 3$\"\n"
        ),
        _ => format!("exec-start: /bin/bash DIR/service {this}\n"),
    };
    let below = |divisor: usize| name(number / divisor);
    match number {
        0..4 => {}
        _ if number.is_multiple_of(3) => text += &format!("depends-on: {}\n", below(3)),
        _ if number % 4 == 1 => text += &format!("waits-for: {}\n", below(4)),
        _ if number % 5 == 2 => text += &format!("depends-ms: {}\n", below(5)),
        _ => {}
    }
    match number % 7 {
        3 => text += "exec-stop-post: /bin/sleep 0.02\n",
        4 => text += "exec-reload: /bin/kill -HUP $MAINPID\n",
        _ => {}
    }
    text + "restart: always\nrestart-delay: 50ms\nrestart-delay-max: 200ms\nstop-timeout: 2s\nstart-timeout: 1m\n"
        + more
}

/// # Panics
/// If a service or a line is duplicated or lost.
pub fn disorder(size: Size) -> Seen {
    let files = Sandbox::new();
    files.put("service", &SERVICE.replace("DIR", &files.at("")));
    for number in 0..size.services {
        files.unit(&name(number), &text(number, ""));
    }
    let all: Vec<String> = (0..size.services).map(name).collect();
    files.unit("all", &format!("type: virtual\nwaits-for: [{}]", all.join(", ")));
    let boot = match size.has_cgroups {
        true => Boot::new(files),
        false => Boot::new(files).through(&["sh", "-c", BARE, "sh"]),
    };
    let mut init = boot.unrecorded().start("all");
    init.expect_crashes();
    let mut seen = Seen::default();
    let mut rng = Rng::of(size.seed, 1, 0);
    rests(&init, size.services);
    for round in 0..size.rounds {
        let is_over = AtomicBool::new(false);
        seen.crashes += thread::scope(|scope| {
            let dice_of_crashes = Rng::of(size.seed, 2, round as u64);
            let crashes = scope.spawn(|| crashes(&init, &is_over, dice_of_crashes));
            let ends_round = Ends(&is_over);
            let end = Instant::now() + Duration::from_millis(rng.between(ROUND.0, ROUND.1));
            while Instant::now() < end && !crashes.is_finished() {
                let (deed, _) = DEEDS[rng.weighted(&DEEDS.map(|(_, weight)| weight))];
                *seen.done.entry(deed).or_default() += 1;
                does(&init, deed, size.services, &mut rng);
                let _ = within(Duration::from_millis(rng.between(0, 100)), || None::<()>);
            }
            drop(ends_round);
            crashes.join().expect("the thread has not panicked")
        });
        init.initctl(&["set-target", "all"]);
        rests(&init, size.services);
    }
    init.check();
    let log = init.sandbox.path("log");
    init.tell("exit", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    seen.lines = check_lines_logged_once(&log);
    seen
}

/// Ends the round when dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Signals a process that may have exited.
fn signal(process: Process, signal: Signal) {
    let _ = kill(Pid::from_raw(process.0), signal);
}

/// Crashes init until the round is over. Returns the number of crashes.
fn crashes(init: &Init, is_over: &AtomicBool, mut rng: Rng) -> usize {
    let (mut times, mut is_second) = (0, false);
    loop {
        is_second = !is_second && times > 0 && rng.percent(25);
        let (least, most) = if is_second { AT_ONCE } else { PAUSE };
        if !is_second {
            let _ = until("init answers", || {
                let mut client = init.client()?;
                client.send("ping", &json!({}));
                client.answer()
            });
        }
        let is_over = || is_over.load(Ordering::Relaxed).then_some(());
        if within(Duration::from_millis(rng.between(least, most)), is_over).is_some() {
            return times;
        }
        let mut steps = Steps::of(init);
        for _ in 0..rng.below(CALLS) {
            assert!(steps.step().is_some(), "init is running");
        }
        steps.crash();
        times += 1;
    }
}

/// Performs one of [`DEEDS`]. A request that init refuses or does not answer has no effect.
fn does(init: &Init, deed: &str, services: usize, rng: &mut Rng) {
    let some = name(rng.below(services));
    let initctl = |words: &[&str]| {
        let output = init.initctl(words);
        let said = String::from_utf8_lossy(&output.stderr);
        // 2: the timeout expired.
        assert_ne!(output.status.code(), Some(2), "{words:?}: {said}");
    };
    match deed {
        "kill" => {
            let signals = [Signal::SIGKILL, Signal::SIGKILL, Signal::SIGTERM, Signal::SIGABRT];
            let which = rng.pick(&signals).expect("the list is not empty");
            let its = init.processes_of(&some);
            its.get(rng.below(its.len())).inspect(|process| signal(**process, which));
        }
        "pause" => {
            let its = init.processes_of(&some);
            its.iter().for_each(|process| signal(*process, Signal::SIGSTOP));
            let _ = within(Duration::from_millis(rng.between(0, 300)), || None::<()>);
            its.iter().for_each(|process| signal(*process, Signal::SIGCONT));
        }
        "massacre" => {
            for number in 0..services {
                if rng.percent(30) {
                    let its = init.processes_of(&name(number));
                    its.iter().for_each(|process| signal(*process, Signal::SIGKILL));
                }
            }
        }
        "logger" => {
            let children = init.process().children().into_iter();
            let is_it = |it: &Process| it.status("Name").is_some_and(|it| it.contains("logger"));
            children.filter(is_it).for_each(|process| signal(process, Signal::SIGKILL));
        }
        "edit" => {
            for _ in 0..rng.between(1, 4) {
                let number = rng.below(services);
                let more = format!("env: {{A: \"{}\"}}\n", rng.draw());
                init.sandbox.unit(&name(number), &text(number, &more));
            }
            initctl(&["reload"]);
        }
        "set-target" => {
            let without = (0..rng.below(4)).map(|_| format!("-{}", name(rng.below(services))));
            let words: Vec<String> =
                ["set-target", "all"].map(str::to_owned).into_iter().chain(without).collect();
            initctl(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
        "want" => initctl(&["want", &some, "--for", "2s"]),
        "signal" => initctl(&["kill", &some]),
        "reload" | "upgrade" => initctl(&[deed]),
        _ => initctl(&[deed, &some]),
    }
}

/// Checks that each service exists once.
fn rests(init: &Init, services: usize) {
    for name in (0..services).map(name) {
        init.when_state(&name, "running");
        let is_its = |process: &Process| {
            process.environment().get("GROUNDSTATE_UNIT").is_some_and(|unit| *unit == name)
        };
        until(&format!("{name} runs"), || is_its(&init.main_of(&name)).then_some(()));
    }
    assert_eq!(init.sandbox.read("twice"), "", "units that ran twice at once: unit and pid");
}

/// Checks that the lines of each process are in the log without gaps or duplicates. Returns their
/// number.
fn check_lines_logged_once(log: &Path) -> usize {
    let mut told: BTreeMap<(String, String), Vec<u64>> = BTreeMap::new();
    let mut folders = vec![log.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the log").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let unit = name.split('.').next().unwrap_or_default().to_owned();
            let text = String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned();
            for line in text.lines() {
                let said = line.rsplit_once('@').and_then(|(_, said)| said.split_once(' '));
                let Some((pid, number)) = said else { continue };
                let number =
                    number.parse().unwrap_or_else(|_| panic!("{}: {line}", path.display()));
                told.entry((unit.clone(), pid.to_owned())).or_default().push(number);
            }
        }
    }
    for ((unit, pid), numbers) in &mut told {
        numbers.sort_unstable();
        let first = numbers.first().copied().unwrap_or_default();
        let all = (first..).take(numbers.len());
        assert!(numbers.iter().copied().eq(all), "{unit}, process {pid}: {numbers:?}");
    }
    told.values().map(Vec::len).sum()
}

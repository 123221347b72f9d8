//! A real init running on a [`Sandbox`]: as PID 1 of new PID and mount namespaces, the same in a
//! user namespace, or as a plain supervisor. After every test [`teardown`] checks the general
//! invariants.

pub mod teardown;

use crate::client::Client;
use crate::deadline::{patience, until, within};
use crate::process::Process;
use crate::sandbox::{Sandbox, program};
use crate::status::Status;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use teardown::Baseline;

/// How init is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// PID 1 of a PID and mount namespace; needs root.
    Namespace,
    /// PID 1 of these namespaces within a user namespace; needs no root.
    UserNamespace,
    /// A supervisor that adopts orphans.
    Supervisor,
}

impl Way {
    /// The best way available: as PID 1 where the kernel allows it.
    pub fn best() -> Way {
        let works = |options: &str| {
            let mut command = Command::new("unshare");
            command.args([options, "--mount-proc", "true"]).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        match () {
            () if works("-fpm") => Way::Namespace,
            () if works("-Urfpm") => Way::UserNamespace,
            () => Way::Supervisor,
        }
    }
}

/// A running init.
#[derive(Debug)]
pub struct Init {
    /// The directory with its files.
    pub sandbox: Sandbox,
    way: Way,
    child: Child,
    pub(crate) first: Process,
    pub(crate) baseline: Baseline,
    pub(crate) may_crash: bool,
    pub(crate) recorded: bool,
}

/// Options of a boot, with defaults for all but the units.
#[derive(Debug)]
pub struct Boot {
    sandbox: Sandbox,
    way: Way,
    binary: Option<String>,
    arguments: Vec<String>,
    wrapper: Vec<String>,
    environment: Vec<(String, String)>,
    recorded: bool,
    words: Vec<String>,
    command: Vec<String>,
}

impl Boot {
    /// A boot on these files, as PID 1 of a PID namespace; without root, within a user namespace.
    pub fn new(sandbox: Sandbox) -> Boot {
        let root = nix::unistd::geteuid().is_root();
        let way = if root { Way::Namespace } else { Way::UserNamespace };
        let (arguments, wrapper, environment, words, command) = Default::default();
        let (binary, recorded) = (None, true);
        Boot { sandbox, way, binary, arguments, wrapper, environment, recorded, words, command }
    }

    /// Uses another binary: a copy of the one under test, or another build.
    pub fn binary(mut self, path: &str) -> Boot {
        self.binary = Some(path.to_owned());
        self
    }

    /// Selects another way.
    pub fn way(mut self, way: Way) -> Boot {
        self.way = way;
        self
    }

    /// Uses a program that makes the namespaces and starts init by itself, such as a container
    /// runtime. The caller makes the control socket reachable as `run/control.sock`.
    pub fn by(mut self, words: &[&str]) -> Boot {
        self.words = words.iter().map(|&word| word.to_owned()).collect();
        self.unrecorded()
    }

    /// Runs without a record of events, because a record contains each generation completely.
    pub fn unrecorded(mut self) -> Boot {
        self.recorded = false;
        self
    }

    /// Runs only this command, without unit files: `init -- CMD`. There is no target.
    pub fn command(mut self, words: &[&str]) -> Boot {
        self.command = words.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Adds arguments for init.
    pub fn arguments(mut self, arguments: &[&str]) -> Boot {
        self.arguments.extend(arguments.iter().map(|&a| a.to_owned()));
        self
    }

    /// Starts init through this program with its arguments: `setpriv …`, `strace …`.
    pub fn through(mut self, wrapper: &[&str]) -> Boot {
        self.wrapper.extend(wrapper.iter().map(|&a| a.to_owned()));
        self
    }

    /// Sets a variable in init's own environment.
    pub fn variable(mut self, name: &str, value: &str) -> Boot {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts init with this goal and returns once it answers.
    pub fn start(self, target: &str) -> Init {
        let mut init = self.launch(target);
        init.answers();
        init
    }

    /// Starts init and waits only for its pid.
    pub fn launch(self, target: &str) -> Init {
        let sandbox = self.sandbox;
        let out = File::create(sandbox.path("out.log")).expect("out.log");
        let errors = out.try_clone().expect("dup");
        let mut words: Vec<String> = match self.way {
            Way::Namespace => vec!["unshare", "-fpm", "--mount-proc", "--kill-child"],
            Way::UserNamespace => vec!["unshare", "-Urfpm", "--mount-proc", "--kill-child"],
            Way::Supervisor => Vec::new(),
        }
        .into_iter()
        .map(str::to_owned)
        .collect();
        words.extend(self.wrapper);
        words.push(self.binary.unwrap_or_else(|| program("GROUNDSTATE_INIT", "init")));
        if self.way != Way::Supervisor {
            words.push("--container".to_owned());
        }
        let of_units = [("--units", "units"), ("--policy", "policy.yaml")];
        let of_units = of_units.into_iter().filter(|_| self.command.is_empty());
        for (flag, name) in of_units.chain([("--runtime-dir", "run"), ("--log-dir", "log")]) {
            words.extend([flag.to_owned(), sandbox.at(name)]);
        }
        if self.recorded {
            words.extend(["--record".to_owned(), sandbox.at("record")]);
        }
        if sandbox.path("init.yaml").exists() {
            words.extend(["--config".to_owned(), sandbox.at("init.yaml")]);
        }
        if !target.is_empty() {
            words.extend(["--target".to_owned(), target.to_owned()]);
        }
        words.extend(self.arguments);
        if !self.command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.command);
        }
        if !self.words.is_empty() {
            words = self.words;
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(out).stderr(errors);
        command.env_remove("NOTIFY_SOCKET").envs(self.environment);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{}: {error}", words[0]));
        let outer = Process(i32::try_from(child.id()).expect("a pid"));
        let first = match self.way {
            Way::Supervisor => outer,
            // An init with a single short job may have ended already.
            Way::Namespace | Way::UserNamespace => until("the first process exists", || {
                let first = outer.children().into_iter().find(|p| p.inner_pid() == Some(1));
                first.or_else(|| matches!(child.try_wait(), Ok(Some(_))).then_some(outer))
            }),
        };
        let (baseline, recorded) = (Baseline::default(), self.recorded);
        Init { sandbox, way: self.way, child, first, baseline, may_crash: false, recorded }
    }
}

impl Init {
    /// Waits until init answers. Its resources then are the baseline for the final check.
    pub fn answers(&mut self) {
        until("init answers at its socket", || {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = self.sandbox.read("out.log");
                panic!("init ended ({status}) before it answered; output:\n{said}");
            }
            self.client()?.ask("ping", &json!({})).ok()
        });
        self.baseline = Baseline::of(self.first);
    }

    /// Init's own process, as the test sees it.
    pub fn process(&self) -> Process {
        self.first
    }

    /// Opens a new connection to the control socket.
    pub fn client(&self) -> Option<Client> {
        Client::connect(&self.sandbox.path("run/control.sock"))
    }

    /// Sends one request, on a connection of its own.
    ///
    /// # Errors
    /// The `error` of the answer.
    pub fn ask(&self, verb: &str, fields: &Value) -> Result<Value, Value> {
        let unreachable = || {
            let path = self.sandbox.path("run/control.sock");
            let why = std::os::unix::net::UnixStream::connect(path).err();
            panic!("cannot connect to the control socket: {why:?}; init: {:?}", self.first.state())
        };
        self.client().unwrap_or_else(unreachable).ask(verb, fields)
    }

    /// Sends a request that must not be refused.
    pub fn tell(&self, verb: &str, fields: &Value) -> Value {
        self.ask(verb, fields).unwrap_or_else(|error| panic!("{verb} {fields}: {error}"))
    }

    /// The status of all units.
    pub fn status(&self) -> Status {
        Status(self.tell("status", &json!({})))
    }

    /// A counter of dropped items, from `stats`.
    pub fn dropped(&self, what: &str) -> u64 {
        let stats = self.tell("stats", &json!({}));
        stats["dropped"][what].as_u64().unwrap_or_else(|| panic!("no {what} in {stats}"))
    }

    /// Polls until the status is as wanted, for [`patience`].
    ///
    /// # Errors
    /// The last status seen, if none was as wanted.
    pub fn look(&self, wanted: impl Fn(&Status) -> bool) -> Result<Status, Status> {
        let found = within(patience(), || Some(self.status()).filter(&wanted));
        found.ok_or_else(|| self.status())
    }

    /// Waits until the status is as wanted, and returns it.
    pub fn when(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        self.look(wanted).unwrap_or_else(|last| panic!("timeout: {what}\n{}", last.table()))
    }

    /// Waits until a unit is in a state.
    pub fn when_state(&self, unit: &str, state: &str) -> Status {
        self.when(&format!("{unit} is {state}"), |status| status.state(unit) == state)
    }

    /// Waits until the system is in a state.
    pub fn when_system(&self, state: &str) -> Status {
        self.when(&format!("the system is {state}"), |status| status.system() == state)
    }

    /// How long a unit was last in a state that it has left, by init's own clock.
    pub fn time_in(&self, unit: &str, state: &str) -> Duration {
        let events = self.initctl_json_lines(&["events"]);
        let mut its = events.iter().filter(|event| event["unit"] == unit).rev();
        let mut at = |side: &str| {
            let found = its.find(|event| event[side] == state);
            let event = found.unwrap_or_else(|| panic!("{unit} is not past {state}: {events:?}"));
            event["mono-us"].as_u64().map(Duration::from_micros).expect("a time")
        };
        let end = at("from");
        end.saturating_sub(at("to"))
    }

    /// The main process of a unit, as the test sees it.
    pub fn main_of(&self, unit: &str) -> Process {
        // If the process exits between the answer and the look, the next answer names another one.
        until(&format!("{unit} has a main pid"), || {
            let pid = self.status().main_pid(unit)?;
            match self.way {
                Way::Supervisor => Some(Process(pid)),
                Way::Namespace | Way::UserNamespace => self.first.neighbour(pid),
            }
        })
    }

    /// All processes that belong to a unit according to their environment.
    pub fn processes_of(&self, unit: &str) -> Vec<Process> {
        let ours = |p: &Process| p.environment().get("GROUNDSTATE_UNIT").is_some_and(|u| u == unit);
        self.descendants().into_iter().filter(|p| p.is_alive() && ours(p)).collect()
    }

    pub(crate) fn descendants(&self) -> Vec<Process> {
        if self.way != Way::Supervisor {
            return self.first.neighbours();
        }
        let mut found = vec![self.first];
        let mut at = 0;
        while at < found.len() {
            found.extend(found[at].children());
            at += 1;
        }
        found
    }

    /// Runs initctl with these arguments against this init.
    pub fn initctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
        command.arg("--socket").arg(self.sandbox.path("run/control.sock")).args(words);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("initctl runs")
    }

    /// Like [`Init::initctl`], with `--json`; also returns the exit code.
    pub fn initctl_json(&self, words: &[&str]) -> (i32, Value) {
        let output = self.initctl(&[&["--json"], words].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{words:?} printed no JSON ({e}): {text}"));
        (output.status.code().unwrap_or(-1), value)
    }

    /// Runs a verb whose output is one JSON object per line.
    pub fn initctl_json_lines(&self, words: &[&str]) -> Vec<Value> {
        let output = self.initctl(&[&["--json"], words].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let line = |line: &str| serde_json::from_str(line).expect("a line is a JSON object");
        text.lines().map(line).collect()
    }

    /// Declares that this test makes init crash on purpose.
    pub fn expect_crashes(&mut self) {
        self.may_crash = true;
    }

    /// Returns true if its record may contain duplicates after a crash.
    pub fn may_have_crashed(&self) -> bool {
        self.may_crash
    }

    /// Returns true if init has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until init has ended.
    pub fn ended(&mut self) -> ExitStatus {
        until("init ends", || self.child.try_wait().expect("wait"))
    }

    /// The output of init, with the lines of units that it echoes.
    pub fn output(&self) -> String {
        // Init's writer is idle when it waits for lines. Just started, it has no name of its own
        // yet.
        let children = format!("/proc/{0}/task/{0}/children", self.first.0);
        let is_said_by =
            |name: String| name == "groundstate-say" || !name.starts_with("groundstate");
        let words = |process: Process| std::fs::read(format!("/proc/{}/cmdline", process.0)).ok();
        let writes = |pid: &str| {
            pid.parse().map(Process).is_ok_and(|process| {
                process.state() == Some('R')
                    && process.status("Name").is_some_and(is_said_by)
                    && words(process) == words(self.first)
            })
        };
        until("the writer is idle", || {
            let children = std::fs::read_to_string(&children).unwrap_or_default();
            (!children.split_whitespace().any(writes)).then_some(())
        });
        self.sandbox.read("out.log")
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("init said:\n{}", self.output());
            let last = self.client().and_then(|mut client| {
                client.send("status", &json!({}));
                client.answer()
            });
            if let Some(Ok(status)) = last {
                eprintln!("{}", Status(status).table());
            }
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            for process in self.descendants().into_iter().filter(|p| *p != self.first) {
                let _ =
                    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.0), Signal::SIGKILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The exit code, or 128 and the signal, as a shell counts.
pub fn shell_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(-1)
}

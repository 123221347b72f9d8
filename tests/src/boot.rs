//! A real init at work on a [`Sandbox`]: as PID 1 of fresh PID and mount namespaces, the
//! same in a user namespace, or as a plain supervisor. Its end checks what holds after
//! every test, whatever was tested: see [`teardown`].

pub mod teardown;

use crate::client::Client;
use crate::deadline::{PATIENCE, until, within};
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
    /// The same within a user namespace; needs no root.
    UserNamespace,
    /// Somebody's child that adopts orphans.
    Supervisor,
}

impl Way {
    /// The best that can be had here: as PID 1, where the kernel lets us.
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

/// One running init.
#[derive(Debug)]
pub struct Init {
    /// Where its files are.
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
}

impl Boot {
    /// On these files, as PID 1 of a namespace where we may make one.
    pub fn new(sandbox: Sandbox) -> Boot {
        let root = nix::unistd::geteuid().is_root();
        let way = if root { Way::Namespace } else { Way::UserNamespace };
        let (arguments, wrapper, environment, words) = Default::default();
        Boot { sandbox, way, binary: None, arguments, wrapper, environment, recorded: true, words }
    }

    /// Another binary than the one under test: a copy of it, or one that was built otherwise.
    pub fn binary(mut self, path: &str) -> Boot {
        self.binary = Some(path.to_owned());
        self
    }

    /// Another way.
    pub fn way(mut self, way: Way) -> Boot {
        self.way = way;
        self
    }

    /// A program that makes the namespaces and starts init by itself, as these words say: a container's
    /// runtime. Where its socket is seen from here is for the caller to say: `run/control.sock`.
    pub fn by(mut self, words: &[&str]) -> Boot {
        self.words = words.iter().map(|&word| word.to_owned()).collect();
        self.unrecorded()
    }

    /// Without a record of what happens: each generation stands in it as a whole.
    pub fn unrecorded(mut self) -> Boot {
        self.recorded = false;
        self
    }

    /// More arguments for init.
    pub fn arguments(mut self, arguments: &[&str]) -> Boot {
        self.arguments.extend(arguments.iter().map(|&a| a.to_owned()));
        self
    }

    /// A program with its arguments that starts init: `setpriv …`, `strace …`.
    pub fn through(mut self, wrapper: &[&str]) -> Boot {
        self.wrapper.extend(wrapper.iter().map(|&a| a.to_owned()));
        self
    }

    /// A variable of init's own environment.
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

    /// Starts init and does not wait for anything but its pid.
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
        for (flag, name) in [
            ("--units", "units"),
            ("--runtime-dir", "run"),
            ("--log-dir", "log"),
            ("--policy", "policy.yaml"),
        ] {
            words.extend([flag.to_owned(), sandbox.at(name)]);
        }
        if self.recorded {
            words.extend(["--record".to_owned(), sandbox.at("record")]);
        }
        if sandbox.path("init.yaml").exists() {
            words.extend(["--config".to_owned(), sandbox.at("init.yaml")]);
        }
        words.extend(["--target".to_owned(), target.to_owned()]);
        words.extend(self.arguments);
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
            // One that has a single short job may be over before anybody looked.
            Way::Namespace | Way::UserNamespace => until("the first process is there", || {
                let first = outer.children().into_iter().find(|p| p.inner_pid() == Some(1));
                first.or_else(|| matches!(child.try_wait(), Ok(Some(_))).then_some(outer))
            }),
        };
        let (baseline, recorded) = (Baseline::default(), self.recorded);
        Init { sandbox, way: self.way, child, first, baseline, may_crash: false, recorded }
    }
}

impl Init {
    /// Waits until it answers: what it has then is what it may have in the end.
    pub fn answers(&mut self) {
        until("init answers at its socket", || {
            if let Ok(Some(status)) = self.child.try_wait() {
                let said = self.sandbox.read("out.log");
                panic!("init ended ({status}) before it answered; it said:\n{said}");
            }
            self.client()?.ask("ping", &json!({})).ok()
        });
        self.baseline = Baseline::of(self.first);
    }

    /// Init's own process, as the test sees it.
    pub fn process(&self) -> Process {
        self.first
    }

    /// A fresh connection to the control socket.
    pub fn client(&self) -> Option<Client> {
        Client::connect(&self.sandbox.path("run/control.sock"))
    }

    /// Asks once, on a connection of its own.
    ///
    /// # Errors
    /// The `error` of the answer.
    pub fn ask(&self, verb: &str, fields: &Value) -> Result<Value, Value> {
        let nobody = || {
            let path = self.sandbox.path("run/control.sock");
            let why = std::os::unix::net::UnixStream::connect(path).err();
            panic!("nobody listens at the control socket: {why:?}; init: {:?}", self.first.state())
        };
        self.client().unwrap_or_else(nobody).ask(verb, fields)
    }

    /// Asks for what must not be refused.
    pub fn tell(&self, verb: &str, fields: &Value) -> Value {
        self.ask(verb, fields).unwrap_or_else(|error| panic!("{verb} {fields}: {error}"))
    }

    /// The state of everything.
    pub fn status(&self) -> Status {
        Status(self.tell("status", &json!({})))
    }

    /// How much of this it has dropped, as `stats` has it.
    pub fn dropped(&self, what: &str) -> u64 {
        let stats = self.tell("stats", &json!({}));
        stats["dropped"][what].as_u64().unwrap_or_else(|| panic!("no {what} in {stats}"))
    }

    /// Looks until the status is as wanted, for [`PATIENCE`].
    ///
    /// # Errors
    /// The last status seen, when it never was.
    pub fn look(&self, wanted: impl Fn(&Status) -> bool) -> Result<Status, Status> {
        let found = within(PATIENCE, || Some(self.status()).filter(&wanted));
        found.ok_or_else(|| self.status())
    }

    /// Waits until the status is as wanted; gives it.
    pub fn when(&self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        self.look(wanted).unwrap_or_else(|last| panic!("waited in vain: {what}\n{}", last.table()))
    }

    /// Waits until a unit is in a state.
    pub fn when_state(&self, unit: &str, state: &str) -> Status {
        self.when(&format!("{unit} is {state}"), |status| status.state(unit) == state)
    }

    /// Waits until the system is in a state.
    pub fn when_system(&self, state: &str) -> Status {
        self.when(&format!("the system is {state}"), |status| status.system() == state)
    }

    /// How long a unit was in a state, when it last was, by init's own clock; over by now.
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
        // One that goes away between the answer and the look was not the one to be seen.
        until(&format!("{unit} has a main pid"), || {
            let pid = self.status().main_pid(unit)?;
            match self.way {
                Way::Supervisor => Some(Process(pid)),
                Way::Namespace | Way::UserNamespace => self.first.neighbour(pid),
            }
        })
    }

    /// Every process that says it belongs to a unit.
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

    /// Runs initctl with these words against this init.
    pub fn initctl(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
        command.arg("--socket").arg(self.sandbox.path("run/control.sock")).args(words);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("initctl runs")
    }

    /// As [`Init::initctl`], with `--json`; gives the exit code too.
    pub fn initctl_json(&self, words: &[&str]) -> (i32, Value) {
        let output = self.initctl(&[&["--json"], words].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let value = serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("{words:?} printed no JSON ({e}): {text}"));
        (output.status.code().unwrap_or(-1), value)
    }

    /// A verb whose output is one JSON object a line.
    pub fn initctl_json_lines(&self, words: &[&str]) -> Vec<Value> {
        let output = self.initctl(&[&["--json"], words].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let line = |line: &str| serde_json::from_str(line).expect("a line is a JSON object");
        text.lines().map(line).collect()
    }

    /// This test makes init crash on purpose.
    pub fn expect_crashes(&mut self) {
        self.may_crash = true;
    }

    /// Its record may tell something twice.
    pub fn may_have_crashed(&self) -> bool {
        self.may_crash
    }

    /// It has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits for init's end.
    pub fn ended(&mut self) -> ExitStatus {
        until("init ends", || self.child.try_wait().expect("wait"))
    }

    /// What init and, where it echoes, its units wrote.
    pub fn output(&self) -> String {
        // Who writes for init has nothing more to do: it waits for lines, or for ever. Just begun, it has no
        // name of its own yet.
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
        until("what was said is written", || {
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

//! A real init at work on a [`Sandbox`]: as PID 1 of fresh PID and mount namespaces, the
//! same in a user namespace, or as a plain supervisor. Its end checks what holds after
//! every test, whatever was tested: see [`Init::finish`].

use crate::client::Client;
use crate::deadline::{PATIENCE, until, within};
use crate::process::Process;
use crate::replay::replay;
use crate::sandbox::{Sandbox, program};
use crate::status::Status;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

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

/// Open files PID 1 may have more at the end than after its boot.
const SPARE_FILES: usize = 5;

/// One running init.
#[derive(Debug)]
pub struct Init {
    /// Where its files are.
    pub sandbox: Sandbox,
    way: Way,
    child: Child,
    first: Process,
    files: usize,
    may_crash: bool,
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
}

impl Boot {
    /// On these files, as PID 1 of a namespace where we may make one.
    pub fn new(sandbox: Sandbox) -> Boot {
        let root = nix::unistd::geteuid().is_root();
        let way = if root { Way::Namespace } else { Way::UserNamespace };
        let (arguments, wrapper, environment) = Default::default();
        Boot { sandbox, way, binary: None, arguments, wrapper, environment }
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
        until("init answers at its socket", || {
            if let Ok(Some(status)) = init.child.try_wait() {
                let said = init.sandbox.read("out.log");
                panic!("init ended ({status}) before it answered; it said:\n{said}");
            }
            init.client()?.ask("ping", &json!({})).ok()
        });
        init.files = init.first.files().len();
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
            ("--record", "record"),
        ] {
            words.extend([flag.to_owned(), sandbox.at(name)]);
        }
        if sandbox.path("init.yaml").exists() {
            words.extend(["--config".to_owned(), sandbox.at("init.yaml")]);
        }
        words.extend(["--target".to_owned(), target.to_owned()]);
        words.extend(self.arguments);
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
        Init { sandbox, way: self.way, child, first, files: usize::MAX, may_crash: false }
    }
}

impl Init {
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
        self.client().expect("somebody listens at the control socket").ask(verb, fields)
    }

    /// Asks for what must not be refused.
    pub fn tell(&self, verb: &str, fields: &Value) -> Value {
        self.ask(verb, fields).unwrap_or_else(|error| panic!("{verb} {fields}: {error}"))
    }

    /// The state of everything.
    pub fn status(&self) -> Status {
        Status(self.tell("status", &json!({})))
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

    fn descendants(&self) -> Vec<Process> {
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
        self.sandbox.read("out.log")
    }

    /// Checks what holds after every test, stops init, expects exit status 0, and that
    /// what was recorded gives the same actions once more.
    pub fn finish(self) {
        self.finish_and_keep();
    }

    /// The same; gives the files it was at work on to the next.
    pub fn finish_and_keep(mut self) -> Sandbox {
        self.check();
        self.tell("exit", &json!({}));
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "init ends with 0, not {status}");
        match replay(&self.sandbox.read("record")) {
            Ok(events) => assert!(events > 0, "something was recorded"),
            Err(difference) => panic!("the record does not replay: {difference}"),
        }
        std::mem::take(&mut self.sandbox)
    }

    /// The same of one that has crashed: its record may tell something twice.
    pub fn finish_after_crash(mut self) {
        self.check();
        self.tell("exit", &json!({}));
        let status = self.ended();
        assert_eq!(status.code(), Some(0), "init ends with 0, not {status}");
    }

    /// What holds at every time: it answers at once, has not crashed, leaves no zombie,
    /// no open file and no process of a unit that is down.
    pub fn check(&self) {
        // Again where it was late: what the test did may only just be over, or the machine busy.
        until("it answers within a second", || {
            let begin = Instant::now();
            self.tell("ping", &json!({}));
            (begin.elapsed() < Duration::from_secs(1)).then_some(())
        });
        if !self.may_crash {
            assert_eq!(self.tell("stats", &json!({}))["crashes"], 0);
        }
        until("no zombie is init's", || {
            self.first.children().iter().all(|p| p.state() != Some('Z')).then_some(())
        });
        let files = || self.first.files().len();
        let close = within(Duration::from_secs(5), || {
            (files() <= self.files.saturating_add(SPARE_FILES)).then_some(())
        });
        assert!(close.is_some(), "{} files, {} at boot", files(), self.files);
        self.check_processes();
    }

    fn check_processes(&self) {
        let left = || {
            let status = self.status();
            self.descendants().into_iter().find_map(|process| {
                let unit = process.environment().get("GROUNDSTATE_UNIT")?.clone();
                let down = matches!(status.state(&unit), "disabled" | "failed" | "waiting");
                (down && process.is_alive()).then_some(unit)
            })
        };
        let clean = within(Duration::from_secs(5), || left().is_none().then_some(()));
        assert!(clean.is_some(), "{:?} is down and has a process", left());
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

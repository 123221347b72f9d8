//! `tour UNITS [-i] [--keep]`: the demonstration behind `contrib/demo`. Boots the real init on the
//! unit files in UNITS, shows each step as a user would see it, and checks it against init's JSON
//! output. Exits with 1 and the differences if a step is not as described.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a program that shows things; an index into JSON gives null, not a panic"
)]

use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::io::IsTerminal;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(units) = arguments.next() else {
        eprintln!("usage: tour UNITS [-i] [--keep]");
        return ExitCode::from(64);
    };
    let words: Vec<String> = arguments.collect();
    let given = |flag| std::io::stdin().is_terminal() && words.iter().any(|word| word == flag);
    let (stay, keep) = (given("-i"), given("--keep"));
    let differences = std::panic::catch_unwind(|| tour(&units, stay, keep));
    match differences.unwrap_or(1) {
        0 => {
            println!("\neach step went as described");
            ExitCode::SUCCESS
        }
        count => {
            println!("\n{count} difference(s)");
            ExitCode::FAILURE
        }
    }
}

/// Runs the tour and returns the number of differences. `stay`: opens a shell instead of the steps;
/// `keep`: opens a shell after them.
fn tour(units: &str, stay: bool, keep: bool) -> usize {
    let way = Way::best();
    println!(
        "{}",
        match way {
            Way::Namespace => "init runs as PID 1 of a PID and mount namespace of its own",
            Way::UserNamespace =>
                "init runs as PID 1 of a user, PID and mount namespace of its own",
            Way::Supervisor => "no namespaces here: init runs as a plain supervisor",
        }
    );
    let files = Sandbox::new();
    copy_units(units, &files);
    files.put("root.hints", "");
    files.put("init.yaml", "echo: no\nfailure-verdict: 1\nrestart-delay: 500ms\n");
    let mut tour = Tour { init: Boot::new(files).way(way).start("multi-user"), differences: 0 };
    tour.boot();
    if stay {
        tour.shell();
    } else {
        tour.plan();
        tour.crash();
        tour.offline();
        tour.switch();
        tour.mistake();
        if keep {
            tour.shell();
        }
    }
    tour.shutdown()
}

/// Copies the unit files, with the stand-in and the directory filled in.
fn copy_units(units: &str, files: &Sandbox) {
    let stand_in = program("GROUNDSTATE_DAEMON", "daemon");
    let directory = files.dir().to_str().expect("a plain path");
    for entry in std::fs::read_dir(units).expect("the folder of unit files") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a unit file");
        let text = text.replace("@STAND-IN@", &stand_in).replace("@DIR@", directory);
        let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
        files.put(&format!("units/{name}"), &text);
    }
}

struct Tour {
    init: Init,
    differences: usize,
}

impl Tour {
    fn boot(&mut self) {
        title("The boot: everything the goal needs, as parallel as the dependencies allow");
        let status = self.reaches("the system is running", |s| s.system() == "running");
        self.show(&["status", "--all"]);
        let states = |units: &[&str]| units.iter().map(|u| status.state(u)).collect::<Vec<_>>();
        self.same("netif did its work and ended", &states(&["netif"]), &vec!["exited"]);
        let services = ["dhcpcd", "unbound", "maddy", "inspircd", "irc-bot"];
        self.same("the services run", &states(&services), &vec!["running"; services.len()]);
        self.same("nothing is degraded", &status.degraded(), &Vec::new());
        let mail = status.target("imapd")["unit"].clone();
        self.same("maddy provides the target imapd", &mail, &json!("maddy"));
        self.show(&["tree", "multi-user"]);
    }

    fn plan(&mut self) {
        title("A plan: what another goal would stop, start and keep, before it happens");
        self.show(&["plan", "mail-only"]);
        let plan = self.json(&["plan", "mail-only"]);
        self.same(
            "the bot goes before its server",
            &plan["stop"],
            &json!([["multi-user"], ["irc-bot"], ["inspircd"]]),
        );
        let keep = plan["keep"].as_array().cloned().unwrap_or_default();
        self.same("the mail is kept", &keep.contains(&json!("maddy")), &true);
    }

    fn crash(&mut self) {
        title("A crash: inspircd is killed; the bot only waits for it, and stays");
        let before = self.init.status();
        self.init.main_of("inspircd").signal(nix::sys::signal::Signal::SIGKILL);
        let status = self.reaches("the system is degraded", |s| s.system() == "degraded");
        self.show(&["status", "inspircd", "irc-bot", "multi-user"]);
        self.same(
            "the bot kept its process",
            &status.main_pid("irc-bot"),
            &before.main_pid("irc-bot"),
        );
        self.reaches("it heals by itself", |s| s.system() == "running");
        self.show(&["status", "inspircd", "irc-bot", "multi-user"]);
    }

    fn offline(&mut self) {
        title("Going offline: unbound cannot start any more; why is the network not online?");
        let before = self.init.status();
        std::fs::remove_file(self.init.sandbox.path("root.hints")).expect("root.hints is there");
        self.init.main_of("unbound").signal(nix::sys::signal::Signal::SIGKILL);
        let failed = |s: &Status| s.reason("network-online") == "dependency";
        let status = self.reaches("network-online has failed, by its dependency", failed);
        self.show(&["why", "network-online"]);
        let why = self.json(&["why", "network-online"]);
        let cause = why["chain"].as_array().and_then(|chain| chain.last()).cloned();
        let cause = cause.unwrap_or_default()["unit"].clone();
        self.same("the root cause is unbound", &cause, &json!("unbound"));
        self.same("the mail runs on", &status.main_pid("maddy"), &before.main_pid("maddy"));
        self.same("… and says what it lacks", &status.degraded().contains(&"maddy"), &true);
        self.init.sandbox.put("root.hints", "");
        self.reaches("the file is back, and all heals", |s| s.system() == "running");
    }

    fn switch(&mut self) {
        title("Another goal: mail only");
        let before = self.init.status();
        self.show(&["set-target", "mail-only", "--wait"]);
        let status = self.reaches("the system is running", |s| s.system() == "running");
        self.show(&["status", "--all"]);
        let chat = [status.state("inspircd"), status.state("irc-bot")];
        self.same("the chat is off", &chat, &["disabled", "disabled"]);
        self.same("maddy was not touched", &status.main_pid("maddy"), &before.main_pid("maddy"));
    }

    fn mistake(&mut self) {
        title("A mistake in a unit file: the reload is refused as a whole");
        let before = self.init.status();
        let text = self.init.sandbox.read("units/maddy.yaml");
        self.init
            .sandbox
            .put("units/maddy.yaml", &text.replace("network-online", "network-onlime"));
        let code = self.show(&["reload"]);
        self.same("initctl says so by its exit code", &code, &Some(65));
        let after = self.init.status();
        self.same("the generation stays", &after.0["generation"], &before.0["generation"]);
        self.same("maddy runs on", &after.main_pid("maddy"), &before.main_pid("maddy"));
        self.init.sandbox.put("units/maddy.yaml", &text);
    }

    fn shell(&self) {
        title("Your turn: initctl status, plan, why, set-target …; leave the shell to end");
        let folder = program("GROUNDSTATE_INITCTL", "initctl");
        let folder = folder.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
        let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned());
        let pid = self.init.process().0.to_string();
        let mut command = Command::new("nsenter");
        command.args(["-t", &pid, "-U", "--preserve-credentials", "-p", "-m", &shell]);
        if Way::best() == Way::Namespace {
            command = Command::new("nsenter");
            command.args(["-t", &pid, "-p", "-m", &shell]);
        } else if Way::best() == Way::Supervisor {
            command = Command::new(&shell);
        }
        command
            .env("PATH", path)
            .env("GROUNDSTATE_SOCKET", self.init.sandbox.at("run/control.sock"));
        if let Err(error) = command.status() {
            println!("no shell: {error}");
        }
    }

    fn shutdown(mut self) -> usize {
        title("The end: everything stops, dependents first");
        self.show(&["poweroff"]);
        let code = self.init.ended().code();
        self.same("init ends with 0", &code, &Some(0));
        self.differences
    }

    /// Runs initctl as a user would, with its output on our own, and returns its exit code.
    fn show(&self, words: &[&str]) -> Option<i32> {
        println!("\n{}", bold(&format!("$ initctl {}", words.join(" "))));
        let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
        command.arg("--socket").arg(self.init.sandbox.path("run/control.sock")).args(words);
        command.status().ok().and_then(|status| status.code())
    }

    fn json(&self, words: &[&str]) -> Value {
        self.init.initctl_json(words).1
    }

    fn reaches(&mut self, what: &str, wanted: impl Fn(&Status) -> bool) -> Status {
        match self.init.look(wanted) {
            Ok(status) => {
                println!("  ✓ {what}");
                status
            }
            Err(status) => {
                println!("  ✗ {what}: not within the time; now\n{}", status.table());
                self.differences += 1;
                status
            }
        }
    }

    fn same<T: PartialEq + Debug>(&mut self, what: &str, found: &T, told: &T) {
        if found == told {
            println!("  ✓ {what}");
        } else {
            println!("  ✗ {what}: expected {told:?}, found {found:?}");
            self.differences += 1;
        }
    }
}

fn title(text: &str) {
    println!("\n{}", bold(&format!("── {text}")));
}

fn bold(text: &str) -> String {
    let plain = !std::io::stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some();
    if plain { text.to_owned() } else { format!("\x1b[1m{text}\x1b[0m") }
}

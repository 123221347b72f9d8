//! contrib/cluster-demo: boots a cluster, runs the units of fleet's documentation, kills a node and
//! boots it again. It prints each command with its output. It checks each step by the `--json`
//! output of fleetctl.

use crate::stand::Cluster;
use crate::stand::program::{PATIENCE, within};
use crate::terminal::Terminal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Expected number of active nodes per unit.
type Places<'a> = &'a [(&'a str, usize)];

const HELLO: &str = "[Unit]\nDescription=Hello World\n\n[Service]\n\
    ExecStart=/bin/bash -c \"while true; do echo Hello, World!; sleep 1; done\"\n";

/// A difference from the expected state.
struct Difference(String);

struct Tour {
    cluster: Cluster,
    /// The node on which commands run.
    at: u8,
    terminal: Terminal,
}

pub(crate) fn run(one: bool, keep: bool) -> ExitCode {
    println!("booting {} …", if one { "one node with an etcd" } else { "three nodes" });
    let cluster = Cluster::boot(if one { 1 } else { 3 }, "");
    let mut tour = Tour { cluster, at: 1, terminal: Terminal::default() };
    let outcome = if one { tour.one() } else { tour.three() };
    if keep {
        let socket = tour.cluster.node(tour.at).at("run/fleet.sock");
        println!("\nthe machines stay until you press Enter; from another terminal:");
        println!("  fleetctl --endpoint=unix://{socket} list-machines");
        let _ = std::io::stdin().read_line(&mut String::new());
    }
    tour.cluster.pass();
    match outcome {
        Ok(()) => {
            println!("\neach step passed its check");
            ExitCode::SUCCESS
        }
        Err(Difference(text)) => {
            println!("\n{text}\n{}", tour.cluster.last_words());
            ExitCode::FAILURE
        }
    }
}

impl Tour {
    fn three(&mut self) -> Result<(), Difference> {
        self.say("Three machines, each with init as PID 1, a member of etcd and fleetd.");
        self.fleetctl(&["list-machines"]);
        self.machines(3)?;

        self.say(
            "A unit goes to the machine with the fewest units. Its file is a systemd unit file.",
        );
        self.file("hello.service", HELLO);
        self.fleetctl(&["start", "hello.service"]);
        self.active(&[("hello.service", 1)])?;

        self.say(
            "Each instance of a template has its own machine; a global unit runs on all machines.",
        );
        self.file("apache@.service", &unit("[X-Fleet]\nConflicts=apache@*.service\n"));
        self.file("discovery.service", &unit("[X-Fleet]\nMachineOf=apache@1.service\n"));
        self.file("monitor.service", &unit("[X-Fleet]\nGlobal=true\n"));
        self.fleetctl(&["submit", "apache@.service"]);
        self.fleetctl(&["start", "apache@1", "apache@2", "apache@3"]);
        self.fleetctl(&["start", "discovery.service", "monitor.service"]);
        let all: Places<'_> = &[
            ("apache@1.service", 1),
            ("apache@2.service", 1),
            ("apache@3.service", 1),
            ("discovery.service", 1),
            ("hello.service", 1),
            ("monitor.service", 3),
        ];
        let before = self.active(all)?;
        self.fleetctl(&["list-units"]);

        let lost = before["hello.service"][0];
        let on_it = |name: &&str| name.starts_with("apache") && before[*name] == [lost];
        let waits = all.iter().map(|(name, _)| *name).find(on_it).unwrap_or("");
        self.at = 1 + lost % 3;
        self.terminal.clear();
        self.say(&format!("The power of n{lost} fails: hello.service and {waits} ran on it."));
        self.cluster.kill_node(lost);
        self.machines(2)?;
        self.waits(waits)?;
        // The follower of apache@1.service waits for it.
        let rest = all.iter().filter(|(name, _)| {
            *name != waits && (*name != "discovery.service" || waits != "apache@1.service")
        });
        let rest = rest.map(|(name, on)| (*name, if *on == 3 { 2 } else { *on }));
        let moved = self.active(&rest.collect::<Vec<_>>())?;
        self.fleetctl(&["list-units"]);
        self.say(&format!(
            "hello.service has moved. {waits} waits: it conflicts with its siblings."
        ));
        same(
            "hello.service is on the lost machine",
            &json!(moved["hello.service"][0] == lost),
            &json!(false),
        )?;
        self.why_moved("hello.service");
        self.fleetctl(&["why", waits]);
        self.picture();

        self.say(&format!("n{lost} comes back: the waiting units start, and no other unit moves."));
        self.cluster.boot_node(lost);
        self.machines(3)?;
        let after = self.active(all)?;
        self.fleetctl(&["list-units"]);
        for (unit, on) in moved.iter().filter(|(unit, _)| *unit != "monitor.service") {
            same(unit, &json!(after[unit]), &json!(on))?;
        }

        self.emptied(lost, waits, all)
    }

    fn emptied(&self, lost: u8, waits: &str, all: Places<'_>) -> Result<(), Difference> {
        self.say("An operator drains the machine, then lets it take units again.");
        let id = crate::stand::node::id(lost);
        self.fleetctl(&["drain", "--yes", "--wait", &id]);
        self.waits(waits)?;
        self.fleetctl(&["why", waits]);
        self.fleetctl(&["undrain", &id]);
        self.active(all)?;
        self.fleetctl(&[
            "destroy",
            "apache@1",
            "apache@2",
            "apache@3",
            "discovery",
            "hello",
            "monitor",
        ]);
        self.active(&[])?;
        Ok(())
    }

    fn one(&mut self) -> Result<(), Difference> {
        self.say("One machine: etcd and fleetd are two of its units.");
        self.fleetctl(&["list-machines"]);
        self.machines(1)?;
        self.terminal.print("n1# initctl status");
        self.terminal.print(&indented(&self.cluster.node(1).initctl(&["status"])));

        self.say("A systemd unit file, and a native one.");
        self.file("hello.service", HELLO);
        self.file(
            "web.yaml",
            "unit: web\nexec-start: /bin/sleep 100000\nx-fleet: {machine-metadata: {number: 1}}\n",
        );
        self.fleetctl(&["start", "hello.service", "web.yaml"]);
        self.active(&[("hello.service", 1), ("web.service", 1)])?;
        self.fleetctl(&["list-units"]);

        self.say(
            "fleetctl does not wait for a unit that no machine can have. It prints the reason.",
        );
        self.file("ssd.service", &unit("[X-Fleet]\nMachineMetadata=disk=ssd\n"));
        self.fleetctl(&["start", "ssd.service"]);
        self.waits("ssd.service")?;
        self.fleetctl(&["destroy", "hello.service", "web.service", "ssd.service"]);
        self.active(&[])?;
        Ok(())
    }

    fn say(&self, text: &str) {
        self.terminal.print(&format!("\n== {text}\n"));
    }

    /// Saves a picture of the output for the README.
    fn picture(&self) {
        if let Some(file) = std::env::var_os("PICTURE_OF_THE_TERMINAL") {
            let picture = self.terminal.picture(&self.cluster.folder.join("browser"));
            std::fs::write(file, picture).unwrap();
        }
    }

    fn file(&self, name: &str, text: &str) {
        self.terminal.print(&format!("n{}# cat {name}\n{}", self.at, indented(text)));
        self.cluster.file(name, text);
    }

    /// Shows a command and its output.
    fn fleetctl(&self, words: &[&str]) {
        self.terminal.print(&format!("n{}# fleetctl {}", self.at, words.join(" ")));
        let (_, out, err) = self.cluster.node(self.at).try_fleetctl(words);
        self.terminal.print(&indented(&format!("{out}{err}")));
    }

    /// Shows the engine's reason for a move.
    fn why_moved(&self, unit: &str) {
        for number in 1..=self.cluster.count() {
            let log = self.cluster.node(number).log("fleetd");
            let names_move = |line: &&str| {
                line.contains(&format!("engine: {unit}")) && line.contains("went away")
            };
            if let Some(line) = log.lines().rfind(names_move) {
                let asked = format!("n{number}# initctl logs fleetd | tail -n 1");
                self.terminal.print(&format!("{asked}\n{}", indented(line)));
            }
        }
    }

    fn machines(&self, wanted: usize) -> Result<(), Difference> {
        let mut count = 0;
        let fits = || {
            count = self.cluster.node(self.at).list("list-machines")?.len();
            (count == wanted).then_some(())
        };
        let _ = within(PATIENCE, fits);
        same("machines", &json!(count), &json!(wanted))
    }

    /// Waits until exactly these units are active on that many nodes, and shows where.
    fn active(&self, wanted: Places<'_>) -> Result<BTreeMap<String, Vec<u8>>, Difference> {
        let wanted: BTreeMap<&str, usize> = wanted.iter().copied().collect();
        let mut last: Value = json!({});
        let found = within(PATIENCE, || {
            let active = self.cluster.active(self.at)?;
            let counts: BTreeMap<&str, usize> =
                active.iter().map(|(unit, on)| (unit.as_str(), on.len())).collect();
            last = json!(counts);
            let places = active.iter();
            let places = places.map(|(unit, on)| (unit.clone(), on.iter().copied().collect()));
            (counts == wanted).then(|| places.collect())
        });
        found.ok_or_else(|| difference("active units", &last, &json!(wanted)))
    }

    /// Waits until a unit is reported as unplaceable.
    fn waits(&self, unit: &str) -> Result<(), Difference> {
        let node = self.cluster.node(self.at);
        let mut unplaceable = json!(null);
        let _ = within(PATIENCE, || {
            let (_, out, _) = node.try_fleetctl(&["--json", "why", unit]);
            let why: Value = serde_json::from_str(&out).ok()?;
            unplaceable = why["unplaceable"].clone();
            (unplaceable == true).then_some(())
        });
        same(&format!("{unit} cannot be placed"), &unplaceable, &json!(true))
    }
}

fn unit(fleet: &str) -> String {
    format!("[Service]\nExecStart=/bin/sleep 100000\n\n{fleet}")
}

/// Indents by one tab stop, so that columns separated by tabs stay aligned.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("        {line}\n")).collect()
}

fn difference(what: &str, found: &Value, wanted: &Value) -> Difference {
    Difference(format!("{what}: is {found}, and should be {wanted}"))
}

fn same(what: &str, found: &Value, wanted: &Value) -> Result<(), Difference> {
    if found == wanted { Ok(()) } else { Err(difference(what, found, wanted)) }
}

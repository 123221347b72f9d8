//! One machine for real: etcd, the init of this repository as its supervisor, fleetd and
//! fleetctl as programs. What several machines do, and faults between them, is not here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on has failed"
)]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a fact that must come may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
const MACHINE: &str = "0123456789abcdef0123456789abcdef";

static COUNT: AtomicU32 = AtomicU32::new(0);

fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::park_timeout(PAUSE);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program that ends with the test; an init with all it has begun.
struct Running {
    child: Child,
    is_init: bool,
}

impl Running {
    fn kill(&mut self) {
        if self.is_init {
            let pid = Pid::from_raw(self.child.id().cast_signed());
            let end = Instant::now() + PATIENCE;
            let _ = kill(pid, Signal::SIGTERM);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::park_timeout(PAUSE);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Node {
    folder: PathBuf,
    ports: [u16; 2],
}

impl Node {
    fn new() -> Node {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("fleet-machine.{}.{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for part in ["units", "run", "log"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let node = Node { folder, ports: [free_port(), free_port()] };
        let uid = std::fs::metadata(&node.folder).unwrap().uid();
        node.put("units/base.yaml", "unit: base\ntype: virtual\n");
        node.put("init.yaml", &format!("sources:\n  fleet: {{uid: {}}}\n", uid));
        node.put("machine-id", MACHINE);
        let at = |name: &str| node.folder.join(name).display().to_string();
        let conf = format!(
            "etcd_servers=http://127.0.0.1:{}\ninit_socket={}\nlog_socket={}\n\
             machine_id_file={}\nunits_directory={}\nlisten=unix://{}\nagent_ttl=3s\n",
            node.ports[0],
            at("run/control.sock"),
            at("run/log.sock"),
            at("machine-id"),
            at("fleet/units"),
            at("fleet.sock")
        );
        node.put("fleet.conf", &conf);
        node
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    fn run(&self, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Running {
        let name = Path::new(program.as_ref()).file_name().unwrap().to_owned();
        let log = self.folder.join(format!("{}.log", name.display()));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(&program);
        command.args(words).current_dir(&self.folder).process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let started = command.spawn();
        let child =
            started.unwrap_or_else(|error| panic!("{}: {error}", program.as_ref().display()));
        Running { child, is_init: false }
    }

    fn etcd(&self) -> Running {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let words = [
            ["--data-dir", "etcd"],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("default={peer}")],
        ];
        self.run("etcd", words.as_flattened())
    }

    fn init(&self) -> Running {
        let program = std::env::var("GROUNDSTATE_INIT").expect("GROUNDSTATE_INIT: path of init");
        let words = ["--config", "init.yaml", "--units", "units", "--target", "base"];
        let places = ["--runtime-dir", "run", "--log-dir", "log"];
        let mut init = self.run(program, &[&words[..], &places].concat());
        init.is_init = true;
        init
    }

    fn fleetd(&self) -> Running {
        self.run(env!("CARGO_BIN_EXE_fleetd"), &["--config", "fleet.conf"])
    }

    fn try_fleetctl(&self, words: &[&str]) -> (bool, String) {
        let endpoint = format!("unix://{}", self.folder.join("fleet.sock").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetctl"));
        command.current_dir(&self.folder).env("FLEETCTL_ENDPOINT", endpoint);
        let output = command.args(words).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    }

    fn fleetctl(&self, words: &[&str]) -> String {
        let (fine, text) = self.try_fleetctl(words);
        assert!(fine, "fleetctl {words:?}: {text}");
        text
    }

    /// The pid that a unit wrote as it began, while that process is there.
    fn pid(&self, unit: &str) -> Option<i32> {
        let text = std::fs::read_to_string(self.folder.join(format!("{unit}.pid"))).ok()?;
        let pid: i32 = text.trim().parse().ok()?;
        Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
    }

    /// Of how many runs it wrote.
    fn begins(&self, unit: &str) -> usize {
        let text = std::fs::read_to_string(self.folder.join(format!("{unit}.begins")));
        text.unwrap_or_default().lines().count()
    }

    /// Once the machine is in the cluster.
    fn when_there(&self) {
        until("the machine is listed", || {
            let (_, text) = self.try_fleetctl(&["list-machines", "--full", "--no-legend"]);
            text.contains(MACHINE).then_some(())
        });
    }

    fn command(&self, unit: &str) -> String {
        let folder = self.folder.display();
        let write = format!("echo $$$$ >{folder}/{unit}.pid; echo >>{folder}/{unit}.begins");
        format!("/bin/sh -c '{write}; exec sleep 100000'")
    }
}

#[test]
fn a_unit_lives_on_a_machine_whatever_ends_around_it() {
    let node = Node::new();
    let mut etcd = node.etcd();
    let _init = node.init();
    let mut fleetd = node.fleetd();
    node.when_there();
    let unit = format!("[Service]\nExecStart={}\n", node.command("hello"));
    node.put("hello.service", &unit);
    node.fleetctl(&["start", "hello.service"]);
    let pid = until("hello runs", || node.pid("hello"));
    until("its state is told", || {
        let listed = node.fleetctl(&["list-units", "--no-legend"]);
        (listed.contains("active") && listed.contains("running")).then_some(())
    });

    etcd.kill();
    until("fleetd sees that etcd is away", || {
        let (fine, _) = node.try_fleetctl(&["list-units"]);
        (!fine).then_some(())
    });
    assert_eq!(node.pid("hello"), Some(pid));
    let _etcd = node.etcd();
    node.when_there();

    fleetd.kill();
    assert_eq!(node.pid("hello"), Some(pid));
    let _fleetd = node.fleetd();
    node.when_there();
    until("its state is told again", || {
        let (_, listed) = node.try_fleetctl(&["list-units", "--no-legend"]);
        listed.contains("running").then_some(())
    });
    assert_eq!((node.pid("hello"), node.begins("hello")), (Some(pid), 1));

    node.fleetctl(&["stop", "hello.service"]);
    until("hello is stopped", || node.pid("hello").is_none().then_some(()));
    node.fleetctl(&["start", "hello.service"]);
    until("hello runs again", || node.pid("hello").filter(|now| *now != pid));
    node.fleetctl(&["destroy", "hello.service"]);
    until("hello is gone", || node.pid("hello").is_none().then_some(()));
    assert_eq!(node.fleetctl(&["list-units", "--no-legend"]).trim(), "");

    let native = node.command("web");
    node.put(
        "web.yaml",
        &format!("unit: web\nexec-start: {native}\nx-fleet: {{MachineID: {MACHINE}}}\n"),
    );
    node.fleetctl(&["start", "web.yaml"]);
    until("a native unit runs", || node.pid("web"));
    node.fleetctl(&["destroy", "web.yaml"]);
    until("it is gone", || node.pid("web").is_none().then_some(()));
    let _ = std::fs::remove_dir_all(&node.folder);
}

/// Ends every lease there is, as an operator can; how many.
fn end_leases(url: &str) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = etcd_client::Client::connect([url], None).await.unwrap();
        let leases = client.leases().await.unwrap();
        for lease in leases.leases() {
            client.lease_revoke(lease.id()).await.unwrap();
        }
        leases.leases().len()
    })
}

#[test]
fn a_lease_that_is_ended_by_hand_is_taken_anew() {
    let node = Node::new();
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    for (name, fleet) in [("here", ""), ("everywhere", "\n[X-Fleet]\nGlobal=true\n")] {
        let file = format!("{name}.service");
        node.put(&file, &format!("[Service]\nExecStart={}\n{fleet}", node.command(name)));
        node.fleetctl(&["start", &file]);
        until("it runs", || node.pid(name));
    }
    let registered = || {
        let log = std::fs::read_to_string(node.folder.join("fleetd.log")).unwrap();
        log.matches("is registered, lease").count()
    };
    for _ in 0..3 {
        let before = registered();
        let pid = node.pid("everywhere");
        let url = format!("http://127.0.0.1:{}", node.ports[0]);
        assert!(end_leases(&url) > 0, "the machine's, and the engine's where it leads");
        until("it is registered anew", || (registered() > before).then_some(()));
        until("both are told as running", || {
            let (_, listed) = node.try_fleetctl(&["list-units", "--no-legend"]);
            (listed.matches("running").count() == 2).then_some(())
        });
        assert_eq!(node.pid("everywhere"), pid, "nothing global stops for it");
    }
    assert_eq!(node.begins("everywhere"), 1);
    let _ = std::fs::remove_dir_all(&node.folder);
}

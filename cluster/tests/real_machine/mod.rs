//! One or more real machines on one etcd: this repository's init as a supervisor, fleetd and
//! fleetctl. They end with the test. Network faults between machines are tested on nodes.
#![allow(dead_code, reason = "each test uses its own part of it")]

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit for an expected event on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// The user of an unprivileged fleetd.
const UNPRIVILEGED: u32 = 65534;

static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "timed out after {PATIENCE:?}: {what}");
        std::thread::park_timeout(PAUSE);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program that ends with the test; an init ends with all its processes.
pub(crate) struct Running {
    pub(crate) child: Child,
    is_init: bool,
}

impl Running {
    pub(crate) fn kill(&mut self) {
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

/// A command from words.
pub(crate) fn called(words: &[&str]) -> Command {
    let mut words = words.iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}

/// How fleetd runs on the machine.
#[derive(Default)]
pub(crate) struct Manner {
    /// Extra lines of fleet.conf.
    pub(crate) conf: String,
    /// Extra environment variables.
    pub(crate) env: Vec<(&'static str, String)>,
    /// Run as a user without rights, if the test is root.
    pub(crate) unprivileged: bool,
}

pub(crate) struct Node {
    pub(crate) folder: PathBuf,
    /// Ports of its own etcd member, or of the one it uses.
    ports: [u16; 2],
    pub(crate) id: String,
    manner: Manner,
}

impl Node {
    pub(crate) fn new() -> Node {
        Node::with(Manner::default())
    }

    pub(crate) fn with(manner: Manner) -> Node {
        Node::on([free_port(), free_port()], manner)
    }

    /// Another machine, on this one's etcd.
    pub(crate) fn beside(&self, manner: Manner) -> Node {
        Node::on(self.ports, manner)
    }

    fn on(ports: [u16; 2], manner: Manner) -> Node {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("fleet-machine.{}.{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        for part in ["units", "run", "log", "own"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let mut uid = std::fs::metadata(&folder).unwrap().uid();
        if manner.unprivileged && uid == 0 {
            uid = UNPRIVILEGED;
            std::os::unix::fs::chown(folder.join("own"), Some(uid), Some(uid)).unwrap();
        }
        let node = Node { folder, ports, id: format!("{:032x}", 0xabc + number), manner };
        node.put("units/base.yaml", "unit: base\ntype: virtual\n");
        node.put("init.yaml", &format!("sources:\n  fleet: {{uid: {uid}}}\n"));
        node.put("machine-id", &node.id);
        node.put("fleet.conf", &node.conf());
        node
    }

    /// Its fleet.conf.
    pub(crate) fn conf(&self) -> String {
        let at = |name: &str| self.folder.join(name).display().to_string();
        format!(
            "etcd_servers=http://127.0.0.1:{}\ninit_socket={}\nlog_socket={}\n\
             machine_id_file={}\nunits_directory={}\nstate_directory=state\nlisten=unix://{}\n\
             agent_ttl=3s\n{}",
            self.ports[0],
            at("run/control.sock"),
            at("run/log.sock"),
            at("machine-id"),
            at("own/units"),
            at("own/fleet.sock"),
            self.manner.conf,
        )
    }

    /// The URL of its etcd.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    pub(crate) fn run(&self, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Running {
        let name = Path::new(program.as_ref()).file_name().unwrap().display().to_string();
        let mut command = Command::new(&program);
        self.spawn(&name, command.args(words).current_dir(&self.folder))
    }

    fn spawn(&self, name: &str, command: &mut Command) -> Running {
        let log = self.folder.join(format!("{name}.log"));
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        command.process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Running { child, is_init: false }
    }

    pub(crate) fn etcd(&self) -> Running {
        let [client, peer] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let words = [
            ["--data-dir", "etcd"],
            ["--listen-client-urls", &client],
            ["--advertise-client-urls", &client],
            ["--listen-peer-urls", &peer],
            ["--initial-advertise-peer-urls", &peer],
            ["--initial-cluster", &format!("default={peer}")],
            // Each etcdctl call checks the password, so hashing is cheap.
            ["--bcrypt-cost", "4"],
        ];
        self.run("etcd", words.as_flattened())
    }

    pub(crate) fn init(&self) -> Running {
        let program = std::env::var("GROUNDSTATE_INIT").expect("GROUNDSTATE_INIT: path of init");
        let words = ["--config", "init.yaml", "--units", "units", "--target", "base"];
        let places = ["--runtime-dir", "run", "--log-dir", "log"];
        let mut init = self.run(program, &[&words[..], &places].concat());
        init.is_init = true;
        init
    }

    pub(crate) fn fleetd(&self) -> Running {
        let fleetd = [env!("CARGO_BIN_EXE_fleetd"), "--config", "../fleet.conf"];
        let by = UNPRIVILEGED.to_string();
        let setpriv = ["setpriv", "--reuid", &by, "--regid", &by, "--clear-groups"];
        let is_root = std::fs::metadata(&self.folder).unwrap().uid() == 0;
        let mut command = match self.manner.unprivileged && is_root {
            true => called(&[&setpriv[..], &fleetd].concat()),
            false => called(&fleetd),
        };
        command.envs(self.manner.env.iter().map(|(name, value)| (name, value)));
        self.spawn("fleetd", command.current_dir(self.folder.join("own")))
    }

    /// Returns head and body of a GET of its API.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.join("own/fleet.sock")).unwrap();
        let head = "Host: fleet\r\nConnection: close\r\n\r\n";
        write!(stream, "GET {path} HTTP/1.1\r\n{head}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Runs etcdctl as root of its etcd.
    pub(crate) fn etcdctl(&self, words: &[&str]) -> String {
        self.call_etcdctl(words).unwrap_or_else(|fault| panic!("etcdctl {words:?}: {fault}"))
    }

    /// Like [`Self::etcdctl`], or `None` on failure.
    pub(crate) fn try_etcdctl(&self, words: &[&str]) -> Option<String> {
        self.call_etcdctl(words).ok()
    }

    fn call_etcdctl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.url())).args(words);
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    /// The log of one of its programs.
    pub(crate) fn log(&self, program: &str) -> String {
        std::fs::read_to_string(self.folder.join(format!("{program}.log"))).unwrap_or_default()
    }

    /// Runs initctl against its init.
    pub(crate) fn initctl(&self, words: &[&str]) -> String {
        let program = std::env::var("GROUNDSTATE_INITCTL").expect("GROUNDSTATE_INITCTL: its path");
        let mut command = Command::new(program);
        command.arg("--socket").arg(self.folder.join("run/control.sock")).args(words);
        let output = command.output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Waits until its machine reports the unit as running.
    pub(crate) fn when_running(&self, unit: &str) {
        until(&format!("{unit} is listed as running"), || {
            let (_, listed) =
                self.try_fleetctl(&["list-units", "--no-legend", "--fields=unit,sub"]);
            let is_running = |line: &str| line.starts_with(unit) && line.ends_with("running");
            listed.lines().any(is_running).then_some(())
        });
    }

    pub(crate) fn try_fleetctl(&self, words: &[&str]) -> (bool, String) {
        let (code, out, err) = self.streams(words);
        (code == 0, out + &err)
    }

    /// Returns exit code, stdout and stderr.
    pub(crate) fn streams(&self, words: &[&str]) -> (i32, String, String) {
        let endpoint = format!("unix://{}", self.folder.join("own/fleet.sock").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetctl"));
        command.current_dir(&self.folder).env("FLEETCTL_ENDPOINT", endpoint);
        let output = command.args(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn fleetctl(&self, words: &[&str]) -> String {
        let (fine, text) = self.try_fleetctl(words);
        assert!(fine, "fleetctl {words:?}: {text}");
        text
    }

    /// Returns the pid that a unit wrote at its start, if the process exists.
    pub(crate) fn pid(&self, unit: &str) -> Option<i32> {
        let text = std::fs::read_to_string(self.folder.join(format!("{unit}.pid"))).ok()?;
        let pid: i32 = text.trim().parse().ok()?;
        Path::new(&format!("/proc/{pid}")).exists().then_some(pid)
    }

    /// Returns the number of recorded starts.
    pub(crate) fn begins(&self, unit: &str) -> usize {
        let text = std::fs::read_to_string(self.folder.join(format!("{unit}.begins")));
        text.unwrap_or_default().lines().count()
    }

    /// Waits until the machine is registered.
    pub(crate) fn when_there(&self) {
        until("the machine is listed", || {
            let (_, text) = self.try_fleetctl(&["list-machines", "--full", "--no-legend"]);
            text.contains(&self.id).then_some(())
        });
    }

    pub(crate) fn command(&self, unit: &str) -> String {
        let folder = self.folder.display();
        let write = format!("echo >>{folder}/{unit}.begins; echo $$$$ >{folder}/{unit}.pid");
        format!("/bin/sh -c '{write}; exec sleep 100000'")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

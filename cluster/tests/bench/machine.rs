//! A real machine: init as a supervisor, fleetd, and an API client with a permanent connection.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Machine {
    folder: PathBuf,
    init: Child,
    fleetd: Child,
}

impl Machine {
    /// Starts the machine and waits until it answers. `kind` is set in its metadata.
    pub(crate) fn start(folder: &Path, id: &str, etcd: &str, kind: &str, ttl: u64) -> Machine {
        let folder = folder.join(id);
        for part in ["units", "run", "log"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        let put = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let at = |name: &str| folder.join(name).display().to_string();
        let uid = nix::unistd::geteuid();
        put("units/base.yaml", "unit: base\ntype: virtual\n");
        put("init.yaml", &format!("sources:\n  fleet: {{uid: {uid}}}\n"));
        put("machine-id", id);
        let conf = format!(
            "etcd_servers={etcd}\ninit_socket={}\nlog_socket={}\nmachine_id_file={}\n\
             units_directory={}\nlisten=unix://{}\nagent_ttl={ttl}s\nmetadata=kind={kind}\n",
            at("run/control.sock"),
            at("run/log.sock"),
            at("machine-id"),
            at("fleet/units"),
            at("fleet.sock")
        );
        put("fleet.conf", &conf);
        let init = std::env::var("GROUNDSTATE_INIT").expect("GROUNDSTATE_INIT: path of init");
        let words =
            ["--container", "--config", "init.yaml", "--units", "units", "--target", "base"];
        let places = ["--runtime-dir", "run", "--log-dir", "log"];
        let init = run(&folder, &init, &[&words[..], &places].concat());
        let fleetd = run(&folder, env!("CARGO_BIN_EXE_fleetd"), &["--config", "fleet.conf"]);
        let machine = Machine { folder, init, fleetd };
        let end = Instant::now() + Duration::from_secs(60);
        while !machine.is_there(id) {
            assert!(Instant::now() < end, "{id} does not come up");
            std::thread::park_timeout(Duration::from_millis(20));
        }
        machine
    }

    fn is_there(&self, id: &str) -> bool {
        let path = self.folder.join("fleet.sock");
        UnixStream::connect(path).is_ok() && self.client().get("/machines").1.contains(id)
    }

    pub(crate) fn client(&self) -> Client {
        Client { stream: UnixStream::connect(self.folder.join("fleet.sock")).unwrap() }
    }

    /// Kills the machine like a power failure.
    pub(crate) fn kill(&mut self) {
        for child in [&mut self.fleetd, &mut self.init] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// CPU time of fleetd.
    pub(crate) fn busy(&self) -> Duration {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.fleetd.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        // On Linux a tick is 10 ms on all architectures.
        Duration::from_millis(ticks * 10)
    }

    /// Resident memory of fleetd in MiB.
    pub(crate) fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.fleetd.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4 / 1024
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts a program that the kernel kills with its init.
fn run(folder: &Path, program: &str, words: &[&str]) -> Child {
    let name = Path::new(program).file_name().unwrap().display().to_string();
    let log = std::fs::File::create(folder.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new("unshare");
    // PID 1 of a namespace, so that no process outlives it.
    let namespace = ["-pf", "--mount-proc", "--kill-child", "--"];
    if name == "init" {
        command.args(namespace).arg(program);
    } else {
        command = Command::new(program);
    }
    command.args(words).current_dir(folder).process_group(0).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

pub(crate) struct Client {
    stream: UnixStream,
}

impl Client {
    pub(crate) fn get(&mut self, path: &str) -> (u16, String) {
        self.ask("GET", path, "")
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_at(method, &format!("/fleet/v1{path}"), body)
    }

    /// Sends a request for a full path.
    pub(crate) fn ask_at(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        let mut piece = vec![0; 64 * 1024];
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let read = self.stream.read(&mut piece).unwrap();
            assert!(read > 0, "{method} {path}: no answer");
            bytes.extend(&piece[..read]);
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |text| text.parse().unwrap());
        while bytes.len() < end + length {
            let read = self.stream.read(&mut piece).unwrap();
            assert!(read > 0, "{method} {path}: cut short");
            bytes.extend(&piece[..read]);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, String::from_utf8_lossy(&bytes[end..]).into_owned())
    }
}

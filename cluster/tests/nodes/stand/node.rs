//! A machine: the real init as PID 1 of its own namespaces, with etcd and fleetd from the unit
//! files of contrib/cluster.d.

use super::network::address;
use super::program::{PATIENCE, Running, call, of_init, output, until};
use serde_json::Value;
use std::fmt::Write;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// The user of an unprivileged fleetd.
const UNPRIVILEGED: u32 = 65534;

/// The configuration of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) number: u8,
    /// The nodes with an etcd member.
    pub(crate) members: Vec<u8>,
    pub(crate) id: String,
    /// Extra lines of fleet.conf.
    pub(crate) conf: String,
    /// fleetd has only the *source* role.
    pub(crate) unprivileged: bool,
}

pub(crate) struct Node {
    pub(crate) plan: NodePlan,
    folder: PathBuf,
    shared: PathBuf,
    running: Option<Running>,
}

/// File in which its init records how fleetd ended; fleetd's user may write there.
const ENDED: &str = "state/ended";

/// Returns the machine id of a node.
pub(crate) fn id(number: u8) -> String {
    format!("{number:x}").repeat(32)
}

/// Run by sh as the first process of the node: `$1` is its folder, `$2` its name, then init.
const BEGIN: &str = "set -e
mount --bind \"$1/run\" /run
mount --bind \"$1/boot-id\" /proc/sys/kernel/random/boot_id
hostname \"$2\"
shift 2
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \"$@\"";

impl Node {
    /// Creates its files below `shared`.
    pub(crate) fn new(shared: &Path, plan: NodePlan) -> Node {
        let folder = shared.join(format!("n{}", plan.number));
        for part in ["run", "units", "log", "etcd", "state"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
        }
        if plan.unprivileged {
            chown(folder.join("state"), Some(UNPRIVILEGED), None).unwrap();
        }
        let node = Node { plan, folder, shared: shared.to_owned(), running: None };
        let uid = if node.plan.unprivileged { UNPRIVILEGED } else { 0 };
        node.put("init.yaml", &format!("sources:\n  fleet: {{uid: {uid}}}\n"));
        node.put("machine-id", &node.plan.id);
        node.put("fleet.conf", &node.conf());
        node.put_units();
        node
    }

    pub(crate) fn name(&self) -> String {
        format!("n{}", self.plan.number)
    }

    pub(crate) fn id(&self) -> &str {
        &self.plan.id
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    fn conf(&self) -> String {
        let NodePlan { number, members, conf, .. } = &self.plan;
        // Its own member first.
        let (own, others): (Vec<u8>, Vec<u8>) = members.iter().partition(|of| *of == number);
        let urls = own.iter().chain(&others).map(|of| format!("http://{}:2379", address(*of)));
        let urls: Vec<String> = urls.collect();
        format!(
            "etcd_servers={}\npublic_ip={}\nmetadata=hostname={},number={number}\nagent_ttl=3s\n\
             machine_id_file={}\nstate_directory={}\nverbosity=1\n{conf}",
            urls.join(","),
            address(*number),
            self.name(),
            self.at("machine-id"),
            self.at("state"),
        )
    }

    fn put_units(&self) {
        let given = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/cluster.d");
        let read = |name: &str| std::fs::read_to_string(given.join(name)).unwrap();
        self.put("units/fleet-socket.yaml", &read("fleet-socket.yaml"));
        let command =
            format!("{} --config {}", env!("CARGO_BIN_EXE_fleetd"), self.at("fleet.conf"));
        let fleetd = read("fleetd.yaml").replace("/usr/bin/fleetd", &command);
        let (user, group) =
            if self.plan.unprivileged { ("nobody", "nogroup") } else { ("root", "root") };
        let fleetd = fleetd.replace("user: fleet", &format!("user: {user}"));
        let fleetd = fleetd.replace("group: fleet", &format!("group: {group}"));
        // All nodes share the host's disk.
        let fleetd = fleetd.replace("state-dir: fleet\n", "");
        let ended = self.at(ENDED);
        let post = format!("exec-stop-post: /bin/sh -c 'printenv SERVICE_RESULT >{ended}'\n");
        self.put("units/fleetd.yaml", &format!("{fleetd}{post}"));
        let mut wanted = "fleet-socket, fleetd".to_string();
        if self.plan.members.contains(&self.plan.number) {
            let etcd =
                read("etcd.yaml").replace("--data-dir /var/lib/etcd/default", &self.member());
            // Many nodes share few CPUs.
            let etcd = etcd.replace("--heartbeat-interval=50 --election-timeout=500\n", "\n");
            let etcd =
                etcd.replace("user: etcd\nstate-dir: etcd\n", "env: {ETCD_LOG_LEVEL: error}\n");
            self.put("units/etcd.yaml", &etcd);
            wanted.push_str(", etcd");
        }
        self.put("units/node.yaml", &format!("unit: node\ntype: virtual\nwaits-for: {wanted}\n"));
    }

    /// The arguments of its etcd.
    fn member(&self) -> String {
        let own = address(self.plan.number);
        let mut all = String::new();
        for of in &self.plan.members {
            let comma = if all.is_empty() { "" } else { "," };
            write!(all, "{comma}n{of}=http://{}:2380", address(*of)).unwrap();
        }
        format!(
            "--name {} --data-dir {} --listen-client-urls http://{own}:2379,http://127.0.0.1:2379 \
             --advertise-client-urls http://{own}:2379 --listen-peer-urls http://{own}:2380 \
             --initial-advertise-peer-urls http://{own}:2380 --initial-cluster {all} \
             --pre-vote --heartbeat-interval 200 --election-timeout 2000",
            self.name(),
            self.at("etcd")
        )
    }

    /// Boots it. `on` is the command prefix for its network.
    pub(crate) fn boot(&mut self, on: &[String]) {
        // The runtime directory is lost, and the kernel has a new boot id.
        let _ = std::fs::remove_dir_all(self.folder.join("run"));
        std::fs::create_dir_all(self.folder.join("run")).unwrap();
        let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
        self.put("boot-id", &random);
        let mut words = on.to_vec();
        let namespaces = ["unshare", "-mpuf", "--mount-proc", "--kill-child", "--"];
        words.extend(namespaces.map(str::to_string));
        words.extend(["sh", "-c", BEGIN, "node"].map(str::to_string));
        words.extend([self.folder.display().to_string(), self.name()]);
        words.push(of_init("GROUNDSTATE_INIT", "init").display().to_string());
        let init = [
            ("--config", "init.yaml"),
            ("--units", "units"),
            ("--log-dir", "log"),
            ("--policy", "policy.yaml"),
        ];
        words.extend(["--container", "--target", "node"].map(str::to_string));
        words.extend(["--runtime-dir", "/run/groundstate"].map(str::to_string));
        for (flag, name) in init {
            words.extend([flag.to_string(), self.at(name)]);
        }
        self.running = Some(Running::start(&words, &self.folder.join("init.log")));
        // Before that init knows no units, and a goal cannot be set.
        until("init has read its files", || {
            (self.status()?["generation"].as_u64()? > 0).then_some(())
        });
    }

    /// Kills everything on it, like a power failure.
    pub(crate) fn kill(&mut self) {
        self.running = None;
    }

    pub(crate) fn is_up(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.ended().is_none())
    }

    /// Shuts it down in good order.
    pub(crate) fn shut_down(&mut self) {
        self.initctl(&["exit"]);
        let running = self.running.as_mut().unwrap();
        let code = until("the node is down", || running.ended());
        assert_eq!(code, 0, "init of {} ended", self.name());
        self.running = None;
    }

    /// Runs initctl on it.
    pub(crate) fn initctl(&self, words: &[&str]) -> String {
        let program = of_init("GROUNDSTATE_INITCTL", "initctl").display().to_string();
        let socket = self.at("run/groundstate/control.sock");
        call(&[&[program.as_str(), "--socket", &socket][..], words].concat())
    }

    /// Returns LOAD, ACTIVE and SUB of a unit from systemctl on this node.
    pub(crate) fn systemctl(&self, unit: &str) -> String {
        let program = of_init("GROUNDSTATE_SYSTEMCTL", "systemctl").display().to_string();
        let socket = format!("GROUNDSTATE_SOCKET={}", self.at("run/groundstate/control.sock"));
        let words =
            ["env", &socket, &program, "list-units", "--all", "--plain", "--no-legend", unit];
        let text = String::from_utf8_lossy(&output(&words).stdout).into_owned();
        text.split_whitespace().skip(1).take(3).collect::<Vec<_>>().join(" ")
    }

    /// Returns its init's status, or `None` while it does not answer.
    pub(crate) fn status(&self) -> Option<Value> {
        let program = of_init("GROUNDSTATE_INITCTL", "initctl").display().to_string();
        let socket = self.at("run/groundstate/control.sock");
        let output = output(&[program.as_str(), "--socket", &socket, "--json", "status"]);
        serde_json::from_slice(&output.stdout)
            .ok()
            .filter(|value: &Value| value["units"].is_array())
    }

    /// Returns the main pid of a unit within the node.
    pub(crate) fn main_pid(&self, unit: &str) -> Option<i64> {
        let status = self.status()?;
        let mut all = status["units"].as_array()?.iter();
        all.find(|one| one["unit"] == unit)?["main-pid"].as_i64()
    }

    /// Returns how its fleetd ended last, by init, as in `systemctl show -p Result`.
    pub(crate) fn result_of_fleetd(&self) -> String {
        std::fs::read_to_string(self.at(ENDED)).unwrap_or_default()
    }

    /// Changes its machine id from the next start of its fleetd on.
    pub(crate) fn set_id(&mut self, id: &str) {
        self.plan.id = id.to_string();
        self.put("machine-id", id);
    }

    /// Sends a signal to the main process of a unit.
    pub(crate) fn signal(&self, unit: &str, signal: &str) {
        self.initctl(&["kill", unit, "--signal", signal]);
    }

    /// Sends a signal to its init from outside its namespace, which init cannot ignore.
    pub(crate) fn signal_init(&self, signal: &str) {
        let outer = self.running.as_ref().unwrap().pid().to_string();
        call(&["pkill", &format!("-{signal}"), "-P", &outer]);
    }

    /// Pauses all processes, like a paused virtual machine.
    pub(crate) fn pause(&self) {
        self.signal_all("-STOP");
    }

    /// Resumes all processes.
    pub(crate) fn resume(&self) {
        self.signal_all("-CONT");
    }

    /// Sends a signal to all its processes from outside.
    fn signal_all(&self, signal: &str) {
        let outer = self.running.as_ref().unwrap().pid();
        let inside = std::fs::read_link(format!("/proc/{outer}/ns/pid_for_children")).unwrap();
        let mut words = vec!["kill".to_string(), signal.to_string()];
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        words.extend(all.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(
            |pid| {
                let of = std::fs::read_link(format!("/proc/{pid}/ns/pid"));
                pid.bytes().all(|byte| byte.is_ascii_digit()) && of.is_ok_and(|of| of == inside)
            },
        ));
        assert!(words.len() > 3, "no processes of {} were found", self.name());
        // A process that has just ended is ignored.
        output(&words);
    }

    /// Stops fleetd for good, like `systemctl stop fleet`.
    pub(crate) fn stop_fleetd(&self) {
        self.initctl(&["set-target", "node", "-fleetd", "-fleet-socket", "--wait"]);
    }

    pub(crate) fn start_fleetd(&self) {
        self.initctl(&["set-target", "node"]);
    }

    /// Runs fleetctl against this node. Returns exit code, stdout, stderr.
    pub(crate) fn try_fleetctl(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = std::process::Command::new("timeout");
        let patience = PATIENCE.as_secs().to_string();
        command.args([patience.as_str(), env!("CARGO_BIN_EXE_fleetctl")]);
        let endpoint = format!("unix://{}", self.at("run/fleet.sock"));
        command.current_dir(self.shared.join("files")).env("FLEETCTL_ENDPOINT", endpoint);
        let output = command.args(words).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }

    /// Runs fleetctl, which must succeed. Returns its output.
    pub(crate) fn fleetctl(&self, words: &[&str]) -> String {
        let (code, out, err) = self.try_fleetctl(words);
        assert_eq!(code, 0, "fleetctl {}: {out}{err}", words.join(" "));
        format!("{out}{err}")
    }

    /// Returns a list of fleetctl, or `None` while the node cannot tell.
    pub(crate) fn list(&self, what: &str) -> Option<Vec<Value>> {
        let (code, out, _) = self.try_fleetctl(&["--json", what]);
        (code == 0).then(|| serde_json::from_str(&out).unwrap())
    }

    /// Returns the log of a unit of its init.
    pub(crate) fn log(&self, unit: &str) -> String {
        let bytes = std::fs::read(self.folder.join("log").join(format!("{unit}.log")));
        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
    }

    /// Returns what its fleetd dumps on a signal.
    pub(crate) fn dumped_state(&self) -> Value {
        let dumps = || -> Vec<String> {
            let log = self.log("fleetd");
            // The logger may not have written the last line whole.
            let whole = log.rsplit_once('\n').map_or("", |(whole, _)| whole);
            whole.lines().filter_map(|line| Some(line[line.find("{\"")?..].to_string())).collect()
        };
        let before = dumps().len();
        self.signal("fleetd", "USR1");
        let last = until("fleetd dumps its state", || dumps().into_iter().skip(before).last());
        serde_json::from_str(&last).unwrap()
    }

    /// Returns the ends of its logs, for debugging.
    pub(crate) fn last_words(&self) -> String {
        let mut all = String::new();
        let logs = std::fs::read_dir(self.folder.join("log")).into_iter().flatten().flatten();
        let logs = logs.map(|entry| entry.path()).chain([self.folder.join("init.log")]);
        for path in logs.filter(|path| path.is_file()) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(25)..];
            let _ = writeln!(all, "--- {}\n{}", path.display(), tail.join("\n"));
        }
        all
    }
}

//! The real sshd on each node and the real ssh, with the stand's own keys and known hosts.

use super::Cluster;
use super::network::address;
use super::program::{Running, call, of_init, until};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The sshds. Nodes have them until their next boot.
pub(crate) struct Ssh {
    folder: PathBuf,
    /// The known_hosts file for fleetctl.
    pub(crate) known_hosts: PathBuf,
    _agent: Running,
}

impl Ssh {
    /// Starts an sshd on each node and records its key.
    pub(crate) fn open(cluster: &Cluster) -> Ssh {
        let folder = cluster.folder.join("ssh");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        make_key(&folder.join("own"));
        let socket = folder.join("agent");
        let words = ["ssh-agent", "-D", "-a", &socket.display().to_string()];
        let agent = Running::start(&words, &folder.join("log"));
        until("the agent listens", || socket.exists().then_some(()));
        call(&[
            "env",
            &format!("SSH_AUTH_SOCK={}", socket.display()),
            "ssh-add",
            "-q",
            &own(&folder),
        ]);
        let tool = of_init("GROUNDSTATE_SYSTEMCTL", "systemctl");
        for (name, program) in [
            ("systemctl", tool.as_path()),
            ("journalctl", tool.as_path()),
            ("fleetctl", Path::new(env!("CARGO_BIN_EXE_fleetctl"))),
        ] {
            symlink(program, folder.join("bin").join(name)).unwrap();
        }
        put_script(&folder.join("yes"), "echo yes");
        // The user is root already, so a fake sudo records its calls.
        let raised = folder.join("raised").display().to_string();
        put_script(&folder.join("bin/sudo"), &format!("echo \"$*\" >>{raised}\nexec \"$@\""));
        let ssh = Ssh { known_hosts: folder.join("known_hosts"), folder, _agent: agent };
        let mut known = String::new();
        for number in 1..=cluster.count() {
            known.push_str(&ssh.serve(cluster, number));
        }
        std::fs::write(&ssh.known_hosts, known).unwrap();
        ssh
    }

    /// Returns the recorded calls of sudo, one per line.
    pub(crate) fn raised(&self) -> String {
        std::fs::read_to_string(self.folder.join("raised")).unwrap_or_default()
    }

    /// Starts the node's sshd with a new key. Returns its known_hosts line.
    pub(crate) fn serve(&self, cluster: &Cluster, number: u8) -> String {
        let node = cluster.node(number);
        let host = self.folder.join(format!("host{number}"));
        let _ = std::fs::remove_file(&host);
        make_key(&host);
        let folder = self.folder.display();
        node.put(
            "sshd_config",
            &format!(
                "ListenAddress {}\nHostKey {}\nAuthorizedKeysFile {folder}/own.pub\n\
                 StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n\
                 PasswordAuthentication no\nPidFile none\nSetEnv PATH={folder}/bin:/usr/bin:/bin\n",
                address(number),
                host.display(),
            ),
        );
        let command = format!("/usr/sbin/sshd -D -e -f {}", node.at("sshd_config"));
        let unit = format!("unit: sshd\nexec-start: {command}\nruntime-dir: sshd\n");
        node.put("units/sshd.yaml", &unit);
        node.initctl(&["reload"]);
        node.initctl(&["want", "sshd"]);
        let old = until("sshd runs", || node.main_pid("sshd"));
        node.initctl(&["restart", "sshd"]);
        until("sshd runs again", || node.main_pid("sshd").filter(|pid| *pid != old));
        until("sshd answers", || {
            cluster.connect(number, 22).filter(|banner| banner.contains("SSH-2.0"))
        });
        let key = std::fs::read_to_string(host.with_extension("pub")).unwrap();
        format!("{} {key}", address(number))
    }

    /// Runs fleetctl outside the nodes with the API of node `at`. Returns exit code, stdout,
    /// stderr.
    pub(crate) fn fleetctl(
        &self,
        cluster: &Cluster,
        at: u8,
        words: &[&str],
    ) -> (i32, String, String) {
        let endpoint = format!("unix://{}", cluster.node(at).at("run/fleet.sock"));
        self.run(cluster, &[("FLEETCTL_ENDPOINT", endpoint)], words)
    }

    /// The same through a tunnel to that node, which only ssh reaches.
    pub(crate) fn through(
        &self,
        cluster: &Cluster,
        at: u8,
        words: &[&str],
    ) -> (i32, String, String) {
        self.run(cluster, &[("FLEETCTL_TUNNEL", address(at))], words)
    }

    /// Like [`Ssh::fleetctl`], answering yes to all of ssh's questions.
    pub(crate) fn consenting(
        &self,
        cluster: &Cluster,
        at: u8,
        words: &[&str],
    ) -> (i32, String, String) {
        let endpoint = format!("unix://{}", cluster.node(at).at("run/fleet.sock"));
        let yes = self.folder.join("yes").display().to_string();
        let ask = [("SSH_ASKPASS", yes), ("SSH_ASKPASS_REQUIRE", "force".to_string())];
        let ask: Vec<_> = ask.into_iter().chain([("FLEETCTL_ENDPOINT", endpoint)]).collect();
        self.run(cluster, &ask, words)
    }

    fn run(
        &self,
        cluster: &Cluster,
        environment: &[(&str, String)],
        words: &[&str],
    ) -> (i32, String, String) {
        let beside = cluster.network.on(0);
        let mut command = Command::new(&beside[0]);
        command.args(&beside[1..]).args(["setsid", "-w", "timeout", "60"]);
        command.arg(env!("CARGO_BIN_EXE_fleetctl")).args(words);
        command.env("SSH_AUTH_SOCK", self.folder.join("agent"));
        command.env("FLEETCTL_KNOWN_HOSTS_FILE", &self.known_hosts);
        command.env("FLEETCTL_SSH_USERNAME", "root").env_remove("FLEETCTL_ENDPOINT");
        command.envs(environment.iter().cloned()).current_dir(cluster.folder.join("files"));
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
    }
}

fn put_script(path: &Path, lines: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn own(folder: &Path) -> String {
    folder.join("own").display().to_string()
}

fn make_key(path: &Path) {
    let path = path.display().to_string();
    call(&["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", &path]);
}

//! The real init as PID 1 of a container as strict as they come (runc): a read-only root,
//! no capabilities, no new privileges, a uid that no passwd file knows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "these are tests"
)]

use groundstate_tests::deadline::{PATIENCE, until, within};
use groundstate_tests::sandbox::{Sandbox, program};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// In no passwd file.
const UID: u32 = 123_456;

/// A bundle in a sandbox, and the container made from it.
struct Container {
    sandbox: Sandbox,
    id: String,
    child: Option<Child>,
}

impl Container {
    /// The root file system: our programs, a shell, and `units` as name and text.
    fn new(units: &[(&str, &str)]) -> Container {
        let sandbox = Sandbox::new();
        let root = sandbox.path("bundle/rootfs");
        for folder in ["bin", "proc", "dev", "sys", "tmp", "run", "etc", "units"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let programs = [
            ("init", program("GROUNDSTATE_INIT", "init")),
            ("initctl", program("GROUNDSTATE_INITCTL", "initctl")),
            ("daemon", program("GROUNDSTATE_DAEMON", "daemon")),
        ];
        for (name, path) in programs {
            fs::copy(path, root.join("bin").join(name)).unwrap();
        }
        let everyone = fs::Permissions::from_mode(0o1777);
        fs::set_permissions(root.join("tmp"), everyone).unwrap();
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "id"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        for (name, text) in units {
            let text = format!("unit: {name}\n{text}\n");
            fs::write(root.join(format!("units/{name}.yaml")), text).unwrap();
        }
        let id = sandbox.dir().file_name().unwrap().to_str().unwrap().to_owned();
        Container { sandbox, id, child: None }
    }

    /// The runtime's configuration: strict, with a temporary directory or without.
    fn configure(&self, arguments: &[&str], writable_tmp: bool) {
        let words: Vec<&str> = ["/bin/init", "--units", "/units"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                   "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        ];
        if writable_tmp {
            mounts.push(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                               "options": ["nosuid", "nodev", "mode=1777"]}));
        }
        let none: [&str; 0] = [];
        let config = json!({
            "ociVersion": "1.0.2",
            "process": {
                "terminal": false,
                "user": {"uid": UID, "gid": UID},
                "args": words,
                "env": ["PATH=/bin", "GREETING=hello"],
                "cwd": "/",
                "capabilities": {"bounding": none, "effective": none, "inheritable": none,
                                 "permitted": none, "ambient": none},
                "noNewPrivileges": true
            },
            "root": {"path": "rootfs", "readonly": true},
            "hostname": "box",
            "mounts": mounts,
            "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}, {"type": "ipc"},
                                     {"type": "uts"}, {"type": "network"}]}
        });
        fs::write(self.sandbox.path("bundle/config.json"), config.to_string()).unwrap();
    }

    fn runc(&self, words: &[&str]) -> Command {
        let mut command = Command::new(runc());
        command.arg("--root").arg(self.sandbox.path("runc")).args(words).stdin(Stdio::null());
        command
    }

    /// Starts it; its output goes to `out` and `err` in the sandbox.
    fn start(&mut self, arguments: &[&str], writable_tmp: bool) {
        self.configure(arguments, writable_tmp);
        let bundle = self.sandbox.at("bundle");
        let mut command = self.runc(&["run", "--bundle", &bundle, &self.id]);
        command.stdout(File::create(self.sandbox.path("out")).unwrap());
        command.stderr(File::create(self.sandbox.path("err")).unwrap());
        self.child = Some(command.spawn().expect("runc runs"));
    }

    /// The exit status of `runc run`, which is that of init.
    fn ended(&mut self) -> i32 {
        let child = self.child.as_mut().expect("it was started");
        let status = within(PATIENCE, || child.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it does not end:\n{}", self.said()));
        status.code().unwrap_or(-1)
    }

    fn said(&self) -> String {
        format!("{}{}", self.sandbox.read("out"), self.sandbox.read("err"))
    }

    /// Runs a command in it.
    fn exec(&self, words: &[&str]) -> Output {
        let user = format!("{UID}:{UID}");
        let words = [&["exec", "--user", &user, &self.id], words].concat();
        self.runc(&words).output().expect("runc runs")
    }

    fn initctl(&self, words: &[&str]) -> Output {
        self.exec(&[&["/bin/initctl"], words].concat())
    }

    /// Waits until the system is in a state.
    fn when_system(&self, state: &str) -> serde_json::Value {
        let mut last = String::new();
        let found = within(PATIENCE, || {
            let output = self.initctl(&["--json", "status"]);
            last = String::from_utf8_lossy(&output.stdout).into_owned();
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
            (status.get("system")? == state).then_some(status)
        });
        found.unwrap_or_else(|| panic!("not {state}: {last}\n{}", self.said()))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the container said:\n{}", self.said());
        }
        let _ = self.runc(&["delete", "--force", &self.id]).output();
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn runc() -> PathBuf {
    let places = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/bin/runc"];
    let found = places.into_iter().map(PathBuf::from).find(|path| path.is_file());
    found.expect("runc is installed; tests/run brings it")
}

#[test]
fn output_and_exit_status_of_the_job_are_those_of_the_container() {
    let mut container = Container::new(&[
        (
            "job",
            "type: oneshot\nwaits-for: side\nexec-start: /bin/sh -c 'echo $$GREETING; echo aside >&2; exit 7'",
        ),
        ("side", "exec-start: /bin/daemon --name side"),
    ]);
    container.start(&["--target", "job", "--exit-with", "job"], true);
    assert_eq!(container.ended(), 7, "{}", container.said());
    let out = container.said();
    assert!(out.lines().any(|line| line.ends_with("job | hello")), "{out}");
    assert!(out.lines().any(|line| line.ends_with("job | aside")), "{out}");
}

#[test]
fn services_run_and_heal_and_a_stop_is_orderly() {
    let mut container = Container::new(&[
        ("db", "type: foreground-notified\nexec-start: /bin/daemon --name db --notify"),
        (
            "web",
            "depends-on: db\nready-grep: ^listening\nexec-start: /bin/daemon --name web --say listening --trace /tmp/trace",
        ),
        (
            "old",
            "type: background-pidfile\npid-file: /tmp/old.pid\nexec-start: /bin/daemon --name old --pid-file /tmp/old.pid",
        ),
        ("all", "type: virtual\nwaits-for: web, old"),
    ]);
    container.start(&["--target", "all"], true);
    let status = groundstate_tests::status::Status(container.when_system("running"));
    let db = status.main_pid("db").expect("db has a main pid");
    let output = container.exec(&["/bin/sh", "-c", &format!("kill -9 {db}")]);
    assert!(output.status.success(), "{output:?}");
    until("db is another process", || {
        let now = groundstate_tests::status::Status(container.when_system("running"));
        now.main_pid("db").filter(|pid| *pid != db)
    });
    let output = container.runc(&["kill", &container.id, "TERM"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(container.ended(), 0, "{}", container.said());
}

#[test]
fn with_nothing_writable_at_all_the_job_is_still_done() {
    let mut container = Container::new(&[
        ("job", "type: oneshot\ndepends-on: side\nexec-start: /bin/sh -c 'echo done; exit 3'"),
        ("side", "type: foreground-notified\nexec-start: /bin/daemon --notify"),
    ]);
    container.start(&["--target", "job", "--exit-with", "job"], false);
    assert_eq!(container.ended(), 3, "{}", container.said());
    assert!(container.said().contains("job | done"), "{}", container.said());
}

#[test]
fn a_goal_nobody_provides_ends_the_container_with_an_error() {
    let mut container = Container::new(&[("web", "exec-start: /bin/daemon")]);
    container.start(&["--target", "wbe"], true);
    assert_ne!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains("goal"), "{}", container.said());
}

#[test]
fn a_service_has_the_uid_of_the_container() {
    let mut container = Container::new(&[("id", "type: oneshot\nexec-start: /bin/id -u")]);
    container.start(&["--target", "id", "--exit-with", "id"], true);
    assert_eq!(container.ended(), 0, "{}", container.said());
    assert!(container.said().contains(&format!("id | {UID}")), "{}", container.said());
}

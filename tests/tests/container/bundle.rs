//! A container for a test, and the bundle it is made from. The tests are in [`super`].

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::replay::replay;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::status::Status;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A uid without an entry in /etc/passwd.
pub(crate) const UID: u32 = 123_456;

/// A bundle in a sandbox.
pub(crate) struct Bundle {
    pub(crate) sandbox: Sandbox,
}

/// The container made from a bundle, and the init in it.
pub(crate) struct Container {
    pub(crate) id: String,
    pub(crate) init: Init,
    user: u32,
    records: bool,
}

impl Bundle {
    /// Makes the root file system: our programs, a shell, and `units` as name and text.
    pub(crate) fn new(units: &[(&str, &str)]) -> Bundle {
        let sandbox = Sandbox::new();
        let root = sandbox.path("bundle/rootfs");
        for folder in ["bin", "proc", "dev", "sys", "tmp", "run", "etc", "units", "kept"] {
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
        fs::create_dir(sandbox.path("kept")).unwrap();
        for folder in [root.join("tmp"), sandbox.path("kept")] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o1777)).unwrap();
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
        for applet in ["sh", "cat", "id"] {
            symlink("busybox", root.join("bin").join(applet)).unwrap();
        }
        for (name, text) in units {
            let text = format!("unit: {name}\n{text}\n");
            fs::write(root.join(format!("units/{name}.yaml")), text).unwrap();
        }
        Bundle { sandbox }
    }

    /// The bundle of `contrib/image bundle`, with its configuration.
    pub(crate) fn shipped() -> (Bundle, Value) {
        let sandbox = Sandbox::new();
        let image = concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/image");
        let made = Command::new(image)
            .args(["bundle", &sandbox.at("bundle")])
            .env("GROUNDSTATE_INIT", program("GROUNDSTATE_INIT", "init"))
            .env("GROUNDSTATE_INITCTL", program("GROUNDSTATE_INITCTL", "initctl"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let config = fs::read(sandbox.path("bundle/config.json")).unwrap();
        (Bundle { sandbox }, serde_json::from_slice(&config).unwrap())
    }

    /// The runtime's configuration: strict, with or without a writable temporary directory.
    pub(crate) fn configure(&self, arguments: &[&str], writable_tmp: bool) -> Value {
        let record: &[&str] = if writable_tmp { &["--record", "/kept/record"] } else { &[] };
        let words = [&["/bin/init", "--units", "/units"], record, arguments].concat();
        let mut mounts = vec![
            json!({"destination": "/proc", "type": "proc", "source": "proc"}),
            json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                   "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        ];
        if writable_tmp {
            mounts.push(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
                               "options": ["nosuid", "nodev", "mode=1777"]}));
            // Init's record outlives the container and is replayed.
            mounts.push(json!({"destination": "/kept", "type": "bind",
                               "source": self.sandbox.at("kept"), "options": ["bind", "rw"]}));
        }
        let none: [&str; 0] = [];
        json!({
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
        })
    }

    /// Starts the container.
    pub(crate) fn start(self, arguments: &[&str], writable_tmp: bool) -> Container {
        let config = self.configure(arguments, writable_tmp);
        self.run(&config, UID, writable_tmp)
    }

    pub(crate) fn run(self, config: &Value, user: u32, records: bool) -> Container {
        fs::write(self.sandbox.path("bundle/config.json"), config.to_string()).unwrap();
        let id = self.sandbox.dir().file_name().unwrap().to_str().unwrap().to_owned();
        let (root, bundle) = (self.sandbox.at("runc"), self.sandbox.at("bundle"));
        let runc = runc();
        let words = [runc.to_str().unwrap(), "--root", &root, "run", "--bundle", &bundle, &id];
        Container { init: Boot::new(self.sandbox).by(&words).launch(""), id, user, records }
    }
}

impl Container {
    /// Makes its socket reachable from here. Its resources then are the baseline for the final
    /// check.
    pub(crate) fn answers(&mut self) {
        let dir = match self.user {
            0 => "run/groundstate".to_string(),
            user => format!("tmp/groundstate-{user}"),
        };
        let seen = format!("/proc/{}/root/{dir}/control.sock", self.init.process().0);
        symlink(seen, self.init.sandbox.path("run/control.sock")).unwrap();
        self.init.answers();
    }

    pub(crate) fn runc(&self, words: &[&str]) -> Command {
        let mut command = Command::new(runc());
        command.arg("--root").arg(self.init.sandbox.path("runc")).args(words);
        command.stdin(Stdio::null());
        command
    }

    /// The exit status of `runc run`, which is that of init. Replays the record if init has not
    /// crashed.
    pub(crate) fn ended(&mut self) -> i32 {
        let status = self.init.ended();
        if self.records && !self.init.may_have_crashed() {
            let record = self.init.sandbox.read("kept/record");
            assert!(replay(&record).is_ok_and(|events| events > 0), "{record}");
        }
        status.code().unwrap_or(-1)
    }

    pub(crate) fn said(&self) -> String {
        self.init.output()
    }

    /// Runs a command in the container.
    pub(crate) fn exec(&self, words: &[&str]) -> Output {
        let user = format!("{0}:{0}", self.user);
        let words = [&["exec", "--user", &user, &self.id], words].concat();
        self.runc(&words).output().expect("runc runs")
    }

    pub(crate) fn initctl(&self, words: &[&str]) -> Output {
        self.exec(&[&["/bin/initctl"], words].concat())
    }

    /// Sends init a request from inside the container. Not every kernel lets init prove the
    /// identity of a process outside.
    pub(crate) fn tell(&self, words: &[&str]) {
        let output = self.initctl(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// The status of all units, requested inside the container.
    pub(crate) fn status(&self) -> Option<Status> {
        let output = self.initctl(&["--json", "status"]);
        serde_json::from_slice(&output.stdout).ok().map(Status)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.runc(&["delete", "--force", &self.id]).output();
    }
}

fn runc() -> PathBuf {
    let places = ["/usr/sbin/runc", "/usr/bin/runc", "/usr/local/bin/runc"];
    let found = places.into_iter().map(PathBuf::from).find(|path| path.is_file());
    found.expect("runc is installed; tests/run brings it")
}

//! The real init as PID 1 of a virtual machine: qemu without hardware acceleration, Debian's
//! kernels, the serial console as the only witness. The tests are in `tests/vm.rs` and beside it.

use crate::deadline::{until, within};
use crate::extent::is_soak;
use crate::sandbox::{Sandbox, program};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The timeout of a boot and its script on a slow machine …
const LONG: Duration = Duration::from_secs(150);
/// … and of a longer one in a soak.
const LONG_IN_A_SOAK: Duration = Duration::from_secs(900);

fn patience() -> Duration {
    if is_soak() { LONG_IN_A_SOAK } else { LONG }
}

/// The script that runs once the machine is up: checks the system, kills a service, reports.
const CHECK: &str = r#"
say() { echo "PROBE $*" >/dev/console; }
pid() { initctl --json status web | sed -n 's/.*"main-pid":\([0-9]*\).*/\1/p'; }
until initctl status web >/dev/null 2>&1 && [ "$(pid)" ]; do :; done
say goal reached
initctl status --all >/dev/console 2>&1
first=$(pid)
kill -9 "$first"
until [ "$(pid)" ] && [ "$(pid)" != "$first" ]; do :; done
say healed
[ "$(initctl --json stats | sed -n 's/.*"crashes":\([0-9]*\).*/\1/p')" = 0 ] && say no crash
cat /proc/1/comm >/dev/console
echo written >/var/lib/proof 2>/dev/null
"#;

/// A folder with a complete small system.
pub fn system(sandbox: &Sandbox, end: &str) -> PathBuf {
    let root = sandbox.path("root");
    let image = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/image");
    let made = Command::new(image)
        .arg("tree")
        .arg(&root)
        .env("GROUNDSTATE_INIT", program("GROUNDSTATE_INIT", "init"))
        .env("GROUNDSTATE_INITCTL", program("GROUNDSTATE_INITCTL", "initctl"))
        .status();
    assert!(made.expect("contrib/image runs").success());
    fs::copy(program("GROUNDSTATE_DAEMON", "daemon"), root.join("bin/daemon")).unwrap();
    for program in ["sbin/init", "bin/initctl", "bin/daemon"] {
        bring_libraries(&root, program);
    }
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    write("check", &format!("{CHECK}{end}\n"));
    let unit = |name: &str, text: &str| {
        write(&format!("etc/groundstate/units/{name}.yaml"), &format!("unit: {name}\n{text}\n"));
    };
    unit("setup", "type: oneshot\nexec-start: /bin/sh -c 'echo 1 >/proc/sys/kernel/printk'");
    unit(
        "db",
        "type: foreground-notified\ndepends-on: setup\nexec-start: /bin/daemon --name db --notify",
    );
    unit(
        "web",
        "depends-ms: db\nready-grep: ^listening\nexec-start: /bin/daemon --name web --say listening",
    );
    unit(
        "probe",
        "log: console\nwaits-for: multi-user\nsuccess-status: [0]\nexec-start: /bin/sh /check",
    );
    unit("multi-user", "type: virtual\nwaits-for: web, loopback");
    unit("test", "type: virtual\nwaits-for: multi-user, probe");
    root
}

/// Copies the libraries of programs that are not static, as in a debug build.
fn bring_libraries(root: &Path, program: &str) {
    let listed = Command::new("ldd").arg(root.join(program)).output().expect("ldd runs");
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.join(library.trim_start_matches('/'));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(library, to).unwrap();
    }
}

/// A Debian kernel, the newest installed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// linux-image-cloud-amd64: boots fast, with drivers for virtual machines only.
    Cloud,
    /// linux-image-amd64: with a driver for everything.
    Full,
}

impl Kernel {
    /// Its file in /boot.
    pub fn file(self) -> PathBuf {
        let entries = fs::read_dir("/boot").expect("/boot");
        let mut found: Vec<PathBuf> = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let is_cloud = name.contains("-cloud-");
                name.starts_with("vmlinuz-")
                    && name.ends_with("-amd64")
                    && is_cloud == (self == Kernel::Cloud)
            })
            .collect();
        found.sort();
        found.pop().expect("Debian's kernels are installed; tests/run brings them")
    }
}

/// A running qemu. Its serial console is written to `console`; its monitor is a socket.
#[derive(Debug)]
pub struct Machine {
    /// Its files.
    pub sandbox: Sandbox,
    words: Vec<String>,
    qemu: Child,
    /// The other end of the serial line, once a test types.
    keyboard: Option<UnixStream>,
}

fn start(sandbox: &Sandbox, words: &[String]) -> Child {
    let log = File::create(sandbox.path("qemu.log")).unwrap();
    let mut command = Command::new("qemu-system-x86_64");
    command.args(words).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().expect("qemu-system-x86_64 is installed; tests/run brings it")
}

impl Machine {
    /// Boots with these options of qemu and this kernel command line.
    pub fn boot(sandbox: Sandbox, disk: &[&str], command_line: &str) -> Machine {
        Machine::boot_beside(sandbox, &[], disk, command_line)
    }

    /// Boots with further serial lines before the console.
    pub fn boot_beside(
        sandbox: Sandbox,
        before: &[&str],
        disk: &[&str],
        command_line: &str,
    ) -> Machine {
        Machine::boot_of(Kernel::Cloud, sandbox, before, disk, command_line)
    }

    /// Boots another kernel.
    pub fn boot_of(
        kernel: Kernel,
        sandbox: Sandbox,
        before: &[&str],
        disk: &[&str],
        command_line: &str,
    ) -> Machine {
        // Otherwise a kernel checks that its timer ticks, and panics if qemu did not run at that
        // moment.
        let line = format!(
            "console=ttyS0 quiet panic=-1 no_timer_check groundstate.target=test {command_line}"
        );
        let (line_end, log) = (sandbox.at("serial"), sandbox.at("console"));
        let serial = format!("socket,id=serial,path={line_end},server=on,wait=off,logfile={log}");
        let monitor = format!("unix:{},server,nowait", sandbox.at("monitor"));
        let kernel = kernel.file();
        let mut words = vec!["-accel", "tcg", "-m", "384", "-smp", "1", "-display", "none"];
        words.extend(before);
        words.extend([
            "-no-reboot",
            "-nic",
            "none",
            "-chardev",
            &serial,
            "-serial",
            "chardev:serial",
        ]);
        words.extend(["-monitor", &monitor]);
        words.extend(["-kernel", kernel.to_str().unwrap(), "-append", &line]);
        words.extend(disk);
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let qemu = start(&sandbox, &words);
        Machine { sandbox, words, qemu, keyboard: None }
    }

    /// Boots again after the machine is off, with an empty console.
    pub fn again(&mut self) {
        fs::remove_file(self.sandbox.path("console")).unwrap();
        self.keyboard = None;
        self.qemu = start(&self.sandbox, &self.words);
    }

    /// The output of the serial line so far.
    pub fn console(&self) -> String {
        let bytes = fs::read(self.sandbox.path("console")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    /// Waits until the console shows this text.
    pub fn says(&mut self, text: &str) {
        let found = within(patience(), || {
            if self.console().contains(text) {
                return Some(true);
            }
            self.qemu.try_wait().unwrap().map(|_| self.console().contains(text))
        });
        assert_eq!(found, Some(true), "`{text}` was not said:\n{}", self.console());
    }

    /// Waits until the machine has switched itself off.
    pub fn goes_off(&mut self) {
        let status = within(patience(), || self.qemu.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it stays on:\n{}", self.console()));
        assert!(status.success(), "{status}: {}", self.sandbox.read("qemu.log"));
        let console = self.console();
        assert!(!console.contains("Kernel panic"), "{console}");
    }

    /// Types a line at its serial console.
    pub fn types(&mut self, line: &str) {
        let path = self.sandbox.path("serial");
        let connect = || {
            let line = until("the serial line", || UnixStream::connect(&path).ok());
            // Reads the output of the machine, which would block otherwise. The thread ends with
            // the machine.
            let mut heard = line.try_clone().unwrap();
            std::thread::spawn(move || std::io::copy(&mut heard, &mut std::io::sink()));
            line
        };
        // Kept open, because closing it would lose unread data.
        let keyboard = self.keyboard.get_or_insert_with(connect);
        keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Sends Ctrl-Alt-Del.
    pub fn press_ctrl_alt_del(&self) {
        self.order("sendkey ctrl-alt-delete");
    }

    /// Sends a command to qemu's monitor.
    pub fn order(&self, command: &str) {
        let path = self.sandbox.path("monitor");
        let mut monitor = until("qemu's monitor", || UnixStream::connect(&path).ok());
        monitor.write_all(format!("{command}\n").as_bytes()).unwrap();
        // Reads the answer, so that the command is not lost by closing too early.
        monitor.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut answer = [0u8; 4096];
        while monitor.read(&mut answer).is_ok_and(|count| count > 0) {}
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\n{}", self.sandbox.read("qemu.log"), self.console());
        }
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Writes a unit file of the machine.
pub fn unit(root: &Path, name: &str, text: &str) {
    let path = root.join(format!("etc/groundstate/units/{name}.yaml"));
    fs::write(path, format!("unit: {name}\n{text}\n")).unwrap();
}

/// Sets the script that the machine runs once it is up.
pub fn does(root: &Path, script: &str) {
    let start = "say() { echo \"PROBE $*\" >/dev/console; }\n";
    fs::write(root.join("check"), format!("{start}{script}")).unwrap();
}

/// The options for a disk from this file, on that device.
pub fn drive(name: &str, file: &str, device: &str) -> [String; 4] {
    let drive = format!("file={file},format=raw,if=none,id={name}");
    ["-drive".into(), drive, "-device".into(), format!("{device},drive={name}")]
}

/// Copies a dynamic program of this machine with its libraries.
pub fn program_with_libraries(root: &Path, program: &str) {
    let output = Command::new("ldd").arg(program).output().expect("ldd runs");
    let text = String::from_utf8(output.stdout).unwrap();
    let libraries =
        text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    for path in libraries.chain([program]) {
        let to = root.join(&path[1..]);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(path, to).unwrap();
    }
}

/// Packs the folder as an initramfs.
pub fn archive(sandbox: &Sandbox, root: &Path) -> String {
    let file = sandbox.at("initrd");
    let status = Command::new("/bin/sh")
        .args(["-c", "find . | cpio -o -H newc --quiet >\"$0\"", &file])
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success());
    file
}

/// Makes an ext4 image of the folder without mounting anything.
pub fn disk(sandbox: &Sandbox, root: &Path) -> String {
    let file = sandbox.at("disk");
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    let status = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-L", "root", "-E", "root_owner=0:0", "-d"])
        .arg(root)
        .args([&file, "128M"])
        .stdout(Stdio::null())
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .status()
        .expect("mke2fs runs");
    assert!(status.success());
    file
}

/// Makes an empty ext4 file system.
pub fn empty_disk(sandbox: &Sandbox, name: &str) -> String {
    made(sandbox, name, 16, &["mke2fs", "-q", "-t", "ext4", "-F"])
}

/// Makes an empty xfs of the minimum size.
pub fn empty_xfs(sandbox: &Sandbox, name: &str) -> String {
    made(sandbox, name, 300, &["mkfs.xfs", "-q"])
}

/// Makes a file of this many MiB, in which the command makes a file system.
fn made(sandbox: &Sandbox, name: &str, size: u64, words: &[&str]) -> String {
    let file = sandbox.at(name);
    File::create(&file).unwrap().set_len(size << 20).unwrap();
    let made = Command::new(format!("/sbin/{}", words[0])).args(&words[1..]).arg(&file).status();
    assert!(made.expect("it runs").success(), "{words:?}");
    file
}

/// Checks that the file system needs no repair and no journal replay.
pub fn assert_clean(image: &str, console: &str) {
    let check = Command::new("/sbin/e2fsck").args(["-f", "-n", image]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}\n{console}");
    let features = Command::new("/sbin/dumpe2fs").args(["-h", image]).output().unwrap();
    let features = String::from_utf8_lossy(&features.stdout);
    assert!(
        !features.contains("needs_recovery"),
        "the journal must be closed:\n{features}\n{console}"
    );
}

/// Checks the same for an xfs.
pub fn assert_clean_xfs(image: &str, console: &str) {
    let check = Command::new("/sbin/xfs_repair").args(["-f", "-n", image]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(0), "{said}\n{console}");
    let log = Command::new("/sbin/xfs_logprint").args(["-t", image]).output().unwrap();
    let log = String::from_utf8_lossy(&log.stdout);
    assert!(log.contains("<CLEAN>"), "the journal must be closed:\n{log}\n{console}");
}

/// Copies these modules of the cloud kernel into `/modules` of the folder.
pub fn modules(root: &Path, names: &[&str]) {
    modules_of(Kernel::Cloud, root, names);
}

/// Copies these modules of that kernel into `/modules` of the folder.
pub fn modules_of(kernel: Kernel, root: &Path, names: &[&str]) {
    let version = kernel.file().file_name().unwrap().to_string_lossy().replacen("vmlinuz-", "", 1);
    let top = Path::new("/lib/modules").join(version);
    let into = root.join("modules");
    fs::create_dir_all(&into).unwrap();
    let mut folders = vec![top.join("kernel")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the modules of the kernel") {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if names
                .iter()
                .any(|name| path.file_name().unwrap() == format!("{name}.ko").as_str())
            {
                fs::copy(&path, into.join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

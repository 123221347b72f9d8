//! The real init as PID 1 of a virtual machine: qemu without hardware help, the Debian
//! cloud kernel, the serial console as the only witness.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "these are tests"
)]

use groundstate_tests::deadline::{until, within};
use groundstate_tests::sandbox::{Sandbox, program};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A boot and what is done in it may take that long on a slow machine.
const LONG: Duration = Duration::from_secs(150);

/// What the machine does once it is up: looks at itself, loses a service, says so.
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

/// A folder with a whole small system in it.
fn system(sandbox: &Sandbox, end: &str) -> PathBuf {
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

/// The newest cloud kernel that is installed.
fn kernel() -> PathBuf {
    let entries = fs::read_dir("/boot").expect("/boot");
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("vmlinuz-") && name.contains("-cloud-")
        })
        .collect();
    found.sort();
    found.pop().expect("linux-image-cloud-amd64 is installed; tests/run brings it")
}

/// A running qemu. Its serial console ends up in `console`, its monitor is a socket.
struct Machine {
    sandbox: Sandbox,
    words: Vec<String>,
    qemu: Child,
}

fn start(sandbox: &Sandbox, words: &[String]) -> Child {
    let log = File::create(sandbox.path("qemu.log")).unwrap();
    let mut command = Command::new("qemu-system-x86_64");
    command.args(words).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().expect("qemu-system-x86_64 is installed; tests/run brings it")
}

impl Machine {
    fn boot(sandbox: Sandbox, disk: &[&str], command_line: &str) -> Machine {
        let line = format!("console=ttyS0 quiet panic=-1 groundstate.target=test {command_line}");
        let console = format!("file:{}", sandbox.at("console"));
        let monitor = format!("unix:{},server,nowait", sandbox.at("monitor"));
        let kernel = kernel();
        let mut words = vec!["-accel", "tcg", "-m", "384", "-smp", "1", "-display", "none"];
        words.extend(["-no-reboot", "-nic", "none", "-serial", &console, "-monitor", &monitor]);
        words.extend(["-kernel", kernel.to_str().unwrap(), "-append", &line]);
        words.extend(disk);
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let qemu = start(&sandbox, &words);
        Machine { sandbox, words, qemu }
    }

    /// Once it is off: switches it on again, with an empty console.
    fn again(&mut self) {
        fs::remove_file(self.sandbox.path("console")).unwrap();
        self.qemu = start(&self.sandbox, &self.words);
    }

    /// What came over the serial line so far.
    fn console(&self) -> String {
        let bytes = fs::read(self.sandbox.path("console")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    }

    fn says(&mut self, text: &str) {
        let found = within(LONG, || {
            if self.console().contains(text) {
                return Some(true);
            }
            self.qemu.try_wait().unwrap().map(|_| self.console().contains(text))
        });
        assert_eq!(found, Some(true), "`{text}` was not said:\n{}", self.console());
    }

    /// Waits until the machine has switched itself off.
    fn goes_off(&mut self) {
        let status = within(LONG, || self.qemu.try_wait().unwrap());
        let status = status.unwrap_or_else(|| panic!("it stays on:\n{}", self.console()));
        assert!(status.success(), "{status}: {}", self.sandbox.read("qemu.log"));
        let console = self.console();
        assert!(!console.contains("Kernel panic"), "{console}");
    }

    /// Presses Ctrl-Alt-Del.
    fn three_fingers(&self) {
        let path = self.sandbox.path("monitor");
        let mut monitor = until("qemu's monitor", || UnixStream::connect(&path).ok());
        monitor.write_all(b"sendkey ctrl-alt-delete\n").unwrap();
        // Read what it answers, so that the command is not lost by closing too early.
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

/// The folder as an initramfs.
fn archive(sandbox: &Sandbox, root: &Path) -> String {
    let file = sandbox.at("initrd");
    let status = Command::new("/bin/sh")
        .args(["-c", "find . | cpio -o -H newc --quiet >\"$0\"", &file])
        .current_dir(root)
        .status()
        .unwrap();
    assert!(status.success());
    file
}

/// The folder as an ext4 file system, made without mounting anything.
fn disk(sandbox: &Sandbox, root: &Path) -> String {
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

#[test]
fn the_first_thing_a_kernel_starts_reaches_its_goal_and_switches_off() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "initctl poweroff");
    let initrd = archive(&sandbox, &root);
    // Kernels hand words they do not know to PID 1 as arguments and environment.
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "5 foo=bar");
    machine.says("PROBE goal reached");
    machine.says("PROBE healed");
    machine.says("PROBE no crash");
    machine.goes_off();
    let console = machine.console();
    let shown = console.lines().find(|line| line.contains("web") && line.contains("running"));
    assert!(shown.is_some(), "`initctl status` shows web running:\n{console}");
}

#[test]
fn a_disk_is_clean_after_a_shutdown_and_boots_again() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "initctl reboot");
    let image = disk(&sandbox, &root);
    let drive = format!("file={image},format=raw,if=none,id=root");
    let options = ["-drive", &drive, "-device", "nvme,drive=root,serial=1"];
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    machine.says("PROBE healed");
    machine.goes_off();
    let check = Command::new("/sbin/e2fsck").args(["-f", "-n", &image]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(0), "{said}\n{}", machine.console());
    let features = Command::new("/sbin/dumpe2fs").args(["-h", &image]).output().unwrap();
    let features = String::from_utf8_lossy(&features.stdout);
    assert!(!features.contains("needs_recovery"), "the journal was closed:\n{features}");
    let proof = Command::new("/sbin/debugfs").args(["-R", "cat /var/lib/proof", &image]).output();
    assert_eq!(proof.unwrap().stdout, b"written\n");
    machine.again();
    machine.says("PROBE healed");
    machine.goes_off();
}

#[test]
fn three_fingers_start_the_machine_anew() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    let initrd = archive(&sandbox, &root);
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "");
    machine.says("PROBE healed");
    machine.three_fingers();
    machine.goes_off();
}

/// What the services below do, by their first word; each says what it finds itself in.
const LIMITS: &str = r#"
say() { echo "PROBE $*" >/dev/console; }
took() { read before rest </proc/uptime; "$@" 2>/dev/null; read after rest </proc/uptime; echo $((${after%.*} - ${before%.*})); }
own=/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)
case $1 in
  files)
    say place "$own"
    for file in memory.min memory.low memory.high memory.swap.max cpu.weight io.weight cpuset.cpus.effective; do
      say "$file" $(cat $own/$file)
    done
    say allowed $(sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status) of $(grep -c ^processor /proc/cpuinfo)
    say nice $(sed -n 's/^Max nice priority *//p' /proc/self/limits)
    say realtime $(sed -n 's/^Max realtime priority *//p' /proc/self/limits)
    mkdir $own/below && echo +pids >$own/cgroup.subtree_control && say delegated
    ;;
  crowd) # no process can be made to ask: the shell reads by itself
    ( for n in 1 2 3 4 5 6 7 8 9; do /bin/sleep 1000 & done ) 2>/dev/null
    read now <$own/pids.current
    while read key value; do [ $key = max ] && refused=$value; done <$own/pids.events
    say crowd "$now" refused "$refused"
    ;;
  cpu)
    read now rest </proc/uptime
    end=$((${now%.*} + 4))
    while read now rest </proc/uptime && [ ${now%.*} -lt $end ]; do :; done
    say cpu used $(sed -n 's/^usage_usec //p' $own/cpu.stat) throttled $(sed -n 's/^nr_throttled //p' $own/cpu.stat)
    ;;
  disk)
    say disk wrote $(took dd if=/dev/zero of=/dev/nvme0n1 bs=256k count=16 oflag=direct) read $(took dd if=/dev/nvme0n1 of=/dev/null bs=256k count=16 iflag=direct)
    ;;
  count)
    say count wrote $(took dd if=/dev/zero of=/dev/nvme0n1 bs=4k count=16 oflag=direct) read $(took dd if=/dev/nvme0n1 of=/dev/null bs=4k count=16 iflag=direct)
    ;;
  eat) exec dd if=/dev/zero of=/dev/null bs=64M count=1 ;;
  survive)
    dd if=/dev/zero of=/dev/null bs=64M count=1
    say "$2" has survived
    ;;
esac
"#;

/// Its services' files are systemd's own.
fn limited(root: &Path) {
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    write("limits", LIMITS);
    let hungry = "MemoryMax=24M\nMemorySwapMax=0\n";
    let services = [
        (
            "files",
            "Slice=probe.slice\nDelegate=yes\nMemoryMin=1M\nMemoryLow=2M\nMemoryHigh=64M\nMemorySwapMax=3M\nCPUWeight=50\nIOWeight=60\nAllowedCPUs=0\nLimitNICE=10\nLimitRTPRIO=5\n".to_owned(),
        ),
        ("crowd", "TasksMax=5\n".to_owned()),
        ("cpu", "CPUQuota=20%\nCPUQuotaPeriodSec=50ms\n".to_owned()),
        (
            "disk",
            "IOWriteBandwidthMax=/dev/nvme0n1 1M\nIOReadBandwidthMax=/dev/nvme0n1 1M\n".to_owned(),
        ),
        ("count", "IOWriteIOPSMax=/dev/nvme0n1 4\nIOReadIOPSMax=/dev/nvme0n1 4\n".to_owned()),
        ("eat", format!("{hungry}OOMPolicy=stop\n")),
        ("survive-alone", format!("{hungry}OOMPolicy=continue\n")),
        ("survive-together", format!("{hungry}OOMPolicy=kill\n")),
    ];
    for (name, text) in &services {
        let word = name.split('-').next().unwrap_or_default();
        let text = format!(
            "[Service]\nType=oneshot\nRemainAfterExit=yes\n{text}ExecStart=/bin/sh /limits {word} {name}\n"
        );
        write(&format!("etc/groundstate/units/{name}.service"), &text);
    }
    let names: Vec<String> = services.iter().map(|(name, _)| format!("{name}.service")).collect();
    let all = names.join(", ");
    write(
        "etc/groundstate/units/test.yaml",
        &format!("unit: test\ntype: virtual\nwaits-for: {all}, probe\n"),
    );
    write(
        "etc/groundstate/units/probe.yaml",
        &format!(
            "unit: probe\nlog: console\nwaits-for: setup, {all}\nsuccess-status: [0]\nexec-start: /bin/sh /check\n"
        ),
    );
    write(
        "check",
        "for unit in eat survive-together; do initctl status $unit.service; done >/dev/console 2>&1\ninitctl poweroff\n",
    );
}

#[test]
fn limits_of_an_imported_service_are_felt_from_inside() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    limited(&root);
    let initrd = archive(&sandbox, &root);
    let disk = sandbox.at("disk");
    File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let drive = format!("file={disk},format=raw,if=none,id=scratch");
    let options = [
        "-initrd",
        &initrd,
        "-smp",
        "2",
        "-drive",
        &drive,
        "-device",
        "nvme,drive=scratch,serial=1",
    ];
    let mut machine = Machine::boot(sandbox, &options, "");
    machine.goes_off();
    let console = machine.console();
    let said = |start: &str| -> Vec<String> {
        let line = console.lines().find_map(|line| line.split_once(&format!("PROBE {start} ")));
        let (_, rest) = line.unwrap_or_else(|| panic!("no `PROBE {start}`:\n{console}"));
        rest.split_whitespace().map(str::to_owned).collect()
    };
    let number = |word: &str| word.parse::<u64>().unwrap_or_else(|_| panic!("{word}: {console}"));
    assert!(said("place")[0].contains("/probe.slice/"), "{console}");
    for (file, value) in [
        ("memory.min", "1048576"),
        ("memory.low", "2097152"),
        ("memory.high", "67108864"),
        ("memory.swap.max", "3145728"),
        ("cpu.weight", "50"),
        ("cpuset.cpus.effective", "0"),
    ] {
        assert_eq!(said(file), [value], "{file}");
    }
    assert_eq!(said("io.weight")[..2], ["default", "60"]);
    assert_eq!(said("allowed"), ["0", "of", "2"]);
    assert_eq!((said("nice"), said("realtime")), (vec!["10".into(); 2], vec!["5".into(); 2]));
    assert!(console.contains("PROBE delegated"), "{console}");
    let crowd = said("crowd");
    assert!(number(&crowd[0]) <= 5 && number(&crowd[2]) >= 1, "{crowd:?}");
    // A fifth of the four seconds or less, and held back.
    let cpu = said("cpu");
    assert!(number(&cpu[1]) < 1_500_000 && number(&cpu[3]) >= 5, "{cpu:?}");
    // Four megabytes at one a second.
    let disk = said("disk");
    assert!(number(&disk[1]) >= 3 && number(&disk[3]) >= 3, "{disk:?}");
    // Sixteen reads and writes, four a second.
    let count = said("count");
    assert!(number(&count[1]) >= 3 && number(&count[3]) >= 3, "{count:?}");
    assert_eq!(said("survive-alone"), ["has", "survived"]);
    assert!(!console.contains("PROBE survive-together"), "{console}");
    for unit in ["eat", "survive-together"] {
        let failed = format!("{unit}.service: failed: the kernel killed it for want of memory");
        assert!(console.contains(&failed), "{console}");
    }
}

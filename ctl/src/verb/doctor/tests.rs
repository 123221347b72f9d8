//! The checks over trees of files that the tests make. The boot set is that of `contrib/debian.d`.

use super::*;
use groundstate_units::load::files::Files;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A tree, deleted at the end.
struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Programs of Debian packages that the boot set needs.
const PROGRAMS: [&str; 13] = [
    "/bin/mount",
    "/bin/sh",
    "/bin/login",
    "/bin/udevadm",
    "/bin/grep",
    "/bin/true",
    "/bin/umount",
    "/lib/systemd/systemd-udevd",
    "/sbin/agetty",
    "/sbin/fsck.ext4",
    "/sbin/modprobe",
    "/sbin/sulogin",
    "/sbin/sysctl",
];
/// Services of packages.
const SERVICES: [(&str, &str); 4] = [
    ("networking", "/sbin/ifup -a"),
    ("chrony", "/usr/sbin/chronyd"),
    ("rsyslog", "/usr/sbin/rsyslogd"),
    ("dbus", "/usr/bin/dbus-daemon --systemd-activation"),
];

impl Tree {
    fn empty() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("groundstate-doctor-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    /// A machine that lacks nothing.
    fn good() -> Tree {
        let tree = Tree::empty();
        let set = Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/debian.d/machine");
        for name in ["devices", "filesystems", "generators", "logins", "logs", "storage", "targets"]
        {
            let text = fs::read_to_string(set.join(format!("{name}.yaml"))).unwrap();
            tree.put(&format!("/usr/lib/groundstate/units/{name}.yaml"), &text);
        }
        for (from, to) in [
            ("init.yaml", "/etc/groundstate/init.yaml"),
            (
                "dbus.service.d/groundstate.conf",
                "/usr/lib/groundstate/units/dbus.service.d/groundstate.conf",
            ),
        ] {
            tree.put(to, &fs::read_to_string(set.join(from)).unwrap());
        }
        let scripts = fs::read_dir(set).unwrap().map(|entry| entry.unwrap());
        let scripts = scripts.filter(|entry| entry.path().extension().is_none());
        let mut names: Vec<_> =
            scripts.map(|entry| entry.file_name().into_string().unwrap()).collect();
        let binaries = ["init", "record-boot", "record-shutdown", "power-button", "syslog"];
        names.extend(binaries.map(String::from));
        names.extend(
            ["kernel-log", "prepare-machine", "mount-kernel-filesystems"].map(String::from),
        );
        for name in names {
            tree.program(&format!("/usr/lib/groundstate/{name}"));
        }
        PROGRAMS.iter().for_each(|path| tree.program(path));
        for (name, command) in SERVICES {
            tree.program(command.split(' ').next().unwrap());
            tree.service(name, command);
        }
        tree.link("/sbin/init", "/usr/lib/groundstate/init");
        tree.put("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
        tree.put("/etc/group", "root:x:0:\n");
        tree.put("/etc/shadow", "root:$y$j9T$x:20000:0:99999:7:::\n");
        tree.put("/etc/fstab", "# <file system>\nUUID=0d1c / ext4 errors=remount-ro 0 1\n");
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }

    fn program(&self, path: &str) {
        self.put(path, "");
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    /// An enabled unit file of systemd.
    fn service(&self, name: &str, command: &str) {
        let path = format!("/usr/lib/systemd/system/{name}.service");
        let text =
            format!("[Service]\nExecStart={command}\n[Install]\nWantedBy=multi-user.target\n");
        self.put(&path, &text);
        self.link(&format!("/etc/systemd/system/multi-user.target.wants/{name}.service"), &path);
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.at(path)).unwrap();
    }

    fn doctor(&self, kernel: Option<Kernel>, status: Option<Status>) -> Doctor {
        let root = self.0.to_string_lossy();
        let files = Rooted(&root);
        let files: &dyn Files = &files;
        let options = Options::system(geteuid().as_raw());
        let mut facts = Facts::gather(files, &options, kernel, status);
        facts.root = Some("/mnt/image".to_string());
        run_checks(&facts)
    }

    /// The lines for a user, without those that are fine.
    fn lines(&self) -> Vec<String> {
        lines(&self.doctor(None, None))
    }
}

fn lines(doctor: &Doctor) -> Vec<String> {
    render(doctor, false, &Style::PLAIN).lines().map(str::to_string).collect()
}

fn kernel(command_line: &str) -> Option<Kernel> {
    let filesystems = "nodev\tcgroup2\n\text4\n".to_string();
    Some(Kernel { command_line: command_line.to_string(), filesystems })
}

#[test]
fn nothing_is_missing_on_a_machine_with_the_boot_set_and_its_programs() {
    let tree = Tree::good();
    let doctor = tree.doctor(None, None);
    assert_eq!(lines(&doctor), [""; 0]);
    assert_eq!(
        (doctor.errors, doctor.warnings, summary(&doctor).as_str()),
        (0, 0, "nothing is missing")
    );
    let all = render(&doctor, true, &Style::PLAIN);
    for line in [
        "ok       network: networking.service",
        "ok       logs: rsyslog.service",
        "ok       dbus: it starts services itself",
        "ok       /etc/fstab: 1 line, with all programs and devices",
        "ok       /sbin/init: each boot starts Groundstate",
    ] {
        assert!(all.lines().any(|found| found == line), "no {line} in\n{all}");
    }
}

#[test]
fn lines_of_fstab_are_reported_with_the_missing_programs() {
    let tree = Tree::good();
    tree.remove("/sbin/fsck.ext4");
    tree.put(
        "/etc/fstab",
        "UUID=0d1c / ext4 defaults 0 1\n\
         UUID=aa /srv vfat nofail 0 2\n\
         UUID=bb /mnt xfs noauto 0 2\n\
         nas:/x /nas nfs defaults 0 0\n\
         //nas/y /share cifs nofail 0 0\n\
         /swapfile none swap sw 0 0\n\
         half\n\
         UUID=cc /data ext4 defaults 0 two\n",
    );
    let expected = [
        "error    /etc/fstab:7: a line has a device and a mount point: write `DEVICE MOUNTPOINT TYPE OPTIONS 0 0`; a space in a path is \\040",
        "error    /etc/fstab:8: `two` is not a number of fsck or dump: write `DEVICE MOUNTPOINT TYPE OPTIONS 0 0`; a space in a path is \\040",
        "error    /etc/fstab:1: fsck.ext4 is missing and cannot check /: install e2fsprogs",
        "error    /etc/fstab:2: fsck.vfat is missing and cannot check /srv: install dosfstools",
        "error    /etc/fstab:4: mount.nfs is missing and cannot mount /nas: install nfs-common",
        "warning  /etc/fstab:5: mount.cifs is missing and cannot mount /share: install cifs-utils",
        "warning  /etc/fstab:6: /swapfile does not exist: `mkswap` makes swap space",
        "warning  swapfile.swap: there is no program /sbin/swapon: install mount",
    ];
    assert_eq!(tree.lines(), expected);
}

#[test]
fn device_of_fstab_is_missed_only_on_the_running_machine() {
    let tree = Tree::good();
    tree.put("/dev/disk/by-uuid/0d1c", "");
    let more =
        "UUID=dd /srv ext4 defaults 0 2\nUUID=ee /soft ext4 nofail 0 2\n/dev/sdz /x ext4 noauto\n";
    tree.put("/etc/fstab", &format!("UUID=0d1c / ext4 defaults 0 1\n{more}"));
    assert_eq!(tree.lines(), [""; 0]);
    let expected = [
        "error    /etc/fstab:2: UUID=dd does not exist: `lsblk -f` lists the devices",
        "warning  /etc/fstab:3: UUID=ee does not exist: `lsblk -f` lists the devices",
    ];
    assert_eq!(lines(&tree.doctor(kernel(""), None)), expected);
}

#[test]
fn missing_program_is_named_with_its_unit_and_package() {
    let tree = Tree::good();
    for path in [
        "/lib/systemd/systemd-udevd",
        "/sbin/sulogin",
        "/sbin/modprobe",
        "/usr/lib/groundstate/remount-root",
    ] {
        tree.remove(path);
    }
    let lines = tree.lines();
    for line in [
        "error    root-rw: there is no program /usr/lib/groundstate/remount-root",
        "warning  udevd: there is no program /lib/systemd/systemd-udevd: install udev",
        "warning  emergency: there is no program /sbin/sulogin: install util-linux",
        "warning  modprobe: the boot set runs this program, which is not installed: install kmod",
    ] {
        assert!(lines.iter().any(|found| found == line), "no {line} in {lines:#?}");
    }
}

#[test]
fn missing_boot_set_is_an_error() {
    let tree = Tree::empty();
    let expected = "error    multi-user: default target: no unit provides it: install the boot set, or set default-target in /etc/groundstate/init.yaml";
    assert_eq!(tree.lines(), [expected]);
    tree.put("/etc/fstab", "/dev/vdb /srv ext4\n");
    let expected = "warning  /etc/fstab: init does not read this file and does not mount /srv: write `import-dirs: systemd, fstab` in /etc/groundstate/init.yaml";
    assert_eq!(tree.lines().last().map(String::as_str), Some(expected));
    tree.put("/.dockerenv", "");
    assert_eq!(tree.lines().len(), 1);
}

#[test]
fn console_without_a_login_prompt_is_named() {
    let tree = Tree::good();
    let words = "root=/dev/vda console=tty0 console=ttyS0,115200n8 console=ttyS1 console=hvc0";
    let expected = "warning  ttyS1: the kernel uses this console, and no unit shows a login prompt on it: add a unit with `waits-for: serial-getty@ttyS1`";
    assert_eq!(lines(&tree.doctor(kernel(words), None)), [expected]);
    let more =
        "unit: more-logins\ntype: virtual\nwanted-by: multi-user\nwaits-for: serial-getty@ttyS1\n";
    tree.put("/etc/groundstate/units/more-logins.yaml", more);
    assert_eq!(lines(&tree.doctor(kernel(words), None)), [""; 0]);
    let old = Kernel { filesystems: "nodev\tcgroup\n".to_string(), ..Kernel::default() };
    let found = lines(&tree.doctor(Some(old), None));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found.iter().all(|line| line.contains("no cgroup v2")), "{found:#?}");
}

#[test]
fn missing_services_and_services_of_systemd_are_named() {
    let tree = Tree::good();
    let links = "/etc/systemd/system/multi-user.target.wants";
    for name in ["networking", "chrony", "rsyslog"] {
        tree.remove(&format!("{links}/{name}.service"));
    }
    for name in ["systemd-homed", "systemd-pstore"] {
        tree.service(name, "/bin/true");
    }
    tree.link(&format!("{links}/gone.service"), "/usr/lib/systemd/system/gone.service");
    let expected = [
        "warning  network: no enabled unit configures it: install ifupdown",
        "warning  time: no enabled unit sets the clock: install chrony",
        "warning  logs: no enabled unit makes /dev/log, so messages of syslog(3) are lost: enable the syslog daemon, or remove it: the unit dev-log takes its place",
        "warning  unit files: init does not start 2 enabled units of systemd: systemd-homed.service, systemd-pstore.service: if that is fine, `systemctl disable` removes the links",
    ];
    assert_eq!(tree.lines(), expected);
    // Without a syslog daemon the boot set makes /dev/log.
    tree.remove("/usr/sbin/rsyslogd");
    assert_eq!(tree.lines(), [&expected[..2], &expected[3..]].concat());
    for name in ["systemd-networkd", "systemd-timesyncd"] {
        tree.service(name, "/bin/true");
    }
    assert_eq!(tree.lines(), expected[3..]);
}

#[test]
fn unit_of_systemd_without_a_process_is_not_reported_as_left_out() {
    let tree = Tree::good();
    for name in ["remote-fs.target", "remote-cryptsetup.target", "machine.slice"] {
        let path = format!("/usr/lib/systemd/system/{name}");
        tree.put(&path, "[Unit]\nDescription=x\n[Install]\nWantedBy=multi-user.target\n");
        tree.link(&format!("/etc/systemd/system/multi-user.target.wants/{name}"), &path);
    }
    assert_eq!(tree.lines(), [""; 0]);
}

#[test]
fn enabled_tmp_mount_is_reported_only_without_the_unit_that_mounts_it() {
    let tree = Tree::good();
    let path = "/usr/lib/systemd/system/tmp.mount";
    tree.put(path, "[Mount]\nWhat=tmpfs\nWhere=/tmp\n");
    tree.link("/etc/systemd/system/local-fs.target.wants/tmp.mount", path);
    assert_eq!(tree.lines(), [""; 0]);
    let units = "/usr/lib/groundstate/units/filesystems.yaml";
    let text = fs::read_to_string(tree.at(units)).unwrap();
    tree.put(units, &text.replace("tmp-filesystem", "other"));
    let lines = tree.lines();
    assert!(lines.iter().any(|line| line.contains("systemd: tmp.mount:")), "{lines:#?}");
}

#[test]
fn masked_unit_is_not_reported_as_left_out() {
    let tree = Tree::good();
    for name in ["web", "mail", "systemd-homed", "systemd-pstore"] {
        tree.service(name, "/bin/true");
    }
    let policy = "mask: [web, mail.service, systemd-homed.service, systemd-pstore]\n";
    tree.put("/etc/groundstate/policy.yaml", policy);
    assert_eq!(tree.lines(), [""; 0]);
}

#[test]
fn generators_of_packages_are_named_unless_a_unit_runs_them() {
    let tree = Tree::good();
    let directory = "/usr/lib/systemd/system-generators";
    for name in ["systemd-sysv-generator", "netplan", "zram-generator"] {
        tree.program(&format!("{directory}/{name}"));
    }
    tree.put(&format!("{directory}/README"), "");
    tree.program("/lib/systemd/system-generators/zram-generator");
    tree.link("/etc/systemd/system-generators/netplan", "/dev/null");
    let zram = "warning  /usr/lib/systemd/system-generators/zram-generator: no unit runs this generator, so the units that it makes are missing: install the boot set, or unmask the unit `generators`";
    assert_eq!(tree.lines(), [""; 0]);
    tree.put("/etc/groundstate/policy.yaml", "mask: [generators]\n");
    assert_eq!(tree.lines(), [zram]);
}

#[test]
fn locked_root_and_settings_that_call_systemd_are_named() {
    let tree = Tree::good();
    tree.remove("/usr/lib/groundstate/units/dbus.service.d/groundstate.conf");
    for name in ["docker", "containerd"] {
        tree.program(&format!("/usr/bin/{name}"));
        tree.service(name, &format!("/usr/bin/{name}"));
    }
    tree.put("/etc/containerd/config.toml", "[options]\n  SystemdCgroup = true\n");
    tree.put("/etc/shadow", "root:*:20000:0:99999:7:::\n");
    let words: Vec<String> = tree.lines().iter().map(|line| line[9..].to_string()).collect();
    let subjects: Vec<&str> =
        words.iter().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    assert_eq!(subjects, ["root", "dbus", "docker", "containerd"], "{words:#?}");
    tree.put("/etc/docker/daemon.json", "{\"exec-opts\": [\"native.cgroupdriver=cgroupfs\"]}\n");
    assert_eq!(tree.lines().len(), 3);
}

#[test]
fn errors_of_unit_files_are_counted_with_the_first_one() {
    let tree = Tree::good();
    tree.service("odd", "/sbin/ifup");
    tree.put("/etc/systemd/system/odd.service.d/x.conf", "[Service]\nOdd=1\n");
    tree.put("/etc/groundstate/units/web.yaml", "unit: web\nno-key: x\nexec-start: /none\n");
    let expected = [
        "error    /etc/groundstate/units/web.yaml:2: 1 error, first: unknown key `no-key`: `initctl check --root /mnt/image` lists them",
        "warning  unit files: 1 warning (1 with a directive that has no effect): `initctl check --root /mnt/image` lists them",
    ];
    assert_eq!(tree.lines(), expected);
}

#[test]
fn init_of_the_next_boot_is_named() {
    let tree = Tree::good();
    tree.remove("/sbin/init");
    let missing = "error    /sbin/init: it does not exist: install groundstate-sysv-compat, or boot with init=/usr/lib/groundstate/init";
    assert_eq!(tree.lines(), [missing]);
    tree.program("/lib/systemd/systemd");
    tree.link("/sbin/init", "/lib/systemd/systemd");
    let ok = |tree: &Tree| render(&tree.doctor(None, None), true, &Style::PLAIN);
    let line = "ok       /sbin/init: the next boot starts /lib/systemd/systemd: `groundstate-try` prepares a trial\n";
    assert!(ok(&tree).ends_with(line), "{}", ok(&tree));
    tree.put("/boot/grub/grubenv", "# GRUB Environment Block\nnext_entry=groundstate\n####");
    let line = "ok       GRUB: the next boot starts Groundstate, and later ones another init\n";
    assert!(ok(&tree).ends_with(line), "{}", ok(&tree));
}

#[test]
fn running_init_adds_its_state_and_its_failed_units() {
    let tree = Tree::good();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens/answers/status.json");
    let status: Status = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    tree.remove("/sbin/init");
    tree.link("/sbin/init", "../lib/systemd/systemd");
    tree.program("/lib/systemd/systemd");
    let expected = [
        "error    mailer: failed: its process exited with status 69: `initctl why mailer`",
        "warning  system: starting: `initctl status` shows the units",
        "warning  /sbin/init: the next boot starts ../lib/systemd/systemd: this boot is a trial: `groundstate-confirm` keeps Groundstate",
    ];
    assert_eq!(lines(&tree.doctor(None, Some(status))), expected);
}

//! The end of a machine in trouble: what is mounted upon what, what does not answer, an init
//! whose own file is gone, a kernel that refuses, a loop that is stuck.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{
    Kernel, Machine, archive, disk, empty_disk, empty_xfs, is_clean, is_clean_xfs, modules,
    modules_of, system,
};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Boots in which the power goes off at some moment; more of them where GROUNDSTATE_POWER_OFFS says so.
const ROUNDS: u32 = 5;

/// For a disk of virtio, in the order in which they need each other.
const VIRTIO: [&str; 6] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];

/// A unit file of the machine.
fn unit(root: &Path, name: &str, text: &str) {
    let path = root.join(format!("etc/groundstate/units/{name}.yaml"));
    fs::write(path, format!("unit: {name}\n{text}\n")).unwrap();
}

/// The machine does this once it is up.
fn does(root: &Path, script: &str) {
    let start = "say() { echo \"PROBE $*\" >/dev/console; }\n";
    fs::write(root.join("check"), format!("{start}{script}")).unwrap();
}

/// The file as a disk of the machine, behind that device.
fn drive(name: &str, file: &str, device: &str) -> [String; 4] {
    let drive = format!("file={file},format=raw,if=none,id={name}");
    ["-drive".into(), drive, "-device".into(), format!("{device},drive={name}")]
}

/// Mounts upon mounts, swap, loop and mapped devices, an overlay, a frozen file system with a process that waits for it, a
/// file system whose server is to be spared and answers nobody, with one that asks it, a disk that stands still with one
/// that writes there, much that is not written.
const STACKED: &str = r#"
for module in loop overlay dm-mod fuse $(cat /modules/order); do insmod /modules/$module.ko || say no $module; done
cd /var
mkdir -p a c lower upper work over frozen mapped still mute
dd if=/dev/zero of=image bs=64k count=64 2>/dev/null && mke2fs -F image >/dev/null 2>&1
losetup /dev/loop0 image && mount -t ext2 /dev/loop0 a && mkdir a/b && mount -t tmpfs none a/b
mount --bind a c
mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none over && echo x >over/x
cp image other && losetup /dev/loop1 other && dmsetup create --noudevsync test --table "0 8192 linear /dev/loop1 0"
mount -t ext2 /dev/dm-0 mapped && echo x >mapped/x && say mapped
dd if=/dev/zero of=swap bs=64k count=64 2>/dev/null && mkswap swap >/dev/null && swapon swap
[ $(wc -l </proc/swaps) = 2 ] && say swap
until ls -l /proc/1/fd | grep -q watchdog; do sleep 0.1; done
say watchdog
[ $(grep -c ' /var/[aco]' /proc/mounts) = 4 ] && say stacked
mount -t ext4 /dev/nvme1n1 frozen && fsfreeze --freeze frozen && say frozen
mount -t ext4 /dev/vda still && echo x >still/x && sync && say mounted
( echo 0 >/sys/fs/cgroup/cgroup.procs; PATH=/bin; exec @mute --mute-mount /var/mute ) &
until grep -q ' /var/mute ' /proc/mounts; do :; done
cat mute/x &
until grep -q request_wait_answer /proc/$!/wchan; do :; done
kill -9 $!
until grep -q '^State:.D' /proc/$!/status; do :; done
say mute
read line </dev/console
dd if=/dev/zero of=still/much bs=64k count=64 2>/dev/null &
dd if=/dev/zero of=still/more bs=64k count=64 oflag=direct 2>/dev/null &
until grep -q '^State:.D' /proc/$!/status; do :; done
say still
cp /sbin/init /sbin/init.new && mv /sbin/init.new /sbin/init
say ready
initctl poweroff
"#;

#[test]
fn whatever_is_mounted_on_whatever_the_machine_goes_off_and_its_disk_is_clean() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    modules(&root, &["loop", "overlay", "dm-mod", "fuse"]);
    modules(&root, &VIRTIO);
    modules(&root, &["watchdog", "softdog"]);
    fs::write(root.join("modules/order"), VIRTIO.join(" ")).unwrap();
    program_with_libraries(&root, "/usr/sbin/dmsetup");
    fs::copy("/usr/sbin/dmsetup", root.join("bin/dmsetup")).unwrap();
    fs::copy(root.join("bin/daemon"), root.join("bin/@mute")).unwrap();
    does(&root, STACKED);
    // Waits for the frozen one, and can not be killed.
    unit(
        &root,
        "stuck",
        "stop-timeout: 1s\nexec-start: /bin/sh -c 'until grep -q frozen /proc/mounts; do sleep 0.1; done; while echo x >>/var/frozen/x; do sleep 0.1; done'",
    );
    // As much as it can, until it is ended.
    unit(
        &root,
        "writer",
        "stop-timeout: 1s\nexec-start: /bin/sh -c 'while :; do dd if=/dev/zero of=/var/big bs=64k count=320 2>/dev/null; done'",
    );
    unit(&root, "test", "type: virtual\nwaits-for: web, writer, stuck, probe");
    unit(
        &root,
        "setup",
        "type: oneshot\nexec-start: [/bin/insmod /modules/watchdog.ko, /bin/insmod /modules/softdog.ko nowayout=1]",
    );
    // The end takes longer than it is patient: it is fed to the last.
    let init = "shutdown-deadline: 6s\nwatchdog: 5s\n";
    fs::write(root.join("etc/groundstate/init.yaml"), init).unwrap();
    let image = disk(&sandbox, &root);
    let (other, still) = (empty_disk(&sandbox, "other"), empty_disk(&sandbox, "still"));
    let first = drive("root", &image, "nvme,serial=1");
    let drives =
        [first, drive("other", &other, "nvme,serial=2"), drive("still", &still, "virtio-blk-pci")];
    let options: Vec<&str> = drives.iter().flatten().map(String::as_str).collect();
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    for said in ["watchdog", "swap", "mapped", "stacked", "frozen", "mounted", "mute"] {
        machine.says(&format!("PROBE {said}"));
    }
    // One byte a second: whoever waits for it waits for ever.
    machine.order("block_set_io_throttle still 1 0 0 0 0 0");
    machine.types("go");
    machine.says("PROBE still");
    machine.says("PROBE ready");
    let begun = Instant::now();
    machine.goes_off();
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    let console = machine.console();
    assert!(!console.contains("PROBE no "), "{console}");
    assert!(!console.contains("Initiating system reboot"), "its watchdog did it:\n{console}");
    for left in ["/var/frozen", "/var/mute", "/var/still"] {
        assert!(console.contains(left), "what is left is named:\n{console}");
    }
    is_clean(&image, &console);
}

/// One writes to an ext4 and one to an xfs, as much as memory takes: it is written when it has to be.
const WRITTEN: &str = r#"
echo 80 >/proc/sys/vm/dirty_background_ratio
echo 90 >/proc/sys/vm/dirty_ratio
for module in libcrc32c xfs; do insmod /modules/$module.ko; done
mount -t xfs /dev/nvme1n1 /data
"#;

/// At some moment.
const OFF: &str = r#"
say round
usleep $(($(head -c 1 /dev/urandom | od -An -tu1) * 4000))
say dirty $(sed -n 's/^Dirty: *\([0-9]*\) kB/\1/p' /proc/meminfo)
initctl poweroff
"#;

/// At some moment, the power goes off; every boot finds clean disks and leaves them.
#[test]
fn the_power_goes_off_at_any_moment_and_no_journal_is_replayed() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    does(&root, OFF);
    modules(&root, &["libcrc32c", "xfs"]);
    fs::create_dir(root.join("data")).unwrap();
    fs::write(root.join("written"), WRITTEN).unwrap();
    unit(&root, "setup", "type: oneshot\nexec-start: /bin/sh /written");
    for (name, folder, count) in [("writer", "/var", 320), ("archive", "/data", 1600)] {
        let write = format!("dd if=/dev/zero of={folder}/big bs=64k count={count} 2>/dev/null");
        let text = format!(
            "depends-on: setup\nstop-timeout: 1s\nexec-start: /bin/sh -c 'while :; do {write}; mv {folder}/big {folder}/old; done'"
        );
        unit(&root, name, &text);
    }
    unit(&root, "test", "type: virtual\nwaits-for: probe, writer, archive");
    unit(
        &root,
        "probe",
        "log: console\ndepends-on: setup\nsuccess-status: [0]\nexec-start: /bin/sh /check",
    );
    let (image, data) = (disk(&sandbox, &root), empty_xfs(&sandbox, "data"));
    let drives = [drive("root", &image, "nvme,serial=1"), drive("data", &data, "nvme,serial=2")];
    let options: Vec<&str> =
        ["-m", "512"].into_iter().chain(drives.iter().flatten().map(String::as_str)).collect();
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    let asked = std::env::var("GROUNDSTATE_POWER_OFFS").ok();
    let rounds = asked.map_or(ROUNDS, |number| number.parse().expect("a number of rounds"));
    let mut most = 0;
    for round in 0..rounds {
        if round > 0 {
            machine.again();
        }
        machine.says("PROBE dirty");
        machine.goes_off();
        let console = machine.console();
        is_clean(&image, &console);
        is_clean_xfs(&data, &console);
        assert!(!console.contains("recovery"), "{console}");
        let dirty = console.split("PROBE dirty ").nth(1).and_then(|rest| rest.lines().next());
        most = most.max(dirty.expect("it says how much").trim().parse::<u64>().unwrap());
    }
    println!("{most} KiB were not written yet, at most");
    assert!(most >= if rounds > ROUNDS { 100 } else { 20 } * 1024, "{most} KiB");
}

/// A machine whose kernel refuses reboot(2), as far as PID 1 can tell, which these words start.
fn is_refused(words: &str, error: &str) {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    let weight = "$(cat /proc/1/oom_score_adj) $(cat /proc/self/oom_score_adj) $(/usr/bin/nice)";
    does(&root, &format!("say weight {weight}\nsay ready\ninitctl reboot\n"));
    for program in ["/usr/bin/setpriv", "/usr/bin/nice", "/usr/bin/strace"] {
        program_with_libraries(&root, program);
    }
    fs::rename(root.join("usr/bin/strace"), root.join("usr/bin/@strace")).unwrap();
    let script = format!(
        "#!/bin/busybox sh\n/bin/busybox mount -t proc proc /proc\necho 300 >/proc/self/oom_score_adj\n/bin/busybox umount /proc\nPATH=/usr/bin exec nice -n 5 {words} /sbin/init \"$@\"\n"
    );
    fs::write(root.join("first"), script).unwrap();
    fs::set_permissions(root.join("first"), fs::Permissions::from_mode(0o755)).unwrap();
    let initrd = archive(&sandbox, &root);
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "rdinit=/first");
    machine.says("PROBE ready");
    machine.says(&format!("the kernel refuses: {error}"));
    // Whatever it was started with, on a machine it and its services weigh nothing.
    assert!(machine.console().contains("PROBE weight 0 0 0\n"), "{}", machine.console());
    machine.goes_off();
}

#[test]
fn a_kernel_that_refuses_is_told_by_its_other_door() {
    is_refused("setpriv --bounding-set=-sys_boot", "EPERM");
}

/// Who injects the error is spared to the last by its name, and is not PID 1's child to be missed.
#[test]
fn a_kernel_without_reboot_is_told_by_its_other_door() {
    is_refused("@strace -D -qq -o /trace -e trace=reboot -e inject=reboot:error=ENOSYS", "ENOSYS");
}

/// Copies a dynamic program of this machine with what it is linked to.
fn program_with_libraries(root: &Path, program: &str) {
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

/// Nothing but init may run, and init is kept from running: what is never fed any more bites. Until
/// then the loop turns, and nothing happens for longer than it has to be fed in.
const STARVED: &str = r#"
read now rest </proc/uptime
end=$((${now%.*} + 9))
while read now rest </proc/uptime && [ ${now%.*} -lt $end ]; do sleep 1; done
initctl ping && say alive
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
say hog
exec chrt -f 99 sh -c 'while :; do :; done'
"#;

/// A machine in which that is done, with this kernel, driver and options of qemu, until it is off.
fn starves(kernel: Kernel, driver: &str, options: &[&str]) -> Machine {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    modules_of(kernel, &root, &["watchdog", driver]);
    does(&root, STARVED);
    unit(
        &root,
        "setup",
        &format!(
            "type: oneshot\nexec-start: [/bin/insmod /modules/watchdog.ko, /bin/insmod /modules/{driver}.ko]"
        ),
    );
    fs::write(root.join("etc/groundstate/init.yaml"), "watchdog: 6s\n").unwrap();
    program_with_libraries(&root, "/usr/bin/chrt");
    let initrd = archive(&sandbox, &root);
    let words = [&["-initrd", &initrd], options].concat();
    let mut machine = Machine::boot_of(kernel, sandbox, &[], &words, "");
    machine.says("PROBE alive");
    machine.says("PROBE hog");
    machine.goes_off();
    machine
}

#[test]
fn a_loop_that_is_stuck_is_ended_by_the_watchdog() {
    let console = starves(Kernel::Cloud, "softdog", &[]).console();
    assert!(console.contains("Initiating system reboot"), "the watchdog did it:\n{console}");
}

/// The device is the machine's own, and the kernel is not asked.
#[test]
fn a_loop_that_is_stuck_is_ended_by_the_hardware() {
    let options = ["-device", "i6300esb", "-action", "watchdog=reset"];
    let console = starves(Kernel::Full, "i6300esb", &options).console();
    assert!(!console.contains("reboot: "), "no kernel did it:\n{console}");
    assert!(!console.contains("no watchdog"), "{console}");
}

/// What an initramfs left takes the machine apart.
#[test]
fn the_initramfs_gets_the_machine_back() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    does(
        &root,
        "mkdir -p /run/initramfs/bin\ncp /bin/busybox /run/initramfs/bin/busybox\ncp /back /run/initramfs/shutdown\nsay left\ninitctl poweroff\n",
    );
    let back = "#!/bin/busybox sh\necho \"PROBE back to $1, pid $$\" >/dev/console\n/bin/busybox umount /oldroot && echo 'PROBE root is free' >/dev/console\n/bin/busybox poweroff -f\n";
    fs::write(root.join("back"), back).unwrap();
    fs::set_permissions(root.join("back"), fs::Permissions::from_mode(0o755)).unwrap();
    let image = disk(&sandbox, &root);
    let drive = format!("file={image},format=raw,if=none,id=root");
    let options = ["-drive", &drive, "-device", "nvme,drive=root,serial=1"];
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    machine.says("PROBE left");
    machine.says("PROBE back to poweroff, pid 1");
    machine.says("PROBE root is free");
    machine.goes_off();
    is_clean(&image, &machine.console());
}

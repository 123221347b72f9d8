//! The shutdown of a machine with unresponsive parts: a lost server, a disk, a frozen file system,
//! and everything mounted on them. Before that only processes that use them block.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{
    Machine, assert_clean, assert_clean_xfs, disk, does, drive, empty_disk, empty_xfs, modules,
    program_with_libraries, system, unit,
};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Modules for a virtio disk, in the order of their dependencies.
const VIRTIO: [&str; 6] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
];

/// Nested mounts, swap, loop and mapped devices, an overlay, and much dirty data. A frozen file
/// system has a blocked process, a file system has an unresponsive server and a client, and a hung
/// disk has a writer.
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
# A process whose request the server has not read yet exits when it is killed: try another one.
killed=none
until grep -q '^State:.D' /proc/$killed/status 2>/dev/null; do
  cat mute/x &
  killed=$!
  until grep -q request_wait_answer /proc/$killed/wchan; do :; done
  kill -9 $killed
  sleep 0.1
done
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
fn machine_with_any_stack_of_mounts_powers_off_with_a_clean_disk() {
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
    // Blocks on the frozen file system, cannot be killed, and writes to the first disk too.
    unit(
        &root,
        "stuck",
        "stop-timeout: 1s\nexec-start: /bin/sh -c 'exec 3>/var/stuck; until grep -q frozen /proc/mounts; do sleep 0.1; done; while echo x >>/var/frozen/x; do sleep 0.1; done'",
    );
    // Writes as much as it can until it is ended.
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
    // The shutdown takes longer than the watchdog's timeout, so init must feed it to the end.
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
    // One byte per second: a process that waits for it never continues.
    machine.order("block_set_io_throttle still 1 0 0 0 0 0");
    machine.types("go");
    machine.says("PROBE still");
    machine.says("PROBE ready");
    let start = Instant::now();
    machine.goes_off();
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
    let console = machine.console();
    assert!(!console.contains("PROBE no "), "{console}");
    assert!(!console.contains("Initiating system reboot"), "its watchdog did it:\n{console}");
    for left in ["/var/frozen", "/var/mute", "/var/still"] {
        assert!(console.contains(left), "remaining mounts are named:\n{console}");
    }
    assert_clean(&image, &console);
}

/// An xfs writes its journal at the unmount, not at a sync. Here that is much data, and the disk is
/// slow.
const SLOW: &str = r#"
for module in libcrc32c xfs $(cat /modules/order); do insmod /modules/$module.ko || say no $module; done
echo 720000 >/proc/sys/fs/xfs/xfssyncd_centisecs
mkdir /slow
mount -t xfs /dev/vda /slow
count=0
while [ $count -lt 5000 ]; do : >/slow/$count; count=$((count + 1)); done
sync
say written
read line </dev/console
say ready
initctl poweroff
"#;

#[test]
fn slow_disk_is_waited_for_at_the_shutdown_while_it_makes_progress() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    modules(&root, &["libcrc32c", "xfs"]);
    modules(&root, &VIRTIO);
    fs::write(root.join("modules/order"), VIRTIO.join(" ")).unwrap();
    does(&root, SLOW);
    let (image, slow) = (disk(&sandbox, &root), empty_xfs(&sandbox, "slow"));
    let drives = [drive("root", &image, "nvme,serial=1"), drive("slow", &slow, "virtio-blk-pci")];
    let options: Vec<&str> = drives.iter().flatten().map(String::as_str).collect();
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    machine.says("PROBE written");
    // Bytes per second, for writes.
    machine.order("block_set_io_throttle slow 0 0 200000 0 0 0");
    machine.types("go");
    machine.says("PROBE ready");
    machine.goes_off();
    let console = machine.console();
    assert!(!console.contains("PROBE no "), "{console}");
    assert!(console.contains("waiting for /slow"), "it is not slow enough:\n{console}");
    assert!(!console.contains("does not respond"), "{console}");
    assert_clean(&image, &console);
    assert_clean_xfs(&slow, &console);
}

/// Modules for NFS, in the order of their dependencies.
const NFS: [&str; 11] = [
    "netfs",
    "fscache",
    "sunrpc",
    "auth_rpcgss",
    "grace",
    "lockd",
    "nfs_acl",
    "nfs",
    "dns_resolver",
    "nfsv4",
    "nfsd",
];

/// The kernel's own server, configured as by exportfs(8) and rpc.nfsd(8): no version that needs a
/// portmapper, no previous clients with locks, one export, which is the root (0x2412 of
/// linux/nfsd/export.h: fsid, no subtree check, asynchronous, any port). Then it is cut off from a
/// client that waits for its writes and has files open for writing on both disks.
const SERVED: &str = r#"
for module in $(cat /modules/order); do insmod /modules/$module.ko || say no $module; done
mkdir -p /var/lib/nfs/v4recovery /export /far /data
mount -t tmpfs export /export
mount -t nfsd nfsd /proc/fs/nfsd
end=2147483647
echo "nfsd 127.0.0.1 $end all" >/proc/net/rpc/auth.unix.ip/channel
echo "all /export $end $((0x2412)) 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
echo "all 1 \x00000000 $end /export" >/proc/net/rpc/nfsd.fh/channel
echo -3 >/proc/fs/nfsd/versions
echo tcp 2049 >/proc/fs/nfsd/portlist
echo 2 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace
mount -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,hard 127.0.0.1:/ /far && echo x >/far/x && say served $(cat /export/x)
mount -t ext4 /dev/nvme1n1 /data && say mounted
initctl want writer >/dev/null
until [ -e /data/held ]; do :; done
ip link set lo down
touch /tmp/cut
until writer=$(pidof dd) && grep -q '^State:.D' /proc/$writer/status; do :; done
say $(cat /proc/$writer/wchan)
"#;

/// Starts units of every kind that use the server. Each blocks only itself, and init answers. A
/// load that sees their paths works too.
const ASKED: &str = r#"
for unit in UNITS; do
  initctl want $unit >/dev/null && until initctl status $unit | grep -q starting; do :; done && say $unit waits
done
initctl want watch >/dev/null && initctl ping >/dev/null && say watched
printf 'unit: new\nexec-start: /bin/sleep 1000\n' >/etc/groundstate/units/new.yaml
initctl reload >/dev/null && initctl want new >/dev/null && until initctl status new | grep -q running; do :; done && say reloaded
initctl upgrade >/dev/null && initctl ping >/dev/null && say upgraded
initctl status >/dev/console 2>&1
say ready
initctl poweroff
"#;

/// Opens files before it blocks, and gets an order once its server is cut off.
const WRITER: &str = "exec 3>/far/written 4>/var/held 5>/data/held; until [ -e /tmp/cut ]; do sleep 0.1; done; \
                      exec dd if=/dev/zero bs=64k count=16 conv=fsync >&3";

/// The units that use the server, and how.
const WAITING: [(&str, &str); 8] = [
    ("there", "working-dir: /far/none\nexec-start: /bin/true"),
    ("output", "stdout: append:/far/out\nexec-start: /bin/true"),
    ("condition", "condition-path-exists: /far/none\nexec-start: /bin/true"),
    ("variables", "env-file: /far/variables\nexec-start: /bin/true"),
    ("root", "root-dir: /far/root\nexec-start: /bin/true"),
    ("program", "exec-start: /far/program"),
    ("pid", "type: background-pidfile\npid-file: /far/pid\nexec-start: /bin/true"),
    ("door", "type: socket\nlisten-stream: /far/none/socket\nactivates: web"),
];

/// The units of that machine.
fn units(root: &Path) {
    unit(root, "writer", &format!("stop-timeout: 1s\nexec-start: /bin/sh -c '{WRITER}'"));
    for (name, text) in WAITING {
        let patience = if name == "door" { "" } else { "\nstart-timeout: 1h\nstop-timeout: 1s" };
        unit(root, name, &format!("{text}{patience}"));
    }
    unit(root, "watch", "type: path\npath-exists: /far/none\nactivates: web");
    fs::write(root.join("etc/groundstate/init.yaml"), "shutdown-deadline: 6s\n").unwrap();
}

#[test]
fn lost_server_blocks_only_its_clients_and_the_machine_powers_off_with_clean_disks() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    modules(&root, &NFS);
    fs::write(root.join("modules/order"), NFS.join(" ")).unwrap();
    let names = WAITING.map(|(name, _)| name);
    let asked = ASKED.replace("UNITS", &names.join(" "));
    does(&root, &format!("{SERVED}{asked}"));
    units(&root);
    let (image, data) = (disk(&sandbox, &root), empty_disk(&sandbox, "data"));
    let drives = [drive("root", &image, "nvme,serial=1"), drive("data", &data, "nvme,serial=2")];
    let options: Vec<&str> = drives.iter().flatten().map(String::as_str).collect();
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 rw init=/sbin/init");
    for said in ["served x", "mounted", "folio_wait_bit_common"] {
        machine.says(&format!("PROBE {said}"));
    }
    for name in names {
        machine.says(&format!("PROBE {name} waits"));
    }
    for said in ["watched", "reloaded", "upgraded", "ready"] {
        machine.says(&format!("PROBE {said}"));
    }
    let start = Instant::now();
    machine.goes_off();
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
    let console = machine.console();
    assert!(!console.contains("PROBE no "), "{console}");
    for left in [
        "writer: failed: one of its processes does not exit after SIGKILL",
        "(dd) does not exit after SIGKILL: in an uninterruptible wait",
        "/far does not respond",
    ] {
        assert!(console.contains(left), "`{left}` is not said:\n{console}");
    }
    assert_clean(&image, &console);
    assert_clean(&data, &console);
}

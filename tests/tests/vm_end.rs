//! Difficult shutdowns of a machine: at any moment with much dirty data, with a kernel that refuses
//! reboot(2), with a stuck event loop. Unresponsive devices and a removed binary are in
//! `vm_hung.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{
    Kernel, Machine, archive, assert_clean, assert_clean_xfs, disk, does, drive, empty_xfs,
    modules, modules_of, program_with_libraries, system, unit,
};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// The number of boots, each with a power-off; GROUNDSTATE_POWER_OFFS sets a larger one.
const ROUNDS: u32 = 5;

/// One service writes to an ext4 and one to an xfs, as much as memory allows, so that most data is
/// still dirty.
const WRITTEN: &str = r#"
echo 80 >/proc/sys/vm/dirty_background_ratio
echo 90 >/proc/sys/vm/dirty_ratio
for module in libcrc32c xfs; do insmod /modules/$module.ko; done
mount -t xfs /dev/nvme1n1 /data
"#;

/// After a random time.
const OFF: &str = r#"
say round
usleep $(($(head -c 1 /dev/urandom | od -An -tu1) * 4000))
say dirty $(sed -n 's/^Dirty: *\([0-9]*\) kB/\1/p' /proc/meminfo)
initctl poweroff
"#;

/// Powers off at a random moment; every boot finds clean disks and leaves them clean.
#[test]
fn power_off_at_any_moment_leaves_no_journal_to_replay() {
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
        assert_clean(&image, &console);
        assert_clean_xfs(&data, &console);
        assert!(!console.contains("recovery"), "{console}");
        let dirty = console.split("PROBE dirty ").nth(1).and_then(|rest| rest.lines().next());
        most = most.max(dirty.expect("it says how much").trim().parse::<u64>().unwrap());
    }
    println!("{most} KiB were not written yet, at most");
    assert!(most >= if rounds > ROUNDS { 100 } else { 20 } * 1024, "{most} KiB");
}

/// A machine, started through these words, on which reboot(2) fails for PID 1.
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
    machine.says(&format!("reboot(2) failed: {error}"));
    // On a machine init and its services have score 0, whatever it was started with.
    assert!(machine.console().contains("PROBE weight 0 0 0\n"), "{}", machine.console());
    machine.goes_off();
}

#[test]
fn refused_reboot_falls_back_to_sysrq() {
    is_refused("setpriv --bounding-set=-sys_boot", "EPERM");
}

/// strace, which injects the error, is spared to the end by its name, and is not a child of PID 1.
#[test]
fn missing_reboot_system_call_falls_back_to_sysrq() {
    is_refused("@strace -D -qq -o /trace -e trace=reboot -e inject=reboot:error=ENOSYS", "ENOSYS");
}

/// First the loop has no event for longer than the watchdog's timeout, and feeds it nevertheless.
/// Then a real-time process keeps init from running, so the watchdog expires.
const STARVED: &str = r#"
read now rest </proc/uptime
end=$((${now%.*} + 9))
while read now rest </proc/uptime && [ ${now%.*} -lt $end ]; do sleep 1; done
initctl ping && say alive
echo -1 >/proc/sys/kernel/sched_rt_runtime_us
say hog
exec chrt -f 99 sh -c 'while :; do :; done'
"#;

/// Runs that machine, with this kernel, driver and options of qemu, until it is off.
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
fn stuck_event_loop_is_ended_by_the_software_watchdog() {
    let console = starves(Kernel::Cloud, "softdog", &[]).console();
    assert!(console.contains("Initiating system reboot"), "the watchdog did it:\n{console}");
}

/// A device of the machine, without the kernel's help.
#[test]
fn stuck_event_loop_is_ended_by_the_hardware_watchdog() {
    let options = ["-device", "i6300esb", "-action", "watchdog=reset"];
    let console = starves(Kernel::Full, "i6300esb", &options).console();
    assert!(!console.contains("reboot: "), "the kernel did not reboot:\n{console}");
    assert!(!console.contains("no watchdog"), "{console}");
}

/// The shutdown program of the initramfs dismantles the machine.
#[test]
fn shutdown_returns_to_the_initramfs() {
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
    assert_clean(&image, &machine.console());
}

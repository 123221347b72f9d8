//! The end of a machine in trouble: power that goes off at any moment, a kernel that refuses, a loop that is stuck.
//! What does not answer, an init whose own file is gone: `vm_hung.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{
    Kernel, Machine, archive, disk, does, drive, empty_xfs, is_clean, is_clean_xfs, modules,
    modules_of, program_with_libraries, system, unit,
};
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Boots in which the power goes off at some moment; more of them where GROUNDSTATE_POWER_OFFS says so.
const ROUNDS: u32 = 5;

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
    machine.says(&format!("reboot(2) failed: {error}"));
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

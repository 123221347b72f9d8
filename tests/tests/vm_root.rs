//! A virtual machine from its initramfs to its real root, and the shutdown of that root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use groundstate_tests::machine::{
    Machine, archive, assert_clean, disk, empty_disk, modules, system,
};
use groundstate_tests::sandbox::Sandbox;
use std::fs;

/// Runs in both roots.
const KEEPER: &str = "unit: keeper\nexec-start: /bin/daemon --name keeper\n";

/// Mounts the layers of the real root below /run, which moves to that root. The shutdown must
/// unmount them too.
const LEAD: &str = r#"
pid() { initctl --json status "$1" | sed -n 's/.*"main-pid":\([0-9]*\).*/\1/p'; }
insmod /modules/overlay.ko
mkdir -p /run/lower /run/upper /sysroot
until [ -b /dev/nvme0n1 ] && [ -b /dev/nvme1n1 ]; do :; done
mount -t ext4 -o ro /dev/nvme0n1 /run/lower && mount -t ext4 /dev/nvme1n1 /run/upper
mkdir /run/upper/data /run/upper/work
mount -t overlay -o lowerdir=/run/lower,upperdir=/run/upper/data,workdir=/run/upper/work none /sysroot
until [ "$(pid keeper)" ] && [ "$(pid leaves)" ]; do :; done
pid keeper >/run/keeper
pid leaves >/run/leaves
exec initctl switch-root /sysroot
"#;

const THERE: &str = r#"
keeper=$(cat /run/keeper)
[ "$(initctl --json status keeper | sed -n 's/.*"main-pid":\([0-9]*\).*/\1/p')" = "$keeper" ] && say keeper has its old pid
until [ ! -d /proc/$(cat /run/leaves) ]; do :; done
initctl status leaves >/dev/null 2>&1 || say leaves has gone
until [ ! -e /proc/$keeper/root/lead ] && [ ! -e /proc/$keeper/root/bin ]; do :; done
say the memory is free
say root $(awk '$2 == "/" { print $3 }' /proc/mounts) id $(wc -c </etc/machine-id)
until grep -q listening /var/log/groundstate/web.log; do :; done
say its logger writes
echo 1000 >/proc/sys/vm/dirty_writeback_centisecs
dd if=/dev/zero of=/var/lib/much bs=64k count=160 2>/dev/null
"#;

#[test]
fn initramfs_switches_to_the_real_root_whose_disks_are_clean_at_the_end() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, &format!("{THERE}initctl poweroff"));
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    let unit = |name: &str, text: &str| {
        write(&format!("etc/groundstate/units/{name}.yaml"), &format!("unit: {name}\n{text}\n"));
    };
    write("etc/groundstate/units/keeper.yaml", KEEPER);
    unit("test", "type: virtual\nwaits-for: multi-user, keeper, probe");
    let lower = disk(&sandbox, &root);
    let upper = empty_disk(&sandbox, "upper");
    // From here on in the initramfs.
    modules(&root, &["overlay"]);
    write("etc/initrd-release", "ID=test\n");
    write("etc/groundstate/init.yaml", "default-target: lead-on\n");
    write("lead", LEAD);
    unit("leaves", "exec-start: /bin/daemon --name leaves");
    unit("lead", "type: oneshot\nlog: console\ndepends-on: setup\nexec-start: /bin/sh /lead");
    unit("lead-on", "type: virtual\nwaits-for: keeper, leaves, lead");
    let initrd = archive(&sandbox, &root);
    let drives = [("lower", &lower), ("upper", &upper)]
        .map(|(id, file)| (format!("file={file},format=raw,if=none,id={id}"), id));
    let mut options = vec!["-initrd", &initrd];
    let devices = drives.each_ref().map(|(_, id)| format!("nvme,drive={id},serial={id}"));
    for ((drive, _), device) in drives.iter().zip(&devices) {
        options.extend(["-drive", drive, "-device", device]);
    }
    let mut machine = Machine::boot(sandbox, &options, "");
    machine.goes_off();
    let console = machine.console();
    for said in [
        "healed",
        "no crash",
        "keeper has its old pid",
        "leaves has gone",
        "the memory is free",
        "root overlay id 33",
        "its logger writes",
    ] {
        assert!(console.contains(&format!("PROBE {said}")), "{said}:\n{console}");
    }
    assert_clean(&lower, &console);
    assert_clean(&upper, &console);
}

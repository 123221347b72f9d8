//! The real init as PID 1 of a virtual machine: it boots, restarts services, limits them and shuts
//! down. `vm_first.rs` tests arguments from the kernel; `vm_end.rs` and `vm_hung.rs` difficult
//! shutdowns.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "these are tests"
)]

use groundstate_tests::extent::turns;
use groundstate_tests::machine::{Machine, archive, disk, system};
use groundstate_tests::sandbox::Sandbox;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// Sleeps for longer than the timeouts of a start and of a stop. During sleep only CLOCK_BOOTTIME
/// advances, which /proc/uptime shows.
const SLEEP: &str = r#"
up() { read now rest </proc/uptime; echo "${now%.*}"; }
is() { initctl status "$1" | grep -q "$1 .*$2"; }
initctl want stubborn >/dev/null
until is stubborn running; do :; done
initctl want slow >/dev/null
until is slow starting; do :; done
initctl unwant stubborn >/dev/null
until is stubborn stopping; do :; done
first=$(pid)
before=$(up)
echo +SECONDS >/sys/class/rtc/rtc0/wakealarm
echo mem >/sys/power/state
is slow starting && is stubborn stopping && say both are waited for
say slept $(($(up) - before))
[ "$(pid)" = "$first" ] && say web is as it was
until is slow failed; do :; done
until initctl status stubborn | grep -q 'stop-timeout'; do :; done
say both have timed out
"#;

#[test]
fn time_asleep_counts_for_no_timeout() {
    let sandbox = Sandbox::new();
    let seconds = turns(36, 360) as u64;
    let sleep = SLEEP.replace("SECONDS", &seconds.to_string());
    let root = system(&sandbox, &format!("{sleep}initctl poweroff"));
    let write = |name: &str, text: &str| {
        fs::write(root.join(format!("etc/groundstate/units/{name}.yaml")), text).unwrap();
    };
    let slow = "start-timeout: 15s\nrestart: never\nexec-start: /bin/sleep 1000\n";
    write("slow", &format!("unit: slow\ntype: foreground-notified\n{slow}"));
    let deaf = "exec-start: /bin/sh -c 'trap \"\" TERM; while :; do sleep 1; done'\n";
    write("stubborn", &format!("unit: stubborn\nstop-timeout: 15s\n{deaf}"));
    let initrd = archive(&sandbox, &root);
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "");
    machine.says("PROBE both are waited for");
    machine.says("PROBE web is as it was");
    machine.says("PROBE both have timed out");
    machine.goes_off();
    let console = machine.console();
    let slept = console.lines().find_map(|line| line.split_once("PROBE slept "));
    let slept: u64 = slept.expect("the script reports how long it slept").1.trim().parse().unwrap();
    assert!(slept >= seconds - 1, "{console}");
}

#[test]
fn disk_is_clean_after_a_shutdown_and_boots_again() {
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
    assert!(!features.contains("needs_recovery"), "the journal must be closed:\n{features}");
    let proof = Command::new("/sbin/debugfs").args(["-R", "cat /var/lib/proof", &image]).output();
    assert_eq!(proof.unwrap().stdout, b"written\n");
    machine.again();
    machine.says("PROBE healed");
    machine.goes_off();
}

#[test]
fn ctrl_alt_del_reboots_the_machine() {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, "");
    let initrd = archive(&sandbox, &root);
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "");
    machine.says("PROBE healed");
    machine.press_ctrl_alt_del();
    machine.goes_off();
    // qemu exits for a reboot and a power-off: the kernel's last message tells them apart.
    machine.says("reboot: Restarting system");
}

/// The work of the services below, by their first argument; each reports its observations.
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
  crowd) # no further process can be forked, so the shell itself reads the files
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

/// The results of the services that used memory, and the OOM scores.
const SCORES: &str = r#"
say() { echo "PROBE $*" >/dev/console; }
score() { cat /proc/$1/oom_score_adj; }
logger() { for comm in /proc/[0-9]*/comm; do [ "$(cat $comm)" = groundstate-log ] && basename ${comm%/comm}; done; }
for unit in eat survive-together; do initctl status $unit.service; done >/dev/console 2>&1
say scores $(score 1) $(score $(logger)) $(score $$)
mkdir -p /run/sup
mkdir -m 777 /run/low
( echo 300 >/proc/self/oom_score_adj; exec /sbin/init --units /sup --runtime-dir /run/sup --log-dir /run/sup/log --target one ) &
sup=$!
control() { initctl --socket /run/sup/control.sock "$@" >/dev/null; }
started() { until [ "$(grep -c . /run/sup/scores)" = "$1" ]; do :; done; }
started 1; control restart one; started 2
control upgrade; control restart one; started 3
helper() { for comm in /proc/[0-9]*/comm; do pid=$(basename ${comm%/comm}); [ "$(cat $comm)" = groundstate-log ] && grep -q "^PPid:[^0-9]*$sup$" /proc/$pid/status && echo $pid; done; }
say supervised $(score $sup) $(score $(helper)) $(cat /run/sup/scores)
control want lower
until [ -e /run/low/lowered ]; do :; done
say lowered $(cat /run/low/lowered)
initctl poweroff
"#;

/// Writes the units of the test. The services are systemd unit files, which init imports.
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
    fs::create_dir(root.join("sup")).unwrap();
    write("sup/one.yaml", "unit: one\nexec-start: /bin/sh /one\n");
    // A process without capabilities may not have init's score.
    write(
        "sup/lower.yaml",
        "unit: lower\ntype: oneshot\nuser: 65534\nexec-start: /bin/sh /lower\n",
    );
    write(
        "lower",
        "echo -1000 2>/dev/null >/proc/self/oom_score_adj; cat /proc/self/oom_score_adj >/run/low/it; mv /run/low/it /run/low/lowered\n",
    );
    write("one", "cat /proc/self/oom_score_adj >>/run/sup/scores; exec sleep 1000\n");
    write("check", SCORES);
}

#[test]
fn limits_of_an_imported_service_are_effective() {
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
    // At most a fifth of the four seconds, and throttled.
    let cpu = said("cpu");
    assert!(number(&cpu[1]) < 1_500_000 && number(&cpu[3]) >= 5, "{cpu:?}");
    // Four megabytes at one per second.
    let disk = said("disk");
    assert!(number(&disk[1]) >= 3 && number(&disk[3]) >= 3, "{disk:?}");
    // Sixteen reads and writes, four per second.
    let count = said("count");
    assert!(number(&count[1]) >= 3 && number(&count[3]) >= 3, "{count:?}");
    assert_eq!(said("survive-alone"), ["has", "survived"]);
    assert!(!console.contains("PROBE survive-together"), "{console}");
    let scores: Vec<i32> = said("scores").iter().map(|word| word.parse().unwrap()).collect();
    assert_eq!(scores, [0, -1000, 0], "init, its logger, a service");
    // A supervisor, its logger, and their children: the initial score, also after an upgrade.
    assert_eq!(said("supervised"), ["-1000", "-1000", "300", "300", "300"]);
    assert_eq!(said("lowered"), ["300"]);
    for unit in ["eat.service", "survive-together.service"] {
        let failed = format!("{unit}: failed: the kernel killed it because memory ran out");
        assert!(console.contains(&failed), "{console}");
    }
}

/// An init that is not the machine's PID 1, so the kernel may kill it when memory runs out.
const INNER: &str = r#"
inner() { initctl --socket /run/inner/control.sock status tiny 2>/dev/null | grep -q failed; }
initctl want inner >/dev/null
until initctl status inner | grep -q failed || inner; do :; done
initctl --socket /run/inner/control.sock status tiny >/dev/console 2>&1
initctl status inner | grep -q running && say the inner init lives
main=$(initctl --json status inner | sed -n 's/.*"main-pid":\([0-9]*\).*/\1/p')
say it has made way: $(sed -n 's/^0:://p' /proc/$main/cgroup)
initctl poweroff"#;

/// Checks the reason that an init with these arguments reports for the unit.
fn outlives(words: &str, reason: &str) {
    let sandbox = Sandbox::new();
    let root = system(&sandbox, INNER);
    let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
    fs::create_dir(root.join("inner")).unwrap();
    write("inner/tiny.yaml", "unit: tiny\ncgroup-memory-max: 4K\nexec-start: /bin/sleep 1000\n");
    let inner = format!(
        "unit: inner\ncgroup-delegate: yes\nrestart: never\nexec-start: /sbin/init --units /inner --runtime-dir /run/inner --log-dir /run/inner-log --target tiny {words}\n"
    );
    write("etc/groundstate/units/inner.yaml", &inner);
    let initrd = archive(&sandbox, &root);
    let mut machine = Machine::boot(sandbox, &["-initrd", &initrd], "");
    machine.goes_off();
    let console = machine.console();
    assert!(console.contains("PROBE the inner init lives"), "{console}");
    // A cgroup with controllers for its children may hold no process: init moves into a child
    // cgroup.
    let aside = |line: &str| line.contains("made way: /") && line.ends_with("/groundstate/init");
    assert!(console.lines().any(aside), "{console}");
    assert!(console.contains(reason), "{console}");
}

#[test]
fn init_survives_a_start_without_memory() {
    outlives("--oom-score keep", "cannot run /bin/sleep (fork): killed before it was run");
    // No process in that cgroup has init's score, at which the kernel would kill none of them.
    outlives("", "the kernel killed it because memory ran out");
}

/// Like a machine that boots from a read-only medium.
#[test]
fn machine_with_a_read_only_root_boots_restarts_services_and_keeps_logs_in_memory() {
    let sandbox = Sandbox::new();
    let look = "touch /var/lib/x 2>/dev/null || say nothing can be written\n\
                until initctl logs web | grep -q listening; do :; done\nsay it is kept in memory\n";
    let root = system(&sandbox, &format!("{look}initctl poweroff"));
    let image = disk(&sandbox, &root);
    let drive = format!("file={image},format=raw,if=none,id=root");
    let options = ["-drive", &drive, "-device", "nvme,drive=root,serial=1"];
    let mut machine = Machine::boot(sandbox, &options, "root=/dev/nvme0n1 ro init=/sbin/init");
    for said in ["healed", "nothing can be written", "it is kept in memory", "no crash"] {
        machine.says(&format!("PROBE {said}"));
    }
    machine.goes_off();
    machine.says("reboot: Power down");
}

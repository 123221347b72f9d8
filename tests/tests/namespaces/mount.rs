//! Imported `.mount` and `.swap` units: which programs they run with which arguments. A script that
//! records its arguments stands in for mount(8), umount(8), swapon(8) and swapoff(8).

use super::child_setup::is_root;
use super::command::drop_all;
use super::imported::{systemd, wants};
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_units::text::unit_name::escape_path;
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn mount_and_swap_units_run_their_programs_with_the_right_arguments() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let place = |name: &str| files.at(name);
    let stem = |name: &str| {
        let path = place(name);
        path.trim_start_matches('/').replace('-', "\\x2d").replace('/', "-")
    };
    let note = "#!/bin/sh\necho \"${0##*/} $*\" >>DIR/called\ncase \"$*\" in *hangs*) exec sleep 1000 ;; esac\n";
    files.put("note", &note.replace("DIR", files.dir().to_str().unwrap()));
    fs::set_permissions(files.path("note"), PermissionsExt::from_mode(0o755)).unwrap();
    let unit = |name: &str, suffix: &str, text: &str| {
        systemd(&files, &format!("{}.{suffix}", stem(name)), text);
        format!("{}.{suffix}", stem(name))
    };
    let mount = format!(
        "[Mount]\nWhat=/dev/none\nWhere={}\nType=ext4\nSloppyOptions=yes\nReadWriteOnly=yes\n\
         LazyUnmount=yes\nForceUnmount=yes\n",
        place("mnt")
    );
    let swap = format!("[Swap]\nWhat={}\nPriority=5\nOptions=discard\n", place("swap"));
    let slow = format!("[Mount]\nWhat=hangs\nWhere={}\nTimeoutSec=300ms\n", place("slow"));
    let late = format!("[Swap]\nWhat={}\nTimeoutSec=300ms\n", place("hangs"));
    let good = [unit("mnt", "mount", &mount), unit("swap", "swap", &swap)];
    let bad = [unit("slow", "mount", &slow), unit("hangs", "swap", &late)];
    wants(&files, &[&good[0], &good[1], &bad[0], &bad[1]].map(String::as_str));
    let bind = format!(
        "for p in /bin/umount /sbin/swapon /sbin/swapoff /bin/mount; do /bin/mount --bind {} $p; done; exec \"$@\"",
        files.at("note")
    );
    let (mnt, swap) = (place("mnt"), place("swap"));
    let init = Boot::new(files).through(&["/bin/sh", "-c", &bind, "sh"]).start("all");
    for unit in &good {
        init.when_state(unit, "exited");
    }
    for unit in &bad {
        let status = init.when_state(unit, "failed");
        assert_eq!(status.reason(unit), "start-timeout", "TimeoutSec= of {unit}");
    }
    drop_all(&init);
    for unit in &good {
        init.when_state(unit, "disabled");
    }
    let called = until("all programs were called", || {
        Some(init.sandbox.read("called")).filter(|called| called.contains("swapoff"))
    });
    for line in [
        format!("mount -t ext4 -s -w /dev/none {mnt}"),
        format!("umount -l -f {mnt}"),
        format!("swapon -p 5 -o discard {swap}"),
        format!("swapoff {swap}"),
    ] {
        assert!(called.lines().any(|seen| seen == line), "`{line}` is not in\n{called}");
    }
    init.finish();
}

/// mount(8) itself runs, in the mount namespace of the test's init.
#[test]
fn fstab_lines_are_mounted_and_a_missing_device_delays_no_other_line() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    let (a, b, c) = (files.at("a b"), files.at("bound"), files.at("lost"));
    let line = |fields: &str| fields.replace("A_B", &a.replace(' ', "\\040"));
    let first = line("tmpfs A_B tmpfs size=64k,x-systemd.mount-timeout=20 0 0\nbroken\n");
    let lost = format!("/dev/none {c} ext4 nofail,x-systemd.device-timeout=300ms 0 2\n");
    let bound = line(&format!("A_B {b} none bind 0 0\n"));
    files.put("fstab", &format!("{first}{bound}{lost}"));
    files.put("init.yaml", &format!("default-target: all\nimport-dirs: [{}]\n", files.at("fstab")));
    wants(&files, &["local-fs.target"]);
    let init = Boot::new(files).start("all");
    let unit = |path: &str| format!("{}.mount", escape_path(path));
    let state = init.when_state("dev-none.device", "failed");
    assert_eq!(state.reason("dev-none.device"), "start-timeout");
    for path in [&a, &b] {
        init.when_state(&unit(path), "exited");
    }
    init.when_state("local-fs.target", "running");
    init.when_state(&unit(&c), "failed");
    let mounted = |path: &str| {
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", init.process().0)).unwrap();
        table.contains(&format!(" {} ", path.replace(' ', "\\040")))
    };
    assert!(mounted(&a) && mounted(&b) && !mounted(&c));
    let told = init.initctl(&["check", &init.sandbox.at("fstab")]);
    assert!(String::from_utf8_lossy(&told.stdout).contains("fstab:2:1: error"), "{told:?}");
    // Without its line, the file system is unmounted; a comment more changes nothing.
    init.sandbox.put("fstab", &format!("# new\n{first}{lost}"));
    init.tell("reload", &serde_json::json!({}));
    until("the line that is gone is unmounted", || (!mounted(&b)).then_some(()));
    assert!(mounted(&a));
    drop_all(&init);
    until("all is unmounted", || (!mounted(&a)).then_some(()));
    init.finish();
}

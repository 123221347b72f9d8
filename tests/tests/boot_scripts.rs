//! Scripts of contrib/debian.d/machine in a root of their own: a tmpfs in a new mount namespace. The
//! programs are those of this machine, which is mounted at /host.

#![allow(clippy::expect_used, clippy::panic, reason = "a panic fails the test")]

use std::process::Command;

/// Arguments: the mount point of the new root, commands that run in it before chroot(8), and commands
/// that run after it.
const ROOT: &str = r#"
scripts=/host$(pwd)/contrib/debian.d/machine
mount -t tmpfs -o size=1M /own/disk "$0"
cd "$0"
mkdir -p dev/shm etc/systemd/system host own proc run tmp usr/lib/systemd/system
mount --bind / host
mount -t proc proc proc
mount -t tmpfs none dev/shm
mount -t tmpfs none run
ln -s /host/bin /host/sbin /host/lib /host/lib64 .
ln -s /host/usr/bin /host/usr/sbin usr
mknod -m 666 dev/null c 1 3
eval "$1"
exec chroot . /bin/sh -c "PATH=/own:$PATH; $2" "$scripts"
"#;

/// Returns the output of `commands`, in which `$0` is the directory of the scripts. Returns `None`
/// without root.
fn run(preparation: &str, commands: &str) -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "sh", "-ec", ROOT, "/mnt", preparation, commands]);
    let output = command.current_dir(top).output().expect("unshare runs");
    let text = [output.stdout, output.stderr].concat();
    Some(format!("{}{}", String::from_utf8_lossy(&text), output.status))
}

#[test]
fn options_in_fstab_apply_to_file_systems_that_init_has_mounted() {
    let fstab = r#"cat >etc/fstab <<END
# none /sys none noexec
none / tmpfs noatime 0 0
none /run tmpfs size=no-size 0 0
none /dev/shm/ tmpfs noexec,size=8k 0 0
proc /proc proc hidepid=2
END"#;
    let Some(text) = run(fstab, r#""$0/remount-root"; echo "status $?"; cat /proc/mounts"#) else {
        return groundstate_tests::not_run!("this needs root");
    };
    let options = |place: &str| {
        let line = text.lines().find(|line| line.split(' ').nth(1) == Some(place));
        line.and_then(|line| line.split(' ').nth(3)).unwrap_or_else(|| panic!("{place}: {text}"))
    };
    assert!(text.contains("status 0\n"), "{text}");
    assert!(options("/").contains("noatime"), "{text}");
    assert!(options("/dev/shm").contains("noexec") && options("/dev/shm").contains("size=8k"));
    assert!(options("/proc").contains("hidepid=invisible"), "{text}");
    assert!(text.contains("/run: "), "mount(8) prints the failure: {text}");
}

/// Commands that prepare `tmp.mount` of the package systemd.
const TMP_MOUNT: &str = "mkdir -p etc/systemd/system/tmp.mount.d usr/lib/systemd/system/tmp.mount.d
printf '[Mount]\\nWhat=tmpfs\\nType=tmpfs\\nOptions=mode=1777,nosuid\\n' >usr/lib/systemd/system/tmp.mount";

#[test]
fn drop_ins_of_tmp_mount_set_the_options_of_tmp() {
    let tmp = |more: &str| {
        let commands = r#""$0/mount-tmp"; echo "status $?"; grep " /tmp " /proc/mounts"#;
        run(&format!("{TMP_MOUNT}\n{more}"), commands)
    };
    let (etc, lib) = ("etc/systemd/system", "usr/lib/systemd/system");
    let drop_in = |path: &str, key: &str| format!("printf '[Mount]\\n{key}' >{path}\n");
    let (small, large) = ("Options=size=8k", "Options = size=16k");
    for (more, expected) in [
        (String::new(), "rw,nosuid,relatime 0 0"),
        (drop_in(&format!("{etc}/tmp.mount.d/a.conf"), small), "rw,relatime,size=8k 0 0"),
        (
            drop_in(&format!("{etc}/tmp.mount.d/a.conf"), small)
                + &drop_in(&format!("{lib}/tmp.mount.d/a.conf"), large),
            "rw,relatime,size=8k 0 0",
        ),
        (
            drop_in(&format!("{etc}/tmp.mount.d/a.conf"), small)
                + &drop_in(&format!("{lib}/tmp.mount.d/b.conf"), large),
            "rw,relatime,size=16k 0 0",
        ),
        (
            format!("ln -s /dev/null {etc}/tmp.mount.d/a.conf\n")
                + &drop_in(&format!("{lib}/tmp.mount.d/a.conf"), large),
            "rw,nosuid,relatime 0 0",
        ),
    ] {
        let Some(text) = tmp(&more) else {
            return groundstate_tests::not_run!("this needs root");
        };
        assert!(text.contains(&format!("tmpfs /tmp tmpfs {expected}\n")), "{more}: {text}");
    }
    for (more, status) in [
        (drop_in(&format!("{etc}/tmp.mount.d/a.conf"), "Type=ext4"), "Type=ext4 in tmp.mount"),
        (format!("ln -s /dev/null {etc}/tmp.mount"), "status 0"),
        ("echo tmpfs /tmp tmpfs >etc/fstab".to_owned(), "status 0"),
    ] {
        let text = tmp(&more).unwrap_or_default();
        assert!(text.contains(status) && !text.contains("tmpfs /tmp tmpfs"), "{more}: {text}");
    }
}

#[test]
fn checker_that_a_signal_ends_fails_the_check_of_the_root() {
    for (signal, status) in [("SEGV", 139), ("KILL", 137)] {
        let preparation = format!(
            "mknod own/disk b 7 0\n\
             printf '#!/bin/sh\\nkill -{signal} $$\\n' >own/fsck.tmpfs\n\
             chmod +x own/fsck.tmpfs\n"
        );
        let commands = r#"mount -o remount,ro /; "$0/check-root"; echo "status $?""#;
        let Some(text) = run(&preparation, commands) else {
            return groundstate_tests::not_run!("this needs root");
        };
        assert!(text.contains(&format!("status {status}\n")), "{text}");
    }
}

/// Neither the device nor its checker does anything: the checker prints its arguments.
#[test]
fn words_of_the_kernel_command_line_are_options_of_the_check_of_the_root() {
    for (kernel, options) in [
        ("root=/dev/sda quiet", "-a"),
        ("fsck.mode=force quiet", "-a -f"),
        ("fsck.repair=yes", "-y"),
        ("fsck.repair=no fsck.mode=force", "-n -f"),
        ("fsck.repair=no fsck.repair=preen", "-a"),
    ] {
        let preparation = format!(
            "mknod own/disk b 7 0\n\
             echo {kernel} >own/cmdline\n\
             mount --bind own/cmdline proc/cmdline\n\
             printf '#!/bin/sh\\necho fsck \"$@\"\\n' >own/fsck.tmpfs\n\
             chmod +x own/fsck.tmpfs\n"
        );
        let Some(text) = run(&preparation, r#"mount -o remount,ro /; "$0/check-root""#) else {
            return groundstate_tests::not_run!("this needs root");
        };
        assert!(text.starts_with(&format!("fsck {options} /own/disk\n")), "{kernel}: {text}");
    }
}

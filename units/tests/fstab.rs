//! Lines of fstab(5): the units, the diagnostics, and the order among other units. The expected
//! targets and order are those of systemd-fstab-generator of systemd 252 for the same lines.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::import::fstab;
use groundstate_units::machine::Machine;
use groundstate_units::machine::action::Action;
use groundstate_units::machine::event::Event;
use groundstate_units::machine::reason::State;
use groundstate_units::spec::{Exit, Kind, Piece, Run};
use groundstate_units::text::time::Time;
use groundstate_units::unit::generation::Generation;
use groundstate_units::unit::yaml_writer;
use memory::Memory;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const FSTAB: &str = "/etc/fstab";

/// Returns the units of a text by name, and the diagnostics in the order of the lines.
fn read(text: &str) -> (BTreeMap<String, String>, Vec<String>) {
    let (units, found) = fstab::read(&FSTAB.into(), text.as_bytes());
    let mut said: Vec<_> = units.iter().flat_map(|unit| unit.diagnostics.clone()).collect();
    said.extend(found);
    said.sort_by(|a, b| a.at.cmp(&b.at));
    let said = said.iter().map(|said| {
        format!("{}:{} {}: {}", said.at.line, said.at.column, said.severity, said.message)
    });
    let name = |unit: &groundstate_units::unit::manifest::Manifest| unit.name.clone().unwrap();
    let text = units.iter().map(|unit| (name(unit).to_string(), yaml_writer::write(unit)));
    (text.collect(), said.collect())
}

#[test]
fn line_with_a_checked_device_becomes_three_units() {
    let (units, said) = read("UUID=b-2 /srv/data ext4 defaults 0 2\n");
    assert_eq!(said, Vec::<String>::new());
    let texts: Vec<&str> = units.values().map(String::as_str).collect();
    let expected = [
        "unit: dev-disk-by\\x2duuid-b\\x2d2.device\n\
         description: device /dev/disk/by-uuid/b-2\n\
         type: oneshot\n\
         exec-start: /bin/true\n\
         wait-file: /dev/disk/by-uuid/b-2\n\
         start-timeout: 90s\n\
         on-change: keep\n\
         after: [systemd-udev-trigger.service, local-fs-pre.target]\n\
         on-failure: emergency.target\n",
        "unit: srv-data.mount\n\
         description: /srv/data of /etc/fstab\n\
         type: oneshot\n\
         exec-start: /bin/mount -t ext4 /dev/disk/by-uuid/b-2 /srv/data\n\
         exec-start-pre: '-/bin/mkdir -p /srv/data'\n\
         exec-stop: /bin/umount /srv/data\n\
         needs-path: /srv/data\n\
         start-timeout: 90s\n\
         stop-timeout: 90s\n\
         on-change: keep\n\
         depends-ms: systemd-fsck@dev-disk-by\\x2duuid-b\\x2d2.service\n\
         after: local-fs-pre.target\n\
         before: local-fs.target\n\
         on-failure: emergency.target\n\
         required-by: local-fs.target\n\
         condition-path-is-mount-point: '!/srv/data'\n",
        "unit: systemd-fsck@dev-disk-by\\x2duuid-b\\x2d2.service\n\
         description: check of /dev/disk/by-uuid/b-2\n\
         type: oneshot\n\
         exec-start: '/bin/sh -c ''t=$$1; [ $$t != auto ] || { t=$$(blkid \"$$0\"); \
         t=$${t##* TYPE=?}; t=$${t%%[!0-9A-Za-z_]*}; }; command -v fsck.$$t >/dev/null || exit 0; \
         o=-a f=; for w in $$(cat /proc/cmdline); do case $$w in fsck.repair=preen) o=-a ;; \
         fsck.repair=yes) o=-y ;; fsck.repair=no) o=-n ;; fsck.mode=force) f=-f ;; esac; done; \
         case $$(readlink -f \"$$(command -v fsck)\") in \"\" | *busybox*) \
         grep -q \"^$$0 \" /proc/mounts || fsck.$$t $$o $$f \"$$0\" ;; \
         *) fsck $$o $$f -l -T -M -C0 \"$$0\" ;; esac; s=$$?; \
         [ $$s -lt 128 ] && [ $$((s & 6)) = 0 ] || exit $$s'' /dev/disk/by-uuid/b-2 ext4'\n\
         start-timeout: none\n\
         log: console\n\
         on-change: keep\n\
         depends-ms: dev-disk-by\\x2duuid-b\\x2d2.device\n\
         after: [systemd-fsck-root.service, local-fs-pre.target]\n\
         on-failure: emergency.target\n\
         condition-kernel-cmdline:\n- '!fsck.mode=skip'\n- '!fastboot'\n",
    ];
    assert_eq!(texts, expected);
}

/// The programs `cat` and `fsck` of the check are replaced: `cat` prints the kernel's command line, and
/// `fsck` its arguments. Then `fsck` executes `END`.
#[test]
fn check_passes_the_words_of_the_kernel_and_fails_by_the_status_of_fsck() {
    let memory = with_boot_units(&[(FSTAB, LOCAL)]);
    let generation = memory.load(None).generation;
    let check = "systemd-fsck@dev-sdb1.service";
    let unit = generation.units.iter().find(|unit| unit.name.as_str() == check).unwrap();
    let words = Run::decode(&unit.run).unwrap().exec_start[0].words.clone();
    let words = words.iter().map(|word| match word.as_slice() {
        [Piece::Literal(text)] => text.clone(),
        other => panic!("not a literal: {other:?}"),
    });
    let words: Vec<String> = words.collect();
    let programs = std::env::temp_dir().join(format!("groundstate-check-{}", std::process::id()));
    fs::create_dir_all(&programs).unwrap();
    for (name, command) in [("cat", "$WORDS"), ("fsck", "$*"), ("fsck.ext4", "")] {
        let path = programs.join(name);
        fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' \"{command}\"\neval \"$END\"\n"))
            .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", programs.display());
    for (kernel, options) in [
        ("root=/dev/sda quiet", "-a"),
        ("fsck.mode=force quiet", "-a -f"),
        ("fsck.repair=yes", "-y"),
        ("fsck.repair=no fsck.mode=force", "-n -f"),
        ("fsck.repair=no fsck.repair=preen", "-a"),
    ] {
        let mut command = Command::new(&words[0]);
        let output = command.args(&words[1..]).env("PATH", &path).env("WORDS", kernel).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text, format!("{options} -l -T -M -C0 /dev/sdb1\n"), "{kernel}");
    }
    for (end, status) in [
        ("exit 1", 0),
        ("exit 2", 2),
        ("exit 4", 4),
        ("exit 8", 0),
        ("kill -SEGV $$", 139),
        ("kill -KILL $$", 137),
    ] {
        let end = format!("[ \"${{0##*/}}\" != fsck ] || {end}");
        let mut command = Command::new(&words[0]);
        let output = command.args(&words[1..]).env("PATH", &path).env("END", &end).output();
        assert_eq!(output.unwrap().status.code(), Some(status), "{end}");
    }
    fs::remove_dir_all(programs).unwrap();
}

/// A line, one of its units, the keys that it has (`key: value`) and those that it lacks (`!key`).
const LINES: &[(&str, &str, &[&str])] = &[
    (
        "LABEL=my\\040disk /srv/a\\040b auto noatime,nofail,x-systemd.device-timeout=5 0 0",
        "srv-a\\x20b.mount",
        &[
            r#"exec-start: /bin/mount -o noatime "/dev/disk/by-label/my\\x20disk" "/srv/a b""#,
            "wanted-by: multi-user",
            "!before",
            "!required-by",
            "!on-failure",
        ],
    ),
    (
        "LABEL=\"my\\040disk\" /srv ext4 nofail,x-systemd.device-timeout=5",
        "dev-disk-by\\x2dlabel-my\\x5cx20disk.device",
        &["wait-file: /dev/disk/by-label/my\\x20disk", "start-timeout: 5s", "!on-failure"],
    ),
    ("/dev/sdb /mnt ext4 noauto 0 0", "mnt.mount", &["!wanted-by", "!required-by", "!on-failure"]),
    (
        "nas:/x /srv nfs defaults 0 0",
        "srv.mount",
        &[
            "waits-for: network-online.target?",
            "after: [network.target, remote-fs-pre.target]",
            "before: remote-fs.target",
            "required-by: remote-fs.target",
            "!on-failure",
            "!depends-ms",
        ],
    ),
    (
        "nas:/y /srv nfs4 bg,soft",
        "srv.mount",
        &[
            "exec-start: '/bin/mount -t nfs4 -o fg,retry=10000,soft nas:/y /srv'",
            "start-timeout: none",
            "wanted-by: multi-user",
        ],
    ),
    (
        "/dev/sdc /srv ext4 _netdev,nofail 0 2",
        "dev-sdc.device",
        &[
            "waits-for: network-online.target?",
            "after: [systemd-udev-trigger.service, local-fs-pre.target, network.target]",
        ],
    ),
    (
        "/dev/sdc /srv ext4 _netdev,nofail 0 2",
        "srv.mount",
        &["wanted-by: multi-user", "depends-ms: systemd-fsck@dev-sdc.service"],
    ),
    (
        "/srv//data/ /srv/bind none bind",
        "srv-bind.mount",
        &[
            "needs-path: [/srv/data, /srv/bind]",
            "exec-start: /bin/mount -t none -o bind /srv//data/ /srv/bind",
        ],
    ),
    (
        "tmpfs /tmp tmpfs size=1G,mode=1777",
        "tmp.mount",
        &[
            "exec-start: '/bin/mount -t tmpfs -o size=1G,mode=1777 tmpfs /tmp'",
            "required-by: local-fs.target",
        ],
    ),
    (
        "/dev/sdd /usr ext4 ro,x-initrd.mount,x-systemd.rw-only,x-gvfs-hide,user,comment=x",
        "usr.mount",
        &["exec-start: '/bin/mount -w -t ext4 -o ro,user /dev/sdd /usr'", "!exec-stop"],
    ),
    (
        "t /m tmpfs context=\"a:c1,c2\",uid=$x",
        "m.mount",
        &[r#"exec-start: '/bin/mount -t tmpfs -o ''context="a:c1,c2",uid=$$x'' t /m'"#],
    ),
    (
        "/dev/sdd /auto ext4 noauto,x-systemd.automount",
        "auto.mount",
        &["wanted-by: multi-user", "!before"],
    ),
    (
        "/dev/sde /w ext4 x-systemd.wanted-by=foo.service,x-systemd.requires=/srv/data,\
         x-systemd.requires=/dev/sdf,x-systemd.after=a.service,x-systemd.before=b.service,\
         x-systemd.requires-mounts-for=/x/y,x-systemd.wants-mounts-for=/z",
        "w.mount",
        &[
            "depends-ms: [srv-data.mount, dev-sdf.device, dev-sde.device]",
            "after: [a.service, local-fs-pre.target]",
            "before: [b.service, local-fs.target]",
            "wanted-by: foo.service",
            "needs-path: [/x/y, /w]",
            "waits-for: z.mount?",
        ],
    ),
    ("/dev/sde /w ext4 x-systemd.requires=/dev/sdf", "dev-sdf.device", &["wait-file: /dev/sdf"]),
    (
        "/dev/sde /r ext4 noauto,x-systemd.required-by=foo.service,x-systemd.mount-timeout=1min30s",
        "r.mount",
        &["required-by: foo.service", "start-timeout: 90s", "before: local-fs.target"],
    ),
    (
        "UUID=c none swap sw,pri=5,discard=pages 0 0",
        "dev-disk-by\\x2duuid-c.swap",
        &[
            "exec-start: /sbin/swapon -p 5 -dpages /dev/disk/by-uuid/c",
            "exec-stop: /sbin/swapoff /dev/disk/by-uuid/c",
            "depends-ms: dev-disk-by\\x2duuid-c.device",
            "required-by: swap.target",
            "!on-failure",
        ],
    ),
    (
        "/var/swap none swap nofail,discard # a file",
        "var-swap.swap",
        &[
            "needs-path: /var/swap",
            "exec-start: /sbin/swapon -d /var/swap",
            "wanted-by: multi-user",
        ],
    ),
    ("/dev/sdf none swap noauto", "dev-sdf.swap", &["!wanted-by", "!required-by"]),
];

#[test]
fn each_kind_of_line_becomes_the_unit_of_systemd_fstab_generator() {
    for (line, name, expected) in LINES {
        let (units, _) = read(line);
        let unit = units.get(*name).unwrap_or_else(|| panic!("{line}: {:?}", units.keys()));
        for key in *expected {
            let has = |start: &str| unit.lines().any(|line| line == start);
            let is_right = match key.strip_prefix('!') {
                Some(key) => !unit.lines().any(|line| line.starts_with(&format!("{key}:"))),
                None => has(key),
            };
            assert!(is_right, "{line}\n{key}\n{unit}");
        }
    }
}

/// A text, its units except devices and checks, and the diagnostics.
const TOLD: &[(&str, &str, &[&str])] = &[
    ("# x\n\n  # y\n\t\r\n", "", &[]),
    ("UUID=a / ext4 errors=remount-ro 0 1\nproc /proc proc defaults 0 0\n", "", &[]),
    (
        "tmpfs /dev/shm/ tmpfs size=1G\n",
        "",
        &["1:7 note: init mounts /dev/shm; \
            only the unit root-rw of a machine's boot set applies `size=1G`"],
    ),
    ("bad\n", "", &["1:1 error: a line has a device and a mount point"]),
    (
        "x rel ext4\nx /a/../b ext4\n",
        "",
        &[
            "1:3 error: `rel` is not an absolute path",
            "2:3 error: `/a/../b` is not an absolute path",
        ],
    ),
    ("none none swap\n", "", &["1:1 error: `none` is not a path of swap space"]),
    (
        "t /a\\000 tmpfs\nt /\u{e4} tmpfs\n",
        "\\xc3\\xa4.mount",
        &["1:3 error: an octal escape that is not UTF-8"],
    ),
    (
        "/dev/a /x ext4 ro\n /dev/b  /x// ext4\n",
        "x.mount",
        &["2:10 error: /x is in line 1 already"],
    ),
    (
        "/dev/a /x ext4 defaults, noatime 0 2\n",
        "x.mount",
        &["1:26 error: `noatime` is not a number of fsck or dump"],
    ),
    ("/img /x ext4 loop 0 2\n", "x.mount", &["1:1 note: this is not a device, and not checked"]),
    (
        "/dev/a /x ext4 usrquota,x-systemd.growfs,x-systemd.new=1\n",
        "x.mount",
        &[
            "1:16 note: usrquota: quotaon is not run",
            "1:25 note: x-systemd.growfs is ignored",
            "1:42 warning: unknown option `x-systemd.new`",
        ],
    ),
    (
        "t /x tmpfs x-systemd.automount,x-systemd.mount-timeout=x,x-systemd.after=?\n",
        "x.mount",
        &[
            "1:12 note: x-systemd.automount: it is mounted at boot, not at the first access",
            "1:32 warning: `x` is not a time",
            "1:58 warning: `?` names no unit",
        ],
    ),
];

#[test]
fn unsupported_part_of_a_line_is_reported_at_its_place() {
    for (text, expected, told) in TOLD {
        let (units, said) = read(text);
        let main = |name: &&String| name.ends_with(".mount") || name.ends_with(".swap");
        let names: Vec<&str> = units.keys().filter(main).map(String::as_str).collect();
        assert_eq!(
            (names.join(" ").as_str(), said),
            (*expected, told.iter().map(ToString::to_string).collect()),
            "{text}"
        );
    }
    let options = format!("t /x tmpfs {}\n", "x-systemd.after=?,".repeat(5000));
    assert_eq!(read(&options).1, ["1:12 error: more than 4096 options"]);
    let (units, said) = fstab::read(&FSTAB.into(), b"/dev/\xff /x ext4\n# \xff\n");
    assert_eq!((units.len(), said.len()), (0, 1));
}

const LOCAL: &str = "/dev/sdb1 /srv/data ext4 defaults 0 2\n";

/// Returns a file system with the units of a boot, the programs, and `files`.
fn with_boot_units(files: &[(&str, &str)]) -> Memory {
    let mut memory = Memory::new(&[
        ("/etc/groundstate/init.yaml", "import-dirs: systemd, fstab\n"),
        (
            "/etc/groundstate/units/boot.yaml",
            "unit: multi-user\nwaits-for: local-fs.target\n---\nunit: local-fs.target\n---\n\
             unit: emergency\nprovides: emergency, emergency.target\nexec-start: /bin/x\n",
        ),
    ]);
    for program in ["/bin/true", "/bin/mount", "/bin/umount", "/bin/mkdir", "/bin/sh"] {
        memory.program(program);
    }
    files.iter().for_each(|(path, text)| memory.put(path, text));
    memory
}

fn said(generation: &Generation) -> Vec<String> {
    generation.diagnostics.iter().map(ToString::to_string).collect()
}

/// Returns the names of units by file.
fn names(generation: &Generation, file: &str) -> Vec<String> {
    let of_file = generation.units.iter().filter(|unit| *unit.at.file == *file);
    of_file.map(|unit| unit.name.to_string()).collect()
}

#[test]
fn broken_line_is_reported_and_the_other_lines_load() {
    let memory = with_boot_units(&[(FSTAB, &format!("{LOCAL}/dev/sdc1\ntmpfs /tmp tmpfs\n"))]);
    let loaded = memory.load(None);
    let told = said(&loaded.generation);
    assert!(!loaded.refused, "{told:?}");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("/etc/fstab:2:1: error: a line has a device"), "{told:?}");
    let expected =
        ["dev-sdb1.device", "srv-data.mount", "systemd-fsck@dev-sdb1.service", "tmp.mount"];
    assert_eq!(names(&loaded.generation, FSTAB), expected);
    let none = with_boot_units(&[]).load(None);
    assert_eq!((said(&none.generation), none.refused), (Vec::new(), false), "no fstab");
    let empty = with_boot_units(&[(FSTAB, "# nothing\n")]).load(None);
    assert_eq!((said(&empty.generation), empty.refused), (Vec::new(), false));
}

#[test]
fn reload_changes_only_the_unit_of_the_changed_line() {
    let mut memory = with_boot_units(&[(FSTAB, &format!("{LOCAL}tmpfs /tmp tmpfs size=1G\n"))]);
    let first = memory.load(None).generation;
    assert_eq!(memory.load(Some(&first)).parsed, 0, "nothing changed");
    memory.put(FSTAB, format!("# new\n{LOCAL}tmpfs /tmp tmpfs size=2G\n"));
    let loaded = memory.load(Some(&first));
    assert_eq!((loaded.parsed, loaded.refused), (1, false));
    let mut machine = Machine::new(Duration::from_secs(90));
    boot(&mut machine, first, &|_| Some(0));
    let second = Arc::new(loaded.generation);
    let reload = Event::Reload { generation: second, no_restart: false, tolerant: false };
    let actions = machine.step(Time::default(), reload).actions;
    let moved = actions.iter().filter(|act| !matches!(act, Action::Note(_)));
    assert_eq!(moved.count(), 0, "a mounted file system stays: {actions:?}");
    let stale = machine.generation().unit_ids().filter(|id| machine.is_stale(*id));
    let stale: Vec<_> =
        stale.map(|id| machine.generation().unit(id).unwrap().name.to_string()).collect();
    assert_eq!(stale, ["tmp.mount"]);
}

#[test]
fn broken_line_keeps_its_unit_and_the_target_that_requires_it() {
    let mut memory = with_boot_units(&[(FSTAB, LOCAL)]);
    let first = memory.load(None).generation;
    memory.put(FSTAB, "/dev/sdb1 /srv/data ext4 defaults 0 x\n");
    let second = memory.load(Some(&first)).generation;
    let unit = second.units.iter().find(|unit| unit.name.as_str() == "srv-data.mount").unwrap();
    assert!(unit.fault.is_some() && !unit.required_by.is_empty());
}

#[test]
fn unit_file_of_the_operator_overrides_fstab_and_fstab_overrides_packages() {
    let mount = "[Mount]\nWhat=/dev/x\nWhere=/srv/data\n";
    for (path, text, overrides) in [
        ("/etc/systemd/system/srv-data.mount", mount, true),
        ("/etc/groundstate/units/srv-data.mount", mount, true),
        ("/etc/groundstate/units/d.yaml", "unit: srv-data.mount\nexec-start: /bin/x\n", true),
        ("/usr/lib/systemd/system/srv-data.mount", mount, false),
    ] {
        let memory = with_boot_units(&[(FSTAB, LOCAL), (path, text)]);
        let loaded = memory.load(None);
        let file = if overrides { path } else { FSTAB };
        assert!(names(&loaded.generation, file).contains(&"srv-data.mount".to_string()), "{path}");
        let told = said(&loaded.generation);
        let notes = told.iter().filter(|said| said.contains("this one is left out"));
        assert_eq!((notes.count(), loaded.refused), (1, false), "{told:?}");
        assert!(!told.iter().any(|said| said.contains("error")), "{told:?}");
    }
}

#[test]
fn drop_in_changes_the_unit_of_an_fstab_line() {
    let drop_in = "/etc/groundstate/units/srv-data.mount.d/a.yaml";
    let memory = with_boot_units(&[(FSTAB, LOCAL), (drop_in, "start-timeout: 7s\n")]);
    let generation = memory.load(None).generation;
    assert_eq!(said(&generation), Vec::<String>::new());
    let unit = generation.units.iter().find(|unit| unit.name.as_str() == "srv-data.mount").unwrap();
    assert_eq!(unit.live.start_timeout, Some(Duration::from_secs(7)));
}

/// Returns the units that a boot starts, in order. A run succeeds, fails, or (`None`) does not
/// exit.
fn boot(
    machine: &mut Machine,
    generation: Generation,
    end: &dyn Fn(&str) -> Option<u8>,
) -> Vec<String> {
    let now = Time::default();
    let generation = Arc::new(generation);
    let mut events = vec![Event::Boot { generation, targets: vec![] }];
    let mut started = Vec::new();
    while let Some(event) = events.pop() {
        for action in machine.step(now, event).actions {
            let Action::Start { unit, name, run } = action else { continue };
            if machine.generation().unit(unit).unwrap().kind == Kind::Oneshot {
                let code = end(name.as_str());
                events.extend(code.map(|code| Event::Ended(run, Exit::Code(code))));
            }
            started.push(name.to_string());
        }
    }
    started
}

#[test]
fn failed_check_of_a_needed_file_system_starts_the_emergency_shell() {
    let fails = |name: &str| Some(u8::from(name.starts_with("systemd-fsck@")));
    for (line, shell, target) in [
        ("/dev/sdb1 /srv/data ext4 defaults 0 2\n", true, State::Failed),
        ("/dev/sdb1 /srv/data ext4 nofail 0 2\n", false, State::Running),
        ("/dev/sdb1 /srv/data ext4 _netdev 0 2\n", false, State::Running),
    ] {
        let mut machine = Machine::new(Duration::from_secs(90));
        let generation = with_boot_units(&[(FSTAB, line)]).load(None).generation;
        let started = boot(&mut machine, generation, &fails);
        let has = |name: &str| started.iter().any(|started| started == name);
        assert!(has("systemd-fsck@dev-sdb1.service"), "{line}: {started:?}");
        assert_eq!(
            (has("emergency"), has("srv-data.mount")),
            (shell, false),
            "{line}: {started:?}"
        );
        let id = machine.generation().find_unit("local-fs.target").unwrap();
        assert_eq!(machine.state(id), target, "{line}");
    }
}

#[test]
fn boot_waits_for_a_needed_device_but_not_for_a_nofail_one() {
    for (line, waits) in [("/dev/sdb1 /srv ext4\n", true), ("/dev/sdb1 /srv ext4 nofail\n", false)]
    {
        let mut machine = Machine::new(Duration::from_secs(90));
        let generation = with_boot_units(&[(FSTAB, line)]).load(None).generation;
        let started = boot(&mut machine, generation, &|_| None);
        assert!(started.iter().any(|name| name == "dev-sdb1.device"), "{line}: {started:?}");
        let is_booted = started.iter().any(|name| name == "multi-user");
        assert_eq!(is_booted, !waits, "{line}: {started:?}");
    }
}

/// A failed dependency does not start the `on-failure` of the unit that needs it. So the `nofail`
/// line must have an `on-failure` of its own, or no shell would start.
#[test]
fn nofail_line_above_a_required_line_is_required() {
    let units_of_data = ["data.mount", "dev-sdb.device", "systemd-fsck@dev-sdb.service"];
    let start_emergency = |text: &str| {
        let (units, _) = read(text);
        units_of_data.map(|unit| units[unit].contains("on-failure: emergency.target"))
    };
    for below in ["/dev/sdc /data/sub ext4", "/data/www /var/www none bind", "/data /srv none bind"]
    {
        assert_eq!(
            start_emergency(&format!("/dev/sdb /data ext4 nofail 0 2\n{below}\n")),
            [true; 3],
            "{below}"
        );
    }
    for below in ["/dev/sdc /data/sub ext4 nofail", "/dev/sdc /datum ext4", "nas:/x /data/x nfs"] {
        assert_eq!(
            start_emergency(&format!("/dev/sdb /data ext4 nofail 0 2\n{below}\n")),
            [false; 3],
            "{below}"
        );
    }
}

#[test]
fn entries_have_the_facts_of_each_readable_line() {
    let text = "# c\nLABEL=a /a ext4 nofail 0 2\nhalf\nnas:/x /x nfs noauto\n";
    let entries = fstab::entries(text.as_bytes());
    let facts = entries.iter().map(|entry| {
        let flags = (entry.check, entry.at_boot, entry.soft, entry.remote);
        (entry.line, entry.place.as_str(), entry.kind.as_str(), flags)
    });
    let expected = [
        (2, "/a", "ext4", (true, true, true, false)),
        (4, "/x", "nfs", (false, false, false, true)),
    ];
    assert_eq!(facts.collect::<Vec<_>>(), expected);
    let nodes: Vec<_> = entries.iter().map(|entry| entry.node.as_deref()).collect();
    assert_eq!(nodes, [Some("/dev/disk/by-label/a"), None]);
}

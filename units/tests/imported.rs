//! Systemd unit files among native ones, and templates of both: which units exist, their names, and
//! the targets that want them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic fails the test")]

mod memory;

use groundstate_units::spec::{DependencyKind, Run};
use groundstate_units::text::diagnostic::Severity;
use groundstate_units::unit::generation::{Generation, Unit};
use groundstate_units::unit::policy::Policy;
use memory::Memory;

const WEB: &str = "[Unit]\nAfter=network.target db.service\nRequires=db.service\n[Service]\n\
                   ExecStart=/bin/x serve\n[Install]\nWantedBy=multi-user.target\nAlias=www.service\n";
const DB: &str = "[Service]\nType=forking\nPIDFile=/run/db.pid\nExecStart=/bin/x\n";
const GOAL: &str = "unit: multi-user\n";
const UNITS: &str = "/etc/groundstate/units";

fn set(files: &[(&str, &str)]) -> Memory {
    let mut memory = Memory::new(&[]);
    for (path, text) in files {
        let path = if path.starts_with('/') { path.to_string() } else { format!("{UNITS}/{path}") };
        memory.put(&path, text);
    }
    memory
}

fn names(generation: &Generation) -> Vec<&str> {
    generation.units.iter().map(|unit| unit.name.as_str()).collect()
}

#[track_caller]
fn unit<'g>(generation: &'g Generation, name: &str) -> &'g Unit {
    assert!(names(generation).contains(&name), "no {name} in {:?}", names(generation));
    generation.units.iter().find(|unit| unit.name.as_str() == name).unwrap()
}

fn targets<'g>(
    generation: &'g Generation,
    ids: &[groundstate_units::unit::generation::TargetId],
) -> Vec<&'g str> {
    ids.iter().map(|id| generation.targets[id.0 as usize].name.as_str()).collect()
}

fn edges(generation: &Generation, unit: &Unit, kind: DependencyKind) -> Vec<String> {
    let of_kind = unit.dependencies.iter().filter(|edge| edge.kind == kind);
    of_kind.map(|edge| generation.targets[edge.target.0 as usize].name.to_string()).collect()
}

/// An imported systemd unit has two names; either of them masks it.
#[test]
fn imported_unit_is_masked_by_its_short_name_too() {
    use groundstate_units::graph::Graph;
    let memory = set(&[("db.service", DB), ("multi-user.yaml", GOAL)]);
    let generation = memory.load(None).generation;
    let id = generation
        .unit_ids()
        .find(|id| generation.unit(*id).unwrap().name.as_str() == "db.service");
    for name in ["db", "db.service"] {
        let mask = [groundstate_units::text::name::Name::new(name).unwrap()].into();
        let (graph, _) = Graph::resolve(&generation, &Policy { mask, ..Policy::default() });
        assert!(graph.is_masked(id.unwrap()), "by {name}");
    }
}

/// The example of fleet's documentation: the unit follows another service, which pulls it in.
#[test]
fn service_wanted_by_the_service_that_it_binds_to_is_pulled_in() {
    let beside = "[Unit]\nBindsTo=db.service\nAfter=db.service\n[Service]\nExecStart=/bin/x\n\
                  [Install]\nWantedBy=db.service\n";
    let goal = "unit: multi-user\nwaits-for: db.service\n";
    let memory = set(&[("db.service", DB), ("beside.service", beside), ("multi-user.yaml", goal)]);
    assert_eq!(errors(&memory.load(None).generation), Vec::<String>::new());
    assert_eq!(needed(&memory), ["beside.service", "db.service", "multi-user"]);
}

/// Returns the units that the goal pulls in, as the machine computes them.
fn needed(memory: &Memory) -> Vec<String> {
    use groundstate_units::machine::Machine;
    use groundstate_units::machine::event::Event;
    use std::sync::Arc;
    let generation = memory.load(None).generation;
    let mut machine = Machine::new(std::time::Duration::from_secs(90));
    let now = groundstate_units::text::time::Time::default();
    machine.step(now, Event::Boot { generation: Arc::new(generation), targets: vec![] });
    let generation = machine.generation().clone();
    let needed = generation.unit_ids().filter(|id| machine.is_needed(*id));
    needed.map(|id| generation.unit(id).unwrap().name.to_string()).collect()
}

fn errors(generation: &Generation) -> Vec<String> {
    let errors = generation.diagnostics.iter().filter(|said| said.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}

#[test]
fn systemd_file_in_a_unit_directory_becomes_a_unit_that_the_goal_wants() {
    let memory = set(&[("goal.yaml", GOAL), ("web.service", WEB), ("db.service", DB)]);
    let loaded = memory.load(None);
    let generation = &loaded.generation;
    assert_eq!(errors(generation), Vec::<String>::new());
    assert!(!loaded.refused);
    let web = unit(generation, "web.service");
    assert_eq!(targets(generation, &web.provides), ["web", "web.service", "www", "www.service"]);
    assert_eq!(edges(generation, web, DependencyKind::DependsMs), ["db.service", "sysinit.target"]);
    assert_eq!(needed(&memory), ["db.service", "multi-user", "web.service"]);
}

#[test]
fn default_target_is_the_goal_if_no_unit_is_multi_user() {
    let settings = ("/etc/groundstate/init.yaml", "default-target: all\n");
    let memory =
        set(&[settings, ("all.yaml", "unit: all\n"), ("web.service", WEB), ("db.service", DB)]);
    assert_eq!(needed(&memory), ["all", "db.service", "web.service"]);
}

#[test]
fn short_name_belongs_to_the_native_unit_or_to_neither_of_two() {
    let native = ("web.yaml", "unit: web\ntype: virtual\n");
    let generation = set(&[native, ("web.service", WEB), ("db.service", DB)]).load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    let web = unit(&generation, "web.service");
    assert_eq!(targets(&generation, &web.provides), ["web.service", "www", "www.service"]);
    let target = ("db.target", "[Unit]\n");
    let generation = set(&[target, ("db.service", DB)]).load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    assert_eq!(targets(&generation, &unit(&generation, "db.service").provides), ["db.service"]);
}

#[test]
fn drop_ins_masks_and_aliases_are_honoured() {
    let mut memory = set(&[
        ("web.service", WEB),
        ("db.service", DB),
        ("web.service.d/10-a.conf", "[Service]\nExecStart=\nExecStart=/bin/x other\nUser=www\n"),
        ("service.d/05-all.conf", "[Service]\nUMask=077\n"),
        ("/run/groundstate/units/web.service.d/10-a.conf", "[Service]\nUser=nobody\n"),
        ("off.service", ""),
    ]);
    memory.link(&format!("{UNITS}/httpd.service"), &format!("{UNITS}/web.service"));
    memory.link(&format!("{UNITS}/gone.service"), "/dev/null");
    memory.put("/usr/lib/groundstate/units/gone.service", WEB);
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    assert_eq!(names(&generation), ["db.service", "web.service"]);
    let web = unit(&generation, "web.service");
    assert!(targets(&generation, &web.provides).contains(&"httpd.service"));
    let run = Run::decode(&web.run).unwrap();
    assert_eq!((run.exec_start.len(), run.exec_start[0].words.len(), run.umask), (1, 2, 0o77));
    assert_eq!(run.credentials.unwrap().ids.unwrap().uid, Some(33));
}

/// Returns the first argument of a unit's first start command.
fn argument(generation: &Generation, name: &str) -> String {
    let run = Run::decode(&unit(generation, name).run).unwrap();
    format!("{:?}", run.exec_start[0].words[1])
}

#[test]
fn drop_in_of_an_instance_hides_that_of_its_template_by_name() {
    let run = |word: &str| format!("[Service]\nExecStart=\nExecStart=/bin/x {word}\n");
    let (early, late) = ("/etc/systemd/system", "/lib/systemd/system");
    let goal =
        "unit: multi-user\nwaits-for: [t@i.service, t@j.service, a-b-c.service, a-d.service]\n";
    let mut memory = set(&[
        ("/etc/groundstate/init.yaml", "import-dirs: systemd\n"),
        ("goal.yaml", goal),
        (&format!("{late}/t@.service"), &run("file")),
        (&format!("{late}/a-b-c.service"), &run("file")),
        (&format!("{late}/a-d.service"), &run("file")),
        (&format!("{early}/t@.service.d/x.conf"), &run("template")),
        (&format!("{early}/t@i.service.d/x.conf"), &run("instance")),
        (&format!("{late}/t@j.service.d/x.conf"), &run("later-directory")),
        (&format!("{late}/a-.service.d/x.conf"), &run("prefix")),
        (&format!("{late}/a-b-.service.d/x.conf"), &run("longer-prefix")),
        (&format!("{early}/service.d/x.conf"), &run("type")),
    ]);
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    for (name, word) in [
        ("t@i.service", "instance"),
        ("t@j.service", "template"),
        ("a-b-c.service", "longer-prefix"),
        ("a-d.service", "prefix"),
    ] {
        let found = argument(&generation, name);
        assert!(found.contains(&format!("\"{word}\"")), "{name}: {found}");
    }
    // A drop-in of the whole type counts too. A link to /dev/null hides drop-ins of lower
    // precedence.
    memory.put(&format!("{late}/service.d/10-y.conf"), "[Service]\nUMask=077\n");
    memory.link(&format!("{early}/a-d.service.d/x.conf"), "/dev/null");
    let generation = memory.load(None).generation;
    assert!(argument(&generation, "a-d.service").contains("\"file\""));
    assert_eq!(Run::decode(&unit(&generation, "a-d.service").run).unwrap().umask, 0o77);
}

#[test]
fn native_unit_overrides_an_imported_one_of_its_name_with_one_note() {
    let native = ("bus.yaml", "unit: bus\nprovides: [bus, dbus.service, www.service]\n");
    let mut memory = set(&[
        ("/etc/groundstate/init.yaml", "import-dirs: systemd\n"),
        ("goal.yaml", "unit: multi-user\nwaits-for: [dbus.service, web.service]\n"),
        native,
        ("/lib/systemd/system/dbus.service", WEB),
        ("/lib/systemd/system/web.service", WEB),
        ("/lib/systemd/system/db.service", DB),
    ]);
    let loaded = memory.load(None);
    let generation = &loaded.generation;
    assert_eq!(errors(generation), Vec::<String>::new());
    assert_eq!(names(generation), ["bus", "db.service", "multi-user", "web.service"]);
    let web = unit(generation, "web.service");
    assert!(!targets(generation, &web.provides).contains(&"www.service"));
    let notes = |generation: &Generation| {
        let said = generation.diagnostics.iter().filter(|said| said.code == "native-unit");
        said.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(notes(generation).len(), 1, "{:?}", notes(generation));
    let again = memory.load(Some(generation)).generation;
    assert_eq!((names(&again), notes(&again)), (names(generation), notes(generation)));
    memory.remove(&format!("{UNITS}/bus.yaml"));
    let after = memory.load(Some(&again)).generation;
    assert!(names(&after).contains(&"dbus.service") && notes(&after).is_empty());
    let web = unit(&after, "web.service");
    assert!(targets(&after, &web.provides).contains(&"www.service"));
}

#[test]
fn local_drop_in_of_a_unit_that_is_not_from_systemd_is_reported() {
    let mut memory = set(&[
        ("/etc/groundstate/init.yaml", "import-dirs: systemd, fstab\n"),
        ("goal.yaml", "unit: multi-user\nwaits-for: [bus, getty@tty1, web.service, t@i.service]\n"),
        ("bus.yaml", "unit: bus\nprovides: [bus, dbus.service]\n"),
        ("emergency.yaml", "unit: emergency\nprovides: [emergency, emergency.target]\n"),
        ("logins.yaml", "unit: getty@\nprovides: [getty@%i, getty@%i.service]\n"),
        ("users.yaml", "unit: user@\nprovides: [user@%i, user@%i.service]\n"),
        ("tmp.yaml", "unit: tmp-filesystem\n"),
        ("/etc/fstab", "tmpfs /srv tmpfs\n"),
        ("/lib/systemd/system/dbus.service", DB),
        ("/lib/systemd/system/web.service", WEB),
        ("/lib/systemd/system/db.service", DB),
        ("/lib/systemd/system/t@.service", DB),
    ]);
    let told = |memory: &Memory| -> Vec<String> {
        let generation = memory.load(None).generation;
        let said = generation.diagnostics.iter().filter(|said| said.code == "unused-drop-in");
        let line = said.map(|said| format!("{}: {}: {}", said.at.file, said.message, said.hint));
        line.map(|line| line.replace("/etc/systemd/system/", "")).collect()
    };
    let etc = "/etc/systemd/system";
    for path in [
        &format!("{etc}/web.service.d/a.conf"),
        &format!("{etc}/t@i.service.d/a.conf"),
        &format!("{etc}/t@.service.d/a.conf"),
        &format!("{etc}/service.d/a.conf"),
        &format!("{etc}/absent.service.d/a.conf"),
        &format!("{etc}/tmp.mount.d/a.conf"),
        "/usr/lib/systemd/system/dbus.service.d/a.conf",
    ] {
        memory.put(path, "[Unit]\n");
    }
    assert_eq!(told(&memory), [""; 0]);
    let no_effect = "this drop-in has no effect";
    let hint = "write native keys in /etc/groundstate/units";
    for (path, fact, hint) in [
        (
            "dbus.service.d/a.conf",
            "`dbus.service` is a unit of /etc/groundstate/units/bus.yaml",
            format!("{hint}/bus.d/a.yaml"),
        ),
        (
            "emergency.service.d/b.conf",
            "`emergency.service` is a unit of /etc/groundstate/units/emergency.yaml",
            format!("{hint}/emergency.d/b.yaml"),
        ),
        (
            "getty@.service.d/a.conf",
            "`getty@` is a native template",
            format!("{hint}/getty@.d/a.yaml"),
        ),
        (
            "getty@tty1.service.d/a.conf",
            "`getty@` is a native template",
            format!("{hint}/getty@.d/a.yaml"),
        ),
        (
            "getty@tty7.service.d/a.conf",
            "`getty@` is a native template",
            format!("{hint}/getty@.d/a.yaml"),
        ),
        (
            "srv.mount.d/a.conf",
            "`srv.mount` is a unit of /etc/fstab",
            format!("{hint}/srv.mount.d/a.yaml"),
        ),
        (
            "systemd-journald.service.d/a.conf",
            "`systemd-journald.service` of systemd is not imported",
            "change the native unit that takes its place".to_string(),
        ),
        (
            "user-.slice.d/a.conf",
            "`user-.slice`: slices and scopes are not units here",
            "set the limits in each of its units".to_string(),
        ),
        (
            "user@.service.d/a.conf",
            "`user@` is a native template",
            format!("{hint}/user@.d/a.yaml"),
        ),
    ] {
        memory.put(&format!("{etc}/{path}"), "[Service]\n");
        assert_eq!(told(&memory), [format!("{path}: {fact}; {no_effect}: {hint}")]);
        memory.remove(&format!("{etc}/{path}"));
    }
    memory.put("/run/systemd/system/dbus.service.d/a.conf", "[Unit]\n");
    assert_eq!(told(&memory).len(), 1);
    memory.put("/etc/fstab", "tmpfs /tmp tmpfs\n");
    assert_eq!(told(&memory).len(), 2, "the line is the unit tmp.mount");
    memory.put("/etc/fstab", "");
    memory.remove("/etc/groundstate/units/tmp.yaml");
    assert_eq!(told(&memory).len(), 2, "no unit reads the drop-in of tmp.mount");
}

#[test]
fn replaced_units_of_systemd_and_slices_are_not_imported() {
    let mut memory =
        set(&[("/etc/groundstate/init.yaml", "import-dirs: systemd\n"), ("goal.yaml", GOAL)]);
    for name in [
        "syslog.socket",
        "runlevel0.target",
        "runlevel6.target",
        "system-update-pre.target",
        "system-update-cleanup.service",
        "user.slice",
        "machine.slice",
        "tmp.mount",
        "system-systemd\\x2dcryptsetup.slice",
        "soft-reboot.target",
        "systemd-udevd.service",
        "app-web.slice",
    ] {
        memory.put(&format!("/lib/systemd/system/{name}"), DB);
    }
    let link = "/etc/systemd/system/dbus-org.example.time1.service";
    memory.link(link, "/lib/systemd/system/systemd-timedated.service");
    memory.put("/lib/systemd/system/systemd-timedated.service", DB);
    let generation = memory.load(None).generation;
    assert_eq!(names(&generation), ["multi-user"]);
    let told: Vec<&str> = generation.diagnostics.iter().map(|said| &*said.at.file).collect();
    assert_eq!(
        told,
        ["/lib/systemd/system/app-web.slice"],
        "its limits are lost, and that is said"
    );
}

/// networkd, resolved and timesyncd run without systemd as PID 1.
#[test]
fn services_of_systemd_that_need_no_systemd_are_imported() {
    let mut memory =
        set(&[("/etc/groundstate/init.yaml", "import-dirs: systemd\n"), ("goal.yaml", GOAL)]);
    for name in ["systemd-networkd.service", "systemd-networkd.socket", "systemd-hostnamed.service"]
    {
        memory.put(&format!("/lib/systemd/system/{name}"), DB);
    }
    let alias = "/etc/systemd/system/dbus-org.freedesktop.network1.service";
    memory.link(alias, "/lib/systemd/system/systemd-networkd.service");
    let generation = memory.load(None).generation;
    assert_eq!(
        names(&generation),
        ["multi-user", "systemd-networkd.service", "systemd-networkd.socket"]
    );
    let networkd = unit(&generation, "systemd-networkd.service");
    let provided = targets(&generation, &networkd.provides);
    assert!(provided.contains(&"dbus-org.freedesktop.network1.service"), "{provided:?}");
}

#[test]
fn units_of_generators_are_read_in_the_order_of_systemd() {
    let mut memory =
        set(&[("/etc/groundstate/init.yaml", "import-dirs: systemd\n"), ("goal.yaml", GOAL)]);
    let order = [
        ("a", "/run/groundstate/generator.early", "/etc/systemd/system"),
        ("b", "/etc/systemd/system", "/run/groundstate/generator"),
        ("c", "/run/systemd/system", "/run/groundstate/generator"),
        ("d", "/run/groundstate/generator", "/usr/local/lib/systemd/system"),
        ("e", "/usr/lib/systemd/system", "/run/groundstate/generator.late"),
    ];
    for (name, first, second) in order {
        memory.put(&format!("{first}/{name}.service"), DB);
        memory.put(&format!("{second}/{name}.service"), DB);
    }
    let link = "/run/groundstate/generator.late/multi-user.target.wants/e.service";
    memory.link(link, "/usr/lib/systemd/system/e.service");
    let generation = memory.load(None).generation;
    for (name, first, _) in order {
        let name = format!("{name}.service");
        assert_eq!(*unit(&generation, &name).at.file, format!("{first}/{name}"));
    }
    assert_eq!(needed(&memory), ["e.service", "multi-user"]);
}

#[test]
fn unit_wanted_by_a_shutdown_target_is_reported_as_never_started() {
    let unit = |target: &str| {
        format!("[Service]\nType=oneshot\nExecStart=/bin/x\n[Install]\nWantedBy={target}\n")
    };
    for target in [
        "poweroff.target",
        "shutdown.target",
        "reboot.target",
        "halt.target",
        "kexec.target",
        "sleep.target",
        "suspend.target",
        "final.target",
    ] {
        let memory = set(&[("goal.yaml", GOAL), ("bye.service", &unit(target))]);
        let generation = memory.load(None).generation;
        let told = generation.diagnostics.iter().any(|said| {
            said.at.line == 5
                && said.severity == Severity::Warning
                && said.message.contains("starts no units")
                && said.hint.contains("ExecStop=")
        });
        assert!(told, "{target}: {:?}", generation.diagnostics);
        assert_eq!(names(&generation), ["bye.service", "multi-user"], "no stand-in");
    }
    let mut memory = set(&[("goal.yaml", GOAL), ("bye.service", DB)]);
    let link = format!("{UNITS}/reboot.target.wants/bye.service");
    memory.link(&link, &format!("{UNITS}/bye.service"));
    let generation = memory.load(None).generation;
    let told = generation.diagnostics.iter().any(|said| *said.at.file == *link);
    assert!(told, "{:?}", generation.diagnostics);
}

#[test]
fn escapes_in_unit_names_are_kept() {
    let web = "[Unit]\nRequires=srv-my\\x2ddata.mount\nAfter=srv-my\\x2ddata.mount\n\
               Wants=t@x\\x2dy.service\n[Service]\nExecStart=/bin/x\nSockets=we\\x2db.socket\n\
               [Install]\nWantedBy=multi-user.target q\\x2d.target\nAlias=al\\x2dias.service\n";
    let mount = "[Mount]\nWhat=/dev/x\nWhere=/srv/my-data\n";
    let socket = "[Socket]\nListenStream=/run/x\nService=t@q\\x2dz.service\n";
    let mut memory = set(&[
        ("goal.yaml", GOAL),
        ("web.service", web),
        ("srv-my\\x2ddata.mount", mount),
        ("t@.service", "[Service]\nExecStart=/bin/x %i %I\n"),
        ("we\\x2db.socket", socket),
    ]);
    memory.link(
        &format!("{UNITS}/multi-user.target.wants/t@c\\x2dd.service"),
        &format!("{UNITS}/t@.service"),
    );
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    let web = unit(&generation, "web.service");
    let milestones = edges(&generation, web, DependencyKind::DependsMs);
    assert!(milestones.contains(&"srv-my\\x2ddata.mount".to_string()), "{milestones:?}");
    assert!(milestones.contains(&"we\\x2db.socket".to_string()), "{milestones:?}");
    assert_eq!(edges(&generation, web, DependencyKind::Wants), ["t@x\\x2dy.service"]);
    assert!(targets(&generation, &web.wanted_by).contains(&"q\\x2d.target"));
    assert!(targets(&generation, &web.provides).contains(&"al\\x2dias.service"));
    for name in ["t@x\\x2dy.service", "t@q\\x2dz.service", "t@c\\x2dd.service"] {
        unit(&generation, name);
    }
    let run = Run::decode(&unit(&generation, "t@c\\x2dd.service").run).unwrap();
    let words = format!("{:?}", run.exec_start[0].words);
    assert!(words.contains("c\\\\x2dd") && words.contains("\"c-d\""), "{words}");
    unit(&generation, "srv-my\\x2ddata.mount");
}

#[test]
fn import_directory_adds_all_units_but_systemds_own_and_pulls_in_enabled_ones() {
    let mut memory = set(&[
        ("/etc/groundstate/init.yaml", "import-dirs: systemd\n"),
        ("goal.yaml", GOAL),
        ("/lib/systemd/system/web.service", WEB),
        ("/lib/systemd/system/db.service", DB),
        (
            "/lib/systemd/system/cron.service",
            "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n",
        ),
        ("/lib/systemd/system/getty@.service", "[Service]\nExecStart=/bin/x\n"),
        ("/lib/systemd/system/systemd-udevd.service", "[Service]\nExecStart=/bin/x\n"),
        ("/lib/systemd/system/native.yaml", "unit: native\n"),
    ]);
    memory.link(
        "/etc/systemd/system/multi-user.target.wants/cron.service",
        "/lib/systemd/system/cron.service",
    );
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    assert_eq!(names(&generation), ["cron.service", "db.service", "multi-user", "web.service"]);
    assert_eq!(needed(&memory), ["cron.service", "multi-user"]);
    memory.put("/etc/groundstate/policy.yaml", "enable: [web]\ndisable: [cron]\n");
    assert_eq!(needed(&memory), ["db.service", "multi-user", "web.service"]);
}

#[test]
fn template_gets_the_instances_that_other_units_name() {
    let memory = set(&[
        ("goal.yaml", "unit: multi-user\ndepends-on: getty@tty1, echo@a\n"),
        ("getty@.service", "[Unit]\nWants=log@%i.service\n[Service]\nExecStart=/bin/x %I\n"),
        ("log@.service", "[Service]\nExecStart=/bin/x %i\n"),
        (
            "echo.yaml",
            "unit: echo@\nexec-start: /bin/x %i 100%%\nprovides: '%N-target'\nenv:\n  A: '%p'\nwants: echo@b\n",
        ),
    ]);
    let generation = memory.load(None).generation;
    // `echo@a` does not provide its own name, so no unit provides the goal's dependency.
    assert_eq!(
        names(&generation),
        ["echo@a", "echo@b", "getty@tty1.service", "log@tty1.service", "multi-user"]
    );
    let echo = unit(&generation, "echo@a");
    assert_eq!(targets(&generation, &echo.provides), ["echo@a-target"]);
    let run = Run::decode(&echo.run).unwrap();
    assert_eq!(run.env, [("A".to_string(), "echo".to_string())]);
    assert_eq!(run.exec_start[0].words.len(), 3);
}

#[test]
fn instance_is_requested_by_a_link_a_goal_or_its_template() {
    let mut memory = set(&[
        ("/etc/groundstate/init.yaml", "default-target: job@night\n"),
        ("job.yaml", "unit: job@\nexec-start: /bin/x %i\n"),
        (
            "tty@.service",
            "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\nDefaultInstance=1\n",
        ),
    ]);
    memory
        .link(&format!("{UNITS}/job@night.wants/tty@2.service"), &format!("{UNITS}/tty@.service"));
    let generation = memory.load(None).generation;
    assert_eq!(names(&generation), ["job@night", "tty@1.service", "tty@2.service"]);
    assert_eq!(needed(&memory), ["job@night", "tty@1.service", "tty@2.service"]);
}

#[test]
fn on_failure_of_a_unit_creates_the_named_instance() {
    let memory = set(&[
        ("bad.service", "[Unit]\nOnFailure=alarm@%n.service\n[Service]\nExecStart=/bin/x\n"),
        // The alarm unit names an alarm too; the chain stops after the first.
        ("alarm@.service", "[Unit]\nOnFailure=alarm@%n.service\n[Service]\nExecStart=/bin/x %i\n"),
    ]);
    let loaded = memory.load(None);
    assert!(!loaded.refused);
    assert_eq!(names(&loaded.generation), ["alarm@bad.service.service", "bad.service"]);
}

#[test]
fn templates_that_request_instances_endlessly_stop_at_the_limit() {
    let memory =
        set(&[("a.yaml", "unit: a@\nwants: a@%ix, a@%iy\n"), ("b.yaml", "unit: b\nwants: a@1\n")]);
    let loaded = memory.load(None);
    assert!(loaded.refused);
    assert!(errors(&loaded.generation)[0].contains("instances"));
}

#[test]
fn instances_above_the_size_limit_of_a_template_are_broken_alone() {
    let template =
        format!("unit: big@\nexec-start: /bin/x %i\nenv: {{A: {}}}\n", "x".repeat(100_000));
    let wants: Vec<String> = (100..400).map(|n| format!("big@{n}")).collect();
    let goal = format!("unit: multi-user\nwants: [web, {}]\n", wants.join(", "));
    let web = "unit: web\nexec-start: /bin/x\n";
    let memory = set(&[("goal.yaml", &goal), ("big@.yaml", &template), ("web.yaml", web)]);
    let loaded = memory.load(None);
    assert!(!loaded.refused);
    let generation = &loaded.generation;
    assert_eq!(generation.units.len(), 302);
    for fine in ["web", "multi-user", "big@100"] {
        assert!(unit(generation, fine).fault.is_none(), "{fine}");
    }
    let fault = unit(generation, "big@399").fault.as_ref().unwrap();
    assert!(fault.message.contains("template big@ take more than 16384 KiB"), "{}", fault.message);
    assert!(generation.encode().len() < 20 << 20);
    assert_eq!(errors(generation).len(), 1, "{:?}", errors(generation));
}

#[test]
fn expensive_patterns_above_the_limit_break_their_units() {
    let file = |n: usize| {
        // The first eleven units share a pattern, which counts once.
        let pattern = if n < 10 { 10 } else { n };
        (
            format!("u{n:03}.yaml"),
            format!(
                "unit: u{n:03}\nexec-start: /bin/x\nready-grep: '(a{{9}}b){{9}}(c){{9}}(d){{99}}{pattern}'\n"
            ),
        )
    };
    let files: Vec<(String, String)> = (0..60).map(file).collect();
    let mut files: Vec<(&str, &str)> =
        files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect();
    files.push((
        "wrong.yaml",
        "unit: a-wrong\nexec-start: /bin/x\nready-grep: 'x{999}{999}{999}'\n",
    ));
    let loaded = set(&files).load(None);
    assert!(!loaded.refused);
    let broken = loaded.generation.units.iter().filter(|unit| unit.fault.is_some());
    let broken: Vec<&str> = broken.map(|unit| unit.name.as_str()).collect();
    // The loader compiles 33 patterns: the wrong one, that of the first eleven units, and 31
    // others.
    let beyond: Vec<String> = (42..60).map(|n| format!("u{n:03}")).collect();
    assert_eq!(broken, [&["a-wrong".to_string()][..], &beyond].concat());
    let errors = errors(&loaded.generation);
    assert!(errors.iter().any(|said| said.contains("too expensive to compile")), "{errors:?}");
}

#[test]
fn error_in_an_imported_file_breaks_only_its_unit_and_is_reported_at_its_line() {
    let bad = ("bad.service", "[Service]\nExecStart=/bin/sh -c 'x\n");
    let memory = set(&[("goal.yaml", GOAL), bad, ("web.service", WEB), ("db.service", DB)]);
    let loaded = memory.load(None);
    assert!(!loaded.refused);
    let errors: Vec<_> =
        loaded.generation.diagnostics.iter().filter(|d| d.severity == Severity::Error).collect();
    assert_eq!(
        (errors.len(), errors[0].at.line, errors[0].excerpt.as_str()),
        (1, 2, "ExecStart=/bin/sh -c 'x")
    );
    assert!(unit(&loaded.generation, "bad.service").fault.is_some());
}

#[test]
fn wanted_target_of_systemd_gets_a_substitute_unit() {
    let timer = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n";
    let up = "[Unit]\nWants=network.target\nBefore=network.target\n[Service]\nType=oneshot\nExecStart=/bin/x\n[Install]\nWantedBy=network-online.target\n";
    let memory =
        set(&[("goal.yaml", GOAL), ("job.timer", timer), ("job.service", DB), ("up.service", up)]);
    assert_eq!(needed(&memory), ["job.timer", "multi-user", "timers.target"]);
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    let want = "[Unit]\nWants=network-online.target\nAfter=network-online.target network.target\n[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=multi-user.target\n";
    let mut memory = memory;
    memory.put(&format!("{UNITS}/client.service"), want);
    assert_eq!(
        needed(&memory),
        [
            "client.service",
            "job.timer",
            "multi-user",
            "network-online.target",
            "network.target",
            "timers.target",
            "up.service"
        ]
    );
}

#[test]
fn ring_of_imported_orders_is_opened_with_a_warning() {
    let one = |after: &str| format!("[Unit]\nAfter={after}\n[Service]\nExecStart=/bin/x\n");
    let memory = set(&[("a.service", &one("b.service")), ("b.service", &one("a.service"))]);
    let generation = memory.load(None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    assert!(
        generation
            .diagnostics
            .iter()
            .any(|said| said.severity == Severity::Warning && said.at.line == 2)
    );
}

#[test]
fn unchanged_imported_file_is_not_read_again_and_a_new_link_applies() {
    let mut memory = set(&[("goal.yaml", GOAL), ("web.service", WEB), ("db.service", DB)]);
    // The loader looks for a missing program at each load.
    memory.program("/bin/x");
    let first = memory.load(None).generation;
    let second = memory.load(Some(&first));
    assert_eq!(second.parsed, 0, "{:?}", memory.read.lock().unwrap().len());
    assert_eq!(second.generation.units, first.units);
    memory.link(&format!("{UNITS}/multi-user.wants/db.service"), &format!("{UNITS}/db.service"));
    let third = memory.load(Some(&first));
    assert_eq!(third.parsed, 1);
    let db = unit(&third.generation, "db.service");
    assert_eq!(targets(&third.generation, &db.wanted_by), ["multi-user"]);
}

#[test]
fn imported_requirement_without_a_provider_is_a_warning() {
    let loaded = set(&[("web.service", WEB)]).load(None);
    let said = &loaded.generation.diagnostics;
    let missing: Vec<_> = said.iter().filter(|said| said.code == "missing-target").collect();
    assert_eq!((missing.len(), missing[0].severity, missing[0].at.line), (1, Severity::Warning, 3));
    assert!(!loaded.refused);
}

#[test]
fn systemd_file_is_checked_alone_without_other_units() {
    use groundstate_units::load::{Options, load};
    let memory = set(&[("/tmp/web.service", WEB)]);
    let options = Options::files(vec!["/tmp/web.service".to_string()], 0);
    let generation = load(&memory, &options, None).generation;
    assert_eq!(errors(&generation), Vec::<String>::new());
    assert_eq!(names(&generation), ["web.service"]);
    assert_eq!(generation.policy, Policy::default());
}

/// Only a target waits for the units installed into it, see systemd.target(5). A native wanted-by
/// means waits-for, whatever the name of its target.
#[test]
fn unit_installed_into_a_service_is_pulled_in_but_not_waited_for() {
    use groundstate_units::graph::Graph;
    const SIDE: &str = "[Service]\nExecStart=/bin/x\n[Install]\nWantedBy=db.service site.target\n";
    let memory = set(&[
        ("db.service", DB),
        ("side.service", SIDE),
        ("site.target", "[Unit]\n"),
        ("near.yaml", "unit: near\nwanted-by: db.service\n"),
        ("multi-user.yaml", GOAL),
    ]);
    let generation = memory.load(None).generation;
    let side = unit(&generation, "side.service");
    assert_eq!(targets(&generation, &side.pulled_by), ["db.service"]);
    assert_eq!(targets(&generation, &side.wanted_by), ["site.target"]);
    let (graph, _) = Graph::resolve(&generation, &Policy::default());
    let named = |from: &str| -> Vec<(DependencyKind, &str)> {
        let from = generation.find_unit(from).unwrap();
        let edges = graph
            .edges(from)
            .iter()
            .filter_map(|edge| Some((edge.kind, generation.unit(edge.provider?)?.name.as_str())));
        edges.collect()
    };
    let db = named("db.service");
    assert!(db.contains(&(DependencyKind::Wants, "side.service")), "{db:?}");
    assert!(!db.contains(&(DependencyKind::WaitsFor, "side.service")), "{db:?}");
    assert!(db.contains(&(DependencyKind::WaitsFor, "near")), "{db:?}");
    assert!(named("site.target").contains(&(DependencyKind::WaitsFor, "side.service")));
}

#[test]
fn directory_or_fifo_with_a_unit_suffix_is_reported() {
    let mut memory = set(&[("multi-user.yaml", GOAL), ("/etc/groundstate/units/d.service/x", "")]);
    memory.special(&format!("{UNITS}/fifo.service"));
    memory.link(&format!("{UNITS}/masked.service"), "/dev/null");
    memory.put(&format!("{UNITS}/empty.service"), "");
    let told = memory::told(&memory.load(None).generation);
    let want = ["d.service:1:1 warning ignored-file", "fifo.service:1:1 warning ignored-file"];
    assert_eq!(told, want);
}

#[test]
fn several_commands_of_a_service_give_one_error() {
    let several = "[Service]\nExecStart=/bin/a\nExecStart=/bin/b\nExecStart=/bin/c ; /bin/d\n";
    let loaded = set(&[("web.service", several), ("multi-user.yaml", GOAL)]).load(None);
    let errors = loaded.generation.diagnostics.iter().filter(|d| d.severity == Severity::Error);
    let errors: Vec<_> = errors.map(|said| (said.at.line, said.message.as_str())).collect();
    assert_eq!(errors, [(3, "more than one ExecStart=, which only a oneshot may have")]);
}

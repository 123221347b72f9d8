//! Imports realistic units and checks the native units and the diagnostics.

use super::conversion::{Imported, Surroundings};
use super::convert::convert;
use super::import_outcome::{Outcome, Score};
use super::unit_name::UnitName;
use super::unit_text;
use crate::text::diagnostic::Severity;

mod fleet;
mod growth;
mod output;
mod prefix;
mod promise;
mod restart;
mod trigger;

fn import(name: &str, text: &str) -> Imported {
    let texts = [unit_text::parse(&name.into(), text.as_bytes()).unwrap()];
    convert(&UnitName::of(name), &name.into(), &texts, &Surroundings::default())
}

fn service(text: &str) -> Imported {
    import("web.service", &format!("[Service]\nExecStart=/bin/web\n{text}"))
}

/// Returns the values of a key, one per line. Empty if the unit has no such key.
fn values(imported: &Imported, key: &str) -> Vec<String> {
    let Some(entry) = imported.manifest.entry(key) else { return Vec::new() };
    if let Some(pairs) = entry.node.map() {
        let pair = |pair: &crate::text::yaml::Pair| {
            format!("{}={}", pair.key, pair.node.scalar().unwrap().text)
        };
        return pairs.iter().map(pair).collect();
    }
    let one = std::slice::from_ref(&entry.node);
    let list = entry.node.list().unwrap_or(one);
    list.iter().map(|node| node.scalar().unwrap().text.clone()).collect()
}

fn said(imported: &Imported, severity: Severity) -> Vec<(u32, String)> {
    let found = imported.manifest.diagnostics.iter();
    let found = found.filter(|said| said.severity == severity);
    found.map(|said| (said.at.line, said.message.clone())).collect()
}

#[track_caller]
fn clean(imported: &Imported) {
    assert_eq!(imported.manifest.diagnostics, Vec::new());
}

#[test]
fn plain_service_has_the_defaults_of_systemd_written_out() {
    let web = service("");
    clean(&web);
    for (key, value) in [
        ("type", &["foreground-supervised"][..]),
        ("provides", &["web.service", "web"]),
        ("depends-ms", &["sysinit.target?"]),
        ("after", &["basic.target"]),
        ("exec-start", &["/bin/web"]),
        ("restart", &["never"]),
        ("success-status", &["0", "HUP", "INT", "TERM", "PIPE"]),
        ("start-timeout", &["90s"]),
        ("stop-timeout", &["90s"]),
        ("restart-limit", &["5/10s"]),
    ] {
        assert_eq!(values(&web, key), value, "{key}");
    }
}

#[test]
fn list_collects_assignments_until_an_empty_one_resets_it() {
    let web = service(
        "Environment=A=1 'B=x y'\nEnvironment=A=2\nEnvironmentFile=/a\nEnvironmentFile=\nEnvironmentFile=-/b\n",
    );
    let env = [values(&web, "env"), values(&web, "env-default")].concat();
    assert_eq!(env, ["A=2", "B=x y"]);
    assert_eq!(values(&web, "env-file"), ["-/b"]);
}

#[test]
fn oneshot_has_no_start_timeout_and_accepts_several_commands() {
    let text =
        "[Service]\nType=oneshot\nExecStart=/bin/a \\\n  b\nExecStart=/bin/c ; /bin/d \\; e\n";
    let job = import("job.service", text);
    assert_eq!(values(&job, "exec-start"), ["/bin/a b", "/bin/c", "/bin/d \";\" e"]);
    assert_eq!(values(&job, "start-timeout"), ["none"]);
    let several = service("ExecStart=/bin/two\n");
    assert_eq!(said(&several, Severity::Error)[0].0, 3);
}

#[test]
fn timeout_of_zero_or_infinity_becomes_none() {
    for text in ["TimeoutStartSec=0\nTimeoutStopSec=infinity\n", "TimeoutSec=0\n"] {
        let web = service(text);
        assert_eq!(values(&web, "start-timeout"), ["none"]);
        assert_eq!(values(&web, "stop-timeout"), ["none"]);
    }
    assert_eq!(values(&service("TimeoutSec=5min\n"), "stop-timeout"), ["5min"]);
}

#[test]
fn requirement_with_order_is_one_key_and_either_alone_is_another() {
    let text = "[Unit]\nWants=a.service b.service c.service\nAfter=a.service d.service e.service g.service\n\
                Before=c.service\nRequires=e.service\nBindsTo=g.service\nPartOf=h.service\n";
    let web = service(text);
    clean(&web);
    assert_eq!(values(&web, "waits-for"), ["a.service?"]);
    assert_eq!(values(&web, "wants"), ["b.service", "c.service"]);
    assert_eq!(values(&web, "before"), ["c.service"]);
    assert_eq!(values(&web, "after"), ["d.service", "basic.target"]);
    assert_eq!(values(&web, "depends-ms"), ["e.service", "sysinit.target?"]);
    assert_eq!(values(&web, "restart-with"), ["e.service", "h.service"]);
    assert_eq!(values(&web, "depends-on"), ["g.service"]);
}

#[test]
fn conflicts_and_before_on_shutdown_target_are_left_out() {
    let web = service(
        "[Unit]\nDefaultDependencies=no\nConflicts=shutdown.target chrony.service\nBefore=shutdown.target\n",
    );
    clean(&web);
    assert_eq!(values(&web, "conflicts"), ["chrony.service"]);
    assert_eq!(values(&web, "before"), Vec::<String>::new());
    assert_eq!(values(&web, "depends-ms"), Vec::<String>::new());
}

#[test]
fn service_with_a_directory_on_disk_starts_after_the_root_is_writable() {
    let early = "[Unit]\nDefaultDependencies=no\n[Service]\n";
    for directory in ["StateDirectory", "CacheDirectory", "LogsDirectory"] {
        let web = service(&format!("{early}{directory}=web\n"));
        clean(&web);
        assert_eq!(values(&web, "after"), ["systemd-remount-fs.service"]);
    }
    let web = service(&format!("{early}RuntimeDirectory=web\n"));
    assert_eq!(values(&web, "after"), Vec::<String>::new());
    assert_eq!(values(&service("StateDirectory=web\n"), "after"), ["basic.target"]);
}

#[test]
fn requirement_without_an_order_is_reported() {
    let web = service("[Unit]\nRequires=db.service web.socket network.target\n");
    let warnings = said(&web, Severity::Warning);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].1.contains("db.service"));
    assert_eq!(values(&web, "wants"), ["db.service", "network.target"]);
    // The socket of the same name comes before its service.
    assert_eq!(values(&web, "depends-ms"), ["web.socket", "sysinit.target?"]);
    let two = service("[Unit]\nRequires=admin.socket\n[Service]\nRuntimeDirectory=web/ a/b/\n");
    clean(&two);
    assert_eq!(values(&two, "depends-ms"), ["admin.socket", "sysinit.target?"]);
    assert_eq!(values(&two, "runtime-dir"), ["web", "a/b"]);
}

#[test]
fn wanted_by_multi_user_target_becomes_the_native_goal() {
    let web = service(
        "[Install]\nWantedBy=multi-user.target graphical.target\nAlias=www.service\nAlso=web.socket\n",
    );
    clean(&web);
    assert_eq!(values(&web, "wanted-by"), ["multi-user"]);
    assert_eq!(values(&web, "provides"), ["web.service", "www.service", "web", "www"]);
    assert_eq!(web.also, ["web.socket"]);
}

#[test]
fn unclosed_quote_is_an_error_on_its_own_line() {
    let text = "[Service]\nType=oneshot\nExecStart=/bin/sh -c \\\n  'a; \\\n  b\nUser=x\n";
    assert_eq!(said(&import("a.service", text), Severity::Error)[0].0, 4);
}

#[test]
fn quotes_escapes_and_variables_are_kept_in_the_native_line() {
    let text = "ExecStartPre=/bin/sh -c 'printf \\'\\n\\' $(x) \"${Y}\"' *.gz $Z $$\n";
    assert_eq!(
        values(&service(text), "exec-start-pre"),
        ["/bin/sh -c \"printf '\\n' $(x) \\\"${Y}\\\"\" *.gz $Z $$"]
    );
}

#[test]
fn invalid_value_of_a_directive_is_dropped_with_a_warning() {
    for (line, why) in [
        (
            "RuntimeDirectoryPreserve=bla",
            "RuntimeDirectoryPreserve= is dropped: it is not `restart` or a boolean",
        ),
        ("Slice=foo", "Slice= is dropped: it is not the name of a slice"),
    ] {
        let web = service(&format!("{line}\n"));
        assert_eq!(said(&web, Severity::Warning), [(3, why.to_string())], "{line}");
        for key in ["cgroup-delegate", "runtime-dir-keep", "cgroup-slice"] {
            assert_eq!(values(&web, key), [""; 0], "{line}");
        }
    }
    let odd = service("Delegate=xx\n");
    assert_eq!(values(&odd, "cgroup-delegate"), ["yes"], "as systemd does");
    let message = "Delegate=: no word is a controller: the cgroup is delegated";
    assert_eq!(said(&odd, Severity::Warning), [(3, message.to_string())]);
    for line in [
        "Delegate=cpu memory",
        "Delegate=",
        "Delegate=no",
        "RuntimeDirectoryPreserve=no",
        "RuntimeDirectoryPreserve=restart",
        "Slice=system.slice",
        "Slice=-.slice",
        "Slice=a-b.slice",
    ] {
        clean(&service(&format!("{line}\n")));
    }
}

#[test]
fn instance_specifier_of_a_plain_unit_gets_a_warning() {
    let web = service("ExecStartPre=/bin/x %i %%i\nWorkingDirectory=/srv/%I\n");
    let empty = |line, name: &str| {
        (line, format!("{name}=: web.service is no instance: %i and %I are empty"))
    };
    assert_eq!(
        said(&web, Severity::Warning),
        [empty(3, "ExecStartPre"), empty(4, "WorkingDirectory")]
    );
    let text = "[Service]\nExecStart=/bin/x %i\nWorkingDirectory=/srv/%I\n";
    clean(&import("web@.service", text));
    clean(&import("web@1.service", text));
}

#[test]
fn specifiers_are_replaced_in_an_instance_and_kept_in_a_template() {
    let text = "[Unit]\nDescription=%p for %I\nAfter=%p-db@%i.service\n[Service]\nExecStart=/bin/x --%i 100%%\n";
    let one = import("app@a\\x2db.service", text);
    assert_eq!(values(&one, "exec-start"), ["/bin/x \"--a\\\\x2db\" 100%"]);
    assert_eq!(values(&one, "description"), ["app for a-b"]);
    let template = import("app@.service", text);
    assert_eq!(values(&template, "exec-start"), ["/bin/x --%i 100%%"]);
    assert_eq!(values(&template, "after"), ["%p-db@%i.service", "basic.target"]);
    let unknown = service("ExecStartPre=/bin/x %m\n");
    assert_eq!(said(&unknown, Severity::Error)[0].0, 3);
}

#[test]
fn forking_service_with_a_pid_file_becomes_background_pidfile() {
    let web = service("Type=forking\nPIDFile=/var/run/web.pid\n");
    assert_eq!(values(&web, "type"), ["background-pidfile"]);
    assert_eq!(values(&web, "pid-file"), ["/run/web.pid"]);
    let plain = service("PIDFile=/run/web.pid\n");
    clean(&plain);
    assert!(plain.manifest.entry("pid-file").is_none());
}

#[test]
fn unsupported_sandbox_directives_are_reported_in_one_warning() {
    let text = "ProtectSystem=strict\nPrivateTmp=yes\nCapabilityBoundingSet=~CAP_SYS_ADMIN\n";
    let web = service(text);
    let warnings = said(&web, Severity::Warning);
    let weaker = warnings.iter().filter(|(_, said)| said.starts_with("runs weaker than asked"));
    assert_eq!(weaker.count(), 1, "{warnings:?}");
    let texts = [unit_text::parse(
        &"a.service".into(),
        format!("[Service]\nExecStart=/x\n{text}").as_bytes(),
    )
    .unwrap()];
    let strict = Surroundings { strict_sandbox: true, ..Surroundings::default() };
    let refused = convert(&UnitName::of("a.service"), &"a.service".into(), &texts, &strict);
    assert_eq!(said(&refused, Severity::Error).len(), 1);
}

#[test]
fn unknown_directives_and_values_are_reported_at_their_line() {
    let web = service("Usr=x\nX-Own=1\n[Odd]\n[X-Fleet]\nGlobal=true\n");
    let warnings = said(&web, Severity::Warning);
    assert_eq!(warnings.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [3, 5]);
    for text in ["Type=odd\n", "Restart=odd\n", "KillMode=odd\n"] {
        assert_eq!(said(&service(text), Severity::Error)[0].0, 3, "{text}");
    }
    let forever = import("a.service", "[Service]\nType=oneshot\nRestart=always\nExecStart=/x\n");
    assert_eq!(said(&forever, Severity::Error)[0].0, 3);
}

#[test]
fn directive_in_the_wrong_section_is_reported_with_the_right_one() {
    let told = |file: &str, text: &str| import(file, text).manifest.diagnostics[0].hint.clone();
    let web = "[Service]\nExecStart=/bin/x\nStartLimitIntervalSec=30\n";
    assert_eq!(told("a.service", web), "systemd knows it in [Unit] alone");
    let path = "[Path]\nPathExists=/x\nUser=www\n";
    assert_eq!(told("a.path", path), "it is for units that run processes");
}

#[test]
fn service_without_a_command_is_refused_unless_it_has_exec_stop() {
    assert_eq!(said(&import("a.service", "[Service]\nUser=x\n"), Severity::Error).len(), 1);
    let stops =
        import("a.service", "[Service]\nRemainAfterExit=yes\nType=oneshot\nExecStop=/bin/x\n");
    clean(&stops);
    assert_eq!(values(&stops, "exec-start"), ["/bin/true"]);
    for name in ["a.automount", "a.device", "a.scope", "a.slice"] {
        assert!(!said(&import(name, "[Unit]\n"), Severity::Error).is_empty(), "{name}");
    }
}

#[test]
fn exit_statuses_are_parsed_as_numbers_names_and_signals() {
    let web = service("SuccessExitStatus=0 143 SIGTERM DATAERR CANTCREAT nonsense\n");
    assert_eq!(values(&web, "success-status")[5..], ["143", "65", "73"]);
    assert_eq!(said(&web, Severity::Warning).len(), 1);
}

#[test]
fn start_limit_becomes_a_restart_limit() {
    for (text, limit) in [
        ("StartLimitInterval=0\n", "none"),
        ("[Unit]\nStartLimitIntervalSec=1h\nStartLimitBurst=3\n", "3/1h"),
        ("StartLimitBurst=8\n", "8/10s"),
    ] {
        assert_eq!(values(&service(text), "restart-limit"), [limit], "{text}");
    }
}

#[test]
fn mount_unit_becomes_a_oneshot_that_mounts_and_unmounts() {
    let text = "[Mount]\nWhat=/dev/sda1\nWhere=/srv/my data\nType=ext4\nOptions=noatime,x-systemd.automount\n";
    let mount = import("srv-my\\x20data.mount", text);
    clean(&mount);
    assert_eq!(
        values(&mount, "exec-start"),
        ["/bin/mount -t ext4 -o noatime /dev/sda1 \"/srv/my data\""]
    );
    assert_eq!(values(&mount, "exec-stop"), ["/bin/umount \"/srv/my data\""]);
    assert_eq!(mount.manifest.name.as_ref().unwrap().as_str(), r"srv-my\x20data.mount");
    let wrong = import("other.mount", text);
    assert_eq!(said(&wrong, Severity::Error)[0].0, 3);
    let remote = import("mnt.mount", "[Mount]\nWhat=h:/x\nWhere=/mnt\nType=nfs\n");
    assert_eq!(values(&remote, "waits-for"), ["network-online.target?"]);
}

#[test]
fn trigger_activates_the_service_of_its_name_and_is_ordered_before_it() {
    let timer =
        import("backup.timer", "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n");
    assert_eq!(values(&timer, "activates"), ["backup.service"]);
    assert_eq!(
        values(&timer, "before"),
        ["timers.target", "backup.service"].map(String::from).into_iter().rev().collect::<Vec<_>>()
    );
    assert_eq!(values(&timer, "wanted-by"), ["timers.target"]);
    let socket = import("x.socket", "[Socket]\nListenStream=/run/x\nService=y.service\n");
    assert_eq!(values(&socket, "activates"), ["y.service"]);
    for (name, text) in
        [("a.socket", "[Socket]\n"), ("a.timer", "[Timer]\n"), ("a.path", "[Path]\n")]
    {
        assert_eq!(said(&import(name, text), Severity::Error).len(), 1, "{name}");
    }
}

#[test]
fn target_waits_for_the_units_it_pulls_in() {
    let target = import("my.target", "[Unit]\nWants=a.service\nRequires=b.service\n");
    assert_eq!(values(&target, "waits-for"), ["a.service?"]);
    assert_eq!(values(&target, "depends-ms"), ["b.service"]);
    assert_eq!(values(&target, "provides"), ["my.target", "my"]);
}

#[test]
fn every_directive_has_an_outcome() {
    let web = service(
        "User=x\nUser=y\nNice=5\nProtectHome=yes\nFoo=1\n[Unit]\nAfter=a.service\nAfter=b.service\n[Install]\nWantedBy=x.target\n",
    );
    assert_eq!(web.outcomes.len(), 9);
    assert!(Score::of(&web.outcomes).honoured >= 6);
    let foo = web.outcomes.iter().find(|directive| directive.name == "Foo").unwrap();
    assert_eq!(foo.outcome, Outcome::Lost("unknown".to_string()));
}

proptest::proptest! {
    #[test]
    fn any_text_is_imported_without_a_panic_and_with_places_inside_it(
        text in "(\\[(Unit|Service|Socket|Timer|Path|Mount|Install|Swap)\\]\n|(ExecStart|Type|After|Requires|BindsTo|Environment|Restart|RestartSec|SuccessExitStatus|OnCalendar|OnBootSec|ListenStream|What|Where|Options|Alias|WantedBy|TasksMax|LimitNOFILE|CPUQuota|UMask|PIDFile|ConditionPathExists)=|[ \"'\\\\%$;:@+!|-]|\n|\\\\\n|/bin/x|oneshot|forking|%i|%m|a.service|dev-x.device|0|5min|#|ä|~){0,60}",
        suffix in "(service|socket|timer|path|mount|swap|target|slice)",
        stem in "(a|a@|a@b|a\\\\x2d)",
    ) {
        let name = format!("{stem}.{suffix}");
        let Ok(read) = unit_text::parse(&name.as_str().into(), text.as_bytes()) else { return Ok(()) };
        let options = read.options.len();
        let imported = convert(&UnitName::of(&name), &name.as_str().into(), &[read], &Surroundings::default());
        let lines = u32::try_from(text.split('\n').count()).unwrap();
        for said in &imported.manifest.diagnostics {
            proptest::prop_assert!((1..=lines.max(1)).contains(&said.at.line), "{said}");
        }
        proptest::prop_assert!(imported.outcomes.len() <= options);
        let written = crate::unit::yaml_writer::write(&imported.manifest);
        let back = crate::text::yaml::parse("x", written.as_bytes(), &crate::text::yaml::Limits::UNIT_FILE);
        proptest::prop_assert!(back.is_ok() || written.is_empty(), "{written}");
        let settings = crate::unit::settings::Settings::default();
        crate::unit::semantics::read(imported.manifest, &settings, &crate::unit::account::Accounts::default());
    }
}

#[test]
fn sandbox_directive_set_to_no_is_not_reported_as_weaker() {
    clean(&service("PrivateTmp=no\nProtectSystem=false\n"));
    assert_eq!(said(&service("PrivateTmp=yes\n"), Severity::Warning).len(), 1);
    assert_eq!(said(&service("PrivateTmp=no\nPrivateTmp=yes\n"), Severity::Warning).len(), 1);
}

#[test]
fn utmp_identifier_with_a_specifier_becomes_the_instance_name() {
    let text = "[Service]\nExecStart=/bin/getty\nUtmpIdentifier=%I\n";
    for (name, id) in [("getty@ttyS0.service", "ttyS0"), ("getty@tty1.service", "tty1")] {
        let one = import(name, text);
        clean(&one);
        assert_eq!(values(&one, "utmp-id"), [id]);
    }
}

#[test]
fn dbus_command_with_systemd_activation_is_reported() {
    let bus = service("ExecStart=\nExecStart=/usr/bin/dbus-daemon --system --systemd-activation\n");
    assert_eq!(said(&bus, Severity::Warning)[0].0, 4);
}

#[test]
fn restart_steps_are_honoured_silently_only_if_they_equal_doubling() {
    let base = "Restart=on-failure\nRestartSec=1s\n";
    let alone = service(&format!("{base}RestartMaxDelaySec=8s\n"));
    clean(&alone);
    assert_eq!(values(&alone, "restart-delay-max"), ["1s"], "systemd passes it over");
    let same = service(&format!("{base}RestartMaxDelaySec=8s\nRestartSteps=3\n"));
    clean(&same);
    assert_eq!(values(&same, "restart-delay-max"), ["8s"]);
    let other = service(&format!("{base}RestartMaxDelaySec=9s\nRestartSteps=3\n"));
    assert_eq!(values(&other, "restart-delay-max"), ["9s"]);
    assert_eq!(said(&other, Severity::Warning)[0].0, 6);
}

#[test]
fn directive_with_an_approximate_key_is_reported_at_its_line() {
    let text =
        "[Unit]\nUpholds=a.service\nStopPropagatedFrom=b.service\n[Install]\nUpheldBy=c.target\n";
    let web = service(text);
    let lines: Vec<u32> = said(&web, Severity::Warning).iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [4, 5, 7]);
    assert_eq!(values(&web, "wants"), ["a.service"]);
    assert_eq!(values(&web, "restart-with"), ["b.service"]);
    assert_eq!(values(&web, "wanted-by"), ["c.target"]);
}

#[test]
fn wants_mounts_for_becomes_an_optional_waits_for() {
    let web = service("[Unit]\nWantsMountsFor=/var/lib/a-b\n");
    clean(&web);
    let mounts = ["var.mount?", "var-lib.mount?", r"var-lib-a\x2db.mount?"];
    assert_eq!(values(&web, "waits-for"), mounts);
}

#[test]
fn fd_store_above_the_limit_is_reduced_with_a_warning() {
    let web = service("FileDescriptorStoreMax=4224\n");
    assert_eq!(values(&web, "fd-store-max"), ["512"]);
    assert_eq!(said(&web, Severity::Warning)[0].0, 3);
    assert_eq!(values(&service("FileDescriptorStoreMax=4\n"), "fd-store-max"), ["4"]);
}

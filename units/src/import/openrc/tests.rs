//! Converts realistic service scripts, and checks the native units and the diagnostics.
//! `examples.rs` has the scripts. `silence.rs` checks that the importer reports everything that it
//! drops, also for damaged scripts.

use super::convert;
use crate::import::import_outcome::{Imported, Outcome};
use crate::text::diagnostic::Severity;
use crate::text::yaml::Pair;

mod examples;
mod silence;

fn import(name: &str, text: &str) -> Imported {
    convert(name, &format!("/etc/init.d/{name}").as_str().into(), text.as_bytes(), None)
}

fn with_settings(name: &str, text: &str, settings: &str) -> Imported {
    let (file, path) = (format!("/etc/init.d/{name}"), format!("/etc/conf.d/{name}"));
    let settings = Some((&path.as_str().into(), settings.as_bytes()));
    convert(name, &file.as_str().into(), text.as_bytes(), settings)
}

/// Imports `command=/bin/web`, in the foreground, with these lines.
fn web(lines: &str) -> Imported {
    let start = "#!/sbin/openrc-run\ncommand=/bin/web\ncommand_background=yes\npidfile=/run/w\n";
    import("web", &format!("{start}{lines}"))
}

/// Returns the values of a key; empty if the unit has no such key.
fn values(imported: &Imported, key: &str) -> Vec<String> {
    let Some(entry) = imported.manifest.entry(key) else { return Vec::new() };
    if let Some(pairs) = entry.node.map() {
        let pair = |pair: &Pair| format!("{}={}", pair.key, pair.node.scalar().unwrap().text);
        return pairs.iter().map(pair).collect();
    }
    let one = std::slice::from_ref(&entry.node);
    let list = entry.node.list().unwrap_or(one);
    list.iter().map(|node| node.scalar().unwrap().text.clone()).collect()
}

#[track_caller]
fn assert_values(imported: &Imported, expected: &[(&str, &[&str])]) {
    for (key, value) in expected {
        assert_eq!(values(imported, key), *value, "{key}");
    }
}

fn outcome_of<'i>(imported: &'i Imported, name: &str, value: &str) -> &'i Outcome {
    let found = imported
        .outcomes
        .iter()
        .find(|directive| directive.name == name && directive.value == value);
    &found.unwrap_or_else(|| panic!("{name} {value} of {:#?}", imported.outcomes)).outcome
}

fn is_lost(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Lost(_))
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

#[track_caller]
fn scripted(imported: &Imported, why: &str) {
    assert_eq!(values(imported, "type"), ["background-scripted"]);
    let notes = said(imported, Severity::Note);
    assert!(notes.iter().any(|(_, note)| note.contains(why)), "{notes:?}");
}

#[test]
fn declarative_script_becomes_a_unit_without_openrc() {
    let cases = import("cases", examples::BACKGROUND);
    clean(&cases);
    assert_values(
        &cases,
        &[
            ("type", &["foreground-supervised"]),
            ("description", &["Keeper of cases"]),
            ("exec-start", &["/usr/sbin/cased --config /etc/cases.conf --say \"two words\""]),
            ("user", &["cases"]),
            ("group", &["files"]),
            ("working-dir", &["/srv/cases"]),
            ("umask", &["027"]),
            ("stdout", &["append:/var/log/cases.log"]),
            ("stderr", &["append:/var/log/cases.err"]),
            ("assert-path-exists", &["/etc/cases.conf"]),
            ("assert-path-is-directory", &["/srv/cases"]),
            ("restart", &["never"]),
            ("depends-ms", &["localmount", "net"]),
            ("restart-with", &["localmount", "net"]),
            ("waits-for", &["clerk?"]),
            ("after", &["logger", "bootmisc"]),
            ("before", &["court"]),
            ("provides", &["cases", "registry"]),
            ("start-timeout", &["none"]),
            ("condition-virtualization", &["!docker", "!container"]),
            ("pid-file", &[]),
            ("exec-start-pre", &[]),
        ],
    );
}

#[test]
fn supervised_script_restarts_like_under_supervise_daemon() {
    let hare = import("hare", examples::SUPERVISED);
    clean(&hare);
    assert_values(
        &hare,
        &[
            ("type", &["foreground-supervised"]),
            ("exec-start", &["/usr/bin/hare --run --no-fork"]),
            ("restart", &["always"]),
            ("restart-delay", &["2s"]),
            ("restart-limit", &["6/60s"]),
            ("stop-signal", &["INT"]),
            ("stop-timeout", &["30s"]),
            ("stop-final-signal", &["KILL"]),
            ("reload-signal", &["HUP"]),
            ("env", &["HARE_HOME=/var/lib/hare", "LANG=C"]),
            ("limits", &["nofile=65536", "core=infinity", "memlock=65536"]),
            ("nice", &["5"]),
            ("io-class", &["best-effort"]),
            ("io-priority", &["7"]),
            ("oom-score-adjust", &["-200"]),
            ("capabilities-ambient", &["CAP_NET_BIND_SERVICE", "CAP_NET_RAW"]),
            ("no-new-privileges", &["yes"]),
            ("ready-fd", &["5"]),
            ("runtime-dir", &["hare", "hare/old"]),
            ("runtime-dir-mode", &["0750"]),
            ("runtime-dir-keep", &["yes"]),
            ("log-dir", &["hare"]),
            ("log-dir-mode", &["0775"]),
        ],
    );
}

#[test]
fn daemon_without_command_background_uses_its_pid_file_or_a_guessed_main_pid() {
    let text = "#!/sbin/openrc-run\ncommand=/sbin/dhcp\nchroot=/jail\n";
    let with = import("dhcp", &format!("{text}pidfile=/var/run/dhcp.pid\n"));
    assert_values(
        &with,
        &[("type", &["background-pidfile"]), ("pid-file", &["/jail/var/run/dhcp.pid"])],
    );
    assert_values(&with, &[("root-dir", &["/jail"]), ("restart", &["never"])]);
    let without = import("dhcp", text);
    assert_values(&without, &[("main-pid", &["guess"]), ("pid-file", &[])]);
    assert_eq!(said(&without, Severity::Warning)[0].0, 2);
}

#[test]
fn script_with_own_functions_is_wrapped_and_keeps_its_dependencies() {
    let tree = import("tree", examples::SCRIPTED);
    scripted(&tree, "start() is the script's own");
    assert_values(
        &tree,
        &[
            ("description", &["Rings the tree"]),
            ("exec-start", &["/sbin/openrc-run /etc/init.d/tree --nodeps zap start"]),
            ("exec-stop", &["/sbin/openrc-run /etc/init.d/tree --nodeps stop"]),
            ("exec-reload", &["/sbin/openrc-run /etc/init.d/tree --nodeps reload"]),
            ("exec-start-pre", &["/bin/sh -c 'echo default >/run/openrc/softlevel'"]),
            ("runtime-dir-keep", &["yes"]),
            ("depends-ms", &["root"]),
            ("stop-timeout", &["150s"]),
        ],
    );
    assert!(values(&tree, "runtime-dir").contains(&"openrc/exclusive".to_string()));
    assert_eq!(*outcome_of(&tree, "start()", ""), Outcome::Kept("exec-start".to_string()));
    assert_eq!(*outcome_of(&tree, "reload()", ""), Outcome::Kept("exec-reload".to_string()));
}

#[test]
fn conditional_word_of_depend_is_reported_as_dropped() {
    let gate = import("gate", examples::CONDITIONAL);
    assert_values(&gate, &[("after", &["logger", "entropy"]), ("depends-ms", &[])]);
    assert!(is_lost(outcome_of(&gate, "need", "net")));
    assert!(is_lost(outcome_of(&gate, "need", "$extra")));
    assert!(is_lost(outcome_of(&gate, "probe_more", "--all")));
    assert!(is_lost(outcome_of(&gate, "want", "late")), "behind a return");
    assert_eq!(said(&gate, Severity::Warning).len(), 4, "{:?}", gate.manifest.diagnostics);
}

#[test]
fn values_are_expanded_as_in_sh() {
    let lines = "
: ${dir:=/srv/web}
: \"${log:=${dir}/log}\"
quiet=${quiet-no}
loud=${quiet:+-q}
tail=${dir##*/}
head=${dir%/*}
empty=
words='one two'
more=\"$words\\ three '$tail'\"
command_args=\"$loud ${missing} $log ${tail} $head \\\"$words\\\" ${empty:-none} ${empty-no} \\$words\"
command_args=\"$command_args \\\\\\$5 ${more%three*}end\"
";
    assert_eq!(
        values(&web(lines), "exec-start"),
        ["/bin/web -q /srv/web/log web /srv \"one two\" none one two $$5 one \"two end\""]
    );
    let imported = web(lines);
    assert!(matches!(outcome_of(&imported, "$missing", ""), Outcome::ByDesign(_)));
}

#[test]
fn conf_d_settings_are_read_before_the_script() {
    let settings = "WEB_OPTS=\"-v\"\ncommand_user=www\nrc_need=\"net.br0 !localmount\"\n";
    let text = "#!/sbin/openrc-run\ncommand=/bin/web\ncommand_background=true\npidfile=/run/w\n\
                command_args=\"${WEB_OPTS:--q}\"\ndepend() {\n need localmount net\n}\n";
    let web = with_settings("web", text, settings);
    clean(&web);
    assert_values(&web, &[("exec-start", &["/bin/web -v"]), ("user", &["www"])]);
    assert_values(&web, &[("depends-ms", &["net", "net.br0"])]);
    let place = |name: &str| {
        let directive = web.outcomes.iter().find(|directive| directive.name == name).unwrap();
        (directive.section.to_string(), directive.at.file.to_string(), directive.at.line)
    };
    let file = "/etc/conf.d/web".to_string();
    assert_eq!(place("command_user"), ("conf.d".to_string(), file, 2));
    let cancelled = outcome_of(&web, "need", "localmount");
    assert!(matches!(cancelled, Outcome::ByDesign(_)), "{cancelled:?}");
    assert_values(&import("web", text), &[("exec-start", &["/bin/web -q"])]);
}

#[test]
fn script_shared_by_several_services_expands_its_own_service_name() {
    let eth0 = import("net.eth0", examples::INSTANCE);
    assert_values(
        &eth0,
        &[
            ("exec-start", &["/usr/sbin/link -i eth0"]),
            ("provides", &["net.eth0", "net"]),
            ("after", &["net.lo"]),
        ],
    );
    // A unit cannot start after itself.
    let lo = import("net.lo", examples::INSTANCE);
    assert_values(&lo, &[("exec-start", &["/usr/sbin/link -i lo"]), ("after", &[])]);
}

#[test]
fn escaped_dollar_is_expanded_when_the_value_is_parsed_again() {
    let agent = "#!/sbin/openrc-run\ncommand=/bin/agent\npidfile=\"/run/\\${RC_SVCNAME}.pid\"\n";
    assert_values(&import("agent", agent), &[("pid-file", &["/run/agent.pid"])]);
}

#[test]
fn function_brace_on_the_next_line_and_one_line_function_are_parsed() {
    let text = "#!/sbin/openrc-run\ncommand=/bin/a\npidfile=/run/a\n\
                depend()\n\n{\n\tneed x;after y\n}\nreload() { start-stop-daemon -s USR1 -p $pidfile; }\n";
    let a = import("a", text);
    clean(&a);
    assert_values(&a, &[("depends-ms", &["x"]), ("after", &["y"]), ("reload-signal", &["USR1"])]);
}

#[test]
fn script_with_a_value_that_needs_a_shell_is_wrapped() {
    for (lines, why) in [
        ("command_args=\"$(cat /etc/args)\"", "$(…)"),
        ("command_args=`hostname`", "backquotes"),
        ("command_args=\"-h $HOSTNAME\"", "$HOSTNAME"),
        ("command_args='a | b'", "`|`"),
        ("command_args='/etc/*.conf'", "names of files"),
        ("command_args=\"$1\"", "$1"),
        ("command_args=\"${x//a/b}\"", "is not read"),
        ("command_args=\"$((1 + 1))\"", "$(…)"),
        ("if true; then command_args=-v; fi", "under a condition"),
        ("true && command_args=-v", "under a condition"),
        (". /etc/web.sh", "`.` is run"),
        ("mkdir -p /run/web", "`mkdir` is run"),
        ("umask 022", "`umask` is run"),
        ("command_user=\"no body\"", "more than one word"),
        ("command=bin/web", "not an absolute path"),
        ("directory=web", "directory"),
        ("supervisor=s6", "`s6`"),
        ("capabilities='!cap_kill'", "list of `^NAME`"),
        ("retry=soon", "not a schedule"),
        ("start_stop_daemon_args='--exec /bin/other'", "once more"),
        ("start_pre() { checkpath -f /run/web/x; }", "start_pre()"),
        ("start_pre() { checkpath -d -o www /run/web; }", "start_pre()"),
        ("start_pre() { checkpath -d /run/web; web --check; }", "start_pre()"),
        ("stop_post() { rm -f /run/x; }", "stop_post()"),
        ("[ -n \"${own:=x}\" ]\ncommand_args=$own", "may get a value in line 5"),
        ("einfo() { command_args=x; }\neinfo", "`einfo` is run"),
        ("cat <<X\ncommand_args=x", "here-document"),
        ("a='", "not closed"),
        ("case x in", "a block is not closed"),
    ] {
        let imported = web(lines);
        assert_eq!(values(&imported, "type"), ["background-scripted"], "{lines}");
        let told = imported.outcomes.iter().any(|directive| directive.name.contains(why));
        let said = said(&imported, Severity::Note).iter().any(|(_, note)| note.contains(why));
        let rest = imported
            .outcomes
            .iter()
            .any(|directive| format!("{:?}", directive.outcome).contains(why));
        assert!(told || said || rest, "{lines}: {:#?}", imported.outcomes);
    }
}

#[test]
fn setting_without_a_native_key_is_reported_and_the_rest_is_kept() {
    for (lines, name, value) in [
        ("output_logger='logger -t web'", "output_logger", "'logger -t web'"),
        ("rc_cgroup_settings='cpu.max 5'", "rc_cgroup_settings", "'cpu.max 5'"),
        ("start_inactive=yes", "start_inactive", "yes"),
        ("rc_ulimit='-n 5 -z 1'", "rc_ulimit -z", "1"),
        ("start_stop_daemon_args='--frob'", "start_stop_daemon_args --frob", ""),
        ("retry=TERM/5/INT/5/KILL/5", "retry", "TERM/5/INT/5/KILL/5"),
        ("rc_frob=1", "rc_frob", "1"),
        ("reload() { web --reload; }", "reload()", ""),
        ("extra_commands=check\ncheck() { web -t; }", "check()", ""),
        ("depend() { after *; }", "after", "*"),
        ("depend() { need a/b; }", "need", "a/b"),
        ("depend() { keyword -shutdown; }", "keyword", "-shutdown"),
        ("depend() { keyword -frob; }", "keyword", "-frob"),
    ] {
        let imported = web(lines);
        assert_eq!(values(&imported, "type"), ["foreground-supervised"], "{lines}");
        let outcome = outcome_of(&imported, name, value);
        assert!(matches!(outcome, Outcome::Lost(_) | Outcome::Weaker(_)), "{lines}: {outcome:?}");
        assert!(!said(&imported, Severity::Warning).is_empty(), "{lines}");
    }
}

#[test]
fn start_stop_daemon_options_become_keys() {
    let lines = "start_stop_daemon_args=\"-u web:www --chdir /srv -e A=1 --env=B='x y' -N -5 \
                 --ionice 3 -1 /var/log/w --umask 077 --wait 500 -q -k027\"\n";
    let imported = web(lines);
    clean(&imported);
    assert_values(
        &imported,
        &[
            ("user", &["web"]),
            ("group", &["www"]),
            ("working-dir", &["/srv"]),
            ("env", &["A=1", "B=x y"]),
            ("nice", &["-5"]),
            ("io-class", &["idle"]),
            ("stdout", &["append:/var/log/w"]),
            ("umask", &["027"]),
            ("ready-wait", &["500ms"]),
        ],
    );
    let text =
        "#!/sbin/openrc-run\ncommand=/bin/a\nstart_stop_daemon_args='-bm --pidfile /run/a'\n";
    assert_values(&import("a", text), &[("type", &["foreground-supervised"]), ("pid-file", &[])]);
}

#[test]
fn script_without_a_command_becomes_a_unit_without_a_process() {
    let text =
        "#!/sbin/openrc-run\ndescription=All\ndepend() {\n\tneed a b\n\tkeyword -timeout -lxc\n}\n";
    let all = import("all", text);
    assert_values(
        &all,
        &[("type", &["virtual"]), ("depends-ms", &["a", "b"]), ("start-timeout", &[])],
    );
    assert!(is_lost(outcome_of(&all, "keyword", "-lxc")));
}

#[test]
fn invalid_service_name_and_oversized_script_are_errors() {
    for name in ["a b", "a@", ""] {
        assert_eq!(said(&import(name, examples::BACKGROUND), Severity::Error).len(), 1, "{name}");
    }
    let large = import("a", &"#".repeat(crate::limit::IMPORTED_FILE + 1));
    assert_eq!(said(&large, Severity::Error).len(), 1);
    assert!(matches!(outcome_of(&large, "all", ""), Outcome::Refused(_)));
}

//! Prefixes of imported commands: user, groups, capabilities and name of the process of each
//! command, seen from inside.

use super::child_setup::{alone, is_root};
use super::imported::{reload, systemd, wants};
use groundstate_tests::boot::Init;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// Which restrictions of the unit apply to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    All,
    AllButTheUser,
    None,
}

const PREFIXES: [(&str, Rights); 15] = [
    ("", Rights::All),
    ("-", Rights::All),
    ("@", Rights::All),
    (":", Rights::All),
    ("+", Rights::None),
    ("!", Rights::AllButTheUser),
    ("!!", Rights::All),
    ("-!!", Rights::All),
    ("!!-", Rights::All),
    ("!-!", Rights::All),
    ("@!!:", Rights::All),
    (":@-!!", Rights::All),
    ("+@-:", Rights::None),
    (":-@+", Rights::None),
    ("-:!@", Rights::AllButTheUser),
];

const DIRECTIVES: [&str; 6] =
    ["ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost"];

fn unit(name: &str, more: &str, directives: &[&str]) -> String {
    let mut text = format!(
        "[Service]\nUser=nobody\nGroup=nogroup\n\
         SupplementaryGroups=tty\nCapabilityBoundingSet=CAP_KILL\nNoNewPrivileges=yes\n\
         Environment=GREEN=leaf\n{more}"
    );
    for directive in directives {
        for (index, (prefix, _)) in PREFIXES.iter().enumerate() {
            let own_name = if prefix.contains('@') { "own-name " } else { "" };
            text.push_str(&format!(
                "{directive}={prefix}/bin/sh {own_name}-c \
                 'f=DIR/out/{name}.{directive}.{index}; . DIR/seen.sh; echo said:$$GREEN >>$f'\n"
            ));
        }
    }
    text
}

fn check(init: &Init, name: &str, directive: &str, privileged: bool) {
    for (index, (prefix, rights)) in PREFIXES.iter().enumerate() {
        let file = format!("out/{name}.{directive}.{index}");
        let what = format!("{name}: {directive}={prefix}");
        until(&what, || {
            fs::read_to_string(init.sandbox.path(&file))
                .is_ok_and(|s| s.contains("said:"))
                .then_some(())
        });
        let text = init.sandbox.read(&file);
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key));
            line.unwrap_or_else(|| panic!("{what}: no {key}\n{text}")).trim().to_string()
        };
        let is_root = value("Uid:").split_whitespace().all(|id| id == "0")
            && value("Gid:").split_whitespace().all(|id| id == "0");
        let is_unit = value("Uid:").split_whitespace().all(|id| id == "65534")
            && value("Gid:").split_whitespace().all(|id| id == "65534");
        let has_group = value("Groups:").split_whitespace().any(|id| id == "5");
        let is_cut = value("CapBnd:") == format!("{:016x}", 1 << 5) && value("NoNewPrivs:") == "1";
        let rights = if privileged { Rights::None } else { *rights };
        assert!(is_unit != is_root, "{what}\n{text}");
        assert_eq!(is_unit, rights == Rights::All, "{what}\n{text}");
        assert_eq!(has_group, rights == Rights::All, "{what}\n{text}");
        assert_eq!(is_cut, rights != Rights::None, "{what}\n{text}");
        let own_name = prefix.contains('@');
        assert_eq!(value("argv0:"), if own_name { "own-name" } else { "/bin/sh" }, "{what}");
        let expanded = value("said:");
        // Without variables, `$$` is expanded by the shell: its pid.
        assert_eq!(expanded == "leaf", !prefix.contains(':'), "{what}: {expanded}");
        assert!(expanded == "leaf" || expanded.ends_with("GREEN"), "{what}: {expanded}");
    }
}

#[test]
fn prefix_of_a_command_selects_the_restrictions_that_apply() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    fs::create_dir(files.path("out")).unwrap();
    fs::set_permissions(files.path("out"), PermissionsExt::from_mode(0o1777)).unwrap();
    files.put("seen.sh", "cat /proc/$$/status >$f; echo argv0:$0 >>$f\n");
    let once = "Type=oneshot\nRemainAfterExit=yes\n";
    let long = "ExecStart=/bin/sleep 1000\n";
    let all = [("own", ""), ("start-only", "PermissionsStartOnly=yes\n")];
    for (name, more) in all {
        let text = unit(name, &format!("{once}{more}"), &DIRECTIVES);
        systemd(&files, &format!("{name}.service"), &text);
        let text = unit(name, &format!("{long}{more}"), &["ExecReload"]);
        systemd(&files, &format!("{name}-reload.service"), &text);
    }
    let names =
        ["own", "start-only", "own-reload", "start-only-reload"].map(|n| format!("{n}.service"));
    wants(&files, &names.each_ref().map(String::as_str));
    let init = alone(files).start("all");
    for (name, _) in all {
        let unit = format!("{name}-reload.service");
        init.when_state(&unit, "running");
        reload(&init, &unit);
        check(&init, name, "ExecReload", name == "start-only");
        init.when_state(&format!("{name}.service"), "exited");
    }
    super::command::drop_all(&init);
    for (name, _) in all {
        for directive in DIRECTIVES {
            check(&init, name, directive, name == "start-only" && directive != "ExecStart");
        }
    }
    init.finish();
}

#[test]
fn double_exclamation_mark_of_native_line_runs_as_the_unit_user() {
    if !is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("one", "user: nobody\nexec-start: \"!!/bin/sleep 1000\"");
    let init = alone(files).start("one");
    let uid = super::child_setup::past_exec(&init, "one").status("Uid").unwrap_or_default();
    assert!(uid.starts_with("65534"), "{uid}");
    init.finish();
}

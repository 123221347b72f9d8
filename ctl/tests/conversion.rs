//! `initctl convert` for each file format: acceptance, output and exit codes.
#![allow(clippy::unwrap_used, reason = "what fails here ends the test")]

use std::fs;
use std::process::{Command, Output};

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn convert_selects_the_importer_by_file_name_or_else_first_line() {
    let place = std::env::temp_dir().join(format!("initctl-convert-{}", std::process::id()));
    for directory in ["init.d", "conf.d"] {
        fs::create_dir_all(place.join(directory)).unwrap();
    }
    let file = |name: &str, text: &str| fs::write(place.join(name), text).unwrap();
    let initctl = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_initctl"));
        command.args(words).current_dir(&place).env_clear().output().unwrap()
    };
    let header = "### BEGIN INIT INFO\n# Provides: webd\n# Default-Start: 2 9\n### END INIT INFO\n";
    file("web", &format!("#!/bin/sh\n{header}case $1 in reload) : ;; esac\n"));
    let gentle = "#!/sbin/openrc-run\ncommand=/usr/bin/gentle\ncommand_args=$words\ncommand_background=yes\n";
    file("init.d/gentle", &format!("{gentle}pidfile=/run/gentle.pid\nunread=`date`\n"));
    file("conf.d/gentle", "words='-a b'\n");
    file("README", "words\n");
    file("a.service", "#!/bin/sh\n[Service]\nExecStart=/bin/true\n");
    let said = initctl(&["convert", "web"]);
    let text = out(&said);
    assert!(said.status.success(), "{}", err(&said));
    assert!(text.contains("# dropped: line 4: Default-Start=2 9: `9`: unknown level"), "{text}");
    let program = place.join("web");
    assert!(text.contains(&format!("\nexec-reload: {} reload\n", program.display())), "{text}");
    assert_eq!(err(&said), "web: directives dropped: 1; the output says which\n");
    let report = out(&initctl(&["convert", "--report", "web"]));
    assert!(report.starts_with("web: 1 of 2 directives honoured (50 %)\n"), "{report}");
    let said = initctl(&["convert", "init.d/gentle"]);
    let text = out(&said);
    assert!(said.status.success(), "{}", err(&said));
    assert!(text.contains("\nexec-start: /usr/bin/gentle -a b\n"), "{text}");
    assert!(text.contains("unread=`date`"), "{text}");
    let said = initctl(&["convert", "README"]);
    assert_eq!(said.status.code(), Some(65));
    assert!(err(&said).contains("what kind of unit it is"), "{}", err(&said));
    assert!(out(&initctl(&["convert", "a.service"])).contains("\nunit: a.service\n"));
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn convert_reports_the_dropped_part_of_a_directive() {
    let place = std::env::temp_dir().join(format!("initctl-convert-part-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let text = "[Unit]\nAfter=b.servce a.service\nRequires=a/b.service\n[Service]\n\
                ExecStart=/bin/true\nEnvironment=GOOD=1 BAD\nSuccessExitStatus=3 FOO\n\
                CapabilityBoundingSet=~CAP_SYS_ADMNI CAP_KILL\nFooBar=1\n";
    fs::write(place.join("web.service"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_initctl"));
    let said = command.args(["convert", "web.service"]).current_dir(&place).env_clear().output();
    let said = said.unwrap();
    assert!(said.status.success(), "{}", err(&said));
    for part in ["`b.servce`", "`a/b.service`", "`BAD`", "`FOO`", "`CAP_SYS_ADMNI`"] {
        assert_eq!(err(&said).matches(part).count(), 1, "{part}: {}", err(&said));
    }
    // The whole directive is in the output, and only there.
    assert!(out(&said).contains("# dropped: line 9: FooBar=1"), "{}", out(&said));
    assert!(!err(&said).contains("FooBar"), "{}", err(&said));
    fs::remove_dir_all(&place).unwrap();
}

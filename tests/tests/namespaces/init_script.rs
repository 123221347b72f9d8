//! Scripts of /etc/init.d, converted by the real initctl: the commands that the real init runs,
//! their order, and the meaning of their exit codes.

use super::imported::reload;
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::{Sandbox, program};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Writes a script and the unit converted from it. `DAEMON` and `DIR` are replaced as in
/// [`Sandbox::unit`]. Returns the messages of the conversion.
fn converted(files: &Sandbox, name: &str, header: &str, body: &str) -> String {
    let text = format!("#!/bin/sh\n### BEGIN INIT INFO\n{header}### END INIT INFO\n{body}");
    let text = text.replace("DAEMON", &program("GROUNDSTATE_DAEMON", "daemon"));
    let text = text.replace("DIR", files.dir().to_str().expect("a plain name"));
    files.put(name, &text);
    fs::set_permissions(files.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    let mut initctl = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    let done = initctl.current_dir(files.dir()).args(["convert", name]).output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{told}");
    files.put(&format!("units/{name}.yaml"), &String::from_utf8(done.stdout).unwrap());
    told
}

/// A script that records each argument in `DIR/did` and starts a daemon.
fn body(name: &str) -> String {
    format!(
        "echo {name} $1 $(env | grep -c SYSTEMCTL_SKIP_) >>DIR/did\n\
         case \"$1\" in\n\
         start) DAEMON --pid-file DIR/run/{name}.pid ;;\n\
         stop) kill $(cat DIR/run/{name}.pid) ;;\n\
         reload|force-reload) ;;\n\
         *) exit 3 ;;\n\
         esac\n"
    )
}

#[test]
fn converted_script_is_run_with_start_reload_and_stop_in_order() {
    let files = Sandbox::new();
    let web = "# Provides: web httpd\n# Required-Start: $remote_fs $syslog database\n# Default-Start: 2 3 4 5\n";
    assert_eq!(converted(&files, "web", web, &body("web")), "");
    assert_eq!(converted(&files, "db", "# Provides: database\n", &body("db")), "");
    files.unit("multi-user", "type: virtual").unit("none", "type: virtual");
    let init = Boot::new(files).start("multi-user");
    let status = init.when_state("web", "running");
    // A script without a pid file has no known main process.
    assert_eq!((status.state("db"), status.main_pid("web")), ("running", None));
    assert_eq!((init.processes_of("web").len(), init.processes_of("db").len()), (1, 1));
    reload(&init, "web");
    super::command::words(&init, "did", 9);
    init.tell("set-target", &serde_json::json!({"targets": ["none"]}));
    init.when_state("web", "disabled");
    init.when_state("db", "disabled");
    let did = ["db start 2", "web start 2", "web reload 2", "web stop 2", "db stop 2"];
    assert_eq!(init.sandbox.trace("did"), did);
    until("no process is left", || {
        [init.processes_of("web"), init.processes_of("db")].concat().is_empty().then_some(())
    });
    init.finish();
}

#[test]
fn script_whose_program_is_not_installed_does_not_fail() {
    let files = Sandbox::new();
    let header = "# Default-Start: 3\n";
    for (name, status) in [("absent", 5), ("raw", 6), ("broken", 1)] {
        converted(&files, name, header, &format!("[ $1 = stop ] || exit {status}\n"));
    }
    files.unit("multi-user", "type: virtual");
    let init = Boot::new(files).start("multi-user");
    init.when_state("broken", "failed");
    let status =
        init.when("all units have settled", |status| status.state("multi-user") == "running");
    assert_eq!((status.state("absent"), status.state("raw")), ("running", "running"));
    init.finish();
}

#[test]
fn script_with_a_pid_file_has_a_known_main_process() {
    let files = Sandbox::new();
    let text = format!("# pidfile: DIR/run/web.pid\n{}", body("web"));
    converted(&files, "web", "# Default-Start: 3\n", &text);
    files.unit("multi-user", "type: virtual").unit("none", "type: virtual");
    let init = Boot::new(files).start("multi-user");
    let status = init.when_state("web", "running");
    let pid = init.sandbox.read("run/web.pid").trim().parse().ok();
    assert!(pid.is_some() && status.main_pid("web") == pid, "{pid:?}");
    init.tell("set-target", &serde_json::json!({"targets": ["none"]}));
    init.when_state("web", "disabled");
    assert_eq!(init.sandbox.trace("did"), ["web start 2", "web stop 2"]);
    init.finish();
}

//! Which control sockets initctl trusts, and which one it uses by default.

use crate::control::{as_unprivileged, one_unit};
use groundstate_tests::boot::{Boot, Init, Way};
use groundstate_tests::sandbox::{Sandbox, program};
use std::process::{Command, Output};

/// Runs initctl with these arguments as uid 65534, with the sandbox's `run` mounted at
/// /run/groundstate and without a runtime directory of that user.
fn as_unprivileged_with_run_mounted(init: &Init, words: &str) -> Output {
    let script = format!(
        "mount -t tmpfs tmpfs /run && mkdir /run/groundstate && \
         mount --bind {} /run/groundstate && exec env -i HOME=/nonexistent TMPDIR=/run setpriv \
         --reuid=65534 --regid=65534 --clear-groups {} {words}",
        init.sandbox.at("run"),
        program("GROUNDSTATE_INITCTL", "initctl"),
    );
    let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output();
    output.expect("unshare runs")
}

#[test]
fn initctl_of_a_user_without_an_instance_asks_the_init_of_the_machine() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let output = as_unprivileged_with_run_mounted(&init, "status --check web");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("web"), "{said}");
    init.finish();
}

#[test]
fn initctl_refuses_a_socket_whose_directory_belongs_to_another_user() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let init = one_unit();
    let own = |uid| std::os::unix::fs::chown(init.sandbox.path("run"), Some(uid), None).unwrap();
    own(65533);
    let asked = |output: Output| (output.status.code(), String::from_utf8(output.stderr).unwrap());
    let (code, said) = asked(init.initctl(&["status"]));
    assert!(code == Some(77) && said.contains("belongs to uid 65533"), "{code:?} {said}");
    let (code, said) = asked(init.initctl(&["logs", "web"]));
    assert!(code == Some(77) && said.contains("belongs to uid 65533"), "{code:?} {said}");
    assert_eq!(as_unprivileged(&init, &["status"]).0, 77);
    own(65534);
    assert_eq!(as_unprivileged(&init, &["status"]).0, 0, "its own directory, root's init");
    own(0);
    assert_eq!(asked(init.initctl(&["status"])).0, Some(0));
    init.finish();
}

#[test]
fn initctl_refuses_a_socket_that_another_user_serves() {
    if !nix::unistd::geteuid().is_root() {
        return groundstate_tests::not_run!("this needs root");
    }
    let files = Sandbox::new();
    files.unit("web", "exec-start: DAEMON --name web");
    for part in ["run", "log"] {
        std::os::unix::fs::chown(files.path(part), Some(65534), Some(65534)).unwrap();
    }
    let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let init = Boot::new(files).way(Way::Supervisor).through(&words).unrecorded().start("web");
    init.when_state("web", "running");
    std::fs::create_dir(init.sandbox.path("trap")).unwrap();
    let trap = init.sandbox.path("trap/control.sock");
    std::fs::hard_link(init.sandbox.path("run/control.sock"), &trap).unwrap();
    let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    let output = command.arg("--socket").arg(&trap).arg("status").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(77), "{said}");
    assert!(said.contains("is served by uid 65534"), "{said}");
    assert_eq!(as_unprivileged(&init, &["status"]).0, 0, "its own user may ask it");
    init.finish();
}

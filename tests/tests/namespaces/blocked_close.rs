//! The output of a unit on a file system whose close(2) never returns: only that unit waits.

use groundstate_tests::boot::{Boot, Init};
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use nix::mount::{MntFlags, umount2};
use serde_json::json;
use std::path::PathBuf;

/// A mount point, unmounted when the value is dropped.
pub(crate) struct Place(pub(crate) PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

fn goes_on(init: &Init) {
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when_state("web", "running");
    init.tell("reload", &json!({}));
    init.when_state("web", "running");
}

#[test]
fn child_that_blocks_in_close_before_exec_blocks_only_its_own_unit() {
    let files = Sandbox::new();
    std::fs::create_dir(files.path("silent")).unwrap();
    files.unit("base", "exec-start: DAEMON");
    files.unit("web", "exec-start: DAEMON");
    // The output file is opened, duplicated onto stdout, and the original descriptor is closed.
    let keys = "restart: never\nstart-timeout: 300ms\nstop-timeout: 300ms";
    files.unit(
        "stuck",
        &format!("type: oneshot\n{keys}\nstdout: file:DIR/silent/file\nexec-start: /bin/true"),
    );
    files.unit("after", "waits-for: stuck\nexec-start: DAEMON");
    files.unit("all", "type: virtual\nwants: stuck, web, after");
    let init = Boot::new(files).start("base");
    init.when_state("base", "running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        groundstate_tests::not_run!("no FUSE here");
        return init.finish();
    };
    init.tell("set-target", &json!({"targets": ["all"]}));
    silent.until_closing(1);
    let status = init.when("init gives up", |s| s.state("stuck") == "failed");
    assert_eq!(status.reason("stuck"), "unkillable", "{}", status.table());
    let why = init.initctl(&["why", "stuck"]);
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(why.contains("does not exit after SIGKILL"), "{why}");
    goes_on(&init);
    init.when_state("after", "running");
    drop(silent);
    init.when("the unit can start again", |s| s.reason("stuck") != "unkillable");
    init.tell("set-target", &json!({"targets": ["base"]}));
    init.finish();
}

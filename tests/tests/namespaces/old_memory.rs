//! Memory as a controller of cgroup v1: whom the kernel kills for want of it is told of as with v2. The rest is in
//! [`super::memory`], and on a machine in `vm.rs`.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::within;
use groundstate_tests::sandbox::Sandbox;
use nix::sys::signal::Signal;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup with so little memory. It goes with this value.
struct Narrow(PathBuf);

impl Narrow {
    /// None: there is no such hierarchy here, or nothing is to be made in it.
    fn new(bytes: &str) -> Option<Narrow> {
        let root = Path::new("/sys/fs/cgroup/memory");
        let narrow = Narrow(root.join(format!("groundstate-test-{}", std::process::id())));
        fs::create_dir(&narrow.0).ok()?;
        fs::write(narrow.0.join("memory.limit_in_bytes"), bytes).ok()?;
        // Where swap is counted there is none of it.
        let _ = fs::write(narrow.0.join("memory.memsw.limit_in_bytes"), bytes);
        let counts = fs::read_to_string(narrow.0.join("memory.oom_control")).ok()?;
        counts.contains("oom_kill ").then_some(narrow)
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = within(Duration::from_secs(5), || fs::remove_dir(&self.0).ok());
    }
}

#[test]
fn who_is_killed_for_want_of_memory_says_so_where_memory_is_counted_the_old_way() {
    let Some(narrow) = Narrow::new("96M") else {
        return groundstate_tests::not_run!("memory is no controller of cgroup v1 here");
    };
    let files = Sandbox::new();
    let eat = "exec-start: /bin/dd if=/dev/zero of=/dev/null bs=256M count=1";
    for unit in ["eats", "eats-too"] {
        files.unit(unit, &format!("restart: never\n{eat}"));
    }
    files.unit("killed", "restart: never\nexec-start: DAEMON");
    files.unit("stopped", "stop-timeout: 300ms\nexec-start: DAEMON --ignore TERM");
    files.unit("all", "type: virtual\nwaits-for: killed, stopped");
    let enter = format!("echo $$ >{}/cgroup.procs; exec \"$@\"", narrow.0.display());
    let init = Boot::new(files).through(&["sh", "-c", &enter, "sh"]).start("all");
    init.when_state("killed", "running");
    for unit in ["eats", "eats-too"] {
        init.tell("set-target", &json!({"targets": ["all", unit]}));
        let status = init.when_state(unit, "failed");
        assert_eq!(status.reason(unit), "oom", "{}", status.table());
    }
    assert_eq!(init.status().state("killed"), "running");
    // Long after that, and by somebody.
    init.main_of("killed").signal(Signal::SIGKILL);
    let status = init.when_state("killed", "failed");
    assert_ne!(status.reason("killed"), "oom", "{}", status.table());
    init.tell("set-target", &json!({"targets": ["killed"]}));
    let status = init.when_state("stopped", "failed");
    assert_eq!(status.reason("stopped"), "stop-timeout");
    init.finish();
    drop(narrow);
}

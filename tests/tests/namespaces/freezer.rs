//! The freezer of cgroup v1: not even SIGKILL ends who is frozen by it. Other ways not to end are in
//! [`super::deaf`] and [`super::fate`].

use super::deaf::{STOP, go_down_in_time};
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::{until, within};
use groundstate_tests::lateness::Lateness;
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::Sandbox;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A cgroup of it with one below. Both go with this value, and whatever is in them thaws.
pub(super) struct Freezer(PathBuf);

impl Freezer {
    /// None: there is no such hierarchy here, or nothing is to be made in it.
    pub(super) fn new(name: &str) -> Option<Freezer> {
        let root = Path::new("/sys/fs/cgroup/freezer");
        let dir = root.join(format!("groundstate-test-{}-{name}", std::process::id()));
        fs::create_dir_all(dir.join("below")).ok()?;
        let freezer = Freezer(dir);
        freezer.0.join("below/freezer.state").exists().then_some(freezer)
    }

    /// The lower one.
    pub(super) fn below(&self) -> PathBuf {
        self.0.join("below")
    }

    /// Puts it into the lower one and freezes that, or the one above.
    fn freeze(&self, file: &str, process: Process) {
        let put = |file: &str, text: &str| fs::write(self.0.join(file), text).expect("a write");
        put("below/cgroup.procs", &process.0.to_string());
        put(file, "FROZEN");
        until("it is frozen", || (process.state() == Some('D')).then_some(()));
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        for file in ["freezer.state", "below/freezer.state"] {
            let _ = fs::write(self.0.join(file), "THAWED");
        }
        let empty = || fs::remove_dir(self.0.join("below")).ok();
        let _ = within(Duration::from_secs(5), empty);
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn who_is_frozen_by_the_old_freezer_is_gone_after_its_stop_timeout() {
    let units = ["itself", "above", "alone"];
    let freezers: Option<Vec<Freezer>> = units.iter().map(|unit| Freezer::new(unit)).collect();
    let Some(freezers) = freezers else {
        return groundstate_tests::not_run!("no freezer of cgroup v1 here");
    };
    let files = Sandbox::new();
    for unit in units {
        let mode = if unit == "alone" { "kill-mode: process\n" } else { "" };
        files.unit(unit, &format!("{mode}{}\nexec-start: DAEMON", STOP.1));
    }
    files.unit("other", "exec-start: DAEMON");
    files.unit("all", "type: virtual\nwaits-for: itself, above, alone, other");
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let mains = units.map(|unit| init.main_of(unit));
    for (freezer, (unit, main)) in freezers.iter().zip(units.iter().zip(mains)) {
        let file = if *unit == "above" { "freezer.state" } else { "below/freezer.state" };
        freezer.freeze(file, main);
    }
    let late = Lateness::of(init.process());
    go_down_in_time(&init, &units, &late);
    init.finish();
}

//! Tests that a blocked child never blocks init.

use super::*;
use std::path::PathBuf;

struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Fifo {
        let path = std::env::temp_dir().join(format!("groundstate-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::from_bits_truncate(0o777)).unwrap();
        Fifo(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn children_that_hang_before_their_exec_block_no_other() {
    let fifo = Fifo::new("hang-env");
    // The kernel refuses a FIFO as a program; opening it as an env-file waits for a writer.
    let mut hung = plain();
    hung.env_file =
        vec![groundstate_units::spec::EnvFile { path: fifo.path().to_string(), optional: false }];
    for way in ways() {
        let mut waiting: Vec<Running> =
            (0..20).map(|_| start(way, &hung, &["/bin/true"], |_| {}).unwrap()).collect();
        assert_eq!(output(way, &plain(), &["/bin/echo", "on"], |_| {}), "on\n");
        for running in &mut waiting {
            assert_eq!(running.report.verdict(), None);
            assert_eq!(wait::peek_one(running.pid).unwrap(), None);
        }
    }
}

/// A user may stop its own processes at any moment, also between setuid and the exec.
#[test]
fn user_that_stops_all_its_processes_blocks_no_other() {
    if !nix::unistd::geteuid().is_root() {
        // Only root can start processes of other users.
        return crate::not_run!("it takes root");
    }
    let own = 1_000_000 + std::process::id();
    let mut run = plain();
    run.credentials = ids(own, own, &[]);
    let stop = "while :; do kill -STOP -1; done";
    for way in ways() {
        let mut stopper = start(way, &run, &["/bin/sh", "-c", stop], |_| {}).unwrap();
        assert_eq!(stopper.verdict(), Ok(()));
        let began = Instant::now();
        // init does not wait for any of these children; whether one is stopped before its exec
        // depends on timing.
        let children: Vec<Running> =
            (0..300).map(|_| start(way, &run, &["/bin/sleep", "600"], |_| {}).unwrap()).collect();
        assert!(began.elapsed() < PATIENCE, "{way:?}");
        assert_eq!(output(way, &plain(), &["/bin/echo", "on"], |_| {}), "on\n");
        drop(stopper);
        drop(children);
    }
}

//! Nothing a child waits for makes init wait: init spawns, looks, and goes on.

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

/// Many children hang in their exec, and others are started beside them.
#[test]
fn children_that_hang_before_their_exec_hold_up_nobody() {
    let fifo = Fifo::new("hang-interpreter");
    let script = std::env::temp_dir().join(format!("groundstate-hang-{}", std::process::id()));
    let _ = std::fs::remove_file(&script);
    // A FIFO is refused as program itself; opening it as an env-file waits for a writer.
    let mut hung = plain();
    hung.env_file =
        vec![groundstate_units::spec::EnvFile { path: fifo.path().to_string(), optional: false }];
    for way in ways() {
        let mut waiting: Vec<Running> =
            (0..20).map(|_| start(way, &hung, &["/bin/true"], |_| {}).unwrap()).collect();
        assert_eq!(output(way, &plain(), &["/bin/echo", "on"], |_| {}), "on\n");
        for running in &mut waiting {
            assert_eq!(running.report.verdict(), Verdict::Pending);
            assert_eq!(wait::peek_one(running.pid).unwrap(), None);
        }
    }
}

//! Programs do not look up paths that are only named, because a lookup may never return.

use super::blocked_close::Place;
use groundstate_tests::deadline::{PATIENCE, within};
use groundstate_tests::process::Process;
use groundstate_tests::sandbox::{Sandbox, program};
use groundstate_tests::silent::Silent;
use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn check_does_not_look_up_paths_on_an_unresponsive_file_system() {
    let files = Sandbox::new();
    let place = files.path("silent");
    std::fs::create_dir(&place).unwrap();
    std::os::unix::fs::symlink(&place, files.path("link")).unwrap();
    files.unit("far", "exec-start: DIR/silent/never");
    files.unit("led", "exec-start: DIR/link/never");
    files.unit("none", "exec-start: DIR/none");
    let own = Process(i32::try_from(std::process::id()).expect("a pid"));
    let Some(silent) = Silent::new(own, &place) else {
        return groundstate_tests::not_run!("no FUSE here");
    };
    let place = Place(place);
    let mut command = Command::new(program("GROUNDSTATE_INITCTL", "initctl"));
    command.arg("check").arg(files.path("units")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut check = command.spawn().unwrap();
    let ended = within(PATIENCE, || check.try_wait().unwrap());
    drop((silent, place));
    assert!(ended.is_some(), "it waits");
    let mut said = String::new();
    check.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("none.yaml") && !said.contains("never"), "{said}");
}

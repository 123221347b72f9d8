//! Tests of variables and words in the started program.

use super::*;
use groundstate_units::spec::EnvFile;
use std::path::PathBuf;

/// A file that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(text: &str) -> Scratch {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("groundstate-env-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Scratch(path)
    }

    fn file(&self, optional: bool) -> EnvFile {
        EnvFile { path: self.0.to_str().unwrap().to_string(), optional }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_string(), value.to_string())
}

#[test]
fn variable_of_the_more_specific_source_wins() {
    let file = Scratch::new("FROM_FILE=file\nBOTH=file\nGROUNDSTATE_UNIT=forged\n");
    let mut run = plain();
    run.env = vec![pair("UNIT", "unit"), pair("BOTH", "unit"), pair("SETTINGS", "unit")];
    run.env_file = vec![file.file(false)];
    run.credentials = ids(0, 0, &[0]);
    if !nix::unistd::geteuid().is_root() {
        run.credentials = None;
    }
    let base = Base { env: vec![pair("SETTINGS", "settings")], ..Base::default() };
    for way in ways() {
        let text = {
            let (mut read, write) = std::io::pipe().unwrap();
            let null = Null::open().unwrap();
            let line = line(&["/usr/bin/env"]);
            let request = Request {
                unit: "under-test",
                run: &Rc::new(run.clone()),
                line: &line,
                main_pid: None,
                base: &base,
                notify_socket: Some("/run/notify"),
                extra: &[],
                stdio: [null.input, Rc::new(write.into()), null.output],
                listen: vec![],
                ready: None,
                first: true,
                place: None,
                is_awaited: false,
            };
            let prepared = Prepared::new(request).unwrap();
            let child = Spawner::with(way).unwrap().spawn(prepared, 0).unwrap();
            let mut text = String::new();
            read.read_to_string(&mut text).unwrap();
            assert_eq!(wait::await_end(child.pid).unwrap(), Exit::Code(0));
            text
        };
        let has = |line: &str| assert!(text.lines().any(|l| l == line), "{line} not in {text}");
        has("FROM_FILE=file");
        has("BOTH=file");
        has("UNIT=unit");
        has("SETTINGS=unit");
        has("GROUNDSTATE_UNIT=under-test");
        has("NOTIFY_SOCKET=/run/notify");
        if run.credentials.is_some() {
            has("USER=tester");
            has("LOGNAME=tester");
            has("HOME=/nowhere");
            has("SHELL=/bin/false");
        }
    }
}

#[test]
fn missing_env_file_fails_the_start_unless_it_is_optional() {
    let mut run = plain();
    let missing = |optional| EnvFile { path: "/nowhere/env".to_string(), optional };
    for way in ways() {
        run.env_file = vec![missing(true), missing(true)];
        assert_eq!(output(way, &run, &["/bin/echo", "x"], |_| {}), "x\n");
        run.env_file = vec![missing(true), missing(false)];
        let failure = refused(way, &run, &["/bin/echo", "x"]);
        assert_eq!(
            failure.to_string(),
            "cannot read /nowhere/env (env-file): No such file or directory"
        );
    }
}

#[test]
fn command_words_use_variables_of_env_files() {
    let file = Scratch::new("ARGS=a 'b c'\n");
    let mut run = plain();
    run.env_file = vec![file.file(false)];
    for way in ways() {
        let split = ExecLine {
            words: vec![
                vec![Piece::Literal("echo".to_string())],
                vec![Piece::Split("ARGS".to_string())],
                vec![Piece::MainPid],
            ],
            ..ExecLine::default()
        };
        let (mut read, write) = std::io::pipe().unwrap();
        let null = Null::open().unwrap();
        let request = Request {
            unit: "under-test",
            run: &Rc::new(run.clone()),
            line: &split,
            main_pid: Some(Pid::from_raw(12)),
            base: &Base::default(),
            notify_socket: None,
            extra: &[],
            stdio: [null.input, Rc::new(write.into()), null.output],
            listen: vec![],
            ready: None,
            first: true,
            place: None,
            is_awaited: false,
        };
        let child = Spawner::with(way).unwrap().spawn(Prepared::new(request).unwrap(), 0).unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        wait::await_end(child.pid).unwrap();
        assert_eq!(text, "a b c 12\n");
    }
}

#[test]
fn bare_program_name_is_looked_up_in_path() {
    let mut run = plain();
    for way in ways() {
        assert_eq!(output(way, &run, &["echo", "x"], |_| {}), "x\n");
    }
    run.env = vec![pair("PATH", "/nowhere:relative:/etc")];
    for way in ways() {
        let failure = refused(way, &run, &["echo", "x"]);
        assert_eq!((failure.errno, failure.path.as_str()), (libc::ENOENT, "echo"));
        // Found but not executable: the failure says so.
        let failure = refused(way, &run, &["passwd"]);
        assert_eq!((failure.errno, failure.path.as_str()), (libc::EACCES, "passwd"));
    }
}

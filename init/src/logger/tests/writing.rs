//! Tests that output reaches its destinations and no others.

use super::*;

#[test]
fn stdout_and_stderr_reach_the_file_in_order_with_run_and_time() {
    let mut init = Init::with_files(|_| {});
    let mut web = init.shell(7, "web", None, "echo one; echo two >&2; printf three");
    assert!(web.wait().unwrap().success());
    init.until(&Report::Ended(RunId(7)));
    let mut again = init.shell(8, "web", None, "printf 'four\\n\\nfive \\033[1m\\n'");
    again.wait().unwrap();
    init.until(&Report::Ended(RunId(8)));
    init.finish();
    let want = [
        (Some(7), "one"),
        (Some(7), "two"),
        (Some(7), "three"),
        (Some(8), "four"),
        (Some(8), ""),
        (Some(8), "five \u{1b}[1m"),
    ];
    assert_eq!(stored(&init.file("web")), want.map(|(run, text)| (run, text.to_string())));
    let found = fs::metadata(init.file("web")).unwrap();
    assert_eq!(found.mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(init.file("web").parent().unwrap()).unwrap().mode() & 0o7777, 0o750);
    if nix::unistd::geteuid().is_root() {
        assert_eq!(Some(found.gid()), crate::logger::files::group("adm"));
    } else {
        crate::not_run!("it takes root to give a file to a group");
    }
}

#[test]
fn file_that_is_removed_renamed_or_truncated_is_followed_at_the_next_write() {
    let mut init = Init::with_files(|_| {});
    let path = init.file("web");
    let old = path.with_extension("old");
    let mut says = |run: u64, text: &str| {
        init.shell(run, "web", None, &format!("echo {text}")).wait().unwrap();
        init.until(&Report::Ended(RunId(run)));
        let end = Instant::now() + DEADLINE;
        while !path.exists() || texts(&path).last().is_none_or(|last| last != text) {
            assert!(Instant::now() < end, "{text} is in no file of that name");
            std::thread::yield_now();
        }
    };
    says(1, "one");
    fs::remove_file(&path).unwrap();
    says(2, "two");
    fs::rename(&path, &old).unwrap();
    says(3, "three");
    assert_eq!((texts(&old), texts(&path)), (vec!["two".into()], vec!["three".to_string()]));
    // As logrotate does with `create`, and with `copytruncate`.
    fs::rename(&path, &old).unwrap();
    File::create(&path).unwrap();
    says(4, "four");
    assert_eq!((texts(&old), texts(&path)), (vec!["three".into()], vec!["four".to_string()]));
    File::options().write(true).open(&path).unwrap().set_len(0).unwrap();
    says(5, "five");
    assert_eq!(texts(&path), ["five"]);
    init.finish();
}

#[test]
fn write_larger_than_the_pipe_behind_an_unfinished_line_is_read_to_its_end() {
    let mut init = Init::with_files(|_| {});
    let mut out = File::from(init.pipe(1, "web", None));
    for round in 0..20 {
        out.write_all(b"abc").unwrap();
        // The logger has seen these bytes and left them in the pipe.
        assert!(init.handle.drain(RunId(1), init.now()));
        init.until(&Report::Drained(RunId(1)));
        let (mut copy, run) = (out.try_clone().unwrap(), RunId(100 + round));
        let done = File::from(init.pipe(run.0, "done", None));
        init.handle.flush(init.now());
        std::thread::spawn(move || {
            copy.write_all(&[&[b'x'; 200_000][..], b"\n"].concat()).unwrap();
            drop(done);
        });
        init.until(&Report::Ended(run));
    }
    drop(out);
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    let lines = stored(&init.file("web"));
    let bytes: usize = lines.iter().map(|(_, text)| text.len()).sum();
    assert_eq!(bytes, 20 * 200_003);
}

#[test]
fn matching_line_is_reported_as_ready_before_drained() {
    let mut init = Init::with_files(|_| {});
    let mut out = File::from(init.pipe(1, "db", Some("^listening on [0-9]+$")));
    out.write_all(b"listening on port\nliste").unwrap();
    assert!(init.handle.drain(RunId(1), init.now()));
    assert_eq!(init.until(&Report::Drained(RunId(1))), [Report::Drained(RunId(1))]);
    out.write_all(b"ning on 5432\n").unwrap();
    assert!(init.handle.drain(RunId(1), init.now()));
    assert_eq!(
        init.until(&Report::Drained(RunId(1))),
        [Report::Ready(RunId(1)), Report::Drained(RunId(1))]
    );
    drop(out);
    assert_eq!(init.until(&Report::Ended(RunId(1))), [Report::Ended(RunId(1))]);
    assert!(!init.handle.drain(RunId(1), init.now()), "there is nothing left to drain");
    init.finish();
}

#[test]
fn a_million_lines_before_the_ready_line_lose_nothing() {
    let mut init = Init::with_files(|_| {});
    let script = "seq 1 1000000; echo now ready; seq 1 10";
    let mut loud = init.shell(3, "loud", Some("ready$"), script);
    let mut quiet = init.shell(4, "quiet", None, "echo heard");
    init.until(&Report::Ready(RunId(3)));
    init.until(&Report::Ended(RunId(3)));
    assert!(loud.wait().unwrap().success() && quiet.wait().unwrap().success());
    init.finish();
    let lines = texts(&init.file("loud"));
    assert_eq!(lines.len(), 1_000_011);
    assert!(lines.iter().take(1_000_000).zip(1..).all(|(line, n)| *line == n.to_string()));
    assert_eq!(lines[1_000_000], "now ready");
    assert_eq!(texts(&init.file("quiet")), ["heard"]);
}

#[test]
fn no_file_is_created_before_files_may_be_opened_and_the_tail_is_written_then() {
    let mut init = Init::new(|_| {});
    let mut early = init.shell(1, "early", None, "seq 1 20000");
    early.wait().unwrap();
    init.until(&Report::Ended(RunId(1)));
    assert!(!init.scratch.0.join("deep").exists());
    init.handle.open_files(init.now());
    init.finish();
    let lines = stored(&init.file("early"));
    let (note, rest) = lines.split_first().unwrap();
    assert_eq!(note.0, None);
    let lost: usize = note
        .1
        .strip_suffix(" lines lost: the log directory was not available yet")
        .unwrap()
        .parse()
        .unwrap();
    assert!(lost > 0 && rest.len() > 100 && lost + rest.len() == 20_000);
    assert_eq!(rest.last().unwrap(), &(Some(1), "20000".to_string()));
}

#[test]
fn full_log_file_is_rotated_and_the_number_of_files_is_limited() {
    let mut init = Init::with_files(|settings| {
        settings.log_size = 4096;
        settings.log_keep = 2;
    });
    fs::create_dir_all(init.file("x").parent().unwrap()).unwrap();
    let kept_before = PathBuf::from(format!("{}.3", init.file("web").display()));
    fs::write(kept_before, "from a time when more were kept").unwrap();
    let mut child = init.shell(1, "web", None, "seq 1 1000");
    child.wait().unwrap();
    init.until(&Report::Ended(RunId(1)));
    init.finish();
    let numbered = |n| PathBuf::from(format!("{}.{n}", init.file("web").display()));
    let mut lines = texts(&numbered(2));
    lines.extend(texts(&numbered(1)));
    lines.extend(texts(&init.file("web")));
    assert!(!numbered(3).exists());
    for file in [init.file("web"), numbered(1), numbered(2)] {
        assert!((1..=4096).contains(&fs::metadata(&file).unwrap().len()), "{file:?}");
    }
    let first: usize = lines[0].parse().unwrap();
    let want: Vec<String> = (first..=1000).map(|n| n.to_string()).collect();
    assert_eq!(lines, want);
}

#[test]
fn foreign_file_at_the_log_path_is_moved_aside_unchanged() {
    let mut init = Init::with_files(|_| {});
    let dir = init.file("x").parent().unwrap().to_path_buf();
    fs::create_dir_all(&dir).unwrap();
    let victim = init.scratch.0.join("victim");
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, init.file("link")).unwrap();
    fs::hard_link(&victim, init.file("hard")).unwrap();
    nix::unistd::mkfifo(&init.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(init.file("dir")).unwrap();
    for (run, unit) in (1..).zip(["link", "hard", "fifo", "dir"]) {
        let mut child = init.shell(run, unit, None, "echo hello");
        child.wait().unwrap();
        init.until(&Report::Ended(RunId(run)));
    }
    init.finish();
    for unit in ["link", "hard", "fifo", "dir"] {
        assert_eq!(texts(&init.file(unit)), ["hello"], "{unit}");
        assert!(fs::symlink_metadata(format!("{}.1", init.file(unit).display())).is_ok());
    }
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

/// Runs `work` in a forked process with its own mount namespace. Returns true if it ended normally.
fn with_own_mounts(work: impl FnOnce()) -> bool {
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    let child = sys::process::fork(&[], || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
        work();
        0
    })
    .unwrap();
    waitpid(child, None).unwrap() == nix::sys::wait::WaitStatus::Exited(child, 0)
}

fn mount_small(path: &Path, size: &str, flags: nix::mount::MsFlags) {
    let options = format!("size={size},mode=755");
    nix::mount::mount(Some("tmpfs"), path, Some("tmpfs"), flags, Some(options.as_str())).unwrap();
}

#[test]
fn full_or_read_only_disk_loses_only_counted_lines() {
    use nix::mount::MsFlags;
    if !nix::unistd::geteuid().is_root() {
        // Only root can mount.
        return crate::not_run!("it takes root");
    }
    let passed = with_own_mounts(|| {
        let mut init = Init::with_files(|_| {});
        let dir = init.file("x").parent().unwrap().to_path_buf();
        fs::create_dir_all(&dir).unwrap();
        mount_small(&dir, "64k", MsFlags::empty());
        let mut child = init.shell(1, "web", None, "seq 1 30000");
        assert!(child.wait().unwrap().success());
        init.until(&Report::Ended(RunId(1)));
        let mut tail = init.ask(r#"{"v":1,"id":1,"verb":"logs","targets":["web"],"n":1}"#);
        assert_eq!(next_line(&mut tail)["ok"]["line"], "30000");
        mount_small(&dir, "4m", MsFlags::MS_REMOUNT);
        // When there is room again, the next lines report the number of missing ones.
        let mut out = File::from(init.pipe(2, "web", None));
        let (end, mut said) = (Instant::now() + DEADLINE, 0);
        while !lossy(&fs::read(init.file("web")).unwrap()).ends_with("2 again\n") {
            assert!(Instant::now() < end, "never written again");
            said += 1;
            writeln!(out, "again").unwrap();
            init.handle.drain(RunId(2), init.now());
            init.until(&Report::Drained(RunId(2)));
        }
        init.finish();
        let lines = stored(&init.file("web"));
        let written = lines.iter().take_while(|(run, _)| *run == Some(1)).count();
        let note = lines[written].1.strip_suffix(" lines lost: No space left on device").unwrap();
        let (before, after) = (&lines[..written], &lines[written + 1..]);
        assert!(written > 100 && before.iter().zip(1..).all(|(line, n)| line.1 == n.to_string()));
        assert_eq!(written + note.parse::<usize>().unwrap() + after.len(), 30_000 + said);
        nix::mount::umount(&dir).unwrap();

        let mut init = Init::with_files(|_| {});
        let dir = init.file("x").parent().unwrap().to_path_buf();
        fs::create_dir_all(&dir).unwrap();
        mount_small(&dir, "64k", MsFlags::MS_RDONLY);
        let mut child = init.shell(1, "web", None, "echo kept in memory");
        assert!(child.wait().unwrap().success());
        init.until(&Report::Ended(RunId(1)));
        let mut tail = init.ask(r#"{"v":1,"id":1,"verb":"logs","targets":["web"]}"#);
        assert_eq!(next_line(&mut tail)["ok"]["line"], "kept in memory");
        init.finish();
        nix::mount::umount(&dir).unwrap();
    });
    assert!(passed, "see the panic above");
}

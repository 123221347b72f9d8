//! Descriptors that somebody passes to init and whose close nobody answers.

use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::silent::Silent;
use serde_json::json;

#[test]
fn init_does_not_wait_for_a_file_system_whose_file_it_was_passed() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    for name in ["keeper", "stranger"] {
        let most = if name == "keeper" { 2 } else { 0 };
        let text = format!(
            "type: foreground-notified\nfd-store-max: {most}\n\
             exec-start: DAEMON --notify --control DIR/{name}"
        );
        files.unit(name, &text);
    }
    // Its pid file is where nobody answers.
    files.unit(
        "daemon",
        "type: background-pidfile\npid-file: DIR/silent/file\nrestart: never\nexec-start: /bin/true",
    );
    files.unit("all", "type: virtual\nwants: base, keeper, stranger");
    std::fs::create_dir(files.path("silent")).unwrap();
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        eprintln!("no fuse here: nothing was tested");
        return init.finish();
    };
    // Each of the two waits for its own close, and so does whoever closes what init was passed.
    for (name, count) in [("stranger", 2), ("keeper", 4)] {
        let file = init.sandbox.at("silent/file");
        init.sandbox.order(name, &format!("store {file} FDSTORE=1\\nFDNAME=x"));
        silent.until_closing(count);
        assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    }
    // What is started now has no copy of it.
    init.tell("set-target", &json!({"targets": ["all"], "want": ["other"]}));
    init.when_state("other", "running");
    init.tell("set-target", &json!({"targets": ["all"], "want": ["daemon"]}));
    let status = init.when_state("daemon", "failed");
    let reason = status.unit("daemon")["reason"]["text"].to_string();
    assert!(reason.contains("need not answer"), "{reason}");
    drop(silent);
    until("both go on", || {
        let alive = |name: &str| init.main_of(name).state() == Some('S');
        (alive("keeper") && alive("stranger")).then_some(())
    });
    init.finish();
}

#[test]
fn many_such_files_at_once_hold_nothing_open_in_init() {
    let files = Sandbox::new();
    files.unit("base", "exec-start: DAEMON");
    files.unit("other", "exec-start: DAEMON");
    for name in ["few", "many"] {
        let text =
            format!("type: foreground-notified\nexec-start: DAEMON --notify --control DIR/{name}");
        files.unit(name, &text);
    }
    files.unit("all", "type: virtual\nwants: base, few, many");
    std::fs::create_dir(files.path("silent")).unwrap();
    let init = Boot::new(files).start("all");
    init.when_system("running");
    let Some(silent) = Silent::new(init.process(), &init.sandbox.path("silent")) else {
        eprintln!("no fuse here: nothing was tested");
        return init.finish();
    };
    let file = init.sandbox.at("silent/file");
    // Two with one message, each of which waits by itself; then more than may wait.
    init.sandbox.order("few", &format!("pass 1 2 {file}"));
    silent.until_closing(2);
    init.sandbox.order("many", &format!("pass 70 1 {file}"));
    silent.until_closing(64);
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("set-target", &json!({"targets": ["all"], "want": ["other"]}));
    init.when_state("other", "running");
    init.tell("upgrade", &json!({}));
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.tell("restart", &json!({"targets": ["other"]}));
    init.when_state("other", "running");
    drop(silent);
    init.finish();
}

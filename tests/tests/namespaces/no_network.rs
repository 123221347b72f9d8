//! PID 1 opens no network connection, and looks up no path that a client names.

use super::socket::free_port;
use groundstate_tests::boot::Boot;
use groundstate_tests::deadline::until;
use groundstate_tests::sandbox::Sandbox;
use groundstate_tests::tracer::Tracer;
use serde_json::json;

#[test]
fn pid_1_opens_no_network_socket() {
    let files = Sandbox::new();
    // The socket unit listens on the network; a child opens the socket.
    let listen = format!("type: socket\nlisten-stream: 127.0.0.1:{}\nactivates: web", free_port());
    files.unit("door", &listen);
    files.unit("web", "type: foreground-notified\nexec-start: DAEMON --name web --notify");
    files.unit("tick", "type: timer\ntimer-startup: 10ms\nactivates: job");
    files.unit("job", "type: oneshot\nexec-start: /bin/true");
    files.unit("all", "type: virtual\nwants: door, web, tick");
    let trace = files.at("strace");
    // Traces only init, from its first system call to its last; children are not followed.
    let calls = "trace=socket,socketpair,connect,bind,listen,accept4,accept,sendto,sendmsg";
    let wrapper = ["strace", "-D", "-qq", "-o", &trace, "-e", calls];
    let mut init = Boot::new(files).through(&wrapper).start("all");
    assert_eq!(init.tell("ping", &json!({}))["pid"], 1);
    init.when_state("web", "running");
    init.tell("reload", &json!({}));
    init.tell("restart", &json!({"targets": ["web"]}));
    init.when_system("running");
    init.check();
    init.tell("exit", &json!({}));
    assert_eq!(init.ended().code(), Some(0));
    let text = init.sandbox.read("strace");
    assert!(text.contains("AF_UNIX") && text.contains("accept4("), "the trace has calls: {text}");
    for family in ["AF_INET", "AF_PACKET", "AF_NETLINK", "AF_VSOCK"] {
        assert!(!text.contains(family), "{family}:\n{text}");
    }
}

/// A word that no other caller uses.
const MARK: &str = "marked-by-a-caller";

#[test]
fn invalid_name_is_used_as_no_path() {
    let files = Sandbox::new();
    files.put("init.yaml", "sources:\n  fleet: {uid: 0}\n");
    files.unit("web", "exec-start: DAEMON");
    let init = Boot::new(files).start("web");
    init.when_system("running");
    let calls = "trace=%file,mkdirat,renameat2,symlinkat,unlinkat,openat2";
    let tracer = Tracer::attach(init.process(), &init.sandbox.path("strace"), &["-f", "-e", calls]);
    let names = [
        format!("../{MARK}"),
        format!("/tmp/{MARK}"),
        format!("a/../../{MARK}"),
        format!(".{MARK}"),
        format!("-{MARK}"),
        format!("{MARK}\0"),
        format!("{MARK}\n"),
        format!("{MARK}/"),
        format!("{MARK}{}", "x".repeat(250)),
        "..".to_owned(),
        String::new(),
    ];
    for name in &names {
        for verb in ["status", "want", "set-target", "restart", "kill", "cat", "why", "source-drop"]
        {
            let fields = json!({"target": name, "targets": [name], "source": name});
            let refused = init.ask(verb, &fields);
            assert!(refused.is_err(), "{verb} {name:?}: {refused:?}");
        }
    }
    // The instance of a template is part of a name too.
    for name in [format!("web@../{MARK}"), format!("web@{MARK}/x"), format!("web@{MARK}\0")] {
        let refused = init.ask("want", &json!({"target": name}));
        assert!(refused.is_err(), "{name:?}: {refused:?}");
    }
    init.tell("reload", &json!({}));
    until("the loader was seen", || {
        tracer.lines().iter().any(|line| line.contains("web.yaml")).then_some(())
    });
    let lines = tracer.detach();
    let reached: Vec<&String> = lines.iter().filter(|line| line.contains(MARK)).collect();
    assert!(reached.is_empty(), "{reached:?}");
    init.finish();
}

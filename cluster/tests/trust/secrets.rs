//! Secrets are never shown: the test plants words where secrets belong, and searches everything
//! that others can read.

use crate::real_machine::{Manner, Node, Running, called, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const PASSWORD: &str = "canary-of-the-password";
const OF_A_UNIT: &str = "canary-of-a-unit";
const OF_A_FILE: &str = "canary-of-a-file";
const OF_A_KEY: &str = "canary-of-a-broken-key";

fn call(program: &str, words: &str, at: &Path) {
    let output = Command::new(program).args(words.split(' ')).current_dir(at).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {words}: {printed}");
}

/// Enables authentication in etcd.
fn lock(node: &Node) {
    let etcd = |words: &str| {
        until("etcdctl is answered", || {
            let line = format!("--endpoints={} {words}", node.url());
            let called =
                Command::new("etcdctl").args(line.split(' ')).env("ETCDCTL_API", "3").output();
            called.unwrap().status.success().then_some(())
        });
    };
    etcd(&format!("user add root:{PASSWORD}"));
    etcd("auth enable");
}

/// Creates certificates for the API. Returns a line of the key.
fn certificates(at: &Path) -> String {
    let new = "req -x509 -newkey rsa:2048 -nodes -days 30";
    call("openssl", &format!("{new} -keyout ca.key -out ca.crt -subj /CN=ca"), at);
    let more = "-subj /CN=server -addext subjectAltName=IP:127.0.0.1 -CA ca.crt -CAkey ca.key";
    call("openssl", &format!("{new} -keyout server.key -out server.crt {more}"), at);
    call("chmod", "0644 server.key", at);
    let key = std::fs::read_to_string(at.join("server.key")).unwrap();
    key.lines().nth(3).unwrap().to_string()
}

fn pid_of(fleetd: &Running) -> Pid {
    Pid::from_raw(fleetd.child.id().cast_signed())
}

/// Returns everything that programs wrote below a folder.
fn written(node: &Node) -> String {
    let logs = std::fs::read_dir(node.folder.join("log")).unwrap().flatten().map(|one| one.path());
    let own = ["fleetd", "init"].map(|name| node.folder.join(format!("{name}.log")));
    let read = |path: std::path::PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    };
    logs.chain(own).map(read).collect()
}

/// Returns all API answers except unit files, which are public.
fn answered(node: &Node) -> String {
    let api = ["state", "machines", "why/open.service", "why/bad.service", "discovery"];
    let api = api.map(|path| node.get(&format!("/fleet/v1/{path}")));
    let others = ["/metrics", "/healthz", "/ui"].map(|path| node.get(path));
    let lists = ["list-units", "list-machines"].map(|list| node.fleetctl(&["--json", list]));
    let init: [&[&str]; 5] = [
        &["--json", "status"],
        &["--json", "events"],
        &["stats"],
        &["tree"],
        &["why", "open.service"],
    ];
    let init = init.map(|words| node.initctl(words));
    [api.concat(), others.concat(), lists.concat(), init.concat()].concat()
}

#[test]
fn secrets_appear_in_no_output_and_no_core_dump() {
    let conf = "verbosity=1\netcd_username=root\ntls_cert_file=../server.crt\n\
                tls_key_file=../server.key\ntls_client_ca_file=../ca.crt\n";
    let env = vec![("FLEET_ETCD_PASSWORD", PASSWORD.to_string())];
    let node = Node::with(Manner { conf: conf.to_string(), env, unprivileged: true });
    let of_the_key = certificates(&node.folder);
    let _etcd = node.etcd();
    let _init = node.init();
    lock(&node);
    let mut fleetd = node.fleetd();
    node.when_there();
    node.put("secrets", &format!("FROM_FILE={OF_A_FILE}\n"));
    let file = node.folder.join("secrets");
    let env = format!("Environment=TOKEN={OF_A_UNIT}\nEnvironmentFile={}\n", file.display());
    node.put("open.service", &format!("[Service]\n{env}ExecStart={}\n", node.command("open")));
    // An invalid line is reported without its contents.
    let odd = format!("Environment=\"TOKEN={OF_A_UNIT}\nEnvironment={OF_A_UNIT}\n");
    node.put("bad.service", &format!("[Service]\n{odd}ExecStart=/no/such {OF_A_UNIT}x\n"));
    node.fleetctl(&["start", "--no-block", "open.service", "bad.service"]);
    node.when_running("open.service");
    let pid = until("it has started", || node.pid("open"));
    until("the unit has them", || {
        let of_unit = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
        (of_unit.contains(OF_A_UNIT) && of_unit.contains(OF_A_FILE)).then_some(())
    });

    // Invalid configurations, one after the other.
    let refused_settings =
        || node.log("fleetd").matches("cannot apply the other new settings").count();
    node.put(
        "broken.key",
        &format!("-----BEGIN PRIVATE KEY-----\n{OF_A_KEY}\n-----END PRIVATE KEY-----\n"),
    );
    let broken = node.conf().replace("../server.key", "../broken.key");
    for bad in [broken, format!("etcd_password {PASSWORD}\n")] {
        node.put("fleet.conf", &bad);
        let before = node.log("fleetd").matches("ERROR").count();
        kill(pid_of(&fleetd), Signal::SIGHUP).unwrap();
        until("fleetd logs it", || {
            (node.log("fleetd").matches("ERROR").count() > before).then_some(())
        });
    }
    assert_eq!(refused_settings(), 1, "an invalid private key is accepted");
    kill(pid_of(&fleetd), Signal::SIGUSR1).unwrap();
    until("fleetd dumps its state", || node.log("fleetd").contains("\"machine\":").then_some(()));

    let all = [written(&node), answered(&node)].concat();
    assert!(all.contains("bad.service") && all.contains("open.service"));
    for secret in [PASSWORD, OF_A_UNIT, OF_A_FILE, OF_A_KEY, &of_the_key] {
        let line = all.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is shown");
    }
    // A valid one: fleetd re-executes itself and stays as closed as before.
    let ready = || node.log("fleetd").matches("INFO ready").count();
    let before = ready();
    node.put("fleet.conf", &format!("{}token_limit=7\n", node.conf()));
    kill(pid_of(&fleetd), Signal::SIGHUP).unwrap();
    until("it is ready again", || (ready() > before).then_some(()));
    is_closed(&node, &mut fleetd);
}

/// Only root can read fleetd's memory, and a crash writes no core.
fn is_closed(node: &Node, fleetd: &mut Running) {
    let pid = pid_of(fleetd);
    let environ = format!("/proc/{pid}/environ");
    assert_eq!(std::fs::metadata(&environ).unwrap().uid(), 0, "it is root's");
    let is_root = std::fs::metadata(&node.folder).unwrap().uid() == 0;
    let reader = match is_root {
        true => format!("setpriv --reuid 65534 --regid 65534 --clear-groups cat {environ}"),
        false => format!("cat {environ}"),
    };
    let words: Vec<&str> = reader.split(' ').collect();
    let read = called(&words).output().unwrap();
    assert!(
        !read.status.success() && read.stdout.is_empty(),
        "fleetd's own user can read its environment"
    );
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let values: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(values, ["0", "0"]);
    kill(pid, Signal::SIGABRT).unwrap();
    let status = fleetd.child.wait().unwrap();
    assert!(!std::os::unix::process::ExitStatusExt::core_dumped(&status), "{status}");
}

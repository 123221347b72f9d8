//! A machine that requires signatures, with an attacker who may write to etcd. Only files signed by
//! a trusted key run, for this cluster and name, with the newest signature.

use crate::real_machine::{Manner, Node, called, until};
use cluster::record::{UnitRecord, decode, encode};
use cluster::signature::SigningKey;
use cluster::unit_name::UnitName;

const UNITS: &str = "/_coreos.com/fleet/v3/unit";
const DESIRED: &str = "/_coreos.com/fleet/v3/desired";
const SCHEDULE: &str = "/_coreos.com/fleet/v3/schedule";

/// Writes a key directly.
fn write(node: &Node, key: &str, value: &str) {
    node.etcdctl(&["put", key, value]);
}

fn record(node: &Node, name: &str) -> String {
    let text = node.etcdctl(&["get", "--print-value-only", &format!("{UNITS}/{name}")]);
    text.trim().to_string()
}

fn keys(node: &Node) {
    for name in ["good", "other"] {
        let line = format!("openssl genpkey -algorithm ed25519 -out {name}.key");
        let public = format!("openssl pkey -in {name}.key -pubout -out {name}.pub");
        for line in [line, public] {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(called(&words).current_dir(&node.folder).output().unwrap().status.success());
        }
    }
}

fn file(node: &Node, name: &str, more: &str) -> String {
    let file = format!("{name}.service");
    let text = format!("[Service]\nExecStart={}\n{more}", node.command(name));
    node.put(&file, &text);
    file
}

fn refused(node: &Node, unit: &str, why: &str) {
    until(&format!("{unit} is refused: {why}"), || {
        let (_, printed) = node.try_fleetctl(&["why", unit]);
        printed.contains(why).then_some(())
    });
    let fields = "--fields=unit,load,active,sub";
    let listed = node.fleetctl(&["list-units", "--no-legend", fields]);
    let words = |line: &str| line.split_whitespace().map(str::to_string).collect::<Vec<_>>();
    assert!(
        listed.lines().any(|line| words(line) == [unit, "error", "inactive", "dead"]),
        "{listed}"
    );
    assert_eq!(node.pid(unit.trim_end_matches(".service")), None, "{unit} does not run");
}

#[test]
fn machine_with_trusted_keys_runs_only_the_newest_signed_file() {
    let conf = "trusted_keys_file=../good.pub\ncluster_name=here\nstate_directory=state\n";
    let node = Node::with(Manner { conf: conf.to_string(), ..Manner::default() });
    keys(&node);
    let _etcd = node.etcd();
    let _init = node.init();
    let mut fleetd = node.fleetd();
    node.when_there();
    let with =
        |key: &'static str, cluster: &'static str| ["--sign-key", key, "--cluster-name", cluster];
    let signed = |words: &[&str]| node.fleetctl(&[&with("good.key", "here")[..], words].concat());

    let good = file(&node, "good", "");
    signed(&["start", &good]);
    node.when_running(&good);
    let pid = Some(until("it has started", || node.pid("good")));
    let unsigned = file(&node, "unsigned", "\n[X-Fleet]\nGlobal=true\n");
    node.fleetctl(&["start", "--no-block", &unsigned]);
    refused(&node, &unsigned, "it is not signed");
    let not_theirs = "not by a key trusted here, or is for another file, name, serial or cluster";
    for (name, key, cluster) in
        [("stranger", "other.key", "here"), ("elsewhere", "good.key", "there")]
    {
        let unit = file(&node, name, "");
        let words = ["start", "--no-block", &unit];
        node.fleetctl(&[&with(key, cluster)[..], &words].concat());
        refused(&node, &unit, not_theirs);
    }
    // An attacker stores a valid signature with another name, and with another file.
    write(&node, &format!("{DESIRED}/renamed.service"), r#"{"v":1,"desired":"launched"}"#);
    write(&node, &format!("{UNITS}/renamed.service"), &record(&node, &good));
    refused(&node, "renamed.service", not_theirs);
    let changed = file(&node, "changed", "");
    signed(&["submit", &changed]);
    let bent = record(&node, &changed).replace("sleep 100000", "sleep 200000");
    write(&node, &format!("{UNITS}/{changed}"), &bent);
    node.fleetctl(&["start", "--no-block", &changed]);
    refused(&node, &changed, not_theirs);

    replayed(&node, &signed);
    fleetd.kill();
    let _fleetd = node.fleetd();
    node.when_there();
    refused(&node, "again.service", "its signature is outdated");
    signed(&["start", "--replace", "again.service"]);
    until("it runs with a new signature", || node.pid("again"));
    assert_eq!((node.pid("good"), node.begins("good")), (pid, 1), "it was never touched");
    // The signature does not cover the desired state.
    node.fleetctl(&["stop", &good]);
    until("it is stopped", || node.pid("good").is_none().then_some(()));
}

/// Stores an older file of a unit with its former signature.
fn replayed(node: &Node, signed: &dyn Fn(&[&str]) -> String) {
    let again = file(node, "again", "");
    signed(&["start", &again]);
    let old = until("it runs", || node.pid("again"));
    let (then, key) = (record(node, &again), format!("{SCHEDULE}/{}/{again}", node.id));
    let schedule = node.etcdctl(&["get", "--print-value-only", &key]);
    file(node, "again", "# another\nTimeoutStopSec=3\n");
    signed(&["start", "--replace", &again]);
    until("the new one runs", || node.pid("again").filter(|now| *now != old));
    write(node, &format!("{UNITS}/{again}"), &then);
    write(node, &key, schedule.trim());
    refused(node, &again, "its signature is outdated");
    file(node, "again", "");
}

#[test]
fn key_signs_nothing_that_another_client_wrote_to_etcd() {
    let conf = "trusted_keys_file=../good.pub\ncluster_name=here\nstate_directory=state\n";
    let node = Node::with(Manner { conf: conf.to_string(), ..Manner::default() });
    keys(&node);
    let _etcd = node.etcd();
    let _init = node.init();
    let _fleetd = node.fleetd();
    node.when_there();
    let signs = ["--sign-key", "good.key", "--cluster-name", "here"];
    let signed = |words: &[&str]| node.fleetctl(&[&signs[..], words].concat());

    // A signed template, and a modified one.
    let template = file(&node, "many@", "");
    signed(&["submit", &template]);
    std::fs::remove_file(node.folder.join(&template)).unwrap();
    signed(&["start", "many@1.service"]);
    node.when_running("many@1.service");
    let bent = record(&node, &template).replace("sleep 100000", "sleep 200000");
    write(&node, &format!("{UNITS}/{template}"), &bent);
    let shown = until("it is seen", || {
        let shown = node.fleetctl(&["cat", &template]);
        shown.contains("sleep 200000").then_some(shown)
    });
    let (fine, printed) = node.try_fleetctl(&[&signs[..], &["start", "many@2.service"]].concat());
    assert!(!fine && printed.contains("is not signed with this key for this cluster"), "{printed}");
    assert!(!node.fleetctl(&["list-unit-files"]).contains("many@2"), "{shown}");

    // A rollback signs the old file again; it cannot do that for a foreign key.
    let (own, foreign) = (file(&node, "own", ""), file(&node, "foreign", ""));
    signed(&["start", &own]);
    node.when_running(&own);
    let far = signed_ahead(&node, &own);
    let stranger = ["--sign-key", "other.key", "--cluster-name", "here"];
    node.fleetctl(&[&stranger[..], &["start", "--no-block", &foreign]].concat());
    let theirs = record(&node, &foreign);
    let outcomes = [(&own, "restored the old file"), (&foreign, "is signed with another key")];
    for (name, outcome) in outcomes {
        node.put(name, "[Service]\nType=oneshot\nExecStart=/bin/false\n");
        let (fine, printed) =
            node.try_fleetctl(&[&signs[..], &["rollout", "--healthy-for=0", name]].concat());
        assert!(!fine && printed.contains(outcome), "{printed}");
    }
    node.when_running(&own);
    assert_eq!(
        kept(&node, &own).signature.unwrap().serial,
        far + 2,
        "the new serial does not follow the last one"
    );
    assert_eq!(record(&node, &foreign), theirs);
    refused(&node, &foreign, "not by a key trusted here");
}

fn kept(node: &Node, name: &str) -> UnitRecord {
    decode(record(node, name).as_bytes()).unwrap()
}

/// Signs the unit with a clock that is a day ahead. Returns the serial.
fn signed_ahead(node: &Node, name: &str) -> u64 {
    let key =
        SigningKey::of(&std::fs::read(node.folder.join("good.key")).unwrap(), "here").unwrap();
    let UnitRecord { options, signature } = kept(node, name);
    let far = signature.unwrap().serial + 24 * 60 * 60 * 1000;
    let signature = Some(key.sign(&UnitName::new(name).unwrap(), &options, far));
    let value = encode(&UnitRecord { options, signature });
    write(node, &format!("{UNITS}/{name}"), &String::from_utf8(value).unwrap());
    let path = format!("/fleet/v1/units/{name}");
    until("it is seen", || node.get(&path).contains(&far.to_string()).then_some(()));
    far
}

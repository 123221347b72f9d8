//! Answers that move no unit: machines over HTTP, and fleetctl itself.

use super::{Case, sample, sleeps_with};
use crate::stand::Cluster;
use crate::stand::node::{Node, id};
use crate::stand::program::until;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub(super) const CASES: [Case; 2] = [
    sample("machines_and_metadata_are_served_over_http", machines).like(&[
        "TestMachinesList",
        "TestMachinesListBadNextPageToken",
        "TestMachinesPatchAddModify",
        "TestMachinesPatchDelete",
        "TestMachinesPatchBad",
    ]),
    sample("fleetctl_reads_its_endpoint_variable_and_prints_help_and_version", of_itself).like(&[
        "TestFleetctlWithEnv",
        "TestClientVersionFlag",
        "TestClientVersionHelpOutput",
        "TestClientHelpFlag",
    ]),
];

/// Returns status, head and body of a node's fleetd.
pub(super) fn ask(node: &Node, method: &str, path: &str, body: &str) -> (u16, String, String) {
    let mut stream = UnixStream::connect(node.at("run/fleet.sock")).unwrap();
    let length = body.len();
    let head = format!(
        "{method} /fleet/v1/{path} HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_string())
}

/// Returns the Retry-After of a head.
pub(super) fn retry_after(head: &str) -> Option<u32> {
    head.lines().find_map(|line| line.strip_prefix("retry-after: "))?.parse().ok()
}

fn metadata(node: &Node, number: u8) -> Value {
    let (status, head, body) = ask(node, "GET", "machines", "");
    assert!(status == 200 && head.contains("content-type: application/json"), "{head}");
    let page: Value = serde_json::from_str(&body).unwrap();
    let machines = page["machines"].as_array().unwrap();
    assert_eq!(machines.len(), 3, "{body}");
    machines.iter().find(|machine| machine["id"] == id(number)).unwrap()["metadata"].clone()
}

fn machines(cluster: &mut Cluster) {
    let node = cluster.node(2);
    let was = json!({"hostname": "n1", "number": "1"});
    assert_eq!(metadata(node, 1), was);
    let (status, head, body) = ask(node, "GET", "machines?nextPageToken=EwBMLg==", "");
    assert!(status == 400 && head.contains("content-type: application/json"), "{head} {body}");
    let path = format!("/{}/metadata", id(1));
    let patch = |op: &str, key: &str, value: Option<&str>| {
        let mut change = json!({"op": op, "path": format!("{path}/{key}")});
        if let Some(value) = value {
            change["value"] = json!({"value": value});
        }
        let (status, head, body) = ask(node, "PATCH", "machines", &json!([change]).to_string());
        assert!(head.contains("content-type: application/json"), "{head}");
        (status, body)
    };
    assert_eq!(patch("add", "foo", Some("bar")).0, 204);
    assert_eq!(patch("replace", "number", Some("17")).0, 204);
    let changed = json!({"foo": "bar", "hostname": "n1", "number": "17"});
    assert_eq!(metadata(node, 1), changed);
    wait_for_metadata(cluster, 3, &changed);
    // The scheduler uses the new metadata: a unit that requires it goes there.
    cluster.file("foo.service", &sleeps_with("MachineMetadata=foo=bar"));
    cluster.node(3).fleetctl(&["start", "foo.service"]);
    assert_eq!(cluster.when_on(2, "foo.service"), 1);
    for (op, key, value) in
        [("noop", "foo", Some("x")), ("add", "foo", None), ("add", "a/b", Some("x"))]
    {
        let (status, body) = patch(op, key, value);
        assert!(status == 400 && body.contains("invalid"), "{op} {key}: {status} {body}");
    }
    assert_eq!(metadata(node, 1), changed, "a refused patch changed the metadata");
    assert_eq!(patch("remove", "foo", None).0, 204);
    assert_eq!(patch("replace", "number", Some("1")).0, 204);
    wait_for_metadata(cluster, 3, &was);
}

/// Waits until the given node answers with this metadata of the first machine.
fn wait_for_metadata(cluster: &Cluster, by: u8, metadata_of_one: &Value) {
    until("the node has the metadata of the first machine", || {
        (metadata(cluster.node(by), 1) == *metadata_of_one).then_some(())
    });
}

fn of_itself(cluster: &mut Cluster) {
    // The stand sets the endpoint by variable; a flag overrides it.
    let node = cluster.node(1);
    let listed = node.fleetctl(&["list-machines", "--no-legend", "--full"]);
    assert_eq!(listed.lines().count(), 3, "{listed}");
    let socket = format!("--endpoint=unix://{}", cluster.node(2).at("run/fleet.sock"));
    assert_eq!(node.fleetctl(&[&socket, "list-machines", "--no-legend", "--full"]), listed);
    let (code, _, printed) = node.try_fleetctl(&["--endpoint=unix:///nowhere", "list-machines"]);
    assert!(code == 1 && printed.contains("/nowhere"), "{code} {printed}");
    let help = node.fleetctl(&[]);
    for words in [["--help"], ["-h"], ["help"]] {
        assert_eq!(node.fleetctl(&words), help, "{words:?}");
    }
    let version = concat!("fleetctl version v", env!("CARGO_PKG_VERSION"), "\n");
    assert!(help.contains(version), "{help}");
    for words in [["version"], ["--version"]] {
        assert_eq!(node.fleetctl(&words), version, "{words:?}");
    }
}

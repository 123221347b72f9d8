//! Logs of a unit, requested from a machine that it is not on.

use super::{Case, sample};
use crate::authority::{self, Issued};
use crate::stand::ssh::Ssh;
use crate::stand::{Cluster, network};
use std::os::unix::fs::PermissionsExt;

pub(super) const CASES: [Case; 3] = [
    sample("logs_come_from_another_machine_by_its_certificate", by_certificate),
    sample("logs_of_an_unreachable_machine_come_by_ssh", without),
    sample("logs_are_read_by_an_unprivileged_fleetd_as_shipped", as_shipped),
];

const SAYS: &str = "[Service]\nExecStart=/bin/sh -c 'echo Hello, World!; exec sleep 100000'\n";
/// All machines share this certificate, which is valid for all their addresses.
const NODE: Issued = Issued {
    extensions: "subjectAltName=IP:10.77.0.1,IP:10.77.0.2,IP:10.77.0.3\n",
    ..Issued::GOOD
};

/// Starts a unit on the third node that prints something.
fn begin(cluster: &Cluster) {
    cluster.file("hello.service", &format!("{SAYS}[X-Fleet]\nMachineMetadata=number=3\n"));
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    assert_eq!(cluster.when_on(2, "hello.service"), 3);
    // It is active once started, which is before it prints.
    crate::stand::program::until("it has printed something", || {
        cluster.node(3).log("hello.service").contains("Hello").then_some(())
    });
}

/// Restarts each fleetd with its configuration.
fn restart_fleetds(cluster: &mut Cluster, confs: &[String]) {
    for (number, conf) in (1..).zip(confs) {
        let node = cluster.node(number);
        node.stop_fleetd();
        node.put("fleet.conf", conf);
        node.start_fleetd();
    }
    cluster.when_machines(3);
}

/// Configuration lines that make the node listen for the others with a certificate.
fn listens(cluster: &Cluster, number: u8) -> String {
    let (at, folder) = (network::address(number), cluster.path("tls"));
    format!(
        "listen=tcp://{at}:4002\nadvertise={at}:4002\ntls_cert_file={folder}/node.crt\n\
         tls_key_file={folder}/node.key\ntls_client_ca_file={folder}/ca.crt\n\
         api_roles_file={folder}/roles\n"
    )
}

fn by_certificate(cluster: &mut Cluster) {
    let folder = std::path::PathBuf::from(cluster.path("tls"));
    std::fs::create_dir_all(&folder).unwrap();
    authority::authorities(&folder, &[]);
    authority::issue(&folder, "node", &NODE);
    // One fleetd runs unprivileged.
    let readable = PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(folder.join("node.key"), readable).unwrap();
    std::fs::write(folder.join("roles"), "node: machine\n").unwrap();
    let before = [1, 2, 3]
        .map(|number| std::fs::read_to_string(cluster.node(number).at("fleet.conf")).unwrap());
    let confs: Vec<String> =
        (1..).zip(&before).map(|(number, conf)| conf.clone() + &listens(cluster, number)).collect();
    restart_fleetds(cluster, &confs);
    begin(cluster);
    for at in [1, 2] {
        let (code, out, err) = cluster.node(at).try_fleetctl(&["logs", "hello.service"]);
        assert!(code == 0 && out.contains("Hello, World!"), "{code} {out} {err}");
        assert_eq!(err, "", "fleetctl did not use ssh");
    }
    // A machine with an unknown name gets no logs.
    std::fs::write(folder.join("roles"), "stranger: machine\n").unwrap();
    crate::stand::program::until("it is refused", || {
        let (code, out, _) = cluster.node(2).try_fleetctl(&["logs", "hello.service"]);
        (code != 0 && out.is_empty()).then_some(())
    });
    restart_fleetds(cluster, &before);
}

/// The first node's fleetd runs only with the rights of its unit in contrib.
fn as_shipped(cluster: &mut Cluster) {
    cluster.file("hello.service", &format!("{SAYS}[X-Fleet]\nMachineMetadata=number=1\n"));
    cluster.node(1).fleetctl(&["start", "hello.service"]);
    assert_eq!(cluster.when_on(2, "hello.service"), 1);
    crate::stand::program::until("its logs are read", || {
        let (code, out, err) = cluster.node(1).try_fleetctl(&["logs", "hello.service"]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        out.contains("Hello, World!").then_some(())
    });
}

fn without(cluster: &mut Cluster) {
    let ssh = Ssh::open(cluster);
    begin(cluster);
    let (code, out, err) = ssh.fleetctl(cluster, 2, &["logs", "hello.service"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{code} {out} {err}");
    let third = crate::stand::node::id(3);
    let message = format!("machine {third} publishes no address to read logs from; using ssh");
    assert!(err.contains(&message), "{err}");
    let (code, out, err) = ssh.fleetctl(cluster, 3, &["logs", "hello.service"]);
    assert!(code == 0 && out.contains("Hello, World!"), "{code} {out} {err}");
    assert_eq!(err, "", "the machine reads its own logs without ssh");
}

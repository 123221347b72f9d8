//! TLS handshakes: which servers a client accepts (fleetctl, and a fleetd that fetches logs), and
//! many handshakes that never finish. `tests/etcd.rs` covers etcd's certificates.

use crate::authority::{Issued, WRONG, authorities, issue, show};
use crate::stand::{Plan, Stand, fleetctl, folder, stderr};
use cluster::api::connection_limits::MOST_CONNECTIONS;
use cluster::api::handshakes;
use cluster::api::listener::Security;
use cluster::api::logs::Logs;
use cluster::api::reloaded_files::ReloadedFiles;
use cluster::api::settings::Settings;
use cluster::api::tls::{self, ClientFiles, ServerFiles};
use cluster::machine::MachineId;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::Arc;

/// Runs fleetctl with the client's certificate.
fn lists(made: &Path, address: &str) -> Output {
    let file = |flag: &str, name: &str| format!("--{flag}={}", made.join(name).display());
    let flags = [
        file("ca-file", "ca.crt"),
        file("cert-file", "client.crt"),
        file("key-file", "client.key"),
    ];
    let words = flags.iter().map(String::as_str).chain(["list-machines"]);
    fleetctl(made, &format!("https://{address}"), &words.collect::<Vec<_>>())
}

fn security(made: &Path) -> Security {
    std::fs::write(made.join("roles"), "client: operator\n").unwrap();
    let files = ServerFiles {
        cert: made.join("server.crt"),
        key: made.join("server.key"),
        client_ca: made.join("ca.crt"),
        client_crl: None,
    };
    Security { tls: Some(files), roles_file: Some(made.join("roles")), ..Security::default() }
}

#[test]
fn server_with_a_wrong_certificate_is_refused() {
    let made = folder();
    let at = |name: &str| made.join(name);
    authorities(&made, &[("server", "ca"), ("client", "ca")]);
    let server = Stand::new(Plan { security: Some(security(&made)), ..Plan::of(&["m2"]) });
    let address = server.tcp.unwrap().to_string();
    let client =
        ClientFiles { ca: Some(at("ca.crt")), own: Some((at("client.crt"), at("client.key"))) };
    let shown = ReloadedFiles::of(Vec::new(), move || tls::client(&client)).unwrap();
    let logs = Logs {
        machine: MachineId::new("m1").unwrap(),
        socket: at("no-logger"),
        tls: Some(Arc::new(shown)),
    };
    let asks = Stand::new(Plan {
        listen: BTreeMap::from([("m2", address.clone())]),
        settings: Settings { logs: Some(logs), ..Settings::default() },
        ..Plan::of(&["m1", "m2"])
    });
    let unit = "[Service]\nExecStart=/bin/a\n\n[X-Fleet]\nMachineID=m2\n";
    std::fs::write(asks.folder.join("a.service"), unit).unwrap();
    assert!(asks.fleetctl(&["start", "a.service"]).status.success());
    let reads = || asks.get("/fleet/v1/logs/a.service");
    for (why, issued) in WRONG {
        issue(&made, "127.0.0.1", &issued);
        show(&made, "127.0.0.1", "server");
        let (listed, read) = (lists(&made, &address), reads());
        assert_eq!(listed.status.code(), Some(1), "{issued:?}");
        assert!(stderr(&listed).contains(why), "{issued:?}: {}", stderr(&listed));
        assert_eq!(read.status, 503, "{issued:?}: {}", read.body);
        assert!(read.body.contains(why), "{issued:?}: {}", read.body);
    }
    // Everything else was valid: the machine answers that it has no logger.
    issue(&made, "127.0.0.1", &Issued::GOOD);
    show(&made, "127.0.0.1", "server");
    let (listed, read) = (lists(&made, &address), reads());
    assert!(listed.status.success(), "{}", stderr(&listed));
    assert!(
        read.status == 409 && read.body.contains("reading logs is not enabled"),
        "{}",
        read.body
    );
    std::fs::remove_dir_all(&made).unwrap();
}

/// Starts a handshake from another local address.
fn begin(from: u8, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let connected = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 1, from], 0))).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    // The start of a record that never ends.
    (&connected).write_all(&[22, 3, 1]).unwrap();
    connected.set_nonblocking(true).unwrap();
    connected
}

/// Returns true if the server keeps the connection.
fn is_held(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn many_unfinished_handshakes_leave_slots_for_others() {
    let made = folder();
    authorities(&made, &[("server", "ca"), ("client", "ca")]);
    let stand = Stand::new(Plan { security: Some(security(&made)), ..Plan::of(&["m1"]) });
    let address = stand.tcp.unwrap();
    let mut seen = Vec::new();
    // On a very busy host the handshakes may time out before the check.
    let were_held = (0..5).any(|_| {
        // As many as there are slots.
        let sides = u8::try_from(MOST_CONNECTIONS / 128).unwrap();
        let crowd = (0..sides).flat_map(|side| (0..128).map(move |_| side));
        let crowd: Vec<TcpStream> = crowd.map(|side| begin(side, address)).collect();
        let listed = lists(&made, &address.to_string());
        assert!(listed.status.success(), "{}", stderr(&listed));
        let held: Vec<bool> = crowd.iter().map(is_held).collect();
        let count = held.iter().filter(|held| **held).count();
        seen.push(count);
        assert!(count <= handshakes::MOST, "{count} handshakes are in progress");
        for side in held.chunks(128).filter(|side| side.contains(&true)) {
            assert!(!side[..128 - handshakes::MOST_OF_ONE].contains(&true), "the oldest go first");
        }
        count > 0
    });
    assert!(were_held, "the client waited until the unfinished handshakes timed out: {seen:?}");
    std::fs::remove_dir_all(&made).unwrap();
}

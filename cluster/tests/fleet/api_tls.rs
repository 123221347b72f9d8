//! The API over TCP: only certificates of the right CA are accepted, and the role of a name
//! decides. openssl makes the certificates.

use crate::stand::{Plan, Reply, Stand, fleetctl, folder, stderr, stdout};
use cluster::api::listener::Security;
use cluster::api::tls::{ClientFiles, ServerFiles};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROLES: &str =
    "ann: operator\nbob: reader\nci: {role: operator, prefix: [web]}\nnode: machine\n";

/// A folder of certificates.
struct Authority {
    folder: PathBuf,
}

impl Authority {
    fn new() -> Authority {
        let made = Authority { folder: folder() };
        for ca in ["ca", "other"] {
            made.openssl(&format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -days 30 \
                 -subj /CN={ca} -addext keyUsage=critical,keyCertSign,cRLSign"
            ));
        }
        made.issue("server", "ca", "rsa:2048", "serverAuth", "-days 30");
        made.put("roles", ROLES);
        made
    }

    /// Writes a file atomically.
    fn put(&self, file: &str, text: &str) {
        std::fs::write(self.path("fresh"), text).unwrap();
        std::fs::rename(self.path("fresh"), self.path(file)).unwrap();
    }

    /// Runs `openssl ca` as a CA that keeps a database of its certificates, for the revocation
    /// list.
    fn run_ca(&self, words: &str) {
        let config = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\n\
                      default_md=sha256\ndefault_crl_days=30\nnew_certs_dir=.\nserial=serial\npolicy=p\n\
                      [p]\ncommonName=supplied\n";
        for (file, text) in
            [("index.txt", ""), ("crlnumber", "01\n"), ("serial", "01\n"), ("crl.cnf", config)]
        {
            if !self.path(file).exists() {
                self.put(file, text);
            }
        }
        self.openssl(&format!("ca -batch -config crl.cnf -cert ca.crt -keyfile ca.key {words}"));
    }

    fn revoke(&self, name: &str) {
        self.run_ca(&format!("-revoke {name}.crt"));
        self.run_ca("-gencrl -out fresh");
        std::fs::rename(self.path("fresh"), self.path("ca.crl")).unwrap();
    }

    /// Issues a client certificate that expires in this many seconds.
    fn client_for(&self, name: &str, seconds: u32) {
        self.client(name, "ca");
        let wanted = [format!("--date={seconds} seconds"), "+%y%m%d%H%M%SZ".to_string()];
        let end = Command::new("date").arg("-u").args(wanted).output().unwrap().stdout;
        let end = String::from_utf8(end).unwrap();
        let (own, ends) = (format!("-in {name}.csr -out {name}.crt"), end.trim());
        self.run_ca(&format!("-notext -extfile {name}.ext -enddate {ends} {own}"));
    }

    fn config(&self, name: &str) -> Arc<ClientConfig> {
        let own = (self.path(&format!("{name}.crt")), self.path(&format!("{name}.key")));
        let files = ClientFiles { ca: Some(self.path("ca.crt")), own: Some(own) };
        cluster::api::tls::client(&files).unwrap()
    }

    /// Opens a connection as that client.
    fn connect(&self, stand: &Stand, name: &str) -> StreamOwned<ClientConnection, TcpStream> {
        connect(stand, self.config(name))
    }

    fn openssl(&self, words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output =
            Command::new("openssl").args(&words).current_dir(&self.folder).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", stderr(&output));
    }

    fn issue(&self, name: &str, ca: &str, key: &str, usage: &str, days: &str) {
        let extensions = format!(
            "subjectAltName=IP:127.0.0.1,DNS:{name}.example\nextendedKeyUsage={usage}\n\
             basicConstraints=CA:FALSE\n"
        );
        std::fs::write(self.folder.join(format!("{name}.ext")), extensions).unwrap();
        self.openssl(&format!(
            "req -newkey {key} -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA {ca}.crt -CAkey {ca}.key -CAcreateserial \
             -out {name}.crt -extfile {name}.ext {days}"
        ));
    }

    fn client(&self, name: &str, ca: &str) {
        self.issue(name, ca, "rsa:2048", "clientAuth", "-days 30");
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    fn security(&self, crl: Option<&str>) -> Security {
        Security {
            tls: Some(ServerFiles {
                cert: self.path("server.crt"),
                key: self.path("server.key"),
                client_ca: self.path("ca.crt"),
                client_crl: crl.map(|file| self.path(file)),
            }),
            roles_file: Some(self.path("roles")),
            insecure_loopback_only: false,
        }
    }

    fn call(&self, stand: &Stand, name: &str, ca: &str, words: &[&str]) -> Output {
        let endpoint = format!("https://{}", stand.tcp.unwrap());
        let file = |name: String| self.path(&name).to_string_lossy().into_owned();
        let mut all = vec![format!("--ca-file={}", file(format!("{ca}.crt")))];
        if !name.is_empty() {
            all.push(format!("--cert-file={}", file(format!("{name}.crt"))));
            all.push(format!("--key-file={}", file(format!("{name}.key"))));
        }
        all.extend(words.iter().map(ToString::to_string));
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        fleetctl(Path::new(&stand.folder), &endpoint, &all)
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn stand(security: Security) -> Stand {
    Stand::new(Plan { security: Some(security), ..Plan::of(&["m1"]) })
}

fn connect(stand: &Stand, config: Arc<ClientConfig>) -> StreamOwned<ClientConnection, TcpStream> {
    let server = ServerName::try_from("127.0.0.1").unwrap();
    let socket = TcpStream::connect(stand.tcp.unwrap()).unwrap();
    StreamOwned::new(ClientConnection::new(config, server).unwrap(), socket)
}

#[test]
fn only_valid_client_certificates_are_accepted() {
    let made = Authority::new();
    made.client("ann", "ca");
    made.client("stranger", "other");
    made.issue("weak", "ca", "rsa:1024", "clientAuth", "-days 30");
    made.issue("serveronly", "ca", "rsa:2048", "serverAuth", "-days 30");
    let past = "-not_before 20200101000000Z -not_after 20200201000000Z";
    let future = "-not_before 20900101000000Z -not_after 20910101000000Z";
    let dated = |name: &str, dates: &str| {
        // Older versions of `x509` do not take dates; `ca` does.
        made.client(name, "ca");
        std::fs::write(made.path("index.txt"), "").unwrap();
        let dates = dates.replace("-not_before", "-startdate").replace("-not_after", "-enddate");
        let config = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n\
                      default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n";
        std::fs::write(made.path("ca.cnf"), config).unwrap();
        made.openssl(&format!(
            "ca -batch -config ca.cnf -cert ca.crt -keyfile ca.key -in {name}.csr -out {name}.crt \
             -notext -extfile {name}.ext {dates}"
        ));
    };
    dated("expired", past);
    dated("early", future);
    let stand = stand(made.security(None));
    let good = made.call(&stand, "ann", "ca", &["list-machines", "--no-legend", "-l"]);
    assert_eq!(stdout(&good), "m1\t127.0.0.1\t-\n", "{}", stderr(&good));
    for name in ["", "stranger", "weak", "serveronly", "expired", "early"] {
        let refused = made.call(&stand, name, "ca", &["list-machines"]);
        assert_eq!(refused.status.code(), Some(1), "{name}: {}", stdout(&refused));
        assert!(!stderr(&refused).contains("googleapi"), "{name}: {}", stderr(&refused));
    }
    // The client checks the server too.
    let wrong = made.call(&stand, "ann", "other", &["list-machines"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("UnknownIssuer"), "{}", stderr(&wrong));
}

#[test]
fn revoked_client_certificate_is_refused() {
    let made = Authority::new();
    made.client("ann", "ca");
    made.client("bob", "ca");
    made.revoke("bob");
    let stand = stand(made.security(Some("ca.crl")));
    assert!(made.call(&stand, "ann", "ca", &["list-machines"]).status.success());
    assert!(!made.call(&stand, "bob", "ca", &["list-machines"]).status.success());
}

/// Returns true if the connection ends within the time.
fn ends(stream: &mut StreamOwned<ClientConnection, TcpStream>, most: Duration) -> bool {
    stream.sock.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let began = Instant::now();
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return true,
        }
        if began.elapsed() >= most {
            return false;
        }
    }
}

#[test]
fn client_that_loses_its_role_or_certificate_is_disconnected() {
    let made = Authority::new();
    for name in ["ann", "bob", "ci", "carl"] {
        made.client(name, "ca");
    }
    made.revoke("carl");
    let stand = stand(made.security(Some("ca.crl")));
    // A stream has no end of its own.
    let stream = |name: &str| {
        let mut stream = made.connect(&stand, name);
        stream.write_all(b"GET /fleet/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(Reply::read(&mut stream).map(|reply| reply.status), Some(200), "{name}");
        stream
    };
    let (mut ann, mut bob, mut ci) = (stream("ann"), stream("bob"), stream("ci"));
    let may = |name: &str, words: &[&str]| made.call(&stand, name, "ca", words).status.success();
    // An invalid file changes no role.
    made.put("roles", "ann: boss\n");
    assert!(may("ann", &["drain", "--yes", "m1"]));
    made.put("roles", "bob: reader\nci: reader\n");
    let patience = Duration::from_secs(30);
    assert!(ends(&mut ann, patience), "a client that has lost its role");
    assert!(ends(&mut ci, patience), "a client whose role has changed");
    assert!(!may("ann", &["list-machines"]) && may("ci", &["list-machines"]));
    assert!(!ends(&mut bob, Duration::ZERO), "an unchanged client is disconnected");
    made.revoke("bob");
    assert!(ends(&mut bob, patience), "a client with a revoked certificate");
    assert!(!may("bob", &["list-machines"]) && may("ci", &["list-machines"]));
}

#[test]
fn expired_certificate_closes_its_connections_and_is_refused_afterwards() {
    let made = Authority::new();
    made.client_for("bob", 6);
    let stand = stand(made.security(None));
    // A client that resumes its session.
    let config = made.config("bob");
    let asked = |stream: &mut StreamOwned<ClientConnection, TcpStream>, path: &str| {
        let head = format!("GET /fleet/v1/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        Reply::read(stream).map(|reply| reply.status)
    };
    let mut stream = connect(&stand, config.clone());
    assert_eq!(asked(&mut stream, "events"), Some(200));
    assert_eq!(asked(&mut connect(&stand, config.clone()), "machines"), Some(200));
    assert!(ends(&mut stream, Duration::from_secs(60)), "the stream ends with the certificate");
    assert_eq!(
        asked(&mut connect(&stand, config), "machines"),
        None,
        "an expired certificate is accepted in a resumed session"
    );
}

#[test]
fn client_without_the_right_is_refused_before_its_body_is_read() {
    let made = Authority::new();
    let stand = stand(made.security(None));
    for name in ["unknown", "bob"] {
        made.client(name, "ca");
        let mut stream = made.connect(&stand, name);
        let head = "PUT /fleet/v1/units/a.service HTTP/1.1\r\nHost: localhost\r\n\
                    Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
        // The body never arrives.
        stream.write_all(head.as_bytes()).unwrap();
        assert_eq!(Reply::read(&mut stream).map(|reply| reply.status), Some(403), "{name}");
    }
    // The body arrives after the answer, when the server has closed its side.
    let mut stream = made.connect(&stand, "bob");
    let head = "PUT /fleet/v1/units/a.service HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    stream.write_all(&[b' '; 200_000]).unwrap();
    let reply = Reply::read(&mut first.chain(stream)).unwrap();
    assert_eq!(reply.json()["error"]["code"], 403);
}

#[test]
fn running_server_uses_renewed_certificates() {
    let made = Authority::new();
    made.client("ann", "ca");
    made.client("bob", "other");
    made.issue("next", "other", "rsa:2048", "serverAuth", "-days 30");
    let stand = stand(made.security(None));
    let lists = |name: &str, ca: &str| made.call(&stand, name, ca, &["list-machines"]);
    assert!(lists("ann", "ca").status.success());
    assert!(!lists("bob", "other").status.success());
    let put = |from: &str, to: &str| {
        std::fs::copy(made.path(from), made.path("fresh")).unwrap();
        std::fs::rename(made.path("fresh"), made.path(to)).unwrap();
    };
    // Replaces only one of the two files: the key does not match, and the old certificate stays.
    put("next.crt", "server.crt");
    assert!(lists("ann", "ca").status.success(), "{}", stderr(&lists("ann", "ca")));
    put("next.key", "server.key");
    assert!(lists("ann", "other").status.success(), "{}", stderr(&lists("ann", "other")));
    assert!(!lists("ann", "ca").status.success(), "the server still uses its old certificate");
    // fleetd also reloads the CA of the clients.
    put("other.crt", "ca.crt");
    assert!(lists("bob", "other").status.success(), "{}", stderr(&lists("bob", "other")));
    assert!(!lists("ann", "other").status.success());
}

#[test]
fn certificate_name_has_the_rights_of_its_role() {
    let made = Authority::new();
    for name in ["ann", "bob", "ci", "node", "unknown"] {
        made.client(name, "ca");
    }
    let stand = stand(made.security(None));
    for unit in ["web1.service", "db.service"] {
        std::fs::write(stand.folder.join(unit), "[Service]\nExecStart=/bin/a\n").unwrap();
    }
    let may = |name: &str, words: &[&str]| made.call(&stand, name, "ca", words).status.success();
    assert!(may("ann", &["submit", "db.service"]));
    // (name, list, read db, make web1, destroy db, drain)
    let table = [
        ("unknown", [false, false, false, false, false]),
        ("node", [true, true, false, false, false]),
        ("bob", [true, true, false, false, false]),
        ("ci", [true, false, true, false, false]),
    ];
    for (name, [list, read, make, destroy, drain]) in table {
        assert_eq!(may(name, &["list-machines"]), list, "{name}");
        assert_eq!(may(name, &["cat", "db.service"]), read, "{name}");
        assert_eq!(may(name, &["submit", "web1.service"]), make, "{name}");
        assert_eq!(may(name, &["destroy", "db.service"]), destroy, "{name}");
        assert_eq!(may(name, &["drain", "--yes", "m1"]), drain, "{name}");
    }
    // Units of a prefix may not move or block units outside of it.
    for (unit, line) in [("web2", "Replaces=db.service"), ("web3", "Conflicts=*\nGlobal=true")] {
        let text = format!("[Service]\nExecStart=/bin/a\n\n[X-Fleet]\n{line}\n");
        std::fs::write(stand.folder.join(format!("{unit}.service")), text).unwrap();
        let refused = made.call(&stand, "ci", "ca", &["submit", unit]);
        assert!(stderr(&refused).contains("your role does not cover"), "{}", stderr(&refused));
    }
    let list = made.call(&stand, "ci", "ca", &["list-unit-files", "--no-legend", "--fields=unit"]);
    assert_eq!(stdout(&list), "web1.service\n");
    // Reasons do not name such units either.
    let text = "[Service]\nExecStart=/bin/a\n\n[X-Fleet]\nConflicts=db.*\n";
    std::fs::write(stand.folder.join("web4.service"), text).unwrap();
    assert!(may("ann", &["start", "db.service"]));
    assert!(may("ann", &["start", "--no-block", "web4.service"]));
    let why = |name: &str| stdout(&made.call(&stand, name, "ca", &["why", "web4.service"]));
    stand.until("why names the conflict", |_| {
        why("ann").contains("db.service is on it (Conflicts=db.*)")
    });
    let answer = why("ci");
    assert!(
        answer.contains("m1: another unit is on it") && !answer.contains("db.service"),
        "{answer}"
    );
    assert!(may("ann", &["destroy", "db.service"]) && may("ann", &["drain", "--yes", "m1"]));
}

#[test]
fn old_tls_versions_are_refused() {
    let made = Authority::new();
    made.client("ann", "ca");
    let stand = stand(made.security(None));
    let address = stand.tcp.unwrap().to_string();
    let speak = |version: &str| {
        let output = Command::new("openssl")
            .args([
                "s_client", "-connect", &address, version, "-CAfile", "ca.crt", "-cert", "ann.crt",
            ])
            .args(["-key", "ann.key", "-cipher", "ALL:@SECLEVEL=0", "-verify_return_error"])
            .stdin(std::process::Stdio::null())
            .current_dir(&made.folder)
            .output()
            .unwrap();
        output.status.success()
    };
    assert!(speak("-tls1_2"), "openssl cannot connect with TLS 1.2");
    assert!(!speak("-tls1") && !speak("-tls1_1"));
}

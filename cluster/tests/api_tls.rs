//! The API over TCP: nobody comes in without a certificate of the right authority, and a
//! name may do what its role says. Certificates are made by openssl, here.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

mod stand;

use cluster::api::caller::Roles;
use cluster::api::listener::Security;
use cluster::api::tls::ServerFiles;
use stand::{Plan, Stand, fleetctl, folder, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

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
        made
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
            roles: Arc::new(Roles::parse("roles", ROLES).unwrap()),
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

#[test]
fn only_certificates_that_count_come_in() {
    let made = Authority::new();
    made.client("ann", "ca");
    made.client("stranger", "other");
    made.issue("weak", "ca", "rsa:1024", "clientAuth", "-days 30");
    made.issue("serveronly", "ca", "rsa:2048", "serverAuth", "-days 30");
    let past = "-not_before 20200101000000Z -not_after 20200201000000Z";
    let future = "-not_before 20900101000000Z -not_after 20910101000000Z";
    let dated = |name: &str, dates: &str| {
        // `x509` of older versions takes no dates: `ca` does.
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
    // And the client checks the server.
    let wrong = made.call(&stand, "ann", "other", &["list-machines"]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(stderr(&wrong).contains("UnknownIssuer"), "{}", stderr(&wrong));
}

#[test]
fn a_revoked_certificate_does_not_count_any_more() {
    let made = Authority::new();
    made.client("ann", "ca");
    made.client("bob", "ca");
    std::fs::write(made.path("index.txt"), "").unwrap();
    std::fs::write(made.path("crlnumber"), "01\n").unwrap();
    let config = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\n\
                  default_md=sha256\ndefault_crl_days=30\n";
    std::fs::write(made.path("crl.cnf"), config).unwrap();
    made.openssl("ca -config crl.cnf -cert ca.crt -keyfile ca.key -revoke bob.crt");
    made.openssl("ca -config crl.cnf -cert ca.crt -keyfile ca.key -gencrl -out ca.crl");
    let stand = stand(made.security(Some("ca.crl")));
    assert!(made.call(&stand, "ann", "ca", &["list-machines"]).status.success());
    assert!(!made.call(&stand, "bob", "ca", &["list-machines"]).status.success());
}

#[test]
fn certificates_are_renewed_under_a_server_that_runs() {
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
    // Half of it: the key does not fit yet, and what was there is shown on.
    put("next.crt", "server.crt");
    assert!(lists("ann", "ca").status.success(), "{}", stderr(&lists("ann", "ca")));
    put("next.key", "server.key");
    assert!(lists("ann", "other").status.success(), "{}", stderr(&lists("ann", "other")));
    assert!(!lists("ann", "ca").status.success(), "the old one is not shown any more");
    // And whom it lets in.
    put("other.crt", "ca.crt");
    assert!(lists("bob", "other").status.success(), "{}", stderr(&lists("bob", "other")));
    assert!(!lists("ann", "other").status.success());
}

#[test]
fn a_name_may_do_what_its_role_says() {
    let made = Authority::new();
    for name in ["ann", "bob", "ci", "node", "nobody"] {
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
        ("nobody", [false, false, false, false, false]),
        ("node", [true, true, false, false, false]),
        ("bob", [true, true, false, false, false]),
        ("ci", [true, false, true, false, false]),
    ];
    for (name, [list, read, make, destroy, drain]) in table {
        assert_eq!(may(name, &["list-machines"]), list, "{name}");
        assert_eq!(may(name, &["cat", "db.service"]), read, "{name}");
        assert_eq!(may(name, &["submit", "web1.service"]), make, "{name}");
        assert_eq!(may(name, &["destroy", "db.service"]), destroy, "{name}");
        assert_eq!(may(name, &["drain", "m1"]), drain, "{name}");
    }
    // What a prefix may not touch, its units may not move or keep away either.
    for (unit, line) in [("web2", "Replaces=db.service"), ("web3", "Conflicts=*\nGlobal=true")] {
        let text = format!("[Service]\nExecStart=/bin/a\n\n[X-Fleet]\n{line}\n");
        std::fs::write(stand.folder.join(format!("{unit}.service")), text).unwrap();
        let refused = made.call(&stand, "ci", "ca", &["submit", unit]);
        assert!(stderr(&refused).contains("your role does not cover"), "{}", stderr(&refused));
    }
    let list = made.call(&stand, "ci", "ca", &["list-unit-files", "--no-legend", "--fields=unit"]);
    assert_eq!(stdout(&list), "web1.service\n");
    // Nor are they named where one of those is in the way.
    let text = "[Service]\nExecStart=/bin/a\n\n[X-Fleet]\nConflicts=db.*\n";
    std::fs::write(stand.folder.join("web4.service"), text).unwrap();
    assert!(may("ann", &["start", "db.service"]));
    assert!(may("ann", &["start", "--no-block", "web4.service"]));
    let why = |name: &str| stdout(&made.call(&stand, name, "ca", &["why", "web4.service"]));
    stand.until("it is said why", |_| why("ann").contains("db.service is on it (Conflicts=db.*)"));
    let told = why("ci");
    assert!(told.contains("m1: another unit is on it") && !told.contains("db.service"), "{told}");
    assert!(may("ann", &["destroy", "db.service"]) && may("ann", &["drain", "m1"]));
}

#[test]
fn old_versions_of_tls_are_not_spoken() {
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
    assert!(speak("-tls1_2"), "the way of asking is right");
    assert!(!speak("-tls1") && !speak("-tls1_1"));
}

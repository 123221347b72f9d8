//! Test CAs and the valid and invalid certificates that they issue, made with openssl.

use std::path::Path;
use std::process::Command;

/// The properties of a certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    /// The issuing CA.
    pub(crate) ca: &'static str,
    /// Lines with the extensions.
    pub(crate) extensions: &'static str,
    /// openssl options for the validity period.
    pub(crate) dates: &'static str,
}

impl Issued {
    /// A valid certificate for 127.0.0.1.
    pub(crate) const GOOD: Issued =
        Issued { ca: "ca", extensions: "subjectAltName=IP:127.0.0.1\n", dates: "-days 30" };

    const fn with(extensions: &'static str) -> Issued {
        Issued { extensions, ..Issued::GOOD }
    }

    const fn dated(dates: &'static str) -> Issued {
        Issued { dates, ..Issued::GOOD }
    }
}

/// Certificates that a server at 127.0.0.1 may not use, each with a word of the error.
pub(crate) const WRONG: [(&str, Issued); 7] = [
    ("expired", Issued::dated("-startdate 20200101000000Z -enddate 20200201000000Z")),
    ("not valid yet", Issued::dated("-startdate 20900101000000Z -enddate 20910101000000Z")),
    ("UnknownIssuer", Issued { ca: "other", ..Issued::GOOD }),
    ("not valid for", Issued::with("subjectAltName=IP:127.0.0.2,DNS:server.example\n")),
    // A correct common name does not count as a server name.
    ("not valid for", Issued::with("")),
    (
        "extended key usage",
        Issued::with("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=clientAuth\n"),
    ),
    (
        "extended key usage",
        Issued::with("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=codeSigning\n"),
    ),
];

fn openssl(folder: &Path, words: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Creates the CAs `ca` and `other` and the certificates in a folder.
pub(crate) fn authorities(folder: &Path, issued: &[(&str, &'static str)]) {
    for ca in ["ca", "other"] {
        openssl(
            folder,
            &format!(
                "req -x509 -newkey rsa:2048 -nodes -keyout {ca}.key -out {ca}.crt -days 30 \
                 -subj /CN={ca} -addext keyUsage=critical,keyCertSign,cRLSign"
            ),
        );
    }
    for (name, ca) in issued {
        issue(folder, name, &Issued { ca, ..Issued::GOOD });
    }
}

/// Issues a certificate with that common name.
pub(crate) fn issue(folder: &Path, name: &str, asked: &Issued) {
    let Issued { ca, extensions, dates } = asked;
    let put = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
    put("ext", &format!("basicConstraints=CA:FALSE\n{extensions}"));
    put("index.txt", "");
    // Older versions of `x509` do not take dates; `ca` does.
    put(
        "ca.cnf",
        "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nnew_certs_dir=.\nrand_serial=yes\n\
         default_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n",
    );
    openssl(
        folder,
        &format!("req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"),
    );
    openssl(
        folder,
        &format!(
            "ca -batch -config ca.cnf -cert {ca}.crt -keyfile {ca}.key -in {name}.csr \
             -out {name}.crt -notext -extfile ext {dates}"
        ),
    );
}

/// Replaces the certificate that `to` uses.
pub(crate) fn show(folder: &Path, from: &str, to: &str) {
    for kind in ["crt", "key"] {
        std::fs::copy(folder.join(format!("{from}.{kind}")), folder.join(format!("{to}.{kind}")))
            .unwrap();
    }
}

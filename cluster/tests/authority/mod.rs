//! Authorities of a test and the certificates they give out, good ones and wrong ones, made by openssl.

use std::path::Path;
use std::process::Command;

/// How a certificate is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    /// By whom.
    pub(crate) ca: &'static str,
    /// Lines of what it is for.
    pub(crate) extensions: &'static str,
    /// Of openssl: for how many days, or from when to when.
    pub(crate) dates: &'static str,
}

impl Issued {
    /// What is right for 127.0.0.1.
    pub(crate) const GOOD: Issued =
        Issued { ca: "ca", extensions: "subjectAltName=IP:127.0.0.1\n", dates: "-days 30" };

    const fn with(extensions: &'static str) -> Issued {
        Issued { extensions, ..Issued::GOOD }
    }

    const fn dated(dates: &'static str) -> Issued {
        Issued { dates, ..Issued::GOOD }
    }
}

/// What a server at 127.0.0.1 may not show, and a word of what is said of it.
pub(crate) const WRONG: [(&str, Issued); 7] = [
    ("expired", Issued::dated("-startdate 20200101000000Z -enddate 20200201000000Z")),
    ("not valid yet", Issued::dated("-startdate 20900101000000Z -enddate 20910101000000Z")),
    ("UnknownIssuer", Issued { ca: "other", ..Issued::GOOD }),
    ("not valid for", Issued::with("subjectAltName=IP:127.0.0.2,DNS:server.example\n")),
    // Its common name, which is right, is no name of a server.
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

/// The authorities `ca` and `other`, and what they gave out, below a folder.
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

/// Gives one out under that common name.
pub(crate) fn issue(folder: &Path, name: &str, asked: &Issued) {
    let Issued { ca, extensions, dates } = asked;
    let put = |file: &str, text: &str| std::fs::write(folder.join(file), text).unwrap();
    put("ext", &format!("basicConstraints=CA:FALSE\n{extensions}"));
    put("index.txt", "");
    // `x509` of older versions takes no dates: `ca` does.
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

/// What `to` shows from now on.
pub(crate) fn show(folder: &Path, from: &str, to: &str) {
    for kind in ["crt", "key"] {
        std::fs::copy(folder.join(format!("{from}.{kind}")), folder.join(format!("{to}.{kind}")))
            .unwrap();
    }
}

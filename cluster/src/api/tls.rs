//! TLS, on both sides: the API lets in only who shows a certificate of the client CA;
//! who calls it checks the server's. Only TLS 1.2 and 1.3, only ring's algorithms (no
//! RSA below 2048 bits). What a name may do is [`super::caller`]'s.

use super::reloaded_files::ReloadedFiles;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Where Debian keeps the authorities that a system trusts.
const SYSTEM_CA: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files of a TLS listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// `tls_cert_file`: the certificate and what leads from it to its authority.
    pub cert: PathBuf,
    /// `tls_key_file`
    pub key: PathBuf,
    /// `tls_client_ca_file`: who signs clients.
    pub client_ca: PathBuf,
    /// `tls_client_crl_file`: certificates of clients that do not count any more.
    pub client_crl: Option<PathBuf>,
}

/// The files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// Who signs servers; none: who the system trusts.
    pub ca: Option<PathBuf>,
    /// What the client shows, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

fn told(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| told(path, &error))?;
    let all: Result<Vec<_>, _> = read.collect();
    let all = all.map_err(|error| told(path, &error))?;
    if all.is_empty() { Err(told(path, &"no certificate in it")) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| told(path, &error))
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| told(path, &error))?;
    }
    Ok(roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Judges certificates of clients.
type Verifier = Arc<dyn ClientCertVerifier>;

fn client_verifier(files: &ServerFiles) -> Result<Verifier, String> {
    let client_roots = Arc::new(roots(&files.client_ca)?);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(client_roots, provider());
    if let Some(path) = &files.client_crl {
        let read = CertificateRevocationListDer::pem_file_iter(path)
            .map_err(|error| told(path, &error))?;
        let lists: Result<Vec<_>, _> = read.collect();
        verifier = verifier.with_crls(lists.map_err(|error| told(path, &error))?);
    }
    verifier.build().map_err(|error| told(&files.client_ca, &error))
}

fn server(files: &ServerFiles, verifier: Verifier) -> Result<Arc<ServerConfig>, String> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.cert)?, key(&files.key)?)
        .map_err(|error| told(&files.cert, &error))?;
    // Who goes on with an old session is not looked at again: everybody shows a certificate anew.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// For who calls.
///
/// # Errors
/// A file can not be read or does not fit the others; which and why.
pub fn client(files: &ClientFiles) -> Result<Arc<ClientConfig>, String> {
    let ca = files.ca.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_CA));
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(&ca)?);
    let config = match &files.own {
        Some((cert, own)) => builder
            .with_client_auth_cert(certificates(cert)?, key(own)?)
            .map_err(|error| told(cert, &error))?,
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// What a listener shows, and the names it goes by.
#[derive(Clone)]
pub struct Identity {
    /// For who comes in.
    pub config: Arc<ServerConfig>,
    /// As [`host_names`] finds them.
    pub names: Arc<Vec<String>>,
    clients: Verifier,
}

impl Identity {
    /// That of these files, as they are whenever it is asked for.
    ///
    /// # Errors
    /// A file can not be read or does not fit the others; which and why.
    pub fn follow(files: &ServerFiles) -> Result<ReloadedFiles<Identity>, String> {
        let all = [&files.cert, &files.key, &files.client_ca].into_iter();
        let all = all.chain(&files.client_crl).cloned().collect();
        let files = files.clone();
        ReloadedFiles::of(all, move || {
            let names = Arc::new(host_names(&files.cert)?);
            let clients = client_verifier(&files)?;
            Ok(Identity { config: server(&files, clients.clone())?, names, clients })
        })
    }

    /// Who shows those certificates is let in, now.
    pub fn admits(&self, chain: &[CertificateDer<'_>]) -> bool {
        let shown = chain.split_first();
        let verified = shown
            .map(|(own, others)| self.clients.verify_client_cert(own, others, UnixTime::now()));
        matches!(verified, Some(Ok(_)))
    }
}

/// The common name in a certificate; `None`: there is none, or several.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_string();
    names.next().is_none().then_some(name)
}

/// The names a server's certificate is for, in lower case.
///
/// # Errors
/// The file can not be read.
pub fn host_names(path: &Path) -> Result<Vec<String>, String> {
    let all = certificates(path)?;
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let (_, parsed) = X509Certificate::from_der(first).map_err(|error| told(path, &error))?;
    let alternatives = parsed.subject_alternative_name().map_err(|error| told(path, &error))?;
    let names = alternatives.map(|found| found.value.general_names.clone()).unwrap_or_default();
    let mut dns = Vec::new();
    for name in names {
        if let x509_parser::extensions::GeneralName::DNSName(name) = name {
            dns.push(name.to_ascii_lowercase());
        }
    }
    Ok(dns)
}

//! TLS for server and client: the API accepts only client certificates of its client CA, and
//! clients check the server's certificate. TLS 1.2 and 1.3 only, with ring's algorithms (RSA keys
//! of at least 2048 bits). [`super::caller`] maps names to rights.

use super::reloaded_files::ReloadedFiles;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Debian's bundle of trusted CAs.
const SYSTEM_CA: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The files of a TLS listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFiles {
    /// `tls_cert_file`: the certificate and its chain.
    pub cert: PathBuf,
    /// `tls_key_file`
    pub key: PathBuf,
    /// `tls_client_ca_file`: the CA of clients.
    pub client_ca: PathBuf,
    /// `tls_client_crl_file`: revoked client certificates.
    pub client_crl: Option<PathBuf>,
}

/// The files of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFiles {
    /// The CA of servers; `None` for the system's CAs.
    pub ca: Option<PathBuf>,
    /// The client's certificate and key.
    pub own: Option<(PathBuf, PathBuf)>,
}

fn fault_of(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).map_err(|error| fault_of(path, &error))?;
    let all: Result<Vec<_>, _> = read.collect();
    let all = all.map_err(|error| fault_of(path, &error))?;
    if all.is_empty() { Err(fault_of(path, &"no certificate in it")) } else { Ok(all) }
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| fault_of(path, &error))
}

fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| fault_of(path, &error))?;
    }
    Ok(roots)
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Verifies client certificates.
type Verifier = Arc<dyn ClientCertVerifier>;

fn client_verifier(files: &ServerFiles) -> Result<Verifier, String> {
    let client_roots = Arc::new(roots(&files.client_ca)?);
    let mut verifier = WebPkiClientVerifier::builder_with_provider(client_roots, provider());
    if let Some(path) = &files.client_crl {
        let read = CertificateRevocationListDer::pem_file_iter(path)
            .map_err(|error| fault_of(path, &error))?;
        let lists: Result<Vec<_>, _> = read.collect();
        verifier = verifier.with_crls(lists.map_err(|error| fault_of(path, &error))?);
    }
    verifier.build().map_err(|error| fault_of(&files.client_ca, &error))
}

fn server(files: &ServerFiles, verifier: Verifier) -> Result<Arc<ServerConfig>, String> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates(&files.cert)?, key(&files.key)?)
        .map_err(|error| fault_of(&files.cert, &error))?;
    // Resumed sessions would skip the check of the certificate, so every connection starts with a
    // full handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Builds the configuration of a client.
///
/// # Errors
/// The file that cannot be read or does not match the others, with the reason.
pub fn client(files: &ClientFiles) -> Result<Arc<ClientConfig>, String> {
    let ca = files.ca.clone().unwrap_or_else(|| PathBuf::from(SYSTEM_CA));
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(&ca)?);
    let config = match &files.own {
        Some((cert, own)) => builder
            .with_client_auth_cert(certificates(cert)?, key(own)?)
            .map_err(|error| fault_of(cert, &error))?,
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// A listener's server certificate, and its host names.
#[derive(Clone)]
pub struct Identity {
    /// For incoming connections.
    pub config: Arc<ServerConfig>,
    /// The names from [`host_names`].
    pub names: Arc<Vec<String>>,
    clients: Verifier,
}

impl Identity {
    /// Returns the identity of these files, reloaded when they change.
    ///
    /// # Errors
    /// The file that cannot be read or does not match the others, with the reason.
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

    /// Returns true if the certificates are valid for a client now.
    pub fn admits(&self, chain: &[CertificateDer<'_>]) -> bool {
        let shown = chain.split_first();
        let verified = shown
            .map(|(own, others)| self.clients.verify_client_cert(own, others, UnixTime::now()));
        matches!(verified, Some(Ok(_)))
    }
}

/// Returns the common name in a certificate, or `None` unless there is exactly one.
pub fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let mut names = parsed.subject().iter_common_name();
    let name = names.next()?.as_str().ok()?.to_string();
    names.next().is_none().then_some(name)
}

/// Returns the host names of a server certificate, in lower case.
///
/// # Errors
/// The file cannot be read.
pub fn host_names(path: &Path) -> Result<Vec<String>, String> {
    let all = certificates(path)?;
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let (_, parsed) = X509Certificate::from_der(first).map_err(|error| fault_of(path, &error))?;
    let alternatives = parsed.subject_alternative_name().map_err(|error| fault_of(path, &error))?;
    let names = alternatives.map(|found| found.value.general_names.clone()).unwrap_or_default();
    let mut dns = Vec::new();
    for name in names {
        if let x509_parser::extensions::GeneralName::DNSName(name) = name {
            dns.push(name.to_ascii_lowercase());
        }
    }
    Ok(dns)
}

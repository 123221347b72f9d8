//! TLS files for the connection to etcd: trusted CA, own certificate and key.

use super::{EtcdConfig, Fault};
use etcd_client::{Certificate, Identity, TlsOptions};
use std::path::PathBuf;

/// Returns `None` if no endpoint uses TLS.
pub(super) fn tls(config: &EtcdConfig) -> Result<Option<TlsOptions>, Fault> {
    let secure = config.endpoints.iter().any(|endpoint| endpoint.starts_with("https:"));
    if !secure {
        return Ok(None);
    }
    let read = |path: &PathBuf| {
        let shown = path.display();
        std::fs::read(path).map_err(|error| Fault::Unavailable(format!("{shown}: {error}")))
    };
    let mut tls = TlsOptions::new();
    tls = match &config.ca_file {
        Some(path) => tls.ca_certificate(Certificate::from_pem(read(path)?)),
        None => tls,
    };
    if let (Some(cert), Some(key)) = (&config.cert_file, &config.key_file) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(Some(tls))
}

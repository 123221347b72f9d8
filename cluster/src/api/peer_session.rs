//! The identity of a TLS peer and how long its connection may last. The connection is cut once the
//! certificate is no longer valid, or the file of roles gives the name another role.

use super::caller::{Caller, Roles};
use super::reloaded_files::ReloadedFiles;
use super::tls::{self, Identity, ServerFiles};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Interval between checks of open sessions.
const LOOK: Duration = Duration::from_secs(1);

/// Certificates and roles of a listener, reloaded when their files change.
pub struct TlsAccess {
    identity: ReloadedFiles<Identity>,
    /// `None` if `api_roles_file` is not set; then no name has rights.
    roles: Option<ReloadedFiles<Arc<Roles>>>,
}

/// The session of a TLS peer.
pub struct PeerSession {
    /// The rights of the peer.
    pub caller: Caller,
    chain: Vec<CertificateDer<'static>>,
}

impl TlsAccess {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or is invalid.
    pub fn of(files: &ServerFiles, roles_file: Option<&PathBuf>) -> Result<TlsAccess, String> {
        let roles = match roles_file {
            Some(path) => {
                let own = path.clone();
                Some(ReloadedFiles::of(vec![own.clone()], move || read_roles(&own).map(Arc::new))?)
            }
            None => None,
        };
        Ok(TlsAccess { identity: Identity::follow(files)?, roles })
    }

    /// The current server identity.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    fn caller(&self, chain: &[CertificateDer<'_>]) -> Caller {
        let name = chain.first().and_then(tls::common_name);
        let roles = self.roles.as_ref().map(ReloadedFiles::get);
        name.zip(roles).map(|(name, roles)| roles.of(&name)).unwrap_or_default()
    }

    /// Creates the session of a peer that was admitted by these certificates.
    pub fn session(&self, chain: &[CertificateDer<'_>]) -> PeerSession {
        let kept = chain.iter().map(|one| one.clone().into_owned()).collect();
        PeerSession { caller: self.caller(chain), chain: kept }
    }
}

impl PeerSession {
    /// Completes when the peer may no longer stay.
    pub async fn until_invalid(self, access: Arc<TlsAccess>) {
        loop {
            tokio::time::sleep(LOOK).await;
            // The certificate may have expired, or the files may have changed.
            if !access.identity().admits(&self.chain) {
                return;
            }
            if access.caller(&self.chain) != self.caller {
                return;
            }
        }
    }
}

/// Reads `api_roles_file`.
///
/// # Errors
/// The file cannot be read or is invalid.
pub fn read_roles(path: &Path) -> Result<Roles, String> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    Roles::parse(&shown, &text)
}

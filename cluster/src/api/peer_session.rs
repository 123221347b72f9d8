//! The identity of a TLS peer and how long its connection may last. The connection is cut once the
//! certificate is no longer valid, or the file of roles gives the name another role.

use super::caller::{Caller, Roles};
use super::reloaded_files::ReloadedFiles;
use super::tls::{self, Identity, ServerFiles};
use rustls::pki_types::CertificateDer;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at whether a guest may stay.
const LOOK: Duration = Duration::from_secs(1);

/// What a listener lets people in by, as the files are whenever it is asked for.
pub struct Door {
    identity: ReloadedFiles<Identity>,
    /// `None`: nobody has a role.
    roles: Option<ReloadedFiles<Arc<Roles>>>,
}

/// One who came in.
pub struct PeerSession {
    /// What they may.
    pub caller: Caller,
    chain: Vec<CertificateDer<'static>>,
}

impl Door {
    /// By those files.
    ///
    /// # Errors
    /// One of them can not be read or says what means nothing.
    pub fn of(files: &ServerFiles, roles_file: Option<&PathBuf>) -> Result<Door, String> {
        let roles = match roles_file {
            Some(path) => {
                let own = path.clone();
                Some(ReloadedFiles::of(vec![own.clone()], move || read_roles(&own).map(Arc::new))?)
            }
            None => None,
        };
        Ok(Door { identity: Identity::follow(files)?, roles })
    }

    /// What is shown to who comes now.
    pub fn identity(&self) -> Identity {
        self.identity.get()
    }

    fn caller(&self, chain: &[CertificateDer<'_>]) -> Caller {
        let name = chain.first().and_then(tls::common_name);
        let roles = self.roles.as_ref().map(ReloadedFiles::get);
        name.zip(roles).map(|(name, roles)| roles.of(&name)).unwrap_or_default()
    }

    /// Who showed those certificates, and was let in by that.
    pub fn guest(&self, chain: &[CertificateDer<'_>]) -> PeerSession {
        let kept = chain.iter().map(|one| one.clone().into_owned()).collect();
        PeerSession { caller: self.caller(chain), chain: kept }
    }
}

impl PeerSession {
    /// Ends when they may not stay.
    pub async fn until_unwelcome(self, door: Arc<Door>) {
        loop {
            tokio::time::sleep(LOOK).await;
            // Its time may have come, or the files may say other things.
            if !door.identity().admits(&self.chain) {
                return;
            }
            if door.caller(&self.chain) != self.caller {
                return;
            }
        }
    }
}

/// `api_roles_file`
///
/// # Errors
/// It can not be read, or what is wrong with it.
pub fn read_roles(path: &Path) -> Result<Roles, String> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    Roles::parse(&shown, &text)
}

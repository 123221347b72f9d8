//! Which cluster this machine was in, as of which revision: kept beside what runs, for as long as
//! that may run, so that a fleetd that is begun anew holds to it as the one before did
//! ([`crate::picture::Picture::doubt`]). With a wrong prefix, another's etcd, an emptied one or one
//! put back to an earlier day it would stop everything else.

use super::config::Config;
use super::identity::Identity;
use super::voice;
use crate::mirror::Mirror;
use crate::picture::Known;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the file, in the folder above `units_directory`. Who removes it, and starts fleetd
/// anew, says that whatever etcd shows is right.
pub const FILE: &str = "cluster";
/// So often at most it is written.
const PAUSE: Duration = Duration::from_secs(5);

/// See the head of the module.
pub struct Recollection {
    path: PathBuf,
    boot: String,
}

impl Recollection {
    /// Of a machine.
    pub fn of(config: &Config, identity: &Identity) -> Recollection {
        let folder = config.units_directory.parent().unwrap_or(&config.units_directory);
        Recollection { path: folder.join(FILE), boot: identity.boot.clone() }
    }

    /// What was kept in this boot.
    pub fn recall(&self) -> Option<Known> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let mut words = text.strip_suffix('\n')?.split(' ');
        let (boot, revision, id) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
        (boot == self.boot && words.next().is_none() && !id.is_empty())
            .then(|| Known { cluster: id.to_string(), revision })
    }

    /// Keeps it up to date, for ever.
    pub async fn keep(self, mirror: Mirror) {
        let mut pictures = mirror.changes();
        let mut kept = self.recall();
        let mut fault = String::new();
        loop {
            let known = pictures.borrow_and_update().known();
            if known.is_some() && known != kept {
                let written = known.as_ref().map_or(Ok(()), |known| self.write(known));
                let said = written.err().map(|error| error.to_string()).unwrap_or_default();
                if !said.is_empty() && said != fault {
                    voice::error(format_args!("{}: {said}", self.path.display()));
                }
                fault = said;
                kept = known;
                mirror.clock().sleep(PAUSE).await;
            }
            if pictures.changed().await.is_err() {
                return;
            }
        }
    }

    fn write(&self, known: &Known) -> std::io::Result<()> {
        let fresh = self.path.with_extension("new");
        if let Some(folder) = Path::parent(&self.path) {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&fresh, format!("{} {} {}\n", self.boot, known.revision, known.cluster))?;
        std::fs::rename(&fresh, &self.path)
    }
}

//! Where the loader looks.

use crate::load::folder::Trust;
use crate::text::name::Name;

/// What is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// init.yaml.
    pub settings: Option<String>,
    /// Somebody asked for that file: it must be there.
    pub settings_named: bool,
    /// policy.yaml.
    pub policy: Option<String>,
    /// The policy of this boot, laid over it.
    pub runtime_policy: Option<String>,
    /// `--units`: instead of those of the settings and of `standard_units`.
    pub units: Vec<String>,
    /// Where units are when nobody says.
    pub standard_units: Vec<String>,
    /// The unit directory of the runtime directory; it stands behind the first.
    pub runtime_units: Option<String>,
    /// Where what sources hold is kept; None: there are no sources.
    pub sources: Option<String>,
    /// These files, and no directory.
    pub only: Option<Vec<String>>,
    /// passwd(5).
    pub passwd: String,
    /// group(5).
    pub group: String,
    /// Whose files are read.
    pub trust: Trust,
    /// Targets that are asked for from elsewhere: instances of templates are made for them.
    pub wanted: Vec<Name>,
}

impl Options {
    /// Those of a booted machine, for init running as `uid`.
    pub fn system(uid: u32) -> Options {
        Options {
            settings: Some("/etc/groundstate/init.yaml".to_string()),
            settings_named: false,
            policy: Some("/etc/groundstate/policy.yaml".to_string()),
            runtime_policy: Some("/run/groundstate/policy.yaml".to_string()),
            units: Vec::new(),
            standard_units: vec![
                "/etc/groundstate/units".to_string(),
                "/usr/lib/groundstate/units".to_string(),
            ],
            runtime_units: Some("/run/groundstate/units".to_string()),
            sources: None,
            only: None,
            passwd: "/etc/passwd".to_string(),
            group: "/etc/group".to_string(),
            trust: Trust { uid, strict: true },
            wanted: Vec::new(),
        }
    }

    /// One directory (or several) as the whole set, as `initctl check DIR` takes it.
    pub fn directories(directories: Vec<String>, uid: u32) -> Options {
        Options {
            settings: None,
            policy: None,
            runtime_policy: None,
            units: directories,
            standard_units: Vec::new(),
            runtime_units: None,
            trust: Trust { uid, strict: false },
            ..Options::system(uid)
        }
    }

    /// Single files, as `initctl check FILE…` takes them.
    pub fn files(files: Vec<String>, uid: u32) -> Options {
        Options { only: Some(files), ..Options::directories(Vec::new(), uid) }
    }
}

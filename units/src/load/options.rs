//! The paths of the loader.

use crate::load::command::Command;
use crate::load::folder::Trust;
use crate::text::name::Name;

/// The input of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The path of init.yaml.
    pub settings: Option<String>,
    /// The file was requested and must exist.
    pub settings_named: bool,
    /// The path of policy.yaml.
    pub policy: Option<String>,
    /// The path of the policy of this boot, which overrides it.
    pub runtime_policy: Option<String>,
    /// Directories of `--units`, instead of those of the settings and of `standard_units`.
    pub units: Vec<String>,
    /// The default unit directories.
    pub standard_units: Vec<String>,
    /// The unit directory of the runtime directory; it follows the first.
    pub runtime_units: Option<String>,
    /// The directory of the sources' files; `None` means no sources.
    pub sources: Option<String>,
    /// Single files, instead of directories.
    pub only: Option<Vec<String>>,
    /// The unit of `init -- CMD`. It is the only unit, because init then sets `only` to no files.
    pub command: Option<Command>,
    /// The path of passwd(5).
    pub passwd: String,
    /// The path of group(5).
    pub group: String,
    /// The accepted owners of files.
    pub trust: Trust,
    /// Targets that are requested from outside the unit files; instances of templates are created
    /// for them.
    pub wanted: Vec<Name>,
}

impl Options {
    /// The options of a booted machine, for init running as `uid`.
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
            command: None,
            passwd: "/etc/passwd".to_string(),
            group: "/etc/group".to_string(),
            trust: Trust { uid, strict: true },
            wanted: Vec::new(),
        }
    }

    /// The options for directories that are the whole set, as in `initctl check DIR`.
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

    /// The options for single files, as in `initctl check FILE…`.
    pub fn files(files: Vec<String>, uid: u32) -> Options {
        Options { only: Some(files), ..Options::directories(Vec::new(), uid) }
    }
}

//! Unit files on disk, for enabling: their directories, their `[Install]`, and the links to them.
//! `units` reads the rest.

use crate::files::Rooted;
use groundstate_units::control::answer::Pong;
use groundstate_units::control::place::VENDOR_UNITS;
use groundstate_units::import::systemd::UnitName;
use groundstate_units::text::yaml::{self, Document, Limits, Node};
use groundstate_units::unit::settings::Settings;
use groundstate_units::unit::settings_file;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// systemd's directories, systemd.unit(5); earlier ones take precedence.
const STANDARD: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/lib/systemd/system",
    "/usr/lib/systemd/system",
];
/// Directory of permanent links.
const PERMANENT_LINKS: &str = "/etc/systemd/system";
/// Directory of links that last until the next boot.
const RUNTIME_LINKS: &str = "/run/systemd/system";

/// The unit directories.
pub(super) struct Folders {
    /// `--root`.
    root: Option<String>,
    /// In order of precedence, below the root and without links on the way.
    pub(super) dirs: Vec<PathBuf>,
    /// `default-policy` of init.yaml.
    pub(super) enabled_by_default: bool,
    /// The directories in `dirs` whose units are enabled by their own `[Install]`. The others belong
    /// to another init system, and there only links count.
    own: Vec<PathBuf>,
}

/// A unit file on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnitFile {
    /// The name that was looked up.
    pub(super) name: String,
    /// Its path, as found.
    pub(super) path: PathBuf,
    /// The path without the root.
    pub(super) shown: String,
    /// A link to /dev/null, or an empty file.
    pub(super) masked: bool,
    /// True for YAML, false for systemd's format.
    pub(super) native: bool,
}

impl UnitFile {
    /// The file of a new unit.
    pub(super) fn missing(name: &str) -> UnitFile {
        UnitFile {
            name: name.to_string(),
            path: PathBuf::new(),
            shown: String::new(),
            masked: false,
            native: false,
        }
    }
}

/// The `[Install]` section, or a native unit's `wanted-by` and `required-by`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Install {
    /// `WantedBy=`.
    pub(super) wanted_by: Vec<String>,
    /// `RequiredBy=`.
    pub(super) required_by: Vec<String>,
    /// `Alias=`.
    pub(super) alias: Vec<String>,
    /// `Also=`.
    pub(super) also: Vec<String>,
    /// `DefaultInstance=`.
    pub(super) default_instance: Option<String>,
}

impl Install {
    /// Returns true if there is nothing to enable.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted_by.is_empty() && self.required_by.is_empty() && self.alias.is_empty()
    }
}

impl Folders {
    /// The directories of an init, or of a tree without one.
    pub(super) fn new(root: Option<&str>, init: Option<&Pong>) -> Folders {
        let config = init.map_or("/etc/groundstate/init.yaml", |init| init.paths.config.as_str());
        let text = fs::read(in_tree(root, config)).unwrap_or_default();
        let (settings, _) = settings_file::read(&config.into(), &text);
        let mut dirs: Vec<String> = STANDARD.iter().map(|dir| (*dir).to_string()).collect();
        match init {
            // Files that init does not read are not its units.
            Some(init) => {
                dirs = [&init.paths.unit_dirs[..], &settings.import_dirs[..]].concat();
            }
            None => dirs.extend(own_dirs(&settings)),
        }
        let mut whole: Vec<PathBuf> = Vec::new();
        for dir in dirs.iter().map(|dir| PathBuf::from(in_tree(root, dir))) {
            // On a merged system /lib is a link to /usr/lib; each directory counts once.
            let real = fs::canonicalize(&dir).unwrap_or_else(|_| dir.clone());
            let known = |old: &PathBuf| fs::canonicalize(old).is_ok_and(|old| old == real);
            if !whole.iter().any(known) {
                whole.push(dir);
            }
        }
        let unit_dirs = match init {
            Some(init) => init.paths.unit_dirs.clone(),
            None => own_dirs(&settings),
        };
        let own = unit_dirs.iter().map(|dir| in_tree(root, dir).into()).collect();
        let root = root.map(str::to_string);
        Folders { root, dirs: whole, enabled_by_default: settings.enabled_by_default, own }
    }

    /// Returns true if the unit's `[Install]` counts without a link.
    pub(super) fn counts_by_itself(&self, file: &UnitFile) -> bool {
        self.enabled_by_default && (file.native || self.is_own(file))
    }

    /// Returns true if the file is in one of init's own directories.
    fn is_own(&self, file: &UnitFile) -> bool {
        file.path.parent().is_some_and(|dir| self.own.iter().any(|own| own == dir))
    }

    /// Returns true if the policy, not a link, must enable the unit: the unit is native, its
    /// `[Install]` counts by itself, or init reads no links.
    pub(super) fn is_enabled_by_policy(&self, file: &UnitFile) -> bool {
        file.native || self.counts_by_itself(file) || self.links_dir(false).is_none()
    }

    /// Returns true if the policy, not a link, must mask the unit: its file would hide the link, or
    /// init reads no links.
    pub(super) fn is_masked_by_policy(&self, file: &UnitFile) -> bool {
        file.native || self.is_own(file) || self.links_dir(false).is_none()
    }

    /// Returns the directory for links, or `None` if init reads none.
    pub(super) fn links_dir(&self, runtime: bool) -> Option<PathBuf> {
        let dir = self.below(if runtime { RUNTIME_LINKS } else { PERMANENT_LINKS });
        self.dirs.contains(&dir).then_some(dir)
    }

    /// Returns true if init reads unit files in this directory, given without the root.
    pub(super) fn reads(&self, dir: &Path) -> bool {
        let real = |dir: &Path| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_path_buf());
        let dir = real(&self.below(&dir.to_string_lossy()));
        self.dirs.iter().any(|read| real(read) == dir)
    }

    /// Returns true if the directory's links last only until the next boot.
    pub(super) fn is_runtime(&self, dir: &Path) -> bool {
        dir.starts_with(self.below("/run"))
    }

    /// Returns the path for the kernel of a path in the tree. Links are followed within the tree.
    pub(super) fn below(&self, path: &str) -> PathBuf {
        in_tree(self.root.as_deref(), path).into()
    }

    /// Follows the links of a path below the root. The result is always in the tree, so that no write
    /// and no read leaves it.
    pub(super) fn followed(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => self.below(&path.strip_prefix(root).unwrap_or(path).to_string_lossy()),
            None => path.to_path_buf(),
        }
    }

    /// Like [`Self::followed`], but a link at the path itself is not followed.
    pub(super) fn entry(&self, path: &Path) -> PathBuf {
        match (path.parent(), path.file_name()) {
            (Some(dir), Some(name)) => self.followed(dir).join(name),
            _ => self.followed(path),
        }
    }

    /// Returns the file of a unit; for an instance without its own, that of its template.
    pub(super) fn find(&self, name: &str) -> Option<UnitFile> {
        self.exactly(name, name).or_else(|| self.exactly(name, &template_of(name)?))
    }

    /// Returns the file of a loaded unit. Its path has no root.
    pub(super) fn loaded(&self, name: &str, file: &str) -> UnitFile {
        let path = format!("{}{file}", self.root.as_deref().unwrap_or_default());
        UnitFile {
            name: name.to_string(),
            path: self.entry(Path::new(&path)),
            shown: file.to_string(),
            masked: false,
            native: file.ends_with(".yaml"),
        }
    }

    fn exactly(&self, name: &str, file: &str) -> Option<UnitFile> {
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let files = [file.to_string(), format!("{file}.yaml"), format!("{stem}.yaml")];
        let paths = files.iter().flat_map(|file| self.dirs.iter().map(move |dir| dir.join(file)));
        let mut found = paths.into_iter().find_map(|path| self.at(name, self.entry(&path)))?;
        let bare = name.strip_suffix(".service").or_else(|| name.strip_suffix(".target"));
        if let (true, Some(bare)) = (found.native, bare)
            && native_documents(&self.text(&found)).iter().all(|(name, _)| name != file)
        {
            found.name = bare.to_string();
        }
        Some(found)
    }

    fn at(&self, name: &str, path: PathBuf) -> Option<UnitFile> {
        let found = fs::symlink_metadata(&path).ok()?;
        let to_null = fs::read_link(&path).is_ok_and(|to| to == Path::new("/dev/null"));
        if found.is_dir() {
            return None;
        }
        let masked = to_null || (found.is_file() && found.len() == 0);
        let shown = match self.root.as_ref().and_then(|root| path.strip_prefix(root).ok()) {
            Some(rest) => Path::new("/").join(rest).display().to_string(),
            None => path.display().to_string(),
        };
        let native = path.extension().is_some_and(|end| end == "yaml");
        Some(UnitFile { name: name.to_string(), path, shown, masked, native })
    }

    /// Reads a file or the target of a link, below the root.
    pub(super) fn text(&self, file: &UnitFile) -> String {
        self.text_at(&file.path)
    }

    /// Like [`Self::text`], by the path.
    pub(super) fn text_at(&self, path: &Path) -> String {
        String::from_utf8_lossy(&fs::read(self.followed(path)).unwrap_or_default()).into_owned()
    }

    /// Returns the `[Install]` section of a file.
    pub(super) fn install(&self, file: &UnitFile) -> Install {
        let text = self.text(file);
        if !file.native {
            return install_of(&file.name, &text);
        }
        // One of several documents in a file; that of an instance has the name of its template.
        let stem = file.name.rsplit_once('.').map_or(file.name.as_str(), |(stem, _)| stem);
        let documents = native_documents(&text);
        let its = documents.iter().find(|(name, _)| *name == file.name || name == stem);
        its.or(documents.first()).map(|(_, unit)| install_of_native(unit)).unwrap_or_default()
    }

    /// Returns the effective drop-ins in order. Of several with the same file name, the earlier
    /// directory wins, and within a directory the more specific unit name.
    pub(super) fn drop_ins(&self, name: &str) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        let unit = UnitName::of(name);
        let of_type = unit.suffix.map(|suffix| suffix.as_str().to_string());
        for owners in [unit.drop_in_names(), of_type.into_iter().collect()] {
            for (dir, owner) in
                self.dirs.iter().flat_map(|dir| owners.iter().map(move |o| (dir, o)))
            {
                let folder = self.followed(&dir.join(format!("{owner}.d")));
                let Ok(entries) = fs::read_dir(folder) else { continue };
                let files = entries.flatten().map(|entry| entry.path());
                let conf = |path: &PathBuf| path.extension().is_some_and(|end| end == "conf");
                let hidden =
                    |path: &PathBuf| found.iter().any(|old| old.file_name() == path.file_name());
                let fresh: Vec<PathBuf> = files.filter(conf).filter(|path| !hidden(path)).collect();
                found.extend(fresh);
            }
        }
        found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        found
    }

    /// Returns all unit files in systemd's format, by name.
    pub(super) fn all(&self) -> Vec<UnitFile> {
        let mut found: Vec<UnitFile> = Vec::new();
        for dir in &self.dirs {
            let Ok(entries) = fs::read_dir(dir) else { continue };
            for entry in entries.flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                if !super::shown::has_suffix(&name) || found.iter().any(|old| old.name == name) {
                    continue;
                }
                found.extend(self.at(&name, entry.path()));
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// init's own directories, if no init reports them.
fn own_dirs(settings: &Settings) -> Vec<String> {
    let standard = || ["/etc/groundstate/units".to_string(), VENDOR_UNITS.to_string()].to_vec();
    settings.unit_dirs.clone().unwrap_or_else(standard)
}

/// Returns the template of an instance.
pub(super) fn template_of(name: &str) -> Option<String> {
    let (stem, suffix) = name.rsplit_once('.')?;
    let (prefix, instance) = stem.split_once('@')?;
    (!instance.is_empty()).then(|| format!("{prefix}@.{suffix}"))
}

/// Returns the path for the kernel of a path in the tree of `--root`, or in the running system.
pub(super) fn in_tree(root: Option<&str>, path: &str) -> String {
    let path = format!("/{}", path.trim_start_matches('/'));
    root.map_or_else(|| path.clone(), |root| Rooted(root).at(&path))
}

/// Reads `[Install]` for this unit and expands specifiers.
pub(super) fn install_of(name: &str, text: &str) -> Install {
    let mut install = Install::default();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == "[Install]";
        } else if let (true, Some((key, value))) = (inside, line.split_once('=')) {
            let words = value.split_whitespace().map(|word| expanded(word, name));
            // A path is no name of a unit: a link of that name would be in another directory.
            let mut words = words.filter(|word| !word.contains('/'));
            match key.trim() {
                // `UpheldBy` counts as `WantedBy`.
                "WantedBy" | "UpheldBy" => install.wanted_by.extend(words),
                "RequiredBy" => install.required_by.extend(words),
                "Alias" => install.alias.extend(words),
                "Also" => install.also.extend(words),
                "DefaultInstance" => install.default_instance = words.next(),
                _ => {}
            }
        }
    }
    install
}

/// Returns the units of a native file by name.
fn native_documents(text: &str) -> Vec<(String, Node)> {
    let reading = yaml::read(&Arc::from(""), text.as_bytes(), &Limits::UNIT_FILE);
    let named = |document: Document| {
        let name = document.root.get("unit").or_else(|| document.root.get("name"))?;
        Some((name.scalar()?.text.clone(), document.root))
    };
    reading.documents.into_iter().filter_map(named).collect()
}

/// Reads `wanted-by` and `required-by` of a native unit.
fn install_of_native(unit: &Node) -> Install {
    let names = |key: &str| -> Vec<String> {
        let Some(node) = unit.get(key) else { return Vec::new() };
        let nodes = node.list().unwrap_or(std::slice::from_ref(node));
        let words = nodes.iter().filter_map(Node::scalar).flat_map(|word| word.text.split(','));
        let words = words.map(str::trim).filter(|word| !word.is_empty() && !word.contains('/'));
        words.map(str::to_string).collect()
    };
    Install {
        wanted_by: names("wanted-by"),
        required_by: names("required-by"),
        ..Install::default()
    }
}

/// Expands the specifiers allowed in `[Install]`, systemd.unit(5).
fn expanded(word: &str, name: &str) -> String {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    word.replace("%%", "\0")
        .replace("%n", name)
        .replace("%N", stem)
        .replace("%p", prefix)
        .replace("%i", instance)
        .replace('\0', "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_section_of_an_instance_has_its_specifiers_expanded() {
        let text =
            "[Unit]\nWantedBy=no\n[Install]\nWantedBy=a.target b-%i.target\nAlias=x.service\n";
        let install = install_of("getty@tty1.service", text);
        assert_eq!(install.wanted_by, ["a.target", "b-tty1.target"]);
        assert_eq!(install.alias, ["x.service"]);
        assert!(install_of("a.service", "[Service]\nExecStart=/x\n").is_empty());
    }

    #[test]
    fn install_of_a_native_unit_has_the_names_of_each_form_of_list() {
        let names = |text: &str| {
            let documents = native_documents(text);
            documents.iter().map(|(_, unit)| install_of_native(unit).wanted_by.join(" ")).collect()
        };
        let found: Vec<String> = names(
            "unit: a\nwanted-by: x, y # why\n---\nname: b\nwanted-by: [x, 'y']\n---\nunit: c\n\
             wanted-by:\n  - x\n  - y\n---\nunit: d\nrequired-by: z\n",
        );
        assert_eq!(found, ["x y", "x y", "x y", ""]);
    }

    #[test]
    fn template_of_an_instance_is_derived_from_its_name() {
        assert_eq!(template_of("getty@tty1.service").as_deref(), Some("getty@.service"));
        assert_eq!(template_of("getty@.service"), None);
        assert_eq!(template_of("ssh.service"), None);
    }
}

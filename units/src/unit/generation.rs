//! One validated set of units, which the loader hands to PID 1.
//!
//! Unit and target ids are dense indices into the two lists, which are sorted by name. A generation
//! has the content of the files. The unit that *provides* a target, and the edges that count, also
//! depend on the present policy, and [`crate::machine`] computes them.

use crate::spec::{DependencyKind, Kind, Live, Readiness, Restart};
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::fields::{self, bytes, is_default};
use crate::text::name::Name;
use crate::unit::policy::Policy;
use crate::unit::settings::Settings;
use serde::{Deserialize, Serialize};
use serde_with::apply;
use std::sync::Arc;

/// Index into [`Generation::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId(pub u32);

impl UnitId {
    /// Returns the id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TargetId {
    /// Returns the id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Index into [`Generation::targets`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TargetId(pub u32);

/// One entry of a dependency list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The kind of the dependency.
    pub kind: DependencyKind,
    /// The target.
    pub target: TargetId,
    /// The dependency is optional, written `t?`: a missing provider is no error.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
    /// The dependency comes from an imported file: a missing provider is no error, and an
    /// order-only edge is dropped to open a ring.
    #[serde(default, skip_serializing_if = "is_default")]
    pub imported: bool,
    /// The line in the unit's file.
    #[serde(default, skip_serializing_if = "is_default")]
    pub line: u32,
}

/// The error in the file that makes a unit unusable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The place.
    #[serde(default)]
    pub at: Place,
    /// The message.
    #[serde(default)]
    pub message: String,
}

/// Number of different sets of *live* keys that [`Generation::pack`] shares.
const LIVES: usize = 16;

/// One unit.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name.
    #[serde_with(skip_apply)]
    pub name: Name,
    /// The place of its `unit:` line.
    #[serde_with(skip_apply)]
    #[serde(default)]
    pub at: Place,
    /// Its type.
    #[serde_with(skip_apply)]
    pub kind: Kind,
    /// The targets it provides, sorted; at least one.
    #[serde_with(skip_apply)]
    pub provides: Vec<TargetId>,
    /// All dependencies except wanted-by and required-by, in the order of the file.
    pub dependencies: Vec<Dependency>,
    /// While the unit is enabled, the provider of each of these targets waits-for all targets of
    /// this unit.
    pub wanted_by: Box<[TargetId]>,
    /// While the unit is enabled, the provider of each of these targets depends-ms on all targets
    /// of this unit.
    pub required_by: Box<[TargetId]>,
    /// While the unit is enabled, the provider of each of these targets wants all targets of this
    /// unit but does not wait for them, like a systemd link in `web.service.wants/`. Only a target
    /// also waits for units installed into it, see systemd.target(5).
    pub pulled_by: Box<[TargetId]>,
    /// The target that a trigger activates.
    pub activates: Option<TargetId>,
    /// Keys of class *live*. Most units have equal ones and share them.
    #[serde_with(skip_apply)]
    #[serde(default)]
    pub live: Arc<Live>,
    /// The readiness protocol, from the keys of class *run*.
    #[serde_with(skip_apply)]
    pub readiness: Readiness,
    /// The unit has an exec-stop, an exec-stop-post, or other work left for the stop of its run.
    pub has_exec_stop: bool,
    /// The unit has an exec-reload or a reload-signal.
    pub has_exec_reload: bool,
    /// A successful run stays active as `exited`. Otherwise the run is over.
    pub remains: bool,
    /// Standard input is a terminal: a person uses the unit.
    pub at_terminal: bool,
    /// Hash of the keys of class *run*.
    #[serde_with(skip_apply)]
    #[serde(default)]
    pub run_hash: u64,
    /// The encoded [`crate::spec::Run`], decoded when a process is started. A trigger has its
    /// encoded [`crate::trigger::Trigger`] here; a virtual unit has no bytes.
    #[serde_with(skip_apply)]
    #[serde(default, with = "bytes", skip_serializing_if = "is_default")]
    pub run: Arc<[u8]>,
    /// The error of a unit with an invalid text. The name, the targets and the wishes for the unit
    /// are valid; other fields may be placeholders.
    pub fault: Option<Box<Fault>>,
    /// The source of the unit; `None` for the unit directories.
    pub source: Option<Name>,
    /// The unit's wanted-by and required-by count only if the policy names it, whatever the
    /// default.
    pub opt_in: bool,
    /// The targets are names of one thing, as those of a systemd unit are: masking one of them
    /// masks the unit.
    #[serde(rename = "is_one")]
    pub has_synonyms: bool,
}

impl Unit {
    /// Returns true if a run ends by itself and no other follows: a oneshot, a unit that is never
    /// restarted, or one used by a person at a terminal.
    pub fn finishes(&self) -> bool {
        let job = self.kind == Kind::Oneshot || self.live.restart == Restart::Never;
        self.kind.has_process() && (job || self.at_terminal)
    }
}

/// One target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: Name,
    /// All units that provide it, sorted. May be empty.
    #[serde(default)]
    pub candidates: Vec<UnitId>,
}

/// The stat(2) values that identify an unchanged file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Stamp {
    /// st_dev.
    pub device: u64,
    /// st_ino.
    pub inode: u64,
    /// st_size.
    pub size: u64,
    /// st_mtim in nanoseconds.
    pub modified: i64,
    /// st_ctim in nanoseconds.
    pub changed: i64,
}

/// A file that was read for a generation. While its stamp and those of its drop-ins are unchanged,
/// the next load takes its units from the previous generation without parsing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The path, as in [`Place::file`].
    pub path: Arc<str>,
    /// The stamp at the time it was read.
    pub stamp: Stamp,
    /// The drop-ins merged over it, in order. An imported file also has its aliases and the links
    /// that enable it here.
    #[serde(default)]
    pub drop_ins: Vec<(Arc<str>, Stamp)>,
    /// Diagnostics about its text alone.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// The next load parses the file in any case: a diagnostic may change although the file does
    /// not, or the generation has no unit for a part of the file.
    #[serde(default)]
    pub again: bool,
    /// The source of the file; `None` for a unit directory.
    pub source: Option<Name>,
}

impl FileRecord {
    /// Creates the record of a file that was not read yet.
    pub(crate) fn new(path: Arc<str>) -> FileRecord {
        let (stamp, drop_ins, diagnostics) = (Stamp::default(), Vec::new(), Vec::new());
        FileRecord { path, stamp, drop_ins, diagnostics, again: false, source: None }
    }
}

/// One generation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// The number, incremented by init; 0 for none yet.
    pub number: u32,
    /// Units by [`UnitId`], sorted by name.
    pub units: Vec<Unit>,
    /// Targets by [`TargetId`], sorted by name.
    pub targets: Vec<Target>,
    /// The settings of init.yaml.
    pub settings: Settings,
    /// The policy of policy.yaml.
    pub policy: Policy,
    /// Roots of each source, by source name.
    pub roots: Vec<(Name, Vec<TargetId>)>,
    /// The revision of each source that was ever put, by source name.
    pub revisions: Vec<(Name, u64)>,
    /// Diagnostics of the load.
    pub diagnostics: Vec<Diagnostic>,
    /// The records of its files, sorted by path.
    pub files: Vec<FileRecord>,
    /// The same records encoded, while only the next load needs them.
    #[serde(skip)]
    pub packed_files: Box<[u8]>,
}

impl Generation {
    /// Shares equal parts, and encodes the parts that only a load needs: the form in which init
    /// stores a generation.
    pub fn pack(&mut self) {
        let mut lives: Vec<Arc<Live>> = Vec::new();
        let mut file: Option<Arc<str>> = None;
        for unit in &mut self.units {
            match lives.iter().position(|live| *live == unit.live) {
                Some(at) => {
                    // Units with similar names often have equal keys: the next search ends here.
                    lives.swap(0, at);
                    lives.first().into_iter().for_each(|live| unit.live.clone_from(live));
                }
                None if lives.len() < LIVES => lives.push(unit.live.clone()),
                None => {}
            }
            match &file {
                Some(file) if *file == unit.at.file => unit.at.file = file.clone(),
                Some(_) | None => file = Some(unit.at.file.clone()),
            }
            for target in &unit.provides {
                if let Some(target) = self.targets.get_mut(target.index())
                    && target.name == unit.name
                {
                    target.name = unit.name.clone();
                }
            }
        }
        self.packed_files = fields::encode(&self.files).unwrap_or_default().into();
        self.files = Vec::new();
    }

    /// Decodes the file records for a load. Damaged bytes mean no records, so that all files are
    /// read again.
    pub fn unpacked(&self) -> Generation {
        Generation { files: self.records(), ..self.clone() }
    }

    /// Returns the file records, encoded or not.
    pub fn records(&self) -> Vec<FileRecord> {
        fields::decode(&self.packed_files).unwrap_or_else(|_| self.files.clone())
    }

    /// Returns the unit of that id.
    pub fn unit(&self, id: UnitId) -> Option<&Unit> {
        self.units.get(id.index())
    }

    /// Returns the target of that id.
    pub fn target(&self, id: TargetId) -> Option<&Target> {
        self.targets.get(id.index())
    }

    /// Finds a unit by name.
    pub fn find_unit(&self, name: &str) -> Option<UnitId> {
        let at = self.units.binary_search_by(|u| u.name.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok().map(UnitId)
    }

    /// Finds a target by name.
    pub fn find_target(&self, name: &str) -> Option<TargetId> {
        let at = self.targets.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok().map(TargetId)
    }

    /// Returns the provided target whose name was probably meant.
    #[cfg(feature = "text")]
    pub fn nearest_target(&self, name: &str) -> Option<&Name> {
        let provided = self.targets.iter().filter(|target| !target.candidates.is_empty());
        crate::text::name::nearest(name, provided.map(|target| &target.name))
    }

    /// Returns `None`: builds without the parsers guess no names.
    #[cfg(not(feature = "text"))]
    pub fn nearest_target(&self, _: &str) -> Option<&Name> {
        None
    }

    /// Returns the revision of a source; 0 if it was never put.
    pub fn revision(&self, source: &Name) -> u64 {
        self.revisions.iter().find(|(name, _)| name == source).map_or(0, |(_, number)| *number)
    }

    /// Returns the ids of all units, in order of name.
    pub fn unit_ids(&self) -> impl DoubleEndedIterator<Item = UnitId> + use<> {
        (0..u32::try_from(self.units.len()).unwrap_or(u32::MAX)).map(UnitId)
    }
}

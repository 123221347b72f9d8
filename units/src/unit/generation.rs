//! One validated set of units: what the loader hands to PID 1.
//!
//! Unit and target ids are dense indexes into the two lists, which are sorted by
//! name. A generation says what the files say; which unit *provides* a target, and
//! which edges count, also depends on the policy of the moment and is computed in
//! [`crate::machine`].

use crate::spec::{DependencyKind, Kind, Live, Readiness, Restart};
use crate::text::diagnostic::{Diagnostic, Place};
use crate::text::name::Name;
use crate::unit::policy::Policy;
use crate::unit::settings::Settings;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Index into [`Generation::units`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UnitId(pub u32);

impl UnitId {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl TargetId {
    /// As an index.
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
    /// Which list.
    pub kind: DependencyKind,
    /// Whom.
    pub target: TargetId,
    /// Written `t?`: silent when nobody provides it.
    pub optional: bool,
    /// From an imported file: silent when missing; an order-only edge is dropped to open a ring.
    pub imported: bool,
    /// Line in the unit's file.
    pub line: u32,
}

/// Why a unit can not be used: what the text of its file got wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Where.
    pub at: Place,
    /// What.
    pub message: String,
}

/// Different sets of *live* keys looked through for one that is there already.
const LIVES: usize = 16;

/// One unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name.
    pub name: Name,
    /// Its `unit:` line.
    pub at: Place,
    /// Its type.
    pub kind: Kind,
    /// Its targets, sorted; at least one.
    pub provides: Vec<TargetId>,
    /// All lists but wanted-by and required-by, in the order of the file.
    pub dependencies: Vec<Dependency>,
    /// While enabled: each of these targets' providers waits-for all targets of this unit.
    pub wanted_by: Box<[TargetId]>,
    /// While enabled: each of these targets' providers depends-ms on all targets of this unit.
    pub required_by: Box<[TargetId]>,
    /// While enabled: each of these targets' providers wants all targets of this unit. What
    /// systemd's link in `web.service.wants/` does: only a target waits for what is installed
    /// into it, see systemd.target(5).
    pub pulled_by: Box<[TargetId]>,
    /// What a trigger fires.
    pub activates: Option<TargetId>,
    /// Keys of class *live*. Most units have the same ones, which are there once.
    pub live: Arc<Live>,
    /// From the keys of class *run*: how readiness is learned.
    pub readiness: Readiness,
    /// It has an exec-stop, an exec-stop-post, or something else that a stop of its run is left to do.
    pub has_exec_stop: bool,
    /// It has an exec-reload or a reload-signal.
    pub has_exec_reload: bool,
    /// A run that ends well stays active as `exited`. Without, the run is over.
    pub remains: bool,
    /// Its standard input is a terminal: a person uses it.
    pub at_terminal: bool,
    /// Hash over the keys of class *run*.
    pub run_hash: u64,
    /// [`crate::spec::Run`], encoded; decoded when a process is started. Empty for instant kinds.
    pub run: Arc<[u8]>,
    /// A text that is no unit: everything else here is then a placeholder, but the name and what it provides.
    pub fault: Option<Box<Fault>>,
    /// The source it came from; None: the unit directories.
    pub source: Option<Name>,
    /// Its wanted-by and required-by count only once policy names it, whatever the default.
    pub opt_in: bool,
    /// Its targets are names of one thing, as those of a unit of systemd's are: a mask of any of
    /// them is a mask of the unit.
    pub is_one: bool,
}

impl Unit {
    /// A run of it comes to an end by itself, and no other is to follow: it is a oneshot, is never
    /// started again, or is used by a person at a terminal.
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
    /// All units that say they provide it, sorted. May be empty: named but provided by nobody.
    pub candidates: Vec<UnitId>,
}

/// What tells that a file is still the same, from stat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// A file that was read for a generation. While its stamp and those of its drop-ins
/// stay, the next load takes its units from the previous generation unparsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// As in [`Place::file`].
    pub path: Arc<str>,
    /// When it was read.
    pub stamp: Stamp,
    /// Drop-ins merged over it, in order.
    pub drop_ins: Vec<(Arc<str>, Stamp)>,
    /// What its text alone gave rise to.
    pub diagnostics: Vec<Diagnostic>,
    /// Something was found that may change without the file: it is parsed again in any case.
    pub again: bool,
    /// The source it is a file of; None: a unit directory's.
    #[serde(default)]
    pub source: Option<Name>,
}

/// One set of units.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Counted up by init; 0: none yet.
    pub number: u32,
    /// By [`UnitId`], sorted by name.
    pub units: Vec<Unit>,
    /// By [`TargetId`], sorted by name.
    pub targets: Vec<Target>,
    /// init.yaml.
    pub settings: Settings,
    /// policy.yaml.
    pub policy: Policy,
    /// Roots of each source, by source name.
    pub roots: Vec<(Name, Vec<TargetId>)>,
    /// How often each source that was ever put has been, by source name.
    #[serde(default)]
    pub revisions: Vec<(Name, u64)>,
    /// What was found while loading.
    pub diagnostics: Vec<Diagnostic>,
    /// The files it was read from, sorted by path.
    pub files: Vec<FileRecord>,
    /// The same encoded, while only the next load wants them.
    #[serde(skip)]
    pub packed_files: Box<[u8]>,
}

impl Generation {
    /// Holds what is the same once, and what only a load looks at as bytes: this is how a
    /// generation is kept.
    pub fn pack(&mut self) {
        let mut lives: Vec<Arc<Live>> = Vec::new();
        let mut file: Option<Arc<str>> = None;
        for unit in &mut self.units {
            match lives.iter().find(|live| **live == unit.live) {
                Some(live) => unit.live = live.clone(),
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
        self.packed_files = postcard::to_allocvec(&self.files).unwrap_or_default().into();
        self.files = Vec::new();
    }

    /// With its files as a load wants them. Bytes that are damaged mean none: all are read anew.
    pub fn unpacked(&self) -> Generation {
        Generation { files: self.records(), ..self.clone() }
    }

    /// Its files, packed or not.
    pub fn records(&self) -> Vec<FileRecord> {
        postcard::from_bytes(&self.packed_files).unwrap_or_else(|_| self.files.clone())
    }

    /// The unit of that id.
    pub fn unit(&self, id: UnitId) -> Option<&Unit> {
        self.units.get(id.index())
    }

    /// The target of that id.
    pub fn target(&self, id: TargetId) -> Option<&Target> {
        self.targets.get(id.index())
    }

    /// By name.
    pub fn find_unit(&self, name: &str) -> Option<UnitId> {
        let at = self.units.binary_search_by(|u| u.name.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok().map(UnitId)
    }

    /// By name.
    pub fn find_target(&self, name: &str) -> Option<TargetId> {
        let at = self.targets.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        u32::try_from(at).ok().map(TargetId)
    }

    /// The provided target whose name was probably meant.
    #[cfg(feature = "text")]
    pub fn nearest_target(&self, name: &str) -> Option<&Name> {
        let provided = self.targets.iter().filter(|target| !target.candidates.is_empty());
        crate::text::name::nearest(name, provided.map(|target| &target.name))
    }

    /// Without the parsers nothing is guessed.
    #[cfg(not(feature = "text"))]
    pub fn nearest_target(&self, _: &str) -> Option<&Name> {
        None
    }

    /// How often the source was put; 0: never.
    pub fn revision(&self, source: &Name) -> u64 {
        self.revisions.iter().find(|(name, _)| name == source).map_or(0, |(_, number)| *number)
    }

    /// The ids of all units, in order of name.
    pub fn unit_ids(&self) -> impl DoubleEndedIterator<Item = UnitId> + use<> {
        (0..u32::try_from(self.units.len()).unwrap_or(u32::MAX)).map(UnitId)
    }
}

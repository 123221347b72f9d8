//! The facts of a machine: its files, its units as init would load them, its kernel, and the state
//! of a running init.

use groundstate_units::control::answer::Status;
use groundstate_units::graph::{Edge, Graph, Provider};
use groundstate_units::import::fstab::{self, Entry};
use groundstate_units::load::files::{FileKind, Files};
use groundstate_units::load::{Options, load};
use groundstate_units::spec::{ConditionKind, DependencyKind, Run};
use groundstate_units::text::name::Name;
use groundstate_units::unit::generation::{Generation, Unit, UnitId};
use std::collections::BTreeSet;
use std::fs;

/// Limit of bytes read from one file.
const FILE: usize = 1024 * 1024;
/// Limit of names read from one directory.
const NAMES: usize = 65_536;
/// Directories of programs.
const PATH: [&str; 6] =
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"];
/// The table of file systems.
pub(super) const FSTAB: &str = "/etc/fstab";
/// Files that container runtimes create.
const OF_CONTAINER: [&str; 3] = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];

/// The running kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// Its command line.
    pub(super) command_line: String,
    /// The types of file systems that it knows; empty if /proc is missing.
    pub(super) filesystems: String,
}

impl Kernel {
    /// Reads /proc.
    pub(super) fn read() -> Kernel {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Kernel { command_line: text("/proc/cmdline"), filesystems: text("/proc/filesystems") }
    }
}

/// All facts.
pub(super) struct Facts<'a> {
    files: &'a dyn Files,
    /// The units as init loads them.
    pub(super) generation: Generation,
    /// Their dependencies.
    pub(super) graph: Graph,
    /// Units that the goal or the emergency target pulls in.
    needed: BTreeSet<UnitId>,
    /// Units without which the goal fails.
    required: BTreeSet<UnitId>,
    /// The readable lines of fstab.
    pub(super) fstab: Vec<Entry>,
    /// The `import-dirs` have fstab, so init mounts file systems and starts devices. False for a
    /// container.
    pub(super) is_machine: bool,
    /// The tree belongs to a container.
    pub(super) is_container: bool,
    /// The directory of the tree, as the user named it; `None` for the running machine.
    pub(super) root: Option<String>,
    /// The kernel; `None` for a tree.
    pub(super) kernel: Option<Kernel>,
    /// The state of the init that runs as PID 1.
    pub(super) status: Option<Status>,
}

impl Facts<'_> {
    /// Reads the facts.
    pub(super) fn gather<'a>(
        files: &'a dyn Files,
        options: &Options,
        kernel: Option<Kernel>,
        status: Option<Status>,
    ) -> Facts<'a> {
        let generation = load(files, options, None).generation;
        let (graph, _) = Graph::resolve(&generation, &generation.policy);
        let settings = &generation.settings;
        let goals = [&settings.default_target, &settings.emergency_target];
        let needed = reached(&generation, &graph, &goals, |edge| {
            edge.kind.pulls_in() || edge.kind.pulls_in_at_end()
        });
        let required = reached(&generation, &graph, goals.get(..1).unwrap_or_default(), |edge| {
            let hard = matches!(edge.kind, DependencyKind::DependsOn | DependencyKind::DependsMs);
            hard && !edge.optional
        });
        let is_container = OF_CONTAINER.iter().any(|path| files.stat(path).is_ok());
        let is_machine = !is_container && settings.import_dirs.iter().any(|dir| dir == FSTAB);
        let text = files.read(FSTAB, FILE).map(|(bytes, _)| bytes).unwrap_or_default();
        Facts {
            files,
            needed,
            required,
            fstab: fstab::entries(&text),
            is_machine,
            is_container,
            root: None,
            kernel,
            status,
            generation,
            graph,
        }
    }

    /// Returns true if the path exists. A path on a network file system counts as existing.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.stat_outside(path).is_none_or(|found| found.is_ok())
    }

    /// Returns true if both paths lead to one file.
    pub(super) fn is_same(&self, a: &str, b: &str) -> bool {
        let stamp = |path| self.files.stat(path).ok().map(|stat| stat.stamp);
        stamp(a).is_some_and(|found| Some(found) == stamp(b))
    }

    /// Returns the target of a link.
    pub(super) fn link(&self, path: &str) -> Option<String> {
        self.files.link(path)
    }

    /// Returns true if the program is installed.
    pub(super) fn has_program(&self, name: &str) -> bool {
        PATH.iter().any(|directory| self.is_executable(&format!("{directory}/{name}")))
    }

    /// Returns true for a file that can be executed.
    pub(super) fn is_executable(&self, path: &str) -> bool {
        let found = self.files.stat(path);
        found.is_ok_and(|stat| stat.kind == FileKind::Regular && stat.mode & 0o111 != 0)
    }

    /// Returns the text of a file; empty if it cannot be read.
    pub(super) fn text(&self, path: &str) -> String {
        let bytes = self.files.read(path, FILE).map(|(bytes, _)| bytes).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the names in a directory; none if it cannot be read.
    pub(super) fn names(&self, directory: &str) -> Vec<String> {
        let mut names = self.files.list(directory, NAMES).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// Returns the unit of that name, or the provider of the target of that name.
    pub(super) fn unit(&self, name: &str) -> Option<&Unit> {
        let found = self.graph.meant(&self.generation, &Name::new(name).ok()?).unit()?;
        self.generation.unit(found)
    }

    /// Returns true if the policy masks the unit of that name, even if init does not read its file.
    pub(super) fn masks(&self, name: &str) -> bool {
        let masked = |name: &str| self.generation.policy.mask.iter().any(|by| by.as_str() == name);
        let Ok(whole) = Name::new(name) else { return false };
        matches!(self.graph.meant(&self.generation, &whole), Provider::Masked)
            || masked(name)
            || name.strip_suffix(".service").is_some_and(masked)
    }

    /// Returns true if the goal, or the emergency target, pulls in the unit of that name.
    pub(super) fn needs(&self, name: &str) -> bool {
        let Ok(name) = Name::new(name) else { return false };
        self.graph.meant(&self.generation, &name).unit().is_some_and(|id| self.needed.contains(&id))
    }

    /// Returns true if none of the paths exists that a condition of the unit excludes (`!PATH`).
    pub(super) fn lacks_excluding_path(&self, unit: &Unit) -> bool {
        let particular = Run::decode(&unit.run).and_then(|run| run.particular);
        let conditions = particular.iter().flat_map(|particular| &particular.conditions);
        conditions
            .filter(|condition| condition.negated && condition.kind == ConditionKind::PathExists)
            .all(|condition| !self.has(&condition.argument))
    }

    /// Returns the units that the goal, or the emergency target, pulls in. The flag is true for a
    /// unit without which the goal fails.
    pub(super) fn needed(&self) -> impl Iterator<Item = (&Unit, bool)> {
        let unit = |id: &UnitId| Some((self.generation.unit(*id)?, self.required.contains(id)));
        self.needed.iter().filter_map(unit)
    }

    /// Returns the commands and settings of the units in [`Self::needed`].
    pub(super) fn runs(&self) -> impl Iterator<Item = (&Unit, bool, Run)> {
        self.needed().filter_map(|(unit, required)| Some((unit, required, Run::decode(&unit.run)?)))
    }
}

/// Returns the providers of these targets, and the units that they reach by such dependencies and by
/// triggers.
fn reached(
    generation: &Generation,
    graph: &Graph,
    goals: &[&Name],
    follows: impl Fn(&Edge) -> bool,
) -> BTreeSet<UnitId> {
    let mut left: Vec<UnitId> =
        goals.iter().filter_map(|goal| graph.meant(generation, goal).unit()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !found.insert(id) {
            continue;
        }
        let edges = graph.edges(id).iter().filter(|edge| follows(edge));
        left.extend(edges.filter_map(|edge| edge.provider));
        let activated = generation.unit(id).and_then(|unit| unit.activates);
        left.extend(activated.and_then(|target| graph.provider(target).unit()));
    }
    found
}

//! `check`: finds all errors in a set of unit files with the code of init's loader. It asks a running
//! init only for its directories. A refused reload prints the same format.

use crate::arguments;
use crate::exit::{Error, Exit};
use crate::files::{Disk, Rooted};
use crate::report;
use crate::session::{self, Session};
use crate::style::{self, Style};
use groundstate_units::control::answer::{Edge, Graph, Node, Pong, Report, SCHEMA};
use groundstate_units::control::place::{runtime_policy, runtime_units};
use groundstate_units::load::files::{FileKind, Files};
use groundstate_units::load::folder::Trust;
use groundstate_units::load::{Options, load};
use groundstate_units::unit::generation::Generation;
use nix::unistd::geteuid;
use std::path::{Path, PathBuf};

/// Checks the files and prints the result.
pub(crate) fn run(session: &Session, asked: &arguments::Check) -> Result<Exit, Error> {
    let root = asked.root.as_deref().map(rooted_path).transpose()?;
    let (options, generation) = match asked.paths.as_slice() {
        [] => load_configured(session, root.as_deref()),
        paths => {
            let options = options(paths)?;
            let generation = load(&Disk, &options, None).generation;
            (options, generation)
        }
    };
    let report = Report::new(&generation.diagnostics);
    if session.json {
        session::print_json(&report)?;
    } else {
        session::print(&report::render(&report, &session.style))?;
        let mut text = summary(&report, generation.units.len());
        if generation.units.is_empty() {
            let dirs = options.units.iter().chain(&options.standard_units);
            let dirs: Vec<&str> = dirs.chain(&options.runtime_units).map(String::as_str).collect();
            text.push_str(&format!("; looked in {}", dirs.join(", ")));
        }
        session.remark(&text);
    }
    Ok(match (report.errors, report.warnings) {
        (0, 0) => Exit::Done,
        (0, _) if asked.strict => Exit::Bad,
        (0, _) => Exit::Done,
        _ => Exit::Refused,
    })
}

/// Returns the path of a `--root` for [`Rooted`].
///
/// # Errors
/// [`Exit::Usage`] if it is no directory.
pub(crate) fn rooted_path(root: &Path) -> Result<String, Error> {
    if !root.is_dir() {
        let message = format!("{}: no such directory", root.display());
        return Err(Error::usage(
            message,
            "--root DIR is the mount point of an image, or its tree",
        ));
    }
    Ok(root.to_string_lossy().trim_end_matches('/').to_string())
}

/// Loads the configured files and directories of the system in `root`, or of this one.
pub(crate) fn load_configured(session: &Session, root: Option<&str>) -> (Options, Generation) {
    let uid = geteuid().as_raw();
    let (options, loaded) = match root {
        Some(root) => {
            let options = Options::system(uid);
            let loaded = load(&Rooted(root), &options, None);
            (options, loaded)
        }
        None => {
            let options = loader_options(session, uid, &Disk);
            let loaded = load(&Disk, &options, None);
            (options, loaded)
        }
    };
    (options, loaded.generation)
}

fn options(paths: &[PathBuf]) -> Result<Options, Error> {
    let uid = geteuid().as_raw();
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    if let Some(path) = paths.iter().find(|path| !path.exists()) {
        let message = format!("{}: no such file or directory", path.display());
        return Err(Error::usage(message, "initctl check [DIR|FILE…]"));
    }
    let (dirs, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        paths.iter().partition(|path| path.is_dir());
    match (dirs.is_empty(), files.is_empty()) {
        (true, _) => Ok(Options::files(files.into_iter().map(text).collect(), uid)),
        (false, true) => Ok(Options::directories(dirs.into_iter().map(text).collect(), uid)),
        (false, false) => {
            let hint = "a directory is a complete set, files are single files: check one kind";
            Err(Error::usage("cannot check directories and files in one call", hint))
        }
    }
}

/// Returns the options with the files and directories of the init at the socket, or this user's
/// defaults without one.
pub(crate) fn loader_options(session: &Session, uid: u32, files: &dyn Files) -> Options {
    let places = &session.places;
    if let Ok(Some(Pong { paths, .. })) = session.init() {
        // The loader reports a missing directory of `units`, but init accepts missing ones.
        let is_directory =
            |dir: &String| files.stat(dir).is_ok_and(|found| found.kind == FileKind::Directory);
        let there = paths.unit_dirs.into_iter().filter(is_directory);
        return Options {
            settings: Some(paths.config),
            policy: Some(paths.policy),
            runtime_policy: paths.runtime_policy,
            units: there.collect(),
            trust: Trust { uid, strict: true },
            ..Options::directories(Vec::new(), uid)
        };
    }
    let runtime = runtime_units(&places.runtime_dir);
    Options {
        settings: Some(places.config.clone()),
        policy: Some(places.policy.clone()),
        runtime_policy: Some(runtime_policy(&places.runtime_dir)),
        standard_units: places.unit_dirs.iter().filter(|dir| **dir != runtime).cloned().collect(),
        runtime_units: Some(runtime.clone()),
        trust: Trust { uid, strict: true },
        ..Options::system(uid)
    }
}

fn summary(report: &Report, units: usize) -> String {
    let units = style::count(units, "unit");
    if report.errors == 0 && report.warnings == 0 {
        return format!("{units}: no mistakes");
    }
    let errors = style::count(report.errors, "error");
    format!("{units}: {errors}, {}", style::count(report.warnings, "warning"))
}

/// Loads the graph of a directory, for `graph --units`. Prints the diagnostics to stderr.
///
/// # Errors
/// [`Exit::Usage`] if there is no such directory.
pub(crate) fn graph_of(session: &Session, dir: &Path) -> Result<Graph, Error> {
    let options = options(&[dir.to_path_buf()])?;
    let generation = load(&Disk, &options, None).generation;
    let report = Report::new(&generation.diagnostics);
    session.remark(report::render(&report, &Style::PLAIN).trim_end());
    Ok(graph(&generation))
}

fn graph(generation: &Generation) -> Graph {
    let targets = |ids: &[groundstate_units::unit::generation::TargetId]| -> Vec<String> {
        ids.iter().filter_map(|id| Some(generation.target(*id)?.name.to_string())).collect()
    };
    let nodes = generation.units.iter().map(|unit| Node {
        unit: unit.name.to_string(),
        kind: unit.kind,
        provides: targets(&unit.provides),
        state: None,
        degraded: false,
        needed: false,
        reason: None,
    });
    let edges = generation.units.iter().flat_map(|unit| {
        unit.dependencies.iter().filter_map(|dependency| {
            let target = generation.target(dependency.target)?;
            let to = match target.candidates.as_slice() {
                [only] => generation.unit(*only),
                several => generation
                    .policy
                    .prefer
                    .get(&target.name)
                    .and_then(|name| generation.units.iter().find(|unit| unit.name == *name))
                    .filter(|_| !several.is_empty()),
            };
            Some(Edge {
                from: unit.name.to_string(),
                target: target.name.to_string(),
                to: to.map(|unit| unit.name.to_string()),
                kind: dependency.kind,
                optional: dependency.optional,
            })
        })
    });
    Graph { schema: SCHEMA, goal: Vec::new(), nodes: nodes.collect(), edges: edges.collect() }
}

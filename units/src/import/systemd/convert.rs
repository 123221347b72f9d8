//! The import of one systemd unit, step by step: each step adds its part to the [`Conversion`].

use super::conversion::{Conversion, Held, Imported, Surroundings};
use super::unit_name::{Suffix, UnitName};
use super::unit_text::{UnitOption, UnitText};
use super::{dependency, implied, install, mount, service, trigger};
use crate::spec::Kind;
use crate::text::yaml::Spot;
use crate::unit::manifest::Manifest;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Imports a unit from the texts of its file and drop-ins, in order. A template's name leaves
/// specifiers unchanged, because native templates have the same ones.
pub fn convert(
    name: &UnitName,
    file: &Arc<str>,
    texts: &[UnitText],
    around: &Surroundings,
) -> Imported {
    let options: Vec<&UnitOption> = texts.iter().flat_map(|text| &text.options).collect();
    let first = texts.first().and_then(|text| text.sections.first());
    let at = first.map_or(Spot { line: 1, column: 1 }, |(_, at)| *at);
    let mut conversion = Conversion {
        name,
        options,
        around,
        kind: Kind::Virtual,
        manifest: Manifest::imported(file.clone(), at),
        by_directive: BTreeMap::new(),
        held: Held::default(),
        outcomes: Vec::new(),
        told: BTreeSet::new(),
        weaker: Vec::new(),
        default_instance: None,
        also: Vec::new(),
        #[cfg(test)]
        walked: std::cell::Cell::new(0),
    };
    for text in texts {
        conversion.manifest.diagnostics.extend(text.found.iter().cloned());
    }
    let mut resets: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, option) in conversion.options.iter().enumerate() {
        if let Some(family) = family(option).filter(|_| option.value.is_empty()) {
            resets.insert(family, at);
        }
    }
    for (at, option) in conversion.options.iter().copied().enumerate() {
        if family(option).and_then(|family| resets.get(family)).is_some_and(|reset| at < *reset) {
            continue;
        }
        let directive = (option.section.as_ref(), option.name.as_str());
        conversion.by_directive.entry(directive).or_default().push(option);
    }
    conversion.run(texts);
    Imported {
        manifest: conversion.manifest,
        outcomes: conversion.outcomes,
        default_instance: conversion.default_instance,
        also: conversion.also,
        #[cfg(test)]
        walked: conversion.walked.get(),
    }
}

/// Directives that share one list: an empty assignment to one resets all.
fn family(option: &UnitOption) -> Option<&'static str> {
    match (option.section.as_ref(), option.name.as_str()) {
        ("Unit", name) if name.starts_with("Condition") => Some("Condition"),
        ("Unit", name) if name.starts_with("Assert") => Some("Assert"),
        ("Socket", name) if name.starts_with("Listen") => Some("Listen"),
        (
            "Timer",
            "OnCalendar" | "OnActiveSec" | "OnBootSec" | "OnStartupSec" | "OnUnitActiveSec"
            | "OnUnitInactiveSec",
        ) => Some("On"),
        (
            "Path",
            "PathExists" | "PathExistsGlob" | "PathChanged" | "PathModified" | "DirectoryNotEmpty",
        ) => Some("Path"),
        _ => None,
    }
}

impl Conversion<'_> {
    fn run(&mut self, texts: &[UnitText]) {
        self.read_name();
        let Some(suffix) = self.name.suffix else {
            return self.refuse_unit("a name that does not say what kind of unit it is");
        };
        match suffix {
            Suffix::Service => service::convert(self),
            Suffix::Socket => trigger::socket(self),
            Suffix::Timer => trigger::timer(self),
            Suffix::Path => trigger::path(self),
            Suffix::Mount => mount::mount(self),
            Suffix::Swap => mount::swap(self),
            Suffix::Target => self.kind = Kind::Virtual,
            Suffix::Automount => {
                self.refuse_unit("nothing is mounted at the first access; use a .mount unit");
            }
            Suffix::Device => {
                self.refuse_unit("a device is no unit here: the device manager creates it")
            }
            Suffix::Scope => {
                self.refuse_unit("a scope is made while a system runs, never by a file")
            }
            Suffix::Slice => {
                self.refuse_unit("slices are not units here; say `cgroup-slice` in each unit")
            }
        }
        dependency::convert(self);
        implied::convert(self, suffix);
        install::convert(self, suffix);
        self.apply_rows();
        self.tell_sections(texts);
        self.tell_gaps();
        self.tell_weaker();
        self.manifest.diagnostics.sort_by(|a, b| (&a.at, &a.code).cmp(&(&b.at, &b.code)));
    }
}

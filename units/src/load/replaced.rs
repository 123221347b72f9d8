//! Reports drop-ins of systemd for units that native units replace. Such a drop-in has no effect.

use super::set::Set;
use crate::import::systemd::{UnitName, replacement};
use crate::load::foreign::Foreign;
use crate::text::diagnostic::{Diagnostic, Severity};
use crate::text::unit_name::Suffix;
use crate::unit::assembly::Draft;
use std::collections::{BTreeMap, BTreeSet};

/// A unit of the boot set mounts /tmp with the options of this unit and its drop-ins.
const READ_BY_A_SCRIPT: &str = "tmp.mount";
const SCRIPT_UNIT: &str = "tmp-filesystem";

/// Returns a warning for each drop-in below /etc and /run whose unit is native, is a line of fstab,
/// or is one of systemd's own units that are not imported. Drop-ins of packages are not reported:
/// they belong to the units that the boot set replaces on purpose.
pub(super) fn drop_ins(foreign: &Foreign, set: &Set) -> Vec<Diagnostic> {
    let templates: BTreeSet<&str> = set.templates.names().collect();
    let (imported, other): (Vec<&Draft>, Vec<&Draft>) =
        set.drafts.iter().partition(|draft| Suffix::of(&draft.at.file).is_some());
    let imported: BTreeSet<&str> = imported.iter().map(|draft| draft.name.as_str()).collect();
    let mut native: BTreeMap<&str, &Draft> = BTreeMap::new();
    for draft in other.into_iter().filter(|draft| draft.at.file.starts_with('/')) {
        for name in [&draft.name].into_iter().chain(&draft.provides) {
            native.entry(name.as_str()).or_insert(draft);
        }
    }
    let mut found = Vec::new();
    for (unit, path) in foreign.local_drop_ins() {
        let name = UnitName::of(unit);
        let of_template = name.with_instance("");
        let template = name.instance.is_some().then(|| of_template.to_string());
        let is_imported = |name: &str| imported.contains(name) || templates.contains(name);
        let is_own = |name: &str| replacement::is_replaced(name);
        let own = is_own(unit) || template.as_deref().is_some_and(is_own);
        let (stem, template_stem) = (name.stem(), of_template.stem());
        let has_template = template.is_some() && templates.contains(template_stem.as_str());
        let named = native.get(unit).or_else(|| native.get(stem.as_str()).filter(|_| own));
        // The drop-ins of a native template apply to all of its instances.
        let (message, hint) = if is_imported(unit) {
            continue;
        } else if has_template && (own || named.is_some()) {
            let message = format!("`{template_stem}` is a native template");
            (message, native_form(&template_stem, path))
        } else if let Some(draft) = named {
            let message = format!("`{unit}` is a unit of {}", draft.at.file);
            (message, native_form(draft.name.as_str(), path))
        } else if template.as_deref().is_some_and(is_imported) {
            continue;
        } else if matches!(name.suffix, Some(Suffix::Slice | Suffix::Scope)) {
            let message = format!("`{unit}`: slices and scopes are not units here");
            (message, "set the limits in each of its units".to_string())
        } else if own && !(unit == READ_BY_A_SCRIPT && native.contains_key(SCRIPT_UNIT)) {
            let message = format!("`{unit}` of systemd is not imported");
            (message, "change the native unit that takes its place".to_string())
        } else {
            continue;
        };
        let message = format!("{message}; this drop-in has no effect");
        let warning = Diagnostic::of_file(Severity::Warning, "unused-drop-in", path, message);
        found.push(warning.with_hint(hint));
    }
    found
}

/// Returns the hint that names a native drop-in for the same purpose.
fn native_form(unit: &str, path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    let file = file.strip_suffix(".conf").unwrap_or(file);
    format!("write native keys in /etc/groundstate/units/{unit}.d/{file}.yaml")
}

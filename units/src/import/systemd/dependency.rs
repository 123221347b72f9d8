//! Dependencies. systemd separates requirement and order. A unit that is both pulled in and ordered
//! becomes an entry of one native key. A unit that is only pulled in, or only ordered, becomes an
//! entry of another key.

use super::conversion::Conversion;
use super::replacement;
use super::table::partly;
use super::unit_name::{Suffix, UnitName, unescape_path};
use super::unit_text::UnitOption;
use crate::text::name::Name;
use crate::text::yaml::Spot;
use crate::unit::mount_name;
use std::collections::BTreeSet;

/// Another unit in a directive.
pub(super) struct Other<'a> {
    name: UnitName,
    option: &'a UnitOption,
    at: Spot,
}

impl Other<'_> {
    /// Returns the native target, with a `?` if it may be missing.
    fn target(&self, optional: bool) -> String {
        let target = native_target(&self.name.to_string());
        if optional { format!("{target}?") } else { target }
    }
}

/// Returns the native target of a unit name.
pub(crate) fn native_target(name: &str) -> String {
    replacement::goal(name).unwrap_or(name).to_string()
}

pub(super) fn convert(this: &mut Conversion<'_>) {
    let after = others(this, &["After"]);
    let before = others(this, &["Before"]);
    let mut order = Order { after: names(&after), before: names(&before) };
    order.implied(this);
    // The strongest directive about a unit counts.
    let mut said = BTreeSet::new();
    bound(this, &order, &mut said);
    required(this, &order, &mut said);
    wanted(this, &order, &mut said);
    for (key, others) in [("after", after), ("before", before)] {
        for other in &others {
            if !is_native(this, other, key) {
                continue;
            }
            if key == "after" && said.contains(&other.name) {
                this.record_outcome(
                    other.option,
                    super::import_outcome::Outcome::Kept(key.to_string()),
                );
            } else {
                this.add(key, &other.target(false), Some(other.option), other.at);
            }
        }
    }
    propagated(this);
    job_modes(this);
    conflicts(this);
    mounts(this);
}

fn names(others: &[Other<'_>]) -> BTreeSet<UnitName> {
    others.iter().map(|other| other.name.clone()).collect()
}

/// Returns all units that directives name.
fn others<'a>(this: &mut Conversion<'a>, directives: &[&str]) -> Vec<Other<'a>> {
    let mut found = Vec::new();
    for directive in directives {
        let options = this.all("Unit", directive);
        for (word, option, at) in this.names(&options) {
            found.push(Other { name: UnitName::of(&word), option, at });
        }
    }
    found
}

/// Returns true if the native key can express the dependency; reports a difference in meaning.
fn is_native<'a>(this: &mut Conversion<'a>, other: &Other<'a>, key: &str) -> bool {
    let option = other.option;
    let name = other.name.to_string();
    match other.name.suffix {
        Some(Suffix::Slice | Suffix::Scope) => {
            this.leave_out(option, "slices and scopes are not units here");
            return false;
        }
        Some(Suffix::Device) => {
            device(this, other, key);
            return false;
        }
        // The expansion of a template's specifiers is unknown here.
        None if this.name.is_template() && name.contains('%') => return true,
        None => {
            let message =
                format!("{}=: `{name}` does not say what kind of unit it is", option.name);
            this.warn(option, "dropped", &message, "");
            return false;
        }
        Some(_) => {}
    }
    if replacement::is_of_journal(&name) {
        this.leave_out(option, "the logger is always there");
        return false;
    }
    if replacement::is_of_shutdown(&name) {
        this.leave_out(option, "a change of goal stops units that are not needed, in order");
        return false;
    }
    if name == "-.mount" {
        this.leave_out(option, "the root is always mounted");
        return false;
    }
    if this.name.is_template() || Name::new(&native_target(&name)).is_ok() {
        return true;
    }
    this.warn(option, "dropped", &format!("{}=: `{name}` is not a unit's name", option.name), "");
    false
}

/// Adds a wait for the file of a device unit.
fn device<'a>(this: &mut Conversion<'a>, other: &Other<'a>, key: &str) {
    let stem = UnitName { suffix: None, ..other.name.clone() }.to_string();
    let path = match unescape_path(&stem) {
        Some(path) if path.starts_with("/sys/subsystem/net/devices/") => {
            path.replacen("/sys/subsystem/net/devices/", "/sys/class/net/", 1)
        }
        Some(path) => path,
        None if this.name.is_template() => stem,
        None => return this.lose(other.option, "it names no device"),
    };
    // The instance of a template is escaped, but the path is not.
    let path = path.replace("%i", "%I").replace("%p", "%P").replace("%j", "%J");
    if matches!(key, "wants" | "before" | "conflicts") {
        return this.leave_out(other.option, "a device appears by itself");
    }
    this.add("wait-file", &path, Some(other.option), other.at);
}

/// The units in `After=` and `Before=`.
struct Order {
    after: BTreeSet<UnitName>,
    before: BTreeSet<UnitName>,
}

impl Order {
    /// Adds implied orders: a trigger before the unit it triggers, a target after units it pulls
    /// in.
    fn implied(&mut self, this: &mut Conversion<'_>) {
        let service = this.name.suffix == Some(Suffix::Service);
        for suffix in [Suffix::Socket, Suffix::Timer, Suffix::Path].into_iter().filter(|_| service)
        {
            self.after.insert(this.own().with_suffix(suffix));
        }
        for other in sockets(this) {
            self.after.insert(other.name);
        }
        if this.name.suffix == Some(Suffix::Target) {
            for other in others(this, &["Wants", "Requires", "BindsTo", "Upholds"]) {
                if !self.before.contains(&other.name) {
                    self.after.insert(other.name);
                }
            }
        }
    }
}

fn sockets<'a>(this: &mut Conversion<'a>) -> Vec<Other<'a>> {
    let options = this.all("Service", "Sockets");
    let words = this.names(&options).into_iter();
    words.map(|(word, option, at)| Other { name: UnitName::of(&word), option, at }).collect()
}

/// `BindsTo=`, `Requisite=`.
fn bound(this: &mut Conversion<'_>, order: &Order, said: &mut BTreeSet<UnitName>) {
    for other in others(this, &["BindsTo", "BindTo"]) {
        if !is_native(this, &other, "depends-on") {
            continue;
        }
        if !order.after.contains(&other.name) {
            let message = format!("{}=: {}", other.option.name, partly::BOUND);
            this.warn(other.option, "ordering-added", &message, "");
        }
        let optional = replacement::is_own(&other.name.to_string());
        this.add("depends-on", &other.target(optional), Some(other.option), other.at);
        said.insert(other.name);
    }
    for other in others(this, &["Requisite", "RequisiteOverridable"]) {
        if is_native(this, &other, "requires-active") {
            this.add("requires-active", &other.target(false), Some(other.option), other.at);
            this.add("restart-with", &other.target(false), Some(other.option), other.at);
        }
    }
}

/// Handles `Requires=`: a milestone if ordered, otherwise only a pull.
fn required(this: &mut Conversion<'_>, order: &Order, said: &mut BTreeSet<UnitName>) {
    let mut required = others(this, &["Requires", "RequiresOverridable"]);
    required.extend(sockets(this));
    for other in required {
        if said.contains(&other.name) || !is_native(this, &other, "depends-ms") {
            this.record_outcome(other.option, super::import_outcome::Outcome::Silent);
            continue;
        }
        let optional = replacement::is_own(&other.name.to_string());
        // A socket listens at once, and is itself ordered before the unit it activates.
        let instant =
            other.name.suffix == Some(Suffix::Socket) && !order.before.contains(&other.name);
        if order.after.contains(&other.name) || instant {
            this.add("depends-ms", &other.target(optional), Some(other.option), other.at);
        } else {
            let ordered = order.before.contains(&other.name);
            if !ordered && !optional {
                let message =
                    format!("{}={}: {}", other.option.name, other.name, partly::UNORDERED);
                this.warn(other.option, "order-missing", &message, "");
            }
            this.add("wants", &other.target(false), Some(other.option), other.at);
        }
        this.add("restart-with", &other.target(false), Some(other.option), other.at);
        said.insert(other.name);
    }
}

/// `Wants=`, `Upholds=`.
fn wanted(this: &mut Conversion<'_>, order: &Order, said: &mut BTreeSet<UnitName>) {
    for other in others(this, &["Wants", "Upholds"]) {
        if said.contains(&other.name) || !is_native(this, &other, "wants") {
            this.record_outcome(other.option, super::import_outcome::Outcome::Silent);
            continue;
        }
        if other.option.name == "Upholds" {
            this.warn(other.option, "dropped", &upholds("Upholds"), "");
        }
        if order.after.contains(&other.name) {
            this.add("waits-for", &other.target(true), Some(other.option), other.at);
            said.insert(other.name);
        } else {
            this.add("wants", &other.target(false), Some(other.option), other.at);
        }
    }
}

/// Returns the warning about `Upholds=` or `UpheldBy=`.
pub(super) fn upholds(directive: &str) -> String {
    format!("{directive}=: {}", partly::UPHELD)
}

/// Handles units that restart or reload with others, and units that a failure activates.
fn propagated(this: &mut Conversion<'_>) {
    for (directives, key) in [
        (["PartOf", "StopPropagatedFrom"], "restart-with"),
        (["ReloadPropagatedFrom", "PropagateReloadFrom"], "reload-with"),
        (["OnFailure", "-"], "on-failure"),
        (["OnSuccess", "-"], "on-success"),
    ] {
        for other in others(this, &directives) {
            if !is_native(this, &other, key) {
                continue;
            }
            this.add(key, &other.target(false), Some(other.option), other.at);
            if other.option.name == "StopPropagatedFrom" {
                let message = format!("StopPropagatedFrom=: {}", partly::STOPPED_WITH);
                this.warn(other.option, "dropped", &message, "");
            }
        }
    }
}

/// Reports the job modes of `OnFailure=` and `OnSuccess=`. Init has no jobs: such units are added
/// to the goal.
fn job_modes(this: &mut Conversion<'_>) {
    for name in ["OnFailureJobMode", "OnSuccessJobMode"] {
        let Some(option) = this.last("Unit", name) else { continue };
        match option.value.as_str() {
            "replace" | "replace-irreversibly" | "fail" => {
                this.leave_out(option, "there are no jobs; the target joins the goal");
            }
            _ => this.lose(option, partly::JOB_MODE),
        }
    }
}

fn conflicts(this: &mut Conversion<'_>) {
    for other in others(this, &["Conflicts"]) {
        let name = other.name.to_string();
        if replacement::ends_the_goal(&name) {
            this.leave_out(other.option, "a change of goal stops units that are not needed");
        } else if is_native(this, &other, "conflicts") {
            this.add("conflicts", &other.target(false), Some(other.option), other.at);
        }
    }
}

/// `RequiresMountsFor=`, and `WantsMountsFor=`, which waits for a mount and can do without.
fn mounts(this: &mut Conversion<'_>) {
    let options = this.all("Unit", "RequiresMountsFor");
    for (path, option, at) in this.words(&options) {
        this.add("needs-path", &path, Some(option), at);
    }
    let options = this.all("Unit", "WantsMountsFor");
    for (path, option, at) in this.words(&options) {
        for target in mount_name::names(&path) {
            this.add("waits-for", &format!("{target}?"), Some(option), at);
        }
    }
}

//! `[Install]`: units that pull the unit in while it is enabled, its aliases, and the default
//! instance of a template. Also the targets that the unit provides.

use super::conversion::Conversion;
use super::dependency::{native_target, upholds};
use super::import_outcome::Outcome;
use super::replacement;
use super::table::partly;
use super::unit_name::{Suffix, UnitName};
use crate::text::name::Name;

pub(super) fn convert(this: &mut Conversion<'_>, suffix: Suffix) {
    provides(this, suffix);
    for (directive, key) in
        [("WantedBy", "wanted-by"), ("RequiredBy", "required-by"), ("UpheldBy", "wanted-by")]
    {
        let options = this.all("Install", directive);
        for (word, option, at) in this.names(&options) {
            let name = UnitName::of(&word);
            if name.suffix == Some(Suffix::Device) {
                this.lose(option, "a device does not start units");
            } else if replacement::starts_nothing(&word) {
                if this.record_outcome(option, Outcome::Lost(partly::AT_SHUTDOWN.to_string())) {
                    let message = format!("{directive}={word}: {}", partly::AT_SHUTDOWN);
                    this.warn(option, "dropped", &message, partly::AT_SHUTDOWN_HINT);
                }
            } else if Name::new(&native_target(&word)).is_ok() || this.name.is_template() {
                this.add(key, &native_target(&word), Some(option), at);
                if directive == "UpheldBy" {
                    this.warn(option, "dropped", &upholds(directive), "");
                }
            } else {
                this.lose(option, "it names no unit");
            }
        }
    }
    let options = this.all("Install", "Also");
    for (word, option, _) in this.names(&options) {
        this.leave_out(option, "each unit is enabled by its own name");
        this.also.push(word);
    }
    if let Some(option) = this.last("Install", "DefaultInstance") {
        this.default_instance = Some(option.value.clone());
        if this.name.is_template() {
            this.put("default-instance", &option.value, option);
        }
        this.record_outcome(option, Outcome::Kept("default-instance".to_string()));
    }
}

/// Adds the targets of the unit: its name and aliases, for services and targets also without suffix.
fn provides(this: &mut Conversion<'_>, suffix: Suffix) {
    let at = this.manifest.at;
    let own = this.own();
    let mut names = vec![(own.to_string(), None, at)];
    let options = this.all("Install", "Alias");
    for (word, option, at) in this.names(&options) {
        let alias = UnitName::of(&word);
        if alias.suffix == Some(suffix) && (this.name.is_template() || Name::new(&word).is_ok()) {
            // `b@.service` is also an alias of each instance of `a@.service`.
            let named = match &own.instance {
                Some(instance) if alias.is_template() => alias.with_instance(instance).to_string(),
                Some(_) | None => word,
            };
            names.push((named, Some(option), at));
        } else {
            this.lose(option, "an alias is a unit's name of the same kind");
        }
    }
    for (name, option, at) in &names {
        this.add("provides", name, *option, *at);
    }
    if matches!(suffix, Suffix::Service | Suffix::Target) {
        for (name, _, at) in &names {
            this.add("provides", &UnitName::of(name).stem(), None, *at);
        }
    }
}

//! Reports about directives, and their outcomes. The first one about a directive counts.

use super::conversion::Conversion;
use super::import_outcome::{ImportOutcome, Outcome};
use super::span;
use super::table::{self, Gap, Grade, When};
use super::unit_text::{UnitOption, UnitText};
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::yaml::Spot;
use std::collections::BTreeSet;

impl<'a> Conversion<'a> {
    pub(super) fn unsupported(&mut self, option: &'a UnitOption) {
        let grade = table::find(&option.section, &option.name).map(|row| row.grade);
        match grade.unwrap_or(Grade::Plain) {
            Grade::Free => {
                self.record_outcome(option, Outcome::Silent);
            }
            // `PrivateTmp=no`: nothing was restricted.
            Grade::Sandbox if span::boolean(&option.value) == Some(false) => {
                self.leave_out(option, "this value requests nothing");
            }
            Grade::Sandbox => {
                if self.record_outcome(option, Outcome::Weaker("not supported yet".to_string())) {
                    self.weaker.push(option);
                }
            }
            Grade::Plain => {
                let outcome = Outcome::Lost("not supported yet".to_string());
                if self.record_outcome(option, outcome) {
                    let message = format!("{}= is not supported yet: dropped", option.name);
                    self.warn(option, "not-supported", &message, "");
                }
            }
        }
    }

    /// Sets the file of the last diagnostic to that of this option, which may be a drop-in.
    pub(super) fn file_of_last(&mut self, option: &UnitOption) {
        if let Some(said) = self.manifest.diagnostics.last_mut() {
            said.at.file = option.file.clone();
        }
    }

    /// Records the outcome of a directive. Only the first one counts; returns false for later ones.
    pub(super) fn record_outcome(&mut self, option: &UnitOption, outcome: Outcome) -> bool {
        #[cfg(test)]
        self.walked.set(self.walked.get() + 1);
        let at = option.place();
        if !self.told.insert(at.clone()) {
            return false;
        }
        self.outcomes.push(ImportOutcome {
            section: option.section.clone(),
            name: option.name.clone(),
            value: option.value.clone(),
            at,
            outcome,
        });
        true
    }

    /// Reports a directive that is left out on purpose.
    pub(super) fn leave_out(&mut self, option: &UnitOption, why: &str) {
        self.record_outcome(option, Outcome::ByDesign(why.to_string()));
    }

    /// Reports a directive that is left out with an effect.
    pub(super) fn lose(&mut self, option: &UnitOption, how: &str) {
        if self.record_outcome(option, Outcome::Lost(how.to_string())) {
            let message = format!("{}= is dropped: {how}", option.name);
            self.warn(option, "dropped", &message, "");
        }
    }

    /// Reports the parts of kept directives that are not honoured, once per directive and file.
    pub(super) fn tell_gaps(&mut self) {
        let mut told: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        let used = |gap: &Gap, value: &str| match gap.when {
            When::Used => !value.is_empty(),
            When::Value(affected) => affected(value),
            When::Told => false,
        };
        for option in self.options.clone() {
            for gap in table::gaps(&option.section, &option.name) {
                let once = (gap.how, option.name.as_str(), option.file.as_ref());
                if used(gap, &option.value) && told.insert(once) {
                    self.note(option, &format!("{}=: {}", option.name, gap.how));
                }
            }
        }
    }

    /// Reports a part of the directive that is not honoured.
    pub(super) fn note(&mut self, option: &UnitOption, message: &str) {
        self.manifest.tell_at(Severity::Note, "partly", option.at, message, "");
        self.file_of_last(option);
    }

    /// Adds a warning about a directive.
    pub(super) fn warn(&mut self, option: &UnitOption, code: &str, message: &str, hint: &str) {
        self.manifest.tell_at(Severity::Warning, code, option.at, message, hint);
        self.file_of_last(option);
    }

    /// Reports a directive that makes the unit unusable.
    pub(super) fn refuse(&mut self, option: &UnitOption, message: &str, hint: &str) {
        self.refuse_at(option, option.at, message, hint);
    }

    /// Like [`Conversion::refuse`], at a place within the value.
    pub(super) fn refuse_at(&mut self, option: &UnitOption, at: Spot, message: &str, hint: &str) {
        self.record_outcome(option, Outcome::Refused(message.to_string()));
        self.manifest.tell_at(Severity::Error, "import", at, message, hint);
        self.file_of_last(option);
    }

    /// Makes the unit unusable for a reason that no single directive has.
    pub(super) fn refuse_unit(&mut self, message: &str) {
        self.manifest.tell_at(Severity::Error, "import", self.manifest.at, message, "");
    }

    pub(super) fn tell_sections(&mut self, texts: &[UnitText]) {
        for (name, at) in texts.iter().flat_map(|text| &text.sections) {
            if !table::SECTIONS.contains(&name.as_str()) && !name.starts_with("X-") {
                let message = format!("unknown section [{name}], passed over");
                self.manifest.tell_at(Severity::Warning, "unknown-section", *at, &message, "");
            }
        }
    }

    /// Adds one diagnostic about all rights that the unit keeps although it asked to drop them.
    pub(super) fn tell_weaker(&mut self) {
        let weaker = std::mem::take(&mut self.weaker);
        let Some(first) = weaker.first() else { return };
        let mut names: Vec<&str> = weaker.iter().map(|option| option.name.as_str()).collect();
        names.dedup();
        let message = format!("runs weaker than asked: {}", names.join(", "));
        let severity = if self.around.strict_sandbox { Severity::Error } else { Severity::Warning };
        let hint = "these are not supported yet";
        self.manifest.tell_at(severity, "weaker", first.at, &message, hint);
        self.file_of_last(first);
        if let Some(said) = self.manifest.diagnostics.last_mut() {
            said.related = weaker.iter().skip(1).map(|option| option.place()).collect();
            said.related.truncate(limit::DIAGNOSTICS_PER_FILE);
        }
    }
}

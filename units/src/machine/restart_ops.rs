//! Operations on runs that leave the goal alone: restart, reload and retry. Each applies to all
//! named units or to none.

use super::mutant::Mutant;
use super::phase::{Form, Phase};
use super::wish::{refusal, unknown};
use super::{Ix, Machine};
use crate::graph::Provider;
use crate::machine::action::Action;
use crate::machine::reason::Refusal;
use crate::spec::DependencyKind;
use crate::text::name::Name;
use crate::text::time::Time;
use crate::unit::generation::UnitId;
use std::collections::BTreeSet;

impl Machine {
    /// Returns the units an operator names, or a refusal if any of them is not usable.
    fn named(&self, names: &[Name]) -> Result<Vec<Ix>, Refusal> {
        let mut units = Vec::new();
        for name in names {
            match self.graph.meant(&self.generation, name) {
                Provider::Unit(unit) => {
                    if let Some(broken) = self.graph.broken(unit) {
                        let message =
                            format!("{name} is broken: {}: {}", broken.at, broken.message);
                        return Err(refusal("broken", message, "correct the file, then reload"));
                    }
                    units.push(unit.0);
                }
                Provider::Masked => {
                    let (message, hint) = match self.dropped(name) {
                        Some(dropped) => (
                            format!("{name} is dropped from the goal"),
                            format!("`initctl unwant {dropped}` takes that back"),
                        ),
                        None => (format!("{name} is masked"), format!("`initctl unmask {name}`")),
                    };
                    return Err(refusal("masked", message, &hint));
                }
                Provider::NoUnit => return Err(unknown(&self.generation, name)),
            }
        }
        Ok(units)
    }

    pub(super) fn restart(&mut self, names: &[Name]) -> Result<(), Refusal> {
        for ix in self.named(names)? {
            if self.cell(ix).phase.is_up() {
                self.ask_restart(ix);
                if let Phase::Stopping(_, stop) = &mut self.cell_mut(ix).phase {
                    stop.forgive();
                    stop.follow();
                }
            } else {
                self.forgive(ix, false);
            }
        }
        Ok(())
    }

    pub(super) fn retry(&mut self, names: &[Name]) -> Result<(), Refusal> {
        for ix in self.named(names)? {
            self.cell_mut(ix).connection_lost = false;
            self.forgive(ix, true);
        }
        Ok(())
    }

    pub(super) fn reload_unit(
        &mut self,
        now: Time,
        names: &[Name],
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let units = self.named(names)?;
        for (ix, name) in units.iter().zip(names) {
            if !self.is_working(*ix) {
                return Err(refusal("not-running", format!("{name} is not running"), ""));
            }
            if !self.has_reload(*ix) {
                let message = format!("{name} has no exec-reload or reload-signal");
                return Err(refusal("no-reload", message, "`initctl restart` replaces it"));
            }
        }
        for ix in self.reload_with(units) {
            self.reloading(now, ix, false);
            if let Some(run) = self.cell(ix).phase.run() {
                out.push(Action::ReloadUnit { name: self.name(ix), run: run.id });
            }
        }
        Ok(())
    }

    /// Adds, transitively, the units that reload with these and can reload.
    fn reload_with(&self, units: Vec<Ix>) -> Vec<Ix> {
        let mut all = units;
        let named = all.len();
        let mut seen: BTreeSet<Ix> = all.iter().copied().collect();
        let mut at = 0;
        while let Some(ix) = all.get(at).copied() {
            let last = at >= named && self.planted(Mutant::ReloadsOneStep);
            at += 1;
            if last || self.planted(Mutant::ReloadsAlone) {
                continue;
            }
            let back = self.graph.back(UnitId(ix)).iter();
            let with = back.filter(|back| back.kind == DependencyKind::ReloadWith);
            for other in with.map(|back| back.dependent.0) {
                if self.is_working(other) && self.has_reload(other) && seen.insert(other) {
                    all.push(other);
                }
            }
        }
        all
    }

    /// The unit is running or reloading, and does not have to stop.
    fn is_working(&self, ix: Ix) -> bool {
        let cell = self.cell(ix);
        let works = |form: &Form| matches!(form, Form::Running { .. } | Form::Reloading { .. });
        matches!(&cell.phase, Phase::Ready(_, form, _) if works(form)) && !cell.must_stop
    }

    fn has_reload(&self, ix: Ix) -> bool {
        self.cell(ix).phase.run().is_some_and(|run| run.definition.has_exec_reload)
    }
}

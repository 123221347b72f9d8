//! What the operator may do to a run and leave the goal alone: replace it, let it
//! reload, forgive its unit. All that are named, or none.

use super::phase::{Form, Phase};
use super::wish::{refusal, unknown};
use super::{Ix, Machine};
use crate::graph::Provider;
use crate::machine::action::Action;
use crate::machine::reason::Refusal;
use crate::name::Name;
use crate::time::Time;

impl Machine {
    /// The units an operator names, usable ones only; all or none.
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
                    let message = format!("{name} is masked");
                    return Err(refusal("masked", message, "`initctl unmask` it"));
                }
                Provider::Nobody => return Err(unknown(&self.generation, name)),
            }
        }
        Ok(units)
    }

    pub(super) fn restart(&mut self, names: &[Name]) -> Result<(), Refusal> {
        for ix in self.named(names)? {
            if self.cell(ix).phase.is_up() {
                self.ask_restart(ix);
            } else {
                self.forgive(ix, false);
            }
        }
        Ok(())
    }

    pub(super) fn retry(&mut self, names: &[Name]) -> Result<(), Refusal> {
        for ix in self.named(names)? {
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
            let cell = self.cell(*ix);
            let running = matches!(
                cell.phase,
                Phase::Ready(_, Form::Running { .. } | Form::Reloading { .. }, _)
            );
            let can = cell.phase.run().is_some_and(|run| run.definition.has_exec_reload);
            if !running || cell.must {
                return Err(refusal("not-running", format!("{name} is not running"), ""));
            }
            if !can {
                let message = format!("{name} has no exec-reload");
                return Err(refusal("no-reload", message, "`initctl restart` replaces it"));
            }
        }
        for ix in units {
            self.reloading(now, ix, false);
            if let Some(run) = self.cell(ix).phase.run() {
                out.push(Action::ReloadUnit { name: run.definition.name.clone(), run: run.id });
            }
        }
        Ok(())
    }
}

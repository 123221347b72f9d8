//! Compares two machines field by field, for tests and the simulator. The fields that the machine
//! updates event by event must equal the same fields when they are derived from scratch. Not part
//! of PID 1.

use super::Machine;
use super::cell::Cell;
use std::fmt::Debug;

/// Errors with the field's name and both values if they differ.
fn same<T: Debug + PartialEq>(field: &str, is: &T, should: &T) -> Result<(), String> {
    if is == should {
        return Ok(());
    }
    Err(format!("{field} is {is:?}, should be {should:?}"))
}

/// Compares these fields of two values of one type. The list is complete: the compiler refuses a
/// field that is neither compared nor named as omitted.
macro_rules! same_fields {
    ($one:expr, $other:expr, $type:ident { $($field:ident),* $(,)? },
     omitted { $($(#[$when:meta])? $omitted:ident),* $(,)? }) => {{
        let $type { $($field,)* $($(#[$when])? $omitted: _,)* } = $one;
        $(same(stringify!($field), $field, &$other.$field)?;)*
    }};
}

impl Machine {
    /// Errors with the first derived field that does not follow from the others, or with work that
    /// a step has left undone.
    pub fn audit(&self) -> Result<(), String> {
        if self.search_due || self.exit_code.is_some() {
            return Err("the step ended before its work was done".into());
        }
        let mut derived = self.clone();
        derived.derive();
        self.same(&derived)?;
        for ix in self.all() {
            same("shown", &self.cell(ix).shown, &self.shown(ix))
                .map_err(|why| format!("{}: {why}", self.name(ix)))?;
        }
        Ok(())
    }

    /// Errors with the first field in which the two differ.
    pub fn same(&self, other: &Machine) -> Result<(), String> {
        if self.cells.len() != other.cells.len() {
            return Err(format!("{} cells, should be {}", self.cells.len(), other.cells.len()));
        }
        for ix in self.all() {
            let cells = Machine::same_cell(self.cell(ix), other.cell(ix));
            cells.map_err(|why| format!("{}: {why}", self.name(ix)))?;
        }
        same_fields!(
            self,
            other,
            Machine {
                policy,
                wish,
                booted,
                shutdown_deadline,
                ending,
                exit_code,
                removed_units,
                runs,
                next_run,
                timers,
                queue,
                touched,
                may_stop,
                may_start,
                may_start_freely,
                slots,
                slots_used,
                search_due,
                triggers,
                stop_order,
                stop_order_cut,
                holders,
                followers,
            },
            omitted {
                #[cfg(feature = "sim")]
                mutant,
                generation,
                graph,
                faults,
                cells,
                empty,
                visited,
                changed,
                all_changed
            }
        );
        Ok(())
    }

    fn same_cell(one: &Cell, other: &Cell) -> Result<(), String> {
        same_fields!(
            one,
            other,
            Cell {
                phase,
                failures,
                recent,
                verdict,
                last,
                connection_lost,
                ended,
                untried,
                triggered,
                brought,
                needed,
                conflict,
                broken,
                rank,
                must_stop,
                closed_gates,
                failed_deps,
                dependents_up,
                facets,
                queued,
                touched,
                shown,
                since,
            },
            omitted { changed }
        );
        Ok(())
    }
}
